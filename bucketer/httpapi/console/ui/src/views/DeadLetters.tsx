// Runs that have failed for good and wait for somebody: by task and error, so that what is one fault is
// seen as one, and all of it is run again or let go at once.

import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { answer, api, ask } from '../api/client';
import { slow, steady, useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import { may } from '../api/session';
import type { DeadLetter, Page } from '../api/types';
import { serverNow } from '../clock';
import { filterOfGroup, groupLetters, isOfWorkflow, type LetterGroup, type LettersAsked } from '../letters';
import { AllDialog, Bulk, EachDialog, type BulkAction, type Chosen } from '../parts/Bulk';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Answered, Panel } from '../parts/Panel';
import { Replays } from '../parts/Replays';
import { Table, useSelection, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { paramsOf, pathTo } from '../place';
import { go, href, queryValue, queryValues, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { parseSpan } from '../time';
import { count, number } from '../words';

type Group = LetterGroup<DeadLetter>;

const usualSpan = '744h';
const spans = [
  { value: '1h', text: 'last hour' },
  { value: '24h', text: 'last day' },
  { value: '168h', text: 'last 7 days' },
];
/** How many are looked through at first, and how many more each time. */
const step = 500;

/** What is asked for, as the address has it. */
function question(): LettersAsked & Record<string, string | readonly string[]> {
  return { task: queryValue('task'), job: queryValue('job'), label: queryValues('label') };
}

export function DeadLetters(_props: ViewParams) {
  const asked = question();
  const [last, key, state] = [queryValue('last'), queryValue('group'), queryValue('state')];
  const replayed = state === 'replayed';
  // A node of an older version knows no states: they all wait.
  const query = { ...asked, ...(replayed ? { state } : {}) };
  const params = paramsOf(query).toString();
  const [most, setMost] = useState(step);
  const selection = useSelection();
  const held = selection.keys.size > 0;
  const every = most > step ? slow : steady;
  const live = useLive<Page<DeadLetter>>(
    `dead letters ${JSON.stringify(query)} ${last} ${most}`,
    (signal) => {
      const span = parseSpan(last === '' ? usualSpan : last) ?? 0;
      // An hour ahead: the clocks of nodes and of runs differ.
      const [from, to] = [serverNow() - span, serverNow() + 3_600_000].map((at) => new Date(at).toISOString());
      return gather<DeadLetter>(
        (cursor) =>
          ask<PageLike<DeadLetter>>('/v1/dead-letters', {
            query: { ...query, limit: step, from, to, cursor },
            signal,
          }),
        '',
        most,
        Math.ceil(most / step) + 3,
      );
    },
    { every, hold: held },
  );
  const groups = useMemo(() => groupLetters(live.data?.items ?? []), [live.data]);
  const group = replayed ? undefined : groups.find((g) => g.key === key);
  return (
    <View
      title="Dead letters"
      about="Runs that got a final answer or used their attempts up. Each waits until it is replayed or discarded, for 30 days unless the operator says otherwise."
      actions={<CopyCurl path={`/v1/dead-letters${params === '' ? '' : `?${params}`}`} />}
    >
      <FilterBar
        clears={['group']}
        filters={[
          {
            kind: 'text',
            name: 'task',
            label: 'Task',
            main: true,
            placeholder: 'send-email',
            suggestions: [...new Set(groups.map((g) => g.task).filter(Boolean))].sort(),
          },
          { kind: 'text', name: 'job', label: 'Job, by name or id', placeholder: 'nightly-report' },
          { kind: 'text', name: 'label', label: 'Label', placeholder: 'team=billing' },
          { kind: 'choice', name: 'last', label: 'First due', options: spans, any: 'last 31 days' },
          { kind: 'choice', name: 'state', label: 'Which', options: [{ value: 'replayed', text: 'that were replayed' }], any: 'that wait' },
        ]}
      />
      <Panel
        title={replayed ? 'What became of replays' : 'By task and error'}
        live={live}
        every={every}
        actions={
          replayed ? (
            <a href={href('/dead-letters', asked)}>Those that wait</a>
          ) : (
            <a href={href('/dead-letters', { state: 'replayed', ...asked })}>What became of replays</a>
          )
        }
      >
        <Answered live={live} what="dead letters">
          {(page) => (
            <>
              {replayed ? <Replays letters={page.items} /> : <Groups groups={groups} chosen={key} />}
              {page.items.length > 0 && (
                <p class="muted row">
                  {count(page.items.length, 'dead letter')}
                  {page.next_cursor && (
                    <>
                      , those that were due last; there are more.
                      <button type="button" class="button small" onClick={() => setMost(most + 2 * step)}>
                        Look through more
                      </button>
                    </>
                  )}
                </p>
              )}
              {page.items.length === 0 && page.next_cursor && (
                <button type="button" class="button small" onClick={() => setMost(most + 2 * step)}>
                  Look further back
                </button>
              )}
            </>
          )}
        </Answered>
      </Panel>
      {group && <Letters group={group} selection={selection} />}
      {key !== '' && !group && !replayed && live.data && (
        <p class="muted" role="status">
          None of the group that was chosen waits any more.
        </p>
      )}
    </View>
  );
}

const replay: Omit<BulkAction, 'all'> = {
  action: 'replay',
  name: 'Replay',
  done: 'replayed',
  about: 'Each is run again now, as a new run whose origin is the old one. However often it is asked for, that is one run.',
  each: (id) => answer(api.POST('/v1/dead-letters/{id}/replay', { params: { path: { id } } })),
  then: () => go('/dead-letters', { state: 'replayed' }),
};

const discard: Omit<BulkAction, 'all'> = {
  action: 'discard',
  name: 'Discard',
  done: 'discarded',
  danger: true,
  about: 'They are let go, with their payloads. That cannot be taken back.',
  each: (id) => answer(api.DELETE('/v1/dead-letters/{id}', { params: { path: { id } } })),
};

function Groups({ groups, chosen }: { groups: readonly Group[]; chosen: string }) {
  const [doing, setDoing] = useState<Chosen | undefined>(undefined);
  const begin = (group: Group, action: Omit<BulkAction, 'all'>): void => {
    // Where no operation selects the same, each that is listed is acted on by itself.
    setDoing({ action: { ...action, all: () => '' }, keys: group.letters.map((l) => l.id), filter: filterOfGroup(group, question()) });
  };
  const columns: Column<Group>[] = [
    {
      head: 'Error',
      kind: 'main',
      cell: (g) => <bdi>{g.head}</bdi>,
    },
    { head: 'Such as', cell: (g) => g.such !== '' && <bdi class="said">{g.such}</bdi> },
    { head: 'Task', cell: (g) => nameOfGroup(g) },
    { head: 'Dead letters', kind: 'number', cell: (g) => number(g.letters.length) },
    { head: 'First failed', minor: true, cell: (g) => <TimeLabel at={g.first} relative /> },
    { head: 'Last failed', minor: true, cell: (g) => <TimeLabel at={g.last} relative /> },
    {
      head: 'What can be done',
      kind: 'actions',
      quietHead: true,
      cell: (g) =>
        may('operator') ? (
          <span class="row">
            <button type="button" class="button small" onClick={() => begin(g, replay)}>
              Replay all
            </button>
            <button type="button" class="button small" onClick={() => begin(g, discard)}>
              Discard all
            </button>
          </span>
        ) : null,
    },
  ];
  return (
    <>
      <Table
        caption="Dead letters by task and error"
        columns={columns}
        rows={groups}
        rowKey={(g) => g.key}
        rowHref={(g) => href('/dead-letters', { ...question(), last: queryValue('last'), group: g.key === chosen ? null : g.key })}
        empty={<Nothing />}
      />
      {doing &&
        (doing.filter ? (
          <AllDialog chosen={doing} filter={doing.filter} one="dead letter" many="dead letters" onClose={() => setDoing(undefined)} />
        ) : (
          <EachDialog chosen={doing} one="dead letter" many="dead letters" onClose={() => setDoing(undefined)} />
        ))}
    </>
  );
}

function nameOfGroup(group: Group): ComponentChildren {
  if (group.task !== '') {
    return <a href={href(pathTo('/tasks/:name', { name: group.task }))}>{group.task}</a>;
  }
  if (group.job === '') {
    return <span class="muted">inline work</span>;
  }
  const [letter] = group.letters;
  const path = letter && isOfWorkflow(letter) ? '/workflows/:id' : '/jobs/:id';
  return <a href={href(pathTo(path, { id: group.job }))}>{group.job}</a>;
}

function Nothing() {
  const filtered = queryValue('last') !== '' || Object.values(question()).some((value) => value.length > 0);
  return filtered ? (
    <Empty title="No dead letter matches" />
  ) : (
    <Empty title="No run waits here" commands={['carillon dead-letter list', 'carillon operation replay --task send-email --from -24h --to 0s --dry-run']}>
      <p>Nothing has failed for good in the last 31 days that was not dealt with.</p>
    </Empty>
  );
}

function Letters({ group, selection }: { group: Group; selection: ReturnType<typeof useSelection> }) {
  const actions = [replay, discard].map((a) => ({ ...a, all: () => 'Use the buttons of the group above.' }));
  const columns: Column<DeadLetter>[] = [
    { head: 'Run of', kind: 'main', cell: (l) => <bdi>{l.job_name || l.task || l.id.slice(0, 13)}</bdi> },
    { head: 'Due', cell: (l) => <TimeLabel at={l.due_at} /> },
    { head: 'Failed', cell: (l) => <TimeLabel at={l.failed_at} relative /> },
    { head: 'Attempts', kind: 'number', cell: (l) => number(l.attempt_count) },
    { head: 'Error', cell: (l) => <bdi class="said">{l.error ?? l.outcome}</bdi> },
    { head: 'Leaves', minor: true, cell: (l) => <TimeLabel at={l.expires_at} relative short /> },
  ];
  return (
    <Panel
      title={`${count(group.letters.length, 'dead letter')}: ${group.head}`}
      actions={
        <button type="button" class="button quiet small" onClick={() => setQuery({ group: '' })}>
          <Icon name="cross" size={14} /> Close
        </button>
      }
    >
      <Bulk selection={selection} question={group.head} one="dead letter" actions={actions} />
      <Table
        caption="Dead letters of the group"
        columns={columns}
        rows={group.letters.slice(0, 200)}
        rowKey={(l) => l.id}
        rowName={(l) => `dead letter ${l.id}`}
        rowHref={(l) => href(`/dead-letters/${l.id}`)}
        selection={may('operator') ? selection : undefined}
      />
      {group.letters.length > 200 && <p class="muted">The 200 that were due last are shown.</p>}
    </Panel>
  );
}
