// A step of a workflow run that waits for an event, and the way to publish that.

import { useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { ask, newKey } from '../api/client';
import { publishEvent } from '../api/events';
import { useLive } from '../api/live';
import { may } from '../api/session';
import type { Hearers, Run, RunStep } from '../api/types';
import { serverNow } from '../clock';
import { jsonFault } from '../document';
import { pathTo } from '../place';
import { href } from '../router';
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
      .
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
  return (
    <>
      <button type="button" class="button primary small" onClick={() => setOpen(true)}>
        Approve: publish {event}
      </button>
      {open && <ApproveDialog run={run} step={step.name} event={event} onClose={() => setOpen(false)} />}
    </>
  );
}

/** How many of the others who hear an event are named. */
const namedAtMost = 5;

function ApproveDialog(props: { run: Run; step: string; event: string; onClose: () => void }) {
  const { run, step, event, onClose } = props;
  const { data, problem } = useLive<Hearers>(
    `hearers ${event}`,
    (signal) => ask(pathTo('/v1/events/:name/hearers', { name: event }), { signal }),
    { every: 0 },
  );
  const isThis = (s: Hearers['steps'][number]): boolean => s.workflow_run_id === run.id && s.step === step;
  const mine = data?.steps.find(isThis);
  const filter = mine?.filter ?? '';
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const [key] = useState(newKey);
  const action = useAction();
  const suggested = useMemo(() => JSON.stringify(bodyFor(filter, run.payload), null, 2), [filter, run.payload]);
  const text = typed ?? suggested;
  const fault = jsonFault(text);
  const publish = async (): Promise<void> => {
    if (await action.run(() => publishEvent(event, text, key))) {
      say(`The event ${event} is published. If ${step} still waits in a moment, its filter did not let it through.`);
      onClose();
    }
  };
  return (
    <FormDialog
      title={`Publish the event ${event}`}
      action={action}
      what="It was not published"
      send="Publish it"
      ready={fault === undefined}
      onSend={publish}
      onClose={onClose}
    >
      <p>
        The step <strong>{step}</strong> of this run waits for it
        {filter !== '' && (
          <>
            , and goes on if <code>{filter}</code>
          </>
        )}
        .
      </p>
      {data ? (
        <Others steps={data.steps.filter((s) => !isThis(s))} jobs={data.jobs} more={data.more === true} />
      ) : (
        problem && <p>All that wait for it hear it, not this run alone. Who they are is not known: {problem.sentence}</p>
      )}
      <AreaField
        label="Body of the event, JSON"
        at="body"
        problem={action.problem}
        faults={fault === undefined ? [] : [fault]}
        value={text}
        onValue={setTyped}
        rows={6}
        help="Filled in as far as the filter says what it must be."
      />
    </FormDialog>
  );
}

/** Who hears an event besides the step that it is published for. */
function Others({ steps, jobs, more }: { steps: Hearers['steps']; jobs: Hearers['jobs']; more: boolean }) {
  if (steps.length + jobs.length === 0 && !more) {
    return <p>Nobody else hears it.</p>;
  }
  const links: [to: string, text: string][] = [
    ...steps.map((s): [string, string] => [
      href(`/workflow-runs/${s.workflow_run_id}`, { step: s.step }),
      `${s.step} of a run of ${s.workflow || 'a workflow'}, since ${relativeText(s.since, serverNow())}`,
    ]),
    ...jobs.map((j): [string, string] => [href(`/${j.kind}s/${j.name || j.id}`), `a new run of ${j.name || j.id}`]),
  ];
  return (
    <>
      <p>
        <strong>
          Others hear it too: {count(steps.length, 'waiting step')} and {count(jobs.length, 'job')}
          {more && ', or more'}.
        </strong>{' '}
        Each goes on if its filter takes the body.
      </p>
      <ul>
        {links.slice(0, namedAtMost).map(([to, text]) => (
          <li key={to}>
            <a href={to}>{text}</a>
          </li>
        ))}
        {links.length > namedAtMost && <li>and {number(links.length - namedAtMost)} more</li>}
      </ul>
    </>
  );
}
