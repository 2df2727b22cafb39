// Where there are regions: at which home a thing lies, and which region serves that home. Pure.

import { signal, type ReadonlySignal } from '@preact/signals';
import { asProblem } from './api/problem';
import type { Home, Regions } from './api/types';

/** The header of an answer that names the home of what it is about. Without regions no answer has it. */
const homeHeader = 'Carillon-Home';

const homes = new WeakMap<object, string>();

/** Notes at which home lies what an answer is about. */
export function noteHome(headers: Headers, answered: unknown): void {
  const home = headers.get(homeHeader);
  if (home && typeof answered === 'object' && answered !== null) {
    homes.set(answered, home);
  }
}

/** The home of what an answer is about; undefined: there are no regions, or it is about no one thing. */
export function homeOf(answered: object): string | undefined {
  return homes.get(answered);
}

/** What a job or a run says of how it came to be, as far as that decides where it lies. */
interface Origin {
  id?: string;
  /** Of a run; a one-off job has the id of its run. */
  job_id?: string;
  schedule?: { cron?: string; every?: string };
  on?: unknown;
  after?: unknown;
  workflow?: unknown;
  steps?: unknown;
}

/** Why a job or a run lies at its home: the rule by which it was given one. */
export function whyThere(answered: object): string {
  const o = answered as Origin;
  const many = o.schedule?.cron ?? o.schedule?.every ?? o.on ?? o.after ?? o.workflow ?? o.steps;
  if (many !== undefined || (o.job_id !== undefined && o.job_id !== o.id)) {
    return 'the home of its tenant, as of all that can have many runs';
  }
  return 'as it asked; else the home of its tenant if it has a key, or its task a rate or a limit; else where it arrived';
}

/**
 * How a home is served, seen from the region of the node that answers: by it, by it within seconds, by
 * another region, or by nobody that it knows of.
 */
export type Stand = 'here' | 'soon' | 'elsewhere' | 'unknown';

export function standOf(home: Home, here: string | undefined): Stand {
  if (home.served) {
    return 'here';
  }
  return !home.region ? 'unknown' : home.region === here ? 'soon' : 'elsewhere';
}

/** "eu, served by region us": a home and who serves it; its name alone if the regions are not known. */
export function homeWords(name: string, regions: Regions | undefined): string {
  const home = regions?.homes.find((h) => h.name === name);
  if (!home) {
    return name;
  }
  return {
    here: `${name}, served here, by region ${home.region}`,
    soon: `${name}, which region ${home.region} takes over just now`,
    elsewhere: `${name}, served by region ${home.region}: changes are sent on to it`,
    unknown: `${name}; which region serves it is not known here`,
  }[standOf(home, regions?.region)];
}

/** The names of the homes of which the node does not know who serves them. */
export function unknownHomes(regions: Regions | undefined): string[] {
  return (regions?.homes ?? []).filter((h) => standOf(h, regions?.region) === 'unknown').map((h) => h.name);
}

/** How regions are asked for. */
export interface RegionsAsker {
  load: (signal: AbortSignal) => Promise<Regions>;
  /** An answer said that there are none: a node has them from its start, so nobody asks again. */
  none: ReadonlySignal<boolean>;
}

/** Asks by `get`. A node of an older version, which does not offer the question, has no regions. */
export function regionsAsker(get: (signal: AbortSignal) => Promise<Regions>): RegionsAsker {
  const none = signal(false);
  const load = async (abort: AbortSignal): Promise<Regions> => {
    let regions: Regions = { homes: [] };
    try {
      regions = await get(abort);
    } catch (thrown) {
      if (!asProblem(thrown).notOffered) {
        throw thrown;
      }
    }
    none.value = regions.homes.length === 0;
    return regions;
  };
  return { load, none };
}
