// Quotas of a tenant, as they are told and stated. Pure.

import { bytes, number } from './words';

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
