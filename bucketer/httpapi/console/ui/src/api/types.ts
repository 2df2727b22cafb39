// The nouns of the API under short names.

import type { components } from './schema';

type Schemas = components['schemas'];

export type Run = Schemas['Run'];
export type Attempt = Schemas['Attempt'];
export type Job = Schemas['Job'];
export type JobRequest = Schemas['JobRequest'];
export type Preview = Schemas['Preview'];
export type NextRun = Schemas['NextRun'];
export type LogLine = Schemas['LogLine'];
export type FoundLine = Schemas['FoundLine'];
export type LookedAt = Schemas['LookedAt'];
export type Task = Schemas['Task'];
export type Workflow = Schemas['Workflow'];
export type RunStep = Schemas['RunStep'];
export type DeadLetter = Schemas['DeadLetter'];
export type Operation = Schemas['Operation'];
export type AuditEntry = Schemas['AuditEntry'];
export type Member = Schemas['Member'];
export type Cluster = Schemas['Cluster'];
export type Shard = Schemas['Shard'];
export type Regions = Schemas['Regions'];
export type Home = Schemas['Home'];
export type APIKey = Schemas['APIKey'];
export type NewAPIKey = Schemas['NewAPIKey'];
export type Secret = Schemas['Secret'];
export type SigningKey = Schemas['SigningKey'];
export type NewSigningKey = Schemas['NewSigningKey'];
export type Tenant = Schemas['Tenant'];
export type TenantRequest = Schemas['TenantRequest'];
export type Event = Schemas['Event'];
export type Hearers = Schemas['EventHearers'];
export type Target = Schemas['TargetOfTenant'];
export type Drawing = Schemas['Drawing'];
export type TaskRequest = Schemas['TaskRequest'];
export type Notification = Schemas['Notification'];
export type NotificationRequest = Schemas['NotificationRequest'];

/** A page of a list. */
export interface Page<T> {
  items: readonly T[];
  next_cursor?: string | undefined;
}
