// Runs a stretch of a job's past again.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { ask, newKey } from '../api/client';
import { useLive } from '../api/live';
import type { Job, Preview } from '../api/types';
import { serverNow } from '../clock';
import { timesOf, zoneOfJob } from '../jobs';
import { SelectField, TextField } from '../parts/Field';
import { FormDialog } from '../parts/FormDialog';
import { zoneFor } from '../preferences';
import { go } from '../router';
import { instantOf } from '../time';
import { count } from '../words';

export function BackfillDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const zone = zoneFor(zoneOfJob(job));
  const action = useAction();
  const [key] = useState(newKey);
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const [most, setMost] = useState('5');
  const [missing, setMissing] = useState(false);
  const [begin, end] = [instantOf(from, zone), instantOf(to, zone)];
  const preview = useLive(
    begin ? `backfill ${job.id} ${begin.getTime()}` : null,
    (signal) =>
      ask<Preview>('/v1/schedules/preview', {
        method: 'POST',
        body: {
          ...timesOf(job),
          count: 100,
          from: new Date((begin?.getTime() ?? 0) - 1).toISOString(),
        },
        signal,
      }),
    { every: 0 },
  );
  const until = Math.min(end?.getTime() ?? serverNow(), serverNow());
  const times = (preview.data?.times ?? []).filter((t) => Date.parse(t) < until);
  const send = async (): Promise<void> => {
    const body = {
      ...(begin ? { from: begin.toISOString() } : {}),
      ...(end ? { to: end.toISOString() } : {}),
      ...(most === '' ? {} : { max_concurrent: Number(most) }),
      ...(missing ? { missing } : {}),
    };
    const begun = await action.run(() =>
      ask<{ id: string }>(`/v1/jobs/${job.id}/backfills`, {
        method: 'POST',
        body,
        headers: { 'Idempotency-Key': key },
      }),
    );
    if (begun) {
      onClose();
      go(`/operations/${begun.id}`);
    }
  };
  return (
    <FormDialog
      title="Run a stretch of its past again"
      action={action}
      what="Nothing was begun"
      send="Begin the backfill"
      ready={begin !== undefined}
      onSend={send}
      onClose={onClose}
    >
      <p>One run for each time that the schedule, as it is now, names in the stretch.</p>
      <div class="fields">
        <TextField
          label={`From, in ${zone}`}
          at="body.from"
          problem={action.problem}
          type="datetime-local"
          value={from}
          onValue={setFrom}
        />
        <TextField
          label={`To, in ${zone}`}
          at="body.to"
          problem={action.problem}
          type="datetime-local"
          value={to}
          onValue={setTo}
          help="Empty: now."
        />
        <SelectField
          label="Which times"
          at="body.missing"
          problem={action.problem}
          value={missing ? 'missing' : 'all'}
          onValue={(v) => setMissing(v === 'missing')}
          options={[
            { value: 'all', text: 'all, whether they ran or not' },
            { value: 'missing', text: 'those that have no run, such as those of a pause' },
          ]}
          help={
            missing
              ? 'A run that was missed is none, and one that a pause or a change kept from starting. After the retention was raised, runs from before that are gone after the shorter one: they look missing.'
              : 'A run that was missed is none, and one that a pause or a change kept from starting.'
          }
        />
        <TextField
          label="At once, at most"
          at="body.max_concurrent"
          problem={action.problem}
          type="number"
          value={most}
          onValue={setMost}
        />
      </div>
      <p role="status">
        {begin &&
          preview.data &&
          (missing
            ? 'Those of its times that have no run.'
            : times.length >= 100
              ? 'That is 100 runs or more.'
              : `That is ${count(times.length, 'run')}.`)}
      </p>
    </FormDialog>
  );
}
