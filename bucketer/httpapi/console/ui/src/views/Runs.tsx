// Runs of a stretch of time: those that match the filters, of which one may be opened, and with all of
// which something may be done.

import { useMemo, useRef } from 'preact/hooks';
import { answer, api, ask, newKey } from '../api/client';
import { steady } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import type { Page, Run } from '../api/types';
import { serverNow } from '../clock';
import { latestOf } from '../latest';
import { selectRuns, type RunsAsked } from '../operations';
import { Bulk, type BulkAction, type OperationFilter } from '../parts/Bulk';
import { CopyCurl, curlOf } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { FilterBar } from '../parts/FilterBar';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { LateBy, Said, Took } from '../parts/RunCells';
import { StateBadge } from '../parts/StateBadge';
import { Table, useSelection, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { WindowPicker } from '../parts/WindowPicker';
import { href, queryValue, queryValues, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { failedAttempts, nameOf, runStates } from '../runs';
import { durationText } from '../time';
import { windowOf, type Window } from '../window';
import { count } from '../words';

/** Where a number led here that was counted otherwise than a list of runs can be asked for. */
const countedOtherwise: Record<string, string> = {
  attempts:
    'The number that led here counts failed attempts by when they ended. This list has runs by when they were due: a run of which three attempts failed is one row, and one that succeeded at a later attempt is not here.',
  late: 'The number that led here counts runs by when they started. This list has runs by when they were due, and those that should have started and have not.',
  missed: 'The number that led here counts runs by when they were given up. This list has runs by when they were due, which was before; one row may stand for several times.',
  waiting: 'The number that led here is of all tenants, as each node knows it. This list has the runs of this tenant that have not started, or are tried again; each says what it waits for.',
};

function shownWords(runs: readonly Run[], of: string): string {
  const failed = runs.reduce((n, run) => n + failedAttempts(run), 0);
  return of === 'attempts' && runs.length > 0 ? `${count(runs.length, 'run')} with ${count(failed, 'failed attempt')} are shown.` : '';
}

/** How many runs a page has. */
const pageSize = 50;

const lateChoices = [
  { value: '100ms', text: '100 ms' },
  { value: '1s', text: '1 s' },
  { value: '10s', text: '10 s' },
  { value: '1m', text: '1 min' },
];

/** What is asked for, as the address has it. */
function question(): RunsAsked & Record<string, string | readonly string[]> {
  return {
    state: queryValues('state'),
    job: queryValue('job'),
    task: queryValue('task'),
    host: queryValue('host'),
    label: queryValues('label'),
    late: queryValue('late'),
    key: queryValue('key'),
    error: queryValue('error'),
    one_off: queryValue('one_off'),
    created_by: queryValue('created_by'),
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
  return asked.key !== '' && !others && !windowStated ? { key: asked.key } : undefined;
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
  const guess = useRef(15_000);
  const held = selection.keys.size > 0;
  const source = sourceOf(
    asked,
    Object.values(ends).some((end) => end !== ''),
  );
  const [sourceName = ''] = Object.keys(source ?? {});
  // The runs of one job come the latest first anyway; what is to come, the next first.
  const mayOrder = !source && asked.job === '';
  const order = queryValue('order');
  // A search goes back as far as runs are kept, whatever the window.
  const searching = !source && order === searchBack;
  const latestFirst = !searching && mayOrder && (order === 'latest' || (order === '' && usuallyLatest(ends)));

  const list = usePages<Run, RunPage>(
    `runs ${JSON.stringify([asked, ends, source, latestFirst, searching])}`,
    (cursor, signal) => {
      if (searching) {
        return searchPage(asked, cursor, signal);
      }
      const window = windowOf(ends, serverNow());
      shownWindow.current = window;
      if (latestFirst) {
        return latestPage(asked, window, guess, signal);
      }
      const query: Record<string, string | number | readonly string[]> = source
        ? { ...(sourceName === 'workflow_run' ? { state: asked.state } : {}), ...source, limit: pageSize }
        : { ...asked, from: window.from.toISOString(), to: window.to.toISOString(), limit: pageSize };
      return gather(
        (at) => ask<PageLike<Run>>('/v1/runs', { query: { ...query, cursor: at }, signal }),
        cursor,
        pageSize / 2,
      );
    },
    { every: searching ? 0 : steady, hold: held },
  );
  const columns = useMemo(() => columnsOf(), []);
  const lateFilter = queryValue('late');
  const lateOptions =
    lateFilter !== '' && !lateChoices.some((c) => c.value === lateFilter)
      ? [...lateChoices, { value: lateFilter, text: durationText(lateFilter) }]
      : lateChoices;

  return (
    <View
      title="Runs"
      about="Each row is one occurrence of a job, or of a step of a workflow."
      actions={<CopyCurl path={`/v1/runs?${searching ? backQuery(asked) : curlQuery(asked, shownWindow.current, source)}`} />}
    >
      <FilterBar
        clears={['from', 'to', 'last', 'order', 'event', 'workflow_run', 'step', 'of']}
        filters={[
          { kind: 'text', name: 'job', label: 'Job, by name or id', main: true, placeholder: 'nightly-report' },
          { kind: 'text', name: 'task', label: 'Task', placeholder: 'send-email' },
          { kind: 'text', name: 'host', label: 'Host it calls', placeholder: 'api.example.com' },
          { kind: 'text', name: 'label', label: 'Label', placeholder: 'team=billing' },
          { kind: 'text', name: 'key', label: 'Idempotency key' },
          { kind: 'text', name: 'error', label: 'Text of the last error', placeholder: 'connection refused' },
          { kind: 'text', name: 'created_by', label: 'Made by', placeholder: 'ci' },
          { kind: 'choice', name: 'one_off', label: 'Jobs', any: 'all jobs', options: [{ value: 'true', text: 'one-off jobs' }] },
          { kind: 'choice', name: 'late', label: 'Late by more than', any: 'late or not', options: lateOptions },
          { kind: 'states', name: 'state', label: 'State', states: runStates },
        ]}
      >
        {!searching && (!source || sourceName === 'key') && <WindowPicker />}
        {!source && <OrderSwitch chosen={searching ? searchBack : mayOrder ? (latestFirst ? 'latest' : 'due') : ''} mayOrder={mayOrder} />}
      </FilterBar>
      <Panel title={sourceWords[sourceName] ?? 'What matches'} live={list} every={searching ? 0 : steady}>
        {countedOtherwise[queryValue('of')] !== undefined && (
          <p class="note">
            <span>
              {countedOtherwise[queryValue('of')]} {shownWords(list.items, queryValue('of'))}
            </span>
          </p>
        )}
        {searching && list.data && <SearchedBack page={list.data} />}
        {!source && !searching && (
          <Bulk
            selection={selection}
            question={JSON.stringify([asked, ends])}
            one="run"
            actions={bulkActions(asked, shownWindow)}
          />
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
                selection={source || searching ? undefined : selection}
                dim={list.dim}
                empty={<Nothing more={list.more || page.reached !== undefined} asked={asked} />}
              />
              {page.reached === undefined ? (
                <Pager
                  one="run"
                  list={{
                    ...list,
                    toNext: () => {
                      if (list.dim) {
                        return;
                      }
                      const { from, to } = shownWindow.current;
                      setQuery(
                        source || searching
                          ? { cursor: page.next_cursor }
                          : { from: from.toISOString(), to: to.toISOString(), last: '', cursor: page.next_cursor },
                        { replace: false },
                      );
                    },
                  }}
                />
              ) : (
                <Older page={page} window={shownWindow.current} />
              )}
            </>
          )}
        </Answered>
      </Panel>
    </View>
  );
}

interface RunPage extends Page<Run> {
  /** Of a list with the latest first that is not whole: from when on it has all. */
  reached?: number;
  /** Of a search: back to when it has looked. */
  searched?: { by: string; until?: string | undefined } | undefined;
}

/** The order in which a list is a search, from the newest run back. */
const searchBack = 'newest';

/** How many days back a search goes: as far as the API takes. */
const searchDays = 365;

/** What a search asks for. It begins at a midnight, so that the pages of one day are of one question. */
function backOf(asked: ReturnType<typeof question>): Record<string, string | readonly string[]> {
  const midnight = new Date(serverNow()).setUTCHours(0, 0, 0, 0);
  const from = asked.job === '' ? new Date(midnight - searchDays * 86_400_000).toISOString() : '';
  return { ...asked, from, order: searchBack };
}

function backQuery(asked: ReturnType<typeof question>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(backOf(asked))) {
    for (const one of Array.isArray(value) ? value : [value as string]) {
      if (one !== '') {
        params.append(name, one);
      }
    }
  }
  return params.toString();
}

async function searchPage(asked: ReturnType<typeof question>, cursor: string, signal: AbortSignal): Promise<RunPage> {
  let searched: RunPage['searched'];
  const end = performance.now() + patience;
  const page = await gather(
    async (at) => {
      const one = await ask<PageLike<Run> & Pick<RunPage, 'searched'>>('/v1/runs', {
        query: { ...backOf(asked), limit: pageSize, cursor: at },
        signal,
      });
      searched = one.searched;
      return one;
    },
    cursor,
    pageSize / 2,
    () => performance.now() < end,
  );
  return { ...page, searched };
}

/** Says how far a search has come. */
function SearchedBack({ page }: { page: RunPage }) {
  return (
    <p class="note">
      <span>
        {page.searched?.by === 'job' || page.searched?.until === undefined ? (
          'The runs of the job, the latest due first.'
        ) : (
          <>
            Searched back to <TimeLabel at={page.searched.until} />
            {page.searched.by === 'dead_letters' ? ', by dead letters.' : '. Runs have no index of these filters: minutes are read one after the other.'}
          </>
        )}
      </span>
    </p>
  );
}

function usuallyLatest(ends: { from: string; to: string; last: string }): boolean {
  return (ends.from === '' || ends.to === '') && !ends.last.startsWith('-');
}

/** How long the search for the latest may take, in ms. */
const patience = 4000;

async function latestPage(
  asked: ReturnType<typeof question>,
  window: Window,
  guess: { current: number },
  signal: AbortSignal,
): Promise<RunPage> {
  const end = performance.now() + patience;
  const found = await latestOf<Run>(
    ({ from, to, cursor }) =>
      ask<PageLike<Run>>('/v1/runs', {
        query: { ...asked, from: new Date(from).toISOString(), to: new Date(to).toISOString(), limit: 500, cursor },
        signal,
      }),
    { from: window.from.getTime(), to: window.to.getTime() },
    { want: pageSize, guess: guess.current, calls: 24, late: () => performance.now() > end },
  );
  guess.current = found.span;
  // One more than fits is no page of its own.
  const items = found.items.slice(0, 2 * pageSize);
  const last = items.at(-1);
  const reached = items.length < found.items.length && last ? Date.parse(last.due_at) + 1 : found.from;
  return found.whole && items.length === found.items.length ? { items } : { items, reached };
}

const orders = [
  { order: 'latest', text: 'latest first' },
  { order: 'due', text: 'by due time' },
  { order: searchBack, text: 'search far back' },
];

/** mayOrder: the window can be read either way. */
function OrderSwitch({ chosen, mayOrder }: { chosen: string; mayOrder: boolean }) {
  return (
    <fieldset class="filter states">
      <legend>Order</legend>
      <div class="toggles">
        {orders
          .filter(({ order }) => mayOrder || order === searchBack)
          .map(({ order, text }) => (
            <button
              key={order}
              type="button"
              class="toggle"
              aria-pressed={order === chosen}
              onClick={() => setQuery({ order: order === chosen && !mayOrder ? '' : order, cursor: '' })}
            >
              {text}
            </button>
          ))}
      </div>
    </fieldset>
  );
}

/** Leads on where a list with the latest first is not whole. */
function Older({ page, window }: { page: RunPage; window: Window }) {
  const reached = page.reached ?? window.to.getTime();
  const times = page.items.map((run) => run.due_at);
  // All are due at one instant: there only the order of the API leads on.
  const herd = times.length > pageSize && times[0] === times.at(-1);
  const from = window.from.toISOString();
  return (
    <nav class="pager" aria-label="Pages">
      <span class="muted">
        {count(page.items.length, 'run')}: all that match and are due from <TimeLabel at={reached} millis /> on
      </span>
      {reached > window.from.getTime() && (
        <button
          type="button"
          class="button small"
          onClick={() =>
            setQuery(
              herd
                ? { from, to: new Date(reached + 1).toISOString(), last: '', order: 'due' }
                : { from, to: new Date(reached).toISOString(), last: '', order: 'latest' },
              { replace: false },
            )
          }
        >
          Older ones
        </button>
      )}
    </nav>
  );
}

function curlQuery(
  asked: ReturnType<typeof question>,
  window: Window,
  source: Record<string, string> | undefined,
): string {
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
    { head: 'Late by', kind: 'number', cell: (run) => <LateBy run={run} /> },
    { head: 'Took', kind: 'number', cell: (run) => <Took run={run} /> },
    { head: 'Attempts', kind: 'number', cell: (run) => run.attempts?.length || <span class="muted">0</span> },
    { head: 'Task', minor: true, cell: (run) => run.task ?? <span class="muted">–</span> },
    { head: 'What is known', cell: (run) => <Said run={run} /> },
  ];
}

function Nothing({ more, asked }: { more: boolean; asked: ReturnType<typeof question> }) {
  const filtered = Object.values(asked).some((value) => value.length > 0);
  if (more) {
    return (
      <Empty title="Nothing matches in the part that was searched">
        <p>The window is long and matches are rare. Search on with the button below, or take a shorter window.</p>
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
        {asked.state.includes('failed') && (
          <p>A run of which an attempt failed, and a later one succeeded, is one that succeeded.</p>
        )}
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

const open = ['pending', 'running', 'retrying', 'waiting', 'stuck'];
const ended = ['failed', 'missed', 'cancelled', 'succeeded'];

function bulkActions(asked: ReturnType<typeof question>, shown: { current: Window }): BulkAction[] {
  const filterFor = (states: readonly string[]): OperationFilter | string => {
    const selected = selectRuns(asked, states);
    return typeof selected === 'string'
      ? selected
      : { from: shown.current.from.toISOString(), to: shown.current.to.toISOString(), ...selected };
  };
  return [
    {
      action: 'cancel',
      name: 'Cancel',
      done: 'cancelled',
      danger: true,
      about:
        'A run that is cancelled does not start; one that is under way is told to stop. That cannot be taken back.',
      each: (id) => answer(api.POST('/v1/runs/{id}/cancel', { params: { path: { id } } })),
      all: () => filterFor(open),
    },
    {
      action: 'retry',
      name: 'Run again',
      done: 'asked to run again',
      about: 'Each is run again now, as a new run with the same payload. Without a state those that failed are taken.',
      each: (id) =>
        answer(api.POST('/v1/runs/{id}/retry', { params: { path: { id }, header: { 'Idempotency-Key': newKey() } } })),
      all: () => filterFor(ended),
    },
  ];
}
