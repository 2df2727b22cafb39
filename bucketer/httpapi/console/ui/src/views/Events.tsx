// Events: what came lately, what it started, and a try of one.

import { useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { useAll } from '../api/all';
import { ask, newKey } from '../api/client';
import { publishEvent } from '../api/events';
import { steady, useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Event, Job, Workflow } from '../api/types';
import { serverNow } from '../clock';
import { jsonFault } from '../document';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { AreaField, TextField } from '../parts/Field';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Answered, Panel } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { WindowPicker } from '../parts/WindowPicker';
import { pathTo } from '../place';
import { recentOf, type Recent } from '../recent';
import { href, queryValue, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { cut, plain } from '../text';
import { count, number } from '../words';
import { windowOf } from '../window';
import { EventAbout } from './EventAbout';

/** How many are shown, and how many of a piece of the window are looked through. */
const most = 200;
const mostOfPiece = 1000;
const hour = 3_600_000;
const choices = {
  spans: [
    { value: '5m', text: 'last 5 minutes' },
    { value: '15m', text: 'last 15 minutes' },
    { value: '1h', text: 'last hour' },
  ],
  usual: '15m',
  longest: hour,
};

/** Events that Carillon publishes itself. */
const ofSystem = ['run.succeeded', 'run.failed', 'run.missed', 'run.late', 'dead_letter.created', 'workflow.failed', 'workflow.stuck'];

export function Events(_props: ViewParams) {
  const name = queryValue('name');
  const ends = { from: queryValue('from'), to: queryValue('to'), last: queryValue('last') };
  const shown = queryValue('event');
  const { listening, complete } = useListening();
  const window = windowOf(ends, serverNow(), choices);
  const live = useLive<Recent<Event>>(
    `events ${name} ${JSON.stringify(ends)}`,
    (signal) =>
      // The API tells them as they came; a person wants the last one first.
      recentOf(windowOf(ends, serverNow(), choices), most, ({ from, to }) =>
        gather<Event>(
          (cursor) =>
            ask<PageLike<Event>>('/v1/events', {
              query: { limit: 500, name, from: from.toISOString(), to: to.toISOString(), cursor },
              signal,
            }),
          '',
          mostOfPiece,
          10,
        ),
      ),
    { every: steady, hold: shown !== '' },
  );
  const event = live.data?.items.find((e) => e.id === shown);
  return (
    <View
      title="Events"
      about="An event starts the jobs and workflows that run on it, and lets steps go on that wait for it."
      actions={
        <CopyCurl
          path={`/v1/events?${new URLSearchParams({
            ...(name === '' ? {} : { name }),
            from: window.from.toISOString(),
            to: window.to.toISOString(),
          }).toString()}`}
        />
      }
    >
      {may('operator') && <Publish listening={listening} complete={complete} />}
      <FilterBar
        clears={['from', 'to', 'last', 'event']}
        filters={[
          { kind: 'text', name: 'name', label: 'Name', main: true, placeholder: 'file.uploaded', suggestions: [...new Set(listening.map((l) => l.event))] },
        ]}
      >
        <WindowPicker label="Accepted" {...choices} />
      </FilterBar>
      <Panel title="What came" live={live} every={steady}>
        <Answered live={live} what="events">
          {({ items, since, cut: more }) => (
            <>
              <Table
                caption="Events, the last one first"
                columns={columns}
                rows={items.slice(0, most)}
                rowKey={(e) => e.id}
                rowHref={(e) => href('/events', { name, ...ends, event: e.id === shown ? null : e.id })}
                empty={<Nothing name={name} />}
              />
              {items.length > most && (
                <p class="muted">
                  The last {most} are shown, of {number(items.length)} since <TimeLabel at={since} relative />.
                </p>
              )}
              {more && (
                <p class="toned tone-warn">
                  More came since <TimeLabel at={since} /> than are looked through, and the latest of them are not here: ask
                  for a name, or for a shorter window.
                </p>
              )}
            </>
          )}
        </Answered>
      </Panel>
      {shown !== '' && <EventAbout id={shown} event={event} name={event?.name ?? name} />}
      <Listening listening={listening} complete={complete} />
    </View>
  );
}

const columns: Column<Event>[] = [
  { head: 'Event', kind: 'main', cell: (e) => <bdi>{e.name}</bdi> },
  { head: 'Accepted', cell: (e) => <TimeLabel at={e.accepted_at} millis relative /> },
  {
    head: 'Body',
    cell: (e) =>
      e.body === undefined ? (
        <span class="muted">longer than 4 KiB</span>
      ) : (
        <code class="said">{plain(cut(JSON.stringify(e.body), 160))}</code>
      ),
  },
  { head: 'Runs', cell: (e) => <a href={href('/runs', { event: e.id })}>what it started</a> },
];

function Nothing({ name }: { name: string }) {
  return (
    <Empty
      title={name === '' ? 'No event came in this window' : `No event ${name} came in this window`}
      commands={[`carillon event publish ${name || 'file.uploaded'} '{"region": "eu"}'`]}
    >
      <p>Take a longer window, or publish one.</p>
    </Empty>
  );
}

interface Listener {
  event: string;
  name: string;
  filter: string;
  kind: 'job' | 'workflow';
  state: string;
}

/** The jobs and workflows that run on events, and whether that is all of them. */
function useListening(): { listening: readonly Listener[]; complete: boolean } {
  const jobs = useAll<Job>('jobs on events', (query, signal) => ask('/v1/jobs', { query: { ...query }, signal }));
  const workflows = useAll<Workflow>('workflows on events', (query, signal) => ask('/v1/workflows', { query: { ...query }, signal }));
  const listening = useMemo(() => {
    const all: Listener[] = [];
    for (const [kind, items] of [['job', jobs.data?.items], ['workflow', workflows.data?.items]] as const) {
      for (const { on, name, state } of items ?? []) {
        if (on && state !== 'cancelled' && state !== 'finished') {
          all.push({ kind, name: name ?? '', state, event: on.event, filter: on.filter ?? '' });
        }
      }
    }
    return all.sort((a, b) => a.event.localeCompare(b.event) || a.name.localeCompare(b.name));
  }, [jobs.data, workflows.data]);
  return { listening, complete: !jobs.data?.next_cursor && !workflows.data?.next_cursor };
}

function Listening({ listening, complete }: { listening: readonly Listener[]; complete: boolean }) {
  const columnsOf: Column<Listener>[] = [
    { head: 'Event', kind: 'main', cell: (l) => <bdi>{l.event}</bdi> },
    {
      head: 'Starts',
      cell: (l) => (
        <a href={href(l.kind === 'job' ? pathTo('/jobs/:id', { id: l.name }) : pathTo('/workflows/:name', { name: l.name }))}>
          {l.kind} {l.name}
        </a>
      ),
    },
    { head: 'If', cell: (l) => (l.filter === '' ? <span class="muted">always</span> : <code>{l.filter}</code>) },
    { head: 'State', cell: (l) => <StateBadge state={l.state} /> },
  ];
  return (
    <Panel title="Who runs on events" about={`Steps of workflow runs wait for events besides. Carillon itself publishes ${ofSystem.join(', ')}.`}>
      <Table
        caption="Jobs and workflows that run on events"
        columns={columnsOf}
        rows={listening}
        rowKey={(l) => `${l.kind} ${l.name}`}
        empty={
          <Empty
            title="No job and no workflow runs on an event"
            commands={["carillon job create --name on-upload --url https://example.com/hook --on file.uploaded --filter \"event.region == 'eu'\""]}
          />
        }
      />
      {!complete && <p class="muted">There are more jobs or workflows than were looked through: some may be missing here.</p>}
    </Panel>
  );
}

function Publish({ listening, complete }: { listening: readonly Listener[]; complete: boolean }) {
  const [name, setName] = useState('');
  const [text, setText] = useState('{}');
  const [key, setKey] = useState(newKey);
  const [published, setPublished] = useState('');
  const action = useAction();
  const hears = listening.filter((l) => l.event === name.trim());
  const fault = jsonFault(text);
  const publish = async (): Promise<void> => {
    if (fault !== undefined) {
      return;
    }
    const done = await action.run(
      () => publishEvent(name.trim(), text, key),
      `The event ${name.trim()} is published.`,
    );
    if (done) {
      setKey(newKey());
      setPublished(done.id);
      setQuery({ event: done.id, from: '', to: '', cursor: '' });
    }
  };
  return (
    <details class="panel begin">
      <summary>
        <Icon name="plus" size={14} /> Try one: publish an event
      </summary>
      <form
        class="stack"
        onSubmit={(e) => {
          e.preventDefault();
          void publish();
        }}
      >
        <div class="fields">
          <TextField
            label="Name"
            at="path.name"
            problem={action.problem}
            value={name}
            onValue={setName}
            list="events-heard"
            placeholder="file.uploaded"
            help={
              name.trim() === ''
                ? 'A real event: what runs on it starts.'
                : hears.length === 0
                  ? `No job and no workflow ${complete ? 'runs on it' : 'of those that were looked through runs on it'}. A step may wait for it.`
                  : `Starts ${count(hears.length, 'job or workflow', 'jobs and workflows')}, if their filters let it through: ${hears.map((h) => h.name).join(', ')}.`
            }
          />
          <datalist id="events-heard">
            {[...new Set(listening.map((l) => l.event))].map((event) => (
              <option key={event} value={event} />
            ))}
          </datalist>
          <AreaField
            class="whole"
            label="Body, JSON"
            at="body"
            problem={action.problem}
            faults={fault === undefined ? [] : [fault]}
            value={text}
            onValue={setText}
            rows={5}
          />
        </div>
        <Refusal problem={action.problem} what="It was not published" form focus />
        <div class="row">
          <button type="submit" class="button primary" disabled={action.busy || fault !== undefined || name.trim() === ''}>
            Publish it
          </button>
          {published !== '' && (
            <span>
              Published as <Id text={published} />
            </span>
          )}
        </div>
      </form>
    </details>
  );
}
