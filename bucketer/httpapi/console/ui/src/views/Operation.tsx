// One operation: how far it has come, what could not be done and why, and the way to end it.

import { useEffect, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask } from '../api/client';
import { fast, slow, steady, useLive } from '../api/live';
import { gather } from '../api/pages';
import { may } from '../api/session';
import type { DeadLetter, Operation } from '../api/types';
import { filterWords, nounOf, partsOf, titleOf, wholeOf } from '../operations';
import { AllDialog, type OperationFilter } from '../parts/Bulk';
import { confirm } from '../parts/Confirm';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Facts } from '../parts/Facts';
import { Icon } from '../parts/Icon';
import { JsonView } from '../parts/JsonView';
import { Note } from '../parts/Note';
import { Answered, Panel } from '../parts/Panel';
import { Progress } from '../parts/Progress';
import { haveEnded, Replays } from '../parts/Replays';
import { StateBadge } from '../parts/StateBadge';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { href } from '../router';
import type { ViewParams } from '../routes';
import { coarse } from '../time';
import { count } from '../words';

export function OperationView({ params }: ViewParams) {
  const id = params.id ?? '';
  const [over, setOver] = useState(false);
  const every = over ? slow : fast;
  const live = useLive<Operation>(
    `operation ${id}`,
    (signal) => answer(api.GET('/v1/operations/{id}', { params: { path: { id } }, signal })),
    { every },
  );
  const op = live.data;
  useEffect(() => setOver(op !== undefined && op.state !== 'running'), [op?.state]);
  return (
    <View
      title={op ? titleOf(op) : 'Operation'}
      badge={op && <StateBadge state={op.state} />}
      above={[['Operations', '/operations']]}
      about={<Id text={id} />}
      actions={
        <>
          {op && <Actions op={op} />}
          <CopyCurl path={`/v1/operations/${id}`} />
        </>
      }
    >
      {live.problem?.status === 404 && !op ? (
        <Panel title="There is no such operation">
          <p>{live.problem.detail || live.problem.title} Operations are kept for 30 days.</p>
        </Panel>
      ) : (
        <Answered live={live} what="this operation">
          {(o) =>
            o.fault ? (
              <Note tone="bad" alert>
                What is stored of it is not understood by this node, so what it does is not known: {o.fault}
              </Note>
            ) : (
              <>
                <Panel title="How far it has come" live={live} every={every}>
                  <Progress label="How far it has come" parts={partsOf(o)} of={wholeOf(o)} />
                  <p role="status">{said(o)}</p>
                </Panel>
                {o.action === 'replay' && !o.dry_run && <NewRuns op={o} />}
                <div class="columns">
                  <Panel title="Facts">
                    <Known op={o} />
                  </Panel>
                  {(o.faults ?? []).length > 0 && (
                    <Panel
                      title="What could not be done"
                      about={(o.faults ?? []).length < o.failed ? `The first ${(o.faults ?? []).length} of ${count(o.failed, 'fault')}.` : undefined}
                    >
                      <ul class="faults">
                        {(o.faults ?? []).map((fault) => (
                          <li key={fault}>
                            <bdi>{fault}</bdi>
                          </li>
                        ))}
                      </ul>
                    </Panel>
                  )}
                </div>
                <details>
                  <summary>As JSON</summary>
                  <JsonView label="Operation" value={o} />
                </details>
              </>
            )
          }
        </Answered>
      )}
    </View>
  );
}

/** How long before an operation was begun it may have replayed something, by the clocks of other nodes, in ms. */
const clocksDiffer = 2000;

/** What became of what it replayed. */
function NewRuns({ op }: { op: Operation }) {
  const { from, to, task, error_pattern, error, job } = op.filter;
  const [over, setOver] = useState(false);
  const every = over && op.state !== 'running' ? slow : steady;
  const live = useLive(
    `replays of ${op.id}`,
    async (signal) => {
      const query = { state: 'replayed', limit: 500, from, to, task, error_pattern, error, job, label: listOf(op.filter).label };
      const page = await gather<DeadLetter>((cursor) => ask('/v1/dead-letters', { query: { ...query, cursor }, signal }), '', 2000, 8);
      const begun = Date.parse(op.created_at) - clocksDiffer;
      const ours = (l: DeadLetter): boolean => (l.replayed_by ?? '') === (op.created_by ?? '') && Date.parse(l.replayed_at ?? '') >= begun;
      return { ...page, items: (page.items ?? []).filter(ours) };
    },
    { every },
  );
  // The operation tells how many it has replayed. The list may have been read before the last of them.
  const unread = live.data && !live.data.next_cursor ? Math.max(0, op.changed - live.data.items.length) : 0;
  useEffect(() => setOver(live.data !== undefined && unread === 0 && haveEnded(live.data.items)), [live.data, unread]);
  return (
    <Panel title="What became of the new runs" live={live} every={every}>
      <Answered live={live} what="the new runs">
        {(page) => (
          <>
            <Replays letters={page.items} />
            {unread > 0 && <p role="status">{count(unread, 'new run')} more: how they stand is not known yet.</p>}
            {page.next_cursor && <p class="muted">There are more: not all dead letters of that time were looked through.</p>}
          </>
        )}
      </Answered>
    </Panel>
  );
}

function said(op: Operation): string {
  const noun = nounOf(op);
  if (op.state === 'running') {
    return op.backfill ? 'It goes on.' : `It goes on: ${count(op.matched, noun)} met so far.`;
  }
  if (op.state === 'cancelled') {
    return `It was cancelled${op.cancelled_by ? ` by ${op.cancelled_by}` : ''}. What it did until then stays done.`;
  }
  const took = Math.max(0, Date.parse(op.updated_at) - Date.parse(op.created_at));
  if (op.dry_run) {
    return op.matched === 0 ? `No ${noun} matched.` : `${count(op.matched, noun)} matched. Nothing was changed.`;
  }
  return `It is done${took >= 1000 ? `, after ${coarse(took)}` : ''}.`;
}

function Actions({ op }: { op: Operation }) {
  const action = useAction({ loud: true });
  const [doing, setDoing] = useState(false);
  if (!may('operator')) {
    return null;
  }
  const cancel = async (): Promise<void> => {
    const yes = await confirm({
      title: 'Cancel this operation?',
      children: (
        <p>
          It goes no further than the page under way. What it did stays done
          {op.backfill ? ', and the runs that were asked for go on' : ''}.
        </p>
      ),
      action: 'Cancel the operation',
      danger: true,
    });
    if (yes) {
      await action.run(
        () => answer(api.DELETE('/v1/operations/{id}', { params: { path: { id: op.id } } })),
        'The operation is cancelled.',
      );
    }
  };
  const filter = filterOf(op);
  return (
    <>
      {op.state === 'running' && (
        <button type="button" class="button danger" disabled={action.busy} onClick={() => void cancel()}>
          Cancel
        </button>
      )}
      {op.dry_run && op.state === 'done' && op.matched > 0 && (
        <button type="button" class="button primary" onClick={() => setDoing(true)}>
          <Icon name="play" /> Do it
        </button>
      )}
      {doing && (
        <AllDialog
          chosen={{
            action: {
              action: op.action,
              name: op.action.charAt(0).toUpperCase() + op.action.slice(1),
              done: '',
              danger: op.action === 'cancel' || op.action === 'discard',
              about: 'It is counted anew: something may have changed since the dry run.',
              each: () => Promise.resolve(),
              all: () => filter,
            },
            keys: [],
            filter,
          }}
          filter={filter}
          one={nounOf(op)}
          many={`${nounOf(op)}s`}
          onClose={() => setDoing(false)}
        />
      )}
    </>
  );
}

function filterOf(op: Operation): OperationFilter {
  const { job_name: _name, ...filter } = op.filter;
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value && value.length > 0)) as OperationFilter;
}

/** The filters of a list of runs that are those of an operation, without its states, in which the runs may not be any more. */
function listOf({ label, labels, job, job_name, task, host, late, key }: Operation['filter']) {
  return { label: [...(label ? [label] : []), ...(labels ?? [])], job: job_name || job, task, host, late, key };
}

function Known({ op }: { op: Operation }) {
  const { filter: f, backfill: b } = op;
  const noun = nounOf(op);
  return (
    <Facts
      facts={[
        ['Does', b ? 'runs each time of the schedule in a stretch again' : `${op.action}, to ${noun}s`],
        ['Selected by', filterWords(op) || (noun === 'job' ? 'nothing: all jobs' : undefined)],
        [
          'Its jobs',
          noun === 'job' && (
            <a href={href('/jobs', { label: f.label, name: f.name_prefix, ...(op.dry_run ? { state: f.state } : {}) })}>jobs that it selects</a>
          ),
        ],
        ['Due from', f.from && <TimeLabel at={f.from} millis />],
        ['Due until', f.to && <TimeLabel at={f.to} millis />],
        ['Job', b && <a href={href(pathTo('/jobs/:id', { id: b.job_name || b.job_id }))}>{b.job_name || b.job_id}</a>],
        ['Times from', b && <TimeLabel at={b.from} />],
        ['Times until', b && <TimeLabel at={b.to} />],
        ['Under way at once', b && `at most ${b.max_concurrent}`],
        ['To be known', b && (b.notes ?? []).length > 0 && (b.notes ?? []).join('; ')],
        [
          op.action === 'replay' || op.action === 'retry' ? 'What had failed' : 'Its runs',
          noun !== 'job' && f.from && f.to && <a href={href('/runs', { from: f.from, to: f.to, ...listOf(f) })}>runs that were due then</a>,
        ],
        [
          'New runs',
          op.action === 'retry' && !op.dry_run && (
            <a href={href('/runs', { from: op.created_at, to: new Date(Date.parse(op.updated_at) + 60_000).toISOString(), task: f.task })}>
              runs that were due since it began
            </a>
          ),
        ],
        ['Begun', <TimeLabel key="begun" at={op.created_at} relative />],
        ['By', op.created_by && <bdi>{op.created_by}</bdi>],
        ['Last step', <TimeLabel key="updated" at={op.updated_at} relative />],
        ['Cancelled', op.cancelled_at && <TimeLabel at={op.cancelled_at} relative />],
      ]}
    />
  );
}
