// Regions on the cluster page: who serves each home, and the commands that change it. It is loaded only
// where there are regions.

import { useState } from 'preact/hooks';
import { fast, type Live } from '../api/live';
import type { Home, Regions } from '../api/types';
import { localNow } from '../clock';
import { standOf, type Stand } from '../homes';
import { Id } from '../parts/CopyCurl';
import { Field } from '../parts/Field';
import { Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { leaseAge, leaseLife, meaningOf, purposesOf } from '../regions';
import { coarse } from '../time';
import { number } from '../words';

/** How each stand is shown: the state whose look it has, and its words. */
const stands: Record<Stand, [state: string, words: string]> = {
  here: ['ready', 'served here'],
  soon: ['waiting', 'about to be served here'],
  elsewhere: ['still', 'not served here'],
  unknown: ['not ready', 'not served here'],
};

export function ClusterRegions({ live }: { live: Live<Regions> }) {
  const regions = live.data;
  if (!regions) {
    return null;
  }
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
      <Commands regions={regions} />
    </Panel>
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
