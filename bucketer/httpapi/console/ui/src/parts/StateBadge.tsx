// How a run, a job, a step or an operation stands: a shape, a word and a colour, so that no one of them
// is needed to tell.

import { Icon, type IconName } from './Icon';

interface Look {
  icon: IconName;
  /** The tone of it: a class in parts.css. */
  tone: string;
}

const looks: Record<string, Look> = {
  // of runs, steps and attempts
  pending: { icon: 'ring', tone: 'still' },
  waiting: { icon: 'clock', tone: 'wait' },
  stuck: { icon: 'warning', tone: 'warn' },
  running: { icon: 'play', tone: 'run' },
  retrying: { icon: 'again', tone: 'warn' },
  succeeded: { icon: 'check', tone: 'good' },
  failed: { icon: 'cross', tone: 'bad' },
  cancelled: { icon: 'slash', tone: 'still' },
  missed: { icon: 'diamond', tone: 'miss' },
  skipped: { icon: 'skip', tone: 'still' },
  timed_out: { icon: 'clock', tone: 'bad' },
  lost: { icon: 'warning', tone: 'bad' },
  superseded: { icon: 'slash', tone: 'still' },
  // of jobs and workflows
  active: { icon: 'play', tone: 'good' },
  paused: { icon: 'pause', tone: 'warn' },
  finished: { icon: 'square', tone: 'still' },
  // of operations and dead letters
  done: { icon: 'check', tone: 'good' },
  replayed: { icon: 'again', tone: 'good' },
  discarded: { icon: 'slash', tone: 'still' },
  // of nodes and checks
  ready: { icon: 'check', tone: 'good' },
  'not ready': { icon: 'cross', tone: 'bad' },
  silent: { icon: 'warning', tone: 'bad' },
};

const unknown: Look = { icon: 'dots', tone: 'still' };

export function lookOf(state: string): Look {
  return looks[state] ?? unknown;
}

/** `words` says it otherwise than the API does. */
export function StateBadge({ state, words }: { state: string; words?: string }) {
  const look = lookOf(state);
  return (
    <span class={`state tone-${look.tone}`}>
      <Icon name={look.icon} size={14} />
      {words ?? state.replace('_', ' ')}
    </span>
  );
}
