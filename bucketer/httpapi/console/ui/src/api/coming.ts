// What the API answers that its document may not say yet. Once the document says it, the generated
// types do, and the interface here goes.

import type { LatenessClass } from '../lateness';

export interface Whoami {
  tenant: string;
  /** It may speak for every tenant: a key of the system tenant, or no keys are asked for. */
  tenants_all: boolean;
  role: 'viewer' | 'operator' | 'admin';
  auth: boolean;
  read_only: boolean;
  actor: string;
  node: string;
  version: string;
  /** The caller came by the cookie of a session. */
  session: boolean;
  time: string;
}

export interface LatenessRank {
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
}

export interface MinuteCounts {
  minute: string;
  due: number;
  started: number;
  succeeded: number;
  failed: number;
  missed: number;
  retried: number;
  lateness?: LatenessRank & { classes?: LatenessClass[] | null };
  /** The minute is under way: the counts are of now. */
  running?: boolean;
}

export interface MinuteList {
  items: MinuteCounts[];
  scope?: 'tenant' | 'all';
}

export type TopBy = 'tenant' | 'task' | 'job' | 'host';

export interface TopSums {
  due: number;
  started: number;
  succeeded: number;
  failed: number;
  missed: number;
  retried: number;
  late: number;
  lateness?: LatenessRank;
}

export interface TopItem extends TopSums {
  name: string;
  tenant?: string;
}

export interface TopList {
  items: TopItem[];
  others?: TopSums;
  kept: number;
}

export interface UpcomingMinutes {
  items: { minute: string; runs: number; estimated?: boolean }[];
  sampled_shards?: number;
  shards?: number;
  as_of?: string;
}

export interface Check {
  name: string;
  ok: boolean;
  message?: string;
}

/** What a member of the cluster says of itself. */
export interface MemberHealth {
  ready?: boolean;
  checks?: Check[] | null;
  slots?: { total: number; used: number; waiting?: number };
  started_at?: string;
}

export interface HostHealth {
  name: string;
  up: boolean;
  message?: string;
}

/** How Cassandra or NATS stands. */
export interface ServersHealth {
  ok: boolean;
  message?: string;
  hosts?: HostHealth[] | null;
}

export interface ClusterHealth {
  as_of?: string;
  shards_as_of?: string;
  store?: ServersHealth;
  /** waiting: messages that no executor holds yet. */
  queue?: ServersHealth & { waiting?: number; held?: number };
}
