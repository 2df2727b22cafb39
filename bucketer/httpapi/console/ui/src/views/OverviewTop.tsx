// What fails most: jobs, tasks, hosts and tenants, since when, and with what error.

import { answer, api, chosenTenant } from '../api/client';
import type { TopBy, TopItem, TopList } from '../api/coming';
import { steady, useLive, type Live } from '../api/live';
import { scopeOf, scopeQuery } from '../api/minutes';
import { maySeeAll, tenant } from '../api/session';
import { serverNow } from '../clock';
import { Answered, Panel } from '../parts/Panel';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { pathTo, type Query } from '../place';
import { href } from '../router';
import { spanText } from '../time';
import { missedLately } from '../verdict';
import { number } from '../words';

const minute = 60_000;

const topKinds: readonly { by: TopBy; title: string; head: string; needsAll?: boolean }[] = [
  { by: 'job', title: 'Jobs', head: 'Job' },
  { by: 'task', title: 'Tasks', head: 'Task' },
  { by: 'host', title: 'Hosts', head: 'Host' },
  { by: 'tenant', title: 'Tenants', head: 'Tenant', needsAll: true },
];

export function Top() {
  const kinds = topKinds.filter((k) => !k.needsAll || maySeeAll());
  return (
    <Panel title="What fails most, in the last hour" about="Of each minute the busiest 50 are counted by name.">
      <Tabs
        label="By"
        name="top"
        tabs={kinds.map((kind) => ({ id: kind.by, title: kind.title, content: () => <TopTable kind={kind} /> }))}
      />
    </Panel>
  );
}

/** What fails most in the last hour, by name. */
export function useTop(by: TopBy, every: number): Live<TopList> {
  return useLive<TopList>(
    `top ${by}`,
    (signal) => {
      const to = serverNow();
      const query = { by, from: new Date(to - 60 * minute).toISOString(), to: new Date(to).toISOString(), ...scopeQuery() };
      return answer(api.GET('/v1/stats/top', { params: { query }, signal }));
    },
    { every },
  );
}

function TopTable({ kind }: { kind: (typeof topKinds)[number] }) {
  const live = useTop(kind.by, steady);
  const all = scopeOf() === 'all' && kind.by !== 'tenant';
  const columns: (Column<TopItem> | false)[] = [
    { head: kind.head, kind: 'main', cell: (item) => <bdi>{item.name}</bdi> },
    kind.by !== 'tenant' && { head: 'Fails since', cell: (item) => <Since item={item} /> },
    kind.by !== 'tenant' && {
      head: 'Last error',
      cell: (item) => (item.last_error ? <bdi class="said" title={item.last_error}>{item.last_error}</bdi> : '–'),
    },
    all && { head: 'Tenant', cell: (item) => item.tenant ?? '–' },
    {
      head: 'Failed attempts',
      kind: 'number',
      cell: (item) => (
        <Count n={item.failed} tone="bad" to={topHref(kind.by, item, { state: ['failed', 'retrying'], of: 'attempts' })} />
      ),
    },
    {
      head: 'Missed or skipped',
      kind: 'number',
      cell: (item) => <Count n={item.missed} tone="miss" to={topHref(kind.by, item, missedLately)} />,
    },
    {
      head: 'Late',
      kind: 'number',
      cell: (item) => <Count n={item.late} tone="warn" to={topHref(kind.by, item, { late: '1s', of: 'late' })} />,
    },
    { head: 'Started', kind: 'number', cell: (item) => number(item.started) },
    {
      head: 'Lateness p99',
      kind: 'number',
      minor: true,
      cell: (item) => (item.lateness ? spanText(item.lateness.p99_ms) : '–'),
    },
  ];
  return (
    <Answered live={live} what={`counts by ${kind.by}`}>
      {(list) => {
        const rows = [...list.items]
          .filter((item) => item.failed > 0 || item.missed > 0 || item.late > 0)
          .sort((a, b) => b.failed + b.missed + b.late - (a.failed + a.missed + a.late))
          .slice(0, 10);
        return (
          <>
            <Table
              caption={`What fails most by ${kind.by}`}
              columns={columns.filter((c): c is Column<TopItem> => c !== false)}
              rows={rows}
              rowKey={(item) => `${item.tenant ?? ''}/${item.name}`}
              rowHref={(item) => nameHref(kind.by, item)}
              empty={
                <p class="muted">
                  Nothing failed, was missed, or was late.
                  {kind.by === 'job' && ' One-off jobs are counted by their task and their host.'}
                </p>
              }
            />
            {list.others && (list.others.failed > 0 || list.others.missed > 0) && (
              <p class="muted small-text">
                All others together: {number(list.others.failed)} failed, {number(list.others.missed)} missed.
              </p>
            )}
          </>
        );
      }}
    </Answered>
  );
}

/** Since when it fails, and whether anything has succeeded since. */
function Since({ item }: { item: TopItem }) {
  const { failed_from: from, failed_to: to, succeeded_last: good } = item;
  if (!from || !to) {
    return <>–</>;
  }
  const before = serverNow() - Date.parse(from) > 58 * minute;
  return (
    <>
      {before ? 'an hour or longer' : <TimeLabel at={from} short />}
      <br />
      <span class="muted small-text">
        {!good ? (
          'nothing succeeded'
        ) : good > to ? (
          <>
            last at <TimeLabel at={to} short />, well since
          </>
        ) : Date.parse(to) - Date.parse(good) > minute ? (
          <>
            nothing succeeded after <TimeLabel at={good} short />
          </>
        ) : (
          'others succeed'
        )}
      </span>
    </>
  );
}

function Count({ n, tone, to }: { n: number; tone: string; to: string | undefined }) {
  if (n === 0) {
    return <span class="muted">0</span>;
  }
  return to === undefined ? (
    <strong class={`toned tone-${tone}`}>{number(n)}</strong>
  ) : (
    <a class={`toned tone-${tone}`} href={to}>
      {number(n)}
    </a>
  );
}

/** Where the name of an item leads: to the thing itself. */
function nameHref(by: TopBy, item: TopItem): string | undefined {
  const of = tenantQuery(item);
  switch (by) {
    case 'job':
      return item.name === '' ? undefined : href(pathTo('/jobs/:id', { id: item.name }), of);
    case 'task':
      return item.name === '' ? undefined : href(pathTo('/tasks/:name', { name: item.name }), of);
    case 'tenant':
      return href('/', { tenant: item.name });
    case 'host':
      return href('/runs', { last: '1h', host: item.name, state: ['failed', 'retrying'], of: 'attempts', ...of });
  }
}

function topHref(by: TopBy, item: TopItem, more: Query): string | undefined {
  if (item.name === '') {
    return undefined;
  }
  const of = by === 'tenant' ? { tenant: item.name } : { [by]: item.name, ...tenantQuery(item) };
  return href('/runs', { last: '1h', ...of, ...more });
}

/** Of all tenants together, a thing is one of its own tenant. */
function tenantQuery(item: TopItem): Query {
  return item.tenant !== undefined && chosenTenant.value === '' && item.tenant !== tenant.value
    ? { tenant: item.tenant }
    : {};
}
