import { describe, expect, it } from 'vitest';
import type { Run } from './api/types';
import { partOf, toJson } from './document';
import {
  beforeWords,
  bodyFor,
  eventOf,
  foundIn,
  itemsDone,
  openBefore,
  reasonWords,
  shapesOfGraph,
  shapesOfRun,
  shapesOfText,
  statesOf,
  stateTogether,
  untilOf,
  waitsOf,
  workWords,
} from './steps';
import { requestOf } from './workflows';
import { readYaml } from './yaml';

describe('steps', () => {
  it('are those of a graph', () => {
    expect(
      shapesOfGraph({
        nodes: [
          { name: 'a', kind: 'task', what: 'extract' },
          { name: 'b', kind: 'wait', what: 'approved', when: 'any_failed', if: 'x', for_each: true },
        ],
        edges: [{ from: 'a', to: 'b' }],
      }),
    ).toEqual([
      { name: 'a', after: [], when: 'all_succeeded', kind: 'task', what: 'extract', condition: '', forEach: false },
      { name: 'b', after: ['a'], when: 'any_failed', kind: 'wait', what: 'approved', condition: 'x', forEach: true },
    ]);
  });

  it('are those of a run without a graph', () => {
    expect(shapesOfRun([{ name: 'a', state: 'pending', after: null }])[0]).toMatchObject({ name: 'a', after: [], kind: '' });
  });

  it('are those of a text, as far as it can be read', () => {
    const shapes = shapesOfText(
      readYaml(`steps:
  - {name: a, http: {url: https://x.test/}}
  - {name: b, after: [a, missing, b, c], wait: {event: approved}}
  - {name: c, after: [b], wait: {for: 10m}}
  - {name: a, task: twice}
  - {task: nameless}
  - 7
  - {name: d, when: always, lambda: {function: f}, for_each: {items: [1]}}
`),
    );
    expect(shapes.map((s) => [s.name, s.kind, s.what])).toEqual([
      ['a', 'http', 'https://x.test/'],
      ['b', 'wait', 'approved'],
      ['c', 'wait', '10m'],
      ['d', 'lambda', 'f'],
    ]);
    // b comes after c and c after b: one of the two is left out of the drawing.
    const [, b, c] = shapes;
    expect(b?.after).toContain('a');
    expect(b?.after.includes('c') && c?.after.includes('b')).toBe(false);
    expect(shapes[3]).toMatchObject({ when: 'always', forEach: true });
  });

  it('say what they do', () => {
    expect(workWords({ kind: 'task', what: 'load' })).toBe('task load');
    expect(workWords({ kind: 'http', what: '' })).toBe('HTTP call');
    expect(workWords({ kind: 'http', what: 'https://x.test/a' })).toBe('x.test/a');
    expect(workWords({ kind: 'wait', what: '12h0m0s' })).toBe('wait 12 h');
    expect(workWords({ kind: 'wait', what: 'until 2026-11-21T00:00:00Z' })).toBe('wait until 2026-11-21T00:00:00Z');
    expect(workWords({ kind: 'wait', what: 'approved' })).toBe('wait for approved');
    expect(eventOf({ kind: 'wait', what: 'approved' })).toBe('approved');
    expect(eventOf({ kind: 'wait', what: '12h' })).toBeUndefined();
    expect(eventOf({ kind: 'task', what: 'approved' })).toBeUndefined();
  });

  it('stand as those in them stand', () => {
    expect(stateTogether(['succeeded', 'running', 'pending'])).toBe('running');
    expect(stateTogether(['succeeded', 'failed', 'running'])).toBe('failed');
    expect(stateTogether([])).toBe('pending');
    expect(statesOf([{ state: 'succeeded' }, { state: 'failed' }, { state: 'succeeded' }])).toEqual([
      ['failed', 1],
      ['succeeded', 2],
    ]);
    expect(itemsDone({ total: 10, states: { succeeded: 4, failed: 1, running: 2 } })).toEqual({ done: 4, failed: 1, total: 10 });
    expect(itemsDone(undefined)).toEqual({ done: 0, failed: 0, total: 0 });
    expect(reasonWords({ name: 'a', state: 'pending', reason: 'it waits for steps before it' })).toBe('It waits for steps before it.');
    expect(reasonWords({ name: 'a', state: 'skipped', reason: 'by hand' })).toBe('It was skipped by hand.');
  });

  it('wait for those before them that have not ended', () => {
    const steps = new Map(
      [
        { name: 'a', state: 'succeeded' },
        { name: 'b', state: 'running' },
        { name: 'c', state: 'waiting' },
        { name: 'd', state: 'pending', after: ['a', 'b', 'gone', 'c'] },
        { name: 'e', state: 'running', after: ['b'] },
      ].map((s) => [s.name, s]),
    );
    const before = openBefore({ name: 'd', state: 'pending', after: ['a', 'b', 'gone', 'c'] }, steps);
    expect(before.map((s) => s.name)).toEqual(['b', 'c']);
    expect(beforeWords(before)).toBe('It waits for b (running), c (waiting).');
    expect(beforeWords(before, 1)).toBe('It waits for b (running) and 1 more.');
    expect(openBefore({ name: 'e', state: 'running', after: ['b'] }, steps)).toEqual([]);
  });

  it('wait for a time', () => {
    expect(untilOf({ reason: 'it waits until 2026-11-26T10:00:00Z' })).toBe('2026-11-26T10:00:00Z');
    expect(untilOf({ reason: 'it waits for the event until' })).toBeUndefined();
    expect(untilOf({})).toBeUndefined();
  });

  it('wait for what their runs wait for', () => {
    const now = Date.parse('2026-11-26T10:00:00Z');
    const run = (step: string, more: Partial<Run>): Run =>
      ({ step, state: 'pending', due_at: '2026-11-26T09:59:59Z', attempts: [], ...more }) as Run;
    const rate = { since: '2026-11-26T09:59:59Z', reason: 'rate: the rate of its task is used up until then' };
    const waits = waitsOf(
      [
        run('a', { waiting: rate, deferred_until: '2026-11-26T10:05:00Z' }),
        run('b', { item: 0, waiting: rate }),
        run('b', { item: 1, waiting: rate }),
        run('b', { item: 2, state: 'retrying', next_attempt_at: '2026-11-26T10:01:00Z', attempts: [{ number: 1 }] }),
        run('on its way', {}),
        run('asks for an event', { state: 'waiting', waiting: { since: '', reason: 'event: it waits for approved' } }),
      ],
      now,
    );
    expect([...waits]).toEqual([
      ['a', { text: 'The rate of its task is used up.', until: '2026-11-26T10:05:00Z' }],
      ['b', { text: '2 items: The rate of its task is used up. 1 item: Attempt 1 failed. It is tried again after a pause.' }],
    ]);
  });

  it('are found by a text', () => {
    const shapes = shapesOfRun([{ name: 'Load', state: '' }, { name: 'extract', state: '' }]);
    expect(foundIn(shapes, '')).toBeUndefined();
    expect([...(foundIn(shapes, 'load') ?? [])]).toEqual(['Load']);
  });
});

describe('the body of an event', () => {
  it.each<[string, string, unknown, unknown]>([
    ['of the input', 'event.version == input.version', { version: '1.4.0' }, { version: '1.4.0' }],
    ['of several', "event.day == input.date && event.by == 'me' && event.n == 3 && event.ok == true", { date: 'd' }, { day: 'd', by: 'me', n: 3, ok: true }],
    ['the other way', '"eu" == event.region', {}, { region: 'eu' }],
    ['deep', 'event.a.b == input.c.d', { c: { d: [1] } }, { a: { b: [1] } }],
    ['unknown', 'event.n > 3 && size(event.x) == 2', {}, {}],
    ['absent', 'event.v == input.v', null, {}],
    ['nothing', '', undefined, {}],
  ])('is filled in: %s', (_name, filter, input, want) => {
    expect(bodyFor(filter, input)).toEqual(want);
  });

  it('does nothing to what all objects have', () => {
    bodyFor("event.__proto__.polluted == 'yes' && event.constructor.prototype.polluted == 'yes'", {});
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

describe('a workflow that is asked for', () => {
  it('has what was stated, and not what the server adds', () => {
    const answered = {
      id: '1',
      tenant: 't',
      name: 'etl',
      schedule: { cron: '0 2 * * *', timezone: 'Europe/Berlin', gap: 'run', overlap_hour: 'first' },
      misfire: { policy: 'run_latest' },
      concurrency: { limit: 3, on_limit: 'queue' },
      deadline: '3h0m0s',
      priority: 'normal',
      state: 'active',
      generation: 5,
      payload: {},
      labels: {},
      steps: [
        {
          name: 'a',
          http: { method: 'POST', url: 'https://x.test/', body: 'payload' },
          timeout: '30s',
          retry: { max_attempts: 5, initial: '1s', factor: 2, max: '10m0s', jitter: 'full' },
          guarantee: 'at_least_once',
        },
        { name: 'b', after: ['a'], when: 'all_succeeded', task: 'x', for_each: { items: [] } },
        { name: 'c', after: ['b'], when: 'all_done', workflow: 'child' },
      ],
    };
    expect(JSON.parse(toJson(requestOf(partOf(answered))))).toEqual({
      name: 'etl',
      schedule: { cron: '0 2 * * *', timezone: 'Europe/Berlin' },
      deadline: '3h0m0s',
      concurrency: { limit: 3 },
      payload: {},
      steps: [
        { name: 'a', http: { url: 'https://x.test/' } },
        { name: 'b', after: ['a'], task: 'x', for_each: { items: [] } },
        { name: 'c', after: ['b'], when: 'all_done', workflow: 'child' },
      ],
    });
  });
});
