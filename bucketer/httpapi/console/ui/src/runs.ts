// What is said of runs in several places. Pure.

import type { Attempt, Run } from './api/types';
import { spanText } from './time';
import { whyOf } from './words';

/** The states a run may have, in the order of its life. */
export const runStates = [
  'pending',
  'waiting',
  'stuck',
  'running',
  'retrying',
  'succeeded',
  'failed',
  'missed',
  'cancelled',
  'skipped',
] as const;

/** Whether a run has come to its end. */
export function hasEnded(run: Pick<Run, 'state'>): boolean {
  return ['succeeded', 'failed', 'cancelled', 'missed', 'skipped'].includes(run.state);
}

/** What a run is of, as people call it. */
export function nameOf(run: Run): string {
  if (run.step) {
    return `${run.job_name ?? ''} › ${run.step}${run.item === undefined ? '' : ` [${run.item}]`}`.replace(/^ › /, '');
  }
  return run.job_name || run.task || 'one-off job';
}

/** The attempt that is under way, or else the last one. */
export function lastAttempt(run: Pick<Run, 'attempts'>): Attempt | undefined {
  return run.attempts?.at(-1);
}

/** Why it failed: all that its last attempt says, or else how the error of the run begins. */
export function errorOf(run: Pick<Run, 'attempts' | 'error'>): string | undefined {
  return lastAttempt(run)?.error ?? run.error;
}

/**
 * Of runs listed by job: those of the job itself. Others repeat one of them, and say nothing of how
 * the job does.
 */
export function ownRuns(runs: readonly Run[]): Run[] {
  return runs.filter((run) => run.origin === undefined);
}

/** How many of its attempts ended otherwise than well. */
export function failedAttempts(run: Pick<Run, 'attempts'>): number {
  return (run.attempts ?? []).filter((a) => a.outcome === 'failed' || a.outcome === 'timed_out' || a.outcome === 'lost').length;
}

/** How long a run took from its first start to its end, in ms. */
export function tookMs(run: Run, now: number): number | undefined {
  if (!run.started_at) {
    return undefined;
  }
  const end = run.finished_at ? Date.parse(run.finished_at) : hasEnded(run) ? undefined : now;
  return end === undefined ? undefined : Math.max(0, end - Date.parse(run.started_at));
}

export interface Wait {
  /** A sentence on what it waits for. */
  text: string;
  /** The word of the API for it: "rate"; "" if it is none of its words. */
  word: string;
  since?: string | undefined;
  until?: string | undefined;
}

/** Why a run has not started, or does not go on; undefined if it does. */
export function whyItWaits(run: Run, now: number): Wait | undefined {
  if (hasEnded(run)) {
    return undefined;
  }
  if (run.waiting) {
    const why = whyOf(run.waiting.reason);
    const text =
      why.word === 'jobs'
        ? `It runs after jobs that have not ended:${run.waiting.reason.split(':').slice(2).join(':')}`
        : why.meaning;
    return { text, word: why.word, since: run.waiting.since, until: run.deferred_until };
  }
  if (run.state === 'retrying') {
    const n = run.attempts?.length ?? 0;
    return { text: `Attempt ${n} failed. It is tried again after a pause.`, word: 'retry', until: run.next_attempt_at };
  }
  if (run.state === 'pending') {
    const due = Date.parse(run.due_at);
    if (due > now) {
      return { text: 'It is not due yet.', word: 'due', until: run.due_at };
    }
    if (now - due > 3000) {
      return {
        text: `It has been due for ${spanText(now - due)}, and no executor has begun it.`,
        word: 'late',
        since: run.due_at,
      };
    }
    return { text: 'It is due, and on its way to an executor.', word: 'due', since: run.due_at };
  }
  if (run.state === 'waiting' || run.state === 'stuck') {
    return { text: run.reason ?? 'It waits.', word: '', until: run.deadline_at };
  }
  return undefined;
}

/** Why a run was missed, by the word of the API for it: "skipped"; "" if it does not say. */
export function missedWord(run: Pick<Run, 'missed'>): string {
  return run.missed?.reason?.split(':')[0] ?? '';
}

/** What a list says of a run: why it failed, waits, or was given up; "" if nothing is to be said. */
export function saidOf(run: Run, now: number): string {
  const failing = run.state === 'failed' || run.state === 'retrying';
  return (
    run.fault ??
    run.missed?.reason ??
    run.cancel_reason ??
    (failing ? run.error : undefined) ??
    run.reason ??
    whyItWaits(run, now)?.text ??
    ''
  );
}
