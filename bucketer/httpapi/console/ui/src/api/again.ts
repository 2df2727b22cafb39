// When a question is asked again. Pure.

import type { Problem } from './problem';

/** The longest time between two tries, in ms: so long after its trouble a node may seem to be in it. */
const longest = 15_000;
/** What stands in between may ask for an hour: a person who waits is not told to, in ms. */
const longestAsked = 60_000;

export interface Asked {
  /** How often it is to be asked, in ms; 0: once. */
  every: number;
  /** When the last answer came, by Date.now(). */
  at: number | undefined;
  problem: Problem | undefined;
  /** How often it failed in a row. */
  failures: number;
}

/** How long to wait until it is asked again, in ms; undefined: it is not. */
export function waitFor({ every, at, problem, failures }: Asked, now: number): number | undefined {
  if (!problem) {
    // A clock that was set back since does not make it wait for longer.
    return every === 0 ? undefined : Math.min(every, Math.max(0, every - (now - (at ?? 0))));
  }
  if (!problem.passing && problem.status < 500) {
    // The person may get the right, or the thing may come to be.
    return every === 0 ? undefined : longest;
  }
  const backOff = Math.min(Math.max(every, 1000) * 2 ** Math.min(failures, 5), longest);
  return Math.max(backOff, Math.min(problem.retryAfter ?? 0, longestAsked));
}
