// Tasks: what runs, under a name; and the targets that they call, with their circuit breakers.

import { useMemo } from 'preact/hooks';
import { useAction } from '../api/action';
import { useAll } from '../api/all';
import { answer, api } from '../api/client';
import { steady, useLive } from '../api/live';
import { may } from '../api/session';
import type { Target, Task } from '../api/types';
import { confirm } from '../parts/Confirm';
import { CopyCurl, curlOf } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Note } from '../parts/Note';
import { Answered, Panel } from '../parts/Panel';
import { SearchedList } from '../parts/SearchedList';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { href, queryValue } from '../router';
import type { ViewParams } from '../routes';
import { hostOf, targetWords } from '../target';
import { durationText } from '../time';
import { number } from '../words';

export function Tasks(_props: ViewParams) {
  return (
    <View
      title="Tasks"
      about="A task says what runs: a call, its time-out, its retries, and how much of it may run. Jobs name it."
      actions={
        <>
          {may('operator') && (
            <a class="button primary" href={href('/tasks/new')}>
              <Icon name="plus" /> New task
            </a>
          )}
          <CopyCurl path="/v1/tasks" />
        </>
      }
    >
      <Tabs
        label="Tasks and targets"
        tabs={[
          { id: 'tasks', title: 'Tasks', content: () => <List /> },
          { id: 'targets', title: 'Targets', content: () => <Targets /> },
        ]}
      />
    </View>
  );
}

function List() {
  const live = useAll<Task>('all tasks', (query, signal) => answer(api.GET('/v1/tasks', { params: { query }, signal })));
  return (
    <SearchedList
      live={live}
      title="All tasks"
      what="the list of tasks"
      one="task"
      find={{
        label: 'Name, target or description',
        placeholder: 'email',
        textOf: (t) => `${t.name} ${targetWords(t)} ${t.description ?? ''}`,
      }}
      caption="Tasks"
      columns={columns}
      keyOf={(t) => t.name}
      hrefOf={(t) => href(pathTo('/tasks/:name', { name: t.name }))}
      empty={<Nothing />}
    />
  );
}

const columns: Column<Task>[] = [
  { head: 'Task', kind: 'main', cell: (t) => t.name },
  {
    head: 'Does',
    cell: (t) =>
      t.fault ? <span class="toned tone-bad">It is not understood: {t.fault}</span> : <bdi class="said">{targetWords(t)}</bdi>,
  },
  { head: 'Time-out', kind: 'number', cell: (t) => durationText(t.timeout) },
  { head: 'Attempts', kind: 'number', cell: (t) => t.retry?.max_attempts ?? '' },
  { head: 'Rate', kind: 'number', cell: (t) => t.rate ?? <span class="muted">–</span> },
  { head: 'At once', kind: 'number', cell: (t) => (t.max_concurrent ? number(t.max_concurrent) : <span class="muted">–</span>) },
  { head: 'What it is for', minor: true, cell: (t) => t.description && <bdi class="said">{t.description}</bdi> },
];

function Nothing() {
  return (
    <Empty
      title="There are no tasks yet"
      commands={[
        'carillon task set send-email --url https://example.com/email --rate 100/s',
        curlOf('PUT', '/v1/tasks/send-email', { http: { url: 'https://example.com/email' }, rate: '100/s' }),
      ]}
    >
      <p>
        A job may say itself what runs; a task says it once for many.{' '}
        {may('operator') && <a href={href('/tasks/new')}>Create one here.</a>}
      </p>
    </Empty>
  );
}

const breakerWords: Record<string, string> = { closed: 'calls pass', open: 'left alone', half_open: 'being tried' };
const breakerLooks: Record<string, string> = { closed: 'ready', open: 'failed', half_open: 'retrying', unknown: 'silent' };

function Targets() {
  const state = queryValue('state');
  const live = useLive(
    `targets ${state}`,
    (signal) =>
      answer(
        api.GET('/v1/targets', {
          params: { query: { limit: 500, ...(state === '' ? {} : { state: state as 'open' }) } },
          signal,
        }),
      ),
    { every: steady },
  );
  const action = useAction({ loud: true });
  const reset = async (t: Target): Promise<void> => {
    const yes = await confirm({
      title: `Call ${t.target} again?`,
      children: (
        <p>
          Its circuit breaker is closed on every executor: calls pass at once, and if the target fails on it opens again.
          Runs that were put off start at the time to which they were.
        </p>
      ),
      action: 'Close the breaker',
    });
    if (yes) {
      await action.run(() => answer(api.POST('/v1/targets/reset', { body: { target: t.target } })), 'Calls pass again.');
    }
  };
  const rows = useMemo(
    () => [...(live.data?.items ?? [])].sort((a, b) => Number(a.state === 'closed') - Number(b.state === 'closed')),
    [live.data],
  );
  const targetColumns: Column<Target>[] = [
    { head: 'Target', kind: 'main', cell: (t) => <bdi>{t.target}</bdi> },
    { head: 'Runs', cell: (t) => <RunsOf target={t.target} /> },
    { head: 'Breaker', cell: (t) => <StateBadge state={breakerLooks[t.state] ?? t.state} words={breakerWords[t.state] ?? t.state} /> },
    { head: 'Since', cell: (t) => <TimeLabel at={t.since} relative /> },
    { head: 'Next try', cell: (t) => <TimeLabel at={t.next_probe_at} relative /> },
    { head: 'Failures', kind: 'number', cell: (t) => number(t.failures) },
    { head: 'Put off', kind: 'number', cell: (t) => number(t.deferrals) },
    { head: 'Running', kind: 'number', cell: (t) => number(t.running) },
    {
      head: 'Last failure',
      cell: (t) =>
        t.last_error ? (
          <>
            <TimeLabel at={t.last_failed_at} relative /> <bdi class="said" title={t.last_error}>{t.last_error}</bdi>
          </>
        ) : (
          '–'
        ),
    },
    { head: 'Known by', minor: true, cell: (t) => (t.nodes ?? []).map((n) => n.node).join(', ') },
    {
      head: 'What can be done',
      kind: 'actions',
      quietHead: true,
      cell: (t) =>
        t.state !== 'closed' && may('operator') ? (
          <button type="button" class="button small" disabled={action.busy} onClick={() => void reset(t)}>
            Close the breaker
          </button>
        ) : null,
    },
  ];
  return (
    <Panel
      title="Targets that were called lately"
      live={live}
      every={steady}
      about="A target of which nine of ten calls fail is left alone for a while, and runs for it are put off. Each executor has a breaker of its own; shown is the worst."
    >
      <FilterBar
        filters={[
          {
            kind: 'choice',
            name: 'state',
            label: 'Breaker',
            options: Object.entries(breakerWords).map(([value, text]) => ({ value, text })),
          },
        ]}
      />
      <Answered live={live} what="targets">
        {(list) => (
          <>
            {(list.missing_nodes ?? []).length > 0 && (
              <Note tone="warn">
                {(list.missing_nodes ?? []).join(', ')} did not answer within a second: what they know is not here.
              </Note>
            )}
            <Table
              caption="Targets"
              columns={targetColumns}
              rows={rows}
              rowKey={(t) => t.target}
              empty={
                <Empty title={state === '' ? 'Nothing was called lately' : 'No target stands so'}>
                  <p>Executors know the targets that they have called since they started.</p>
                </Empty>
              }
            />
            {list.next_cursor && <p class="muted">The first {number(rows.length)} by name are shown.</p>}
          </>
        )}
      </Answered>
    </Panel>
  );
}

/** The runs that call a target, where it is a host: lists of runs know hosts alone. */
function RunsOf({ target }: { target: string }) {
  const host = hostOf(target);
  return host === undefined ? (
    <span class="muted">–</span>
  ) : (
    <>
      <a href={href('/runs', { host, last: '1h' })}>all</a>,{' '}
      <a href={href('/runs', { host, last: '1h', state: ['failed', 'retrying'] })}>those that fail</a>
    </>
  );
}
