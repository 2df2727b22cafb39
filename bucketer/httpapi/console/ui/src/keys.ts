// Single keys. They can be turned off, do nothing while somebody types or a dialogue is open, and are
// listed by ?.

import { signal } from '@preact/signals';
import { session } from './api/session';
import { keysOn } from './preferences';
import { go } from './router';

export const helpOpen = signal(false);

export interface KeyWord {
  keys: string;
  does: string;
}

/** Where g and a second key lead. */
export const places: readonly { key: string; path: string; name: string }[] = [
  { key: 'o', path: '/', name: 'Overview' },
  { key: 'r', path: '/runs', name: 'Runs' },
  { key: 'l', path: '/logs', name: 'Logs' },
  { key: 'j', path: '/jobs', name: 'Jobs' },
  { key: 'w', path: '/workflows', name: 'Workflows' },
  { key: 't', path: '/tasks', name: 'Tasks' },
  { key: 'd', path: '/dead-letters', name: 'Dead letters' },
  { key: 'p', path: '/operations', name: 'Operations' },
  { key: 'i', path: '/import', name: 'Import' },
  { key: 'e', path: '/events', name: 'Events' },
  { key: 'c', path: '/cluster', name: 'Cluster' },
];

export const keyWords: readonly KeyWord[] = [
  { keys: '/', does: 'Go to the search of the view' },
  ...places.map(({ key, name }) => ({ keys: `g ${key}`, does: `Go to ${name}` })),
  { keys: 'j', does: 'Go to the next row' },
  { keys: 'k', does: 'Go to the row before' },
  { keys: 'x', does: 'Select the row, or not' },
  { keys: 'Enter', does: 'Open the row' },
  { keys: 'Esc', does: 'Leave a field, or close a dialogue' },
  { keys: '?', does: 'Show these keys' },
];

/** How long the second key of two may take, in ms. */
const chord = 2000;
let gAt = 0;

function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target instanceof HTMLTextAreaElement ||
      target instanceof HTMLSelectElement ||
      (target instanceof HTMLInputElement && !['checkbox', 'radio', 'button'].includes(target.type)))
  );
}

export function listenToKeys(): void {
  addEventListener('keydown', (e) => {
    if (!keysOn.value || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || typing(e.target)) {
      return;
    }
    if (session.peek().state !== 'in' || document.querySelector('dialog[open]')) {
      return;
    }
    if (act(e.key)) {
      e.preventDefault();
    }
  });
}

function act(key: string): boolean {
  if (Date.now() - gAt < chord) {
    gAt = 0;
    const to = places.find((p) => p.key === key);
    if (to) {
      go(to.path);
      return true;
    }
  }
  switch (key) {
    case 'g':
      gAt = Date.now();
      return true;
    case '/':
      return focusOn(document.querySelector<HTMLElement>('main [data-search]'));
    case '?':
      helpOpen.value = true;
      return true;
    case 'j':
      return step(1);
    case 'k':
      return step(-1);
    case 'x':
      return select();
  }
  return false;
}

function focusOn(element: HTMLElement | null | undefined): boolean {
  element?.focus();
  return element !== null && element !== undefined;
}

/** The rows of the table in which the focus is, or else of the first one. */
function rows(): HTMLElement[] {
  const table = document.activeElement?.closest('[data-table]') ?? document.querySelector('main [data-table]');
  return [...(table?.querySelectorAll<HTMLElement>('[data-row]') ?? [])];
}

function step(by: number): boolean {
  const all = rows();
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  const target = next?.querySelector<HTMLElement>('a.row-link') ?? next?.querySelector<HTMLElement>('a, button, input');
  target?.scrollIntoView({ block: 'nearest' });
  return focusOn(target);
}

function select(): boolean {
  const row = rows().find((r) => r.contains(document.activeElement));
  const box = row?.querySelector<HTMLInputElement>('[data-select]');
  box?.click();
  return box !== null && box !== undefined;
}
