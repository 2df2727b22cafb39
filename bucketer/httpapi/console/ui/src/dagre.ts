// Where dagre draws each node of a graph. It is loaded when the first graph is drawn, and takes nothing
// from the rest of the page: it may be of a node of another version.

import { Graph, layout } from '@dagrejs/dagre';
import type { Direction, Link, Placed, Point, Sized } from './layout';

/** From so many nodes on the way that is found faster is taken, though it is not the shortest. */
const many = 150;

export function place(nodes: readonly Sized[], links: readonly Link[], direction: Direction): Placed {
  const graph = new Graph();
  graph.setGraph({
    rankdir: direction === 'across' ? 'LR' : 'TB',
    ranker: nodes.length > many ? 'longest-path' : 'network-simplex',
    nodesep: 14,
    edgesep: 10,
    ranksep: direction === 'across' ? 44 : 34,
    marginx: 12,
    marginy: 12,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id, width, height } of nodes) {
    graph.setNode(id, { width, height });
  }
  for (const { from, to } of links) {
    graph.setEdge(from, to);
  }
  layout(graph);
  const side = (id: string, end: 1 | -1): Point => {
    const n = graph.node(id) as unknown as Point & Sized;
    return direction === 'across' ? { x: n.x + (end * n.width) / 2, y: n.y } : { x: n.x, y: n.y + (end * n.height) / 2 };
  };
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return {
    nodes: new Map(
      nodes.map(({ id }) => {
        const { x, y } = graph.node(id) as unknown as Point;
        return [id, { x, y }];
      }),
    ),
    edges: links.map(({ from, to }) => {
      // Dagre ends an edge where it meets the border; the middle of the side is calmer to look at.
      const between = ((graph.edge(from, to) as unknown as { points?: Point[] }).points ?? []).slice(1, -1);
      return { from, to, points: [side(from, 1), ...between, side(to, -1)] };
    }),
    width,
    height,
  };
}
