// What the API counts, who asks, and how the cluster stands: types of its document, under short names.

import type { components } from './schema';

type Schemas = components['schemas'];

export type Whoami = Schemas['Whoami'];

export type MinuteCounts = Schemas['MinuteStats'];
export type MinuteList = Schemas['StatsList'];

export type TopBy = 'tenant' | 'task' | 'job' | 'host';
export type TopItem = Schemas['NameStats'];
export type TopList = Schemas['TopStats'];

export type UpcomingMinutes = Schemas['UpcomingRuns'];

export type Check = Schemas['Check'];
/** How Cassandra or NATS stands. */
export type ServersHealth = Schemas['ClusterHealth'];
