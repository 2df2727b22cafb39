import { describe, expect, it } from 'vitest';
import { waitFor } from './again';
import { Problem } from './problem';

const now = Date.parse('2026-11-26T03:10:30.000Z');
const well = { every: 2000, at: now, problem: undefined, failures: 0 };
const away = new Problem(0, 'unreachable', 'The node cannot be reached');
const unready = (after?: number): Problem => new Problem(503, 'not-ready', 'This node cannot write now', '', [], after);

describe('waitFor', () => {
  it('goes by the age of the answer', () => {
    expect(waitFor(well, now)).toBe(2000);
    expect(waitFor({ ...well, at: now - 1500 }, now)).toBe(500);
    expect(waitFor({ ...well, at: now - 60_000 }, now)).toBe(0);
    expect(waitFor({ ...well, every: 0 }, now)).toBeUndefined();
  });
  it('does not wait for a clock that was set back', () => {
    expect(waitFor({ ...well, at: now + 3_600_000 }, now)).toBe(2000);
  });
  it('asks less and less often, and never less than every 15 s', () => {
    const waits = [1, 2, 3, 4, 20].map((failures) => waitFor({ ...well, problem: away, failures }, now));
    expect(waits).toEqual([4000, 8000, 15_000, 15_000, 15_000]);
  });
  it('asks again for what is asked once, if no answer came', () => {
    expect(waitFor({ ...well, every: 0, problem: away, failures: 1 }, now)).toBe(2000);
  });
  it('waits as long as the node says, within reason', () => {
    expect(waitFor({ ...well, problem: unready(20_000), failures: 1 }, now)).toBe(20_000);
    expect(waitFor({ ...well, problem: unready(3_600_000), failures: 1 }, now)).toBe(60_000);
  });
  it('seldom asks for what is refused', () => {
    const refused = new Problem(404, 'not-found', 'There is no such thing');
    expect(waitFor({ ...well, problem: refused, failures: 9 }, now)).toBe(15_000);
    expect(waitFor({ ...well, every: 0, problem: refused, failures: 9 }, now)).toBeUndefined();
  });
  it('begins a list anew soon, of which another node signed the cursor', () => {
    const stale = new Problem(422, 'invalid', 'The request is not valid', '', [
      { location: 'query.cursor', message: 'is not a cursor of this list' },
    ]);
    expect(waitFor({ ...well, problem: stale, failures: 1 }, now)).toBe(4000);
  });
});
