import { describe, expect, it } from 'vitest';
import { arcPath, behindBad, behindLate, goneFor, lanesOf, noteMembers, rangesOf, toneOf } from './ring';

const shard = (n: number, owner: string | undefined, behind = 0): { shard: number; owner?: string; behind_seconds: number } => ({
  shard: n,
  ...(owner === undefined ? {} : { owner }),
  behind_seconds: behind,
});

describe('lanes', () => {
  it('are of members, and of shards without owner', () => {
    const lanes = lanesOf([shard(2, 'b'), shard(0, 'a'), shard(1, 'a'), shard(3, undefined), shard(4, 'a')], ['a', 'b', 'c']);
    expect(lanes.map((l) => [l.owner, l.shards])).toEqual([
      ['a', 3],
      ['b', 1],
      ['c', 0],
      ['', 1],
    ]);
    expect(lanes[0]?.arcs.map((a) => [a.from, a.to])).toEqual([
      [0, 2],
      [4, 5],
    ]);
  });

  it('show one shard that is behind among many', () => {
    const lanes = lanesOf(Array.from({ length: 100 }, (_, i) => shard(i, 'a', i === 50 ? behindBad : 0)), ['a']);
    expect(lanes[0]?.arcs.map((a) => [a.from, a.to, toneOf(a.behind)])).toEqual([
      [0, 50, 'good'],
      [50, 51, 'bad'],
      [51, 100, 'good'],
    ]);
    expect(lanes[0]?.behind).toBe(behindBad);
    expect(toneOf(behindLate)).toBe('warn');
  });

  it('are told in words', () => {
    expect(rangesOf([{ from: 0, to: 4 }, { from: 4, to: 5 }, { from: 7, to: 8 }])).toBe('0–4, 7');
    expect(rangesOf(Array.from({ length: 20 }, (_, i) => ({ from: 2 * i, to: 2 * i + 1 })), 2)).toBe('0, 2 and 18 more pieces');
    expect(rangesOf([])).toBe('');
  });
});

describe('arcs', () => {
  const numbers = (path: string): number[] => (path.match(/-?\d+(?:\.\d+)?/g) ?? []).map(Number);

  it('begin above and go with the clock', () => {
    const path = arcPath(0, 1, 4, 50, 100);
    expect(path).toMatch(/^M[\d.]+ -(?:100|99\.\d+)A100 100 0 0 1 (?:100|99\.\d+) -?[\d.]+L/);
    expect(path.endsWith('Z')).toBe(true);
  });

  it('are large where they are more than a half', () => {
    expect(arcPath(0, 3, 4, 50, 100)).toContain('A100 100 0 1 1');
    expect(arcPath(0, 1, 4, 50, 100)).toContain('A100 100 0 0 1');
  });

  it('are two halves where they are whole', () => {
    expect(arcPath(0, 8, 8, 50, 100).match(/M/g)).toHaveLength(2);
    expect(arcPath(0, 1, 1, 50, 100).match(/M/g)).toHaveLength(2);
    expect(arcPath(0, 0, 0, 50, 100).match(/M/g)).toHaveLength(2);
  });

  it('stay within the ring, of however many shards', () => {
    for (const of of [1, 2, 3, 16, 256, 4096]) {
      for (const from of [0, Math.floor(of / 2), of - 1]) {
        const path = arcPath(from, from + 1, of, 50, 100);
        expect(path).not.toContain('NaN');
        expect(Math.max(...numbers(path).map(Math.abs))).toBeLessThanOrEqual(100);
      }
    }
  });
});

describe('members', () => {
  it('that have left are told of for a while', () => {
    let seen = noteMembers([], ['a', 'b', 'c'], 1000);
    expect(seen.every((s) => s.last === 1000)).toBe(true);
    seen = noteMembers(seen, ['a', 'c'], 3000);
    expect(seen.find((s) => s.name === 'b')).toEqual({ name: 'b', last: 1000 });
    seen = noteMembers(seen, ['a', 'b', 'c'], 5000);
    expect(seen.filter((s) => s.name === 'b')).toEqual([{ name: 'b', last: 5000 }]);
    seen = noteMembers(seen, ['a'], 6000);
    expect(noteMembers(seen, ['a'], 5000 + goneFor).map((s) => s.name)).toEqual(['a']);
  });
});
