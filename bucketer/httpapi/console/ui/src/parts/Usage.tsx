// What a tenant did in the last hour, beside its quotas.

import { ask } from '../api/client';
import type { MinuteList } from '../api/coming';
import { slow, useLive } from '../api/live';
import { asProblem, faultsAt, Problem } from '../api/problem';
import { serverNow } from '../clock';
import { quotaWords, type QuotasLike } from '../quotas';
import { href } from '../router';
import { number } from '../words';
import { Chart } from './Chart';
import { Facts } from './Facts';
import { Answered, Panel } from './Panel';

const hour = 3_600_000;
const minute = 60_000;

export function Usage({ tenant, quotas }: { tenant: string; quotas: QuotasLike }) {
  const live = useLive<MinuteList>(
    `usage of ${tenant}`,
    async (signal) => {
      try {
        return await ask('/v1/stats', {
          query: { from: new Date(serverNow() - hour).toISOString(), scope: 'tenant' },
          headers: { 'Carillon-Tenant': tenant },
          signal,
        });
      } catch (thrown) {
        const problem = asProblem(thrown);
        // A node of an older version counts all tenants together.
        throw faultsAt(problem, 'query.scope').length > 0 ? new Problem(501, '', problem.title) : thrown;
      }
    },
    { every: slow },
  );
  return (
    <Panel
      title="The last hour"
      live={live}
      every={slow}
      about="Runs that started, those of schedules as well. A quota of runs counts those that are asked for: it is used up by less than is shown."
    >
      <Answered live={live} what="counts of one tenant">
        {(list) => {
          const known = new Map(list.items.map((m) => [Date.parse(m.minute), m]));
          const last = Math.floor(serverNow() / minute) * minute;
          const times = Array.from({ length: 60 }, (_, i) => last - (59 - i) * minute);
          const started = times.map((t) => known.get(t)?.started ?? 0);
          const failed = times.map((t) => known.get(t)?.failed ?? 0);
          const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
          return (
            <>
              <Chart
                caption="Runs started and attempts failed, by minute"
                times={times}
                series={[
                  { label: 'started', values: started, colour: '--run', kind: 'bars' },
                  { label: 'failed', values: failed, colour: '--bad', kind: 'line' },
                ]}
                hrefAt={(i) => {
                  const at = times[i] ?? 0;
                  return href('/runs', { tenant, from: new Date(at).toISOString(), to: new Date(at + minute).toISOString() });
                }}
              />
              <Facts
                facts={[
                  ['Started', number(sum(started))],
                  ['Most in a minute', `${number(Math.max(0, ...started))}; quota of runs asked for: ${quotaWords(quotas, 'runs_per_minute')}`],
                  ['Attempts failed', number(sum(failed))],
                ]}
              />
            </>
          );
        }}
      </Answered>
    </Panel>
  );
}
