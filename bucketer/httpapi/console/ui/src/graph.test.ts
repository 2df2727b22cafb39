import { describe, expect, it } from 'vitest';
import {
  condense,
  condensed,
  groupsAround,
  noChoices,
  openAround,
  readable,
  revealed,
  shown,
  withOpen,
  withShut,
  type GraphNode,
  type Shown,
} from './graph';
import { place } from './dagre';
import { isLarge, pathThrough, placeInRanks, type Link, type Sized } from './layout';

const line = (n: number, prefix = 's'): GraphNode[] =>
  Array.from({ length: n }, (_, i) => ({ name: `${prefix}${i}`, after: i === 0 ? [] : [`${prefix}${i - 1}`] }));

const fan = (n: number): GraphNode[] => [
  { name: 'begin', after: [] },
  ...Array.from({ length: n }, (_, i) => ({ name: `w${i}`, after: ['begin'] })),
  { name: 'end', after: Array.from({ length: n }, (_, i) => `w${i}`) },
];

/** Many lines of several steps between a begin and an end. */
const pipes = (wide: number, long: number): GraphNode[] => [
  { name: 'begin', after: [] },
  ...Array.from({ length: wide }, (_, i) =>
    Array.from({ length: long }, (_, k) => ({ name: `p${i}-${k}`, after: [k === 0 ? 'begin' : `p${i}-${k - 1}`] })),
  ).flat(),
  { name: 'end', after: Array.from({ length: wide }, (_, i) => `p${i}-${long - 1}`) },
];

/** A graph that no lines and no sides make smaller. */
function tangle(n: number): GraphNode[] {
  let seed = 7;
  const next = (of: number): number => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed % of;
  };
  return Array.from({ length: n }, (_, i) => ({
    name: `t${i}`,
    after: i < 3 ? [] : [...new Set([`t${next(i)}`, `t${next(i)}`, `t${next(i)}`])],
  }));
}

/** Every step is in what is drawn once, and no edge leads back. */
function check(nodes: readonly GraphNode[], drawn: Shown): void {
  expect(drawn.groups.flatMap((g) => g.steps).sort()).toEqual(nodes.map((n) => n.name).sort());
  const open = new Map(drawn.groups.map((g) => [g, drawn.edges.filter((e) => e.to === g).length]));
  const ready = drawn.groups.filter((g) => open.get(g) === 0);
  let seen = 0;
  for (let g = ready.pop(); g; g = ready.pop()) {
    seen++;
    for (const e of drawn.edges.filter((edge) => edge.from === g)) {
      const left = (open.get(e.to) ?? 0) - 1;
      open.set(e.to, left);
      if (left === 0) {
        ready.push(e.to);
      }
    }
  }
  expect(seen).toBe(drawn.groups.length);
}

describe('groups', () => {
  it('leaves a small graph as it is', () => {
    const nodes = fan(10);
    const graph = condensed(nodes);
    expect(shown(graph, noChoices).groups).toHaveLength(12);
    expect(shown(graph, noChoices).edges).toHaveLength(20);
  });

  it('joins lines and sides', () => {
    const all = condense(pipes(5, 3));
    expect(all).toHaveLength(1);
    const [whole] = all;
    expect(whole?.kind).toBe('line');
    expect(whole?.members.map((m) => m.kind)).toEqual(['step', 'side', 'step']);
    expect(whole?.members[1]?.members.map((m) => m.kind)).toEqual(['line', 'line', 'line', 'line', 'line']);
  });

  it.each<[string, GraphNode[]]>([
    ['a line', line(1000)],
    ['a fan', fan(998)],
    ['lines side by side', pipes(100, 10)],
    ['few long lines', pipes(3, 330)],
    ['a tangle', tangle(1000)],
    ['steps without order', Array.from({ length: 1000 }, (_, i) => ({ name: `x${i}`, after: [] }))],
    ['two fans after one another', [...fan(400), ...fan(400).map((n) => ({ name: `b-${n.name}`, after: n.after.length === 0 ? ['end'] : n.after.map((a) => `b-${a}`) }))]],
  ])('keeps a thousand steps readable: %s', (_name, nodes) => {
    const graph = condensed(nodes);
    const drawn = shown(graph, noChoices);
    expect(drawn.groups.length).toBeLessThanOrEqual(readable);
    check(nodes, drawn);
    check(nodes, shown(graph, { ...noChoices, all: true }));
    check(nodes, shown(graph, { ...noChoices, all: false }));
    expect(shown(graph, { ...noChoices, all: true }).groups).toHaveLength(nodes.length);
  }, 60_000);

  it('shows steps that are looked for, and can be shut again', () => {
    const nodes = pipes(100, 10);
    const graph = condensed(nodes);
    expect(shown(graph, noChoices).groups.some((g) => g.id === 'p50-5')).toBe(false);
    const choices = revealed(graph, noChoices, ['p50-5']);
    const drawn = shown(graph, choices);
    expect(drawn.groups.some((g) => g.id === 'p50-5')).toBe(true);
    // The other 99 lines stay together.
    expect(drawn.groups.length).toBeLessThan(20);
    check(nodes, drawn);
    const rest = drawn.groups.find((g) => g.kind === 'side');
    expect(rest?.steps).toHaveLength(990);
    check(nodes, shown(graph, rest ? withOpen(choices, rest) : choices));
    const around = openAround(graph, choices, 'p50-5');
    expect(around?.kind).toBe('line');
    const shut = around ? withShut(choices, around) : choices;
    expect(shown(graph, shut).groups.some((g) => g.id === 'p50-5')).toBe(false);
    expect(groupsAround(graph, 'p50-5').length).toBeGreaterThan(1);
  });

  it('shows a step of a long line between what is before and after it', () => {
    const nodes = line(1000);
    const graph = condensed(nodes);
    const drawn = shown(graph, revealed(graph, noChoices, ['s500', 's501']));
    expect(drawn.groups.map((g) => g.steps.length)).toEqual([500, 1, 1, 498]);
    check(nodes, drawn);
  });

  it('gives groups names that no two have', () => {
    const ids = new Set<string>();
    const walk = (g: ReturnType<typeof condense>[number]): void => {
      expect(ids.has(g.id)).toBe(false);
      ids.add(g.id);
      g.members.forEach(walk);
    };
    condense(pipes(20, 5)).forEach(walk);
    expect(ids.size).toBeGreaterThan(100);
  });
});

describe('places', () => {
  const size = (name: string): { id: string; width: number; height: number } => ({ id: name, width: 180, height: 46 });
  const links = (nodes: readonly GraphNode[]): { from: string; to: string }[] =>
    nodes.flatMap((n) => n.after.map((from) => ({ from, to: n.name })));

  it.each(['across', 'down'] as const)('puts what comes after %s', (direction) => {
    const nodes = fan(5);
    for (const put of [place, placeInRanks]) {
      const placed = put(nodes.map((n) => size(n.name)), links(nodes), direction);
      const along = (name: string): number => placed.nodes.get(name)?.[direction === 'across' ? 'x' : 'y'] ?? 0;
      expect(along('begin')).toBeLessThan(along('w0'));
      expect(along('w0')).toBeLessThan(along('end'));
      expect(placed.edges).toHaveLength(10);
      expect(placed.width).toBeGreaterThan(0);
      // No two lie over each other.
      const all = [...placed.nodes.values()];
      for (const [i, a] of all.entries()) {
        for (const b of all.slice(i + 1)) {
          expect(Math.abs(a.x - b.x) >= 180 || Math.abs(a.y - b.y) >= 46).toBe(true);
        }
      }
    }
  });

  it('puts nothing nowhere', () => {
    expect(placeInRanks([], [], 'down')).toEqual({ nodes: new Map(), edges: [], width: 0, height: 0 });
  });

  // What would take dagre seconds is put in rows: else these would not end in time.
  it.each<[string, GraphNode[]]>([
    ['a fan', fan(140)],
    ['a tangle', tangle(60)],
    ['a larger tangle', tangle(400)],
    ['a thousand', tangle(1000)],
    ['a line of a thousand', line(1000)],
  ])('are found for %s', (_name, nodes) => {
    const [sized, between]: [Sized[], Link[]] = [nodes.map((n) => size(n.name)), links(nodes)];
    const placed = (isLarge(sized, between) ? placeInRanks : place)(sized, between, 'across');
    expect(placed.nodes.size).toBe(nodes.length);
    expect(placed.edges).toHaveLength(links(nodes).length);
    for (const { x, y } of placed.nodes.values()) {
      expect(x).toBeGreaterThan(0);
      expect(x).toBeLessThan(placed.width);
      expect(y).toBeGreaterThan(0);
      expect(y).toBeLessThan(placed.height);
    }
  }, 60_000);

  it('writes paths', () => {
    expect(pathThrough([])).toBe('');
    expect(pathThrough([{ x: 0, y: 0 }, { x: 10.04, y: 5 }])).toBe('M0 0L10 5');
    expect(pathThrough([{ x: 0, y: 0 }, { x: 10, y: 0 }, { x: 20, y: 10 }])).toBe('M0 0Q10 0 15 5L20 10');
  });
});
