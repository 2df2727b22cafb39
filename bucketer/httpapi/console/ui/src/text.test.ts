import { describe, expect, it } from 'vitest';
import { curlText, quoted } from './curl';
import { cut, diffLines, folded, plain, tokens } from './text';

describe('plain', () => {
  it('shows what is not seen, and what turns the direction', () => {
    expect(plain('a\u202eb\u0000\u200b')).toBe('a\\u202eb\\u0000\\u200b');
  });
  it('leaves letters, emoji and lines alone', () => {
    const text = 'שלום\n\t<b>👩‍🚀 👩🏽‍🚀 ❤️‍🔥</b>';
    expect(plain(text)).toBe(text);
    expect(plain('a\u200db')).toBe('a\\u200db');
  });
});

describe('tokens', () => {
  it('keeps every character', () => {
    const json = JSON.stringify({ a: [1, -2.5e9, 'x"y\\', null, true], 'b c': {}, html: '<script>' }, null, 2);
    expect(tokens(json).map((t) => t.text).join('')).toBe(json);
  });
  it('tells names from texts', () => {
    expect(tokens('{"a": "b"}').filter((t) => t.kind !== 'mark')).toEqual([
      { kind: 'name', text: '"a"' },
      { kind: 'text', text: '"b"' },
    ]);
  });
});

describe('cut', () => {
  it('never cuts between the halves of a character', () => {
    expect(cut('ab👍', 3)).toBe('ab');
    expect(cut('ab👍', 4)).toBe('ab👍');
    expect(cut('abc', 9)).toBe('abc');
  });
});

describe('diffLines', () => {
  it('finds what is gone and what is new', () => {
    expect(diffLines('a\nb\nc', 'a\nx\nc').map((l) => l.kind + l.text)).toEqual(['samea', 'goneb', 'newx', 'samec']);
    expect(diffLines('', 'a').map((l) => l.kind)).toEqual(['new']);
    expect(diffLines('a', '').map((l) => l.kind)).toEqual(['gone']);
    expect(diffLines('', '')).toEqual([]);
  });
  it('folds what is far from a difference', () => {
    const same = Array.from({ length: 10 }, (_, i) => String(i)).join('\n');
    const lines = folded(diffLines(same + '\nold', same + '\nnew'), 2);
    expect(lines[0]).toBe(8);
    expect(lines).toHaveLength(1 + 2 + 2);
  });
});

describe('curlText', () => {
  it('is what one would type', () => {
    expect(curlText({ method: 'GET', url: 'http://h/v1/runs?a=b&c=d' }, { key: false })).toBe("curl -sS \\\n  'http://h/v1/runs?a=b&c=d'");
    expect(curlText({ method: 'POST', url: 'http://h/v1/jobs', body: { a: "it's" } }, { key: true })).toBe(
      [
        'curl -sS',
        "'http://h/v1/jobs'",
        '-H "Authorization: Bearer $CARILLON_KEY"',
        "-H 'Content-Type: application/json'",
        `-d '{"a":"it'\\''s"}'`,
      ].join(' \\\n  '),
    );
    expect(curlText({ method: 'DELETE', url: 'http://h/x' }, { key: false })).toContain('-X DELETE');
  });
  it('quotes for a shell', () => {
    expect(quoted("a'b")).toBe(`'a'\\''b'`);
  });
});
