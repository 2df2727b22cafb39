// One run: how it stands and why, its life as a bar, its attempts, what it was given and what it said.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask, askFor, askWithText, newKey } from '../api/client';
import { fast, slow, useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import type { Problem } from '../api/problem';
import { may, maySee, maySeeAll } from '../api/session';
import type { Attempt, AuditEntry, Job, Run } from '../api/types';
import { now, serverNow } from '../clock';
import { memberText } from '../json';
import { lateFromMs } from '../lateness';
import { lifeOf, type Stretch } from '../life';
import { confirm } from '../parts/Confirm';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Dialog } from '../parts/Dialog';
import { Facts } from '../parts/Facts';
import { AreaField, Field } from '../parts/Field';
import { Icon } from '../parts/Icon';
import { JsonView, saveFile, TextView } from '../parts/JsonView';
import { LogTail } from '../parts/LogTail';
import { Answered, Missing, Panel } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { LateBy, Took } from '../parts/RunCells';
import { lookOf, StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { hasEnded, lastAttempt, missedWord, nameOf, whyItWaits } from '../runs';
import { coarse, spanText } from '../time';
import { bytes, count } from '../words';

interface Shown {
  run: Run;
  /** Its payload as it is written; undefined: it has none. */
  payload: string | undefined;
}

async function load(id: string, signal: AbortSignal): Promise<Shown> {
  const { data, text } = await askWithText<Run>(`/v1/runs/${encodeURIComponent(id)}`, { signal });
  return { run: data, payload: memberText(text, 'payload') };
}

export function RunView({ params }: ViewParams) {
  const id = params.id ?? '';
  const [over, setOver] = useState(false);
  const live = useLive(`shown run ${id}`, (signal) => load(id, signal), { every: over ? slow : fast });
  const run = live.data?.run;
  useEffect(() => {
    if (run) {
      setOver(hasEnded(run));
      if (run.workflow) {
        go(`/workflow-runs/${run.id}`, {}, { replace: true });
      }
    }
  }, [run]);
  return (
    <View
      title={run ? nameOf(run) : 'Run'}
      badge={run && <StateBadge state={run.state} />}
      above={[['Runs', '/runs']]}
      about={<Id text={id} />}
      actions={
        <>
          {live.data && <Actions {...live.data} />}
          <CopyCurl path={`/v1/runs/${id}`} />
        </>
      }
    >
      {live.problem?.status === 404 && !run ? (
        <Gone id={id} problem={live.problem} />
      ) : (
        <Answered live={live} what="this run">
          {(shown) => <Parts {...shown} />}
        </Answered>
      )}
    </View>
  );
}

function Gone({ id, problem }: { id: string; problem: Problem }) {
  return (
    <Panel title="There is no such run">
      <p>{problem.detail || problem.title}</p>
      <p>
        A run leaves some time after its end. If it failed for good it may still lie in the{' '}
        <a href={href(`/dead-letters/${id}`)}>dead letters</a>. It may also be one of another tenant.
      </p>
    </Panel>
  );
}

function Actions({ run, payload }: Shown) {
  const action = useAction({ loud: true });
  const [key] = useState(newKey);
  const [editing, setEditing] = useState(false);
  if (!may('operator')) {
    return null;
  }
  const cancel = async (): Promise<void> => {
    const yes = await confirm({
      title: 'Cancel this run?',
      children: (
        <p>
          {run.state === 'running'
            ? 'Its worker is told to stop. What it has done until then stays done.'
            : 'It will not start. That cannot be taken back; it can be run again as a new run.'}
        </p>
      ),
      action: 'Cancel the run',
      danger: true,
    });
    if (yes) {
      await action.run(
        () => answer(api.POST('/v1/runs/{id}/cancel', { params: { path: { id: run.id } } })),
        'The run is cancelled.',
      );
    }
  };
  const retry = async (): Promise<void> => {
    const again = await action.run(
      () =>
        answer(
          api.POST('/v1/runs/{id}/retry', {
            params: { path: { id: run.id }, header: { 'Idempotency-Key': `${key}-${run.state}` } },
          }),
        ),
      'It runs again, as this new run.',
    );
    if (again) {
      go(`/runs/${again.id}`);
    }
  };
  const step = run.workflow_run_id !== undefined;
  return (
    <>
      {!hasEnded(run) && (
        <button type="button" class="button danger-quiet" disabled={action.busy} onClick={() => void cancel()}>
          Cancel
        </button>
      )}
      {hasEnded(run) && !step && (
        <button type="button" class="button primary" disabled={action.busy} onClick={() => void retry()}>
          <Icon name="again" /> Run again
        </button>
      )}
      {!step && (
        <button type="button" class="button" onClick={() => setEditing(true)}>
          Edit and run again
        </button>
      )}
      {editing && <EditAndRun run={run} payload={payload} onClose={() => setEditing(false)} />}
    </>
  );
}

function Parts({ run, payload }: Shown) {
  const attempts = run.attempts ?? [];
  return (
    <>
      <Why run={run} />
      {(run.lateness_ms ?? 0) > lateFromMs && <StartedLate run={run} />}
      <div class="columns">
        <Panel title="Its life">
          <LifeBar run={run} />
        </Panel>
        <Panel title="Facts">
          <RunFacts run={run} />
        </Panel>
      </div>
      <Panel title={count(attempts.length, 'attempt')}>
        <Attempts attempts={attempts} />
      </Panel>
      <section class="panel" aria-label="Log, output and payload">
        <Tabs
          label="What it said, and what it was given"
          tabs={[
            { id: 'log', title: 'Log', content: () => <LogTail run={run.id} /> },
            { id: 'output', title: 'Output', content: () => <Output run={run} /> },
            {
              id: 'payload',
              title: 'Payload',
              content: () =>
                payload === undefined ? (
                  <p class="muted">It was given no payload.</p>
                ) : (
                  <TextView label="Payload" text={payload} json />
                ),
            },
            { id: 'json', title: 'As JSON', content: () => <JsonView label="Run" value={run} /> },
          ]}
        />
      </section>
    </>
  );
}

/** The first thing to read: why it waits, or how it ended. */
function Why({ run }: { run: Run }) {
  const at = Math.floor(now.value / 1000) * 1000;
  const wait = whyItWaits(run, at);
  if (run.fault) {
    return <Note tone="bad">What is stored of its last attempt is not understood: {run.fault}</Note>;
  }
  if (run.state === 'missed') {
    return (
      <Note tone="bad">
        {missedText(run)}
        {run.missed && run.missed.count > 1 && (
          <>
            {' '}
            It stands for {count(run.missed.count, 'time')} from <TimeLabel at={run.missed.from} /> to{' '}
            <TimeLabel at={run.missed.to} />.
          </>
        )}{' '}
        {missedWord(run) === 'skipped' ? (
          <>
            How many may be under way at once, and what becomes of others, says <JobLink run={run} />.{' '}
            <a href={href('/runs', { job: run.job_name || run.job_id, ...around(run) })}>What was under way then?</a>
          </>
        ) : (
          <>
            What becomes of late runs is the misfire policy of <JobLink run={run} />.
          </>
        )}
      </Note>
    );
  }
  if (run.state === 'failed') {
    const last = lastAttempt(run);
    return (
      <Note tone="bad">
        It failed for good after {count(run.attempts?.length ?? 0, 'attempt')}
        {last?.error ? (
          <>
            : <bdi>{last.error}</bdi>.
          </>
        ) : (
          '.'
        )}
        {run.dead_letter && (
          <>
            {' '}
            It lies in the <a href={href(`/dead-letters/${run.id}`)}>dead letters</a>.
          </>
        )}
      </Note>
    );
  }
  if (run.state === 'cancelled') {
    return (
      <Note tone="still">
        It was cancelled{run.cancel_reason ? `: ${run.cancel_reason}` : <CancelledBy run={run} />}.
      </Note>
    );
  }
  if (run.state === 'skipped') {
    return <Note tone="still">It never starts: {run.reason ?? 'it was skipped'}.</Note>;
  }
  if (run.state === 'running') {
    const progress = run.progress;
    return progress ? (
      <Note tone="run">
        It is under way: {progress.total ? `${progress.done} of ${progress.total}` : `${progress.done} done`}
        {progress.text && (
          <>
            , <bdi>{progress.text}</bdi>
          </>
        )}{' '}
        (told <TimeLabel at={progress.at} relative />)
        {progress.total !== undefined && progress.total > 0 && (
          <progress max={progress.total} value={Math.min(progress.done, progress.total)} aria-label="Progress" />
        )}
      </Note>
    ) : null;
  }
  if (!wait) {
    return null;
  }
  const tone = wait.word === 'late' || run.state === 'stuck' ? 'bad' : wait.word === 'due' ? 'still' : 'warn';
  return (
    <Note tone={tone}>
      <strong>{run.state === 'stuck' ? 'Stuck: ' : 'It waits: '}</strong>
      {wait.text}
      {wait.until && (
        <>
          {' '}
          {wait.word === 'due' ? 'It is due' : 'It is tried'} at <TimeLabel at={wait.until} relative millis />.
        </>
      )}{' '}
      <WaitLink run={run} word={wait.word} />
      <PausedJob run={run} />
    </Note>
  );
}

function missedText(run: Run): string {
  const said = run.missed?.reason ? ` (${run.missed.reason})` : '';
  switch (missedWord(run)) {
    case 'skipped':
      return 'It was skipped: as many runs of its job were under way as may be, and the job says that others are skipped then.';
    case 'changed':
      return `It never started: its job was changed, paused or cancelled before it could${said}.`;
    case 'fault':
    case 'unreadable':
      return `It never started: what is stored of it, or of its job, cannot be read${said}.`;
    default:
      return `It never started: it was so late that its job gave it up${said}.`;
  }
}

function around(run: Run): Record<string, string> {
  const due = Date.parse(run.due_at);
  return { from: new Date(due - 300_000).toISOString(), to: new Date(due + 300_000).toISOString() };
}

/** Who cancelled it, which the audit log knows. */
function CancelledBy({ run }: { run: Run }) {
  const live = useLive(
    maySee('admin') ? `who cancelled ${run.id}` : null,
    async (signal) => {
      const from = new Date(Date.parse(run.finished_at ?? run.due_at) - 86_400_000).toISOString();
      const page = await gather(
        (cursor) =>
          ask<PageLike<AuditEntry>>('/v1/audit', {
            query: { object: `run/${run.id}`, from, limit: 50, cursor },
            signal,
          }),
        '',
        1,
      );
      return page.items.find((e) => e.action === 'cancel') ?? null;
    },
    { every: 0 },
  );
  return live.data ? (
    <>
      {' '}
      by <bdi>{live.data.actor}</bdi> at <TimeLabel at={live.data.at} relative />
    </>
  ) : (
    <>, because somebody asked for it</>
  );
}

/** Whether it was late alone, or with others: the first thing to know of why. */
function StartedLate({ run }: { run: Run }) {
  return (
    <Note tone="warn">
      It started <strong>{spanText(run.lateness_ms ?? 0)} late</strong>.{' '}
      <a href={href('/runs', { ...around(run), late: '1s' })}>What else was late about then?</a>
    </Note>
  );
}

function Note({ tone, children }: { tone: 'bad' | 'warn' | 'still' | 'run'; children: ComponentChildren }) {
  const icon = { bad: 'cross', warn: 'clock', still: 'ring', run: 'play' } as const;
  return (
    <div class={`note tone-${tone} toned-note`}>
      <Icon name={icon[tone]} />
      <div class="note-body">
        <p>{children}</p>
      </div>
    </div>
  );
}

function WaitLink({ run, word }: { run: Run; word: string }) {
  switch (word) {
    case 'rate':
    case 'limit':
      return run.task ? (
        <a href={href(pathTo('/tasks/:name', { name: run.task }))}>The task says how many may run.</a>
      ) : null;
    case 'concurrency':
      return (
        <a href={href('/runs', { job: run.job_name || run.job_id, state: 'running', last: '24h' })}>
          The runs of its job that are under way.
        </a>
      );
    case 'jobs':
      return <JobLink run={run} />;
    case 'breaker':
    case 'target_share':
    case 'tenant_share':
      return <a href={href('/tasks', { tab: 'targets' })}>How its target does.</a>;
    case 'late':
      return maySeeAll() ? <a href={href('/cluster')}>Is the cluster well?</a> : null;
    default:
      return null;
  }
}

/** Runs of a paused job do not start, and do not say so themselves. */
function PausedJob({ run }: { run: Run }) {
  const recurring = run.job_id !== undefined && run.job_id !== run.id;
  const id = run.job_id ?? '';
  const job = useLive(
    recurring && run.state === 'pending' ? `job ${id}` : null,
    (signal) => answer(api.GET('/v1/jobs/{id}', { params: { path: { id } }, signal })),
    { every: slow },
  );
  return job.data?.state === 'paused' ? (
    <>
      {' '}
      <strong>Its job is paused</strong>: it does not start before <JobLink run={run} /> is resumed.
    </>
  ) : null;
}

function JobLink({ run }: { run: Run }) {
  const job = run.job_name || run.job_id;
  return job ? <a href={href(pathTo('/jobs/:id', { id: job }))}>{run.job_name || 'its job'}</a> : <>its job</>;
}

function LifeBar({ run }: { run: Run }) {
  // It moves while it is not over.
  const at = hasEnded(run) ? serverNow() : now.value;
  const life = lifeOf(run, at);
  const whole = life.end - life.begin;
  const place = (t: number): number => ((t - life.begin) / whole) * 100;
  return (
    <div class="life">
      <div class="life-bar" aria-hidden="true">
        {life.stretches.map((s, i) => (
          <span
            key={i}
            class={`life-stretch ${s.kind} ${s.open ? 'open' : ''} tone-${toneOf(s, run)}`}
            style={{ left: `${place(s.from)}%`, width: `${Math.max(place(s.to) - place(s.from), 0.4)}%` }}
            title={titleOf(s)}
          />
        ))}
      </div>
      <ol class="life-moments">
        {life.moments.map((m, i) => {
          const before = life.moments[i - 1];
          return (
            <li key={i} class={m.expected ? 'muted' : undefined}>
              <TimeLabel at={m.at} millis />
              <span class={m.tone ? `toned tone-${lookOf(m.tone).tone}` : undefined}>
                {m.words}
                {m.expected ? ' (expected)' : ''}
              </span>
              <span class="muted">{before ? `${spanText(m.at - before.at)} later` : ''}</span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function toneOf(s: Stretch, run: Run): string {
  if (s.kind === 'attempt') {
    return lookOf(s.outcome ?? 'running').tone;
  }
  if (['wait', 'queued', 'received'].includes(s.kind) && s.to - s.from > 1000) {
    return run.waiting ? 'warn' : 'bad';
  }
  return 'still';
}

function titleOf(s: Stretch): string {
  const words = {
    ahead: 'until it is due',
    wait: 'waited',
    queued: 'published, until an executor received it',
    received: 'with an executor, until it began',
    attempt: `attempt ${s.number}`,
    pause: 'pause',
  }[s.kind];
  return `${words}: ${spanText(s.to - s.from)}`;
}

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

/** What it calls, and the other runs that call the same host. */
function Calls({ run }: { run: Run }) {
  const host = /:\/\/([^/]+)/.exec(run.calls ?? '')?.[1];
  return (
    <>
      <bdi class="error-text">{run.calls}</bdi>
      {run.task && <span class="muted"> as its task says now</span>}
      {host && (
        <>
          {' '}
          <a href={href('/runs', { host: host.toLowerCase(), ...around(run) })}>Runs that call this host</a>
        </>
      )}
    </>
  );
}

function RunFacts({ run }: { run: Run }) {
  return (
    <Facts
      facts={[
        ['Job', run.job_id !== undefined && run.job_id !== run.id ? <JobLink run={run} /> : 'a one-off job'],
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
        ['Event', run.event && <a href={href('/runs', { event: run.event.id })}>{run.event.name}</a>],
        ['Again of', run.origin && <a href={href(`/runs/${run.origin}`)}>{run.origin}</a>],
        ['Due', <TimeLabel at={run.due_at} millis relative />],
        ['Started late by', run.lateness_ms !== undefined && <LateBy run={run} />],
        ['Took', run.started_at && <Took run={run} />],
        ['Priority', run.priority],
        ['Ends at the latest', run.deadline_at && <TimeLabel at={run.deadline_at} relative />],
        ['Trace id', <Id text={run.id.replaceAll('-', '')} />],
      ]}
    />
  );
}

function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
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

function Output({ run }: { run: Run }) {
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

/** What a run does, as a new one-off job would state it, without its payload. */
function bodyOf(run: Run, job: Job | undefined): Record<string, unknown> {
  const body: Record<string, unknown> = { priority: run.priority };
  if (run.task) {
    body.task = run.task;
  } else if (job) {
    for (const name of ['http', 'nats', 'script', 'lambda', 'timeout', 'retry', 'guarantee'] as const) {
      if (job[name] !== undefined) {
        body[name] = job[name];
      }
    }
  }
  if (run.labels) {
    body.labels = run.labels;
  }
  return body;
}

function EditAndRun({ run, payload, onClose }: Shown & { onClose: () => void }) {
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
