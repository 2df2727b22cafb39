// The page's own router. Everything that a person would want back after a reload, or send to a
// colleague, stands in the address: the view, its filters, its tab, the tenant.

import { signal } from '@preact/signals';
import { changed, formatPlace, isElsewhere, paramsOf, parsePlace, type Place, type Query } from './place';

export const place = signal<Place>(parsePlace(location.hash));

/** Asked before the view is left; it answers whether it may be. */
let guard: (() => Promise<boolean>) | undefined;
let asking = false;

/** Has somebody asked before the view is left. What it returns ends that. */
export function guardPlace(mayLeave: () => Promise<boolean>): () => void {
  guard = mayLeave;
  return () => {
    if (guard === mayLeave) {
      guard = undefined;
    }
  };
}

addEventListener('hashchange', () => void arrive());

/** Shows the place that the address names, unless the view that is shown is not to be left. */
async function arrive(): Promise<void> {
  const from = place.peek();
  if (guard && isElsewhere(from, parsePlace(location.hash))) {
    if (asking) {
      return; // who is asked says so for where the address leads in the end
    }
    asking = true;
    const may = await guard().finally(() => {
      asking = false;
    });
    if (!may) {
      history.pushState(history.state, '', formatPlace(from.path, from.query));
      return;
    }
  }
  place.value = parsePlace(location.hash);
}

/** Parts of the query that stay when one goes to another view. */
const kept = ['tenant'];

/** The address of a view, for the href of a link. */
export function href(path: string, query: Query = {}): string {
  const params = paramsOf(query);
  for (const name of kept) {
    const value = place.value.query.get(name);
    if (value !== null && !(name in query)) {
      params.set(name, value);
    }
  }
  return formatPlace(path, params);
}

/** Goes to a view. With replace, the browser's Back leads past where the person is now. */
export function go(path: string, query: Query = {}, options: { replace?: boolean } = {}): void {
  move(href(path, query), options.replace === true);
}

/**
 * Changes the query of the view that is shown. By default Back does not lead to what it was, which is
 * right for what is typed; say {replace: false} for steps such as the next page.
 */
export function setQuery(changes: Query, options: { replace?: boolean } = {}): void {
  move(formatPlace(place.value.path, changed(place.value.query, changes)), options.replace !== false);
}

function move(hash: string, replace: boolean): void {
  if (hash === location.hash) {
    return;
  }
  if (replace) {
    history.replaceState(history.state, '', hash);
    place.value = parsePlace(hash);
  } else {
    location.hash = hash;
  }
}

/** A value of the query, and "" if there is none. Views that read it are drawn anew when it changes. */
export function queryValue(name: string): string {
  return place.value.query.get(name) ?? '';
}

/** All values of that name. */
export function queryValues(name: string): string[] {
  return place.value.query.getAll(name);
}
