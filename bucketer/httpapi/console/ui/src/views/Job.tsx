// One job: when it runs next and why it did not, what became of its runs, how it was changed, and all
// that can be done with it.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask, newKey } from '../api/client';
import { steady, useLive } from '../api/live';
import type { PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Job, NextRun, Preview, Run } from '../api/types';
import { serverNow } from '../clock';
import { canRepeat, nameOfJob, pausedWords, previewOf, requestOf, spreadOf, timesOf, workWords, zoneOfJob } from '../jobs';
import { homeFact } from '../parts/AtHome';
import { Changes } from '../parts/Changes';
import { confirm } from '../parts/Confirm';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Facts, Labels } from '../parts/Facts';
import { Icon } from '../parts/Icon';
import { PausedNow } from '../parts/JobAudit';
import { RunTable } from '../parts/JobRuns';
import { JsonView } from '../parts/JsonView';
import { Notes } from '../parts/Notes';
import { Answered, Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { Ago, TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { viewerZone } from '../preferences';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { clockNotes, durationText, labelOf, offsetWords } from '../time';
import { count, limitWords, misfireWords, scheduleWords, spreadWords, uniqueWords } from '../words';
import { BackfillDialog } from './JobBackfill';
import { History } from './JobHistory';
import { WhyNot } from './JobWhyNot';

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
            {canRepeat(j) && <PausedNow job={j} />}
            <Tabs
              label="Of the job"
              tabs={[
                { id: 'next', title: 'Now and next', content: () => <NowAndNext job={j} /> },
                { id: 'history', title: 'History', content: () => <History job={j} /> },
                {
                  id: 'revisions',
                  title: 'Revisions',
                  content: () => <Changes object={`job/${nameOfJob(j)}`} since={j.created_at} of={j} job={j.id} />,
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
            void action.run(() => answer(api.POST('/v1/jobs/{id}/pause', { params: path })), `The job is paused. ${pausedWords}`)
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
      {timesOf(job) && job.state !== 'finished' && (
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
      {canRepeat(job) && <WhyNot job={job} />}
      <Latest job={job} />
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
          const spread = spreadOf(last);
          const changes = last ? clockNotes(serverNow(), Date.parse(last.due_at) + minute, [viewer, own ?? viewer]) : [];
          return (
            <>
              {spread > 0 && <p>{spreadWords(spread)}</p>}
              <Table
                caption="The next ten runs"
                columns={columns.filter((c): c is Column<NextRun> => c !== false)}
                rows={items}
                rowKey={(n) => n.id}
                empty={<NoNext job={job} />}
              />
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
            : timesOf(job)
              ? 'Its schedule names no more times.'
              : canRepeat(job)
                ? 'It runs when it is asked to.'
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
            (durationText(job.jitter) === 'none'
              ? 'none: it is due at the very time'
              : `an offset of its own, below ${durationText(job.jitter)}, which spreads jobs of the same time`),
        ],
        ['If it is late', misfireWords(misfire)],
        ['At once', concurrency && limitWords(concurrency)],
        ['Unique', job.unique && uniqueWords(job.unique)],
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
        ['Pre-emption', job.preemptible && 'a critical run may take the slot of its run'],
        ['Requires', job.requires && <Labels labels={job.requires} />],
        ['Labels', job.labels && <Labels labels={job.labels} hrefOf={(label) => href('/jobs', { label })} />],
        ['Created', <TimeLabel at={job.created_at} relative />],
        ['Created by', job.created_by && <bdi>{job.created_by}</bdi>],
        [
          'Changed',
          job.updated_at !== job.created_at && (
            <>
              <TimeLabel at={job.updated_at} relative />{' '}
              <a href={href(pathTo('/jobs/:id', { id: nameOfJob(job) }), { tab: 'revisions' })}>What, and by whom</a>
            </>
          ),
        ],
        homeFact(job),
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

