// JSON of others, in which a number may have more digits than JavaScript keeps. Pure.

import { tokens } from './text';

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
  if (longNumber(json) === undefined) {
    return JSON.stringify(value, null, 2);
  }
  // While it is indented, a text between NULs stands for each number.
  const numbers: string[] = [];
  const held = tokens(json).map((t) => (t.kind === 'number' ? `"\\u0000${numbers.push(t.text) - 1}\\u0000"` : t.text));
  const member = (JSON.parse(held.join('')) as Record<string, unknown>)[key];
  return JSON.stringify(member, null, 2).replace(/"\\u0000(\d+)\\u0000"/g, (whole, i) => numbers[Number(i)] ?? whole);
}
