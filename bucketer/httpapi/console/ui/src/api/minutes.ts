// Counts of minutes. Those that have ended are asked for rarely, the one under way often: together they
// are as new as can be, and cost the node little.

import { useMemo } from 'preact/hooks';
import { serverNow } from '../clock';
import { answer, api, chosenTenant } from './client';
import type { MinuteCounts, MinuteList } from './coming';
import { fast, slow, useLive, type Live } from './live';
import { maySeeAll } from './session';

const minute = 60_000;
/** How many minutes are asked for often: nodes write a minute when it has ended. */
const tailMinutes = 3;

/** The counts are of all tenants, unless the person may not see them, or has chosen a tenant. */
export function scopeOf(): 'all' | 'tenant' {
  return maySeeAll() && chosenTenant.value === '' ? 'all' : 'tenant';
}

/** What is asked for beside a window. */
export function scopeQuery(): { scope?: 'tenant' } {
  // Keys of a tenant need not ask: they get their own.
  return maySeeAll() && chosenTenant.value !== '' ? { scope: 'tenant' } : {};
}

async function minutesOf(span: number, signal: AbortSignal): Promise<MinuteList> {
  const to = Math.floor(serverNow() / minute) * minute + minute;
  const query = { from: new Date(to - span * minute).toISOString(), to: new Date(to).toISOString(), ...scopeQuery() };
  return answer(api.GET('/v1/stats', { params: { query }, signal }));
}

export interface Minutes extends Live<MinuteCounts[]> {
  /** Nodes that did not tell what they counted in the minute under way. */
  missing: readonly string[];
}

/** The counts of the last so many minutes (at most 1440), with the one under way. */
export function useMinutes(span: number): Minutes {
  const tail = useLive('minutes now', (signal) => minutesOf(tailMinutes, signal), { every: fast });
  const past = useLive(`minutes ${span}`, (signal) => minutesOf(span, signal), { every: slow });
  const data = useMemo(
    () => (past.data ? joined(past.data.items, tail.data?.items ?? []) : undefined),
    [past.data, tail.data],
  );
  // The tail tells how fresh it all is, once it is there.
  const { at, problem } = tail.at === undefined ? past : tail;
  const missing = tail.data?.missing_nodes ?? [];
  return { data, at, problem: past.problem ?? problem, loading: past.loading, refresh: past.refresh, missing };
}

/** Minutes of two answers, the later of which is right where both tell. */
export function joined(past: readonly MinuteCounts[], tail: readonly MinuteCounts[]): MinuteCounts[] {
  const first = tail[0]?.minute;
  return first === undefined ? [...past] : [...past.filter((m) => Date.parse(m.minute) < Date.parse(first)), ...tail];
}
