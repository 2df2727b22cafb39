import { describe, expect, it } from 'vitest';
import type { MinuteCounts } from './api/coming';
import { failingHosts, rateNow, recent, verdictOf, type SeenCluster } from './verdict';

const now = Date.parse('2026-11-26T03:10:30.000Z');

function minute(before: number, more: Partial<MinuteCounts> = {}, late: [upTo: number, n: number][] = [[5, 100]]): MinuteCounts {
  const started = late.reduce((sum, [, n]) => sum + n, 0);
  return {
    minute: new Date(Math.floor(now / 60_000) * 60_000 - before * 60_000).toISOString(),
    due: started,
    started,
    succeeded: started,
    failed: 0,
    missed: 0,
    retried: 0,
    late: late.reduce((sum, [upTo, n]) => (upTo > 1000 ? sum + n : sum), 0),
    lateness: { p50_ms: 2, p99_ms: 5, max_ms: 5, classes: late.map(([up_to_ms, count]) => ({ up_to_ms, count })) },
    ...more,
  };
}

const well: SeenCluster = {
  members: [{ name: 'node-1', ready: true, checks: [], slots: { total: 100, used: 10 } }],
  shards: [{ shard: 0, owner: 'node-1', behind_seconds: 20 }],
  store: { ok: true },
  queue: { ok: true },
};

const iso = (ago: number): string => new Date(now - ago).toISOString();

describe('failingHosts', () => {
  const host = { name: 'a', failed: 2, failed_from: iso(3_590_000), failed_to: iso(60_000), succeeded_last: iso(60_000) };
  it('tells of those that fail now, the worst first, and says where others succeed', () => {
    const texts = failingHosts([host, { ...host, name: 'b', failed: 9 }, { ...host, name: 'c', failed_to: iso(1_200_000) }], now, 'default').map((r) => r.text);
    expect(texts).toEqual([
      'Some calls to b have failed for an hour or longer, and others succeed.',
      'Some calls to a have failed for an hour or longer, and others succeed.',
    ]);
  });
  it('leads to the tenant whose calls they are', () => {
    expect(failingHosts([{ ...host, tenant: 'shop' }], now, 'default')[0]?.link?.query?.tenant).toBe('shop');
  });
});

describe('verdictOf', () => {
  it('says that everything is on time', () => {
    const v = verdictOf({ minutes: [minute(1), minute(0)], cluster: well, now });
    expect([v.tone, v.headline]).toEqual(['good', 'Everything is on time']);
    expect(v.detail).toBe(
      '200 runs started in the last 5 minutes: half of them within 5 ms of their time, 99 % within 5 ms.',
    );
    expect(v.reasons).toEqual([]);
  });

  it('says why runs were missed', () => {
    const missed_for = { late: 0, under_way: 5, changed: 1, fault: 0 };
    const skipped = verdictOf({ minutes: [minute(0, { missed: 6, missed_for })], cluster: well, now });
    expect([skipped.tone, skipped.headline]).toEqual(['warn', 'On time, but runs are skipped']);
    expect(skipped.reasons[0]?.text).toBe(
      '6 runs never started in the last 5 minutes: 5 skipped, as a run of the job was under way; 1 as the job was changed, paused or cancelled before.',
    );
    const late = verdictOf({ minutes: [minute(0, { missed: 7, missed_for: { ...missed_for, late: 1 } })], cluster: well, now });
    expect([late.tone, late.headline]).toEqual(['bad', 'Runs are being missed']);
  });

  it('names the host whose calls fail, since when, and its error', () => {
    const host = { name: 'pay.example', failed: 12, failed_from: iso(780_000), failed_to: iso(30_000), last_error: 'answered 503' };
    const v = verdictOf({ minutes: [minute(0, { succeeded: 50, failed: 50 })], cluster: well, hosts: [host], now });
    expect(v.reasons.map((r) => r.text)).toContain(
      'Calls to pay.example have failed for 13 min, and none has succeeded since: answered 503.',
    );
    expect(v.reasons.at(-1)?.link?.query).toEqual({ last: '1h', host: 'pay.example', state: ['failed', 'retrying'], of: 'attempts' });
    // Where hardly anything fails, one host that fails once is no reason.
    expect(verdictOf({ minutes: [minute(0)], cluster: well, hosts: [host], now }).reasons).toEqual([]);
  });

  it('tells of runs that are due and wait', () => {
    const wait = (runs: number, ago: number) => ({
      tenant: 'shop', task: 'ask-partner', reason: 'rate', runs, oldest_due_at: new Date(now - ago).toISOString(),
    });
    const [one] = well.members ?? [];
    const cluster = { ...well, members: [{ ...one!, waiting: [wait(10, 100_000)] }, { ...one!, name: 'node-2', waiting: [wait(4, 280_000)] }] };
    const v = verdictOf({ minutes: [minute(0)], cluster, tenant: 'default', now });
    expect([v.tone, v.headline]).toEqual(['warn', 'What starts is on time, but runs wait']);
    expect(v.reasons[0]?.text).toBe('14 runs wait for the rate of the task ask-partner. The oldest has been due for 4 min 40 s.');
    expect(v.reasons[0]?.link?.query).toEqual({ last: '1h', state: ['pending', 'retrying'], task: 'ask-partner', tenant: 'shop' });
    const brief = { ...well, members: [{ ...one!, waiting: [wait(3, 2000)] }] };
    expect(verdictOf({ minutes: [minute(0)], cluster: brief, now }).tone).toBe('good');
  });

  it('does not say that something is within more than what is known', () => {
    const most = minute(0, {}, [[5, 90]]);
    most.lateness!.classes!.push({ count: 10 });
    expect(verdictOf({ minutes: [{ ...most, started: 100 }], cluster: well, now }).detail).toBe(
      '100 runs started in the last 5 minutes: half of them within 5 ms of their time, some more than 5 min late.',
    );
  });

  it('names missed runs first', () => {
    const v = verdictOf({ minutes: [minute(1, { missed: 3 }, [[5, 99], [2000, 1]])], cluster: well, now });
    expect([v.tone, v.headline]).toEqual(['bad', 'Runs are being missed']);
    expect(v.reasons[0]?.link?.query).toEqual({ last: '6h', state: 'missed', of: 'missed' });
  });

  it('tells a few late runs from many', () => {
    expect(verdictOf({ minutes: [minute(0, {}, [[5, 999], [2000, 1]])], cluster: well, now })).toMatchObject({
      tone: 'warn',
      headline: 'A few runs start late',
    });
    expect(verdictOf({ minutes: [minute(0, {}, [[5, 90], [2000, 10]])], cluster: well, now })).toMatchObject({
      tone: 'bad',
      headline: 'Runs start late',
    });
  });

  it('does not call failures late', () => {
    const v = verdictOf({ minutes: [minute(0, { failed: 50 })], cluster: well, now });
    expect([v.tone, v.headline]).toEqual(['warn', 'On time, but something needs a look']);
  });

  it('forgets what is older than five minutes', () => {
    const v = verdictOf({ minutes: [minute(9, { missed: 3 }), minute(0)], cluster: well, now });
    expect(v.tone).toBe('good');
    expect(recent([minute(5), minute(4), minute(0)], now)).toHaveLength(2);
  });

  it('says what is wrong with the cluster', () => {
    const broken: SeenCluster = {
      ...well,
      members: [
        { name: 'node-1', ready: true, slots: { total: 100, used: 98 } },
        { name: 'node-2', ready: false, checks: [{ name: 'answer', ok: false, message: 'no answer' }] },
        { name: 'node-3', ready: false, checks: [{ name: 'clock', ok: false, message: '3 s fast' }] },
      ],
      store: { ok: true, hosts: [{ name: 'c1', up: true }, { name: 'c2', up: false }] },
      queue: { ok: false, message: 'no servers' },
      shards: [{ shard: 1, behind_seconds: 400 }],
    };
    const v = verdictOf({ minutes: [minute(0)], cluster: broken, now });
    expect(v.tone).toBe('bad');
    expect(v.reasons.map((r) => r.text)).toEqual([
      'NATS is not well: no servers',
      'The node node-2 does not answer.',
      'The node node-3 is not ready: clock: 3 s fast',
      '1 shard is behind, by up to 6 min 40 s.',
      '1 server of Cassandra does not answer: c2.',
      '98 of 100 slots are in use: runs wait for executors.',
    ]);
  });

  it('does not call old counts on time', () => {
    const v = verdictOf({ minutes: [minute(1), minute(0)], cluster: well, now, old: 45_000 });
    expect([v.tone, v.headline]).toEqual(['bad', 'It is not known whether everything is on time']);
    expect(v.detail).toBe('What is shown is 45 s old: nobody has answered since.');
  });

  it('says whose counts are missing, unless the cluster says more of it', () => {
    const seen = { minutes: [minute(0)], missing: ['node-2'], now };
    expect(verdictOf({ ...seen, cluster: well }).reasons.map((r) => r.text)).toEqual([
      'node-2 did not tell what started there in this minute: more may be late than is known.',
    ]);
    const away = { ...well, members: [{ name: 'node-2', ready: false, checks: [{ name: 'answer', ok: false }] }] };
    expect(verdictOf({ ...seen, cluster: away }).reasons.map((r) => r.text)).toEqual(['The node node-2 does not answer.']);
  });

  it('sees that all waits', () => {
    const v = verdictOf({ minutes: [minute(0, { due: 100 }, [])], cluster: well, now });
    expect([v.tone, v.headline]).toEqual(['warn', 'Something is wrong, and nothing runs']);
    expect(v.reasons[0]?.text).toContain('100 more runs fell due than were started');
  });

  it('says that nothing runs, and that nothing is known', () => {
    expect(verdictOf({ minutes: [], cluster: well, now })).toMatchObject({ tone: 'still', headline: 'Nothing is late' });
    expect(verdictOf({ minutes: undefined, now })).toMatchObject({ tone: 'still' });
  });
});

describe('rateNow', () => {
  it('takes the minute under way once it is old enough', () => {
    expect(rateNow([minute(0, { started: 570 })], now)).toBe(20);
  });
  it('takes the one before as well while that is young', () => {
    const young = now - 25_000; // five seconds into the minute
    expect(rateNow([minute(1, { started: 600 }), minute(0, { started: 35 })], young)).toBe(10);
  });
  it('knows nothing without minutes', () => {
    expect(rateNow([], now)).toBeUndefined();
  });
});
