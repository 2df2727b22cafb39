import { describe, expect, it } from 'vitest';
import { ticksOf, timeTicks } from './scale';

describe('ticksOf', () => {
  it.each([
    [1, 3, [1]],
    [7, 3, [5]],
    [10, 5, [2, 4, 6, 8, 10]],
    [1284, 3, [500, 1000]],
    [5, 2, [5]],
    [4000, 4, [1000, 2000, 3000, 4000]],
  ])('to %s, %s of them', (most, count, ticks) => {
    expect(ticksOf(most, count)).toEqual(ticks);
  });
});

describe('timeTicks', () => {
  it('are round on the clock of the zone', () => {
    const from = Date.parse('2026-11-26T03:07:00Z');
    expect(timeTicks(from, from + 3 * 3_600_000, 'Asia/Kathmandu', 4).map((t) => t.text)).toEqual(['09:00', '10:00', '11:00']);
    expect(timeTicks(from, from + 10 * 60_000, 'UTC', 5).map((t) => t.text)).toEqual(['03:08', '03:10', '03:12', '03:14', '03:16']);
  });
  it('name the day at midnight', () => {
    const from = Date.parse('2026-11-26T22:00:00Z');
    expect(timeTicks(from, from + 4 * 3_600_000, 'UTC', 4).map((t) => t.text)).toEqual(['22:00', '23:00', '27 Nov', '01:00']);
  });
  it('follow the clock over its change', () => {
    const from = Date.parse('2027-03-28T00:00:00Z');
    expect(timeTicks(from, from + 3 * 3_600_000, 'Europe/Berlin', 6).map((t) => t.text)).toEqual(['01:00', '01:30', '03:00', '03:30', '04:00', '04:30']);
  });
});
