// What is said of jobs in several places, and jobs as one asks for them. Pure.

import type { Job } from './api/types';
import type { Json, JsonObject } from './merge';
import { isObject } from './merge';
import { messageKinds, targetWords, type WorkLike } from './target';

export const jobStates = ['active', 'paused', 'finished', 'cancelled'] as const;

/** What a job does: "task send-email", "POST https://example.com/hook". */
export function workWords(job: WorkLike & { task?: string | undefined }): string {
  return job.task ? `task ${job.task}` : targetWords(job) || '–';
}

/** The name of a job, or its id where it has none. */
export function nameOfJob(job: Pick<Job, 'id' | 'name'>): string {
  return job.name || job.id;
}

/** Whether it can have many runs. Only such a job has a name, also one that is only triggered. */
export function canRepeat(job: Pick<Job, 'schedule' | 'on' | 'after'> & Partial<Pick<Job, 'name' | 'schedules'>>): boolean {
  return Boolean(job.name || job.schedule.cron || job.schedule.every || job.schedules?.length || job.on || job.after);
}

/** The zone in which a job's times are meant; undefined if it has none of its own. */
export function zoneOfJob(job: Pick<Job, 'schedule'> | undefined): string | undefined {
  return job?.schedule.cron ? job.schedule.timezone || 'UTC' : undefined;
}

/** By how much a run is due after the time of its schedule, in ms: the offset that its job keeps. */
export function spreadOf(run: { due_at: string; nominal_at: string } | undefined): number {
  return run ? Math.max(0, Date.parse(run.due_at) - Date.parse(run.nominal_at)) : 0;
}

export const whenKinds = ['now', 'at', 'cron', 'every', 'on', 'after'] as const;
export type WhenKind = (typeof whenKinds)[number];

export const workKinds = ['task', 'http', 'nats', 'script', 'lambda', ...messageKinds] as const;
export type WorkKind = (typeof workKinds)[number];

/** How a body says when the job runs. */
export function whenOf(body: JsonObject): WhenKind {
  if (body.on !== undefined) {
    return 'on';
  }
  if (body.after !== undefined) {
    return 'after';
  }
  const schedule = isObject(body.schedule) ? body.schedule : {};
  return (['cron', 'every', 'at'] as const).find((kind) => schedule[kind] !== undefined) ?? 'now';
}

export function workOf(body: JsonObject): WorkKind {
  return workKinds.find((kind) => body[kind] !== undefined) ?? 'task';
}

/** Fields that only a job that can have many runs has, and of those, which go with a schedule alone. */
export const repeatedFields = ['name', 'concurrency', 'start', 'end', 'max_runs', 'jitter'] as const;
export const scheduleFields = ['start', 'end', 'max_runs', 'jitter'] as const;
/** Fields that stand with the task, if there is one. */
export const limitFields = ['timeout', 'retry', 'guarantee'] as const;

/** The fields of a job that one may ask for, as it stands. */
const asked = [
  'name',
  'task',
  'http',
  'nats',
  'script',
  'lambda',
  ...messageKinds,
  'timeout',
  'retry',
  'guarantee',
  'schedule',
  'schedules',
  'start',
  'end',
  'max_runs',
  'jitter',
  'concurrency',
  'pause_on_failure',
  'on',
  'after',
  'payload',
  'priority',
  'preemptible',
  'requires',
  'labels',
  'misfire',
  'durability',
] as const;

/** A job as one would ask for it: the body of a form that changes it. */
export function requestOf(job: Job): JsonObject {
  const body: JsonObject = {};
  for (const name of asked) {
    const value = (job as Record<string, unknown>)[name] as Json | undefined;
    if (value !== undefined && value !== '' && !(isObject(value) && Object.keys(value).length === 0)) {
      body[name] = structuredClone(value);
    }
  }
  return body;
}

/** A schedule as POST /v1/schedules/preview is asked for its times. */
export interface PreviewAsked {
  schedule?: JsonObject;
  schedules?: Json;
  jitter?: Json | undefined;
  start?: Json | undefined;
  end?: Json | undefined;
}

/** What the times of a job's body are asked for by; undefined: no schedule says when it runs. */
export function previewOf(body: JsonObject): PreviewAsked | undefined {
  const { schedule, schedules, jitter, start, end } = body;
  if (Array.isArray(schedules) && schedules.length > 0) {
    return { schedules, jitter, start, end };
  }
  const named = isObject(schedule) && (schedule.cron ?? schedule.every) !== undefined;
  return named ? { schedule, jitter, start, end } : undefined;
}

/** The schedule of a job as its times are asked for by, whatever its ends; undefined: it has none. */
export function timesOf(job: Job): Pick<PreviewAsked, 'schedule' | 'schedules'> | undefined {
  const asked = previewOf(requestOf(job));
  return asked && (asked.schedule ? { schedule: asked.schedule } : { schedules: asked.schedules ?? [] });
}

/** Lines of "name: value" or "name=value" as an object; the faults name lines. */
export function readPairs(text: string, mark: ':' | '='): { pairs: Record<string, string>; faults: string[] } {
  const pairs: Record<string, string> = {};
  const faults: string[] = [];
  for (const [i, line] of text.split('\n').entries()) {
    if (line.trim() === '') {
      continue;
    }
    const at = line.indexOf(mark);
    const name = line.slice(0, at).trim();
    if (at < 1 || name === '') {
      faults.push(`line ${i + 1} is not of the form name${mark}value`);
    } else if (name in pairs) {
      faults.push(`line ${i + 1} has ${name} again`);
    } else {
      pairs[name] = line.slice(at + 1).trim();
    }
  }
  return { pairs, faults };
}

export function writePairs(pairs: Json | undefined, mark: ': ' | '='): string {
  return isObject(pairs)
    ? Object.entries(pairs)
        .map(([name, value]) => `${name}${mark}${String(value)}`)
        .join('\n')
    : '';
}

/** A stretch in which a job was paused. */
export interface Pause {
  from: number;
  by: string;
  /** The operation that paused it, with others; "" if somebody paused it alone. */
  operation: string;
  /** Undefined: it is paused still, or that it was resumed is not told. */
  to: number | undefined;
  resumedBy: string;
}

/** The operation that an entry of the audit log says to be a part of; "" if it says none. */
export function operationOf(note: string | undefined): string {
  return /\bby operation (\S+)$/.exec(note ?? '')?.[1] ?? '';
}

/** When a job was paused, by what the audit log tells of it; the latest first, as the entries. */
export function pausesOf(entries: readonly { at: string; action: string; actor: string; note?: string | undefined }[]): Pause[] {
  const out: Pause[] = [];
  let end: { at: string; actor: string } | undefined;
  for (const e of entries) {
    if (e.action === 'resume') {
      end = e;
    } else if (e.action === 'pause') {
      out.push({
        from: Date.parse(e.at),
        by: e.actor,
        operation: operationOf(e.note),
        to: end === undefined ? undefined : Date.parse(end.at),
        resumedBy: end?.actor ?? '',
      });
      end = undefined;
    }
  }
  return out;
}

export interface WhyNotFacts {
  /** The instant that was asked about, in ms. */
  at: number;
  job: Pick<Job, 'state' | 'created_at' | 'updated_at'> & { start?: string | undefined; end?: string | undefined };
  /** Whether its schedule, as it is now, names the minute of the instant; undefined: it has none. */
  named: boolean | undefined;
  /** Runs that were due about then. */
  runs: number;
  /** The audit log tells of a pause then. */
  paused?: boolean;
  /** What the audit log tells of the job is known. */
  audited?: boolean;
}

/** Why a job may not have run at an instant, as far as can be told without its runs. */
export function whyNot({ at, job, named, runs, paused = false, audited = false }: WhyNotFacts): string[] {
  const out: string[] = [];
  const before = (text: string | undefined): boolean => text !== undefined && text !== '' && at < Date.parse(text);
  if (runs > 0) {
    return out;
  }
  if (before(job.created_at)) {
    out.push('The job did not exist yet.');
    return out;
  }
  if (before(job.start)) {
    out.push('The job starts later: it has a start, before which it has no runs.');
  }
  if (job.end && !before(job.end)) {
    out.push('The job had ended: it has no runs from its end on.');
  }
  if (named === false) {
    out.push('Its schedule, as it is now, names no time in that minute.');
  }
  if (paused) {
    return out;
  }
  if (job.state === 'paused') {
    out.push('The job is paused now. While it is paused it has no runs.');
  } else if (job.state !== 'active') {
    out.push(`The job is ${job.state} now.`);
  }
  if (before(job.updated_at) && !audited) {
    out.push(
      'The job was changed, paused or resumed since: it may have been otherwise then. Its revisions say how it was.',
    );
  }
  if (out.length === 0) {
    out.push(
      named === undefined
        ? 'Nothing asked for a run then.'
        : 'The schedule names that minute, and there is no run of it: it may have left, since runs are kept for a time only.',
    );
  }
  return out;
}

/** What a pause of jobs does, and does not. */
export const pauseWords =
  'None of their runs starts until they are resumed, but for those that are due within seconds: these may have been published already, and start. What is under way goes on.';

/** Said when a job or a workflow has been paused. */
export const pausedWords = 'What is under way goes on, and a run that is due within seconds may still start.';
