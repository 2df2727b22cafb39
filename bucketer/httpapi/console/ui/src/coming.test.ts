import { describe, expect, it } from 'vitest';
import { busiestOf, comingMinutes, laterTimes, mayRepeatInHour, type Coming, type PlannedRun } from './coming';

const at = (clock: string): string => `2026-11-26T${clock}.000Z`;
const ms = (clock: string): number => Date.parse(at(clock));

function run(id: string, due: string, more: Partial<PlannedRun> = {}): PlannedRun {
  return { id, job_id: id, trigger: 'schedule', due_at: at(due), ...more };
}

function hour(more: Partial<Coming>): Coming {
  return { planned: [], reached: ms('10:00:00'), occurrences: [], estimates: new Map(), from: ms('09:00:00'), to: ms('10:00:00'), ...more };
}

describe('comingMinutes', () => {
  it('says of what a minute consists, recurring and one-off', () => {
    const [nine] = comingMinutes(
      hour({
        planned: [
          run('a', '09:00:01', { task: 'email' }),
          run('b', '09:00:02', { task: 'email' }),
          run('c', '09:00:03'),
          run('d', '09:00:07', { job_id: 'prices', job_name: 'price-list', task: 'email' }),
          run('e', '09:00:00', { job_id: 'flow', workflow: 'etl', job_name: 'etl' }),
        ],
      }),
    );
    expect(nine).toMatchObject({ at: ms('09:00:00'), runs: 5, recurring: 2, oneOff: 3, atLeast: false });
    expect(nine?.groups.map((g) => [g.kind, g.name, g.runs, g.recurring])).toEqual([
      ['task', 'email', 2, false],
      ['workflow', 'etl', 1, true],
      ['one-off', '', 1, false],
      ['job', 'price-list', 1, true],
    ]);
  });
  it('counts the later times of a recurring job, and the planned one once', () => {
    const minutes = comingMinutes(
      hour({
        planned: [run('r', '09:10:00', { job_id: 'poll', job_name: 'poll' })],
        occurrences: ['09:10:00', '09:20:00', '09:20:00', '10:00:00'].map((t) => ({ job: 'poll', name: 'poll', workflow: false, dueAt: at(t) })),
      }),
    );
    expect(minutes.map((m) => [m.at, m.runs])).toEqual([
      [ms('09:10:00'), 1],
      [ms('09:20:00'), 1],
    ]);
  });
  it('leaves out what is due before: it waits, and is no coming run', () => {
    expect(comingMinutes(hour({ planned: [run('late', '08:59:59')] }))).toEqual([]);
  });
  it('takes the estimate of minutes that were not looked through, and of no other', () => {
    const minutes = comingMinutes(
      hour({
        planned: [run('a', '09:00:00'), run('b', '09:30:10')],
        reached: ms('09:30:10'),
        estimates: new Map([
          [ms('09:00:00'), 40],
          [ms('09:30:00'), 900],
          [ms('09:45:00'), 12],
        ]),
      }),
    );
    expect(minutes.map((m) => [m.at, m.runs, m.atLeast])).toEqual([
      [ms('09:00:00'), 1, false],
      [ms('09:30:00'), 900, true],
      [ms('09:45:00'), 12, true],
    ]);
    expect(busiestOf(minutes)?.at).toBe(ms('09:30:00'));
  });
});

describe('busiestOf', () => {
  it('is the first of several, and none of nothing', () => {
    expect(busiestOf(comingMinutes(hour({ planned: [run('a', '09:01:00'), run('b', '09:02:00')] })))?.at).toBe(ms('09:01:00'));
    expect(busiestOf([])).toBeUndefined();
  });
});

describe('laterTimes', () => {
  it('goes on from the next, up to the end', () => {
    expect(laterTimes(at('09:05:07'), 20 * 60_000, ms('10:00:00'))).toEqual([at('09:25:07'), at('09:45:07')]);
    expect(laterTimes(at('09:05:07'), 0, ms('10:00:00'))).toEqual([]);
  });
});

describe('mayRepeatInHour', () => {
  it.each([
    ['0 9 * * MON-FRI', false],
    ['H 9 * * *', false],
    ['*/5 * * * *', true],
    ['0,30 * * * *', true],
    ['0 0 9 * * *', false],
    ['*/10 0 9 * * *', true],
    ['@daily', false],
  ])('%s', (cron, want) => {
    expect(mayRepeatInHour(cron)).toBe(want);
  });
});
