import { describe, expect, it } from 'vitest';
import type { Home, Regions } from './api/types';
import { leaseAge, meaningOf, purposesOf } from './regions';

const home = (name: string, more: Partial<Home>): Home => ({ name, epoch: 1, served: false, ...more });

describe('the lease of a home', () => {
  it('grows old while no answer comes', () => {
    const read = home('eu', { lease_age_seconds: 1.5 });
    expect(leaseAge(read, 10_000, 10_000)).toBe(1500);
    expect(leaseAge(read, 10_000, 19_000)).toBe(10_500);
    expect(leaseAge(read, 10_000, 9_000)).toBe(1500); // a clock that was set back
  });
  it('may never have been read', () => {
    expect(leaseAge(home('eu', {}), 0, 1000)).toBeUndefined();
  });
});

describe('what follows from how a home is served', () => {
  it('is nothing where it is served', () => {
    expect(meaningOf(home('us', { region: 'us', served: true }), 'us')).toBe('');
  });
  it('is where it is served instead', () => {
    const eu = home('eu', {
      region: 'eu',
      message: 'home eu is not served by region us: region eu serves it (epoch 1); ask that one, or fail the home over',
    });
    expect(meaningOf(eu, 'us')).toBe(
      'Region eu takes in, publishes and starts what lies there. Changes that arrive here are sent on to it.',
    );
  });
  it.each([
    [
      'home us is not served by region us: it takes the home over (epoch 4), and serves it in 3.2s; try again then',
      'us',
      'It takes the home over (epoch 4), and serves it in 3.2s; try again then.',
    ],
    [
      'home us is not served by region us: it has no epoch; run carillon migrate, which writes the first one',
      undefined,
      'It has no epoch; run carillon migrate, which writes the first one.',
    ],
    ['said otherwise: by a later version.', undefined, 'Said otherwise: by a later version.'],
    ['', undefined, ''],
  ])('is why it is not: %s', (message, region, want) => {
    expect(meaningOf(home('us', { message, ...(region ? { region } : {}) }), 'us')).toBe(want);
  });
});

describe('commands', () => {
  const list = 'carillon region list --config carillon.yaml';
  const of = (name: string, regions: Regions): string[][] => {
    const one = regions.homes.find((h) => h.name === name);
    return one ? purposesOf(one, regions).map((p) => p.commands) : [];
  };
  /** Of two regions, as a node of us sees them: who serves eu, and who serves us. */
  const two = (eu: string | undefined, us: string | undefined): Regions => ({
    region: 'us',
    homes: [home('eu', eu ? { region: eu } : {}), home('us', us ? { region: us, served: us === 'us' } : {})],
  });

  it('bring a home that another region serves over to this one, with the plan first', () => {
    expect(of('eu', two('eu', 'us'))).toEqual([
      [list],
      ['carillon region move eu --to us --plan --config carillon.yaml', "carillon region move eu --to us --reason '' --config carillon.yaml"],
      ['carillon region failover eu --to us --plan --config carillon.yaml', "carillon region failover eu --to us --reason '' --config carillon.yaml"],
    ]);
  });
  it('fail no home over that is served here: this region is alive', () => {
    expect(of('us', two('eu', 'us'))).toEqual([
      [list],
      ['carillon region move us --to eu --plan --config carillon.yaml', "carillon region move us --to eu --reason '' --config carillon.yaml"],
    ]);
  });
  it('bring a home back after a fail-over', () => {
    expect(of('eu', two('us', 'us')).slice(1).map((c) => c[0])).toEqual(['carillon region move eu --to eu --plan --config carillon.yaml']);
    expect(of('us', two('eu', 'eu')).slice(1).map((c) => c[0])).toEqual([
      'carillon region move us --to us --plan --config carillon.yaml',
      'carillon region failover us --to us --plan --config carillon.yaml',
    ]);
  });
  it('leave open which of several regions is meant', () => {
    const three: Regions = { region: 'us', homes: [home('eu', { region: 'eu' }), home('us', { region: 'us', served: true }), home('ap', { region: 'ap' })] };
    expect(of('us', three)[1]?.[0]).toBe('carillon region move us --to REGION --plan --config carillon.yaml');
    expect(of('ap', three)[1]?.[0]).toBe('carillon region move ap --to us --plan --config carillon.yaml');
  });
  it('only show while nobody is known to serve the home', () => {
    expect(of('eu', two(undefined, 'us'))).toEqual([[list]]);
  });
  it('are safe to paste', () => {
    const regions: Regions = { region: 'us', homes: [home("e u'", { region: 'us', served: true })] };
    expect(of("e u'", regions)[1]?.[0]).toBe("carillon region move 'e u'\\''' --to 'e u'\\''' --plan --config carillon.yaml");
  });
});
