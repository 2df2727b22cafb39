// Operations: one thing done to everything that matches, in the background.

import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import { steady } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Operation } from '../api/types';
import { serverNow } from '../clock';
import { pauseWords } from '../jobs';
import { filterWords, nounOf, partsOf, titleOf, wholeOf } from '../operations';
import { AllDialog, type BulkAction, type OperationFilter } from '../parts/Bulk';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Field, SelectField, TextField } from '../parts/Field';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { Progress } from '../parts/Progress';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { viewerZone } from '../preferences';
import { go, href, queryValue } from '../router';
import type { ViewParams } from '../routes';
import { inputText, instantOf } from '../time';

const pageSize = 25;

export function Operations(_props: ViewParams) {
  const state = queryValue('state');
  const list = usePages<Operation>(
    `operations ${state}`,
    (cursor, signal) =>
      gather(
        (at) => ask<PageLike<Operation>>('/v1/operations', { query: { limit: pageSize, state, cursor: at }, signal }),
        cursor,
        pageSize / 2,
      ),
    { every: steady },
  );
  return (
    <View
      title="Operations"
      about="One thing done to everything that matches, in the background. What a node leaves undone another one takes up."
      actions={<CopyCurl path="/v1/operations" />}
    >
      {may('operator') && <Begin />}
      <FilterBar
        filters={[{ kind: 'states', name: 'state', label: 'State', states: ['running', 'done', 'cancelled'], single: true }]}
      />
      <Panel title="Of the last 30 days" live={list} every={steady}>
        <Answered live={list} what="the list of operations">
          {(page) => (
            <>
              <Table
                caption="Operations, the newest first"
                columns={columns}
                rows={page.items}
                rowKey={(op) => op.id}
                rowHref={(op) => href(`/operations/${op.id}`)}
                empty={
                  state === '' ? (
                    <Empty title="There was no operation yet" commands={['carillon operation pause --label team=billing --dry-run']}>
                      <p>Begin one above, or from a list of runs or jobs: “all that match”.</p>
                    </Empty>
                  ) : (
                    <Empty title={`No operation is ${state}`} />
                  )
                }
              />
              <Pager list={list} one="operation" />
            </>
          )}
        </Answered>
        <ById />
      </Panel>
    </View>
  );
}

const columns: Column<Operation>[] = [
  { head: 'Operation', kind: 'main', cell: (op) => <bdi>{titleOf(op)}</bdi> },
  { head: 'State', cell: (op) => <StateBadge state={op.state} /> },
  {
    head: 'On',
    cell: (op) => {
      const words = filterWords(op) || (nounOf(op) === 'job' ? 'all jobs' : '');
      return op.fault ? (
        <span class="toned tone-bad">It is not understood: {op.fault}</span>
      ) : (
        words && <bdi class="said">{words}</bdi>
      );
    },
  },
  {
    head: 'Come so far',
    cell: (op) => (op.fault ? '' : <Progress label={`How far ${titleOf(op)} has come`} parts={partsOf(op)} of={wholeOf(op)} />),
  },
  { head: 'Begun', cell: (op) => <TimeLabel at={op.created_at} relative /> },
  { head: 'By', minor: true, cell: (op) => <bdi>{op.created_by ?? ''}</bdi> },
];

function ById() {
  const [id, setId] = useState('');
  return (
    <form
      class="row"
      onSubmit={(e) => {
        e.preventDefault();
        if (id.trim() !== '') {
          go(`/operations/${encodeURIComponent(id.trim())}`);
        }
      }}
    >
      <Field label="Open one by its id">
        {(input) => <input {...input} size={38} autocomplete="off" spellcheck={false} value={id} onInput={(e) => setId(e.currentTarget.value)} />}
      </Field>
      <button type="submit" class="button" disabled={id.trim() === ''}>
        Open
      </button>
    </form>
  );
}

type Of = 'jobs' | 'runs' | 'dead letters';

const actionsOf: Record<Of, readonly { value: string; text: string; done: string; danger?: boolean; about: string }[]> = {
  jobs: [
    { value: 'pause', text: 'Pause', done: 'paused', about: pauseWords },
    { value: 'resume', text: 'Resume', done: 'resumed', about: 'They go on from now. What was due meanwhile is not run.' },
    { value: 'trigger', text: 'Run now', done: 'run now', about: 'Each has one run now, besides its schedule.' },
    { value: 'cancel', text: 'Cancel', done: 'cancelled', danger: true, about: 'They have no more runs, and cannot be resumed. That cannot be taken back.' },
  ],
  runs: [
    { value: 'retry', text: 'Run again', done: 'run again', about: 'Each is run again now, as a new run with the same payload.' },
    { value: 'cancel', text: 'Cancel', done: 'cancelled', danger: true, about: 'A run that is cancelled does not start; one that is under way is told to stop. That cannot be taken back.' },
  ],
  'dead letters': [
    { value: 'replay', text: 'Replay', done: 'replayed', about: 'Each is run again now, as a new run whose origin is the old one.' },
    { value: 'discard', text: 'Discard', done: 'discarded', danger: true, about: 'They are let go, with their payloads. That cannot be taken back.' },
  ],
};

const statesOf: Record<string, readonly string[]> = {
  jobs: ['active', 'paused', 'finished'],
  'runs cancel': ['pending', 'running', 'retrying'],
  'runs retry': ['failed', 'missed', 'cancelled', 'succeeded'],
};

/** Begins an operation by a filter: what the lists of jobs and runs do from where one stands. */
function Begin() {
  const zone = viewerZone.value;
  const [of, setOf] = useState<Of>('jobs');
  const [action, setAction] = useState('pause');
  const [state, setState] = useState('');
  const [label, setLabel] = useState('');
  const [prefix, setPrefix] = useState('');
  const [job, setJob] = useState('');
  const [task, setTask] = useState('');
  const [from, setFrom] = useState(() => inputText(Math.floor((serverNow() - 3_600_000) / 60_000) * 60_000, zone));
  const [to, setTo] = useState(() => inputText(Math.ceil(serverNow() / 60_000) * 60_000, zone));
  const [filter, setFilter] = useState<OperationFilter | undefined>(undefined);
  const chosen = actionsOf[of].find((a) => a.value === action) ?? actionsOf[of][0];
  const states = statesOf[of === 'runs' ? `runs ${action}` : of] ?? [];
  const [begin, end] = [instantOf(from, zone), instantOf(to, zone)];
  const wrong = of !== 'jobs' && (!begin || !end || end <= begin) ? ['The end must come after the begin.'] : [];
  const bulk: BulkAction | undefined = chosen && {
    action: chosen.value,
    name: chosen.text,
    done: chosen.done,
    danger: chosen.danger === true,
    about: chosen.about,
    each: () => Promise.resolve(),
    all: () => '',
  };
  const count = (): void => {
    const common = state === '' || !states.includes(state) ? {} : { state };
    setFilter(
      of === 'jobs'
        ? { ...common, ...(label === '' ? {} : { label }), ...(prefix === '' ? {} : { name_prefix: prefix }) }
        : {
            ...common,
            ...(begin && end ? { from: begin.toISOString(), to: end.toISOString() } : {}),
            ...(task === '' ? {} : { task }),
            ...(of !== 'runs' || job === '' ? {} : { job }),
            ...(of !== 'runs' || label === '' ? {} : { label }),
          },
    );
  };
  const singular = of === 'jobs' ? 'job' : of === 'runs' ? 'run' : 'dead letter';
  return (
    <details class="panel begin">
      <summary>
        <Icon name="plus" size={14} /> Begin one
      </summary>
      <form
        class="stack"
        onSubmit={(e) => {
          e.preventDefault();
          if (wrong.length === 0) {
            count();
          }
        }}
      >
        <div class="fields">
          <SelectField
            label="Of all"
            value={of}
            onValue={(v) => {
              setOf(v as Of);
              setAction(actionsOf[v as Of][0]?.value ?? '');
              setState('');
            }}
            options={(['jobs', 'runs', 'dead letters'] as const).map((v) => ({ value: v, text: v }))}
          />
          <SelectField label="Do" value={action} onValue={setAction} options={actionsOf[of]} />
          {states.length > 0 && (
            <SelectField
              label="In the state"
              value={state}
              onValue={setState}
              options={[
                { value: '', text: action === 'retry' ? 'failed' : 'any' },
                ...states.filter((s) => !(action === 'retry' && s === 'failed')).map((s) => ({ value: s, text: s })),
              ]}
            />
          )}
          {of === 'jobs' ? (
            <>
              <TextField label="With the label" optional value={label} onValue={setLabel} placeholder="team=billing" />
              <TextField label="Whose name begins with" optional value={prefix} onValue={setPrefix} placeholder="nightly" />
            </>
          ) : (
            <>
              {of === 'runs' && (
                <>
                  <TextField label="Of the job, by name or id" optional value={job} onValue={setJob} placeholder="nightly-report" />
                  <TextField label="With the label" optional value={label} onValue={setLabel} placeholder="team=billing" />
                </>
              )}
              <TextField label="Of the task" optional value={task} onValue={setTask} placeholder="send-email" />
              <TextField label={`First due from, in ${zone}`} type="datetime-local" value={from} onValue={setFrom} />
              <TextField label={`Until, in ${zone}`} type="datetime-local" value={to} onValue={setTo} faults={wrong} />
            </>
          )}
        </div>
        <div class="row">
          <button type="submit" class="button primary" disabled={wrong.length > 0}>
            Count what matches
          </button>
          <span class="muted">A dry run counts; nothing is changed before you confirm.</span>
        </div>
      </form>
      {filter && bulk && (
        <AllDialog
          chosen={{ action: bulk, keys: [], filter }}
          filter={filter}
          one={singular}
          many={of}
          onClose={() => setFilter(undefined)}
        />
      )}
    </details>
  );
}
