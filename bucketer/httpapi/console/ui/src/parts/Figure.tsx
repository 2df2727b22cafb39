// What every drawing has: a caption, and the same numbers as a table, for who cannot see the drawing or
// wants to copy them.

import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { Icon } from './Icon';

export interface FigureProps {
  caption: string;
  legend?: ComponentChildren;
  /** The drawing: hidden from screen readers by whoever draws it. */
  children: ComponentChildren;
  /** Made only when it is asked for. */
  table: () => ComponentChildren;
  actions?: ComponentChildren;
}

export function Figure({ caption, legend, children, table, actions }: FigureProps) {
  const id = useId();
  const [asTable, setAsTable] = useState(false);
  return (
    <figure class="figure" aria-labelledby={`${id}-caption`}>
      <figcaption>
        <span id={`${id}-caption`} class="figure-caption">
          {caption}
        </span>
        {actions}
        <button
          type="button"
          class="button quiet small"
          aria-expanded={asTable}
          aria-controls={`${id}-table`}
          onClick={() => setAsTable(!asTable)}
        >
          <Icon name={asTable ? 'down' : 'right'} size={14} />
          {asTable ? 'Hide the table' : 'Show as a table'}
        </button>
      </figcaption>
      {legend}
      {children}
      <div id={`${id}-table`} class="figure-table" hidden={!asTable}>
        {asTable && table()}
      </div>
    </figure>
  );
}
