// Tenants: their weights and quotas, and what each did in the last hour.

import { useState } from 'preact/hooks';
import { useAll } from '../api/all';
import { answer, api, ask } from '../api/client';
import type { TopList } from '../api/coming';
import { slow, useLive } from '../api/live';
import { may, maySeeAll } from '../api/session';
import type { Tenant } from '../api/types';
import { serverNow } from '../clock';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Field } from '../parts/Field';
import { Missing, Panel } from '../parts/Panel';
import { SearchedList } from '../parts/SearchedList';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { quotaWords, retentionWords } from '../quotas';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { number } from '../words';

export function Tenants(_props: ViewParams) {
  const live = useAll<Tenant>('all tenants', (query, signal) => answer(api.GET('/v1/tenants', { params: { query }, signal })));
  const top = useLive<TopList>(
    maySeeAll() ? 'top tenants' : null,
    (signal) =>
      ask('/v1/stats/top', {
        query: { by: 'tenant', from: new Date(serverNow() - 3_600_000).toISOString(), limit: 500, scope: 'all' },
        signal,
      }),
    { every: slow },
  );
  const counts = new Map((top.data?.items ?? []).map((t) => [t.name, t]));
  const columns: Column<Tenant>[] = [
    { head: 'Tenant', kind: 'main', cell: (t) => t.name },
    { head: 'Weight', kind: 'number', cell: (t) => (t.fault ? <span class="toned tone-bad">not understood</span> : number(t.weight)) },
    { head: 'Jobs', kind: 'number', cell: (t) => quotaWords(t.quotas, 'jobs') },
    { head: 'Runs asked for', kind: 'number', cell: (t) => quotaWords(t.quotas, 'runs_per_minute') },
    { head: 'At once', kind: 'number', minor: true, cell: (t) => quotaWords(t.quotas, 'concurrency') },
    { head: 'Lines of imports', kind: 'number', minor: true, cell: (t) => quotaWords(t.quotas, 'import_lines_per_second') },
    { head: 'Payload', kind: 'number', minor: true, cell: (t) => quotaWords(t.quotas, 'payload_bytes_per_minute') },
    { head: 'Retention', minor: true, cell: (t) => (t.retention ? retentionWords(t.retention) : <span class="muted">–</span>) },
    { head: 'Encrypted', minor: true, cell: (t) => (t.encrypt_payloads ? 'yes' : <span class="muted">–</span>) },
    {
      head: 'Started, last hour',
      kind: 'number',
      cell: (t) => {
        const n = counts.get(t.name);
        return n ? number(n.started) : <span class="muted">–</span>;
      },
    },
    {
      head: 'Failed, last hour',
      kind: 'number',
      cell: (t) => {
        const n = counts.get(t.name);
        return n ? <span class={n.failed > 0 ? 'toned tone-bad' : undefined}>{number(n.failed)}</span> : <span class="muted">–</span>;
      },
    },
    { head: 'Changed', minor: true, cell: (t) => <TimeLabel at={t.updated_at} relative /> },
  ];
  return (
    <View
      title="Tenants"
      about="A tenant is there once it is named. Those of which nothing was stated have weight 1 and no quotas, and are not in the list."
      actions={<CopyCurl path="/v1/tenants" />}
    >
      <SearchedList
        live={live}
        title="Of which something was stated"
        what="tenants"
        one="tenant"
        find={{ label: 'Name', placeholder: 'billing', textOf: (t) => t.name }}
        caption="Tenants, by name"
        columns={columns}
        keyOf={(t) => t.name}
        hrefOf={(t) => href(pathTo('/tenants/:name', { name: t.name }))}
        empty={
          <Empty
            title="Nothing was stated of any tenant"
            commands={['carillon tenant set billing --weight 2 --runs-per-minute 6000']}
          />
        }
      >
        {may('admin') && maySeeAll() && <Open />}
      </SearchedList>
      {maySeeAll() && <Busiest top={top} />}
    </View>
  );
}

/** Goes to a tenant by its name: there is nothing to create. */
function Open() {
  const [name, setName] = useState('');
  return (
    <div class="filter">
      <Field label="Any, by its name">
        {(input) => (
          <span class="row nowrap-row">
            <input
              {...input}
              autocomplete="off"
              spellcheck={false}
              value={name}
              onInput={(e) => setName(e.currentTarget.value)}
              onKeyDown={(e) => {
                if (e.key === 'Enter' && name.trim() !== '') {
                  e.preventDefault();
                  go(pathTo('/tenants/:name', { name: name.trim() }));
                }
              }}
            />
            <button
              type="button"
              class="button"
              disabled={name.trim() === ''}
              onClick={() => go(pathTo('/tenants/:name', { name: name.trim() }))}
            >
              Open
            </button>
          </span>
        )}
      </Field>
    </div>
  );
}

function Busiest({ top }: { top: ReturnType<typeof useLive<TopList>> }) {
  if (top.problem && !top.data) {
    return (
      <Panel title="The busiest of the last hour">
        <Missing problem={top.problem} what="counts by tenant" retry={top.refresh} />
      </Panel>
    );
  }
  const columns: Column<TopList['items'][number]>[] = [
    { head: 'Tenant', kind: 'main', cell: (t) => t.name },
    { head: 'Started', kind: 'number', cell: (t) => number(t.started) },
    { head: 'Failed', kind: 'number', cell: (t) => <span class={t.failed > 0 ? 'toned tone-bad' : undefined}>{number(t.failed)}</span> },
    { head: 'Late', kind: 'number', cell: (t) => <span class={t.late > 0 ? 'toned tone-warn' : undefined}>{number(t.late)}</span> },
    { head: 'Missed', kind: 'number', cell: (t) => number(t.missed) },
  ];
  return (
    <Panel title="The busiest of the last hour" live={top} every={slow}>
      <Table
        caption="Tenants by what they did in the last hour"
        columns={columns}
        rows={(top.data?.items ?? []).slice(0, 20)}
        rowKey={(t) => t.name}
        rowHref={(t) => href(pathTo('/tenants/:name', { name: t.name }))}
        empty={<p class="muted">Nothing ran in the last hour.</p>}
      />
    </Panel>
  );
}
