import { describe, expect, it } from 'vitest';
import { errorHead, groupLetters, isOfWorkflow, selects, type LetterLike } from './letters';

const letter = (id: string, error: string, task = 'email', more: Partial<LetterLike> = {}): LetterLike => ({
  id,
  task,
  outcome: 'failed',
  error,
  due_at: '2026-11-26T10:00:00.000Z',
  failed_at: `2026-11-26T10:00:0${id}.000Z`,
  ...more,
});

describe('the head of an error', () => {
  it.each<[string, string]>([
    ['answered 500 Internal Server Error', 'answered 500 Internal Server Error'],
    ['answered 404 Not Found: no order 81723', 'answered 404 Not Found: no order <n>'],
    ['order 0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60 is gone', 'order <id> is gone'],
    ['Post "https://a.test/x?y=1": dial tcp 10.0.0.7:8080: connect: connection refused', 'Post "…": dial tcp <n>:<n>: connect: connection refused'],
    ['at 2026-11-26T10:00:00.123Z: late', 'at <time>: late'],
    ['hash deadbeefdeadbeef00 differs', 'hash <hex> differs'],
    ['step 3 of 5', 'step 3 of 5'],
    ['first\nsecond', 'first'],
    ['  spaces   here ', 'spaces here'],
  ])('%s', (error, head) => {
    expect(errorHead({ error, outcome: 'failed' })).toBe(head);
  });

  it('is made of the outcome where there is no error', () => {
    expect(errorHead({ outcome: 'timed_out' })).toBe('timed out');
    expect(errorHead({ outcome: 'failed', status_code: 503, error: ' ' })).toBe('answered 503');
    expect(errorHead({ outcome: 'lost' })).toBe('lost with its executor');
  });

  it('is short, whatever the error is', () => {
    expect(errorHead({ error: 'x'.repeat(1 << 20), outcome: 'failed' }).length).toBeLessThanOrEqual(120);
    expect(errorHead({ error: '"'.repeat(100_000), outcome: 'failed' }).length).toBeLessThanOrEqual(120);
  });
});

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
    const [most, other, sms] = groups;
    expect(most && selects(most, groups)).toBe('only some of its task');
    expect(other && selects(other, groups)).toBe('only some of its task');
    expect(sms && selects(sms, groups)).toBe('all of its task');
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
    expect(groups[0] && selects(groups[0], groups)).toBe('no task');
  });
});
