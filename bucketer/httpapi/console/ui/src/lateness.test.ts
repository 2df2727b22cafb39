import { describe, expect, it } from 'vitest';
import { bandFrom, bandOf, bands, lateCount, merge, rank, spread, total } from './lateness';

describe('bands', () => {
  it.each([
    [0, '≤ 1 ms'],
    [1, '≤ 1 ms'],
    [1.01, '≤ 2 ms'],
    [50, '≤ 50 ms'],
    [51, '≤ 100 ms'],
    [1000, '≤ 1 s'],
    [1001, '≤ 2 s'],
    [300_000, '≤ 5 min'],
    [300_001, '> 5 min'],
  ])('%s ms is in %s', (ms, label) => {
    expect(bands[bandOf(ms)]?.label).toBe(label);
  });
  it('are late from a second on', () => {
    expect(bands.filter((b) => b.late).map((b) => b.label)[0]).toBe('≤ 2 s');
  });
  it('begin where the one before ends', () => {
    expect(bandFrom(0)).toBe(0);
    expect(bandFrom(bandOf(1500))).toBe(1000);
  });
});

const classes = [
  { up_to_ms: 1, count: 60 },
  { up_to_ms: 20, count: 30 },
  { up_to_ms: 1000, count: 8 },
  { up_to_ms: 5000, count: 2 },
];

describe('counts', () => {
  it('spreads all of them over the bands', () => {
    const counts = spread(classes);
    expect(counts.reduce((a, b) => a + b)).toBe(total(classes));
    expect(counts[bandOf(20)]).toBe(30);
  });
  it('counts what is late', () => {
    expect(lateCount(classes)).toBe(2);
    expect(lateCount(classes, 10)).toBe(40);
  });
  it('ranks', () => {
    expect(rank(classes, 0.5)).toBe(1);
    expect(rank(classes, 0.9)).toBe(20);
    expect(rank(classes, 0.99)).toBe(5000);
    expect(rank([], 0.5)).toBeUndefined();
  });
  it('merges minutes', () => {
    expect(merge([classes, [{ up_to_ms: 20, count: 1 }, { up_to_ms: 2, count: 5 }]])).toEqual([
      { up_to_ms: 1, count: 60 },
      { up_to_ms: 2, count: 5 },
      { up_to_ms: 20, count: 31 },
      { up_to_ms: 1000, count: 8 },
      { up_to_ms: 5000, count: 2 },
    ]);
  });
});
