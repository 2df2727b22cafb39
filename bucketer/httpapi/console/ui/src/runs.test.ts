import { describe, expect, it } from 'vitest';
import type { Run } from './api/types';
import { errorOf, failedAttempts, ownRuns, saidOf } from './runs';

it('counts attempts that ended otherwise than well', () => {
  const attempts = ['failed', 'timed_out', 'lost', 'superseded', 'cancelled', 'succeeded', undefined].map((outcome, i) => ({ number: i + 1, outcome }));
  expect(failedAttempts({ attempts } as Parameters<typeof failedAttempts>[0])).toBe(3);
});

describe('the error of a run', () => {
  const attempts = [{ number: 1, outcome: 'failed', error: 'answered 500: all of a long page' }];
  const run = (more: object): Run => ({ due_at: '2026-11-26T09:00:00Z', attempts, error: 'answered 500: all of …', ...more }) as unknown as Run;
  it('is told in lists as it begins, if the run failed or is tried again', () => {
    const now = Date.parse('2026-11-26T09:01:00Z');
    expect(saidOf(run({ state: 'failed' }), now)).toBe('answered 500: all of …');
    expect(saidOf(run({ state: 'retrying' }), now)).toBe('answered 500: all of …');
    expect(saidOf(run({ state: 'failed', attempts: [], error: 'given up: it has no task' }), now)).toBe('given up: it has no task');
    expect(saidOf(run({ state: 'running' }), now)).toBe('');
  });
  it('is whole on the page of the run, where its last attempt tells it', () => {
    expect(errorOf(run({}))).toBe('answered 500: all of a long page');
    expect(errorOf(run({ attempts: [...attempts, { number: 2, outcome: 'lost' }] }))).toBe('answered 500: all of …');
    expect(errorOf(run({ attempts: [] }))).toBe('answered 500: all of …');
    expect(errorOf(run({ attempts: [], error: undefined }))).toBeUndefined();
  });
});

it('tells runs of a job from those that repeat one', () => {
  const runs = [{ id: 'c', origin: 'b' }, { id: 'b', origin: 'a' }, { id: 'a' }] as Run[];
  expect(ownRuns(runs).map((run) => run.id)).toEqual(['a']);
});
