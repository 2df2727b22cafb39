// A text that a person writes, as a tree that knows where in the text each part stands. So what is
// wrong with a part can be shown at its line, and numbers are kept to the last digit. Pure.

export interface Position {
  /** Offsets into the text. */
  start: number;
  end: number;
}

export interface Entry extends Position {
  /** The positions are those of the key. */
  key: string;
  value: Part;
}

export type Part = MapPart | ListPart | ScalarPart;

export interface MapPart extends Position {
  kind: 'map';
  entries: Entry[];
}

export interface ListPart extends Position {
  kind: 'list';
  items: Part[];
}

export interface ScalarPart extends Position {
  kind: 'scalar';
  /** Its value as JSON has it: "\"a\"", "12", "true", "null". */
  json: string;
}

/** The value of a member; undefined if it is no map or has none of the name. */
export function memberOf(part: Part | undefined, key: string): Part | undefined {
  return part?.kind === 'map' ? part.entries.find((e) => e.key === key)?.value : undefined;
}

export function itemsOf(part: Part | undefined): readonly Part[] {
  return part?.kind === 'list' ? part.items : [];
}

/** The text that a part is; undefined if it is none. */
export function textOf(part: Part | undefined): string | undefined {
  return part?.kind === 'scalar' && part.json.startsWith('"') ? (JSON.parse(part.json) as string) : undefined;
}

/** The part as JSON, compact or with so many spaces a level. Numbers stand as they were written. */
export function toJson(part: Part, indent = 0, level = 0): string {
  if (part.kind === 'scalar') {
    return part.json;
  }
  const parts =
    part.kind === 'list'
      ? part.items.map((item) => toJson(item, indent, level + 1))
      : part.entries.map((e) => `${JSON.stringify(e.key)}:${indent > 0 ? ' ' : ''}${toJson(e.value, indent, level + 1)}`);
  const [open, close] = part.kind === 'list' ? '[]' : '{}';
  if (parts.length === 0) {
    return `${open}${close}`;
  }
  if (indent === 0) {
    return `${open}${parts.join(',')}${close}`;
  }
  // What is short and holds nothing deep stands in one line.
  const flat = `${open}${parts.join(', ')}${close}`;
  if (level > 1 && flat.length <= 72 && !flat.includes('\n')) {
    return flat;
  }
  const space = ' '.repeat(indent * (level + 1));
  return `${open}\n${parts.map((p) => space + p).join(',\n')}\n${' '.repeat(indent * level)}${close}`;
}

/** A tree of a value. It stands nowhere in a text. */
export function partOf(value: unknown): Part {
  const at = { start: 0, end: 0 };
  if (Array.isArray(value)) {
    return { kind: 'list', items: value.map(partOf), ...at };
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, v]) => v !== undefined);
    return { kind: 'map', entries: entries.map(([key, v]) => ({ key, value: partOf(v), ...at })), ...at };
  }
  return { kind: 'scalar', json: JSON.stringify(value) ?? 'null', ...at };
}

/** A map without the members of those names. */
export function without(part: Part, names: readonly string[]): Part {
  return part.kind === 'map' ? { ...part, entries: part.entries.filter((e) => !names.includes(e.key)) } : part;
}

/**
 * Where the part stands that a fault names, such as "body.steps[3].http.url": the deepest that is
 * there, since a fault may name what is missing. Undefined if the fault is not about the body.
 */
export function locate(root: Part, location: string): Position | undefined {
  const form = /^body(?=$|[.[])/.exec(location);
  if (!form) {
    return undefined;
  }
  let rest = location.slice(4);
  let at: Part = root;
  let found: Position = { start: root.start, end: root.start };
  while (rest !== '') {
    const index = /^\[(\d+)\]/.exec(rest);
    if (index && at.kind === 'list') {
      const item: Part | undefined = at.items[Number(index[1])];
      if (!item) {
        break;
      }
      [at, found, rest] = [item, item, rest.slice(index[0].length)];
      continue;
    }
    if (at.kind !== 'map' || !rest.startsWith('.')) {
      break;
    }
    // A key may hold dots: the longest that fits is meant.
    const name = rest.slice(1);
    const fits = at.entries.filter((e) => name === e.key || name.startsWith(e.key + '.') || name.startsWith(e.key + '['));
    const entry = fits.sort((a, b) => b.key.length - a.key.length)[0];
    if (!entry) {
      break;
    }
    found = entry.value.kind === 'scalar' ? { start: entry.start, end: entry.value.end } : entry;
    [at, rest] = [entry.value, name.slice(entry.key.length)];
  }
  return found;
}

/** The line of an offset, from 1. */
export function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let i = text.indexOf('\n'); i >= 0 && i < offset; i = text.indexOf('\n', i + 1)) {
    line++;
  }
  return line;
}

/** What is wrong with a text that is to be JSON; undefined if nothing is. It may be empty. */
export function jsonFault(text: string): string | undefined {
  try {
    JSON.parse(text.trim() === '' ? 'null' : text);
    return undefined;
  } catch (thrown) {
    return `It is no JSON (${thrown instanceof Error ? thrown.message : String(thrown)})`;
  }
}
