// What is stated of a tenant: quotas, retention, encryption; as it is told and stated. Pure.

import type { Tenant, TenantRequest } from './api/types';
import { bytes, count, number } from './words';

export interface QuotasLike {
  jobs?: number | undefined;
  runs_per_minute?: number | undefined;
  concurrency?: number | undefined;
  import_lines_per_second?: number | undefined;
  payload_bytes_per_minute?: number | undefined;
}

export const quotaKinds: readonly { name: keyof QuotasLike; label: string; unit: string; about: string }[] = [
  {
    name: 'jobs',
    label: 'Jobs',
    unit: '',
    about: 'That can have many runs and have not ended. They are counted seldom, so a few more may pass.',
  },
  {
    name: 'runs_per_minute',
    label: 'Runs, a minute',
    unit: '/min',
    about: 'Asked for, or started by schedules of jobs. Of what is over, requests are answered 429; the others wait.',
  },
  {
    name: 'concurrency',
    label: 'Runs under way at once',
    unit: '',
    about: 'In the whole cluster; others wait. A run of a workflow counts by its steps.',
  },
  {
    name: 'import_lines_per_second',
    label: 'Lines of imports, a second',
    unit: '/s',
    about: 'An import that is faster is slowed down.',
  },
  {
    name: 'payload_bytes_per_minute',
    label: 'Bytes of payload, a minute',
    unit: '/min',
    about: 'Of the runs that are asked for, imports included.',
  },
];

/** A quota in words: "600/min", "no bound". */
export function quotaWords(quotas: QuotasLike | undefined, name: keyof QuotasLike): string {
  const value = quotas?.[name];
  if (!value) {
    return 'no bound';
  }
  const kind = quotaKinds.find((k) => k.name === name);
  return `${name === 'payload_bytes_per_minute' ? bytes(value) : number(value)}${kind?.unit ?? ''}`;
}

/** What a form holds as quotas; what is no number is named. */
export function readQuotas(texts: Partial<Record<keyof QuotasLike, string>>): { quotas: QuotasLike; faults: Partial<Record<keyof QuotasLike, string>> } {
  const quotas: QuotasLike = {};
  const faults: Partial<Record<keyof QuotasLike, string>> = {};
  for (const { name } of quotaKinds) {
    const text = (texts[name] ?? '').replaceAll(/[,\s]/g, '');
    if (text === '') {
      continue;
    }
    if (/^\d+$/.test(text)) {
      quotas[name] = Number(text);
    } else {
      faults[name] = 'must be a whole number, or empty for no bound';
    }
  }
  return { quotas, faults };
}

/** For how long the history of a tenant's runs is kept, in words. */
export function retentionWords(days: number | undefined): string {
  return days ? count(days, 'day') : 'as long as the cluster keeps it';
}

/** Whether its payloads are stored encrypted, in words. */
export function encryptionWords(on: boolean | undefined): string {
  return on ? 'payloads, outputs and errors are stored encrypted' : 'none';
}

/** What the form of a tenant states. */
export interface TenantTexts {
  weight: string;
  quotas: Partial<Record<keyof QuotasLike, string>>;
  /** Days, or empty. */
  retention: string;
  encrypted: boolean;
}

export interface TenantFaults {
  weight?: string;
  retention?: string;
  quotas: Partial<Record<keyof QuotasLike, string>>;
}

/** A tenant as its form begins. */
export function textsOf(tenant: Tenant): TenantTexts {
  return {
    weight: String(tenant.weight),
    quotas: Object.fromEntries(quotaKinds.map(({ name }) => [name, tenant.quotas[name] ? String(tenant.quotas[name]) : ''])),
    retention: tenant.retention ? String(tenant.retention) : '',
    encrypted: tenant.encrypt_payloads === true,
  };
}

/**
 * The body that states a tenant anew. A PUT states the whole tenant: what the form does not show
 * stays as it is, also what this page does not know.
 */
export function tenantBody(tenant: Tenant, texts: TenantTexts): { body: TenantRequest; faults: TenantFaults; ok: boolean } {
  const { name: _name, created_at: _created, updated_at: _updated, fault: _fault, retention: _days, encrypt_payloads: _sealed, ...kept } = tenant;
  const { quotas, faults: wrong } = readQuotas(texts.quotas);
  const others = Object.fromEntries(Object.entries(tenant.quotas).filter(([name]) => !quotaKinds.some((k) => k.name === name)));
  const faults: TenantFaults = { quotas: wrong };
  const [weight, retention] = [texts.weight.trim(), texts.retention.trim()];
  if (!/^[1-9]\d*$/.test(weight)) {
    faults.weight = 'must be a whole number from 1 on';
  }
  if (!/^([1-9]\d*)?$/.test(retention)) {
    faults.retention = 'must be a whole number of days from 1 on, or empty';
  }
  const body: TenantRequest = {
    ...kept,
    weight: Number(weight),
    quotas: { ...others, ...quotas },
    ...(retention === '' ? {} : { retention: Number(retention) }),
    ...(texts.encrypted ? { encrypt_payloads: true } : {}),
  };
  return { body, faults, ok: !faults.weight && !faults.retention && Object.keys(wrong).length === 0 };
}
