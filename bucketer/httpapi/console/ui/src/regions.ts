// The homes of shards as the cluster page tells of them, and the commands of deploy/REGIONS.md that have
// another region serve one. Pure.

import type { Home, Regions } from './api/types';
import { quoted } from './curl';
import { standOf } from './homes';

/** A lease that was read so long ago is over, in ms: the node acts for the home no more. */
export const leaseLife = 10_000;

/** How old the lease of a home is, in ms, if the answer came at `at` and it is `now`; undefined: it was never read. */
export function leaseAge(home: Home, at: number, now: number): number | undefined {
  return home.lease_age_seconds === undefined ? undefined : home.lease_age_seconds * 1000 + Math.max(0, now - at);
}

/** What follows from how a home is served, in a sentence or two; "" if this region serves it. */
export function meaningOf(home: Home, here: string | undefined): string {
  switch (standOf(home, here)) {
    case 'here':
      return '';
    case 'elsewhere':
      return `Region ${home.region} takes in, publishes and starts what lies there. Changes that arrive here are sent on to it.`;
    default: {
      // The message begins with what the other columns say.
      const why = (home.message ?? '').replace(/^home \S+ is not served by region \S*: /, '');
      return why === '' ? '' : why.charAt(0).toUpperCase() + why.slice(1).replace(/\.?$/, '.');
    }
  }
}

/** Commands for one purpose, in the order in which they are given. */
export interface Purpose {
  title: string;
  commands: string[];
}

/** Stands for a region where several come into question: no region is called so, so it is refused. */
export const anyRegion = 'REGION';

const config = '--config carillon.yaml';

/** The commands that show who serves the homes, and have another region serve this one. */
export function purposesOf(home: Home, regions: Regions): Purpose[] {
  const out: Purpose[] = [{ title: 'Who serves each home, and which regions are alive', commands: [`carillon region list ${config}`] }];
  const { name, region: serving } = home;
  if (!serving) {
    return out;
  }
  const here = regions.region;
  const back = name !== serving;
  const others = [...new Set([here, ...regions.homes.flatMap((h) => [h.name, h.region])])].filter((r) => r && r !== serving);
  const to = back ? name : here && here !== serving ? here : others.length === 1 ? (others[0] ?? anyRegion) : anyRegion;
  out.push({ title: `Move it ${back ? 'back ' : ''}to ${to}, while both regions are well`, commands: handing('move', name, to) });
  // Who is asked is alive: a fail-over away from here would be refused.
  if (here && serving !== here) {
    out.push({ title: `Fail it over to ${here}, when region ${serving} is lost or cut off`, commands: handing('failover', name, here) });
  }
  return out;
}

/** The plan, and the command itself: it is refused until somebody writes the reason. */
function handing(verb: string, home: string, to: string): string[] {
  const begin = `carillon region ${verb} ${word(home)} --to ${word(to)}`;
  return [`${begin} --plan ${config}`, `${begin} --reason '' ${config}`];
}

/** A word for a shell. */
function word(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : quoted(text);
}
