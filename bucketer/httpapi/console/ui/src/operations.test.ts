import { describe, expect, it } from 'vitest';
import { filterWords, nounOf, partsOf, selectRuns, titleOf, wholeOf, type OperationLike } from './operations';
import { quotaWords, readQuotas } from './quotas';
import { authWords, targetWords, workKindOf } from './target';

const op = (more: Partial<OperationLike>): OperationLike => ({
  action: 'pause',
  state: 'running',
  matched: 10,
  changed: 6,
  unchanged: 1,
  failed: 0,
  filter: {},
  ...more,
});

describe('operations', () => {
  it('are called by what they do', () => {
    expect(titleOf(op({}))).toBe('Pause jobs');
    expect(titleOf(op({ action: 'retry', filter: { from: 'a', to: 'b' }, dry_run: true }))).toBe('Dry run: retry runs');
    expect(titleOf(op({ action: 'discard' }))).toBe('Discard dead letters');
    expect(titleOf(op({ action: 'backfill', backfill: { job_id: '1', job_name: 'nightly', from: '', to: '' } }))).toBe('Backfill nightly');
    expect(titleOf(op({ action: 'unknown' }))).toBe('An operation that is not understood');
    expect(nounOf(op({ action: 'cancel' }))).toBe('job');
    expect(nounOf(op({ action: 'cancel', filter: { from: 'a', to: 'b' } }))).toBe('run');
    expect(filterWords(op({ filter: { state: 'failed', task: 'x' } }))).toBe('state failed, task x');
    expect(filterWords(op({ filter: { task: 'x', error_pattern: 'answered 422' } }))).toBe('task x, error “answered 422”');
    expect(filterWords(op({ filter: { error: 'card', error_pattern: 'answered 422' } }))).toBe('error “answered 422”, “card” in the error');
    const runs = { states: ['failed', 'missed'], label: 'a=b', labels: ['c=d'], job: '0193', job_name: 'nightly', host: 'h:1', late: '5s', key: 'k' };
    expect(filterWords(op({ filter: runs }))).toBe(
      'state failed or missed, label a=b, label c=d, job nightly, host h:1, late by more than 5s, idempotency key k',
    );
    expect(filterWords(op({ filter: { job: '0193', states: [] } }))).toBe('job 0193');
  });

  it('are for the runs that a list has', () => {
    const none = { state: [], job: '', task: '', host: '', label: [], late: '', key: '' };
    const open = ['pending', 'running'];
    expect(selectRuns(none, open)).toEqual({});
    expect(selectRuns({ ...none, state: ['pending'], label: ['a=b'] }, open)).toEqual({ state: 'pending', label: 'a=b' });
    expect(
      selectRuns({ state: ['pending', 'running'], job: 'j', task: 't', host: 'h', label: ['a=b', 'c=d'], late: '1s', key: 'k' }, open),
    ).toEqual({ states: ['pending', 'running'], job: 'j', task: 't', host: 'h', labels: ['a=b', 'c=d'], late: '1s', key: 'k' });
    expect(selectRuns({ ...none, state: ['pending', 'failed'] }, open)).toBe(
      'Nothing is to be done with runs that are failed. Choose states of pending, running, or none.',
    );
    expect(selectRuns({ ...none, error: '', one_off: '' }, open)).toEqual({});
    for (const more of [{ error: 'refused' }, { one_off: 'true' }]) {
      expect(selectRuns({ ...none, ...more }, open)).toMatch(/^Operations cannot select runs by/);
    }
  });

  it('say how far they have come', () => {
    expect(wholeOf(op({}))).toBeUndefined();
    expect(wholeOf(op({ state: 'done' }))).toBe(10);
    expect(partsOf(op({})).map((p) => [p.name, p.n])).toEqual([
      ['paused', 6],
      ['under way', 0],
      ['as they were', 1],
      ['could not be', 0],
    ]);
    const backfill = op({ backfill: { job_id: '1', from: '', to: '' }, changed: 8, running: 3, failed: 1, unchanged: 0 });
    expect(wholeOf(backfill)).toBe(10);
    expect(partsOf(backfill).map((p) => p.n)).toEqual([4, 3, 0, 1]);
    expect(partsOf(op({ dry_run: true }))).toEqual([{ name: 'match', n: 10, tone: 'run' }]);
  });
});

describe('quotas', () => {
  it('are read and told', () => {
    expect(quotaWords({ runs_per_minute: 6000 }, 'runs_per_minute')).toBe('6,000/min');
    expect(quotaWords({ payload_bytes_per_minute: 1 << 20 }, 'payload_bytes_per_minute')).toBe('1 MiB/min');
    expect(quotaWords({}, 'jobs')).toBe('no bound');
    expect(readQuotas({ jobs: '1,000', runs_per_minute: '', import_lines_per_second: 'x' })).toEqual({
      quotas: { jobs: 1000 },
      faults: { import_lines_per_second: 'must be a whole number, or empty for no bound' },
    });
  });
});

describe('targets', () => {
  it('are told in words', () => {
    expect(targetWords({ http: { url: 'https://x.test/' } })).toBe('POST https://x.test/');
    expect(targetWords({ nats: { subject: 'a.b' } })).toBe('NATS a.b');
    expect(targetWords({ script: { command: 'report', args: ['--fast'] } })).toBe('script report --fast');
    expect(targetWords({ lambda: { function: 'f', region: 'eu-central-1' } })).toBe('Lambda f in eu-central-1');
    expect(targetWords({ kafka: { topic: 'orders.due' } })).toBe('Kafka orders.due');
    expect(targetWords({ sqs: { queue_url: 'https://sqs.eu-central-1.amazonaws.com/1/jobs.fifo' } })).toBe('SQS jobs.fifo');
    expect(targetWords({ sns: { topic_arn: 'arn:aws:sns:eu-central-1:1:jobs' } })).toBe('SNS jobs');
    expect(targetWords({ eventbridge: { source: 'billing', detail_type: 'due' } })).toBe('EventBridge billing due');
    expect(targetWords({ step_functions: { state_machine: 'arn:aws:states:x:1:stateMachine:jobs:live' } })).toBe('Step Functions jobs:live');
    expect(targetWords({ jetstream: { subject: 'orders.due' } })).toBe('JetStream orders.due');
    expect(targetWords({})).toBe('');
    expect(workKindOf({ nats: { subject: 'a' } })).toBe('nats');
    expect(authWords({ http: { url: '', auth: { bearer: { secret: 's' } } } })).toBe('bearer token');
  });
});
