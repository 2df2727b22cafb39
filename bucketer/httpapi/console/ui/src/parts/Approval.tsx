// A step of a workflow run that waits for an event, and the way to publish that.

import { useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, newKey } from '../api/client';
import { publishEvent } from '../api/events';
import { useLive } from '../api/live';
import { may } from '../api/session';
import type { Run, RunStep, Workflow } from '../api/types';
import { jsonFault } from '../document';
import { bodyFor, eventOf, type StepShape } from '../steps';
import { Dialog } from './Dialog';
import { AreaField } from './Field';
import { Note } from './Note';
import { Refusal } from './Refusal';
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

function ApproveDialog(props: { run: Run; step: string; event: string; onClose: () => void }) {
  const { run, step, event, onClose } = props;
  const name = run.workflow ?? '';
  // The filter stands in the definition. That of the run may be older: the person is told.
  const workflow = useLive<Workflow>(
    `workflow ${name}`,
    (signal) => answer(api.GET('/v1/workflows/{name}', { params: { path: { name } }, signal })),
    { every: 0 },
  );
  const stated = workflow.data?.steps?.find((s) => s.name === step);
  const filter = stated?.wait?.event === event ? (stated.wait.filter ?? '') : undefined;
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const [key] = useState(newKey);
  const action = useAction();
  const suggested = useMemo(() => JSON.stringify(bodyFor(filter ?? '', run.payload), null, 2), [filter, run.payload]);
  const text = typed ?? suggested;
  const fault = jsonFault(text);
  const publish = async (): Promise<void> => {
    if (fault === undefined && (await action.run(() => publishEvent(event, text, key)))) {
      say(`The event ${event} is published. If ${step} still waits in a moment, its filter did not let it through.`);
      onClose();
    }
  };
  return (
    <Dialog title={`Approve ${step}: publish ${event}`} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(e) => {
          e.preventDefault();
          void publish();
        }}
      >
        <p>Every step and job that waits for this event hears it, not this run alone.</p>
        {filter === undefined
          ? workflow.data && <p class="muted">What its filter asks for is not known: the workflow has changed since this run began.</p>
          : filter !== '' && (
              <p>
                It goes on if <code>{filter}</code>.
              </p>
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
        <Refusal problem={action.problem} what="It was not published" focus />
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Leave it
          </button>
          <button type="submit" class="button primary" disabled={action.busy || fault !== undefined}>
            Publish it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
