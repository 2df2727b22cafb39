// The API lists runs in the order of their due times. Who looks at what has just been wants the latest
// first: the window is read from its end, in slices that are as long as it takes to fill a page. Pure.

import type { PageLike } from './api/pages';

export interface Due {
  due_at: string;
}

export interface Slice {
  from: number;
  to: number;
  cursor: string;
}

export interface Latest<T> {
  /** The latest first. */
  items: T[];
  /** All that is due from then on, in the window, is among the items. */
  from: number;
  /** The window was read to its begin. */
  whole: boolean;
  /** How long a slice was that filled a page: the guess for the next time, in ms. */
  span: number;
}

export interface LatestOptions {
  /** How many items are enough. */
  want: number;
  /** How long the first slice is, in ms. */
  guess: number;
  /** How many requests may be made. */
  calls: number;
  /** Says that it took long enough. */
  late?: () => boolean;
}

/** A slice in which there are more is too long. */
const mostOfSlice = 1000;
const shortest = 20;

/** Reads a window [from, to) from its end. */
export async function latestOf<T extends Due>(
  read: (slice: Slice) => Promise<PageLike<T>>,
  window: { from: number; to: number },
  { want, guess, calls, late = () => false }: LatestOptions,
): Promise<Latest<T>> {
  const out: Latest<T> = { items: [], from: window.to, whole: false, span: guess };
  let span = Math.max(guess, shortest);
  let left = calls;
  while (out.from > window.from && out.items.length < want && left > 0 && !late()) {
    const slice = { from: Math.max(window.from, out.from - span), to: out.from };
    const items: T[] = [];
    let cursor: string | undefined = '';
    while (cursor !== undefined && items.length < mostOfSlice && left > 0 && !late()) {
      const page: PageLike<T> = await read({ ...slice, cursor });
      left--;
      items.push(...(page.items ?? []));
      cursor = page.next_cursor || undefined;
    }
    if (cursor !== undefined) {
      const reached = Date.parse(items.at(-1)?.due_at ?? '');
      if (items.length < mostOfSlice || slice.to - slice.from <= shortest) {
        break; // it takes too long, or all are due at one instant
      }
      // What was read says how dense it is at the slice's begin.
      const density = items.length / Math.max(reached - slice.from, 1);
      span = Math.max(shortest, Math.min(span / 2, (2 * want) / density));
      continue;
    }
    out.items.push(...items.reverse());
    out.from = slice.from;
    out.span = span;
    span *= items.length === 0 ? 4 : Math.min(4, Math.max(0.5, (1.5 * want) / items.length));
  }
  out.whole = out.from <= window.from;
  return out;
}
