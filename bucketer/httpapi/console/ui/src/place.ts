// Places of the page: what stands after # in its address. Pure.

/** Values of a query: absent, one, or several. */
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export interface Place {
  /** Begins with /, ends without. */
  path: string;
  query: URLSearchParams;
}

/** Reads "#/runs?state=failed". What is none leads to the overview. */
export function parsePlace(hash: string): Place {
  const text = hash.replace(/^#/, '');
  const cut = text.indexOf('?');
  const path = cut < 0 ? text : text.slice(0, cut);
  const clean = '/' + path.split('/').filter(Boolean).join('/');
  return { path: clean, query: new URLSearchParams(cut < 0 ? '' : text.slice(cut + 1)) };
}

/** Writes "#/runs?state=failed"; what is undefined, null, false or "" is left out. */
export function formatPlace(path: string, query: Query | URLSearchParams = {}): string {
  const params = query instanceof URLSearchParams ? query : paramsOf(query);
  const text = params.toString();
  return `#${path}${text === '' ? '' : '?' + text}`;
}

export function paramsOf(query: Query): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === '' || value === false) {
      continue;
    }
    for (const one of Array.isArray(value) ? value : [String(value)]) {
      params.append(name, one);
    }
  }
  return params;
}

/** A query with changes made to it; what is changed to nothing leaves. */
export function changed(query: URLSearchParams, changes: Query): URLSearchParams {
  const params = new URLSearchParams(query);
  for (const name of Object.keys(changes)) {
    params.delete(name);
  }
  for (const [name, value] of paramsOf(changes)) {
    params.append(name, value);
  }
  return params;
}

/** Whether one who goes from one place to the other leaves the view, or the thing, that is shown. */
export function isElsewhere(from: Place, to: Place): boolean {
  return from.path !== to.path || from.query.get('tenant') !== to.query.get('tenant');
}

export type Params = Record<string, string>;

/** The parameters of a path that has the form of a pattern such as "/runs/:id"; else undefined. */
export function match(pattern: string, path: string): Params | undefined {
  const wanted = pattern.split('/').filter(Boolean);
  const stated = path.split('/').filter(Boolean);
  if (wanted.length !== stated.length) {
    return undefined;
  }
  const params: Params = {};
  for (const [i, part] of wanted.entries()) {
    const value = decode(stated[i] ?? '');
    if (part.startsWith(':')) {
      params[part.slice(1)] = value;
    } else if (part !== value) {
      return undefined;
    }
  }
  return params;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A path with its parameters: path("/runs/:id", {id}). */
export function pathTo(pattern: string, params: Params): string {
  return pattern
    .split('/')
    .map((part) => (part.startsWith(':') ? encodeURIComponent(params[part.slice(1)] ?? '') : part))
    .join('/');
}
