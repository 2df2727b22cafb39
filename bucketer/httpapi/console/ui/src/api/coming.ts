// What the API counts, who asks, and how the cluster stands: types of its document, under short names.

import type { components } from './schema';

type Schemas = components['schemas'];

export type Whoami = Schemas['Whoami'];

export type LatenessRank = Schemas['LatenessRank'];
export type MinuteCounts = Schemas['MinuteStats'];
export type MinuteList = Schemas['StatsList'];

export type TopBy = 'tenant' | 'task' | 'job' | 'host';
export type TopSums = Schemas['Sums'];
export type TopItem = Schemas['NameStats'];
export type TopList = Schemas['TopStats'];

export type UpcomingMinutes = Schemas['UpcomingRuns'];

export type Check = Schemas['Check'];
export type HostHealth = Schemas['Host'];
/** How Cassandra or NATS stands. */
export type ServersHealth = Schemas['ClusterHealth'];
/** What a member of the cluster says of itself. */
export type MemberHealth = Partial<Pick<Schemas['Member'], 'ready' | 'checks' | 'slots' | 'started_at'>>;
export type ClusterHealth = Partial<Pick<Schemas['Cluster'], 'as_of' | 'shards_as_of' | 'store' | 'queue'>>;
