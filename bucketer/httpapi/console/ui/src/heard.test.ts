import { describe, expect, it } from 'vitest';
import { outcomeWords, stepsThatHeard, waitersFor } from './heard';

it('finds the workflows that wait for an event', () => {
  const workflows = [
    { name: 'release', steps: [{}, { wait: { event: 'approved' } }] },
    { name: 'etl', steps: [{ wait: { for: '1h' } }] },
    { name: 'none', steps: null },
  ];
  expect(waitersFor(workflows, 'approved').map((w) => w.name)).toEqual(['release']);
});

it('finds the steps that an event let go on, and no others', () => {
  const runs = [
    { id: 'a', workflow: 'release', state: 'running', steps: [{ name: 'build' }, { name: 'approve', event: { id: 'e1' } }] },
    { id: 'b', workflow: 'release', state: 'succeeded', steps: [{ name: 'approve', event: { id: 'e2' } }] },
    { id: 'c', state: 'pending' },
  ];
  expect(stepsThatHeard(runs, 'e1')).toEqual([{ run: 'a', workflow: 'release', step: 'approve', state: 'running' }]);
});

describe('outcomeWords', () => {
  const of = (...states: string[]) => states.map((state) => ({ state }));
  it.each([
    [of(), false, 0, 'It started no run. No step went on by it.'],
    [of('running', 'succeeded', 'succeeded'), false, 1, 'It started 3 runs: 2 succeeded, 1 running. 1 step went on by it.'],
    [of('failed'), true, undefined, 'It started 1 run or more: 1 failed.'],
  ])('%j', (started, more, steps, want) => {
    expect(outcomeWords(started, more, steps)).toBe(want);
  });
});
