import { describe, expect, it } from 'vitest';
import { filterOfGroup, groupLetters, helpedWords, isOfWorkflow, replaysOf, type LetterLike } from './letters';

const letter = (id: string, error: string, task = 'email', more: Partial<LetterLike> = {}): LetterLike => ({
  id,
  task,
  outcome: 'failed',
  error,
  error_pattern: error.replace(/ \d\d$/, ' <n>'),
  due_at: '2026-11-26T10:00:00.000Z',
  failed_at: `2026-11-26T10:00:0${id}.000Z`,
  ...more,
});

/** No filter of the list besides. */
const all = { job: '', label: [] };

describe('groups of dead letters', () => {
  it('are by task and error, the largest first', () => {
    const groups = groupLetters([
      letter('1', 'answered 500: order 11', 'email'),
      letter('2', 'answered 500: order 22', 'email'),
      letter('3', 'answered 500: order 33', 'sms'),
      letter('4', 'answered 404', 'email'),
      letter('5', 'answered 500: order 55', 'email'),
    ]);
    expect(groups.map((g) => [g.task, g.head, g.letters.length])).toEqual([
      ['email', 'answered 500: order <n>', 3],
      ['email', 'answered 404', 1],
      ['sms', 'answered 500: order <n>', 1],
    ]);
    expect(groups[0]).toMatchObject({ first: '2026-11-26T10:00:01.000Z', last: '2026-11-26T10:00:05.000Z' });
    expect(groups.map((g) => g.such)).toEqual(['answered 500: order 55', '', 'answered 500: order 33']);
  });

  it('are made of the error where a node knows no pattern', () => {
    const old = letter('1', 'answered 404\nsorry', 'email', { error_pattern: undefined });
    const [group] = groupLetters([old]);
    expect(group?.head).toBe('answered 404');
    expect(group && filterOfGroup(group, all)).toBeUndefined();
  });

  it('are selected by task, error and time', () => {
    const [group] = groupLetters([
      letter('1', 'answered 500: order 11', 'email', { due_at: '2026-11-26T10:00:01.000Z' }),
      letter('2', 'answered 500: order 22', 'email', { due_at: '2026-11-26T09:00:00.000Z' }),
    ]);
    const selected = {
      from: '2026-11-26T09:00:00.000Z',
      to: '2026-11-26T10:00:01.001Z',
      task: 'email',
      error_pattern: 'answered 500: order <n>',
    };
    expect(group && filterOfGroup(group, all)).toEqual(selected);
    expect(group && filterOfGroup(group, { job: 'nightly', label: ['a=b'] })).toEqual({ ...selected, job: 'nightly', label: 'a=b' });
    expect(group && filterOfGroup(group, { job: '', label: ['a=b', 'c=d'] })).toEqual({ ...selected, labels: ['a=b', 'c=d'] });
    expect(group && filterOfGroup(group, { job: '', label: [''] })).toEqual(selected);
  });

  it('may be of a workflow', () => {
    expect(isOfWorkflow({ error: 'step "post" failed: answered 422' })).toBe(true);
    expect(isOfWorkflow({ error: 'step "post" failed', task: 'email' })).toBe(false);
    expect(isOfWorkflow({ error: 'answered 422' })).toBe(false);
  });

  it('are by job where there is no task', () => {
    const groups = groupLetters([
      letter('1', 'x', '', { job_name: 'a' }),
      letter('2', 'x', '', { job_name: 'b' }),
      letter('3', 'x', '', { job_name: 'a' }),
    ]);
    expect(groups.map((g) => [g.job, g.letters.length])).toEqual([
      ['a', 2],
      ['b', 1],
    ]);
    expect(groups[0] && filterOfGroup(groups[0], { job: 'a', label: [] })).toBeUndefined();
  });
});

it('says what became of replays', () => {
  const letters = ['succeeded', 'failed', 'succeeded', undefined].map((state) => ({ replay_state: state }));
  expect(replaysOf(letters)).toEqual([
    ['succeeded', 2],
    ['failed', 1],
    ['left', 1],
  ]);
});

describe('helpedWords', () => {
  const of = (...states: (string | undefined)[]) => states.map((replay_state) => ({ replay_state }));
  it.each([
    [of('succeeded'), '1 of 1 new run has succeeded.'],
    [of('succeeded', 'succeeded', 'failed', 'running', 'cancelled', undefined), '2 of 6 new runs have succeeded, 1 failed again, 1 goes on, 1 never ran, of 1 it is not known any more.'],
    [of('failed', 'missed'), '0 of 2 new runs have succeeded, 2 failed again.'],
    [of('pending', 'retrying'), '0 of 2 new runs have succeeded, 2 go on.'],
  ])('%j', (letters, want) => {
    expect(helpedWords(letters)).toBe(want);
  });
});
