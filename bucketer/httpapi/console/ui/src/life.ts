// The life of a run as stretches of time: what it waited for, its attempts, the pauses between. Pure.

import type { Run } from './api/types';
import { hasEnded, missedWord } from './runs';
import { whyOf } from './words';

export interface Stretch {
  /** `queued`: its message was published. `received`: an executor had it, and has not begun. */
  kind: 'ahead' | 'wait' | 'queued' | 'received' | 'attempt' | 'pause';
  from: number;
  to: number;
  /** It has not ended: `to` is now, or when it is expected to end. */
  open: boolean;
  /** How an attempt ended, "running" if it has not. */
  outcome?: string;
  number?: number;
}

export interface Moment {
  at: number;
  words: string;
  /** It is expected, and may not come so. */
  expected?: boolean;
  tone?: string;
}

export interface Life {
  begin: number;
  end: number;
  stretches: Stretch[];
  moments: Moment[];
}

/** What holds a run back, by the word of the API for it. */
const heldBy: Record<string, string> = {
  concurrency: 'job’s limit',
  rate: 'task’s rate',
  slot: 'lack of a slot',
  limit: 'task’s limit',
  breaker: 'target’s circuit breaker',
  target_share: 'target’s share of the slots',
  region: 'region that it requires',
  tenant_share: 'tenant’s share of the slots',
  pool: 'labels that it requires',
};

const ms = (at: string | undefined): number | undefined => (at ? Date.parse(at) : undefined);

function endWords(run: Run): string {
  if (run.state !== 'missed') {
    return run.state;
  }
  return missedWord(run) === 'skipped' ? 'was skipped' : 'was given up: missed';
}

/** What has been of a run by now, and what is expected of it. */
export function lifeOf(run: Run, now: number): Life {
  const due = Date.parse(run.due_at);
  const nominal = Date.parse(run.nominal_at);
  const stretches: Stretch[] = [];
  const moments: Moment[] = [];
  if (nominal !== due) {
    moments.push({ at: nominal, words: 'time of its schedule' });
  }
  const over = ms(run.finished_at);
  if (over !== undefined && over < due && !run.started_at) {
    moments.push({ at: due, words: 'it would have been due' });
  } else {
    moments.push({ at: due, words: nominal < due ? 'due, by the jitter of its job' : 'due', expected: due > now });
  }
  if (due > now && !hasEnded(run)) {
    stretches.push({ kind: 'ahead', from: now, to: due, open: true });
    moments.push({ at: now, words: 'now' });
  }
  const attempts = run.attempts ?? [];
  let from = due;
  for (const [i, a] of attempts.entries()) {
    const started = ms(a.started_at) ?? from;
    const finished = ms(a.finished_at);
    const n = a.number;
    const published = ms(a.published_at);
    const received = ms(a.received_at);
    for (const [kind, begin, end] of [
      [i === 0 ? 'wait' : 'pause', from, published ?? started],
      ['queued', published ?? started, received ?? started],
      ['received', received ?? started, started],
    ] as const) {
      // A message may be out before its run is due: that is nobody's delay.
      const begun = Math.max(begin, from);
      if (end > begun) {
        stretches.push({ kind, from: begun, to: end, open: false });
      }
    }
    if (published !== undefined && received !== undefined) {
      moments.push({ at: published, words: `attempt ${n} published to the executors` });
      moments.push({ at: received, words: `attempt ${n} received${a.executor ? ` by ${a.executor}` : ''}` });
    }
    moments.push({ at: started, words: `attempt ${n} began${a.executor ? ` on ${a.executor}` : ''}` });
    const to = finished ?? Math.max(now, started);
    const outcome = a.outcome ?? 'running';
    stretches.push({ kind: 'attempt', from: started, to, open: finished === undefined, outcome, number: n });
    if (finished !== undefined) {
      moments.push({ at: finished, words: `attempt ${n} ${outcome.replace('_', ' ')}`, tone: outcome });
    }
    from = Math.max(from, to);
  }
  const running = attempts.some((a) => !a.finished_at) && !hasEnded(run);
  const next = ms(run.next_attempt_at) ?? ms(run.deferred_until);
  if (!hasEnded(run) && !running && due <= now) {
    const to = Math.max(next ?? now, now);
    stretches.push({ kind: attempts.length === 0 ? 'wait' : 'pause', from, to, open: true });
    if (next !== undefined) {
      moments.push({ at: next, words: attempts.length === 0 ? 'tried next' : 'next attempt', expected: true });
    }
  }
  const wait = run.waiting ?? run.waited;
  const held = ms(wait?.since);
  if (wait && held !== undefined && held > due) {
    moments.push({ at: held, words: `held back by its ${heldBy[whyOf(wait.reason).word] ?? 'limits'}` });
  }
  const finished = ms(run.finished_at);
  if (finished !== undefined) {
    if (attempts.length === 0 && finished > due) {
      stretches.push({ kind: 'wait', from: due, to: finished, open: false });
    }
    moments.push({
      at: finished,
      words: `the run ${endWords(run)}`,
      tone: run.state,
    });
  }
  moments.sort((a, b) => a.at - b.at);
  const ends = [...stretches.flatMap((s) => [s.from, s.to]), ...moments.map((m) => m.at)];
  const begin = Math.min(...ends);
  const end = Math.max(...ends, begin + 1);
  return { begin, end, stretches, moments };
}
