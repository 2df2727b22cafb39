// JSON of others, in which a number may have more digits than JavaScript keeps. Pure.

import { memberOf, toJson } from './document';
import { tokens } from './text';
import { readYaml } from './yaml';

/** A whole number in a JSON text that JSON.parse would change; undefined: there is none. */
export function longNumber(json: string): string | undefined {
  const isLong = (digits: string): boolean =>
    /^-?\d{16,}$/.test(digits) && (digits.length > 300 || BigInt(Number(digits)) !== BigInt(digits));
  return /\d{16}/.test(json) ? tokens(json).find((t) => t.kind === 'number' && isLong(t.text))?.text : undefined;
}

/** A member of a JSON object, indented, with its numbers as they are written; undefined: it is absent or null. */
export function memberText(json: string, key: string): string | undefined {
  const value = (JSON.parse(json) as Record<string, unknown>)[key];
  if (value === undefined || value === null) {
    return undefined;
  }
  const exact = longNumber(json) === undefined ? undefined : memberOf(readYaml(json), key);
  return exact ? toJson(exact, 2) : JSON.stringify(value, null, 2);
}
