// What is known of a run: facts, attempts, output.

import { useState } from 'preact/hooks';
import { askFor } from '../api/client';
import { useLive } from '../api/live';
import type { Attempt, Run } from '../api/types';
import { now } from '../clock';
import { spreadOf } from '../jobs';
import { homeFact } from '../parts/AtHome';
import { Id } from '../parts/CopyCurl';
import { Facts } from '../parts/Facts';
import { Field } from '../parts/Field';
import { saveFile, TextView } from '../parts/JsonView';
import { Answered } from '../parts/Panel';
import { LateBy, Took } from '../parts/RunCells';
import { around, JobLink } from '../parts/RunLinks';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { pathTo } from '../place';
import { href } from '../router';
import { hostOf } from '../target';
import { coarse, spanText } from '../time';
import { bytes, count, preemptedWords } from '../words';

const triggers: Record<string, string> = {
  schedule: 'its schedule',
  manual: 'somebody, by hand',
  retry: 'somebody, who had a run again',
  backfill: 'a backfill',
  event: 'an event',
  dependency: 'the end of other jobs',
};

function startedBy(run: Run): string {
  const oneOff = run.job_id === run.id;
  return oneOff && run.trigger === 'schedule' ? 'its own time: it was asked for once' : (triggers[run.trigger] ?? run.trigger);
}

/** A run that repeats one of a job is a job of its own, and listed with that job. */
function OneOff({ run }: { run: Run }) {
  return run.origin && run.job_name ? (
    <>
      its own: it repeats a run of <JobLink run={run} />
    </>
  ) : (
    <>a one-off job</>
  );
}

/** What it calls, and the other runs that call the same host. */
function Calls({ run }: { run: Run }) {
  const host = hostOf(run.calls?.split(' ').at(-1) ?? '');
  return (
    <>
      <bdi class="error-text">{run.calls}</bdi>
      {run.task && <span class="muted"> as its task says now</span>}
      {host && (
        <>
          {' '}
          <a href={href('/runs', { host, ...around(run) })}>Runs that call this host</a>
        </>
      )}
    </>
  );
}

export function RunFacts({ run }: { run: Run }) {
  return (
    <Facts
      facts={[
        ['Job', run.job_id !== undefined && run.job_id !== run.id ? <JobLink run={run} /> : <OneOff run={run} />],
        ['Task', run.task && <a href={href(pathTo('/tasks/:name', { name: run.task }))}>{run.task}</a>],
        [
          'Workflow run',
          run.workflow_run_id && (
            <>
              <a href={href(`/workflow-runs/${run.workflow_run_id}`)}>{run.workflow_run_id}</a>, step {run.step}
              {run.item !== undefined && `, item ${run.item}`}
            </>
          ),
        ],
        ['Calls', run.calls && <Calls run={run} />],
        ['Started by', startedBy(run)],
        ['Created by', run.created_by && <bdi>{run.created_by}</bdi>],
        ['Event', run.event && <a href={href('/runs', { event: run.event.id })}>{run.event.name}</a>],
        ['Again of', run.origin && <a href={href(`/runs/${run.origin}`)}>{run.origin}</a>],
        ['Replayed as', run.replayed_as && <a href={href(`/runs/${run.replayed_as}`)}>{run.replayed_as}</a>],
        [
          'Time of its schedule',
          spreadOf(run) > 0 && (
            <>
              <TimeLabel at={run.nominal_at} />, and {spanText(spreadOf(run))} later it is due, by the jitter of its job
            </>
          ),
        ],
        ['Due', <TimeLabel at={run.due_at} millis relative />],
        ['Started late by', run.lateness_ms !== undefined && <LateBy run={run} />],
        ['Took', run.started_at && <Took run={run} />],
        ['Priority', run.priority],
        ['Pre-empted', preemptedWords(run.preempted)],
        ['Ends at the latest', run.deadline_at && <TimeLabel at={run.deadline_at} relative />],
        homeFact(run),
        ['Trace id', <Id text={run.id.replaceAll('-', '')} />],
      ]}
    />
  );
}

export function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
  const columns: Column<Attempt>[] = [
    { head: 'No.', kind: 'number', cell: (a) => a.number },
    { head: 'Outcome', cell: (a) => <StateBadge state={a.outcome || 'running'} /> },
    { head: 'Began', cell: (a) => <TimeLabel at={a.started_at} millis /> },
    {
      head: 'Took',
      kind: 'number',
      cell: (a) =>
        a.started_at && a.finished_at ? (
          spanText(Date.parse(a.finished_at) - Date.parse(a.started_at))
        ) : (
          <SoFar attempt={a} />
        ),
    },
    { head: 'Executor', minor: true, cell: (a) => `${a.executor ?? '–'}${a.region ? `, ${a.region}` : ''}` },
    { head: 'Status', kind: 'number', cell: (a) => a.status_code ?? <span class="muted">–</span> },
    {
      head: 'What it said',
      cell: (a) => (
        <>
          {a.error ? (
            <bdi class="tone-bad error-text">{a.error}</bdi>
          ) : a.output ? (
            <bdi class="said">{a.output}</bdi>
          ) : null}
          {a.redispatched && <span class="muted"> It was handed out twice.</span>}
          {(a.log_dropped ?? 0) > 0 && (
            <span class="muted"> {count(a.log_dropped ?? 0, 'line')} of its log were not kept.</span>
          )}
        </>
      ),
    },
  ];
  return (
    <Table
      caption="Attempts"
      columns={columns}
      rows={attempts}
      rowKey={(a) => `${a.number} ${a.executor ?? ''} ${a.started_at ?? ''}`}
      empty={<p class="muted">No attempt has begun.</p>}
    />
  );
}

function SoFar({ attempt }: { attempt: Attempt }) {
  return attempt.started_at ? (
    <span class="muted">{coarse(Math.max(0, now.value - Date.parse(attempt.started_at)))} so far</span>
  ) : (
    <span class="muted">–</span>
  );
}

/** Outputs that are longer are not shown, but kept as a file, in bytes. */
const shownAtMost = 2 << 20;

export function Output({ run }: { run: Run }) {
  const attempts = (run.attempts ?? []).filter((a) => a.outcome);
  const [attempt, setAttempt] = useState<number | undefined>(undefined);
  const live = useLive(
    attempts.length === 0 ? null : `output ${run.id} ${attempt ?? ''} ${attempts.length}`,
    async (signal) => {
      const response = await askFor(`/v1/runs/${run.id}/output`, { query: { attempt }, signal });
      const blob = await response.blob();
      const binary = response.headers.get('Content-Type')?.startsWith('application/octet-stream') ?? false;
      return {
        blob,
        binary,
        text: binary || blob.size > shownAtMost ? undefined : await blob.text(),
        cut: response.headers.get('Carillon-Output-Cut') === 'true',
        attempt: response.headers.get('Carillon-Attempt'),
      };
    },
    { every: 0 },
  );
  if (attempts.length === 0) {
    return <p class="muted">No attempt has ended yet: there is no output.</p>;
  }
  return (
    <div class="stack">
      {attempts.length > 1 && (
        <Field label="Of the attempt">
          {(input) => (
            <select {...input} onChange={(e) => setAttempt(Number(e.currentTarget.value) || undefined)}>
              <option value="">that decided</option>
              {attempts.map((a) => (
                <option key={a.number} value={a.number} selected={a.number === attempt}>
                  {a.number}, {a.outcome}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      <Answered live={live} what="outputs">
        {(out) => (
          <>
            <p class="muted">
              {bytes(out.blob.size)}
              {out.attempt !== null && `, of attempt ${out.attempt}`}
              {out.cut && '. There was more than is kept.'}
              {out.binary && '. It is no text.'}
            </p>
            {out.text === undefined ? (
              <p>
                <button type="button" class="button" onClick={() => saveFile(`${run.id}.out`, out.blob)}>
                  Save as a file
                </button>
              </p>
            ) : out.text === '' ? (
              <p class="muted">It is empty.</p>
            ) : (
              <TextView label="Output" text={pretty(out.text)} json={isJson(out.text)} file={`${run.id}.txt`} />
            )}
          </>
        )}
      </Answered>
    </div>
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function pretty(text: string): string {
  return isJson(text) && text.length < 200_000 ? JSON.stringify(JSON.parse(text), null, 2) : text;
}
