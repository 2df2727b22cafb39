import { describe, expect, it } from 'vitest';
import {
  advanced,
  beginning,
  hashOf,
  isPassing,
  largest,
  nextSize,
  nextSlice,
  packed,
  readAnswer,
  sameFile,
  unfit,
  unpacked,
  whyFailed,
  withKey,
  type Slice,
} from './slices';

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Cuts a text as a file that is read so much at once. */
function cutAll(text: string, bounds = { lines: 3, bytes: 100 }, chunk = 7): Slice[] {
  const all = bytesOf(text);
  const out: Slice[] = [];
  let [at, lines, size] = [0, 0, chunk];
  while (at < all.length) {
    const end = Math.min(at + size, all.length);
    const slice = nextSlice(all.subarray(at, end), at, lines, end === all.length, bounds);
    if (!slice) {
      size *= 2;
      continue;
    }
    out.push(slice);
    [at, lines, size] = [slice.end, lines + slice.lines.length, chunk];
  }
  return out;
}

describe('slices', () => {
  it('hold every line once, in order, whatever is read at once', () => {
    const text = '{"a":1}\n\n{"b":"é👩‍🚀"}\r\n{"c":3}\n{"d":4}';
    for (const chunk of [1, 2, 7, 1000]) {
      for (const max of [1, 2, 3, 100]) {
        const slices = cutAll(text, { lines: max, bytes: 20 }, chunk);
        const lines = slices.flatMap((s) => s.lines);
        expect(lines.map((l) => l.number)).toEqual([1, 2, 3, 4, 5]);
        expect(lines.map((l) => textOf(bytesOf(text).subarray(l.start, l.end)))).toEqual(text.split('\n'));
        expect(slices[0]?.start).toBe(0);
        expect(slices.at(-1)?.end).toBe(bytesOf(text).length);
        for (const [i, s] of slices.entries()) {
          expect(s.lines.length).toBeLessThanOrEqual(max);
          expect(s.start).toBe(slices[i - 1]?.end ?? 0);
          expect(s.before).toBe((s.lines[0]?.number ?? 0) - 1);
          expect(s.end - s.start <= 20 || s.lines.length === 1).toBe(true);
        }
      }
    }
  });

  it('are never larger than a node takes in at once', () => {
    expect(largest.lines).toBeLessThanOrEqual(2000);
    expect(largest.bytes).toBeLessThanOrEqual(256 * 1024);
  });

  it('end with a line that has an end', () => {
    expect(cutAll('a\nb\n').flatMap((s) => s.lines)).toHaveLength(2);
  });
});

describe('keys of lines', () => {
  const keyed = (line: string): string => textOf(withKey(bytesOf(line), 'k"1'));

  it.each<[string, string]>([
    ['{"task":"a"}', '{"key":"k\\"1","task":"a"}'],
    ['  { "task":"a"}', '{"key":"k\\"1", "task":"a"}'],
    ['{}', '{"key":"k\\"1"}'],
    ['{"key":"mine"}', '{"key":"mine"}'],
    ['{"payload":{"key":"not mine"}}', '{"key":"k\\"1","payload":{"key":"not mine"}}'],
    ['{"payload":"\\"key\\""}', '{"key":"k\\"1","payload":"\\"key\\""}'],
    ['{"key', '{"key":"k\\"1","key'],
    ['{"key":', '{"key":'],
    ['[1]', '[1]'],
    ['', ''],
    ['not JSON', 'not JSON'],
  ])('%s', (line, want) => {
    expect(keyed(line)).toBe(want);
  });
});

describe('progress', () => {
  const file = { name: 'jobs.ndjson', size: 100, hash: 'abc' };
  const begin = beginning(file, 'default', { checkOnly: false, addKeys: true });
  const piece = (start: number, end: number, before: number, n: number, failed: number[] = []): Parameters<typeof advanced>[1][number] => ({
    slice: { start, end, before, lines: Array.from({ length: n }, (_, i) => ({ number: before + i + 1, start: start + i, end: start + i + 1 })) },
    outcome: { created: n - failed.length, existing: 0, failures: failed.map((number) => ({ number, start, end: start + 5 })) },
  });

  it('goes on only as far as everything is answered', () => {
    const [a, b, c] = [piece(0, 10, 0, 2), piece(10, 30, 2, 3, [4]), piece(30, 40, 5, 1)];
    const first = advanced(begin, [b, c]);
    expect(first.progress.at).toBe(0);
    expect(first.rest).toHaveLength(2);
    const second = advanced(first.progress, [...first.rest, a]);
    expect(second.rest).toHaveLength(0);
    expect(second.progress).toMatchObject({ at: 40, lines: 6, created: 5, failed: 1 });
    expect(second.progress.failures).toEqual([{ number: 4, start: 10, end: 15 }]);
  });

  it('is kept as a text without anything of the lines, and read back', () => {
    const { progress } = advanced(begin, [piece(0, 10, 0, 2, [1]), piece(10, 30, 2, 3, [4])]);
    const text = packed(progress);
    expect(text).not.toContain('task');
    expect(unpacked(text)).toEqual(progress);
  });

  it('is small, however many lines fail', () => {
    const failures = Array.from({ length: 10_000 }, (_, i) => ({ number: i * 3 + 1, start: i * 400, end: i * 400 + 150 }));
    expect(packed({ ...begin, failures }).length).toBeLessThan(150_000);
  });

  it.each(['', 'null', '{}', '{"version":2}', 'x', '{"version":1,"failures":"a.b","at":1}', '{"version":1,"failures":"","at":-1}'])(
    'is none if it is %s',
    (text) => {
      expect(unpacked(text)).toBeUndefined();
    },
  );

  it('belongs to one file', () => {
    expect(sameFile(file, { ...file })).toBe(true);
    expect(sameFile(file, { ...file, size: 101 })).toBe(false);
    expect(sameFile(file, { ...file, hash: 'abd' })).toBe(false);
    expect(hashOf(bytesOf('a'))).not.toBe(hashOf(bytesOf('b')));
    expect(hashOf(bytesOf(''))).toMatch(/^[\da-f]{16}$/);
  });
});

describe('answers', () => {
  it('are read line by line, and one that is cut is left out', () => {
    expect(readAnswer('{"line":1,"status":422}\n\n{"summary":{"lines":1}}\n')).toHaveLength(2);
    expect(readAnswer('{"line":1,"status":422}\n{"summ')).toHaveLength(1);
    expect(readAnswer('<html>')).toHaveLength(0);
  });

  it('say why a line failed', () => {
    expect(whyFailed({ title: 'The request is not valid', errors: [{ location: 'body.task', message: 'is not known' }] })).toBe('task is not known');
    expect(whyFailed({ title: 'Too large', detail: 'At most 256 KiB' })).toBe('Too large: At most 256 KiB');
    expect(whyFailed(undefined)).toBe('It was refused.');
    expect([isPassing(422), isPassing(429), isPassing(503), isPassing(409)]).toEqual([false, true, true, false]);
  });

  it('say how large the next piece may be', () => {
    expect(nextSize(500, 100, 0)).toBe(1000);
    expect(nextSize(2000, 100, 0)).toBe(2000);
    expect(nextSize(2000, 1500, 0)).toBe(2000);
    expect(nextSize(2000, 5000, 0)).toBe(1000);
    expect(nextSize(60, 5000, 0)).toBe(50);
    expect(nextSize(2000, 100, 0.5)).toBe(500);
  });
});

describe('files', () => {
  it('that are no lines of jobs are told of', () => {
    expect(unfit(new Uint8Array([0x1f, 0x8b, 8]), 'a.gz')?.what).toMatch(/gzip/);
    expect(unfit(new Uint8Array([0x28, 0xb5, 0x2f, 0xfd]), 'a.zst')?.what).toMatch(/zstd/);
    expect(unfit(bytesOf('\ufeff [{"a":1}]'), "it's.json")?.command).toBe(`jq -c '.[]' 'it'\\''s.json' > jobs.ndjson`);
    expect(unfit(bytesOf('{"a":1}\n'), 'a.ndjson')).toBeUndefined();
  });
});
