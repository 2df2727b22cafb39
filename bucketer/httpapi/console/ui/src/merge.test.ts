import { describe, expect, it } from 'vitest';
import { holdsNull, patchOf, threeWay, valueAt, withValue } from './merge';

describe('patchOf', () => {
  it('names what changed alone', () => {
    expect(
      patchOf({ a: 1, b: { c: 2, d: 3 }, e: [1] }, { a: 1, b: { c: 4 }, e: [1, 2], f: 'x' }),
    ).toEqual({ b: { c: 4, d: null }, e: [1, 2], f: 'x' });
  });
  it('is empty for the same', () => {
    expect(patchOf({ a: { b: [1, { c: null }] } }, { a: { b: [1, { c: null }] } })).toEqual({});
  });
});

describe('values at paths', () => {
  it('are read and written', () => {
    expect(valueAt({ a: { b: 1 } }, 'a.b')).toBe(1);
    expect(valueAt({ a: 1 }, 'a.b')).toBeUndefined();
    expect(withValue({ a: { b: 1 } }, 'a.c', 2)).toEqual({ a: { b: 1, c: 2 } });
    expect(withValue({}, 'a.b.c', 2)).toEqual({ a: { b: { c: 2 } } });
  });
  it('take what is empty away', () => {
    expect(withValue({ a: { b: 1 }, d: 2 }, 'a.b', undefined)).toEqual({ d: 2 });
  });
  it('leave the old object alone', () => {
    const old = { a: { b: 1 } };
    withValue(old, 'a.b', 2);
    expect(old).toEqual({ a: { b: 1 } });
  });
});

describe('threeWay', () => {
  const base = { priority: 'normal', schedule: { cron: '0 9 * * *', timezone: 'UTC' }, labels: { team: 'a' }, payload: { x: 1 } };
  it('takes changes of different things', () => {
    const mine = { ...base, priority: 'high' };
    const theirs = { ...base, schedule: { ...base.schedule, timezone: 'Europe/Berlin' } };
    const m = threeWay(base, mine, theirs);
    expect(m.conflicts).toEqual([]);
    expect(m.onlyMine).toEqual(['priority']);
    expect(m.onlyTheirs).toEqual(['schedule.timezone']);
    expect(m.merged).toEqual({ ...mine, schedule: theirs.schedule });
  });
  it('finds what both changed, and does not look into payloads', () => {
    const m = threeWay(
      base,
      { ...base, schedule: { ...base.schedule, cron: '0 8 * * *' }, payload: { x: 2 } },
      { ...base, schedule: { ...base.schedule, cron: '0 7 * * *' }, payload: { x: 1, y: 1 } },
    );
    expect(m.conflicts.map((c) => c.path)).toEqual(['schedule.cron', 'payload']);
    expect(valueAt(m.merged, 'schedule.cron')).toBe('0 7 * * *');
  });
  it('has no conflict where both did the same, or one removed what the other left', () => {
    const m = threeWay(base, { ...base, labels: undefined, priority: 'low' }, { ...base, priority: 'low' });
    expect(m.conflicts).toEqual([]);
    expect('labels' in m.merged).toBe(false);
  });
});

describe('holdsNull', () => {
  it.each([
    [{ a: null }, true],
    [{ a: { b: null } }, true],
    [{ a: [null] }, false],
    [null, false],
    [undefined, false],
  ])('%j', (value, holds) => {
    expect(holdsNull(value)).toBe(holds);
  });
});
