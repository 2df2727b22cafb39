// Jobs that can have many runs: found by typing, paused and resumed one by one or all that match.

import { answer, api, newKey } from '../api/client';
import { steady } from '../api/live';
import { gather, usePages } from '../api/pages';
import { may } from '../api/session';
import type { Job } from '../api/types';
import { canRepeat, jobStates, nameOfJob, pauseWords, spreadOf, workWords, zoneOfJob } from '../jobs';
import { Bulk, type BulkAction, type OperationFilter } from '../parts/Bulk';
import { CopyCurl, curlOf } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Labels } from '../parts/Facts';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { Table, useSelection, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { href, queryValue } from '../router';
import type { ViewParams } from '../routes';
import { spanText } from '../time';
import { scheduleWords } from '../words';

const pageSize = 50;

export function Jobs(_props: ViewParams) {
  const selection = useSelection();
  const [name, state, label] = [queryValue('name'), queryValue('state'), queryValue('label')];
  const query = {
    limit: pageSize,
    ...(name === '' ? {} : { name_prefix: name }),
    ...(state === '' ? {} : { state: state as Job['state'] }),
    ...(label === '' ? {} : { label }),
  };
  const list = usePages<Job>(
    `jobs ${JSON.stringify(query)}`,
    (cursor, signal) =>
      gather(
        (at) =>
          answer(
            api.GET('/v1/jobs', { params: { query: { ...query, ...(at === '' ? {} : { cursor: at }) } }, signal }),
          ),
        cursor,
        pageSize / 2,
      ),
    { every: steady, hold: selection.keys.size > 0 },
  );
  const filtered = name !== '' || state !== '' || label !== '';
  return (
    <View
      title="Jobs"
      about="Jobs that can have many runs, the newest first. One-off jobs are runs: they are in the list of runs. Workflows have a list of their own. A label may stand on all of these."
      actions={
        <>
          {may('operator') && (
            <a class="button primary" href={href('/jobs/new')}>
              <Icon name="plus" /> New job
            </a>
          )}
          <CopyCurl path={`/v1/jobs?${new URLSearchParams(Object.entries(query).map(([k, v]) => [k, String(v)]))}`} />
        </>
      }
    >
      <FilterBar
        filters={[
          { kind: 'text', name: 'name', label: 'Name begins with', main: true, placeholder: 'nightly' },
          { kind: 'text', name: 'label', label: 'Label', placeholder: 'team=billing' },
          { kind: 'states', name: 'state', label: 'State', states: jobStates, single: true },
        ]}
      />
      <Panel title={filtered ? 'What matches' : 'All jobs'} live={list} every={steady}>
        <Bulk
          selection={selection}
          question={JSON.stringify([name, state, label])}
          one="job"
          actions={bulkActions({ name, state, label })}
        />
        {label !== '' && (
          <p class="muted">
            Workflows and one-off jobs may have the label, too: <a href={href('/workflows', { label })}>workflows</a>,{' '}
            <a href={href('/runs', { label })}>runs</a>. What is done here to all that match is not done to them.
          </p>
        )}
        <Answered live={list} what="the list of jobs">
          {(page) => (
            <>
              <Table
                caption="Jobs"
                columns={columns}
                rows={page.items}
                rowKey={(job) => job.id}
                rowName={(job) => `job ${nameOfJob(job)}`}
                rowHref={(job) => href(pathTo('/jobs/:id', { id: nameOfJob(job) }))}
                selection={selection}
                dim={list.dim}
                empty={<Nothing filtered={filtered} label={label} more={list.more} />}
              />
              {page.items.some((job) => spreadOf(job.next_run) > 0) && (
                <p class="muted">
                  A job of 09:00 may be due at 09:00:07: it keeps an offset, its jitter, so that jobs of the same time do not
                  all start at once.
                </p>
              )}
              <Pager list={list} one="job" />
            </>
          )}
        </Answered>
      </Panel>
    </View>
  );
}

const columns: Column<Job>[] = [
  { head: 'Job', kind: 'main', cell: (job) => nameOfJob(job) },
  {
    head: 'State',
    cell: (job) => (
      <>
        <StateBadge state={job.state} />
        {job.fault && <span class="toned tone-bad"> it does not go on: {job.fault}</span>}
      </>
    ),
  },
  { head: 'Runs', cell: (job) => scheduleWords(job) },
  {
    head: 'Next run',
    cell: (job) => (
      <>
        <TimeLabel
          at={job.next_run?.due_at}
          zone={zoneOfJob(job)}
          relative
          none={job.state === 'paused' ? 'none while it is paused' : canRepeat(job) && !job.on && !job.after ? 'none' : '–'}
        />
        {spreadOf(job.next_run) > 0 && (
          <span class="muted small-text"> {spanText(spreadOf(job.next_run))} after its time, by its jitter</span>
        )}
      </>
    ),
  },
  { head: 'Does', minor: true, cell: (job) => <bdi class="said">{workWords(job)}</bdi> },
  {
    head: 'Labels',
    minor: true,
    cell: (job) => <Labels labels={job.labels} hrefOf={(label) => href('/jobs', { label })} />,
  },
];

function Nothing({ filtered, label, more }: { filtered: boolean; label: string; more: boolean }) {
  if (more) {
    return <Empty title="Nothing matches in the part that was searched">Search on with “Next page”.</Empty>;
  }
  if (filtered) {
    return (
      <Empty title="No job matches">
        <p>
          Names are searched by how they begin. One-off jobs have no name: look for them in the{' '}
          <a href={href('/runs', { label })}>list of runs</a>.
          {label !== '' && (
            <>
              {' '}
              <a href={href('/workflows', { label })}>Workflows</a> may have the label, too.
            </>
          )}
        </p>
      </Empty>
    );
  }
  return (
    <Empty
      title="There are no jobs yet"
      commands={[
        "carillon job create --name nightly-report --url https://example.com/report --cron '0 2 * * *' --timezone Europe/Berlin",
        curlOf('POST', '/v1/jobs', {
          name: 'poll',
          http: { url: 'https://example.com/poll' },
          schedule: { every: '15m' },
        }),
      ]}
    >
      <p>
        A job says what runs, and when: by a cron expression in a zone, every so often, on an event, or after other
        jobs. {may('operator') && <a href={href('/jobs/new')}>Create one here.</a>}
      </p>
    </Empty>
  );
}

function bulkActions(asked: { name: string; state: string; label: string }): BulkAction[] {
  const all = (): OperationFilter => ({
    ...(asked.name === '' ? {} : { name_prefix: asked.name }),
    ...(asked.state === '' ? {} : { state: asked.state }),
    ...(asked.label === '' ? {} : { label: asked.label }),
  });
  const path = (id: string): { path: { id: string } } => ({ path: { id } });
  return [
    {
      action: 'pause',
      name: 'Pause',
      done: 'paused',
      about: pauseWords,
      each: (id) => answer(api.POST('/v1/jobs/{id}/pause', { params: path(id) })),
      all,
    },
    {
      action: 'resume',
      name: 'Resume',
      done: 'resumed',
      about: 'They go on from now. What was due meanwhile is not run.',
      each: (id) => answer(api.POST('/v1/jobs/{id}/resume', { params: path(id) })),
      all,
    },
    {
      action: 'trigger',
      name: 'Run now',
      done: 'run now',
      about: 'Each has one run now, besides its schedule.',
      each: (id) =>
        answer(api.POST('/v1/jobs/{id}/trigger', { params: { ...path(id), header: { 'Idempotency-Key': newKey() } } })),
      all,
    },
    {
      action: 'cancel',
      name: 'Cancel',
      done: 'cancelled',
      danger: true,
      about: 'They have no more runs, and cannot be resumed. That cannot be taken back.',
      each: (id) => answer(api.DELETE('/v1/jobs/{id}', { params: path(id) })),
      all,
    },
  ];
}
