// Runs what a run does once more, with another payload.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask, newKey } from '../api/client';
import { useLive } from '../api/live';
import type { Job, Run } from '../api/types';
import { Dialog } from '../parts/Dialog';
import { AreaField } from '../parts/Field';
import { Missing } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { go } from '../router';
import { messageKinds } from '../target';

/** What a run does, as a new one-off job would state it, without its payload. */
function bodyOf(run: Run, job: Job | undefined): Record<string, unknown> {
  const body: Record<string, unknown> = { priority: run.priority };
  if (run.task) {
    body.task = run.task;
  } else if (job) {
    const stated = job as Record<string, unknown>;
    for (const name of ['http', 'nats', 'script', 'lambda', ...messageKinds, 'timeout', 'retry', 'guarantee']) {
      if (stated[name] !== undefined) {
        body[name] = stated[name];
      }
    }
  }
  if (run.labels) {
    body.labels = run.labels;
  }
  return body;
}

export function EditAndRun(props: { run: Run; payload: string | undefined; onClose: () => void }) {
  const { run, payload, onClose } = props;
  const action = useAction();
  const [key] = useState(newKey);
  const [text, setText] = useState(payload ?? '');
  const [wrong, setWrong] = useState<string | undefined>(undefined);
  const id = run.job_id ?? run.id;
  const job = useLive(
    `job of ${id}`,
    (signal) => answer(api.GET('/v1/jobs/{id}', { params: { path: { id } }, signal })),
    { every: 0 },
  );
  const ready = run.task !== undefined || job.data !== undefined;
  const send = async (): Promise<void> => {
    let content = JSON.stringify(bodyOf(run, job.data));
    if (text.trim() !== '') {
      try {
        JSON.parse(text);
      } catch (thrown) {
        setWrong(`is no JSON: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
        return;
      }
      // As it is written: its numbers may have more digits than JavaScript keeps.
      content = `${content.slice(0, -1)},"payload":${text}}`;
    }
    setWrong(undefined);
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
    const made = await action.run(
      () => ask<Job>('/v1/jobs', { method: 'POST', content, headers }),
      'It runs now, as this new run.',
    );
    if (made) {
      onClose();
      go(`/runs/${made.id}`);
    }
  };
  return (
    <Dialog title="Edit and run again" wide onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send();
        }}
      >
        <p>
          A new one-off job runs now: {run.task ? <>the task {run.task}</> : <>the same call</>}, with this payload. Its
          job stays as it is{job.data && !run.task ? '; if its call was changed since, the new one is made' : ''}.
        </p>
        {job.problem && !ready && <Missing problem={job.problem} what="the job of this run" retry={job.refresh} />}
        <Refusal problem={action.problem} what="It was not run" form focus />
        <AreaField
          label="Payload, JSON"
          at="body.payload"
          problem={action.problem}
          faults={wrong === undefined ? [] : [wrong]}
          rows={14}
          value={text}
          onValue={setText}
          help="Empty: no payload."
        />
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Leave it
          </button>
          <button type="submit" class="button primary" disabled={!ready || action.busy}>
            Run it now
          </button>
        </div>
      </form>
    </Dialog>
  );
}
