// Logs: lines that runs logged and errors of their attempts, searched for or as they come. A search
// reads the logs of one run after the other, so it is asked for once, and says how far it came.

import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, chosenTenant } from '../api/client';
import { liveOn } from '../api/live';
import { asProblem, isAbort, type Problem } from '../api/problem';
import type { FoundLine } from '../api/types';
import { serverNow } from '../clock';
import { grouped, grown, lookedWords, marked, nothing, searchesOn, type Found, type Group, type LogPage } from '../found';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { FilterBar } from '../parts/FilterBar';
import { Missing, Panel } from '../parts/Panel';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { WindowPicker } from '../parts/WindowPicker';
import { viewerZone } from '../preferences';
import { href, queryValue, queryValues, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { plain } from '../text';
import { labelOf } from '../time';
import { count } from '../words';
import { longestWindow, windowOf } from '../window';

/** How many lines a search goes on to find by itself, and how many are kept of those that come. */
const wanted = 100;
const most = 2000;
/** How long to wait for what comes, in ms. */
const pause = 2000;

const choices = {
  spans: [
    { value: '15m', text: 'last 15 minutes' },
    { value: '1h', text: 'last hour' },
    { value: '6h', text: 'last 6 hours' },
    { value: '24h', text: 'last 24 hours' },
  ],
  usual: '1h',
  longest: longestWindow,
};

const kinds = [
  { value: 'line', text: 'lines' },
  { value: 'error', text: 'errors of attempts' },
];

type Query = Record<string, string | readonly string[]>;

/** What is asked for, as the address has it. */
function question(): Query {
  return {
    text: queryValue('text'),
    job: queryValue('job'),
    run: queryValue('run'),
    task: queryValue('task'),
    label: queryValues('label'),
    kind: queryValue('kind'),
  };
}

/** What an address asks for, and what was found of it. It outlives a pause of the search. */
interface State {
  key: string;
  found: Found;
  window: Query;
}

interface Search extends Found {
  busy: boolean;
  problem: Problem | undefined;
}

/**
 * Searches, or follows, what an address asks for: anew when that changes. goOn searches on from where
 * it stopped.
 */
function useSearch(asked: Query, ends: Record<'from' | 'to' | 'last', string>, following: boolean): Search & { goOn: () => void } {
  const key = JSON.stringify([asked, ends, following, chosenTenant.value]);
  const [search, setSearch] = useState<Search>({ ...nothing, busy: true, problem: undefined });
  const state = useRef<State>({ key: '', found: nothing, window: {} });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const gone = new AbortController();
    const at = state.current;
    if (at.key !== key) {
      const { from, to } = windowOf(ends, serverNow(), choices);
      // A run or a job is looked through as a whole, unless an end is stated.
      const anywhere = asked['run'] !== '' || (asked['job'] !== '' && Object.values(ends).every((end) => end === ''));
      at.window = following || anywhere ? {} : { from: from.toISOString(), to: to.toISOString() };
      at.found = nothing;
      at.key = key;
    }
    const show = (busy: boolean, problem?: Problem): void => setSearch({ ...at.found, busy, problem });
    show(true);
    const next = async (limit: number): Promise<LogPage> => {
      const query = { ...asked, ...at.window, limit, cursor: at.found.cursor, follow: following || undefined };
      const page = await ask<LogPage>('/v1/logs', { query, signal: gone.signal });
      if (!gone.signal.aborted) {
        at.found = grown(at.found, page, following ? most : Infinity);
      }
      return page;
    };
    void (following ? follow(next, show, at, gone.signal) : searchOn(next, show, at, gone.signal));
    return () => gone.abort();
  }, [key, round]);
  return { ...search, goOn: () => setRound(round + 1) };
}

type Next = (limit: number) => Promise<LogPage>;
type Show = (busy: boolean, problem?: Problem) => void;

async function searchOn(next: Next, show: Show, at: { found: Found }, gone: AbortSignal): Promise<void> {
  const began = performance.now();
  const want = at.found.items.length + wanted;
  for (let answers = 1; !gone.aborted; ) {
    const problem = await failed(() => next(wanted), gone);
    if (gone.aborted) {
      return;
    }
    if (!problem) {
      const more = searchesOn(at.found, want, answers++, performance.now() - began);
      show(more);
      if (!more) {
        return;
      }
    } else if (!(await waitOut(problem, show, at, answers))) {
      return;
    }
  }
}

async function follow(next: Next, show: Show, at: { found: Found }, gone: AbortSignal): Promise<void> {
  let failures = 0;
  while (!gone.aborted) {
    if (document.hidden || !liveOn.peek()) {
      await sleep(pause);
      continue;
    }
    let behind = false;
    const problem = await failed(async () => {
      behind = (await next(500)).looked_at.behind ?? false;
    }, gone);
    if (gone.aborted) {
      return;
    }
    if (!problem) {
      failures = 0;
      show(!at.found.over);
      if (at.found.over) {
        return;
      }
      if (!behind) {
        await sleep(pause);
      }
    } else if (!(await waitOut(problem, show, at, ++failures))) {
      return;
    }
  }
}

/** Why an act failed; undefined: it did not, or nobody waits for it any more. */
async function failed(act: () => Promise<unknown>, gone: AbortSignal): Promise<Problem | undefined> {
  try {
    await act();
    return undefined;
  } catch (thrown) {
    return isAbort(thrown) && gone.aborted ? undefined : asProblem(thrown);
  }
}

/** Shows a problem, and waits if it may pass. It returns whether to try again. */
async function waitOut(problem: Problem, show: Show, at: { found: Found }, failures: number): Promise<boolean> {
  if (problem.staleCursor) {
    at.found = { ...nothing, items: [] }; // another node answers: from the begin
    return true;
  }
  show(false, problem);
  if (problem.passing) {
    await sleep(Math.max(Math.min(pause * 2 ** failures, 30_000), problem.retryAfter ?? 0));
  }
  return problem.passing;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function Logs(_props: ViewParams) {
  const asked = question();
  const ends = { from: queryValue('from'), to: queryValue('to'), last: queryValue('last') };
  const following = queryValue('follow') === 'true';
  const search = useSearch(asked, ends, following);
  const sought = queryValue('text');
  return (
    <View
      title="Logs"
      about="Lines that workers logged while they ran, and why attempts failed. Outputs and payloads are not searched."
      actions={<CopyCurl path={`/v1/logs?${curlQuery(asked, ends, following)}`} />}
    >
      <FilterBar
        clears={['from', 'to', 'last', 'follow', 'run']}
        filters={[
          { kind: 'text', name: 'text', label: 'Text in the line', main: true, placeholder: 'connection refused' },
          { kind: 'text', name: 'job', label: 'Job or workflow, by name or id', placeholder: 'nightly-report' },
          { kind: 'text', name: 'task', label: 'Task', placeholder: 'send-email' },
          { kind: 'text', name: 'label', label: 'Label', placeholder: 'team=billing' },
          { kind: 'choice', name: 'kind', label: 'What', options: kinds, any: 'lines and errors' },
        ]}
      >
        {!following && asked['run'] === '' && <WindowPicker label="Of runs due" {...choices} />}
        <fieldset class="filter states">
          <legend>Which</legend>
          <div class="toggles">
            {[false, true].map((on) => (
              <button key={String(on)} type="button" class="toggle" aria-pressed={on === following} onClick={() => setQuery({ follow: on ? 'true' : '' })}>
                {on ? 'what comes now' : 'what was logged'}
              </button>
            ))}
          </div>
        </fieldset>
      </FilterBar>
      <Panel title={following ? 'As it comes' : 'Found, of the latest runs first'}>
        {search.problem && search.items.length === 0 ? (
          <Missing problem={search.problem} what="the search of logs" retry={search.goOn} />
        ) : (
          <>
            <Looked search={search} following={following} />
            <Lines search={search} sought={sought} following={following} />
          </>
        )}
      </Panel>
    </View>
  );
}

/** What was looked at, and the way on. */
function Looked({ search, following }: { search: Search & { goOn: () => void }; following: boolean }) {
  const state = search.problem
    ? `Nothing new: ${search.problem.sentence}`
    : following
      ? search.over
        ? 'The run has ended.'
        : liveOn.value
          ? 'Follows what comes.'
          : 'Stands still.'
      : search.busy
        ? 'Searches …'
        : search.over
          ? 'That is all.'
          : 'There is more to look at.';
  return (
    <div class="row">
      <span class="muted">
        {count(search.items.length, 'line')}
        {search.gone > 0 && `, ${count(search.gone, 'earlier one')} not shown`}
      </span>
      {!following && (
        <span class="muted">
          {lookedWords(search)}
          {search.reached !== undefined && (
            <>
              , back to <TimeLabel at={search.reached} />
            </>
          )}
        </span>
      )}
      {search.letGo > 0 && <span class="muted">{count(search.letGo, 'run')} under way not followed: there are too many</span>}
      <span class={`age ${search.problem ? 'stale' : ''}`} role="status">
        {state}
      </span>
      {!search.busy && !search.over && !following && (
        <button type="button" class="button small" onClick={search.goOn}>
          Search on
        </button>
      )}
    </div>
  );
}

function Lines({ search, sought, following }: { search: Search; sought: string; following: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  useEffect(() => {
    if (following && atEnd && box.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [search.items, following, atEnd]);
  if (search.items.length === 0) {
    return search.busy ? (
      <p class="muted">{following ? 'Nothing was logged so far.' : 'Nothing is found so far.'}</p>
    ) : (
      <Empty
        title={search.over ? 'No line matches' : 'Nothing matches in what was looked at'}
        commands={["carillon logs --text 'connection refused' --from -24h"]}
      >
        <p>
          {search.over
            ? 'Take a longer window, or fewer filters. Workers log by the worker protocol; what an HTTP call answers is the output of its run.'
            : 'Search on with the button above, or state a job or a task.'}
        </p>
      </Empty>
    );
  }
  return (
    <div
      class="log"
      role="log"
      aria-live="off"
      aria-label="Lines"
      tabIndex={0}
      dir="ltr"
      ref={box}
      onScroll={(e) => {
        const { scrollTop, scrollHeight, clientHeight } = e.currentTarget;
        setAtEnd(scrollHeight - scrollTop - clientHeight < 24);
      }}
    >
      {grouped(search.items).map((group) => (
        <OfRun key={group.key} group={group} sought={sought} />
      ))}
    </div>
  );
}

function OfRun({ group, sought }: { group: Group; sought: string }) {
  return (
    <div class="log-run">
      <p>
        <a class="underlined" href={href(`/runs/${group.run}`)}>
          <bdi>{plain(group.owner)}</bdi>
        </a>{' '}
        <span class="muted">
          due <TimeLabel at={group.due} />
        </span>
      </p>
      {group.lines.map((line) => (
        <Line key={line.id} line={line} sought={sought} />
      ))}
    </div>
  );
}

function Line({ line, sought }: { line: FoundLine; sought: string }) {
  const zone = viewerZone.value;
  return (
    <div class="log-line">
      <span class="log-at">{line.at ? labelOf(line.at, zone, { now: line.at, millis: true }).clock : ''}</span>
      <span class="log-attempt">
        <span class="hidden">attempt </span>
        {line.attempt}
      </span>
      {line.dropped ? (
        <em class="muted">{count(line.dropped, 'line was', 'lines were')} not kept here</em>
      ) : (
        <bdi>
          {line.kind === 'error' && <strong>failed: </strong>}
          {marked(line.text ?? '', sought).map((part, i) => (part.hit ? <mark key={i}>{plain(part.text)}</mark> : plain(part.text)))}
        </bdi>
      )}
    </div>
  );
}

function curlQuery(asked: Query, ends: Record<'from' | 'to' | 'last', string>, following: boolean): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    for (const one of Array.isArray(value) ? (value as string[]) : [value as string]) {
      if (one !== '') {
        params.append(name, one);
      }
    }
  }
  if (following) {
    params.set('follow', 'true');
  } else if (ends.from !== '' && ends.to !== '' && asked['run'] === '') {
    params.set('from', ends.from);
    params.set('to', ends.to);
  }
  return params.toString();
}
