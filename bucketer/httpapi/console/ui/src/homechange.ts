// How a home comes to be served by another region, as the cluster page tells of it: what it would cost, how
// far it is, and how it ended. Pure.

import type { Home } from './api/types';
import { coarse } from './time';
import { count, number } from './words';

/** A move or a fail-over, as the API answers it. */
export interface HomeChange {
  from: string;
  to: string;
  forced?: boolean;
  epoch: number;
  by: string;
  reason?: string;
  phase: string;
  began_at: string;
  phase_since: string;
  updated_at: string;
  partitions?: number;
  of?: number;
  rows?: number;
  fault?: string;
}

/** How a region stands. */
export interface RegionStand {
  name: string;
  local?: boolean;
  last_sign_at?: string;
  node?: string;
  lag_seconds?: number;
  executors?: number;
}

/** How a home stands. */
export interface HomeStand extends Home {
  shards: number;
  since?: string;
  by?: string;
  reason?: string;
  change?: HomeChange;
}

/** GET /v1/admin/regions. */
export interface RegionsStand {
  region?: string;
  as_of: string;
  regions: readonly RegionStand[];
  homes: readonly HomeStand[];
}

/** What a move or a fail-over costs. */
export interface HomePlan {
  last_sign_seconds?: number;
  lag_seconds?: number;
  lag_fault?: string;
  lost_at_most_seconds?: number;
  executors?: number;
  announced_seconds: number;
  drained_seconds: number;
  begins_seconds: number;
  unavailable_seconds: number;
  backlog?: {
    settled: string;
    under_way: number;
    looked_at: number;
    due_meanwhile: number;
    more?: boolean;
    shards: number;
    sampled: number;
    fault?: string;
  };
  refused: readonly string[];
}

/** The answer to a move, a fail-over, or the plan of one. */
export interface HomeChangeAnswer {
  home: string;
  from: string;
  to: string;
  epoch: number;
  planned: boolean;
  plan: HomePlan;
  change?: HomeChange;
}

/** Whoever works on a change tells so every 2 s; after so long, in ms, nobody does any more. */
export const silentAfter = 10_000;

/** How long an end is told of, in ms. */
const toldFor = 10 * 60_000;

const ends = ['done', 'refused', 'given-up', 'unknown'];

/** Whether a change is worked on, has ended lately, or is of no interest; "silent": nobody works on it though it has not ended. */
export function standOfChange(change: HomeChange | undefined, asOf: number): 'under way' | 'silent' | 'ended' | 'old' {
  if (!change) {
    return 'old';
  }
  const age = asOf - Date.parse(change.updated_at);
  if (!ends.includes(change.phase)) {
    return age < silentAfter ? 'under way' : 'silent';
  }
  return age < toldFor ? 'ended' : 'old';
}

const phases: Record<string, string> = {
  checking: 'it is listened for signs of life',
  comparing: 'the rows of all data centres are compared; the home is served',
  announced: 'it is announced, for 12 s; the home is served',
  draining: 'the home is drained: nothing is taken in or published of it',
  deciding: 'the epoch is written',
  done: 'the epoch is written, and the other region begins within seconds',
  refused: 'it was refused: nothing was announced or changed',
  'given-up': 'it was given up',
  unknown: 'whether it was done is not known: look who serves the home, and do it again',
};

/** What is told of a change, in a sentence or two. */
export function changeWords(home: string, change: HomeChange, asOf: number): string {
  const what = `${change.by} ${change.forced ? 'fails over' : 'moves'} home ${home} from region ${change.from} to region ${change.to}`;
  const why = change.reason ? ` (${change.reason})` : '';
  const phase = phases[change.phase] ?? change.phase;
  const since = coarse(Math.max(0, asOf - Date.parse(change.began_at)));
  switch (standOfChange(change, asOf)) {
    case 'silent':
      return `${what}${why}, begun ${since} ago. Nobody works on it any more: ${phase}. If the home is not served where it is to be, do it again.`;
    case 'under way':
      return `${what}${why}, begun ${since} ago: ${phase}.`;
    default:
      return `${what}${why}, begun ${since} ago: ${phase}.${change.fault ? ` ${change.fault}.` : ''}`;
  }
}

/** The regions that could serve a home: all but the one that does; that of its name and the one that answers first. */
export function targetsOf(home: HomeStand, stand: RegionsStand): string[] {
  const rank = (name: string): number => (name === home.name ? 0 : name === stand.region ? 1 : 2);
  return stand.regions
    .map((r) => r.name)
    .filter((name) => name !== home.region)
    .sort((a, b) => rank(a) - rank(b));
}

/** A number of a plan, and what it means. */
export interface PlanRow {
  name: string;
  value: string;
  about: string;
  bad?: boolean;
}

const seconds = (s: number): string => (s === 0 ? '0 s' : coarse(s * 1000));

/** The numbers of a plan, those first that a person decides by. */
export function planRows({ from, to, plan }: HomeChangeAnswer, forced: boolean): PlanRow[] {
  const rows: PlanRow[] = [];
  const { backlog } = plan;
  if (forced) {
    rows.push({
      name: `Last sign of life of ${from}`,
      value: plan.last_sign_seconds === undefined ? 'never' : `${seconds(plan.last_sign_seconds)} ago`,
      about: 'By its clock. If it was cut off it went on for at most 10 s.',
    });
  }
  rows.push({
    name: `${to} is behind by`,
    value: plan.lag_seconds === undefined ? 'not known' : seconds(plan.lag_seconds),
    about: plan.lag_fault ?? 'Before that sign. More than 10 s must be accepted.',
    bad: forced && (plan.lag_seconds === undefined || plan.lag_seconds > 10),
  });
  if (forced) {
    rows.push({
      name: 'May be missing',
      value: plan.lost_at_most_seconds === undefined ? 'not known' : `at most ${seconds(plan.lost_at_most_seconds)} of work`,
      about: `What ${from} acknowledged in so long, until it returns.`,
    });
  }
  rows.push({
    name: 'Not served',
    value: `about ${seconds(plan.unavailable_seconds)}`,
    about: forced ? 'From the epoch on.' : `After ${seconds(plan.announced_seconds)} in which it is announced, and served.`,
  });
  if (backlog && backlog.fault === undefined) {
    const least = backlog.more ? ' or more' : '';
    rows.push(
      { name: 'Under way', value: `≈ ${number(backlog.under_way)}${least}`, about: 'Runs that wait or run. Those that run may be started again, unless they are guarded.' },
      { name: 'Start late', value: `≈ ${number(backlog.due_meanwhile)}`, about: 'Runs that become due while nobody publishes.' },
      {
        name: 'Looked at again',
        value: `≈ ${number(backlog.looked_at)}${least}`,
        about: `Runs of the last minutes; ${number(backlog.sampled)} of ${count(backlog.shards, 'shard')} were counted.`,
      },
    );
  } else if (backlog) {
    rows.push({ name: 'Under way', value: 'not known', about: backlog.fault ?? '' });
  }
  rows.push({
    name: `Executors of ${to}`,
    value: plan.executors === undefined ? 'not told' : number(plan.executors),
    about: 'Without one nothing is started there.',
    bad: plan.executors === 0,
  });
  return rows;
}
