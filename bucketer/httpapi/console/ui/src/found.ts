// What a search of logs found so far, and how far it came. Pure.

import type { FoundLine, LookedAt } from './api/types';
import { count, number } from './words';

/** An answer of /v1/logs. */
export interface LogPage {
  items?: readonly FoundLine[] | null;
  looked_at: LookedAt;
  next_cursor?: string | undefined;
}

export interface Found {
  items: readonly FoundLine[];
  /** How many that came before those are not kept here. */
  gone: number;
  runs: number;
  lines: number;
  damaged: number;
  letGo: number;
  /** All runs that were due from then on were looked at. */
  reached?: string | undefined;
  cursor?: string | undefined;
  /** All was looked at. */
  over: boolean;
}

export const nothing: Found = { items: [], gone: 0, runs: 0, lines: 0, damaged: 0, letGo: 0, over: false };

/** Adds an answer. Of more than so many items the first are let go. */
export function grown(old: Found, page: LogPage, most: number): Found {
  const items = [...old.items, ...(page.items ?? [])];
  const extra = Math.max(0, items.length - most);
  const at = page.looked_at;
  return {
    items: items.slice(extra),
    gone: old.gone + extra,
    runs: old.runs + at.runs,
    lines: old.lines + at.lines,
    damaged: old.damaged + (at.damaged ?? 0),
    letGo: old.letGo + (at.let_go ?? 0),
    reached: at.reached ?? old.reached,
    cursor: page.next_cursor,
    over: !page.next_cursor,
  };
}

/** Whether a search that found so much goes on by itself, after so many answers and so long, in ms. */
export function searchesOn(found: Found, wanted: number, answers: number, took: number): boolean {
  return !found.over && found.items.length < wanted && answers < 60 && took < 10_000;
}

/** What was looked at, without how far: that is an instant. */
export function lookedWords(found: Found): string {
  const looked = `Looked at ${count(found.lines, 'line')} of ${count(found.runs, 'run')}`;
  return found.damaged === 0 ? looked : `${looked}; ${count(found.damaged, 'part of a log', 'parts of logs')} could not be understood`;
}

/** Whose a line is. */
export function ownerOf(line: FoundLine): string {
  const job = line.job_name ?? '';
  if (line.step) {
    const item = line.item === undefined ? '' : ` [${number(line.item)}]`;
    return job === '' ? line.step + item : `${job} › ${line.step}${item}`;
  }
  return job || line.task || 'one-off job';
}

/** Lines of one run that follow each other. */
export interface Group {
  key: string;
  run: string;
  owner: string;
  due: string;
  lines: readonly FoundLine[];
}

/** Puts lines of one run together that follow each other. */
export function grouped(items: readonly FoundLine[]): Group[] {
  const groups: (Group & { lines: FoundLine[] })[] = [];
  for (const line of items) {
    const last = groups.at(-1);
    if (last && last.run === line.run_id) {
      last.lines.push(line);
    } else {
      groups.push({ key: line.id, run: line.run_id, owner: ownerOf(line), due: line.due_at, lines: [line] });
    }
  }
  return groups;
}

/** A part of a line: what was searched for, or not. */
export interface Part {
  text: string;
  hit: boolean;
}

/** Cuts a line where it has what was searched for, in capitals or not. */
export function marked(text: string, sought: string): Part[] {
  const parts: Part[] = [];
  const [low, want] = [text.toLowerCase(), sought.toLowerCase()];
  // Few letters change their length when they become small: then nothing is marked.
  if (want === '' || low.length !== text.length) {
    return [{ text, hit: false }];
  }
  let from = 0;
  for (let at = low.indexOf(want); at >= 0; at = low.indexOf(want, from)) {
    if (at > from) {
      parts.push({ text: text.slice(from, at), hit: false });
    }
    from = at + want.length;
    parts.push({ text: text.slice(at, from), hit: true });
  }
  if (from < text.length || parts.length === 0) {
    parts.push({ text: text.slice(from), hit: false });
  }
  return parts;
}
