// What is said of operations in several places. Pure.

import type { ProgressPart } from './parts/Progress';

export interface OperationLike {
  action: string;
  dry_run?: boolean | undefined;
  state: string;
  matched: number;
  changed: number;
  unchanged: number;
  failed: number;
  running?: number | undefined;
  filter: {
    state?: string | undefined;
    label?: string | undefined;
    name_prefix?: string | undefined;
    from?: string | undefined;
    to?: string | undefined;
    task?: string | undefined;
    error_pattern?: string | undefined;
  };
  backfill?: { job_id: string; job_name?: string | undefined; from: string; to: string } | undefined;
}

/** What each action did to one, in a word. */
const done: Record<string, string> = {
  cancel: 'cancelled',
  pause: 'paused',
  resume: 'resumed',
  trigger: 'run now',
  retry: 'run again',
  replay: 'replayed',
  discard: 'discarded',
  backfill: 'asked for',
};

export function doneWord(action: string): string {
  return done[action] ?? 'done';
}

/** What an action is for: jobs, runs, or dead letters. */
export function nounOf(op: Pick<OperationLike, 'action' | 'filter' | 'backfill'>): 'job' | 'run' | 'dead letter' | 'time' {
  if (op.backfill || op.action === 'backfill') {
    return 'time';
  }
  if (op.action === 'replay' || op.action === 'discard') {
    return 'dead letter';
  }
  return op.filter.from || op.filter.to || op.action === 'retry' ? 'run' : 'job';
}

/** What an operation is: "Pause jobs", "Dry run: retry runs", "Backfill nightly-report". */
export function titleOf(op: Pick<OperationLike, 'action' | 'filter' | 'backfill' | 'dry_run'>): string {
  if (op.action === 'unknown') {
    return 'An operation that is not understood';
  }
  const what = op.backfill ? (op.backfill.job_name ?? op.backfill.job_id) : `${nounOf(op)}s`;
  const words = `${op.action} ${what}`;
  return op.dry_run ? `Dry run: ${words}` : words.charAt(0).toUpperCase() + words.slice(1);
}

/** What it acts on, without times: "state failed, task send-email". */
export function filterWords(op: Pick<OperationLike, 'filter'>): string {
  const { state, label, name_prefix: prefix, task, error_pattern: error } = op.filter;
  return [state && `state ${state}`, label && `label ${label}`, prefix && `names that begin with ${prefix}`, task && `task ${task}`, error && `error “${error}”`]
    .filter(Boolean)
    .join(', ');
}

/** Its counts as the parts of a bar. */
export function partsOf(op: OperationLike): ProgressPart[] {
  if (op.dry_run) {
    return [{ name: 'match', n: op.matched, tone: 'run' }];
  }
  const ended = op.changed - (op.backfill ? (op.running ?? 0) : 0) - (op.backfill ? op.failed : 0);
  return [
    { name: op.backfill ? 'ended well' : doneWord(op.action), n: Math.max(0, ended), tone: 'good' },
    { name: 'under way', n: op.backfill ? (op.running ?? 0) : 0, tone: 'run' },
    { name: 'as they were', n: op.unchanged, tone: 'still' },
    { name: op.backfill ? 'ended without success' : 'could not be', n: op.failed, tone: 'bad' },
  ];
}

/** How many there are in all; undefined while that is still being found out. */
export function wholeOf(op: OperationLike): number | undefined {
  return op.backfill || op.state !== 'running' ? op.matched : undefined;
}
