import { describe, expect, it } from 'vitest';
import { faultsAt, Problem, problemBelow } from './api/problem';
import type { Notification } from './api/types';
import { matchWords, muteFrom, mutedFor, mutedUntil, notTaken, onceUntil, requestOf, sinkKindOf, sinkWords, standing, unmuted } from './notifications';

const rule: Notification = {
  name: 'billing',
  tenant: 'default',
  on: ['failed'],
  match: {},
  sinks: [{ slack: { url: 'https://hooks.slack.com/services/x' } }],
  group_by: [],
  group_wait: '30s',
  group_interval: '5m',
  repeat_interval: '4h',
  send_resolved: false,
};

describe('rules', () => {
  it.each([
    [{ email: { to: ['a@x.test', 'b@x.test'] } }, 'e-mail to a@x.test, b@x.test'],
    [{ slack: { url: 'https://hooks.slack.com/services/secret' } }, 'Slack at hooks.slack.com'],
    [{ teams: { url: 'none' } }, 'Microsoft Teams'],
    [{ slack: { url_secret: 'slack-url' } }, 'Slack at the URL in the secret slack-url'],
    [{ pagerduty: {} }, 'PagerDuty, error'],
    [{ pagerduty: { severity: 'critical' } }, 'PagerDuty, critical'],
    [{}, 'a sink that this page does not know'],
  ])('%j is %s', (sink, words) => {
    expect(sinkWords(sink)).toBe(words);
  });
  it('know their sinks', () => {
    expect(sinkKindOf({ alertmanager: { url: '' } })).toBe('alertmanager');
    expect(sinkKindOf({ pigeon: {} })).toBeUndefined();
  });
  it.each([
    [undefined, 'all runs'],
    [{}, 'all runs'],
    [{ job: 'a*', in_a_row: 3 }, 'job a*, at least 3 failures in a row'],
    [{ late_by: '5m0s' }, 'late by 5m0s or more'],
    [{ job: 'a*', labels: { team: 'b', x: '*' } }, 'job a*, team=b, x=*'],
  ])('take %j: %s', (match, words) => {
    expect(matchWords(match)).toBe(words);
  });
  it.each([
    [{}, 'active', 'quiet'],
    [{ state: { muted: false, firing: 2, untold: 0 } }, 'stuck', '2 groups firing'],
    [{ state: { muted: true, firing: 0, untold: 0 } }, 'paused', 'muted'],
    [{ state: { muted: true, firing: 1, untold: 0 } }, 'paused', 'muted, 1 firing'],
    [{ fault: 'odd' }, 'failed', 'not understood'],
  ])('%j stands as %s: %s', (of, state, words) => {
    expect(standing(of)).toEqual({ state, words });
  });
  it('name the sinks that did not take the last message', () => {
    const deliveries = [
      { sink: 'slack', run_id: 'a', state: 'succeeded' as const },
      { sink: 'email', run_id: 'b', state: 'failed' as const },
      { sink: 'webhook', run_id: 'c', state: 'retrying' as const },
    ];
    expect(notTaken({ state: { muted: false, firing: 1, untold: 0, deliveries } })).toEqual(['e-mail']);
    expect(notTaken({})).toEqual([]);
  });
  it('are put again as they are', () => {
    expect(requestOf({ ...rule, state: { muted: true, firing: 0, untold: 0 }, created_by: 'me', description: '' })).toEqual({
      on: ['failed'],
      sinks: [{ slack: { url: 'https://hooks.slack.com/services/x' } }],
      group_by: [],
      group_wait: '30s',
      group_interval: '5m',
      repeat_interval: '4h',
      send_resolved: false,
    });
  });
});

describe('mute', () => {
  const at = (text: string): number => Date.parse(text);
  it('lasts within a day', () => {
    expect(muteFrom(at('2026-11-27T10:15:30Z'), at('2026-11-27T12:15:30Z'))).toEqual([
      { times: [{ start_time: '10:15', end_time: '12:16' }], days_of_month: ['27'], months: ['11'], years: ['2026'] },
    ]);
  });
  it('lasts beyond midnight and the end of a year', () => {
    expect(muteFrom(at('2026-12-31T23:00:00Z'), at('2027-01-01T01:00:00Z'))).toEqual([
      { times: [{ start_time: '23:00', end_time: '24:00' }], days_of_month: ['31'], months: ['12'], years: ['2026'] },
      { times: [{ start_time: '00:00', end_time: '01:00' }], days_of_month: ['1'], months: ['1'], years: ['2027'] },
    ]);
  });
  it('lasts for days', () => {
    const all = muteFrom(at('2026-11-27T10:00:00Z'), at('2026-11-30T10:00:00Z'));
    expect(all.map((i) => i.days_of_month?.[0])).toEqual(['27', '28', '29', '30']);
    expect(all[1]?.times).toEqual([{ start_time: '00:00', end_time: '24:00' }]);
  });
  it('knows when it is over', () => {
    const now = at('2026-11-27T22:00:00Z');
    expect(mutedUntil(mutedFor([], now, 4 * 3_600_000), now)).toBe(at('2026-11-28T02:00:00Z'));
    expect(mutedUntil(muteFrom(now, now + 60_000), now + 60_000)).toBeUndefined();
  });
  it('leaves what comes again as it is', () => {
    const weekly = { weekdays: ['sunday'], location: 'Europe/Berlin' };
    const yearly = { times: [{ start_time: '00:00', end_time: '24:00' }], days_of_month: ['-1'], months: ['12'], years: ['2026'] };
    const now = at('2026-11-27T10:00:00Z');
    expect(onceUntil(weekly)).toBeUndefined();
    expect(onceUntil(yearly)).toBeUndefined();
    expect(unmuted(mutedFor([weekly, yearly], now, 3_600_000))).toEqual([weekly, yearly]);
    expect(mutedFor(mutedFor([weekly], now, 3_600_000), now, 60_000)).toHaveLength(2);
  });
});

describe('what is wrong with a sink', () => {
  it('stands at its own fields', () => {
    const faults = ['body.on', 'body.sinks[1].slack.url', 'body.sinks[1].slack.headers.x', 'body.sinks[11].slack.url', 'body.sinks[1].slackish'].map((location) => ({ location, message: location }));
    const below = problemBelow(new Problem(422, 'invalid', 'The request is not valid', '', faults), 'body.sinks[1].slack');
    expect(below.faults.map((f) => f.location)).toEqual(['body.url', 'body.headers.x']);
    expect(faultsAt(below, 'body.headers')).toHaveLength(1);
    expect(below.sentence).toContain('body.sinks[1].slack.url');
  });
});
