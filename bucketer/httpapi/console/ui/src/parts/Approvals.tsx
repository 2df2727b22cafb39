// Steps of workflow runs that wait for an event: whom somebody is to let go on.

import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import { slow, useLive, type Live } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Hearers, Page, Workflow } from '../api/types';
import { waitingSteps, type StepThatWaits } from '../approvals';
import { pathTo } from '../place';
import { href } from '../router';
import { count, number } from '../words';
import { ApproveDialog, type WaitingStep } from './Approval';
import { Note } from './Note';
import { Panel } from './Panel';
import { Table, type Column } from './Table';
import { TimeLabel } from './TimeLabel';

/** Events that are asked about: of others it is said that there are more. */
const eventsAtMost = 20;

export interface Approvals {
  steps: readonly StepThatWaits[];
  more: boolean;
}

/** Workflows, with the events that runs of them wait for. */
function workflowsThatWait(signal: AbortSignal): Promise<Page<Workflow>> {
  return gather<Workflow>(
    (cursor) => ask<PageLike<Workflow>>('/v1/workflows', { query: { waiting: true, limit: 500, cursor }, signal }),
    '',
    1000,
    3,
  );
}

/** Which runs wait for somebody, in a sentence that leads to them; nothing if none does. */
export function ApprovalsInShort() {
  const live = useLive('workflows that wait', workflowsThatWait, { every: slow });
  const waiting = (live.data?.items ?? []).flatMap((w) => (w.waiting ?? []).map((at) => ({ ...at, name: w.name })));
  if (waiting.length === 0) {
    return null;
  }
  const runs = waiting.reduce((n, w) => n + w.runs, 0);
  const told = waiting.slice(0, 3).map((w) => `${number(w.runs)} of ${w.name} for ${w.event}`);
  const more = waiting.length - told.length;
  return (
    <Note tone="still" icon="clock">
      {count(runs, 'workflow run')}
      {waiting.some((w) => w.more) && ' or more'} {runs === 1 ? 'waits' : 'wait'} for approval: {told.join(', ')}
      {more > 0 && ` and ${number(more)} more`}. <a href={href('/workflows')}>See and approve</a>
    </Note>
  );
}

/** The steps that wait for events now, those first that have waited longest. */
export function useApprovals(every: number): Live<Approvals> {
  return useLive<Approvals>(
    'what waits for events',
    async (signal) => {
      const page = await workflowsThatWait(signal);
      const all = [...new Set(page.items.flatMap((w) => (w.waiting ?? []).map((at) => at.event)))];
      const events = all.slice(0, eventsAtMost);
      const heard = await Promise.all(
        events.map((name) => ask<Hearers>(pathTo('/v1/events/:name/hearers', { name }), { signal })),
      );
      return {
        steps: waitingSteps(events, heard),
        more: all.length > events.length || heard.some((h) => h.more === true) || page.next_cursor !== undefined,
      };
    },
    { every },
  );
}

/** Nothing if nothing waits. */
export function WaitsForSomebody({ live, every, most }: { live: Live<Approvals>; every: number; most: number }) {
  const [chosen, setChosen] = useState<WaitingStep | undefined>(undefined);
  const { steps = [], more = false } = live.data ?? {};
  if (steps.length === 0 && !chosen) {
    return null;
  }
  const columns: Column<StepThatWaits>[] = [
    {
      head: 'Workflow and step',
      kind: 'main',
      cell: (s) => (
        <>
          {s.workflow || 'a workflow'} › {s.step}
        </>
      ),
    },
    { head: 'Waits for the event', cell: (s) => <code>{s.event}</code> },
    { head: 'Since', cell: (s) => <TimeLabel at={s.since} relative /> },
    { head: 'In the run', minor: true, cell: (s) => <span class="muted">{s.run.slice(0, 13)}…</span> },
    {
      head: 'What can be done',
      kind: 'actions',
      quietHead: true,
      cell: (s) =>
        may('operator') ? (
          <button type="button" class="button small" onClick={() => setChosen(s)} aria-label={`Approve ${s.step} of ${s.workflow}, run ${s.run}`}>
            Approve
          </button>
        ) : null,
    },
  ];
  return (
    <Panel
      title={`Waits for approval: ${count(steps.length, 'step')}${more ? ' or more' : ''}`}
      live={live}
      every={every}
      about="These steps go on when somebody, or a program, publishes their event."
      actions={steps.length > most ? <a href={href('/workflows')}>Show all</a> : undefined}
    >
      <Table
        caption="Steps that wait for an event"
        columns={columns}
        rows={steps.slice(0, most)}
        rowKey={(s) => `${s.run} ${s.step}`}
        rowHref={(s) => href(`/workflow-runs/${s.run}`, { step: s.step })}
      />
      {steps.length > most && <p class="muted">The {number(most)} that have waited longest are shown.</p>}
      {chosen && <ApproveDialog of={chosen} onClose={() => setChosen(undefined)} />}
    </Panel>
  );
}
