import { describe, expect, it } from 'vitest';
import { canRepeat, pausesOf, previewOf, readPairs, requestOf, spreadOf, timesOf, whenOf, whyNot, workOf, writePairs } from './jobs';

describe('bodies', () => {
  it.each([
    [{}, 'now'],
    [{ schedule: { at: 'x' } }, 'at'],
    [{ schedule: { cron: 'x' } }, 'cron'],
    [{ schedule: { every: 'x' } }, 'every'],
    [{ on: { event: 'x' } }, 'on'],
    [{ after: { jobs: [] }, schedule: {} }, 'after'],
  ])('%j runs %s', (body, when) => {
    expect(whenOf(body)).toBe(when);
  });
  it('know what they run', () => {
    expect(workOf({ nats: { subject: 'a' } })).toBe('nats');
    expect(workOf({})).toBe('task');
  });
});

describe('previewOf', () => {
  it('asks for the times of a schedule, within its ends', () => {
    const schedule = { cron: '0 9 * * *', timezone: 'UTC' };
    expect(JSON.parse(JSON.stringify(previewOf({ name: 'a', schedule, end: '2027-01-01T00:00:00Z' })))).toEqual({
      schedule,
      end: '2027-01-01T00:00:00Z',
    });
    expect(previewOf({ schedule: { every: '15m' } })?.schedule?.every).toBe('15m');
  });
  it('asks for none where there is none', () => {
    expect(previewOf({ schedule: { at: 'x' } })).toBeUndefined();
    expect(previewOf({ on: { event: 'x' } })).toBeUndefined();
  });
});

describe('a job that is changed', () => {
  const job = {
    id: '01932e5a-7c00-7003-8d2f-5a1b9c3e7f60',
    tenant: 'default',
    state: 'active' as const,
    created_at: '2026-11-01T00:00:00Z',
    updated_at: '2026-11-01T00:00:00Z',
    generation: 2,
    misfire: { policy: 'run_latest' as const },
    priority: 'low',
    schedule: {},
  };
  // A PUT of the form must not take away what its fields do not know.
  it('keeps all that one may ask for', () => {
    const stated = {
      name: 'report',
      task: 'report',
      schedules: [{ cron: '0 9 * * *', timezone: 'UTC', calendar: { name: 'berlin', on: 'skip' as const } }],
      concurrency: { limit: 2, key: '/customer/id' },
      pause_on_failure: { after: 3 },
      preemptible: true,
      requires: { gpu: 'true' },
      durability: 'everywhere' as const,
    };
    expect(requestOf({ ...job, ...stated })).toEqual({ ...stated, priority: 'low', misfire: { policy: 'run_latest' } });
  });
  it('repeats if it has a name, or any schedule', () => {
    expect(canRepeat(job)).toBe(false);
    expect(canRepeat({ ...job, name: 'report' })).toBe(true);
    expect(canRepeat({ ...job, schedules: [{ every: '1h' }] })).toBe(true);
  });
  it('is asked for its times with its calendars and excluded dates', () => {
    const schedules = [{ cron: '0 9 * * *', exclude: ['2026-12-25'] }];
    expect(timesOf({ ...job, schedules })).toEqual({ schedules });
    expect(timesOf({ ...job, schedule: schedules[0] ?? {} })).toEqual({ schedule: schedules[0] });
    expect(timesOf(job)).toBeUndefined();
  });
});

describe('pairs', () => {
  it('are read and written', () => {
    const { pairs, faults } = readPairs('team=billing\n\nnote=a=b', '=');
    expect(faults).toEqual([]);
    expect(pairs).toEqual({ team: 'billing', note: 'a=b' });
    expect(writePairs(pairs, '=')).toBe('team=billing\nnote=a=b');
    expect(writePairs(undefined, '=')).toBe('');
  });
  it('name the lines that are wrong', () => {
    expect(readPairs('a\nb=1\nb=2', '=').faults).toEqual(['line 1 is not of the form name=value', 'line 3 has b again']);
  });
});

describe('pausesOf', () => {
  it('pairs a pause with what ended it', () => {
    const entry = (action: string, at: string, actor = 'anna', note = 'job 17') => ({ action, actor, at: `2026-11-26T${at}Z`, note });
    expect(
      pausesOf([
        entry('pause', '19:00:00', 'otto', 'job 17 by operation 0193'),
        entry('resume', '18:51:13'),
        entry('update', '18:50:00'),
        entry('pause', '18:48:42', 'ben'),
      ]),
    ).toEqual([
      { from: Date.parse('2026-11-26T19:00:00Z'), by: 'otto', operation: '0193', to: undefined, resumedBy: '' },
      { from: Date.parse('2026-11-26T18:48:42Z'), by: 'ben', operation: '', to: Date.parse('2026-11-26T18:51:13Z'), resumedBy: 'anna' },
    ]);
  });
});

describe('whyNot', () => {
  const job = { state: 'active' as const, created_at: '2026-11-01T00:00:00Z', updated_at: '2026-11-01T00:00:00Z' };
  const at = Date.parse('2026-11-26T09:00:00Z');
  it('has nothing to say if there are runs', () => {
    expect(whyNot({ at, job, named: true, runs: 1 })).toEqual([]);
  });
  it('knows that it did not exist', () => {
    expect(whyNot({ at: Date.parse('2026-10-01T00:00:00Z'), job, named: true, runs: 0 })).toEqual(['The job did not exist yet.']);
  });
  it('knows the schedule, a pause and a change', () => {
    expect(whyNot({ at, job: { ...job, state: 'paused', updated_at: '2026-11-27T00:00:00Z' }, named: false, runs: 0 })).toEqual([
      'Its schedule, as it is now, names no time in that minute.',
      'The job is paused now. While it is paused it has no runs.',
      'The job was changed, paused or resumed since: it may have been otherwise then. Its revisions say how it was.',
    ]);
  });
  it('leaves a pause to those who know when it was, and a change to the audit log', () => {
    const changed = { ...job, updated_at: '2026-11-27T00:00:00Z' };
    expect(whyNot({ at, job: changed, named: true, runs: 0, paused: true, audited: true })).toEqual([]);
    expect(whyNot({ at, job: changed, named: false, runs: 0, audited: true })).toEqual([
      'Its schedule, as it is now, names no time in that minute.',
    ]);
  });
  it('admits that it does not know', () => {
    expect(whyNot({ at, job, named: true, runs: 0 })).toHaveLength(1);
  });
});

describe('spreadOf', () => {
  it.each([
    ['2026-11-26T09:00:07.000Z', '2026-11-26T09:00:00.000Z', 7000],
    ['2026-11-26T09:00:00.000Z', '2026-11-26T09:00:00.000Z', 0],
    ['2026-11-26T08:59:00.000Z', '2026-11-26T09:00:00.000Z', 0],
  ])('due %s of %s', (due_at, nominal_at, want) => {
    expect(spreadOf({ due_at, nominal_at })).toBe(want);
  });
  it('is none where no run is planned', () => {
    expect(spreadOf(undefined)).toBe(0);
  });
});
