// The coming hour in short: about how many runs are planned in which minute.

import type { UpcomingMinutes } from '../api/coming';
import { slow, type Live } from '../api/live';
import { serverNow } from '../clock';
import { Answered, Panel } from '../parts/Panel';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { href } from '../router';
import { number } from '../words';

/** How far the estimate can be trusted. */
function sampledWords({ sampled_shards: sampled, shards }: UpcomingMinutes): string {
  return sampled >= shards
    ? `All ${number(shards)} shards were counted.`
    : `It is made of ${number(sampled)} of ${number(shards)} shards, drawn anew each time: it moves from look to look, the more the fewer runs there are.`;
}

export function Herds({ upcoming }: { upcoming: Live<UpcomingMinutes> }) {
  type Coming = { minute: string; runs: number };
  return (
    <Panel
      title="The coming hour"
      live={upcoming}
      every={slow}
      about="An estimate of what is planned already: of a recurring job that is its next run alone, and starts that were put off are among it."
      actions={<a href={href('/coming')}>The busiest minute, and what runs then</a>}
    >
      <Answered
        live={upcoming}
        what="what all tenants together have due"
        needs="It needs a key of the tenant system. What yours has due stands on the page Coming hour."
      >
        {(coming) => {
          // Of the minute under way much has been started.
          const items = coming.items.filter((m) => Date.parse(m.minute) > serverNow());
          const sum = items.reduce((n, m) => n + (m.runs ?? 0), 0);
          const rows = items
            .map((m) => ({ minute: m.minute, runs: m.runs ?? 0 }))
            .filter((m) => m.runs > 0)
            .sort((a, b) => b.runs - a.runs)
            .slice(0, 8);
          const columns: Column<Coming>[] = [
            { head: 'Minute', kind: 'main', cell: (m) => <TimeLabel at={m.minute} short relative /> },
            { head: '≈ Runs', kind: 'number', cell: (m) => number(m.runs) },
            {
              head: 'Beside the largest',
              cell: (m) => (
                <svg class="meter tone-still" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                  <rect width={(m.runs / Math.max(1, rows[0]?.runs ?? 1)) * 100} height="8" />
                </svg>
              ),
            },
          ];
          return (
            <>
              <p>
                ≈ {number(sum)} runs are planned
                {items.some((m) => m.runs === undefined) && ' at least, some minutes are not counted yet'}
                {coming.as_of !== undefined && (
                  <>
                    , as of <TimeLabel at={coming.as_of} />
                  </>
                )}
                . {sampledWords(coming)}
              </p>
              <Table
                caption="The minutes of the coming hour in which most is due"
                columns={columns}
                rows={rows}
                rowKey={(m) => m.minute}
                rowHref={(m) => href('/coming', { minute: m.minute })}
                empty={
                  <p class="muted">
                    By the estimate nothing is planned yet. What is rare is easily missed by it, and what recurs is planned one
                    run at a time: <a href={href('/coming')}>look at the coming hour minute by minute</a>.
                  </p>
                }
              />
            </>
          );
        }}
      </Answered>
    </Panel>
  );
}
