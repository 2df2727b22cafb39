// Lists of which nobody knows the length: one page at a time, by cursor, with the place in the address.

import { useEffect, useRef } from 'preact/hooks';
import { queryValue, setQuery } from '../router';
import { say } from '../parts/Toasts';
import { chosenTenant } from './client';
import { useLive, type Live, type LiveOptions } from './live';
import type { Page } from './types';

export interface Paged<T, P extends Page<T> = Page<T>> extends Live<P> {
  items: readonly T[];
  /** Whether this is the first page. */
  first: boolean;
  /** There is more after this page. */
  more: boolean;
  /** What is shown answers the question before, until this one is answered. */
  dim: boolean;
  toFirst: () => void;
  toNext: () => void;
}

/**
 * A list whose cursor stands in the address as ?cursor=. The fetcher gets it ("" for the first page).
 * A cursor that is not good any more (another node, a restart) begins the list anew, and says so.
 * Nothing jumps while a person types a filter or goes on: the page before stays until the next one is
 * there.
 */
export function usePages<T, P extends Page<T> = Page<T>>(
  key: string | null,
  fetcher: (cursor: string, signal: AbortSignal) => Promise<Omit<P, 'items'> & PageLike<T>>,
  options: LiveOptions & { name?: string } = {},
): Paged<T, P> {
  const name = options.name ?? 'cursor';
  const cursor = queryValue(name);
  const live = useLive<P>(
    key === null ? null : `${key} ${cursor}`,
    async (signal) => {
      const page = await fetcher(cursor, signal);
      return { ...page, items: page.items ?? [] } as unknown as P;
    },
    options,
  );
  const stale = cursor !== '' && live.problem?.staleCursor === true;
  useEffect(() => {
    if (stale) {
      setQuery({ [name]: '' });
      say('The place in the list is not known any more: it begins anew.');
    }
  }, [stale, name]);
  const before = useRef<{ tenant: string; page: P } | undefined>(undefined);
  if (live.data) {
    before.current = { tenant: chosenTenant.value, page: live.data };
  }
  const waits = live.data === undefined && live.problem === undefined && key !== null;
  const old = waits && before.current?.tenant === chosenTenant.value ? before.current.page : undefined;
  const data = live.data ?? old;
  const next = data?.next_cursor;
  return {
    ...live,
    data,
    items: data?.items ?? [],
    first: cursor === '',
    more: next !== undefined && next !== '',
    dim: old !== undefined,
    toFirst: () => setQuery({ [name]: '' }, { replace: false }),
    toNext: () => {
      if (next && live.data) {
        setQuery({ [name]: next }, { replace: false });
      }
    },
  };
}

/** A page as the generated types have it: a list may be null there. */
export interface PageLike<T> {
  items: readonly T[] | null;
  next_cursor?: string | undefined;
}

/**
 * Asks for pages until there are `want` items, or `calls` requests were made or it says no: filtered
 * lists may answer pages with few items, or none, though there is more.
 */
export async function gather<T>(
  fetcher: (cursor: string) => Promise<PageLike<T>>,
  cursor: string,
  want: number,
  calls: number | (() => boolean) = 5,
): Promise<Page<T>> {
  const items: T[] = [];
  let next: string | undefined = cursor;
  const goesOn = (asked: number): boolean => (typeof calls === 'number' ? asked < calls : asked === 0 || calls());
  for (let i = 0; next !== undefined && goesOn(i); i++) {
    const page: PageLike<T> = await fetcher(next);
    items.push(...(page.items ?? []));
    next = page.next_cursor || undefined;
    if (items.length >= want) {
      break;
    }
  }
  return { items, next_cursor: next };
}
