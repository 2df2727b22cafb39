// Changes of JSON objects: as merge patches (RFC 7396), and of two people at once. Pure.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined };
export type JsonObject = { [name: string]: Json | undefined };

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) {
    return true;
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, i) => same(item, b[i]));
  }
  if (isObject(a) && isObject(b)) {
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => same(a[name], b[name]));
  }
  return false;
}

/** The merge patch that makes `after` of `before`; {} if they are the same. */
export function patchOf(before: JsonObject, after: JsonObject): JsonObject {
  const patch: JsonObject = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [a, b] = [before[name], after[name]];
    if (same(a, b)) {
      continue;
    }
    if (b === undefined) {
      patch[name] = null;
    } else if (isObject(a) && isObject(b)) {
      patch[name] = patchOf(a, b);
    } else {
      patch[name] = b;
    }
  }
  return patch;
}

/** Whether a member of an object in it is null: a merge patch cannot put that there. */
export function holdsNull(value: Json | undefined): boolean {
  return isObject(value) && Object.values(value).some((v) => v === null || holdsNull(v));
}

/** The value at a path such as "schedule.cron". */
export function valueAt(object: JsonObject, path: string): Json | undefined {
  let at: Json | undefined = object;
  for (const name of path.split('.')) {
    if (!isObject(at)) {
      return undefined;
    }
    at = at[name];
  }
  return at;
}

/** The object with another value at a path; undefined removes it, and what is empty then. */
export function withValue(object: JsonObject, path: string, value: Json | undefined): JsonObject {
  const [name = '', ...rest] = path.split('.');
  const copy = { ...object };
  if (rest.length > 0) {
    const inner = copy[name];
    const next = withValue(isObject(inner) ? inner : {}, rest.join('.'), value);
    value = value === undefined && Object.keys(next).length === 0 ? undefined : next;
  }
  if (value === undefined) {
    delete copy[name];
  } else {
    copy[name] = value;
  }
  return copy;
}

/** What both changed, each otherwise. */
export interface Conflict {
  path: string;
  before: Json | undefined;
  mine: Json | undefined;
  theirs: Json | undefined;
}

export interface Merged {
  /** Theirs with my changes; at conflicts it is as they have it. */
  merged: JsonObject;
  conflicts: Conflict[];
  /** Paths that only I changed, and that only they changed. */
  onlyMine: string[];
  onlyTheirs: string[];
}

/** Objects whose members are not looked at one by one. */
const whole = new Set(['payload']);

/** Brings together what two people made of the same thing. */
export function threeWay(before: JsonObject, mine: JsonObject, theirs: JsonObject): Merged {
  const out: Merged = { merged: structuredClone(theirs), conflicts: [], onlyMine: [], onlyTheirs: [] };
  const look = (a: JsonObject, m: JsonObject, t: JsonObject, prefix: string): void => {
    for (const name of new Set([...Object.keys(a), ...Object.keys(m), ...Object.keys(t)])) {
      const path = prefix === '' ? name : `${prefix}.${name}`;
      const [was, my, their] = [a[name], m[name], t[name]];
      if (same(my, their)) {
        continue;
      }
      if (isObject(was) && isObject(my) && isObject(their) && !whole.has(path)) {
        look(was, my, their, path);
      } else if (same(my, was)) {
        out.onlyTheirs.push(path);
      } else if (same(their, was)) {
        out.onlyMine.push(path);
        out.merged = withValue(out.merged, path, my);
      } else {
        out.conflicts.push({ path, before: was, mine: my, theirs: their });
      }
    }
  };
  look(before, mine, theirs, '');
  return out;
}
