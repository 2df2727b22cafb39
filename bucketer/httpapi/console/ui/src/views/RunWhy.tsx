// The first thing to read of a run: why it waits, or how it ended.

import type { ComponentChildren } from 'preact';
import { useAuditEntry } from '../api/audit';
import { answer, api, ask } from '../api/client';
import { slow, useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import { maySeeAll } from '../api/session';
import type { Run } from '../api/types';
import { now } from '../clock';
import { Note } from '../parts/Note';
import { around, JobLink } from '../parts/RunLinks';
import { TimeLabel } from '../parts/TimeLabel';
import { pathTo } from '../place';
import { href } from '../router';
import { errorOf, missedWord, whyItWaits } from '../runs';
import { spanText } from '../time';
import { count, rateWords, whyOf } from '../words';

/** `cancel` stands beside why it waits. */
export function Why({ run, cancel }: { run: Run; cancel: ComponentChildren }) {
  const at = Math.floor(now.value / 1000) * 1000;
  const wait = whyItWaits(run, at);
  if (run.fault) {
    return <Note tone="bad" icon="cross">What is stored of its last attempt is not understood: {run.fault}</Note>;
  }
  if (run.state === 'missed') {
    return (
      <Note tone="bad" icon="cross">
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
    const error = errorOf(run);
    return (
      <Note tone="bad" icon="cross">
        It failed for good after {count(run.attempts?.length ?? 0, 'attempt')}
        {error ? (
          <>
            : <bdi>{error}</bdi>.
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
        {run.replayed_as && (
          <>
            {' '}
            It was replayed: <a href={href(`/runs/${run.replayed_as}`)}>its new run</a>.
          </>
        )}
      </Note>
    );
  }
  if (run.state === 'cancelled') {
    return (
      <Note tone="still" icon="ring">
        It was cancelled{run.cancel_reason ? `: ${run.cancel_reason}` : <CancelledBy run={run} />}.
        {run.waiting && (
          <>
            {' '}
            Until then it waited, since <TimeLabel at={run.waiting.since} />: {whyOf(run.waiting.reason).meaning}{' '}
            <WaitLink run={run} word={whyOf(run.waiting.reason).word} />
          </>
        )}
      </Note>
    );
  }
  if (run.state === 'skipped') {
    return <Note tone="still" icon="ring">It never starts: {run.reason ?? 'it was skipped'}.</Note>;
  }
  if (run.state === 'running') {
    const progress = run.progress;
    return progress ? (
      <Note icon="play">
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
    <Note tone={tone} icon="clock" more={wait.word === 'due' ? undefined : cancel}>
      <strong>{run.state === 'stuck' ? 'Stuck: ' : 'It waits: '}</strong>
      {wait.text}
      <LimitOf run={run} word={wait.word} />
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

/** Runs before it that are counted, and how long before it they may be due, in ms. */
const countedAtMost = 500;
const aheadSpan = 3_600_000;

/** What the limit is that it waits for, and how many runs of its task are due before it and wait, too. */
function LimitOf({ run, word }: { run: Run; word: string }) {
  const limited = (word === 'rate' || word === 'limit') && run.task !== undefined;
  const name = run.task ?? '';
  const task = useLive(
    limited ? `task ${name}` : null,
    (signal) => answer(api.GET('/v1/tasks/{name}', { params: { path: { name } }, signal })),
    { every: slow },
  );
  const ahead = useLive<PageLike<Run>>(
    limited ? `before ${run.id}` : null,
    (signal) => {
      // A list begins with those that are due first, and walks its window bit by bit.
      const query = { from: new Date(Date.parse(run.due_at) - aheadSpan).toISOString(), to: run.due_at, task: name, state: ['pending', 'retrying'], limit: countedAtMost };
      return gather((cursor) => ask<PageLike<Run>>('/v1/runs', { query: { ...query, cursor }, signal }), '', countedAtMost, 8);
    },
    { every: slow },
  );
  if (!limited) {
    return null;
  }
  const before = (ahead.data?.items ?? []).filter((r) => r.waiting && whyOf(r.waiting.reason).word === word).length;
  return (
    <>
      {task.data && (
        <>
          {' '}
          {word === 'rate'
            ? task.data.rate && `The task ${name} may start ${rateWords(task.data.rate)}.`
            : task.data.max_concurrent && `The task ${name} may have ${count(task.data.max_concurrent, 'run')} under way at once.`}
        </>
      )}
      {ahead.data && (before > 0 || !ahead.data.next_cursor) && (
        <>
          {' '}
          {before === 0
            ? 'No run of the task that was due in the hour before it waits.'
            : `${count(before, 'run')}${ahead.data.next_cursor ? ' or more' : ''} of the task ${before === 1 ? 'was' : 'were'} due before it and ${before === 1 ? 'waits' : 'wait'}, too.`}
        </>
      )}
    </>
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

/** Who cancelled it, which the audit log knows. */
function CancelledBy({ run }: { run: Run }) {
  const at = Date.parse(run.finished_at ?? run.due_at);
  const about = { object: `run/${run.id}`, from: at - 86_400_000, to: at + 60_000 };
  const entry = useAuditEntry(`who cancelled ${run.id}`, about, (e) => e.action === 'cancel');
  return entry ? (
    <>
      {' '}
      by <bdi>{entry.actor}</bdi> at <TimeLabel at={entry.at} relative />
    </>
  ) : (
    <>, because somebody asked for it</>
  );
}

/** Why it was late: what held it back, or else whether it was late alone or with others. */
export function StartedLate({ run }: { run: Run }) {
  const why = run.waited && whyOf(run.waited.reason);
  return (
    <Note tone="warn" icon="clock">
      It started <strong>{spanText(run.lateness_ms ?? 0)} late</strong>.{' '}
      {why && (
        <>
          Until then it waited: {why.meaning} <WaitLink run={run} word={why.word} />{' '}
        </>
      )}
      <a href={href('/runs', { ...around(run), late: '1s' })}>What else was late about then?</a>
    </Note>
  );
}

function WaitLink({ run, word }: { run: Run; word: string }) {
  switch (word) {
    case 'rate':
    case 'slot':
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
    case 'region':
    case 'pool':
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
