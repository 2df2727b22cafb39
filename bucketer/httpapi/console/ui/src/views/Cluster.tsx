// The cluster: who is there and ready, who owns which shards and how far each has come, and how
// Cassandra and NATS stand. A node that is killed is seen within seconds.

import type { ComponentChildren } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import { answer, api } from '../api/client';
import type { Check, ServersHealth } from '../api/coming';
import { fast, useLive, type Live } from '../api/live';
import { useRegions } from '../api/regions';
import { firstVersion } from '../api/session';
import type { Cluster as Answer, Member, Regions, Shard } from '../api/types';
import { localNow, now, serverNow } from '../clock';
import { unknownHomes } from '../homes';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { later } from '../parts/Later';
import { Note } from '../parts/Note';
import { Answered, Panel } from '../parts/Panel';
import { Ring } from '../parts/Ring';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { Ago, TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { href, queryValue, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { behindBad, behindLate, lanesOf, noteMembers, rangesOf, toneOf, type Lane, type Seen } from '../ring';
import { spanText } from '../time';
import { count, number } from '../words';

/** What was seen before is old, in ms: the node that answers this page may hang. */
const oldAfter = 6000;

/** Only clusters with regions load it. */
const ClusterRegions = later(
  () => import('../later'),
  (file) => file.ClusterRegions,
  () => <Note tone="warn">Which region serves each home could not be loaded.</Note>,
);

export function Cluster(_props: ViewParams) {
  const live = useLive<Answer>('cluster', (signal) => answer(api.GET('/v1/cluster', { signal })), { every: fast });
  return (
    <View title="Cluster" actions={<CopyCurl path="/v1/cluster" />}>
      <Answered live={live} what="the cluster" needs="It belongs to no one tenant: it needs a key of the tenant system.">
        {(cluster) => <Shown cluster={cluster} live={live} />}
      </Answered>
    </View>
  );
}

/** A member, or one that was there a moment ago. */
interface Row {
  name: string;
  member: Member | undefined;
  last: number;
}

function Shown({ cluster, live }: { cluster: Answer; live: Live<Answer> }) {
  const members = cluster.members ?? [];
  const shards = cluster.shards ?? [];
  const regions = useRegions(fast);
  const seen = useRef<readonly Seen[]>([]);
  const at = live.at ?? 0;
  const rows = useMemo<Row[]>(() => {
    seen.current = noteMembers(seen.current, members.map((m) => m.name), serverNow());
    // What the node remembers of those that went without a word, this page may not have seen.
    const lost = (cluster.lost ?? []).map((l) => ({ name: l.name, last: Date.parse(l.since) }));
    return [...seen.current, ...lost.filter((l) => !seen.current.some((s) => s.name === l.name))]
      .map((s) => ({ name: s.name, last: s.last, member: members.find((m) => m.name === s.name) }))
      .sort((a, b) => a.name.localeCompare(b.name));
  }, [at]);
  const lanes = useMemo(
    () => lanesOf(shards, members.filter((m) => (m.roles ?? []).includes('dispatcher')).map((m) => m.name)),
    [at],
  );
  return (
    <>
      <Verdict cluster={cluster} rows={rows} lanes={lanes} regions={regions.data} live={live} />
      <Panel title="Members" live={live} every={fast}>
        <Members rows={rows} cluster={cluster} lanes={lanes} />
      </Panel>
      {(regions.data?.homes ?? []).length > 0 && <ClusterRegions live={regions} />}
      <div class="columns">
        <Panel title="Shards and owners" live={live} every={fast}>
          {shards.length === 0 ? (
            <Empty title="This node knows of no shards">
              <p>The store does not answer, or nothing was ever dispatched.</p>
            </Empty>
          ) : (
            <Ring
              lanes={lanes}
              shards={shards.length}
              selected={queryValue('owner')}
              onSelect={(owner) => setQuery({ owner })}
              table={() => <Owners lanes={lanes} />}
            />
          )}
        </Panel>
        <div class="stack">
          <Servers name="Cassandra" health={cluster.store} />
          <Servers
            name="NATS"
            health={cluster.queue}
            more={
              <>
                {cluster.queue?.waiting !== undefined && (
                  <p>
                    {count(cluster.queue.waiting, 'message')} wait for an executor, {number(cluster.queue.held ?? 0)} are with one.
                  </p>
                )}
              </>
            }
          />
        </div>
      </div>
      <Panel
        title="Cursors"
        live={live}
        every={fast}
        about={
          cluster.shards_as_of && Date.parse(cluster.shards_as_of) < serverNow() - 10_000 ? (
            <span class="toned tone-bad">
              They were read <Ago at={cluster.shards_as_of} />: the store does not answer.
            </span>
          ) : (
            'How far each shard has come: every bucket that ends by then has been published whole, and is finished.'
          )
        }
      >
        <Cursors shards={shards} />
      </Panel>
    </>
  );
}

function isSilent(member: Member): boolean {
  return (member.checks ?? []).some((c) => c.name === 'answer' && !c.ok);
}

/** Whether a member says that all is well; undefined: it says nothing. */
function readyOf(member: Member | undefined): boolean | undefined {
  if (!member) {
    return false;
  }
  return member.unhealthy ? false : member.ready;
}

interface Wrong {
  /** Stays the same while it is told of the same. */
  id: string;
  text: string;
  tone: 'bad' | 'warn';
}

/** What is wrong with the cluster, as it was seen last. */
function wrongWith(cluster: Answer, rows: readonly Row[], lanes: readonly Lane[], regions: Regions | undefined): Wrong[] {
  const wrong: Wrong[] = [];
  for (const { name, member } of rows) {
    if (!member) {
      wrong.push({ id: name, text: `${name} has left.`, tone: 'bad' });
    } else if (readyOf(member) === false) {
      wrong.push({ id: name, text: isSilent(member) ? `${name} does not answer.` : `${name} is not ready.`, tone: 'bad' });
    }
  }
  const orphans = lanes.find((l) => l.owner === '');
  if (orphans) {
    wrong.push({ id: 'owners', text: `${count(orphans.shards, 'shard has', 'shards have')} no owner.`, tone: 'bad' });
  }
  for (const home of unknownHomes(regions)) {
    wrong.push({ id: `home ${home}`, text: `Which region serves home ${home} is not known.`, tone: 'bad' });
  }
  const behind = (cluster.shards ?? []).filter((s) => s.behind_seconds >= behindLate);
  if (behind.length > 0) {
    const worst = Math.max(...behind.map((s) => s.behind_seconds));
    wrong.push({
      id: 'behind',
      text: `${count(behind.length, 'shard is', 'shards are')} behind, by up to ${spanText(worst * 1000)}.`,
      tone: worst >= behindBad ? 'bad' : 'warn',
    });
  }
  for (const [name, health] of [['Cassandra', cluster.store], ['NATS', cluster.queue]] as const) {
    if (health && !health.ok) {
      wrong.push({ id: name, text: `${name} is not well. ${health.message ?? ''}`, tone: 'bad' });
    }
  }
  const versions = new Set((cluster.members ?? []).map((m) => m.version).filter(Boolean));
  if (versions.size > 1) {
    wrong.push({ id: 'versions', text: `Members are of ${versions.size} versions: ${[...versions].join(', ')}.`, tone: 'warn' });
  }
  return wrong;
}

function Verdict(props: {
  cluster: Answer;
  rows: readonly Row[];
  lanes: readonly Lane[];
  regions: Regions | undefined;
  live: Live<Answer>;
}) {
  const { cluster, rows, lanes, regions, live } = props;
  const wrong = wrongWith(cluster, rows, lanes, regions);
  // What was well a while ago says nothing of now.
  const isOld = live.problem !== undefined || (live.at !== undefined && localNow.value - live.at > oldAfter);
  const tone = isOld || wrong.some((w) => w.tone === 'bad') ? 'bad' : wrong.length > 0 ? 'warn' : 'good';
  const ready = rows.filter((r) => readyOf(r.member) === true).length;
  return (
    <div class={`verdict tone-${tone}`}>
      <Icon name={tone === 'good' ? 'check' : 'warning'} size={22} />
      <div class="verdict-body">
        <div role="status">
          <p class="verdict-headline">
            {isOld
              ? 'How the cluster stands now is not known: what is shown is old.'
              : tone === 'good'
                ? `The cluster is well: ${count(rows.length, 'member')}${ready > 0 ? ', all ready' : ''}.`
                : 'Something is wrong.'}
          </p>
          {wrong.length > 0 && (
            <ul class="verdict-reasons">
              {wrong.map((w) => (
                <li key={w.id} class={`tone-${w.tone}`}>
                  <Icon name={w.tone === 'bad' ? 'cross' : 'warning'} size={14} />
                  <span>{w.text}</span>
                </li>
              ))}
            </ul>
          )}
        </div>
        <p class="muted">
          As {cluster.node} sees it.{' '}
          {cluster.as_of && (
            <>
              Asked <Ago at={cluster.as_of} />.
            </>
          )}
        </p>
      </div>
    </div>
  );
}

function Members({ rows, cluster, lanes }: { rows: readonly Row[]; cluster: Answer; lanes: readonly Lane[] }) {
  const columns: Column<Row>[] = [
    {
      head: 'Member',
      kind: 'main',
      cell: (r) => (
        <>
          {r.name}
          {r.name === cluster.node && <span class="muted"> answers this page</span>}
        </>
      ),
    },
    { head: 'State', cell: (r) => <MemberState row={r} /> },
    { head: 'What it says', cell: (r) => <Checks checks={r.member?.checks ?? undefined} /> },
    { head: 'Slots', kind: 'number', cell: (r) => <Slots member={r.member} /> },
    {
      head: 'Shards',
      kind: 'number',
      cell: (r) => {
        const lane = lanes.find((l) => l.owner === r.name);
        return lane ? (
          <a href={href('/cluster', { owner: r.name })}>{number(lane.shards)}</a>
        ) : (
          <span class="muted">–</span>
        );
      },
    },
    { head: 'Roles', minor: true, cell: (r) => (r.member?.roles ?? []).join(', ') },
    {
      head: 'Version',
      cell: (r) => (
        <span class={r.member?.version && r.member.version !== firstVersion.value && firstVersion.value ? 'toned tone-warn' : undefined}>
          {r.member?.version ?? ''}
        </span>
      ),
    },
    { head: 'Up since', minor: true, cell: (r) => <TimeLabel at={r.member?.started_at} relative none="" /> },
    { head: 'Where', minor: true, cell: (r) => [r.member?.region, r.member?.zone].filter(Boolean).join(' / ') },
    { head: 'Address', minor: true, cell: (r) => <bdi>{r.member?.address ?? ''}</bdi> },
  ];
  return <Table caption="Members of the cluster" columns={columns} rows={rows} rowKey={(r) => r.name} empty={<p class="muted">This node knows of none.</p>} />;
}

function MemberState({ row }: { row: Row }) {
  const { member } = row;
  if (!member) {
    return (
      <>
        <StateBadge state="lost" words="has left" /> <span class="muted">seen {spanText(Math.max(0, Math.round((now.value - row.last) / 1000) * 1000))} ago</span>
      </>
    );
  }
  if (isSilent(member)) {
    return <StateBadge state="silent" words="does not answer" />;
  }
  const ready = readyOf(member);
  // A node of an older version says nothing of it.
  return ready === undefined ? <StateBadge state="active" words="there" /> : <StateBadge state={ready ? 'ready' : 'not ready'} />;
}

function Checks({ checks }: { checks: readonly Check[] | undefined }) {
  if (!checks || checks.length === 0) {
    return <span class="muted">–</span>;
  }
  const told = checks.filter((c) => !c.ok || c.message);
  if (told.length === 0) {
    return <span class="muted">{checks.map((c) => c.name).join(', ')}: well</span>;
  }
  return (
    <ul class="checks">
      {told.map((c) => (
        <li key={c.name} class={`tone-${c.ok ? 'warn' : 'bad'}`}>
          <Icon name={c.ok ? 'warning' : 'cross'} size={13} /> <strong>{c.name}</strong> <bdi>{c.message ?? 'is not well'}</bdi>
        </li>
      ))}
    </ul>
  );
}

function Slots({ member }: { member: Member | undefined }) {
  const slots = member?.slots;
  if (!slots) {
    return <span class="muted">–</span>;
  }
  const full = slots.total > 0 && slots.used >= slots.total;
  return (
    <span class={full ? 'toned tone-warn' : undefined}>
      {number(slots.used)} of {number(slots.total)}
      {slots.waiting ? `, ${number(slots.waiting)} wait` : ''}
    </span>
  );
}

function Servers({ name, health, more }: { name: string; health: ServersHealth | undefined; more?: ComponentChildren }) {
  return (
    <Panel title={name}>
      {!health ? (
        <p class="absent">
          <Icon name="slash" /> This node does not tell how {name} stands.
        </p>
      ) : (
        <>
          <p>
            <StateBadge state={health.ok ? 'ready' : 'not ready'} words={health.ok ? 'well' : 'not well'} /> <bdi>{health.message}</bdi>
          </p>
          {(health.hosts ?? []).length > 0 ? (
            <ul class="checks">
              {(health.hosts ?? []).map((h) => (
                <li key={h.name} class={`tone-${h.up ? 'good' : 'bad'}`}>
                  <Icon name={h.up ? 'check' : 'cross'} size={13} /> <bdi>{h.name}</bdi> {h.up ? 'answers' : <bdi>{h.message ?? 'does not answer'}</bdi>}
                </li>
              ))}
            </ul>
          ) : (
            <p class="muted">It runs inside the node.</p>
          )}
          {more}
        </>
      )}
    </Panel>
  );
}

function Owners({ lanes }: { lanes: readonly Lane[] }) {
  return (
    <Table
      caption="Owners of shards"
      rows={lanes}
      rowKey={(l) => l.owner}
      columns={[
        { head: 'Owner', kind: 'main', cell: (l) => l.owner || 'none' },
        { head: 'Shards', kind: 'number', cell: (l) => number(l.shards) },
        { head: 'Behind by', kind: 'number', cell: (l) => spanText(l.behind * 1000) },
        { head: 'Which', cell: (l) => rangesOf(l.arcs) },
      ]}
    />
  );
}

/** How many cursors are drawn: those that are furthest behind. */
const drawn = 64;

function Cursors({ shards }: { shards: readonly Shard[] }) {
  const owner = queryValue('owner');
  const wanted = queryValue('shard');
  const rows = useMemo(
    () =>
      shards
        .filter((s) => (owner === '' || s.owner === owner) && (wanted === '' || String(s.shard) === wanted))
        .sort((a, b) => toneRank(b) - toneRank(a) || a.shard - b.shard),
    [shards, owner, wanted],
  );
  const columns: Column<Shard>[] = [
    { head: 'Shard', kind: 'main', cell: (s) => s.shard },
    { head: 'Owner', cell: (s) => s.owner || <span class="toned tone-bad">none</span> },
    {
      head: 'Behind by',
      kind: 'number',
      cell: (s) => {
        const tone = toneOf(s.behind_seconds);
        return <span class={tone === 'good' ? undefined : `toned tone-${tone}`}>{spanText(s.behind_seconds * 1000)}</span>;
      },
    },
    { head: 'Published until', cell: (s) => <TimeLabel at={s.dispatched} millis /> },
    { head: 'Finished until', cell: (s) => <TimeLabel at={s.settled} /> },
    { head: 'Epoch', kind: 'number', minor: true, cell: (s) => number(s.epoch) },
  ];
  return (
    <>
      <FilterBar
        filters={[
          { kind: 'text', name: 'shard', label: 'Shard', placeholder: '17', main: true },
          {
            kind: 'choice',
            name: 'owner',
            label: 'Owner',
            options: [...new Set(shards.map((s) => s.owner ?? '').filter(Boolean))].sort().map((name) => ({ value: name, text: name })),
          },
        ]}
      />
      <Table
        caption="Cursors of shards, those furthest behind first"
        columns={columns}
        rows={rows.slice(0, drawn)}
        rowKey={(s) => String(s.shard)}
        empty={<p class="muted">No shard matches.</p>}
      />
      {rows.length > drawn && (
        <p class="muted">
          {drawn} of {count(rows.length, 'shard')}, those furthest behind first.
        </p>
      )}
    </>
  );
}

function toneRank(s: Shard): number {
  return { good: 0, warn: 1, bad: 2 }[toneOf(s.behind_seconds)];
}
