// What a person prefers, kept in this browser. No secret is ever kept here.

import { computed, effect, signal } from '@preact/signals';
import { localZone, UTC } from './time';

/** Which zone times are shown in: the person's, UTC, or that of the job they belong to. */
export type ZoneChoice = 'local' | 'utc' | 'job';
export type Theme = 'auto' | 'light' | 'dark';

const storage = 'carillon.console';

interface Kept {
  zone?: unknown;
  theme?: unknown;
  keys?: unknown;
}

function load(): Kept {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(storage) ?? '{}');
    return typeof kept === 'object' && kept !== null ? kept : {};
  } catch {
    return {};
  }
}

function oneOf<T extends string>(value: unknown, all: readonly T[], otherwise: T): T {
  return all.find((one) => one === value) ?? otherwise;
}

const kept = load();

export const zoneChoice = signal<ZoneChoice>(oneOf(kept.zone, ['local', 'utc', 'job'], 'local'));
export const theme = signal<Theme>(oneOf(kept.theme, ['auto', 'light', 'dark'], 'auto'));
/** Whether single keys do something (WCAG 2.1.4: they can be turned off). */
export const keysOn = signal<boolean>(kept.keys !== false);

effect(() => {
  const text = JSON.stringify({ zone: zoneChoice.value, theme: theme.value, keys: keysOn.value });
  try {
    localStorage.setItem(storage, text);
  } catch {
    // storage is closed: it holds until the page is left
  }
});

effect(() => {
  if (theme.value === 'auto') {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme.value;
  }
});

/** The zone in which times are shown that belong to no job. */
export const viewerZone = computed(() => (zoneChoice.value === 'utc' ? UTC : localZone()));

/** The zone in which the times of a job are shown, whose own zone is given if it has one. */
export function zoneFor(job?: string): string {
  if (zoneChoice.value === 'job' && job) {
    return job;
  }
  return viewerZone.value;
}
