// Regions on the cluster page: who serves each home, and the commands that change it. It is loaded only
// where there are regions.

import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import { fast, useLive, type Live } from '../api/live';
import { may, maySeeAll } from '../api/session';
import type { Home, Regions } from '../api/types';
import { localNow } from '../clock';
import type { HomeStand, RegionStand, RegionsStand } from '../homechange';
import { standOf, type Stand } from '../homes';
import { Id } from '../parts/CopyCurl';
import { Field } from '../parts/Field';
import { Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { Ago } from '../parts/TimeLabel';
import { leaseAge, leaseLife, meaningOf, purposesOf } from '../regions';
import { coarse } from '../time';
import { number } from '../words';
import { ChangeHome, ChangeProgress } from './ClusterRegionChange';

/** How each stand is shown: the state whose look it has, and its words. */
const stands: Record<Stand, [state: string, words: string]> = {
  here: ['ready', 'served here'],
  soon: ['waiting', 'about to be served here'],
  elsewhere: ['still', 'not served here'],
  unknown: ['not ready', 'not served here'],
};

export function ClusterRegions({ live }: { live: Live<Regions> }) {
  const regions = live.data;
  // A node of an older version does not offer it: then there are no buttons.
  const stand = useLive<RegionsStand>('regions stand', (signal) => ask<RegionsStand>('/v1/admin/regions', { signal }), { every: fast }).data;
  const [asked, setAsked] = useState<{ home: HomeStand; forced: boolean } | undefined>(undefined);
  if (!regions) {
    return null;
  }
  const mayChange = stand !== undefined && may('admin') && maySeeAll();
  const columns: Column<Home>[] = [
    { head: 'Home', kind: 'main', cell: (h) => h.name },
    { head: 'Served by', cell: (h) => h.region || <span class="toned tone-bad">not known</span> },
    {
      head: 'Here',
      cell: (h) => {
        const [state, words] = stands[standOf(h, regions.region)];
        return <StateBadge state={state} words={words} />;
      },
    },
    { head: 'Epoch', kind: 'number', cell: (h) => number(h.epoch) },
    { head: 'Age of the lease', kind: 'number', cell: (h) => <LeaseAge age={leaseAge(h, live.at ?? 0, localNow.value)} /> },
    { head: 'What that means', cell: (h) => <bdi>{meaningOf(h, regions.region)}</bdi> },
  ];
  if (mayChange) {
    columns.push({
      head: 'Have another region serve it',
      quietHead: true,
      kind: 'actions',
      cell: (h) => <Buttons home={stand.homes.find((s) => s.name === h.name)} stand={stand} onAsk={(home, forced) => setAsked({ home, forced })} />,
    });
  }
  return (
    <Panel
      title="Regions"
      live={live}
      every={fast}
      about={
        <>
          The node that answers is in region <strong>{regions.region}</strong>. A home is a set of shards that one region serves at a time.
        </>
      }
    >
      <Table caption="Homes, and which region serves each" columns={columns} rows={regions.homes} rowKey={(h) => h.name} />
      {stand?.homes.map((h) => <ChangeProgress key={h.name} home={h} asOf={Date.parse(stand.as_of)} />)}
      {stand && <Table caption="Regions, and how far this one is behind each" columns={regionColumns} rows={stand.regions} rowKey={(r) => r.name} />}
      <Commands regions={regions} />
      {asked && stand && <ChangeHome home={asked.home} stand={stand} forced={asked.forced} onClose={() => setAsked(undefined)} />}
    </Panel>
  );
}

const regionColumns: Column<RegionStand>[] = [
  { head: 'Region', kind: 'main', cell: (r) => (r.local ? `${r.name}, this one` : r.name) },
  { head: 'Last sign of life', cell: (r) => (r.last_sign_at ? <Ago at={r.last_sign_at} /> : <span class="toned tone-bad">none is here</span>) },
  { head: 'By node', minor: true, cell: (r) => r.node ?? '' },
  {
    head: 'Behind it at most',
    kind: 'number',
    cell: (r) =>
      r.lag_seconds === undefined ? '' : <span class={r.lag_seconds * 1000 > leaseLife ? 'toned tone-bad' : undefined}>{coarse(r.lag_seconds * 1000)}</span>,
  },
  {
    head: 'Executors',
    kind: 'number',
    cell: (r) => (r.executors === undefined ? 'not told' : <span class={r.executors === 0 ? 'toned tone-bad' : undefined}>{number(r.executors)}</span>),
  },
];

/** What can be done with a home: it fails over only to the region that answers, which knows what it lacks. */
function Buttons({ home, stand, onAsk }: { home: HomeStand | undefined; stand: RegionsStand; onAsk: (home: HomeStand, forced: boolean) => void }) {
  if (!home?.region) {
    return null;
  }
  return (
    <>
      <button type="button" class="button" onClick={() => onAsk(home, false)}>
        Move {home.name}…
      </button>{' '}
      {home.region !== stand.region && (
        <button type="button" class="button danger" onClick={() => onAsk(home, true)}>
          Fail {home.name} over…
        </button>
      )}
    </>
  );
}

function LeaseAge({ age }: { age: number | undefined }) {
  if (age === undefined) {
    return <span class="toned tone-bad">never read</span>;
  }
  return <span class={age > leaseLife ? 'toned tone-bad' : undefined}>{coarse(age)}</span>;
}

function Commands({ regions }: { regions: Regions }) {
  const [chosen, setChosen] = useState('');
  // At first the home that an operator is likely to want back.
  const home =
    regions.homes.find((h) => h.name === chosen) ?? regions.homes.find((h) => h.region && h.region !== h.name) ?? regions.homes[0];
  return home ? (
    <details>
      <summary>Commands to have another region serve a home</summary>
      <div class="stack">
        <p class="muted">
          Give them on a node of the region that is to serve the home, with its configuration, and say why in --reason. What each
          costs stands in <code>deploy/REGIONS.md</code>.
        </p>
        {regions.homes.length > 1 && (
          <Field label="Home">
            {(input) => (
              <select {...input} onChange={(e) => setChosen(e.currentTarget.value)}>
                {regions.homes.map((h) => (
                  <option key={h.name} value={h.name} selected={h.name === home.name}>
                    {h.name}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        {purposesOf(home, regions).map(({ title, commands }) => (
          <div key={title} class="stack">
            <p>{title}:</p>
            {commands.map((text) => (
              <Id key={text} text={text} />
            ))}
          </div>
        ))}
      </div>
    </details>
  ) : null;
}
