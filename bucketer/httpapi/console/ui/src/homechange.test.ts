import { describe, expect, it } from 'vitest';
import { changeWords, planRows, standOfChange, targetsOf, type HomeChange, type HomeChangeAnswer, type HomeStand, type RegionsStand } from './homechange';

const at = (s: number): string => new Date(Date.UTC(2026, 10, 27, 12, 0, s)).toISOString();
const now = Date.parse(at(30));

const change = (more: Partial<HomeChange>): HomeChange => ({
  from: 'eu',
  to: 'us',
  epoch: 1,
  by: 'ann',
  reason: 'power works',
  phase: 'draining',
  began_at: at(0),
  phase_since: at(20),
  updated_at: at(29),
  ...more,
});

describe('how a change of a home stands', () => {
  it.each([
    [undefined, 'old'],
    [change({}), 'under way'],
    [change({ updated_at: at(20) }), 'silent'],
    [change({ phase: 'done' }), 'ended'],
    [change({ phase: 'given-up', updated_at: '2026-11-27T11:00:00Z' }), 'old'],
  ])('%j: %s', (c, want) => {
    expect(standOfChange(c, now)).toBe(want);
  });
  it('is told with who, why and how far', () => {
    expect(changeWords('eu', change({}), now)).toBe(
      'ann moves home eu from region eu to region us (power works), begun 30 s ago: the home is drained: nothing is taken in or published of it.',
    );
    expect(changeWords('eu', change({ forced: true, phase: 'refused', fault: 'region us gives no sign of life' }), now)).toContain(
      'ann fails over home eu from region eu to region us (power works), begun 30 s ago: it was refused: nothing was announced or changed. region us gives no sign of life.',
    );
  });
  it('says that nobody works on it any more', () => {
    expect(changeWords('eu', change({ updated_at: at(10) }), now)).toContain('Nobody works on it any more');
  });
});

describe('where a home may go', () => {
  const home = (region: string): HomeStand => ({ name: 'eu', region, epoch: 1, served: false, shards: 4 });
  const stand: RegionsStand = { region: 'us', as_of: at(0), regions: [{ name: 'ap' }, { name: 'eu' }, { name: 'us' }], homes: [] };
  it('is every region but the one that serves it', () => {
    expect(targetsOf(home('eu'), stand)).toEqual(['us', 'ap']);
    expect(targetsOf(home('us'), stand)).toEqual(['eu', 'ap']);
    expect(targetsOf(home('ap'), stand)).toEqual(['eu', 'us']);
  });
});

describe('the numbers of a plan', () => {
  const answer: HomeChangeAnswer = {
    home: 'eu',
    from: 'eu',
    to: 'us',
    epoch: 2,
    planned: true,
    plan: {
      last_sign_seconds: 42,
      lag_seconds: 0,
      lost_at_most_seconds: 12,
      executors: 3,
      announced_seconds: 0,
      drained_seconds: 0,
      begins_seconds: 14,
      unavailable_seconds: 14,
      backlog: { settled: at(0), under_way: 1200, looked_at: 9000, due_meanwhile: 40, shards: 32, sampled: 8 },
      refused: [],
    },
  };
  const valueOf = (a: HomeChangeAnswer, forced: boolean, name: string): string | undefined =>
    planRows(a, forced).find((r) => r.name === name)?.value;
  it('say what a fail-over costs', () => {
    expect(valueOf(answer, true, 'Last sign of life of eu')).toBe('42 s ago');
    expect(valueOf(answer, true, 'us is behind by')).toBe('0 s');
    expect(valueOf(answer, true, 'May be missing')).toBe('at most 12 s of work');
    expect(valueOf(answer, true, 'Under way')).toBe('≈ 1,200');
    expect(planRows(answer, true).some((r) => r.bad)).toBe(false);
  });
  it('leave out what a move does not cost', () => {
    const names = planRows(answer, false).map((r) => r.name);
    expect(names).not.toContain('May be missing');
    expect(names).toContain('Not served');
  });
  it('stand out where they stop a fail-over', () => {
    const { lag_seconds: _, ...unknown } = answer.plan;
    const bad = (plan: HomeChangeAnswer['plan']): string[] => planRows({ ...answer, plan }, true).filter((r) => r.bad).map((r) => r.name);
    expect(bad({ ...answer.plan, lag_seconds: 11 })).toEqual(['us is behind by']);
    expect(bad(unknown)).toEqual(['us is behind by']);
    expect(bad({ ...answer.plan, executors: 0 })).toEqual(['Executors of us']);
  });
  it('say that they are not known', () => {
    const plan = { ...answer.plan, backlog: { settled: at(0), under_way: 0, looked_at: 0, due_meanwhile: 0, shards: 0, sampled: 0, fault: 'the store does not answer' } };
    expect(valueOf({ ...answer, plan }, true, 'Under way')).toBe('not known');
  });
});
