// Texts of others, made safe to look at. Pure.

/** Characters that are not seen, or that turn the direction of what follows. */
const unseen =
  /(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/** Shows unseen characters as \u202e, so that a text cannot look like another one. */
export function plain(text: string): string {
  return text.replace(unseen, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

export type TokenKind = 'name' | 'text' | 'number' | 'word' | 'mark';

export interface Token {
  kind: TokenKind;
  text: string;
}

/** Cuts JSON, as JSON.stringify writes it, into coloured parts. */
export function tokens(json: string): Token[] {
  const out: Token[] = [];
  const form = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b|([^"\d\-tfn]+|.)/gs;
  for (const [whole, text, colon, num, word] of json.matchAll(form)) {
    if (text !== undefined) {
      out.push({ kind: colon === undefined ? 'text' : 'name', text });
      if (colon !== undefined) {
        out.push({ kind: 'mark', text: colon });
      }
    } else {
      out.push({ kind: num !== undefined ? 'number' : word !== undefined ? 'word' : 'mark', text: whole });
    }
  }
  return out;
}

/** A text cut to at most so many characters, never between the halves of one. */
export function cut(text: string, most: number): string {
  if (text.length <= most) {
    return text;
  }
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}

/** A line of a difference between two texts. */
export interface DiffLine {
  kind: 'same' | 'gone' | 'new';
  text: string;
}

/** The difference between two texts, line by line. Very long ones are told whole: all gone, all new. */
export function diffLines(before: string, after: string): DiffLine[] {
  const a = before === '' ? [] : before.split('\n');
  const b = after === '' ? [] : after.split('\n');
  if (a.length * b.length > 4_000_000) {
    return [
      ...a.map((text) => ({ kind: 'gone' as const, text })),
      ...b.map((text) => ({ kind: 'new' as const, text })),
    ];
  }
  // lengths[i][j]: of the longest common part of a from i on and b from j on
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  const at = (i: number, j: number): number => lengths[i]?.[j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    const row = lengths[i];
    for (let j = b.length - 1; row && j >= 0; j--) {
      row[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const out: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const [x, y] = [a[i], b[j]];
    if (x !== undefined && x === y) {
      out.push({ kind: 'same', text: x });
      i++;
      j++;
    } else if (x !== undefined && (y === undefined || at(i + 1, j) >= at(i, j + 1))) {
      out.push({ kind: 'gone', text: x });
      i++;
    } else {
      out.push({ kind: 'new', text: y ?? '' });
      j++;
    }
  }
  return out;
}

/** Leaves out same lines that are far from a difference; a number stands for how many. */
export function folded(lines: readonly DiffLine[], around = 3): (DiffLine | number)[] {
  const near = lines.map((_, i) => lines.slice(Math.max(0, i - around), i + around + 1).some((l) => l.kind !== 'same'));
  const out: (DiffLine | number)[] = [];
  for (const [i, line] of lines.entries()) {
    if (near[i]) {
      out.push(line);
      continue;
    }
    const last = out.at(-1);
    if (typeof last === 'number') {
      out[out.length - 1] = last + 1;
    } else {
      out.push(1);
    }
  }
  return out;
}
