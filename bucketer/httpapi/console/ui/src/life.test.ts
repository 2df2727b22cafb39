import { describe, expect, it } from 'vitest';
import type { Run } from './api/types';
import { lifeOf } from './life';
import { whyItWaits } from './runs';

const base = {
  id: '01a21c72-91fa-8011-ab7c-4d1e90a35f68',
  tenant: 'default',
  priority: 'normal',
  trigger: 'schedule',
  nominal_at: '2026-11-26T09:00:00.000Z',
  due_at: '2026-11-26T09:00:00.000Z',
  attempts: [],
} as unknown as Run;

const at = (text: string): number => Date.parse(`2026-11-26T${text}Z`);

describe('lifeOf', () => {
  it('waits for its time', () => {
    const life = lifeOf({ ...base, state: 'pending' }, at('08:59:00'));
    expect(life.stretches).toEqual([{ kind: 'ahead', from: at('08:59:00'), to: at('09:00:00'), open: true }]);
  });
  it('does not expect what was cancelled before it was due', () => {
    const run = { ...base, state: 'cancelled', finished_at: '2026-11-26T08:54:00.000Z' } as unknown as Run;
    expect(lifeOf(run, at('08:55:00')).moments.map((m) => [m.words, m.expected ?? false])).toEqual([
      ['the run cancelled', false],
      ['it would have been due', false],
    ]);
  });
  it('calls a run skipped that was', () => {
    const missed = { reason: 'skipped: as many runs are under way as may be', count: 1, from: base.due_at, to: base.due_at };
    const run = { ...base, state: 'missed', missed, finished_at: '2026-11-26T09:00:01.000Z' } as unknown as Run;
    expect(lifeOf(run, at('09:01:00')).moments.at(-1)?.words).toBe('the run was skipped');
  });
  it('has a wait, attempts, and a pause between', () => {
    const run = {
      ...base,
      state: 'succeeded',
      started_at: '2026-11-26T09:00:00.005Z',
      finished_at: '2026-11-26T09:00:04.000Z',
      attempts: [
        { number: 1, started_at: '2026-11-26T09:00:00.005Z', finished_at: '2026-11-26T09:00:01.000Z', outcome: 'failed' },
        { number: 2, started_at: '2026-11-26T09:00:03.000Z', finished_at: '2026-11-26T09:00:04.000Z', outcome: 'succeeded' },
      ],
    } as unknown as Run;
    const life = lifeOf(run, at('10:00:00'));
    expect(life.stretches.map((s) => [s.kind, s.to - s.from])).toEqual([
      ['wait', 5],
      ['attempt', 995],
      ['pause', 2000],
      ['attempt', 1000],
    ]);
    expect(life.end).toBe(at('09:00:04'));
    expect(life.moments.map((m) => m.words)).toEqual([
      'due',
      'attempt 1 began',
      'attempt 1 failed',
      'attempt 2 began',
      'attempt 2 succeeded',
      'the run succeeded',
    ]);
  });
  it('has the message of an attempt on its way, also where it was published ahead', () => {
    const attempts = [
      {
        number: 1,
        executor: 'node-1',
        published_at: '2026-11-26T08:59:59.900Z',
        received_at: '2026-11-26T09:00:00.020Z',
        started_at: '2026-11-26T09:00:00.050Z',
        finished_at: '2026-11-26T09:00:01.000Z',
        outcome: 'succeeded',
      },
    ];
    const life = lifeOf({ ...base, state: 'succeeded', attempts } as unknown as Run, at('10:00:00'));
    expect(life.stretches.map((s) => [s.kind, s.to - s.from])).toEqual([
      ['queued', 20],
      ['received', 30],
      ['attempt', 950],
    ]);
    expect(life.moments.map((m) => m.words)).toEqual([
      'attempt 1 published to the executors',
      'due',
      'attempt 1 received by node-1',
      'attempt 1 began on node-1',
      'attempt 1 succeeded',
    ]);
  });
  it('goes on while an attempt does', () => {
    const run = {
      ...base,
      state: 'running',
      started_at: '2026-11-26T09:00:00.000Z',
      attempts: [{ number: 1, started_at: '2026-11-26T09:00:00.000Z', executor: 'node-1' }],
    } as unknown as Run;
    const life = lifeOf(run, at('09:00:10'));
    expect(life.stretches.at(-1)).toMatchObject({ kind: 'attempt', open: true, to: at('09:00:10'), outcome: 'running' });
  });
  it('shows when it is tried next', () => {
    const waiting = { since: '2026-11-26T09:00:02.000Z', reason: 'rate: the rate of its task is used up until then' };
    const run = { ...base, state: 'pending', deferred_until: '2026-11-26T09:01:00.000Z', waiting } as unknown as Run;
    const life = lifeOf(run, at('09:00:30'));
    expect(life.end).toBe(at('09:01:00'));
    expect(life.moments.map((m) => m.words)).toEqual(['due', 'held back by its task’s rate', 'tried next']);
    expect(life.moments.at(-1)).toMatchObject({ words: 'tried next', expected: true });
  });
  it('shows what held back a run that has started', () => {
    const run = {
      ...base,
      state: 'running',
      started_at: '2026-11-26T09:00:30.000Z',
      waited: { since: '2026-11-26T09:00:02.000Z', reason: 'concurrency: a run of the job was under way' },
      attempts: [{ number: 1, started_at: '2026-11-26T09:00:30.000Z', executor: 'node-1' }],
    } as unknown as Run;
    expect(lifeOf(run, at('09:00:40')).moments.map((m) => m.words)).toEqual([
      'due',
      'held back by its job’s limit',
      'attempt 1 began on node-1',
    ]);
  });
});

describe('whyItWaits', () => {
  it.each([
    [{ state: 'pending' }, '08:00:00', 'It is not due yet.'],
    [{ state: 'pending' }, '09:00:01', 'It is due, and on its way to an executor.'],
    [{ state: 'pending' }, '09:00:10', 'It has been due for 10.0 s, and no executor has begun it.'],
    [
      { state: 'pending', waiting: { since: '', reason: 'concurrency: a run of the job was under way' } },
      '09:00:10',
      'Its job allows only so many runs at once, and they are under way.',
    ],
    [
      { state: 'waiting', waiting: { since: '', reason: 'jobs: it runs after jobs that have not ended: a, b' } },
      '09:00:10',
      'It runs after jobs that have not ended: a, b',
    ],
    [{ state: 'succeeded' }, '09:00:10', undefined],
  ])('%j at %s', (more, time, text) => {
    expect(whyItWaits({ ...base, ...more } as unknown as Run, at(time))?.text).toBe(text);
  });
});
