import { describe, expect, it } from 'vitest';
import { latestOf, type Slice } from './latest';

interface Item {
  due_at: string;
}

/** A server with runs at those times, which answers pages of so many. */
function server(times: readonly number[], pageSize = 500, walk = Infinity) {
  const calls: Slice[] = [];
  const read = async (slice: Slice): Promise<{ items: Item[]; next_cursor?: string }> => {
    calls.push(slice);
    const begin = slice.cursor === '' ? slice.from : Number(slice.cursor);
    const end = Math.min(slice.to, begin + walk);
    const found = times.filter((t) => t >= begin && t < end);
    const page = found.slice(0, pageSize);
    const items = page.map((t) => ({ due_at: new Date(t).toISOString() }));
    const next = found.length > pageSize ? (page.at(-1) ?? 0) + 1 : end < slice.to ? end : undefined;
    return next === undefined ? { items } : { items, next_cursor: String(next) };
  };
  return { calls, read };
}

const times = (items: readonly Item[]): number[] => items.map((i) => Date.parse(i.due_at));
const options = { want: 50, guess: 15_000, calls: 24 };

describe('latestOf', () => {
  it('has the latest first, and the whole of a sparse window', async () => {
    const { read, calls } = server([1000, 400_000, 899_999]);
    const found = await latestOf(read, { from: 0, to: 900_000 }, options);
    expect(times(found.items)).toEqual([899_999, 400_000, 1000]);
    expect(found.whole).toBe(true);
    expect(calls.length).toBeLessThan(8);
  });

  it('finds its way where very many are due', async () => {
    const dense = Array.from({ length: 100_000 }, (_, i) => i * 9);
    const { read, calls } = server(dense);
    const found = await latestOf(read, { from: 0, to: 900_000 }, options);
    expect(found.items.length).toBeGreaterThanOrEqual(50);
    expect(times(found.items).slice(0, 2)).toEqual([899_991, 899_982]);
    expect(found.whole).toBe(false);
    // Nothing is missing between what is shown and the end.
    expect(found.items.length).toBe(dense.filter((t) => t >= found.from).length);
    expect(calls.length).toBeLessThan(10);
    const again = server(dense);
    await latestOf(again.read, { from: 0, to: 900_000 }, { ...options, guess: found.span });
    expect(again.calls.length).toBeLessThan(4);
  });

  it('gives up when it takes too long, and says how far it came', async () => {
    const { read } = server([100_000], 500, 1000);
    const found = await latestOf(read, { from: 0, to: 900_000 }, { ...options, calls: 20 });
    expect(found.items).toEqual([]);
    expect(found.whole).toBe(false);
    expect(found.from).toBeGreaterThan(100_000);
  });

  it('does not loop where all are due at one instant', async () => {
    const { read, calls } = server(Array.from({ length: 5000 }, () => 800_000));
    const found = await latestOf(read, { from: 0, to: 900_000 }, options);
    expect(found.whole).toBe(false);
    expect(calls.length).toBeLessThanOrEqual(24);
  });
});
