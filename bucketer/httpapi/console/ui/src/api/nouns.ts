// The nouns of the API that types.ts does not have, under short names.

import type { components } from './schema';

type Schemas = components['schemas'];

export type APIKey = Schemas['APIKey'];
export type NewAPIKey = Schemas['NewAPIKey'];
export type Secret = Schemas['Secret'];
export type SigningKey = Schemas['SigningKey'];
export type NewSigningKey = Schemas['NewSigningKey'];
export type Tenant = Schemas['Tenant'];
export type Quotas = Schemas['Quotas'];
export type Event = Schemas['Event'];
export type Target = Schemas['TargetOfTenant'];
export type Drawing = Schemas['Drawing'];
export type TaskRequest = Schemas['TaskRequest'];
