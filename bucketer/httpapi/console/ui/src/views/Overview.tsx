// Is everything on time, and if not, why? The answer comes first; below it the numbers, and each of them
// leads to the runs behind it.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { answer, api, chosenTenant } from '../api/client';
import type { MinuteCounts, TopBy, TopItem, UpcomingMinutes } from '../api/coming';
import { fast, isStale, liveOn, slow, steady, useLive, type Live } from '../api/live';
import { scopeOf, scopeQuery, useMinutes } from '../api/minutes';
import type { Problem } from '../api/problem';
import { maySeeAll, tenant } from '../api/session';
import type { Cluster } from '../api/types';
import { clockOffset, localNow, serverNow } from '../clock';
import { bandFrom, bandOf, bands, lateFromMs, spread } from '../lateness';
import { Age } from '../parts/Age';
import { Chart } from '../parts/Chart';
import { curlOf } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { HeatMap } from '../parts/HeatMap';
import { Icon } from '../parts/Icon';
import { Answered, Missing, Panel } from '../parts/Panel';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo, type Query } from '../place';
import { href, queryValue, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { coarse, spanText } from '../time';
import {
  behindSeconds,
  failingShare,
  missedLately,
  rateNow,
  recent,
  slotsFull,
  slotsOf,
  sumOf,
  missedBadly,
  verdictOf,
  waitFrom,
  waitsOf,
  type Verdict,
} from '../verdict';
import { minuteWindow } from '../window';
import { missedWords, number, percent, shortNumber } from '../words';

const minute = 60_000;

export function Overview(_props: ViewParams) {
  const counts = useMinutes(60);
  const cluster = useLive<Cluster>(
    maySeeAll() ? 'cluster of the overview' : null,
    (signal) => answer(api.GET('/v1/cluster', { signal })),
    { every: fast },
  );
  const [counted, setCounted] = useState(true);
  const upcoming = useLive(
    'coming hour',
    (signal) => answer(api.GET('/v1/stats/upcoming', { params: { query: { minutes: 60 } }, signal })),
    { every: counted ? slow : fast },
  );
  // Minutes that were not counted yet are, a moment later.
  const whole = upcoming.data?.items.every((m) => m.runs !== undefined) ?? true;
  useEffect(() => setCounted(whole), [whole]);
  // Counts are judged as of when they came: they do not get better by getting old.
  const at = (counts.at ?? Date.now()) + clockOffset.value;
  const old = counts.at !== undefined && liveOn.value && isStale(counts.at, fast, localNow.value);
  const verdict = verdictOf({
    minutes: counts.data,
    missing: counts.missing,
    cluster: cluster.data,
    tenant: tenant.value,
    now: at,
    old: old ? localNow.value - (counts.at ?? 0) : undefined,
  });
  const idle =
    counts.data !== undefined &&
    counts.data.every((m) => m.due === 0 && m.started === 0 && m.missed === 0) &&
    (upcoming.data?.items ?? []).every((m) => !m.runs);
  return (
    <View
      title="Overview"
      about={
        scopeOf() === 'all' ? (
          <>Counts of all tenants together. Runs that a mark leads to are those of the tenant {tenant.value}.</>
        ) : undefined
      }
    >
      {counts.data === undefined && counts.problem === undefined ? (
        <div class="verdict tone-still" aria-busy="true">
          <Icon name="dots" size={28} />
          <div>
            <p class="verdict-headline">Asking the node</p>
          </div>
        </div>
      ) : (
        <VerdictBox verdict={verdict} live={counts} />
      )}
      {idle && <Beginning />}
      <Tiles counts={counts} cluster={cluster} at={at} />
      <LatenessMap />
      <Timeline upcoming={upcoming} />
      <Top />
      <Herds upcoming={upcoming} />
    </View>
  );
}

function VerdictBox({ verdict, live }: { verdict: Verdict; live: Live<unknown> }) {
  const icon = { good: 'check', warn: 'warning', bad: 'cross', still: 'dots' } as const;
  return (
    <section class={`verdict tone-${verdict.tone}`} aria-label="Is everything on time?">
      <Icon name={icon[verdict.tone]} size={30} />
      <div class="verdict-body">
        <p class="verdict-headline" role="status">
          {verdict.headline}
        </p>
        <p class="verdict-detail">
          {verdict.detail} <Age live={live} every={fast} />
        </p>
        {verdict.reasons.length > 0 && (
          <ul class="verdict-reasons">
            {verdict.reasons.map((reason) => (
              <li key={reason.text} class={`tone-${reason.tone}`}>
                <Icon name={reason.tone === 'bad' ? 'cross' : 'warning'} size={14} />
                <span>
                  {reason.text}{' '}
                  {reason.link && <a href={href(reason.link.path, reason.link.query)}>{reason.link.words}</a>}
                </span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

function Beginning() {
  const body = { http: { url: 'https://example.com/hook' }, schedule: { every: '1m' }, name: 'first' };
  return (
    <Panel title="Begin here">
      <Empty
        title="Nothing has run in the last hour, and nothing is due in the next one"
        commands={[
          'carillon job create --url https://example.com/hook --in 5s',
          "carillon job create --name nightly --url https://example.com/report --cron '0 2 * * *' --timezone Europe/Berlin",
          curlOf('POST', '/v1/jobs', body),
        ]}
      >
        <p>
          Create a job <a href={href('/jobs/new')}>in the console</a>, with the program <code>carillon</code>, or with
          curl. Its runs show up here on their second.
        </p>
      </Empty>
    </Panel>
  );
}

interface TileProps {
  name: string;
  value: string;
  /** Beside the value, smaller. */
  unit?: string;
  note?: string;
  tone?: 'good' | 'warn' | 'bad';
  path?: string;
  query?: Query;
}

function Tile({ name, value, unit, note, tone, path, query }: TileProps) {
  const inside = (
    <>
      <span class="tile-name">{name}</span>
      <span class={`tile-value ${tone ? `tone-${tone}` : ''}`}>
        {tone === 'bad' && <Icon name="cross" size={18} />}
        {tone === 'warn' && <Icon name="warning" size={18} />}
        {value}
        {unit && <small> {unit}</small>}
      </span>
      <span class="tile-note">{note ?? '\u00a0'}</span>
    </>
  );
  return (
    <li class="tile">
      {path === undefined ? (
        <div class="tile-body">{inside}</div>
      ) : (
        <a class="tile-body" href={href(path, query)}>
          {inside}
        </a>
      )}
    </li>
  );
}

function Tiles({ counts, cluster, at }: { counts: Live<MinuteCounts[]>; cluster: Live<Cluster>; at: number }) {
  const minutes = counts.data;
  if (!minutes) {
    return counts.problem ? (
      <Missing problem={counts.problem} what="counts of what was started" retry={counts.refresh} />
    ) : null;
  }
  const lately = recent(minutes, at);
  const recently = sumOf(lately);
  const hour = sumOf(minutes);
  const latest = lately.filter((m) => m.started > 0).at(-1)?.lateness;
  const rate = rateNow(minutes, at);
  const slots = cluster.data ? slotsOf(cluster.data) : undefined;
  const queue = cluster.data?.queue?.waiting;
  const behind = Math.max(0, ...(cluster.data?.shards ?? []).map((s) => s.behind_seconds));
  const tried = recently.succeeded + recently.failed;
  const waits = cluster.data ? waitsOf(cluster.data) : undefined;
  const oldest = waits?.oldest === undefined ? 0 : Math.max(0, at - waits.oldest);
  const late = latest !== undefined && latest.p99_ms > lateFromMs;
  return (
    <ul class="tiles">
      <Tile
        name="Starts a second, now"
        value={rate === undefined ? '–' : shortNumber(rate)}
        note={`${shortNumber(hour.started)} in the last hour`}
        path="/runs"
        query={{ last: '5m' }}
      />
      <Tile
        name="Attempts that succeed"
        value={percent(recently.succeeded, tried)}
        note={`${number(recently.failed)} failed in 5 minutes`}
        {...(recently.failed > tried * failingShare ? { tone: 'warn' as const } : {})}
        path="/runs"
        query={{ last: '15m', state: ['failed', 'retrying'] }}
      />
      <Tile
        name="Lateness now, p99"
        value={latest ? spanText(latest.p99_ms) : '–'}
        note={latest ? `p50 ${spanText(latest.p50_ms)}` : 'nothing was started in 5 minutes'}
        {...(late ? { tone: 'bad' as const } : {})}
        path="/runs"
        query={{ last: '15m', late: late ? '1s' : '' }}
      />
      <Tile
        name="Lateness in the hour, p99"
        value={bandWords(hour.p99)}
        note={`p50 ${bandWords(hour.p50)}, ${hour.late > 0 ? number(hour.late) : 'none'} over 1 s`}
        {...(hour.late > 0 ? { tone: 'warn' as const } : {})}
        path="/runs"
        query={{ last: '1h', late: '1s' }}
      />
      <Tile
        name="Missed or skipped in the hour"
        value={number(hour.missed)}
        note={hour.missed > 0 ? missedWords(hour.missed, hour.missedFor) : 'every run was started'}
        {...(hour.missed > 0 ? { tone: missedBadly(hour) > 0 ? ('bad' as const) : ('warn' as const) } : {})}
        path="/runs"
        query={missedLately}
      />
      {maySeeAll() && (
        <>
          <Tile
            name="Due, and waiting"
            value={waits ? `${shortNumber(waits.runs)}${waits.more ? '+' : ''}` : '–'}
            unit={waits ? 'runs' : ''}
            note={waits && waits.runs > 0 ? `the oldest due ${coarse(oldest)} ago` : 'for no rate, limit or target'}
            {...(oldest > waitFrom ? { tone: 'warn' as const } : {})}
            path="/runs"
            query={{ last: oldest < 50 * minute ? '1h' : '24h', state: 'pending' }}
          />
          <Tile
            name="Slots in use"
            value={slots ? shortNumber(slots.used) : '–'}
            unit={slots ? `of ${shortNumber(slots.total)}` : ''}
            note={
              slots
                ? `${percent(slots.used, slots.total)}${slots.waiting > 0 ? `, ${number(slots.waiting)} wait for one` : ''}`
                : 'no executor told'
            }
            {...(slots && slots.total > 0 && slots.used / slots.total >= slotsFull ? { tone: 'warn' as const } : {})}
            path="/cluster"
          />
          <Tile
            name="Backlog"
            value={queue === undefined ? '–' : shortNumber(queue)}
            unit={queue === undefined ? '' : 'messages'}
            note={cluster.data?.shards ? behindWords(behind) : backlogProblem(cluster.problem)}
            {...(behind > behindSeconds ? { tone: 'bad' as const } : {})}
            path="/cluster"
          />
        </>
      )}
    </ul>
  );
}

/** A lateness as the class says it in which it lies: "≤ 20 ms". */
function bandWords(ms: number | undefined): string {
  return ms === undefined ? '–' : (bands[bandOf(ms)]?.label ?? '–');
}

function behindWords(seconds: number): string {
  return seconds > behindSeconds ? `a shard is ${coarse(seconds * 1000)} behind` : 'no shard is behind';
}

function backlogProblem(problem: Problem | undefined): string {
  return problem ? 'the cluster does not tell' : '\u00a0';
}

const mapSpans = [
  { minutes: 60, value: '', text: '1 hour' },
  { minutes: 360, value: '6h', text: '6 hours' },
  { minutes: 1440, value: '24h', text: '24 hours' },
] as const;

function LatenessMap() {
  const chosen = mapSpans.find((s) => s.value === queryValue('map')) ?? mapSpans[0];
  const live = useMinutes(chosen.minutes);
  // Wide stretches are drawn by several minutes together: a field must be wide enough to be hit.
  const step = chosen.minutes === 60 ? 1 : chosen.minutes === 360 ? 5 : 15;
  const end = Math.floor(serverNow() / (step * minute)) * step * minute + step * minute;
  const drawn = useMemo(() => {
    const times = Array.from(
      { length: chosen.minutes / step },
      (_, i) => end - chosen.minutes * minute + i * step * minute,
    );
    const counts = times.map(() => bands.map(() => 0));
    for (const m of live.data ?? []) {
      const column = counts[Math.floor((Date.parse(m.minute) - (times[0] ?? 0)) / (step * minute))];
      for (const [row, n] of spread(m.lateness?.classes ?? []).entries()) {
        if (column) {
          column[row] = (column[row] ?? 0) + n;
        }
      }
    }
    return { times, counts };
  }, [live.data, end, chosen.minutes, step]);
  const withoutClasses = live.data?.some((m) => m.lateness) && !live.data.some((m) => m.lateness?.classes);
  return (
    <Panel
      title="How late runs start"
      live={live}
      every={fast}
      actions={
        <div class="row" role="group" aria-label="Stretch">
          {mapSpans.map((s) => (
            <button
              key={s.value}
              type="button"
              class="toggle"
              aria-pressed={s === chosen}
              onClick={() => setQuery({ map: s.value })}
            >
              {s.text}
            </button>
          ))}
        </div>
      }
    >
      <Answered live={live} what="counts of lateness">
        {() =>
          withoutClasses ? (
            <p class="absent">
              <Icon name="slash" /> This node does not tell classes of lateness.
            </p>
          ) : (
            <HeatMap
              caption={`First starts by minute and lateness${step > 1 ? `, ${step} minutes together` : ''}. Above the line they are late.`}
              times={drawn.times}
              rows={bands}
              counts={drawn.counts}
              one="start"
              rowHeight={14}
              hrefAt={(time, row) => fieldHref(drawn.times[time] ?? 0, step, row)}
            />
          )
        }
      </Answered>
    </Panel>
  );
}

/** The runs of a field: those that were due when it says, or so much earlier as they were late. */
function fieldHref(at: number, step: number, row: number): string {
  const upTo = Math.min(bands[row]?.upTo ?? 0, 3_600_000);
  const from = bandFrom(row);
  return href('/runs', {
    from: new Date(at - upTo).toISOString(),
    to: new Date(at + step * minute).toISOString(),
    late: from > 0 ? `${from}ms` : '',
  });
}

const pastMinutes = 360;
const comingMinutes = 60;

function Timeline({ upcoming }: { upcoming: Live<UpcomingMinutes> }) {
  const live = useMinutes(pastMinutes);
  const begin = Math.floor(serverNow() / minute) * minute;
  const drawn = useMemo(() => {
    const first = begin - (pastMinutes - 1) * minute;
    const length = pastMinutes + comingMinutes;
    const times = Array.from({ length }, (_, i) => first + i * minute);
    const past = (i: number): number | null => (i < pastMinutes ? 0 : null);
    const started = times.map((_, i) => past(i));
    const failed = [...started];
    const missed = [...started];
    const late = [...started];
    const worst = times.map(() => 0);
    const due: (number | null)[] = times.map(() => null);
    for (const m of live.data ?? []) {
      const i = Math.round((Date.parse(m.minute) - first) / minute);
      if (i < 0 || i >= pastMinutes) {
        continue;
      }
      started[i] = m.started;
      failed[i] = m.failed;
      missed[i] = m.missed;
      late[i] = m.late;
      worst[i] = m.lateness?.max_ms ?? 0;
    }
    for (const m of upcoming.data?.items ?? []) {
      const i = Math.round((Date.parse(m.minute) - first) / minute);
      if (i >= pastMinutes - 1 && i < length) {
        due[i] = m.runs ?? null;
      }
    }
    return { times, started, failed, missed, late, worst, due };
  }, [live.data, upcoming.data, begin]);
  const { times, started, failed, missed, late, worst, due } = drawn;
  const flow = useMemo(
    () => [
      { label: 'started', values: started, colour: '--run', kind: 'area' as const },
      { label: '≈ due', values: due, colour: '--still', kind: 'dashed' as const },
    ],
    [started, due],
  );
  const faults = useMemo(
    () => [
      { label: 'failed attempts', values: failed, colour: '--bad', kind: 'bars' as const },
      { label: 'missed or skipped', values: missed, colour: '--miss', kind: 'dashed' as const },
      { label: 'more than 1 s late', values: late, colour: '--warn', kind: 'line' as const },
    ],
    [failed, missed, late],
  );
  /** Runs that were due in a minute, or so much before it: what ends late, or is given up, was due before. */
  const runsOf = (i: number, before: number, more: Query): string => {
    const from = (times[i] ?? 0) - before;
    const to = (times[i] ?? 0) + minute;
    return href('/runs', {
      from: new Date(from).toISOString(),
      to: new Date(to).toISOString(),
      ...(before > 0 ? { order: 'latest' } : {}),
      ...more,
    });
  };
  const faultsOf = (i: number, series: number | undefined): string =>
    series === 1
      ? runsOf(i, 360 * minute, { state: 'missed' })
      : series === 2
        ? runsOf(i, Math.min(worst[i] ?? 0, 60 * minute), { late: '1s' })
        : runsOf(i, 5 * minute, { state: ['failed', 'retrying'] });
  return (
    <Panel
      title="Six hours, and the one to come"
      live={live}
      every={fast}
      about={
        upcoming.problem && !upcoming.data ? `What is to come is not known: ${upcoming.problem.sentence}` : undefined
      }
    >
      <Answered live={live} what="counts of minutes">
        {() => (
          <>
            <Chart
              caption="Runs started a minute, and those to come that are planned already (estimated): of a recurring job only the next"
              times={times}
              series={flow}
              height={150}
              mark={begin}
              sync="timeline"
              hrefAt={(i) => runsOf(i, 0, {})}
            />
            <Chart
              caption="What was not as it should be, a minute"
              times={times}
              series={faults}
              height={110}
              mark={begin}
              sync="timeline"
              hrefAt={faultsOf}
            />
          </>
        )}
      </Answered>
    </Panel>
  );
}

const topKinds: readonly { by: TopBy; title: string; head: string; needsAll?: boolean }[] = [
  { by: 'job', title: 'Jobs', head: 'Job' },
  { by: 'task', title: 'Tasks', head: 'Task' },
  { by: 'host', title: 'Hosts', head: 'Host' },
  { by: 'tenant', title: 'Tenants', head: 'Tenant', needsAll: true },
];

function Top() {
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

function TopTable({ kind }: { kind: (typeof topKinds)[number] }) {
  const live = useLive(
    `top ${kind.by}`,
    (signal) => {
      const to = serverNow();
      const query = {
        by: kind.by,
        from: new Date(to - 60 * minute).toISOString(),
        to: new Date(to).toISOString(),
        ...scopeQuery(),
      };
      return answer(api.GET('/v1/stats/top', { params: { query }, signal }));
    },
    { every: steady },
  );
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
        <Count n={item.failed} tone="bad" to={topHref(kind.by, item, { state: ['failed', 'retrying'] })} />
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
      cell: (item) => <Count n={item.late} tone="warn" to={topHref(kind.by, item, { late: '1s' })} />,
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
      return href('/runs', { last: '1h', host: item.name, state: ['failed', 'retrying'], ...of });
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

/** How far the estimate can be trusted. */
function sampledWords({ sampled_shards: sampled, shards }: UpcomingMinutes): string {
  return sampled >= shards
    ? `All ${number(shards)} shards were counted.`
    : `It is made of ${number(sampled)} of ${number(shards)} shards, drawn anew each time: it moves from look to look, the more the fewer runs there are.`;
}

function Herds({ upcoming }: { upcoming: Live<UpcomingMinutes> }) {
  type Coming = { minute: string; runs: number };
  return (
    <Panel
      title="The coming hour"
      live={upcoming}
      every={slow}
      about="Where the herds are: runs that are planned already. Of a recurring job that is its next run alone, however often it runs in the hour."
    >
      <Answered live={upcoming} what="what is due in the coming hour">
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
                rowHref={(m) => href('/runs', minuteWindow(Date.parse(m.minute)))}
                empty={<p class="muted">Nothing is planned for the coming hour yet.</p>}
              />
            </>
          );
        }}
      </Answered>
    </Panel>
  );
}
