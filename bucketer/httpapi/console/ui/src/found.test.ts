import { describe, expect, it } from 'vitest';
import type { FoundLine } from './api/types';
import { grouped, grown, lookedWords, marked, nothing, ownerOf, searchesOn, type Found } from './found';

const line = (run: string, text: string, more: Partial<FoundLine> = {}): FoundLine => ({
  id: `${run}-${text}`,
  kind: 'line',
  run_id: run,
  attempt: 1,
  due_at: '2026-11-21T09:00:00.000Z',
  text,
  ...more,
});

describe('grown', () => {
  const first = grown(
    nothing,
    { items: [line('a', 'x'), line('a', 'y')], looked_at: { runs: 3, log_reads: 2, lines: 40, reached: '2026-11-21T09:00:00.000Z' }, next_cursor: 'c' },
    100,
  );
  it('adds what was found and looked at', () => {
    expect(first).toMatchObject({ runs: 3, lines: 40, gone: 0, cursor: 'c', over: false, reached: '2026-11-21T09:00:00.000Z' });
  });
  it('keeps the last ones, and how far it came', () => {
    const second = grown(first, { items: [line('b', 'z')], looked_at: { runs: 1, log_reads: 1, lines: 2, damaged: 1, let_go: 2 } }, 2);
    expect(second.items.map((i) => i.text)).toEqual(['y', 'z']);
    expect(second).toMatchObject({ gone: 1, runs: 4, lines: 42, damaged: 1, letGo: 2, over: true, reached: first.reached });
    expect(second.cursor).toBeUndefined();
  });
  it('takes an answer without items', () => {
    expect(grown(first, { items: null, looked_at: { runs: 0, log_reads: 0, lines: 0 }, next_cursor: 'd' }, 100).items).toHaveLength(2);
  });
});

describe('searchesOn', () => {
  const of = (items: number, over: boolean): Found => ({ ...nothing, items: Array.from({ length: items }, (_, i) => line('a', String(i))), over });
  it.each([
    ['nothing so far', of(0, false), 1, 0, true],
    ['enough', of(50, false), 1, 0, false],
    ['all', of(0, true), 1, 0, false],
    ['many answers', of(0, false), 60, 0, false],
    ['a long time', of(0, false), 3, 10_000, false],
  ])('%s', (_, found, answers, took, want) => {
    expect(searchesOn(found, 50, answers, took)).toBe(want);
  });
});

it('says what was looked at', () => {
  expect(lookedWords({ ...nothing, runs: 1, lines: 1200 })).toBe('Looked at 1,200 lines of 1 run');
  expect(lookedWords({ ...nothing, damaged: 1 })).toBe('Looked at 0 lines of 0 runs; 1 part of a log could not be understood');
});

it('says whose a line is', () => {
  expect(ownerOf(line('a', 'x', { job_name: 'report', task: 'mail' }))).toBe('report');
  expect(ownerOf(line('a', 'x', { task: 'mail' }))).toBe('mail');
  expect(ownerOf(line('a', 'x'))).toBe('one-off job');
  expect(ownerOf(line('a', 'x', { job_name: 'etl', step: 'load', item: 2 }))).toBe('etl › load [2]');
  expect(ownerOf(line('a', 'x', { step: 'load' }))).toBe('load');
});

it('puts lines of one run together that follow each other', () => {
  const groups = grouped([line('a', '1'), line('a', '2'), line('b', '3'), line('a', '4')]);
  expect(groups.map((g) => [g.run, g.lines.map((l) => l.text).join(' ')])).toEqual([
    ['a', '1 2'],
    ['b', '3'],
    ['a', '4'],
  ]);
  expect(new Set(groups.map((g) => g.key)).size).toBe(3);
});

describe('marked', () => {
  const shown = (text: string, sought: string) => marked(text, sought).map((p) => (p.hit ? `<${p.text}>` : p.text)).join('');
  it.each([
    ['Sent to Ada', 'sent', '<Sent> to Ada'],
    ['a.b.a', 'a', '<a>.b.<a>'],
    ['aaa', 'aa', '<aa>a'],
    ['none here', 'x', 'none here'],
    ['', 'x', ''],
    ['whole', '', 'whole'],
    ['$1 (.*)', '(.*)', '$1 <(.*)>'],
    ['İstanbul', 'istanbul', 'İstanbul'],
  ])('%s of %s', (text, sought, want) => {
    expect(shown(text, sought)).toBe(want);
  });
});
