// Where each node of a graph is drawn, in plain rows: for graphs that are too large for dagre, or as
// long as that is not there. Pure.

export interface Sized {
  id: string;
  width: number;
  height: number;
}

export interface Link {
  from: string;
  to: string;
}

export interface Point {
  x: number;
  y: number;
}

export interface Placed {
  /** The middle of each node, by its id. */
  nodes: ReadonlyMap<string, Point>;
  edges: readonly (Link & { points: readonly Point[] })[];
  width: number;
  height: number;
}

/** "across": from left to right; "down": from above to below. */
export type Direction = 'across' | 'down';

/**
 * The most nodes for dagre, which takes about half a second then. An edge counts for each rank that it
 * passes: dagre puts a node there.
 */
const most = 700;

/** Whether dagre would take too long. */
export function isLarge(nodes: readonly Sized[], links: readonly Link[]): boolean {
  const ranks = ranksOf(nodes, links);
  const passed = links.reduce((n, { from, to }) => n + (ranks.get(to) ?? 0) - (ranks.get(from) ?? 0) - 1, 0);
  return nodes.length + passed > most;
}

const nowhere: Placed = { nodes: new Map(), edges: [], width: 0, height: 0 };

/** How many nodes are before each on the longest way to it. */
function ranksOf(nodes: readonly Sized[], links: readonly Link[]): Map<string, number> {
  const before = neighbours(links, 'to');
  const after = neighbours(links, 'from');
  const ranks = new Map<string, number>();
  const open = new Map(nodes.map((n) => [n.id, before.get(n.id)?.length ?? 0]));
  const ready = nodes.filter((n) => open.get(n.id) === 0).map((n) => n.id);
  for (let i = 0; i < ready.length; i++) {
    const id = ready[i] ?? '';
    ranks.set(id, Math.max(0, ...(before.get(id) ?? []).map((b) => (ranks.get(b) ?? 0) + 1)));
    for (const next of after.get(id) ?? []) {
      const left = (open.get(next) ?? 1) - 1;
      open.set(next, left);
      if (left === 0) {
        ready.push(next);
      }
    }
  }
  return ranks;
}

/** What is at the other end of the links that have a node at this one. */
function neighbours(links: readonly Link[], end: 'from' | 'to'): Map<string, string[]> {
  const all = new Map<string, string[]>();
  for (const link of links) {
    const list = all.get(link[end]);
    const other = link[end === 'from' ? 'to' : 'from'];
    if (list) {
      list.push(other);
    } else {
      all.set(link[end], [other]);
    }
  }
  return all;
}

/** Ranks by the longest way, each in the order of the middle of what is before it. */
export function placeInRanks(nodes: readonly Sized[], links: readonly Link[], direction: Direction): Placed {
  if (nodes.length === 0) {
    return nowhere;
  }
  const ranks = ranksOf(nodes, links);
  const before = neighbours(links, 'to');
  const rows: Sized[][] = [];
  for (const node of nodes) {
    (rows[ranks.get(node.id) ?? 0] ??= []).push(node);
  }
  const across = direction === 'across';
  const [gapAlong, gapBeside, margin] = [across ? 44 : 34, 14, 12];
  const long = (n: Sized): number => (across ? n.width : n.height);
  const wide = (n: Sized): number => (across ? n.height : n.width);
  const points = new Map<string, Point>();
  const middles = new Map<string, number>();
  let along = margin;
  let widest = 0;
  for (const row of rows) {
    const wanted = (n: Sized): number => {
      const all = (before.get(n.id) ?? []).map((b) => middles.get(b) ?? 0);
      return all.length === 0 ? 0 : all.reduce((a, b) => a + b, 0) / all.length;
    };
    row.sort((a, b) => wanted(a) - wanted(b));
    let beside = margin;
    const depth = Math.max(...row.map(long));
    for (const node of row) {
      const middle = beside + wide(node) / 2;
      middles.set(node.id, middle);
      const center = along + depth / 2;
      points.set(node.id, across ? { x: center, y: middle } : { x: middle, y: center });
      beside += wide(node) + gapBeside;
    }
    widest = Math.max(widest, beside - gapBeside + margin);
    along += depth + gapAlong;
  }
  const length = along - gapAlong + margin;
  const sizes = new Map(nodes.map((n) => [n.id, n]));
  return {
    nodes: points,
    edges: links.map(({ from, to }) => {
      const [a, b] = [points.get(from) ?? { x: 0, y: 0 }, points.get(to) ?? { x: 0, y: 0 }];
      const [m, n] = [sizes.get(from), sizes.get(to)];
      const half = { a: (m ? long(m) : 0) / 2, b: (n ? long(n) : 0) / 2 };
      return {
        from,
        to,
        points: across
          ? [{ x: a.x + half.a, y: a.y }, { x: b.x - half.b, y: b.y }]
          : [{ x: a.x, y: a.y + half.a }, { x: b.x, y: b.y - half.b }],
      };
    }),
    width: across ? length : widest,
    height: across ? widest : length,
  };
}

/** A path through points, rounded at its corners. */
export function pathThrough(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) {
    return '';
  }
  let path = `M${round(first.x)} ${round(first.y)}`;
  for (const [i, p] of rest.entries()) {
    const next = rest[i + 1];
    path += next
      ? `Q${round(p.x)} ${round(p.y)} ${round((p.x + next.x) / 2)} ${round((p.y + next.y) / 2)}`
      : `L${round(p.x)} ${round(p.y)}`;
  }
  return path;
}

function round(n: number): number {
  return Math.round(n * 10) / 10;
}
