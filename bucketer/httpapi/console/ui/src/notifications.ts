// What is said of rules for notifications, and how they are made mute for a while. Pure.

import type { Notification } from './api/types';
import { count } from './words';

/** What a rule may tell of. */
export const kinds: readonly { value: string; text: string }[] = [
  { value: 'failed', text: 'a run or a step failed for good' },
  { value: 'dead', text: 'a dead letter was written' },
  { value: 'missed', text: 'a run was missed' },
  { value: 'late', text: 'a run started more than a second late' },
  { value: 'stuck', text: 'a run waits for other jobs beyond its deadline' },
  { value: 'paused', text: 'a job was paused since its runs fail' },
  { value: 'recovered', text: 'all jobs of a group have succeeded since' },
];

export type SinkKind = 'email' | 'slack' | 'teams' | 'pagerduty' | 'webhook' | 'alertmanager';

export const sinkKinds: readonly { value: SinkKind; text: string }[] = [
  { value: 'email', text: 'e-mail' },
  { value: 'slack', text: 'Slack' },
  { value: 'teams', text: 'Microsoft Teams' },
  { value: 'pagerduty', text: 'PagerDuty' },
  { value: 'webhook', text: 'webhook' },
  { value: 'alertmanager', text: 'Alertmanager' },
];

/** What a sink of a kind begins with in a form. */
export const sinkBegins: Record<SinkKind, Record<string, unknown>> = {
  email: { to: [] },
  slack: {},
  teams: {},
  pagerduty: { routing_key_secret: '' },
  webhook: {},
  alertmanager: {},
};

/** Either its URL, or the secret that holds it. */
interface CallLike {
  url?: string | undefined;
  url_secret?: string | undefined;
}

export interface SinkLike {
  email?: { to?: readonly string[] | null | undefined } | undefined;
  slack?: CallLike | undefined;
  teams?: CallLike | undefined;
  pagerduty?: { severity?: string | undefined } | undefined;
  webhook?: CallLike | undefined;
  alertmanager?: CallLike | undefined;
}

export function sinkKindOf(sink: object): SinkKind | undefined {
  return sinkKinds.find((k) => (sink as Record<string, unknown>)[k.value] !== undefined)?.value;
}

/** "e-mail to ops@example.com", "Slack at hooks.slack.com". */
export function sinkWords(sink: SinkLike): string {
  const kind = sinkKindOf(sink);
  if (kind === undefined) {
    return 'a sink that this page does not know';
  }
  const name = sinkKinds.find((k) => k.value === kind)?.text ?? kind;
  if (kind === 'email') {
    return `${name} to ${(sink.email?.to ?? []).join(', ')}`;
  }
  if (kind === 'pagerduty') {
    return `${name}, ${sink.pagerduty?.severity ?? 'error'}`;
  }
  const secret = sink[kind]?.url_secret;
  if (secret) {
    return `${name} at the URL in the secret ${secret}`;
  }
  const host = /^https?:\/\/([^/?#]+)/.exec(sink[kind]?.url ?? '')?.[1];
  return host === undefined ? name : `${name} at ${host}`;
}

/** Which runs a rule takes, in a sentence. */
export function matchWords(match: Notification['match']): string {
  const parts = [
    match?.job && `job ${match.job}`,
    match?.task && `task ${match.task}`,
    match?.workflow && `workflow ${match.workflow}`,
    ...Object.entries(match?.labels ?? {}).map(([name, value]) => `${name}=${value}`),
    match?.in_a_row && `at least ${match.in_a_row} failures in a row`,
    match?.late_by && `late by ${match.late_by} or more`,
  ].filter(Boolean);
  return parts.length === 0 ? 'all runs' : parts.join(', ');
}

/** How a rule stands: the state of its badge, and the words in it. */
export function standing(rule: Pick<Notification, 'state' | 'fault'>): { state: string; words: string } {
  if (rule.fault) {
    return { state: 'failed', words: 'not understood' };
  }
  const firing = rule.state?.firing ?? 0;
  if (rule.state?.muted) {
    return { state: 'paused', words: firing > 0 ? `muted, ${firing} firing` : 'muted' };
  }
  return firing > 0 ? { state: 'stuck', words: `${count(firing, 'group')} firing` } : { state: 'active', words: 'quiet' };
}

/** The sinks that did not take the last message. */
export function notTaken(rule: Pick<Notification, 'state'>): string[] {
  return (rule.state?.deliveries ?? [])
    .filter((d) => d.state === 'failed' || d.state === 'cancelled')
    .map((d) => sinkKinds.find((k) => k.value === d.sink)?.text ?? d.sink);
}

/** A span in which nothing is sent, as the API has it. */
export interface MuteInterval {
  times?: readonly { start_time: string; end_time: string }[] | null | undefined;
  weekdays?: readonly string[] | null | undefined;
  days_of_month?: readonly string[] | null | undefined;
  months?: readonly string[] | null | undefined;
  years?: readonly string[] | null | undefined;
  location?: string | undefined;
}

const minute = 60_000;
const day = 1440 * minute;

function clock(minutes: number): string {
  return `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
}

/** The intervals, one a day in UTC, that are from one instant to another, to the minute. */
export function muteFrom(from: number, to: number): MuteInterval[] {
  const end = Math.ceil(to / minute) * minute;
  const intervals: MuteInterval[] = [];
  for (let at = Math.floor(from / minute) * minute; at < end; ) {
    const midnight = Math.floor(at / day) * day + day;
    const until = Math.min(midnight, end);
    const date = new Date(at);
    intervals.push({
      times: [{ start_time: clock((at % day) / minute), end_time: clock((until - (midnight - day)) / minute) }],
      days_of_month: [String(date.getUTCDate())],
      months: [String(date.getUTCMonth() + 1)],
      years: [String(date.getUTCFullYear())],
    });
    at = until;
  }
  return intervals;
}

/** When an interval that is of one day is over, in ms; undefined: it comes again. */
export function onceUntil(interval: MuteInterval): number | undefined {
  const { times, weekdays, days_of_month: days, months, years, location } = interval;
  const [d, m, y] = [days?.[0], months?.[0], years?.[0]];
  const one = [times, days, months, years].every((list) => list?.length === 1);
  if (!one || (weekdays ?? []).length > 0 || (location ?? 'UTC') !== 'UTC' || ![d, m, y].every((v) => /^\d+$/.test(v ?? ''))) {
    return undefined;
  }
  const [hours = 0, minutes = 0] = (times?.[0]?.end_time ?? '').split(':').map(Number);
  return Date.UTC(Number(y), Number(m) - 1, Number(d), hours, minutes);
}

/** The intervals with another that lasts from now on for a span; those that are over are left out. */
export function mutedFor(intervals: readonly MuteInterval[], now: number, span: number): MuteInterval[] {
  return [...unmuted(intervals), ...muteFrom(now, now + span)];
}

/** The intervals that come again: without those that are of one day. */
export function unmuted(intervals: readonly MuteInterval[]): MuteInterval[] {
  return intervals.filter((interval) => onceUntil(interval) === undefined);
}

/** Until when the intervals of one day last that are not over; undefined: there are none. */
export function mutedUntil(intervals: readonly MuteInterval[], now: number): number | undefined {
  const ends = intervals.map(onceUntil).filter((end): end is number => end !== undefined && end > now);
  return ends.length === 0 ? undefined : Math.max(...ends);
}

const ofRequest = [
  'description',
  'on',
  'match',
  'sinks',
  'group_by',
  'group_wait',
  'group_interval',
  'repeat_interval',
  'send_resolved',
  'mute_time_intervals',
] as const;

/** The body of the request that would put the rule as it is. */
export function requestOf(rule: Notification): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const name of ofRequest) {
    const value = rule[name] as unknown;
    if (value !== undefined && value !== '' && value !== null) {
      body[name] = structuredClone(value);
    }
  }
  if (body.match && Object.keys(body.match).length === 0) {
    delete body.match;
  }
  return body;
}
