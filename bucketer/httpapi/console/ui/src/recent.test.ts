import { describe, expect, it } from 'vitest';
import { piecesBack, recentOf, type Span } from './recent';

const end = Date.parse('2026-11-26T10:00:00Z');
const window = (ms: number): Span => ({ from: new Date(end - ms), to: new Date(end) });
const told = (spans: readonly Span[]): number[][] => spans.map((s) => [s.from.getTime() - end, s.to.getTime() - end]);

describe('the pieces of a window', () => {
  it.each<[number, number[][]]>([
    [5_000, [[-5_000, 0]]],
    [15_000, [[-15_000, 0]]],
    [60_000, [[-15_000, 0], [-60_000, -15_000]]],
    [3_600_000, [[-15_000, 0], [-300_000, -15_000], [-3_600_000, -300_000]]],
  ])('of %i ms cover it, the last one first', (ms, want) => {
    expect(told(piecesBack(window(ms)))).toEqual(want);
  });
});

describe('the latest of a list', () => {
  const asked: Span[] = [];
  /** One item each second; a page holds at most 300. */
  const fetcher = (piece: Span): Promise<{ items: number[]; next_cursor?: string }> => {
    asked.push(piece);
    const all: number[] = [];
    for (let at = piece.from.getTime(); at < piece.to.getTime(); at += 1000) {
      all.push((at - end) / 1000);
    }
    return Promise.resolve(all.length > 300 ? { items: all.slice(0, 300), next_cursor: 'more' } : { items: all });
  };

  it('is read until there is enough, and no further', async () => {
    asked.length = 0;
    const got = await recentOf(window(3_600_000), 50, fetcher);
    expect(asked.length).toBe(2);
    expect(got.items.length).toBe(300);
    expect([got.items[0], got.items.at(-1)]).toEqual([-1, -300]);
    expect(got.since.getTime() - end).toBe(-300_000);
    expect(got.cut).toBe(false);
  });

  it('says where more came than was read', async () => {
    const got = await recentOf(window(3_600_000), 400, fetcher);
    expect(got.cut).toBe(true);
    expect(got.items.length).toBe(600);
    expect(got.since.getTime() - end).toBe(-3_600_000);
  });

  it('may be nothing', async () => {
    const got = await recentOf(window(60_000), 50, () => Promise.resolve({ items: null }));
    expect(got).toEqual({ items: [], since: window(60_000).from, cut: false });
  });
});
