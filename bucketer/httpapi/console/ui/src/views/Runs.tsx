// Runs of a stretch of time: those that match the filters, of which one may be opened, and with all of
// which something may be done.

import { useMemo, useRef } from 'preact/hooks';
import { answer, api, ask, newKey } from '../api/client';
import { steady } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import type { Run } from '../api/types';
import { serverNow } from '../clock';
import { Bulk, type BulkAction, type OperationFilter } from '../parts/Bulk';
import { CopyCurl, curlOf } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { Table, useSelection, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { WindowPicker } from '../parts/WindowPicker';
import { href, queryValue, queryValues, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { hasEnded, lastAttempt, nameOf, runStates, tookMs, whyItWaits } from '../runs';
import { spanText } from '../time';
import { windowOf, type Window } from '../window';

/** How many runs a page has. */
const pageSize = 50;

const lateChoices = [
  { value: '100ms', text: 'than 100 ms' },
  { value: '1s', text: 'than 1 s' },
  { value: '10s', text: 'than 10 s' },
  { value: '1m', text: 'than 1 min' },
];

/** What is asked for, as the address has it. */
function question(): Record<string, string | readonly string[]> {
  return {
    state: queryValues('state'),
    job: queryValue('job'),
    task: queryValue('task'),
    label: queryValues('label'),
    late: queryValue('late'),
    key: queryValue('key'),
  };
}

/**
 * Runs that are asked for otherwise than by their due times: those of an event, of the steps of a
 * workflow run, or the one of an idempotency key.
 */
function sourceOf(asked: ReturnType<typeof question>, windowStated: boolean): Record<string, string> | undefined {
  const [event, workflowRun, step] = [queryValue('event'), queryValue('workflow_run'), queryValue('step')];
  if (event !== '') {
    return { event };
  }
  if (workflowRun !== '') {
    return { workflow_run: workflowRun, ...(step === '' ? {} : { step }) };
  }
  const others = Object.entries(asked).some(([name, value]) => name !== 'key' && value.length > 0);
  return asked.key !== '' && !others && !windowStated ? { key: asked.key as string } : undefined;
}

const sourceWords: Record<string, string> = {
  event: 'Runs that the event started',
  workflow_run: 'Runs of the steps of a workflow run',
  key: 'The run of that idempotency key, whenever it is due',
};

export function Runs(_props: ViewParams) {
  const selection = useSelection();
  const asked = question();
  const ends = { from: queryValue('from'), to: queryValue('to'), last: queryValue('last') };
  // The window of the page that is shown: a window that moves is held still by going to its next page.
  const shownWindow = useRef<Window>(windowOf(ends, serverNow()));
  const held = selection.keys.size > 0;
  const source = sourceOf(asked, Object.values(ends).some((end) => end !== ''));
  const [sourceName = ''] = Object.keys(source ?? {});

  const list = usePages<Run>(
    `runs ${JSON.stringify([asked, ends, source])}`,
    (cursor, signal) => {
      const window = windowOf(ends, serverNow());
      shownWindow.current = window;
      const query: Record<string, string | number | readonly string[]> =
        source
          ? { ...(sourceName === 'workflow_run' ? { state: asked.state ?? [] } : {}), ...source, limit: pageSize }
          : { ...asked, from: window.from.toISOString(), to: window.to.toISOString(), limit: pageSize };
      return gather((at) => ask<PageLike<Run>>('/v1/runs', { query: { ...query, cursor: at }, signal }), cursor, pageSize / 2);
    },
    { every: steady, hold: held },
  );
  const columns = useMemo(() => columnsOf(), []);
  const lateFilter = queryValue('late');
  const lateOptions =
    lateFilter !== '' && !lateChoices.some((c) => c.value === lateFilter)
      ? [...lateChoices, { value: lateFilter, text: `than ${lateFilter}` }]
      : lateChoices;

  return (
    <View
      title="Runs"
      about="Each row is one occurrence of a job. In the order of their due times; those of one job, the latest first."
      actions={<CopyCurl path={`/v1/runs?${curlQuery(asked, shownWindow.current, source)}`} />}
    >
      <FilterBar
        clears={['from', 'to', 'last', 'event', 'workflow_run', 'step']}
        filters={[
          { kind: 'text', name: 'job', label: 'Job, by name or id', main: true, placeholder: 'nightly-report' },
          { kind: 'text', name: 'task', label: 'Task', placeholder: 'send-email' },
          { kind: 'text', name: 'label', label: 'Label', placeholder: 'team=billing' },
          { kind: 'text', name: 'key', label: 'Idempotency key' },
          { kind: 'choice', name: 'late', label: 'Later', any: 'or on time', options: lateOptions },
          { kind: 'states', name: 'state', label: 'State', states: runStates },
        ]}
      >
        {(!source || sourceName === 'key') && <WindowPicker />}
      </FilterBar>
      <Panel
        title={sourceWords[sourceName] ?? 'What matches'}
        live={list}
        every={steady}
        actions={
          <button type="button" class="button small" onClick={list.refresh}>
            <Icon name="again" size={14} /> Ask anew
          </button>
        }
      >
        {!source && (
          <Bulk selection={selection} one="run" actions={bulkActions(asked, shownWindow)} />
        )}
        <Answered live={list} what="lists of runs">
          {(page) => (
            <>
              <Table
                caption="Runs that match"
                columns={columns}
                rows={page.items}
                rowKey={(run) => run.id}
                rowName={(run) => `run ${run.id} of ${nameOf(run)}`}
                rowHref={(run) => href(run.workflow ? `/workflow-runs/${run.id}` : `/runs/${run.id}`)}
                selection={source ? undefined : selection}
                empty={<Nothing more={list.more} asked={asked} />}
              />
              <Pager
                one="run"
                list={{
                  ...list,
                  toNext: () => {
                    const { from, to } = shownWindow.current;
                    setQuery(
                      source
                        ? { cursor: page.next_cursor }
                        : { from: from.toISOString(), to: to.toISOString(), last: '', cursor: page.next_cursor },
                      { replace: false },
                    );
                  },
                }}
              />
            </>
          )}
        </Answered>
      </Panel>
    </View>
  );
}

function curlQuery(asked: ReturnType<typeof question>, window: Window, source: Record<string, string> | undefined): string {
  const params = new URLSearchParams(source);
  if (source) {
    return params.toString();
  }
  params.set('from', window.from.toISOString());
  params.set('to', window.to.toISOString());
  for (const [name, value] of Object.entries(asked)) {
    for (const one of Array.isArray(value) ? value : [value as string]) {
      if (one !== '') {
        params.append(name, one);
      }
    }
  }
  return params.toString();
}

function columnsOf(): Column<Run>[] {
  return [
    { head: 'Run of', kind: 'main', cell: (run) => <bdi>{nameOf(run)}</bdi> },
    { head: 'State', cell: (run) => <StateBadge state={run.state} /> },
    { head: 'Due', cell: (run) => <TimeLabel at={run.due_at} millis={!run.due_at.endsWith('.000Z')} /> },
    { head: 'Late by', kind: 'number', cell: (run) => <Late run={run} /> },
    { head: 'Took', kind: 'number', cell: (run) => <Took run={run} /> },
    { head: 'Attempts', kind: 'number', cell: (run) => run.attempts?.length || <span class="muted">0</span> },
    { head: 'Task', minor: true, cell: (run) => run.task ?? <span class="muted">–</span> },
    { head: 'What is known', minor: true, cell: (run) => <Said run={run} /> },
  ];
}

function Late({ run }: { run: Run }) {
  if (run.lateness_ms !== undefined) {
    return <span class={run.lateness_ms > 1000 ? 'toned tone-bad' : undefined}>{spanText(run.lateness_ms)}</span>;
  }
  const due = Date.parse(run.due_at);
  if (run.state === 'pending' && serverNow() - due > 1000) {
    return <span class="toned tone-warn">{spanText(serverNow() - due)} so far</span>;
  }
  return <span class="muted">–</span>;
}

function Took({ run }: { run: Run }) {
  const ms = tookMs(run, serverNow());
  if (ms === undefined) {
    return <span class="muted">–</span>;
  }
  return hasEnded(run) ? <>{spanText(ms)}</> : <span class="muted">{spanText(ms)} so far</span>;
}

/** What a row says besides: why it waits, why it failed. */
function Said({ run }: { run: Run }) {
  const text =
    run.fault ??
    run.missed?.reason ??
    run.cancel_reason ??
    (run.state === 'failed' || run.state === 'retrying' ? lastAttempt(run)?.error : undefined) ??
    run.reason ??
    (run.state === 'pending' || run.state === 'waiting' || run.state === 'stuck' ? whyItWaits(run, serverNow())?.text : undefined);
  return text ? (
    <span class="said" title={text}>
      <bdi>{text}</bdi>
    </span>
  ) : (
    <span class="muted">{run.trigger}</span>
  );
}

function Nothing({ more, asked }: { more: boolean; asked: ReturnType<typeof question> }) {
  const filtered = Object.values(asked).some((value) => value.length > 0);
  if (more) {
    return (
      <Empty title="Nothing matches in the part that was searched">
        <p>The window is long and matches are rare. Search on with “Next page”, or take a shorter window.</p>
      </Empty>
    );
  }
  if (filtered) {
    return (
      <Empty title="No run matches">
        <p>
          Take a longer window or fewer filters. Payloads are not searched: give jobs labels or idempotency keys to find
          their runs by. A job that was <a href={href('/jobs', { state: 'paused' })}>paused</a> has none.
        </p>
      </Empty>
    );
  }
  return (
    <Empty
      title="Nothing is due in this window"
      commands={[
        'carillon job create --url https://example.com/hook --in 5s',
        curlOf('POST', '/v1/jobs', { http: { url: 'https://example.com/hook' } }),
      ]}
    >
      <p>Take another window, or create a job that runs now.</p>
    </Empty>
  );
}

const open = ['pending', 'running', 'retrying'];
const ended = ['failed', 'missed', 'cancelled', 'succeeded'];

function bulkActions(asked: ReturnType<typeof question>, shown: { current: Window }): BulkAction[] {
  const filterFor = (states: readonly string[]): OperationFilter | string => {
    const stated = (['job', 'label', 'late', 'key'] as const).filter((name) => (asked[name]?.length ?? 0) > 0);
    if (stated.length > 0) {
      return `The server selects runs by time, state and task. Remove the filter${stated.length > 1 ? 's' : ''} ${stated.join(', ')}, or select rows.`;
    }
    const state = asked.state as readonly string[];
    if (state.length > 1 || (state[0] !== undefined && !states.includes(state[0]))) {
      return `Choose one state of ${states.join(', ')}, or none.`;
    }
    return {
      from: shown.current.from.toISOString(),
      to: shown.current.to.toISOString(),
      ...(state[0] === undefined ? {} : { state: state[0] }),
      ...(asked.task === '' ? {} : { task: asked.task as string }),
    };
  };
  return [
    {
      action: 'cancel',
      name: 'Cancel',
      done: 'cancelled',
      danger: true,
      about: 'A run that is cancelled does not start; one that is under way is told to stop. That cannot be taken back.',
      each: (id) => answer(api.POST('/v1/runs/{id}/cancel', { params: { path: { id } } })),
      all: () => filterFor(open),
    },
    {
      action: 'retry',
      name: 'Run again',
      done: 'asked to run again',
      about: 'Each is run again now, as a new run with the same payload. Without a state those that failed are taken.',
      each: (id) => answer(api.POST('/v1/runs/{id}/retry', { params: { path: { id }, header: { 'Idempotency-Key': newKey() } } })),
      all: () => filterFor(ended),
    },
  ];
}

