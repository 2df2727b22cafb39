// Whether everything is on time, and if not, why: the sentence that the overview begins with. Pure.

import type { MinuteCounts } from './api/coming';
import { lateCount, merge, rank, type LatenessClass } from './lateness';
import type { Query } from './place';
import { coarse, spanText } from './time';
import { count, missedWords, number, percent, type MissedFor } from './words';

export type Tone = 'good' | 'warn' | 'bad' | 'still';

export interface Reason {
  tone: 'bad' | 'warn';
  text: string;
  /** Where it can be looked into. */
  link?: { path: string; query?: Query; words: string };
}

export interface Verdict {
  tone: Tone;
  /** What a person reads first. */
  headline: string;
  /** The numbers behind it. */
  detail: string;
  reasons: Reason[];
}

/** A node as far as the verdict goes. */
export interface SeenMember {
  name: string;
  ready?: boolean;
  unhealthy?: boolean;
  checks?: readonly { name: string; ok: boolean; message?: string }[] | null;
  slots?: { total: number; used: number; waiting?: number };
  waiting?: readonly SeenWait[] | null;
}

/** Runs that are due and wait, as a node tells of them. */
export interface SeenWait {
  tenant?: string | undefined;
  task?: string | undefined;
  job?: string | undefined;
  reason: string;
  runs: number;
  more?: boolean | undefined;
  oldest_due_at: string;
}

/** Cassandra or NATS, as far as the verdict goes. */
export interface SeenServers {
  ok: boolean;
  message?: string | undefined;
  hosts?: readonly { name: string; up: boolean }[] | null | undefined;
}

/** A cluster as far as the verdict goes. */
export interface SeenCluster {
  store?: SeenServers | undefined;
  queue?: SeenServers | undefined;
  members?: readonly SeenMember[] | null;
  shards?: readonly { shard: number; owner?: string; behind_seconds: number }[] | null;
}

export interface Seen {
  /** The latest minutes, the one under way too. Undefined: nothing is known. */
  minutes: readonly MinuteCounts[] | undefined;
  /** Nodes that did not tell of the minute under way. */
  missing?: readonly string[];
  cluster?: SeenCluster | undefined;
  /** What was called in the last hour, by host. */
  hosts?: readonly SeenHost[] | undefined;
  /** The tenant that lists are of. */
  tenant?: string | undefined;
  /** The server's time when the minutes were told, in ms. */
  now: number;
  /** They are older than they should be, by so much in ms: nobody knows what has been since. */
  old?: number | undefined;
}

/** A host as far as the verdict goes. */
export interface SeenHost {
  name: string;
  tenant?: string | undefined;
  failed: number;
  failed_from?: string | undefined;
  failed_to?: string | undefined;
  succeeded_last?: string | undefined;
  last_error?: string | undefined;
}

/** How many minutes count as now. */
export const recentMinutes = 5;
/** A shard may be so far behind before it is a reason, in s: a minute is published whole, then swept. */
export const behindSeconds = 240;
/** The share of slots that may be used before it is a reason. */
export const slotsFull = 0.95;
/** The share of attempts that may fail before it is a reason. */
export const failingShare = 0.05;

export interface Sums {
  due: number;
  started: number;
  succeeded: number;
  failed: number;
  missed: number;
  missedFor: MissedFor;
  retried: number;
  late: number;
  p50: number | undefined;
  p99: number | undefined;
}

/** The classes of a minute; of one that tells none, those that its ranks leave possible. */
function classesOf({ lateness, started }: MinuteCounts): readonly LatenessClass[] {
  if (!lateness || lateness.classes) {
    return lateness?.classes ?? [];
  }
  const last = Math.ceil(started / 100);
  return [
    { up_to_ms: lateness.p50_ms, count: started - last },
    { up_to_ms: lateness.p99_ms, count: last },
  ];
}

/** The sums of minutes, and the ranks of lateness of all their starts. */
export function sumOf(minutes: readonly MinuteCounts[]): Sums {
  const classes = merge(minutes.map(classesOf));
  const sums: Sums = {
    due: 0,
    started: 0,
    succeeded: 0,
    failed: 0,
    missed: 0,
    missedFor: { late: 0, under_way: 0, changed: 0, fault: 0 },
    retried: 0,
    late: 0,
    p50: rank(classes, 0.5),
    p99: rank(classes, 0.99),
  };
  for (const m of minutes) {
    sums.due += m.due;
    sums.started += m.started;
    sums.succeeded += m.succeeded;
    sums.failed += m.failed;
    sums.missed += m.missed;
    for (const why of ['late', 'under_way', 'changed', 'fault'] as const) {
      sums.missedFor[why] += m.missed_for?.[why] ?? 0;
    }
    sums.retried += m.retried;
    sums.late += m.late ?? lateCount(m.lateness?.classes ?? []);
  }
  return sums;
}

/** The minutes that begin in the last so many minutes. */
export function recent(minutes: readonly MinuteCounts[], now: number, span: number = recentMinutes): MinuteCounts[] {
  const from = Math.floor(now / 60_000) * 60_000 - (span - 1) * 60_000;
  return minutes.filter((m) => Date.parse(m.minute) >= from);
}

/** Starts a second now: of the minute under way, and of the one before while that is young. */
export function rateNow(minutes: readonly MinuteCounts[], now: number): number | undefined {
  const begin = Math.floor(now / 60_000) * 60_000;
  const of = (at: number): MinuteCounts | undefined => minutes.find((m) => Date.parse(m.minute) === at);
  const before = of(begin - 60_000)?.started ?? 0;
  const running = of(begin);
  if (!running) {
    return minutes.length === 0 ? undefined : before / 60;
  }
  // What nodes tell is a second old or two.
  const elapsed = Math.max(0, (now - begin) / 1000 - 1.5);
  return elapsed >= 15 ? running.started / elapsed : (before + running.started) / (60 + elapsed);
}

/** How many missed runs ended so by no rule of their job: too late, not readable, or not known why. */
export function missedBadly(s: Pick<Sums, 'missed' | 'missedFor'>): number {
  return s.missed - s.missedFor.under_way - s.missedFor.changed;
}

/** A wait that is shorter is none to tell of, in ms. */
export const waitFrom = 10_000;

export interface Waits {
  runs: number;
  more: boolean;
  /** Since when the first of them is due, in ms; undefined: none waits. */
  oldest: number | undefined;
  /** By what they wait for, the most first. */
  items: readonly SeenWait[];
}

/** What is due and waits, as all nodes tell it together. */
export function waitsOf(cluster: SeenCluster): Waits {
  const byName = new Map<string, SeenWait>();
  for (const w of (cluster.members ?? []).flatMap((m) => m.waiting ?? [])) {
    const name = JSON.stringify([w.tenant, w.task, w.job, w.reason]);
    const was = byName.get(name);
    byName.set(
      name,
      was
        ? {
            ...was,
            runs: was.runs + w.runs,
            more: was.more || w.more,
            oldest_due_at: was.oldest_due_at < w.oldest_due_at ? was.oldest_due_at : w.oldest_due_at,
          }
        : w,
    );
  }
  const items = [...byName.values()].sort((a, b) => b.runs - a.runs);
  return {
    runs: items.reduce((n, w) => n + w.runs, 0),
    more: items.some((w) => w.more),
    oldest: items.length === 0 ? undefined : Math.min(...items.map((w) => Date.parse(w.oldest_due_at))),
    items,
  };
}

const waitsFor: Record<string, string> = {
  rate: 'for the rate of',
  limit: 'since as many runs are under way as may be of',
  quota: 'since a quota of their tenant is reached:',
  concurrency: 'for the limit of',
  breaker: 'for their target, which failed again and again:',
  target_share: 'for their target, which is slow:',
  region: 'for their region, which alone may run them:',
  tenant_share: 'since calls of their tenant are slow:',
  pool: 'for an executor with the labels that they require:',
};

function waitReason(w: SeenWait, now: number, tenant: string | undefined): Reason {
  const oldest = now - Date.parse(w.oldest_due_at);
  const what = w.task ? `the task ${w.task}` : w.job ? `the job ${w.job}` : 'several tasks and jobs';
  const why = w.reason === 'executors' ? 'until executors take more' : `${waitsFor[w.reason] ?? `(${w.reason}):`} ${what}`;
  return {
    tone: 'warn',
    text: `${count(w.runs, 'run')}${w.more ? ' or more' : ''} ${w.runs === 1 && !w.more ? 'waits' : 'wait'} ${why}. The oldest has been due for ${coarse(oldest)}.`,
    link: {
      path: '/runs',
      query: {
        last: oldest < 50 * 60_000 ? '1h' : oldest < 5.5 * 3_600_000 ? '6h' : '24h',
        state: ['pending', 'retrying'],
        ...(w.task ? { task: w.task } : w.job ? { job: w.job } : {}),
        ...(w.tenant && w.tenant !== tenant ? { tenant: w.tenant } : {}),
      },
      words: 'Show them',
    },
  };
}

/** Runs that were missed of late: they were due long before they were given up. */
export const missedLately: Query = { last: '6h', state: 'missed', of: 'missed' };

/** How many hosts that fail are named. */
const hostsNamed = 2;

/** The hosts that fail now, those first that fail most: which, since when, and with what error. */
export function failingHosts(hosts: readonly SeenHost[], now: number, tenant: string | undefined): Reason[] {
  return hosts
    .filter((h) => h.name !== '' && h.failed > 0 && h.failed_to !== undefined && Date.parse(h.failed_to) >= now - (recentMinutes + 1) * 60_000)
    .sort((a, b) => b.failed - a.failed)
    .slice(0, hostsNamed)
    .map((h) => {
      const since = now - Date.parse(h.failed_from ?? h.failed_to ?? '');
      const nothing = h.succeeded_last === undefined || (h.failed_from !== undefined && h.succeeded_last < h.failed_from);
      return {
        tone: 'warn',
        text: `${nothing ? 'Calls' : 'Some calls'} to ${h.name} have failed for ${since > 58 * 60_000 ? 'an hour or longer' : coarse(Math.max(since, 60_000))}${nothing ? ', and none has succeeded since' : ', and others succeed'}${h.last_error ? `: ${h.last_error}` : ''}.`,
        link: {
          path: '/runs',
          query: {
            last: '1h',
            host: h.name,
            state: ['failed', 'retrying'],
            of: 'attempts',
            ...(h.tenant && h.tenant !== tenant ? { tenant: h.tenant } : {}),
          },
          words: 'Show the runs that call it',
        },
      };
    });
}

export function verdictOf({ minutes, missing = [], cluster, hosts = [], tenant, now, old }: Seen): Verdict {
  if (minutes && old !== undefined) {
    return {
      tone: 'bad',
      headline: 'It is not known whether everything is on time',
      detail: `What is shown is ${coarse(old)} old: nobody has answered since.`,
      reasons: [],
    };
  }
  const reasons = cluster ? clusterReasons(cluster) : [];
  if (!minutes) {
    return {
      tone: reasons.some((r) => r.tone === 'bad') ? 'bad' : reasons.length > 0 ? 'warn' : 'still',
      headline:
        reasons.length > 0 ? 'Something is wrong with the cluster' : 'It is not known whether everything is on time',
      detail: 'There are no counts of what was started.',
      reasons,
    };
  }
  const s = sumOf(recent(minutes, now));
  const share = s.started === 0 ? 0 : s.late / s.started;
  const counts: Reason[] = [];
  if (s.missed > 0) {
    counts.push({
      tone: missedBadly(s) > 0 ? 'bad' : 'warn',
      text: `${count(s.missed, 'run')} never started in the last ${recentMinutes} minutes: ${missedWords(s.missed, s.missedFor)}.`,
      link: { path: '/runs', query: missedLately, words: 'Show them' },
    });
  }
  if (s.late > 0) {
    counts.push({
      tone: share > 0.01 ? 'bad' : 'warn',
      text: `${number(s.late)} of ${count(s.started, 'run')} started more than a second late (${percent(s.late, s.started)}).`,
      link: { path: '/runs', query: { last: '15m', late: '1s', of: 'late' }, words: 'Show them' },
    });
  }
  const waits = cluster
    ? waitsOf(cluster)
        .items.filter((w) => now - Date.parse(w.oldest_due_at) > waitFrom)
        .slice(0, 3)
        .map((w) => waitReason(w, now, tenant))
    : [];
  counts.push(...waits);
  if (waits.length === 0 && s.due > s.started * 1.2 + 50) {
    counts.push({
      tone: 'warn',
      text: `${number(s.due - s.started)} more runs fell due than were started: a backlog grows, or runs wait for limits.`,
      link: { path: '/runs', query: { last: '15m', state: ['pending', 'waiting'] }, words: 'Show what waits' },
    });
  }
  const tried = s.succeeded + s.failed;
  if (s.failed > tried * failingShare) {
    counts.push({
      tone: 'warn',
      text: `${number(s.failed)} of ${count(tried, 'attempt')} failed (${percent(s.failed, tried)}). That is no lateness: the targets answer so.`,
      link: { path: '/runs', query: { last: '15m', state: ['failed', 'retrying'], of: 'attempts' }, words: 'Show the runs' },
    });
    counts.push(...failingHosts(hosts, now, tenant));
  }
  // Of a node that is away the cluster tells more.
  const silent = missing.filter((name) => !cluster?.members?.some((m) => m.name === name && m.ready === false));
  if (silent.length > 0) {
    counts.push({
      tone: 'warn',
      text: `${silent.join(', ')} did not tell what started there in this minute: more may be late than is known.`,
    });
  }
  const all = [...counts, ...reasons].sort((a, b) => Number(a.tone === 'warn') - Number(b.tone === 'warn'));
  const bad = all.some((r) => r.tone === 'bad');
  const detail =
    s.started === 0
      ? `Nothing was started in the last ${recentMinutes} minutes.`
      : `${count(s.started, 'run')} started in the last ${recentMinutes} minutes${ranks(s)}.`;
  return {
    tone: bad ? 'bad' : all.length > 0 ? 'warn' : s.started === 0 ? 'still' : 'good',
    headline: headlineOf(s, share, all, waits.length > 0),
    detail,
    reasons: all,
  };
}

function ranks(s: Sums): string {
  if (s.p50 === undefined || s.p99 === undefined) {
    return '';
  }
  if (s.p50 === Infinity) {
    return ': at least half of them more than 5 min late';
  }
  const most = s.p99 === Infinity ? 'some more than 5 min late' : `99 % within ${spanText(s.p99)}`;
  return `: half of them within ${spanText(s.p50)} of their time, ${most}`;
}

function headlineOf(s: Sums, share: number, reasons: readonly Reason[], waits: boolean): string {
  if (missedBadly(s) > 0) {
    return 'Runs are being missed';
  }
  if (share > 0.01) {
    return 'Runs start late';
  }
  if (s.late > 0) {
    return 'A few runs start late';
  }
  if (waits) {
    return s.started === 0 ? 'Runs wait, and nothing starts' : 'What starts is on time, but runs wait';
  }
  if (s.missed > 0) {
    return 'On time, but runs are skipped';
  }
  if (s.started === 0) {
    return reasons.length > 0 ? 'Something is wrong, and nothing runs' : 'Nothing is late';
  }
  return reasons.length > 0 ? 'On time, but something needs a look' : 'Everything is on time';
}

function clusterReasons(cluster: SeenCluster): Reason[] {
  const reasons: Reason[] = [];
  const look = { path: '/cluster', words: 'Look at the cluster' };
  for (const [name, health] of [
    ['Cassandra', cluster.store],
    ['NATS', cluster.queue],
  ] as const) {
    if (health && !health.ok) {
      reasons.push({
        tone: 'bad',
        text: `${name} is not well${health.message ? `: ${health.message}` : '.'}`,
        link: look,
      });
      continue;
    }
    const down = health?.hosts?.filter((h) => !h.up) ?? [];
    if (down.length > 0) {
      reasons.push({
        tone: 'warn',
        text: `${count(down.length, 'server')} of ${name} ${down.length === 1 ? 'does' : 'do'} not answer: ${down.map((h) => h.name).join(', ')}.`,
        link: look,
      });
    }
  }
  for (const m of cluster.members ?? []) {
    const wrong = m.checks?.find((c) => !c.ok);
    if (m.ready === false || m.unhealthy) {
      const silent = wrong?.name === 'answer';
      reasons.push({
        tone: 'bad',
        text: silent
          ? `The node ${m.name} does not answer.`
          : `The node ${m.name} is not ready${wrong ? `: ${wrong.name}: ${wrong.message ?? 'not well'}` : '.'}`,
        link: look,
      });
    }
  }
  const behind = (cluster.shards ?? []).filter((s) => s.behind_seconds > behindSeconds);
  if (behind.length > 0) {
    const most = Math.max(...behind.map((s) => s.behind_seconds));
    reasons.push({
      tone: 'bad',
      text: `${count(behind.length, 'shard')} ${behind.length === 1 ? 'is' : 'are'} behind, by up to ${coarse(most * 1000)}.`,
      link: look,
    });
  }
  const slots = slotsOf(cluster);
  if (slots && slots.total > 0 && slots.used / slots.total >= slotsFull) {
    reasons.push({
      tone: 'warn',
      text: `${number(slots.used)} of ${number(slots.total)} slots are in use: runs wait for executors.`,
      link: look,
    });
  }
  return reasons;
}

export interface SlotSums {
  total: number;
  used: number;
  waiting: number;
}

/** The slots of all executors that told; undefined if none did. */
export function slotsOf(cluster: SeenCluster): SlotSums | undefined {
  let sums: SlotSums | undefined;
  for (const m of cluster.members ?? []) {
    if (m.slots) {
      sums ??= { total: 0, used: 0, waiting: 0 };
      sums.total += m.slots.total;
      sums.used += m.slots.used;
      sums.waiting += m.slots.waiting ?? 0;
    }
  }
  return sums;
}
