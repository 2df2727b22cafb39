// A step of a workflow run that waits for an event, the way to publish that, and who did.

import { useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { useAuditEntry } from '../api/audit';
import { ask, newKey } from '../api/client';
import { publishEvent } from '../api/events';
import { useLive } from '../api/live';
import { may, maySee } from '../api/session';
import type { Hearers, Run, RunStep } from '../api/types';
import { serverNow } from '../clock';
import { jsonFault } from '../document';
import { pathTo } from '../place';
import { go, href } from '../router';
import { bodyFor, eventOf, type StepShape } from '../steps';
import { relativeText } from '../time';
import { count, number } from '../words';
import { AreaField } from './Field';
import { FormDialog } from './FormDialog';
import { Note } from './Note';
import { stepHref } from './StepFacts';
import { TimeLabel } from './TimeLabel';
import { say } from './Toasts';

interface Waiting {
  run: Run;
  step: RunStep;
  shape: StepShape | undefined;
}

/** Says that a step waits for an event, which somebody may publish. */
export function Approval({ run, step, shape }: Waiting) {
  return (
    <Note tone="warn" icon="clock" more={<ApproveButton run={run} step={step} shape={shape} />}>
      <a href={stepHref(step.name)}>{step.name}</a> waits for the event <code>{shape && eventOf(shape)}</code>
      {step.started_at && (
        <>
          {' '}
          since <TimeLabel at={step.started_at} relative />
        </>
      )}
      . Whoever publishes that approves it.
    </Note>
  );
}

/** Nothing for a step that waits for no event, and for who may not publish one. */
export function ApproveButton({ run, step, shape }: Waiting) {
  const [open, setOpen] = useState(false);
  const event = shape && step.state === 'waiting' ? eventOf(shape) : undefined;
  if (event === undefined || !may('operator')) {
    return null;
  }
  const of = { run: run.id, workflow: run.workflow ?? '', step: step.name, event };
  return (
    <>
      <button type="button" class="button primary small" onClick={() => setOpen(true)}>
        Approve: publish {event}
      </button>
      {open && <ApproveDialog of={of} onClose={() => setOpen(false)} />}
    </>
  );
}

/** A step that waits for an event, wherever it is told of. */
export interface WaitingStep {
  run: string;
  workflow: string;
  step: string;
  event: string;
}

/** How many of the others who hear an event are named. */
const namedAtMost = 5;

export function ApproveDialog({ of, onClose }: { of: WaitingStep; onClose: () => void }) {
  const { run: runId, workflow, step, event } = of;
  const { data, problem } = useLive<Hearers>(
    `hearers ${event}`,
    (signal) => ask(pathTo('/v1/events/:name/hearers', { name: event }), { signal }),
    { every: 0 },
  );
  // What the filter compares the body with is the payload of the run.
  const run = useLive<Run>(`run ${runId}`, (signal) => ask(`/v1/runs/${runId}`, { signal }), { every: 0 });
  const isThis = (s: Hearers['steps'][number]): boolean => s.workflow_run_id === runId && s.step === step;
  const mine = data?.steps.find(isThis);
  const filter = mine?.filter ?? '';
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const [key] = useState(newKey);
  const action = useAction();
  const suggested = useMemo(() => JSON.stringify(bodyFor(filter, run.data?.payload), null, 2), [filter, run.data]);
  const text = typed ?? suggested;
  const fault = jsonFault(text);
  // An empty body is no question to whoever approves.
  const saysNothing = typed === undefined && filter === '' && !problem;
  const publish = async (): Promise<void> => {
    if (await action.run(() => publishEvent(event, text, key))) {
      say(`${step} is approved: the event ${event} is published. If it still waits in a moment, its filter did not let that through.`);
      onClose();
      go(`/workflow-runs/${runId}`, { step });
    }
  };
  return (
    <FormDialog
      title={`Approve ${step}`}
      action={action}
      what="It was not approved"
      send="Approve"
      ready={fault === undefined && (data !== undefined || problem !== undefined)}
      onSend={publish}
      onClose={onClose}
    >
      <p>
        To approve is to publish the event <code>{event}</code>. The step <strong>{step}</strong> waits for it, in
        {workflow ? (
          <>
            {' '}
            the run of the workflow <strong>{workflow}</strong>
          </>
        ) : (
          ' the workflow run'
        )}{' '}
        <a href={href(`/workflow-runs/${runId}`, { step })}>{runId.slice(0, 13)}…</a>
        {run.data && (
          <>
            {' '}
            that was due <TimeLabel at={run.data.due_at} relative />
          </>
        )}
        .{' '}
        {filter !== '' && (
          <>
            It goes on if <code>{filter}</code>.
          </>
        )}{' '}
        Who approved it stands in the audit log.
      </p>
      {data ? (
        <Others steps={data.steps.filter((s) => !isThis(s))} jobs={data.jobs} more={data.more === true} />
      ) : (
        problem && <p>All that wait for it hear it, not this run alone. Who they are is not known: {problem.sentence}</p>
      )}
      {saysNothing ? (
        <button type="button" class="button quiet small" onClick={() => setTyped(text)}>
          Say something in the event’s body
        </button>
      ) : (
        <AreaField
          label="Body of the event, JSON"
          at="body"
          problem={action.problem}
          faults={fault === undefined ? [] : [fault]}
          value={text}
          onValue={setTyped}
          rows={6}
          help={filter === '' ? 'The step takes any body. Steps after it may read it.' : 'Filled in as far as the filter says what it must be.'}
        />
      )}
    </FormDialog>
  );
}

/** Who hears an event besides the step that it is published for. */
function Others({ steps, jobs, more }: { steps: Hearers['steps']; jobs: Hearers['jobs']; more: boolean }) {
  if (steps.length + jobs.length === 0 && !more) {
    return <p>Nobody else hears it.</p>;
  }
  const links = hearerLinks(steps, jobs);
  return (
    <>
      <p>
        <strong>
          Others hear it too: {count(steps.length, 'waiting step')} and {count(jobs.length, 'job')}
          {more && ', or more'}.
        </strong>{' '}
        Each goes on if its filter takes the body.
      </p>
      <HearerList links={links} most={namedAtMost} />
    </>
  );
}

/** Where one sees each of those who hear an event, and what it does. */
export function hearerLinks(steps: Hearers['steps'], jobs: Hearers['jobs']): [to: string, text: string][] {
  return [
    ...steps.map((s): [string, string] => [
      href(`/workflow-runs/${s.workflow_run_id}`, { step: s.step }),
      `${s.step} of a run of ${s.workflow || 'a workflow'}, since ${relativeText(s.since, serverNow())}`,
    ]),
    ...jobs.map((j): [string, string] => [href(`/${j.kind}s/${j.name || j.id}`), `a new run of ${j.name || j.id}`]),
  ];
}

export function HearerList({ links, most }: { links: readonly [to: string, text: string][]; most: number }) {
  return (
    <ul>
      {links.slice(0, most).map(([to, text]) => (
        <li key={`${to} ${text}`}>
          <a href={to}>{text}</a>
        </li>
      ))}
      {links.length > most && <li>and {number(links.length - most)} more</li>}
    </ul>
  );
}

const minute = 60_000;

/** Says who published the event that a step went on by. The audit log knows, unless a program of NATS did. */
export function ApprovedBy({ event, at }: { event: { id: string; name: string }; at: string | undefined }) {
  const end = at === undefined ? serverNow() : Date.parse(at);
  const about = { object: `event/${event.name}`, from: end - 10 * minute, to: end + minute };
  const entry = useAuditEntry(`who published ${event.id}`, about, (e) => e.note?.startsWith(`event ${event.id}`) === true);
  const link = (
    <a href={href('/events', { event: event.id, name: event.name, ...(at ? around(at) : {}) })}>
      the event <code>{event.name}</code>
    </a>
  );
  if (entry) {
    return (
      <>
        <bdi>{entry.actor}</bdi> published {link} <TimeLabel at={entry.at} relative />
      </>
    );
  }
  return (
    <>
      {link} came <TimeLabel at={at} relative />
      {entry === null && ', and the audit log does not say from whom: it may have come over NATS'}
      {!maySee('admin') && '. Who published it stands in the audit log, which needs a key of the role admin'}
    </>
  );
}

function around(at: string): { from: string; to: string } {
  const t = Date.parse(at);
  return { from: new Date(t - 10 * minute).toISOString(), to: new Date(t + minute).toISOString() };
}
