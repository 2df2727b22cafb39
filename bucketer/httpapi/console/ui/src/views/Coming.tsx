// What is due in the coming hour: which minute is the busiest, and what runs in each.

import { answer, api, ask } from '../api/client';
import type { UpcomingMinutes } from '../api/coming';
import { slow, useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import { tenant } from '../api/session';
import type { Job, NextRun, Page, Run, Workflow } from '../api/types';
import { serverNow } from '../clock';
import {
  busiestOf,
  comingMinutes,
  laterTimes,
  mayRepeatInHour,
  type ComingGroup,
  type ComingMinute,
  type Occurrence,
} from '../coming';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Answered, Panel } from '../parts/Panel';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo, type Query } from '../place';
import { href, queryValue } from '../router';
import type { ViewParams } from '../routes';
import { parseSpan } from '../time';
import { minuteWindow } from '../window';
import { count, number } from '../words';

const minute = 60_000;
const hour = 60 * minute;
/** Planned runs that are looked through, in pages. */
const mostPlanned = 2000;
/** Jobs whose later times the node is asked for: those of cron expressions that name several of an hour. */
const mostAsked = 40;

export function Coming(_props: ViewParams) {
  const from = Math.floor(serverNow() / minute) * minute + minute;
  const to = from + hour;
  const planned = useLive<Page<Run>>(
    'planned runs of the coming hour',
    (signal) => {
      const query = { from: new Date(from).toISOString(), to: new Date(to).toISOString(), state: 'pending', limit: 500 };
      return gather((cursor) => ask<PageLike<Run>>('/v1/runs', { query: { ...query, cursor }, signal }), '', mostPlanned, 8);
    },
    { every: slow },
  );
  const repeats = useLive(`repeats of the coming hour ${Math.floor(from / (5 * minute))}`, (signal) => repeatsOf(to, signal), { every: 0 });
  const estimates = useLive<UpcomingMinutes>(
    'coming hour',
    (signal) => answer(api.GET('/v1/stats/upcoming', { params: { query: { minutes: 60 } }, signal })),
    { every: slow },
  );
  return (
    <View
      title="The coming hour"
      above={[['Overview', '/']]}
      about={
        <>
          Runs of the tenant {tenant.value} that are due in the next 60 minutes. Runs that are due already and wait, for a rate,
          a limit or another try, are not among them: <a href={href('/runs', { last: '1h', state: 'pending' })}>see those</a>.
        </>
      }
      actions={<CopyCurl path="/v1/stats/upcoming?minutes=60" />}
    >
      <Answered live={planned} what="what is planned">
        {(page) => {
          const last = page.items.at(-1);
          const minutes = comingMinutes({
            planned: page.items,
            reached: page.next_cursor && last ? Date.parse(last.due_at) : page.next_cursor ? from : to,
            occurrences: repeats.data?.occurrences ?? [],
            estimates: new Map((estimates.data?.items ?? []).map((m) => [Date.parse(m.minute), m.runs ?? 0])),
            from,
            to,
          });
          const busiest = busiestOf(minutes);
          const asked = Date.parse(queryValue('minute'));
          const shown = minutes.find((m) => m.at === asked) ?? busiest;
          return (
            <>
              <Panel title="The busiest minute" live={planned} every={slow}>
                {busiest ? (
                  <p role="status">
                    In the minute from <TimeLabel at={busiest.at} short relative />{' '}
                    <strong>
                      {busiest.atLeast ? 'about ' : ''}
                      {count(busiest.runs, 'run')}
                    </strong>{' '}
                    {busiest.runs === 1 ? 'is' : 'are'} due: {compositionWords(busiest)}.
                  </p>
                ) : (
                  <Empty title="Nothing is due in the coming hour" />
                )}
                {!repeats.data && <p class="muted">Later times of recurring jobs are still being asked for.</p>}
                {repeats.data?.more && (
                  <p class="muted">There are more recurring jobs than are looked through: of the others the next run alone is counted.</p>
                )}
              </Panel>
              {shown && <OneMinute of={shown} busiest={shown === busiest} />}
              {minutes.length > 0 && <Minutes minutes={minutes} shown={shown} />}
            </>
          );
        }}
      </Answered>
    </View>
  );
}

function compositionWords(m: ComingMinute): string {
  const told = m.groups.slice(0, 4).map((g) => `${number(g.runs)} of ${groupWords(g)}`);
  const more = m.groups.length - told.length;
  const kinds = [m.recurring > 0 && `${number(m.recurring)} recurring`, m.oneOff > 0 && `${number(m.oneOff)} one-off`].filter(Boolean).join(' and ');
  return `${kinds || 'nothing of it was looked through'}${told.length > 0 ? `; ${told.join(', ')}${more > 0 ? ` and ${number(more)} more` : ''}` : ''}`;
}

function groupWords(g: ComingGroup): string {
  switch (g.kind) {
    case 'job':
      return `the job ${g.name}`;
    case 'workflow':
      return `the workflow ${g.name}`;
    case 'task':
      return `the task ${g.name}`;
    case 'one-off':
      return 'one-off jobs without a task';
  }
}

const paths = { job: '/jobs/:id', workflow: '/workflows/:id', task: '/tasks/:id' } as const;

function OneMinute({ of: m, busiest }: { of: ComingMinute; busiest: boolean }) {
  const planned: Query = { ...minuteWindow(m.at), state: 'pending', order: 'due' };
  const columns: Column<ComingGroup>[] = [
    { head: 'What runs', kind: 'main', cell: (g) => <bdi>{g.name || groupWords(g)}</bdi> },
    {
      head: 'Kind',
      cell: (g) => (g.recurring ? `recurring ${g.kind}` : g.kind === 'task' ? 'one-off jobs of the task' : 'one-off'),
    },
    {
      head: 'Runs',
      kind: 'number',
      // Of what recurs, later runs are not planned yet: there is no list of them.
      cell: (g) => (g.kind === 'task' ? <a href={href('/runs', { ...planned, task: g.name })}>{number(g.runs)}</a> : number(g.runs)),
    },
    { head: 'The first is due', cell: (g) => <TimeLabel at={g.first} millis={g.first % 1000 !== 0} /> },
  ];
  return (
    <Panel
      title={`${busiest ? 'What runs in the busiest minute' : 'What runs in the minute'}: ${m.atLeast ? 'about ' : ''}${count(m.runs, 'run')}`}
      about={
        <>
          The minute from <TimeLabel at={m.at} short relative />. <a href={href('/runs', planned)}>Those that are planned already</a>
          ; of a recurring job that is its next run, later ones are planned when that has started.
        </>
      }
    >
      <Table
        caption="What runs in the minute"
        columns={columns}
        rows={m.groups}
        rowKey={(g) => `${g.kind} ${g.recurring} ${g.name}`}
        rowHref={(g) => (g.kind === 'one-off' ? href('/runs', planned) : href(pathTo(paths[g.kind], { id: g.name })))}
        empty={<p class="muted">So much is due before it that it was not looked through. The number is an estimate.</p>}
      />
    </Panel>
  );
}

function Minutes({ minutes, shown }: { minutes: readonly ComingMinute[]; shown: ComingMinute | undefined }) {
  const most = Math.max(...minutes.map((m) => m.runs));
  const columns: Column<ComingMinute>[] = [
    {
      head: 'Minute',
      kind: 'main',
      cell: (m) => (
        <>
          <TimeLabel at={m.at} short relative />
          {m === shown && <span class="hidden"> (shown above)</span>}
        </>
      ),
    },
    { head: 'Runs', kind: 'number', cell: (m) => `${m.atLeast ? '≈ ' : ''}${number(m.runs)}` },
    { head: 'Recurring', kind: 'number', cell: (m) => number(m.recurring) },
    { head: 'One-off', kind: 'number', cell: (m) => number(m.oneOff) },
    {
      head: 'Beside the busiest',
      minor: true,
      cell: (m) => (
        <svg class="meter tone-still" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
          <rect width={(m.runs / most) * 100} height="8" />
        </svg>
      ),
    },
    {
      head: 'Of what',
      cell: (m) => {
        const told = m.groups.slice(0, 3).map((g) => `${number(g.runs)} ${g.name || 'one-off'}`);
        return (
          <bdi class="said">
            {told.join(', ')}
            {m.groups.length > 3 && ` and ${number(m.groups.length - 3)} more`}
          </bdi>
        );
      },
    },
  ];
  return (
    <Panel title="Minute by minute" about="Minutes in which something is due. Choose one to see what runs in it.">
      <Table
        caption="Runs of the coming hour by minute"
        columns={columns}
        rows={minutes}
        rowKey={(m) => String(m.at)}
        rowHref={(m) => href('/coming', { minute: new Date(m.at).toISOString() })}
      />
    </Panel>
  );
}

/** The times up to an instant at which recurring jobs and workflows are due. */
async function repeatsOf(to: number, signal: AbortSignal): Promise<{ occurrences: Occurrence[]; more: boolean }> {
  const all = <T,>(path: string): Promise<Page<T>> =>
    gather((cursor) => ask<PageLike<T>>(path, { query: { state: 'active', limit: 500, cursor }, signal }), '', 2500, 6);
  const [jobs, workflows] = await Promise.all([all<Job>('/v1/jobs'), all<Workflow>('/v1/workflows')]);
  const occurrences: Occurrence[] = [];
  const asked: { path: string; of: Omit<Occurrence, 'dueAt'> }[] = [];
  const look = (it: Job | Workflow, workflow: boolean): void => {
    const next = it.next_run?.due_at;
    if (next === undefined || Date.parse(next) >= to) {
      return;
    }
    const of = { job: it.id, name: it.name || it.id, workflow };
    occurrences.push({ ...of, dueAt: next });
    const every = parseSpan(it.schedule?.every ?? '');
    if (every !== undefined) {
      const end = Math.min(to, it.end ? Date.parse(it.end) : to);
      occurrences.push(...laterTimes(next, every, end).map((dueAt) => ({ ...of, dueAt })));
    } else if (it.schedule?.cron && mayRepeatInHour(it.schedule.cron)) {
      asked.push({ path: workflow ? pathTo('/v1/workflows/:name/upcoming', { name: of.name }) : `/v1/jobs/${it.id}/upcoming`, of });
    }
  };
  for (const job of jobs.items) {
    look(job, false);
  }
  for (const workflow of workflows.items) {
    look(workflow, true);
  }
  const rest = asked.slice(0, mostAsked);
  const work = async (): Promise<void> => {
    for (let q = rest.shift(); q !== undefined; q = rest.shift()) {
      const { of } = q;
      const page = await ask<PageLike<NextRun>>(q.path, { query: { count: 100 }, signal });
      occurrences.push(...(page.items ?? []).map((n) => ({ ...of, dueAt: n.due_at })));
    }
  };
  await Promise.all(Array.from({ length: 4 }, work));
  return {
    occurrences,
    more: asked.length > mostAsked || jobs.next_cursor !== undefined || workflows.next_cursor !== undefined,
  };
}
