// One event: who published it, who heard it, and what came of it.

import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import { steady, useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import type { Event, Hearers, Run, Workflow } from '../api/types';
import { serverNow } from '../clock';
import { outcomeWords, stepsThatHeard, waitersFor, type HeardStep } from '../heard';
import { ApprovedBy, HearerList, hearerLinks } from '../parts/Approval';
import { Id } from '../parts/CopyCurl';
import { Icon } from '../parts/Icon';
import { JsonView } from '../parts/JsonView';
import { Answered, Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { pathTo } from '../place';
import { href, setQuery } from '../router';
import { nameOf } from '../runs';

/** Workflows that are looked through for steps that wait for it, those of which runs are, and runs of each. */
const workflowsAtMost = 30;
const waitersAtMost = 5;
const runsAtMost = 10;
/** How long it may take until a step goes on, in ms: so long it is looked again. */
const young = 120_000;

export function EventAbout({ id, event, name }: { id: string; event: Event | undefined; name: string }) {
  const runs = useLive<PageLike<Run>>(
    `runs of event ${id}`,
    (signal) => ask('/v1/runs', { query: { event: id, limit: 50 }, signal }),
    { every: steady },
  );
  const heard = useLive<Heard>(
    name === '' ? null : `steps of event ${id} ${name}`,
    (signal) => stepsOf(id, name, event?.accepted_at, signal),
    { every: event && serverNow() - Date.parse(event.accepted_at) < young ? steady : 0 },
  );
  const steps = heard.data?.steps;
  return (
    <Panel
      title={event ? `The event ${event.name}` : 'The event'}
      live={runs}
      every={steady}
      actions={
        <button type="button" class="button quiet small" onClick={() => setQuery({ event: '' })}>
          <Icon name="cross" size={14} /> Close
        </button>
      }
    >
      <p>
        <Id text={id} />
      </p>
      {event && (
        <p>
          <ApprovedBy event={event} at={event.accepted_at} />.
        </p>
      )}
      {event?.body !== undefined && <JsonView label="Body" value={event.body} />}
      <Answered live={runs} what="the runs of an event">
        {(page) => {
          const started = page.items ?? [];
          return (
            <>
              <h3>Who heard it</h3>
              <p role="status">
                {outcomeWords(started, page.next_cursor !== undefined, steps?.length)}
                {started.length === 0 && steps?.length === 0 && !heard.data?.more && ' Nothing waited for it whose filter lets it through.'}
                {heard.data?.more && ' Of workflows that may have waited for it the latest runs alone were looked through.'}
              </p>
              {started.length > 0 && (
                <Table
                  caption="Runs that the event started"
                  columns={runColumns}
                  rows={started}
                  rowKey={(r) => r.id}
                  rowHref={(r) => href(r.workflow ? `/workflow-runs/${r.id}` : `/runs/${r.id}`)}
                />
              )}
              {steps !== undefined && steps.length > 0 && (
                <Table
                  caption="Steps that went on by the event"
                  columns={stepColumns}
                  rows={steps}
                  rowKey={(s) => `${s.run} ${s.step}`}
                  rowHref={(s) => href(`/workflow-runs/${s.run}`, { step: s.step })}
                />
              )}
            </>
          );
        }}
      </Answered>
      {name !== '' && <HearItNow name={name} />}
    </Panel>
  );
}

const runColumns: Column<Run>[] = [
  { head: 'A run was started of', kind: 'main', cell: (r) => <bdi>{nameOf(r)}</bdi> },
  { head: 'State', cell: (r) => <StateBadge state={r.state} /> },
  { head: 'Due', cell: (r) => <TimeLabel at={r.due_at} millis /> },
];

const stepColumns: Column<HeardStep>[] = [
  { head: 'A step went on', kind: 'main', cell: (s) => `${s.workflow} › ${s.step}` },
  { head: 'Its workflow run', cell: (s) => <StateBadge state={s.state} /> },
];

interface Heard {
  steps: HeardStep[];
  /** Not all that might have heard it was looked through. */
  more: boolean;
}

/** The steps that went on by an event, in the latest runs of workflows that wait for its name. */
async function stepsOf(id: string, name: string, at: string | undefined, signal: AbortSignal): Promise<Heard> {
  const page = await gather<Workflow>((cursor) => ask<PageLike<Workflow>>('/v1/workflows', { query: { limit: 500, cursor }, signal }), '', 500, 2);
  // A list of workflows has no steps, and one of runs has none either.
  const whole = await Promise.all(
    page.items.slice(0, workflowsAtMost).map((w) => ask<Workflow>(pathTo('/v1/workflows/:name', { name: w.name }), { signal })),
  );
  const waiters = waitersFor(whole, name);
  const to = at === undefined ? undefined : new Date(Date.parse(at) + 1000).toISOString();
  const heard = await Promise.all(
    waiters.slice(0, waitersAtMost).map(async (w) => {
      const list = await ask<PageLike<Run>>(pathTo('/v1/workflows/:name/runs', { name: w.name }), { query: { to, limit: runsAtMost }, signal });
      const runs = await Promise.all((list.items ?? []).map((r) => ask<Run>(`/v1/runs/${r.id}`, { signal })));
      return { runs, more: Boolean(list.next_cursor) };
    }),
  );
  return {
    steps: stepsThatHeard(heard.flatMap((h) => h.runs), id),
    more: page.items.length > workflowsAtMost || waiters.length > waitersAtMost || heard.some((h) => h.more),
  };
}

/** Who would hear such an event if it came again. */
function HearItNow({ name }: { name: string }) {
  const [open, setOpen] = useState(false);
  const live = useLive<Hearers>(
    open ? `hearers ${name}` : null,
    (signal) => ask(pathTo('/v1/events/:name/hearers', { name }), { signal }),
    { every: 0 },
  );
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Who would hear it if it came again now</summary>
      {open && (
        <Answered live={live} what="who hears an event">
          {({ steps, jobs, more }) =>
            steps.length + jobs.length === 0 ? (
              <p>Nobody: no job and no workflow runs on it, and no step waits for it.</p>
            ) : (
              <>
                <HearerList links={hearerLinks(steps, jobs)} most={50} />
                {more && <p class="muted">There are more.</p>}
              </>
            )
          }
        </Answered>
      )}
    </details>
  );
}
