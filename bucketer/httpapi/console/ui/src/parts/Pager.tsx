// Leads through a list of which nobody knows the length.

import type { Paged } from '../api/pages';
import { count } from '../words';
import { Icon } from './Icon';

export function Pager<T>({ list, one, many }: { list: Paged<T>; one: string; many?: string }) {
  if (list.data === undefined || (list.first && !list.more && list.items.length === 0)) {
    return null;
  }
  return (
    <nav class="pager" aria-label="Pages">
      <span class="muted">
        {count(list.items.length, one, many)} here
        {list.more ? ', more follow' : list.first ? '' : ', the last'}
      </span>
      {!list.first && (
        <>
          <button type="button" class="button small" onClick={() => history.back()}>
            Back
          </button>
          <button type="button" class="button small" onClick={list.toFirst}>
            First page
          </button>
        </>
      )}
      {list.more && (
        <button type="button" class="button small" onClick={list.toNext}>
          Next page <Icon name="right" size={14} />
        </button>
      )}
    </nav>
  );
}
