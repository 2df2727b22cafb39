// The one table. On a narrow screen each row becomes a card. Rows can be walked with j and k, selected
// with x, and opened with Enter (keys.ts does that, by the attributes that are set here).

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

export interface Column<T> {
  /** The heading, and the label on a card. */
  head: string;
  cell: (row: T) => ComponentChildren;
  /** "number" stands to the right; "main" is the one that names the row and links to it. */
  kind?: 'number' | 'main' | 'actions' | undefined;
  /** Is left out where there is little room, but not on cards. */
  minor?: boolean | undefined;
  /** Its heading is for screen readers only. */
  quietHead?: boolean | undefined;
}

export interface TableProps<T> {
  /** What it lists: read out, not shown. */
  caption: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** Where a row leads: the cell of the main column becomes a link. */
  rowHref?: ((row: T) => string | undefined) | undefined;
  rowName?: ((row: T) => string) | undefined;
  selection?: Selection | undefined;
  /** Shown instead, if there are no rows. */
  empty?: ComponentChildren;
  /** The rows are those of another question than the one that is being asked. */
  dim?: boolean | undefined;
}

/** Which rows are selected, by their keys. */
export interface Selection {
  keys: ReadonlySet<string>;
  set: (keys: ReadonlySet<string>) => void;
  clear: () => void;
}

export function useSelection(): Selection {
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  return { keys, set: setKeys, clear: () => setKeys(new Set()) };
}

export function Table<T>(props: TableProps<T>) {
  const { caption, columns, rows, rowKey, rowHref, rowName, selection, empty, dim } = props;
  if (rows.length === 0 && empty !== undefined) {
    return <>{empty}</>;
  }
  const keys = rows.map(rowKey);
  const all = selection !== undefined && keys.length > 0 && keys.every((key) => selection.keys.has(key));
  const some = selection !== undefined && !all && keys.some((key) => selection.keys.has(key));
  return (
    <div class={`table-box ${dim ? 'dim' : ''}`}>
      {/* Where no row leads anywhere, the table itself takes the focus, or keys could not scroll it. */}
      <table role="table" data-table="" tabIndex={rowHref || selection ? undefined : 0}>
        <caption class="hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {selection && (
              <th role="columnheader" scope="col" class="select">
                <label class="check">
                  <input
                    type="checkbox"
                    aria-label="Select all on this page"
                    checked={all}
                    ref={(box) => {
                      if (box) {
                        box.indeterminate = some;
                      }
                    }}
                    onChange={() => {
                      const next = new Set(selection.keys);
                      for (const key of keys) {
                        if (all) {
                          next.delete(key);
                        } else {
                          next.add(key);
                        }
                      }
                      selection.set(next);
                    }}
                  />
                </label>
              </th>
            )}
            {columns.map((c) => (
              <th key={c.head} role="columnheader" scope="col" class={classOf(c)}>
                {c.quietHead ? <span class="hidden">{c.head}</span> : c.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup" aria-busy={dim ? 'true' : undefined}>
          {rows.map((row, i) => {
            const key = keys[i] ?? '';
            const href = rowHref?.(row);
            const selected = selection?.keys.has(key) ?? false;
            return (
              <tr key={key} role="row" data-row={key} class={selected ? 'selected' : undefined}>
                {selection && (
                  <td role="cell" class="select">
                    <label class="check">
                      <input
                        type="checkbox"
                        data-select=""
                        aria-label={`Select ${rowName?.(row) ?? key}`}
                        checked={selected}
                        onChange={() => {
                          const next = new Set(selection.keys);
                          if (!next.delete(key)) {
                            next.add(key);
                          }
                          selection.set(next);
                        }}
                      />
                    </label>
                  </td>
                )}
                {columns.map((c) => (
                  <td key={c.head} role="cell" class={classOf(c)} data-label={c.quietHead ? undefined : c.head}>
                    {c.kind === 'main' && href !== undefined ? (
                      <a class="row-link" href={href}>
                        {c.cell(row)}
                      </a>
                    ) : (
                      c.cell(row)
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function classOf<T>(c: Column<T>): string | undefined {
  const classes = [c.kind, c.minor && 'minor'].filter(Boolean);
  return classes.length === 0 ? undefined : classes.join(' ');
}
