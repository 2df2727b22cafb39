// Lists that are short enough to be asked for whole: typing finds at once, wherever it stands.

import type { Page } from './types';
import { slow, useLive, type Live } from './live';
import { gather, type PageLike } from './pages';

/** How many are asked for at most, and how many of them at once. */
const most = 2500;
const atOnce = 500;

interface Question {
  limit: number;
  cursor?: string;
}

/** All of a list; next_cursor says that there is more than is taken. */
export function useAll<T>(
  key: string,
  fetcher: (query: Question, signal: AbortSignal) => Promise<PageLike<T>>,
): Live<Page<T>> {
  return useLive(
    key,
    (signal) =>
      gather<T>(
        (cursor) => fetcher({ limit: atOnce, ...(cursor === '' ? {} : { cursor }) }, signal),
        '',
        most,
        most / atOnce,
      ),
    { every: slow },
  );
}
