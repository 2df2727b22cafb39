// A short list, all of it, and a field that finds in it while one types.

import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { slow, type Live } from '../api/live';
import type { Page } from '../api/types';
import { queryValue } from '../router';
import { count, number } from '../words';
import { Empty } from './Empty';
import { FilterBar } from './FilterBar';
import { Answered, Panel } from './Panel';
import { Table, type Column } from './Table';

export interface SearchedListProps<T> {
  live: Live<Page<T>>;
  title: string;
  /** What it is, for sentences, and who may see it. */
  what: string;
  needs?: string;
  /** What one of it is called. */
  one: string;
  /** What is searched in. */
  find: { label: string; placeholder: string; textOf: (item: T) => string };
  caption: string;
  columns: readonly Column<T>[];
  keyOf: (item: T) => string;
  hrefOf?: (item: T) => string;
  /** Shown if there are none at all. */
  empty: ComponentChildren;
  /** Stands beside the field. */
  children?: ComponentChildren;
}

export function SearchedList<T>(props: SearchedListProps<T>) {
  const { live, title, what, needs, one, find, caption, columns, keyOf, hrefOf, empty, children } = props;
  const text = queryValue('find').toLowerCase();
  const shown = useMemo(
    () => (live.data?.items ?? []).filter((item) => find.textOf(item).toLowerCase().includes(text)),
    [live.data, text],
  );
  return (
    <>
      <FilterBar
        filters={[{ kind: 'text', name: 'find', label: find.label, main: true, placeholder: find.placeholder }]}
      >
        {children}
      </FilterBar>
      <Panel title={title} live={live} every={slow}>
        <Answered live={live} what={what} {...(needs === undefined ? {} : { needs })}>
          {({ items, next_cursor: more }) => (
            <>
              <Table
                caption={caption}
                columns={columns}
                rows={shown}
                rowKey={keyOf}
                rowHref={hrefOf}
                empty={items.length > 0 ? <Empty title={`No ${one} matches`} /> : empty}
              />
              {items.length > 0 && (
                <p class="muted">
                  {shown.length === items.length ? count(items.length, one) : `${number(shown.length)} of ${count(items.length, one)}`}
                  {more && `: the first ${number(items.length)} were looked through`}
                </p>
              )}
            </>
          )}
        </Answered>
      </Panel>
    </>
  );
}
