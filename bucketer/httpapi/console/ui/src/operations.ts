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
    error?: string | undefined;
    states?: readonly string[] | null | undefined;
    labels?: readonly string[] | null | undefined;
    job?: string | undefined;
    job_name?: string | undefined;
    host?: string | undefined;
    late?: string | undefined;
    key?: string | undefined;
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
  const { state, states, label, labels, name_prefix: prefix, job, job_name: name, task, host, late, key, error_pattern: pattern, error } = op.filter;
  return [
    state && `state ${state}`,
    states && states.length > 0 && `state ${states.join(' or ')}`,
    label && `label ${label}`,
    ...(labels ?? []).map((l) => `label ${l}`),
    prefix && `names that begin with ${prefix}`,
    job && `job ${name || job}`,
    task && `task ${task}`,
    host && `host ${host}`,
    late && `late by more than ${late}`,
    key && `idempotency key ${key}`,
    pattern && `error “${pattern}”`,
    error && `“${error}” in the error`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** What runs are asked for, as the address of their list has it. */
export interface RunsAsked {
  state: readonly string[];
  job: string;
  task: string;
  host: string;
  label: readonly string[];
  late: string;
  key: string;
  error?: string;
  one_off?: string;
  created_by?: string;
}

/** The fields of an operation's filter, besides due times, that select the same runs as a list does. */
export interface RunsSelected {
  state?: string;
  states?: string[];
  label?: string;
  labels?: string[];
  job?: string;
  task?: string;
  host?: string;
  late?: string;
  key?: string;
}

/**
 * What an operation is asked for so that it is for the runs of a list; or why there is no such
 * operation. may: the states in which something can be done.
 */
export function selectRuns(asked: RunsAsked, may: readonly string[]): RunsSelected | string {
  const not = asked.state.filter((state) => !may.includes(state));
  if (not.length > 0) {
    return `Nothing is to be done with runs that are ${not.join(' or ')}. Choose states of ${may.join(', ')}, or none.`;
  }
  if (asked.error || asked.one_off || asked.created_by) {
    return 'Operations cannot select runs by the text of an error, by who made them, or those of one-off jobs alone. Choose runs one by one, or clear that filter.';
  }
  const stated = Object.entries({ job: asked.job, task: asked.task, host: asked.host, late: asked.late, key: asked.key });
  return {
    ...someOf('state', 'states', asked.state),
    ...someOf('label', 'labels', asked.label),
    ...Object.fromEntries(stated.filter(([, value]) => value !== '')),
  } as RunsSelected;
}

/** What a filter says of a list under the name for one, or for many. Those that say nothing are left out. */
export function someOf(one: string, many: string, stated: readonly string[]): Record<string, string | string[]> {
  const list = stated.filter((value) => value !== '');
  return list.length === 0 ? {} : list.length === 1 ? { [one]: list[0] ?? '' } : { [many]: [...list] };
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
