// The latest of a list that the API tells from its begin on: its window is asked for in pieces, the
// last one first, until there is enough. Pure.

import type { PageLike } from './api/pages';

export interface Span {
  from: Date;
  to: Date;
}

/** How far back from the end of the window pieces begin, in ms. */
const steps = [15_000, 300_000];

/** The pieces of a window, the last one first: they grow, for what came lately may be much. */
export function piecesBack({ from, to }: Span): Span[] {
  const begins = steps.map((ms) => to.getTime() - ms).filter((at) => at > from.getTime());
  const pieces: Span[] = [];
  let end = to;
  for (const begin of [...begins.map((at) => new Date(at)), from]) {
    pieces.push({ from: begin, to: end });
    end = begin;
  }
  return pieces;
}

export interface Recent<T> {
  /** The last one first. */
  items: readonly T[];
  /** All of the window from then on is in it. */
  since: Date;
  /** More came in the last piece than was read: of that, the latest are not here. */
  cut: boolean;
}

/** Asks for pieces until there are `want` items. The fetcher answers a piece from its begin on. */
export async function recentOf<T>(
  window: Span,
  want: number,
  fetcher: (piece: Span) => Promise<PageLike<T>>,
): Promise<Recent<T>> {
  const items: T[] = [];
  let since = window.to;
  for (const piece of piecesBack(window)) {
    const page = await fetcher(piece);
    items.push(...[...(page.items ?? [])].reverse());
    since = piece.from;
    if (page.next_cursor) {
      return { items, since, cut: true };
    }
    if (items.length >= want) {
      break;
    }
  }
  return { items, since, cut: false };
}
