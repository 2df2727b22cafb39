// What the API says, in words. Pure.

import { cronWords, everyNth } from './cron';
import { durationText, parseSpan, spanText } from './time';

/** A schedule as the API answers it. */
export interface ScheduleLike {
  at?: string | undefined;
  cron?: string | undefined;
  timezone?: string | undefined;
  every?: string | undefined;
  anchor?: string | undefined;
}

/** A job as far as its schedule goes. */
export interface ScheduledLike {
  schedule?: ScheduleLike | undefined;
  schedules?: readonly ScheduleLike[] | null | undefined;
  on?: { event: string; filter?: string | undefined; delay?: string | undefined } | undefined;
  after?: { jobs: readonly string[] | null; when?: string | undefined } | undefined;
}

/** When a job runs, in words: "at 09:00 on Monday to Friday, Europe/Berlin time". */
export function scheduleWords(job: ScheduledLike): string {
  if (job.on) {
    const filter = job.on.filter ? ', if it matches a filter' : '';
    const delay = job.on.delay && parseSpan(job.on.delay) ? `, ${durationText(job.on.delay)} later` : '';
    return `on the event ${job.on.event}${filter}${delay}`;
  }
  if (job.after) {
    return `after ${jobsInWords(job.after.jobs ?? [])}${whenWords[job.after.when ?? ''] ?? ''}`;
  }
  if (job.schedules?.length) {
    return job.schedules.map((schedule) => scheduleWords({ schedule })).join('; and ');
  }
  const s = job.schedule;
  if (s?.cron) {
    const zone = !s.timezone || s.timezone === 'UTC' ? 'UTC' : `${s.timezone} time`;
    return `${cronWords(s.cron) ?? `by cron ${s.cron}`}, ${zone}`;
  }
  if (s?.every) {
    return everyWords(s.every);
  }
  return s?.at ? 'once' : 'when it is asked to';
}

const whenWords: Record<string, string> = {
  all_succeeded: ', if all succeeded',
  all_done: ', when all have ended',
  any_succeeded: ', when one succeeded',
  any_failed: ', when one failed',
};

function jobsInWords(jobs: readonly string[]): string {
  const shown = jobs.slice(0, 3);
  const more = jobs.length - shown.length;
  if (more > 0) {
    return `${shown.join(', ')} and ${more} more`;
  }
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}

const spans: readonly [name: string, ms: number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
  ['millisecond', 1],
];

/** "every 15 minutes". */
export function everyWords(every: string): string {
  const ms = parseSpan(every);
  if (!ms || ms < 0) {
    return `every ${every}`;
  }
  for (const [name, size] of spans) {
    if (ms % size === 0) {
      return everyNth(ms / size, name);
    }
  }
  return `every ${every}`;
}

/** Why a run waits: its word, and what that means. */
export interface Why {
  word: string;
  meaning: string;
}

const meanings: Record<string, string> = {
  jobs: 'It runs after other jobs, which have not ended.',
  concurrency: 'Its job allows only so many runs at once, and they are under way.',
  rate: 'The rate of its task is used up.',
  slot: 'The time that the rate of its task gave it has come, and it waits for a slot: of the limit of its task, of a quota, of its target or of an executor.',
  limit: 'As many runs of its task are under way as may be at once.',
  quota: 'A quota of its tenant is reached: of runs at once, or of runs a minute.',
  breaker: 'Its target failed again and again: it is left alone for a while.',
  target_share: 'Its target is slow, and has its part of the slots.',
  region: 'Only its region may run it, and another one serves its home now.',
  tenant_share: 'The calls of its tenant are slow, and have their part of the slots.',
  pool: 'No executor that it reached has the labels that it requires.',
};

/** Reads "rate: the rate of its task is used up until then". */
export function whyOf(reason: string): Why {
  const [word = '', ...rest] = reason.split(':');
  const said = rest.join(':').trim();
  const known = meanings[word.trim()];
  if (rest.length === 0) {
    return { word: '', meaning: reason };
  }
  return { word: word.trim(), meaning: known ?? (said || reason) };
}

/** Missed runs by why they were; older nodes do not tell of all. */
export interface MissedFor {
  late: number;
  under_way: number;
  changed: number;
  fault: number;
}

const missedBy: readonly [why: keyof MissedFor, words: string][] = [
  ['under_way', 'skipped, as a run of the job was under way'],
  ['late', 'too late by the policy of the job'],
  ['changed', 'as the job was changed, paused or cancelled before'],
  ['fault', 'as what is stored cannot be read'],
];

/** Why runs were missed: "3 skipped, as a run of the job was under way, 1 too late …". */
export function missedWords(missed: number, why: MissedFor): string {
  const parts = missedBy.filter(([name]) => why[name] > 0).map(([name, words]) => ({ n: why[name], words }));
  const rest = missed - parts.reduce((sum, p) => sum + p.n, 0);
  if (rest > 0) {
    parts.push({ n: rest, words: 'for a reason that was not counted' });
  }
  return parts.length === 1 ? (parts[0]?.words ?? '') : parts.map((p) => `${number(p.n)} ${p.words}`).join('; ');
}

/** "1 run", "1,284 runs". */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** "1,284". */
export function number(n: number): string {
  return n.toLocaleString('en-GB');
}

/** "950", "12.3 k", "1.28 M": for tiles. */
export function shortNumber(n: number): string {
  const size = Math.abs(n);
  if (size < 10_000) {
    return number(size < 10 && !Number.isInteger(n) ? Math.round(n * 10) / 10 : Math.round(n));
  }
  if (size < 1_000_000) {
    return `${(n / 1000).toFixed(size < 100_000 ? 1 : 0)} k`;
  }
  return `${(n / 1_000_000).toFixed(size < 100_000_000 ? 2 : 0)} M`;
}

/** A share in per cent, which says 100 % and 0 % only if it is that. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) {
    return '–';
  }
  const share = (part / whole) * 100;
  if (share === 0 || share === 100) {
    return `${share} %`;
  }
  if (share > 99.9) {
    return '> 99.9 %';
  }
  if (share < 0.1) {
    return '< 0.1 %';
  }
  return `${share.toFixed(share > 10 && share < 99 ? 0 : 1)} %`;
}

/** "12 B", "3.4 KiB", "1 MiB". */
export function bytes(n: number): string {
  for (const [unit, size] of [
    ['GiB', 1 << 30],
    ['MiB', 1 << 20],
    ['KiB', 1 << 10],
  ] as const) {
    if (n >= size) {
      return `${Number((n / size).toFixed(1))} ${unit}`;
    }
  }
  return `${n} B`;
}

const perUnit: Record<string, string> = { s: 'second', m: 'minute', h: 'hour' };

/** A rate such as "10/m": "10 runs a minute". */
export function rateWords(rate: string): string {
  const [, n = '', unit = ''] = /^(\d+)\/([smh])$/.exec(rate) ?? [];
  return unit === '' ? rate : `${count(Number(n), 'run')} ${unit === 'h' ? 'an' : 'a'} ${perUnit[unit]}`;
}

/** What the jitter of a job means for its times, the offset of which is so long, in ms. */
export function spreadWords(ms: number): string {
  return `Each run is due ${spanText(ms)} after the time of its schedule: the job keeps this offset, its jitter, so that jobs of the same time do not all start at once.`;
}

const misfires: Record<string, string> = {
  run_all: 'all late runs are made up for',
  run_latest: 'of late runs only the latest is made up for',
  skip: 'late runs are given up',
};

/** What becomes of late runs: "late runs are given up, up to 1 h". */
export function misfireWords({ policy, deadline }: { policy: string; deadline?: string | undefined }): string {
  return `${misfires[policy] ?? policy}${deadline ? `, up to ${durationText(deadline)}` : ''}`;
}

const onLimits: Record<string, string> = {
  queue: 'further runs wait',
  skip: 'further runs are skipped',
  cancel_oldest: 'the oldest is cancelled',
};

/** How many runs may be under way: "at most 3 runs; further runs wait". With a key, of each value that it has. */
export function limitWords({
  limit,
  on_limit: then = 'queue',
  key,
}: {
  limit: number;
  on_limit?: string | undefined;
  key?: string | undefined;
}): string {
  return `at most ${count(limit, 'run')}${key ? ` for each value at ${key} in the payload` : ''}; ${onLimits[then] ?? then}`;
}

/** Which jobs count as the same: "no other with the same task and payload/customer/id within 1 h". */
export function uniqueWords({ by, window }: { by: readonly string[]; window: string }): string {
  const named = by.length < 2 ? by.join('') : `${by.slice(0, -1).join(', ')} and ${by.at(-1)}`;
  return `no other with the same ${named} within ${durationText(window)}`;
}

/** How often a run was stopped to let a critical one start; undefined if it never was. */
export function preemptedWords(times: number | undefined): string | undefined {
  return times ? `${count(times, 'time')}, to let a critical run start; that used no attempt` : undefined;
}
