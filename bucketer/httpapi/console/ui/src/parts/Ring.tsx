// The ring of shards: a lane for each member, a piece for its shards. What is behind is coloured, and
// what nobody owns has a lane of its own.

import type { ComponentChildren } from 'preact';
import { arcPath, behindBad, behindLate, rangesOf, toneOf, type Arc, type Lane } from '../ring';
import { coarse } from '../time';
import { count, number } from '../words';
import { Figure } from './Figure';

export interface RingProps {
  lanes: readonly Lane[];
  /** How many shards there are. */
  shards: number;
  selected: string;
  onSelect: (owner: string) => void;
  table: () => ComponentChildren;
}

const outer = 150;
const hole = 62;
/** Of so many shards each is a piece of its own; of more, neighbours are one. */
const singles = 256;

function shardsOf(arc: Arc): Arc[] {
  return Array.from({ length: arc.to - arc.from }, (_, i) => ({ ...arc, from: arc.from + i, to: arc.from + i + 1 }));
}

export function Ring({ lanes, shards, selected, onSelect, table }: RingProps) {
  const step = (outer - hole) / Math.max(lanes.length, 1);
  const thick = Math.min(step * 0.78, 26);
  const owned = lanes.reduce((n, l) => n + (l.owner === '' ? 0 : l.shards), 0);
  return (
    <Figure
      caption={`${count(shards, 'shard')}, a lane for each member`}
      table={table}
      legend={
        <p class="legend" aria-hidden="true">
          <span class="legend-item tone-good">
            <Swatch /> as it should be
          </span>
          <span class="legend-item tone-warn">
            <Swatch /> behind by {coarse(behindLate * 1000)}
          </span>
          <span class="legend-item tone-bad">
            <Swatch /> behind by {coarse(behindBad * 1000)}, or without owner
          </span>
        </p>
      }
    >
      <svg class="ring" viewBox={`${-outer - 4} ${-outer - 4} ${2 * outer + 8} ${2 * outer + 8}`} aria-hidden="true" focusable="false">
        {lanes.map((lane, i) => {
          const to = outer - i * step;
          const from = to - thick;
          const classes = ['ring-lane', selected !== '' && selected !== lane.owner && 'faint'].filter(Boolean).join(' ');
          return (
            <g key={lane.owner} class={classes} onClick={() => onSelect(lane.owner === selected ? '' : lane.owner)}>
              <title>{`${lane.owner === '' ? 'No owner' : lane.owner}: ${count(lane.shards, 'shard')}\n${rangesOf(lane.arcs)}`}</title>
              <path class="ring-track" d={arcPath(0, 1, 1, from, to)} />
              {(shards <= singles ? lane.arcs.flatMap(shardsOf) : lane.arcs).map((arc) => (
                <path
                  key={arc.from}
                  class={`ring-arc tone-${lane.owner === '' ? 'bad' : toneOf(arc.behind)}`}
                  d={arcPath(arc.from, arc.to, shards, from, to)}
                />
              ))}
              {thick > 9 && (
                <text class="ring-name" x="0" y={-(from + to) / 2} text-anchor="middle" dominant-baseline="central">
                  {lane.owner === '' ? 'none' : lane.owner.length > 14 ? `${lane.owner.slice(0, 13)}…` : lane.owner}
                </text>
              )}
            </g>
          );
        })}
        <text class="ring-sum" text-anchor="middle" y="-4">
          {number(owned)}
        </text>
        <text class="ring-sum-what" text-anchor="middle" y="14">
          of {number(shards)} owned
        </text>
      </svg>
    </Figure>
  );
}

function Swatch() {
  return (
    <svg class="swatch" width="12" height="10" viewBox="0 0 12 10" aria-hidden="true">
      <rect class="ring-arc" width="12" height="10" rx="2" />
    </svg>
  );
}
