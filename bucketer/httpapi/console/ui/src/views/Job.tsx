// One job: when it runs next and why it did not, what became of its runs, how it was changed, and all
// that can be done with it.

import { useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask, newKey } from '../api/client';
import { steady, useLive } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import { may, maySee } from '../api/session';
import type { AuditEntry, Job, NextRun, Preview, Run } from '../api/types';
import { serverNow } from '../clock';
import { canRepeat, nameOfJob, pausesOf, previewOf, requestOf, whyNot, workWords, zoneOfJob, type Pause } from '../jobs';
import { auditKept, Changes } from '../parts/Changes';
import { confirm } from '../parts/Confirm';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Facts, Labels } from '../parts/Facts';
import { TextField } from '../parts/Field';
import { FilterBar } from '../parts/FilterBar';
import { FormDialog } from '../parts/FormDialog';
import { Icon } from '../parts/Icon';
import { JsonView } from '../parts/JsonView';
import { Notes } from '../parts/Notes';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { LateBy, Said, Took } from '../parts/RunCells';
import { lookOf, StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { Ago, TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { viewerZone, zoneFor } from '../preferences';
import { go, href, queryValue, queryValues, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { hasEnded, runStates } from '../runs';
import {
  clockNotes,
  durationText,
  inputText,
  instantOf,
  labelOf,
  offsetWords,
  parseSpan,
  spanText,
  timeText,
} from '../time';
import { count, limitWords, misfireWords, percent, scheduleWords } from '../words';

const minute = 60_000;

export function JobView({ params }: ViewParams) {
  const id = params.id ?? '';
  const live = useLive(
    `job ${id}`,
    (signal) => answer(api.GET('/v1/jobs/{id}', { params: { path: { id } }, signal })),
    {
      every: steady,
    },
  );
  const job = live.data;
  return (
    <View
      title={job ? nameOfJob(job) : id}
      badge={job && <StateBadge state={job.state} />}
      above={[['Jobs', '/jobs']]}
      about={job && `Runs ${scheduleWords(job)}. Does ${workWords(job)}.`}
      actions={
        <>
          {job && <Actions job={job} />}
          <CopyCurl path={pathTo('/v1/jobs/:id', { id })} />
        </>
      }
    >
      <Answered live={live} what="this job">
        {(j) => (
          <>
            {j.fault && (
              <div class="note bad" role="alert">
                <Icon name="warning" />
                <p>
                  It does not go on, though it is {j.state}: {j.fault}
                </p>
              </div>
            )}
            <Tabs
              label="Of the job"
              tabs={[
                { id: 'next', title: 'Now and next', content: () => <NowAndNext job={j} /> },
                { id: 'history', title: 'History', content: () => <History job={j} /> },
                {
                  id: 'revisions',
                  title: 'Revisions',
                  content: () => <Changes object={`job/${nameOfJob(j)}`} since={j.created_at} of={j} />,
                },
                { id: 'definition', title: 'Definition', content: () => <JsonView label="Job" value={j} /> },
              ]}
            />
          </>
        )}
      </Answered>
    </View>
  );
}

function Actions({ job }: { job: Job }) {
  const action = useAction({ loud: true });
  const [backfilling, setBackfilling] = useState(false);
  if (!may('operator') || job.state === 'cancelled') {
    return null;
  }
  const path = { path: { id: job.id } };
  const repeats = canRepeat(job);
  const name = nameOfJob(job);
  const trigger = async (): Promise<void> => {
    const run = await action.run(
      () => answer(api.POST('/v1/jobs/{id}/trigger', { params: { ...path, header: { 'Idempotency-Key': newKey() } } })),
      'It runs now.',
    );
    if (run) {
      go(`/runs/${run.id}`);
    }
  };
  const cancel = async (): Promise<void> => {
    const yes = await confirm({
      title: `Cancel the job ${name}?`,
      children: (
        <p>It has no more runs, and cannot be resumed. That cannot be taken back. To stop it for a while, pause it.</p>
      ),
      action: 'Cancel the job',
      danger: true,
      ...(job.name ? { typed: job.name } : {}),
    });
    if (yes) {
      await action.run(() => answer(api.DELETE('/v1/jobs/{id}', { params: path })), 'The job is cancelled.');
    }
  };
  return (
    <>
      {repeats && job.state === 'active' && (
        <button
          type="button"
          class="button"
          disabled={action.busy}
          onClick={() =>
            void action.run(() => answer(api.POST('/v1/jobs/{id}/pause', { params: path })), 'The job is paused.')
          }
        >
          <Icon name="pause" /> Pause
        </button>
      )}
      {repeats && job.state === 'paused' && (
        <button
          type="button"
          class="button primary"
          disabled={action.busy}
          onClick={() =>
            void action.run(
              () => answer(api.POST('/v1/jobs/{id}/resume', { params: path })),
              'The job goes on from now.',
            )
          }
        >
          <Icon name="play" /> Resume
        </button>
      )}
      {repeats && job.state !== 'finished' && (
        <button type="button" class="button" disabled={action.busy} onClick={() => void trigger()}>
          <Icon name="play" /> Run now
        </button>
      )}
      {repeats && !job.on && !job.after && job.state !== 'finished' && (
        <button type="button" class="button" onClick={() => setBackfilling(true)}>
          Backfill
        </button>
      )}
      {job.state !== 'finished' && (
        <>
          <a class="button" href={href(pathTo('/jobs/:id/edit', { id: name }))}>
            Edit
          </a>
          <button type="button" class="button danger-quiet" disabled={action.busy} onClick={() => void cancel()}>
            Cancel
          </button>
        </>
      )}
      {backfilling && <BackfillDialog job={job} onClose={() => setBackfilling(false)} />}
    </>
  );
}

function NowAndNext({ job }: { job: Job }) {
  return (
    <>
      <div class="columns">
        <Upcoming job={job} />
        <Panel title="Facts">
          <JobFacts job={job} />
        </Panel>
      </div>
      <Latest job={job} />
      {canRepeat(job) && <WhyNot job={job} />}
    </>
  );
}

function Upcoming({ job }: { job: Job }) {
  const live = useLive(
    `upcoming ${job.id}`,
    (signal) =>
      answer(api.GET('/v1/jobs/{id}/upcoming', { params: { path: { id: job.id }, query: { count: 10 } }, signal })),
    { every: steady },
  );
  const asked = previewOf(requestOf(job));
  const notes = useLive(
    asked ? `notes ${job.id} ${job.generation}` : null,
    (signal) => ask<Preview>('/v1/schedules/preview', { method: 'POST', body: { ...asked, count: 1 }, signal }),
    { every: 0 },
  );
  const own = zoneOfJob(job);
  const viewer = viewerZone.value;
  const both = own !== undefined && own !== viewer;
  const columns: (Column<NextRun> | false)[] = [
    { head: both ? `${own}, the job’s zone` : viewer, kind: 'main', cell: (n) => <InZone at={n.due_at} zone={own ?? viewer} /> },
    both && { head: viewer, cell: (n) => <InZone at={n.due_at} zone={viewer} /> },
    { head: 'That is', minor: true, cell: (n) => <Ago at={n.due_at} /> },
  ];
  return (
    <Panel title="Next runs" live={live} every={steady}>
      <Answered live={live} what="the next runs">
        {(list) => {
          const items = list.items ?? [];
          const last = items.at(-1);
          const offset = last ? Date.parse(last.due_at) - Date.parse(last.nominal_at) : 0;
          const changes = last ? clockNotes(serverNow(), Date.parse(last.due_at) + minute, [viewer, own ?? viewer]) : [];
          return (
            <>
              <Table
                caption="The next ten runs"
                columns={columns.filter((c): c is Column<NextRun> => c !== false)}
                rows={items}
                rowKey={(n) => n.id}
                empty={<NoNext job={job} />}
              />
              {offset > 0 && <p>Each is due {spanText(offset)} after its time, by the jitter of the job.</p>}
              <Notes notes={[...changes, ...(notes.data?.notes ?? [])]} />
            </>
          );
        }}
      </Answered>
    </Panel>
  );
}

function InZone({ at, zone }: { at: string; zone: string }) {
  const label = labelOf(at, zone, { now: serverNow(), weekday: true });
  return (
    <time class="time" dateTime={at}>
      {label.day} {label.clock} <span class="time-zone">{label.offset}</span>
    </time>
  );
}

function NoNext({ job }: { job: Job }) {
  const why =
    job.state === 'paused'
      ? 'It is paused: it has no runs until it is resumed.'
      : job.state !== 'active'
        ? `It is ${job.state}.`
        : job.on
          ? `It runs when the event ${job.on.event} comes.`
          : job.after
            ? 'It runs when the jobs end that it runs after.'
            : canRepeat(job)
              ? 'Its schedule names no more times.'
              : 'It has run, or runs now.';
  return <p class="muted">{why}</p>;
}

function JobFacts({ job }: { job: Job }) {
  const zone = zoneOfJob(job);
  const { schedule, concurrency, misfire, retry } = job;
  return (
    <Facts
      facts={[
        ['Runs', scheduleWords(job)],
        ['Its run', !canRepeat(job) && <a href={href(`/runs/${job.id}`)}>{job.id}</a>],
        ['Cron', schedule.cron && <code>{schedule.cron}</code>],
        ['Zone', zone && `${zone}, now ${offsetWords(serverNow(), zone)}`],
        ['In a gap of the clock', schedule.cron && (schedule.gap === 'skip' ? 'skipped' : 'run at its end')],
        [
          'In an hour that is twice',
          schedule.cron &&
            `run the ${schedule.overlap_hour === 'both' ? 'first and the second' : (schedule.overlap_hour ?? 'first')} time`,
        ],
        ['Filter', job.on?.filter && <code>{job.on.filter}</code>],
        ['Once', schedule.at && <TimeLabel at={schedule.at} millis relative />],
        ['Begins', job.start && <TimeLabel at={job.start} zone={zone} relative />],
        ['Ends', job.end && <TimeLabel at={job.end} zone={zone} relative />],
        ['Runs at most', job.max_runs ? count(job.max_runs, 'time') : undefined],
        [
          'Jitter',
          job.jitter &&
            (durationText(job.jitter) === 'none' ? 'none' : `an offset of its own, below ${durationText(job.jitter)}`),
        ],
        ['If it is late', misfireWords(misfire)],
        ['At once', concurrency && limitWords(concurrency)],
        [
          'Does',
          job.task ? (
            <a href={href(pathTo('/tasks/:name', { name: job.task }))}>task {job.task}</a>
          ) : (
            <bdi>{workWords(job)}</bdi>
          ),
        ],
        ['Time-out', job.timeout && durationText(job.timeout)],
        [
          'Attempts',
          retry &&
            `up to ${retry.max_attempts}, pauses from ${durationText(retry.initial)} to ${durationText(retry.max)}`,
        ],
        ['Guarantee', job.guarantee?.replaceAll('_', ' ')],
        ['Priority', job.priority],
        ['Labels', job.labels && <Labels labels={job.labels} hrefOf={(label) => href('/jobs', { label })} />],
        ['Created', <TimeLabel at={job.created_at} relative />],
        ['Changed', job.updated_at !== job.created_at && <TimeLabel at={job.updated_at} relative />],
        ['Id', <Id text={job.id} />],
      ]}
    />
  );
}

function useRuns(job: Job, limit: number): ReturnType<typeof useLive<PageLike<Run>>> {
  return useLive<PageLike<Run>>(
    `latest runs ${job.id} ${limit}`,
    (signal) => ask<PageLike<Run>>(`/v1/jobs/${job.id}/runs`, { query: { limit }, signal }),
    { every: steady },
  );
}

function Latest({ job }: { job: Job }) {
  const live = useRuns(job, 8);
  return (
    <Panel
      title="Latest runs"
      live={live}
      every={steady}
      actions={<a href={href(pathTo('/jobs/:id', { id: nameOfJob(job) }), { tab: 'history' })}>All of them</a>}
    >
      <Answered live={live} what="runs of this job">
        {(page) => <RunTable runs={page.items ?? []} job={job} />}
      </Answered>
    </Panel>
  );
}

function RunTable({ runs, job }: { runs: readonly Run[]; job: Job }) {
  const zone = zoneOfJob(job);
  const columns: Column<Run>[] = [
    { head: 'Due', kind: 'main', cell: (run) => <TimeLabel at={run.due_at} zone={zone} /> },
    { head: 'State', cell: (run) => <StateBadge state={run.state} /> },
    { head: 'Late by', kind: 'number', cell: (run) => <LateBy run={run} /> },
    { head: 'Took', kind: 'number', cell: (run) => <Took run={run} /> },
    { head: 'What is known', cell: (run) => <Said run={run} /> },
  ];
  return (
    <Table
      caption="Runs of the job"
      columns={columns}
      rows={runs}
      rowKey={(run) => run.id}
      rowHref={(run) => href(`/runs/${run.id}`)}
      empty={<p class="muted">It has had no runs.</p>}
    />
  );
}

/** Changes of a job that the audit log tells of, the latest first; undefined: not asked, not known, or not shown. */
function useAudit(job: Job, asked = true): readonly AuditEntry[] | undefined {
  const object = `job/${nameOfJob(job)}`;
  const begin = Math.max(Date.parse(job.created_at) - minute, serverNow() - auditKept);
  const live = useLive(
    asked && maySee('admin') && canRepeat(job) ? `audit of ${object} ${job.updated_at}` : null,
    async (signal) => {
      const page = await gather(
        (cursor) =>
          ask<PageLike<AuditEntry>>('/v1/audit', {
            query: { object, from: new Date(begin).toISOString(), limit: 500, cursor },
            signal,
          }),
        '',
        500,
        8,
      );
      return page.items;
    },
    { every: 0 },
  );
  return live.data;
}

function PauseText({ pause, zone }: { pause: Pause; zone: string | undefined }) {
  return (
    <>
      from <TimeLabel at={pause.from} zone={zone} /> (by <bdi>{pause.by}</bdi>){' '}
      {pause.to === undefined ? (
        'until now'
      ) : (
        <>
          to <TimeLabel at={pause.to} zone={zone} /> (resumed by <bdi>{pause.resumedBy}</bdi>)
        </>
      )}
    </>
  );
}

/** Answers "why did it not run at nine?". */
function WhyNot({ job }: { job: Job }) {
  const zone = zoneFor(zoneOfJob(job));
  const asked = queryValue('at');
  const [typed, setTyped] = useState(asked === '' ? '' : inputText(asked, zone));
  const [fault, setFault] = useState('');
  const audit = useAudit(job, asked !== '');
  const at = asked === '' ? undefined : Date.parse(asked);
  const live = useLive(
    at === undefined ? null : `why not ${job.id} ${at}`,
    async (signal) => {
      const schedule = previewOf(requestOf(job))?.schedule;
      const begin = Math.floor((at ?? 0) / minute) * minute;
      // A run may be due later than its time, by the offset of its job.
      const end = begin + minute + (parseSpan(job.jitter ?? '') ?? 0);
      const window = { from: new Date(begin).toISOString(), to: new Date(end).toISOString() };
      const [runs, preview] = await Promise.all([
        ask<PageLike<Run>>(`/v1/jobs/${job.id}/runs`, { query: { ...window, limit: 20 }, signal }),
        schedule
          ? ask<Preview>('/v1/schedules/preview', {
              method: 'POST',
              body: { schedule, count: 1, from: new Date(begin - 1).toISOString() },
              signal,
            })
          : undefined,
      ]);
      const first = preview?.times?.[0];
      const named = preview ? first !== undefined && Date.parse(first) < begin + minute : undefined;
      return { runs: (runs.items ?? []).filter((r) => Date.parse(r.nominal_at) < begin + minute), named, next: first };
    },
    { every: 0 },
  );
  return (
    <Panel title="Why did it not run?" about="State an instant: what was due in that minute, and what became of it.">
      <form
        class="row end"
        onSubmit={(e) => {
          e.preventDefault();
          const instant = instantOf(typed, zone);
          setFault(instant ? '' : 'State a day and a time first.');
          if (instant) {
            setQuery({ at: instant.toISOString() });
          }
        }}
      >
        <TextField
          label={`At, in ${zone}`}
          type="datetime-local"
          value={typed}
          onValue={setTyped}
          faults={fault === '' ? [] : [fault]}
        />
        <button type="submit" class="button">
          Look
        </button>
      </form>
      {at !== undefined && (
        <Answered live={live} what="what was due then">
          {({ runs, named, next }) => {
            const begin = Math.floor(at / minute) * minute;
            const pauses = pausesOf(audit ?? []).filter((p) => p.from < begin + minute && (p.to ?? Infinity) > begin);
            const since = (audit ?? []).filter((e) => Date.parse(e.at) > begin && !['pause', 'resume'].includes(e.action));
            return (
              <div class="stack" role="status">
                {runs.length > 0 && <RunTable runs={runs} job={job} />}
                {pauses.map((pause) => (
                  <p key={pause.from}>
                    <strong>It was paused</strong> <PauseText pause={pause} zone={zoneOfJob(job)} />. While it is paused
                    nothing of it starts.
                  </p>
                ))}
                {whyNot({ at, job, named, runs: runs.length, paused: pauses.length > 0, audited: audit !== undefined }).map((text) => (
                  <p key={text}>{text}</p>
                ))}
                {runs.length === 0 && pauses.length === 0 && since.length > 0 && (
                  <p>
                    It was changed since:{' '}
                    {since.slice(-3).map((e, i) => (
                      <span key={e.id}>
                        {i > 0 && ', '}
                        {e.action} by <bdi>{e.actor}</bdi> at <TimeLabel at={e.at} zone={zoneOfJob(job)} />
                      </span>
                    ))}
                    . It may have been otherwise then.
                  </p>
                )}
                {runs.length === 0 && named === false && next !== undefined && (
                  <p>
                    The first time after it is <TimeLabel at={next} zone={zoneOfJob(job)} />.
                  </p>
                )}
                {runs.length === 0 && (
                  <p>
                    <a href={href(pathTo('/jobs/:id', { id: nameOfJob(job) }), { tab: 'revisions' })}>
                      Who changed it, and when
                    </a>
                  </p>
                )}
              </div>
            );
          }}
        </Answered>
      )}
    </Panel>
  );
}

const historySize = 200;

function History({ job }: { job: Job }) {
  const states = queryValues('state');
  const list = usePages<Run>(
    `history ${job.id} ${states.join()}`,
    (cursor, signal) =>
      gather(
        (at) =>
          ask<PageLike<Run>>(`/v1/jobs/${job.id}/runs`, {
            query: { state: states, cursor: at, limit: historySize },
            signal,
          }),
        cursor,
        historySize / 2,
      ),
    { every: steady },
  );
  return (
    <>
      <FilterBar
        filters={[
          {
            kind: 'states',
            name: 'state',
            label: 'State',
            states: runStates.filter((s) => s !== 'waiting' && s !== 'stuck'),
            single: true,
          },
        ]}
      />
      <Panel title="Runs" live={list} every={steady} about="The latest first. A mark leads to its run.">
        <Answered live={list} what="the history of this job">
          {(page) =>
            page.items.length === 0 ? (
              <Empty
                title={states.length > 0 ? 'No run matches' : 'It has had no runs'}
                commands={states.length > 0 ? [] : [`carillon job trigger ${nameOfJob(job)}`]}
              />
            ) : (
              <>
                <HistoryGrid runs={page.items} job={job} />
                {canRepeat(job) && <PausesSince job={job} oldest={page.items.at(-1)?.due_at} />}
                <Pager list={list} one="run" />
                <details>
                  <summary>As a table</summary>
                  <RunTable runs={page.items} job={job} />
                </details>
              </>
            )
          }
        </Answered>
      </Panel>
    </>
  );
}

/** Why there is no mark for some times: those in which it was paused have no runs. */
function PausesSince({ job, oldest }: { job: Job; oldest: string | undefined }) {
  const audit = useAudit(job);
  const from = oldest === undefined ? 0 : Date.parse(oldest);
  const pauses = pausesOf(audit ?? []).filter((p) => (p.to ?? Infinity) > from);
  return (
    <>
      <p class="muted">
        Times for which a run was planned have a mark. While a job is paused none are planned: such times have none.
      </p>
      {pauses.length > 0 && (
        <ul>
          {pauses.slice(0, 10).map((pause) => (
            <li key={pause.from}>
              Paused <PauseText pause={pause} zone={zoneOfJob(job)} />.
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function HistoryGrid({ runs, job }: { runs: readonly Run[]; job: Job }) {
  const zone = zoneFor(zoneOfJob(job));
  const days = useMemo(() => {
    const out: { day: string; runs: Run[] }[] = [];
    for (const run of runs) {
      const day = labelOf(run.due_at, zone, { weekday: true }).day;
      const last = out.at(-1);
      if (last?.day === day) {
        last.runs.push(run);
      } else {
        out.push({ day, runs: [run] });
      }
    }
    return out;
  }, [runs, zone]);
  const ended = runs.filter(hasEnded);
  const good = ended.filter((r) => r.state === 'succeeded').length;
  return (
    <div class="stack">
      <p>
        Of the last {count(ended.length, 'run')} that have ended, {percent(good, ended.length)} succeeded. Days are
        those of {zone}.
      </p>
      <ol class="history">
        {days.map(({ day, runs: ofDay }) => (
          <li key={day}>
            <span class="history-day">{day}</span>
            <span class="history-runs">
              {ofDay.map((run) => {
                const look = lookOf(run.state);
                const words = `${timeText(run.due_at, zone, { now: run.due_at })} ${run.state}${run.lateness_ms === undefined ? '' : `, ${spanText(run.lateness_ms)} late`}`;
                return (
                  <a
                    key={run.id}
                    class={`history-run tone-${look.tone}`}
                    href={href(`/runs/${run.id}`)}
                    aria-label={words}
                    title={words}
                  >
                    <Icon name={look.icon} size={14} />
                  </a>
                );
              })}
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function BackfillDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const zone = zoneFor(zoneOfJob(job));
  const action = useAction();
  const [key] = useState(newKey);
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const [most, setMost] = useState('5');
  const [begin, end] = [instantOf(from, zone), instantOf(to, zone)];
  const preview = useLive(
    begin ? `backfill ${job.id} ${begin.getTime()}` : null,
    (signal) =>
      ask<Preview>('/v1/schedules/preview', {
        method: 'POST',
        body: {
          schedule: previewOf(requestOf(job))?.schedule,
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
      <p>One run for each time that the schedule, as it is now, names in the stretch, whether it ran or not.</p>
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
          (times.length >= 100 ? 'That is 100 runs or more.' : `That is ${count(times.length, 'run')}.`)}
      </p>
    </FormDialog>
  );
}
