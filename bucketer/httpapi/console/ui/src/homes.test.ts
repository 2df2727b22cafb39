import { describe, expect, it } from 'vitest';
import { Problem } from './api/problem';
import type { Home, Regions } from './api/types';
import { homeOf, homeWords, noteHome, regionsAsker, standOf, unknownHomes, whyThere } from './homes';

const home = (name: string, region: string | undefined, served: boolean): Home => ({
  name,
  epoch: 3,
  served,
  ...(region === undefined ? {} : { region }),
});

/** As a node of region us sees them. */
const regions: Regions = {
  region: 'us',
  homes: [home('eu', 'eu', false), home('us', 'us', true), home('ap', 'us', false), home('sa', undefined, false)],
};

describe('the home of what is answered', () => {
  it('is that of its header', () => {
    const run = { id: '1' };
    noteHome(new Headers({ 'Carillon-Home': 'eu' }), run);
    expect(homeOf(run)).toBe('eu');
    expect(homeOf({ id: '1' })).toBeUndefined();
  });
  it('is none without regions', () => {
    const run = { id: '1' };
    noteHome(new Headers(), run);
    expect(homeOf(run)).toBeUndefined();
  });
  it.each([[undefined], [null], ['text'], [7]])('is nothing of %j', (answered) => {
    expect(() => noteHome(new Headers({ 'Carillon-Home': 'eu' }), answered)).not.toThrow();
  });
});

describe('why something lies at its home', () => {
  it.each([[{ schedule: { cron: '@hourly' } }], [{ schedule: { every: '1h' } }], [{ on: { event: 'a' } }], [{ workflow: 'etl' }], [{ id: 'a', job_id: 'b' }]])(
    '%j: it is that of its tenant',
    (answered) => {
      expect(whyThere(answered)).toContain('the home of its tenant, as of all');
    },
  );
  it.each([[{ schedule: {} }], [{ schedule: { at: '2026-11-27T00:00:00Z' } }], [{ id: 'a', job_id: 'a' }]])('%j: one of three rules', (answered) => {
    expect(whyThere(answered)).toContain('else where it arrived');
  });
});

describe('how a home is served', () => {
  it.each([
    ['eu', 'elsewhere', 'eu, served by region eu: changes are sent on to it'],
    ['us', 'here', 'us, served here, by region us'],
    ['ap', 'soon', 'ap, which region us takes over just now'],
    ['sa', 'unknown', 'sa; which region serves it is not known here'],
  ])('%s: %s', (name, stand, words) => {
    const one = regions.homes.find((h) => h.name === name);
    expect(one && standOf(one, regions.region)).toBe(stand);
    expect(homeWords(name, regions)).toBe(words);
  });
  it('is not told before the regions are known', () => {
    expect(homeWords('eu', undefined)).toBe('eu');
    expect(homeWords('eu', { homes: [] })).toBe('eu');
  });
  it('is wrong where nobody is known to serve it', () => {
    expect(unknownHomes(regions)).toEqual(['sa']);
    expect(unknownHomes(undefined)).toEqual([]);
    expect(unknownHomes({ homes: [] })).toEqual([]);
  });
});

describe('regions', () => {
  /** Asks as a view does: again and again, until it is known that there are none. */
  const asks = async (get: () => Promise<Regions>): Promise<number> => {
    let n = 0;
    const asker = regionsAsker(() => {
      n++;
      return get();
    });
    for (let i = 0; i < 5 && !asker.none.value; i++) {
      await asker.load(new AbortController().signal).catch(() => undefined);
    }
    return n;
  };

  it('are asked for again where there are some', async () => {
    expect(await asks(() => Promise.resolve(regions))).toBe(5);
    const asker = regionsAsker(() => Promise.resolve(regions));
    expect(await asker.load(new AbortController().signal)).toBe(regions);
  });
  it('are asked for once where there are none', async () => {
    expect(await asks(() => Promise.resolve({ homes: [] }))).toBe(1);
  });
  it('are asked for once of a node that does not know the question', async () => {
    expect(await asks(() => Promise.reject(new Problem(404, 'not-found', 'Not found', 'Nothing is served at /v1/regions')))).toBe(1);
    const old = regionsAsker(() => Promise.reject(new Problem(404, '', 'The answer was 404')));
    expect(await old.load(new AbortController().signal)).toEqual({ homes: [] });
  });
  it('are asked for again after a failure', async () => {
    const trouble = new Problem(503, 'unavailable', 'Not now');
    expect(await asks(() => Promise.reject(trouble))).toBe(5);
    await expect(regionsAsker(() => Promise.reject(trouble)).load(new AbortController().signal)).rejects.toBe(trouble);
  });
});
