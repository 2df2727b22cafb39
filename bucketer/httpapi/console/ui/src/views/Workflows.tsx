// Workflows: named graphs of steps.

import { answer, api } from '../api/client';
import { steady } from '../api/live';
import { gather, usePages } from '../api/pages';
import { may } from '../api/session';
import type { Workflow } from '../api/types';
import { jobStates } from '../jobs';
import { useApprovals, WaitsForSomebody } from '../parts/Approvals';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Labels } from '../parts/Facts';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { href, queryValue } from '../router';
import type { ViewParams } from '../routes';
import { durationText } from '../time';
import { number, scheduleWords } from '../words';

const pageSize = 50;

export function Workflows(_props: ViewParams) {
  const [name, state, label] = [queryValue('name'), queryValue('state'), queryValue('label')];
  const query = {
    limit: pageSize,
    waiting: true,
    ...(name === '' ? {} : { name_prefix: name }),
    ...(state === '' ? {} : { state: state as Workflow['state'] }),
    ...(label === '' ? {} : { label }),
  };
  const list = usePages<Workflow>(
    `workflows ${JSON.stringify(query)}`,
    (cursor, signal) =>
      gather(
        (at) =>
          answer(api.GET('/v1/workflows', { params: { query: { ...query, ...(at === '' ? {} : { cursor: at }) } }, signal })),
        cursor,
        pageSize / 2,
      ),
    { every: steady },
  );
  const approvals = useApprovals(steady);
  const filtered = name !== '' || state !== '' || label !== '';
  return (
    <View
      title="Workflows"
      about="A workflow is a named graph of steps. It runs by a schedule, on an event, or when it is asked to."
      actions={
        <>
          {may('operator') && (
            <a class="button primary" href={href('/workflows/new')}>
              <Icon name="plus" /> New workflow
            </a>
          )}
          <CopyCurl path="/v1/workflows" />
        </>
      }
    >
      <WaitsForSomebody live={approvals} every={steady} most={50} />
      <FilterBar
        filters={[
          { kind: 'text', name: 'name', label: 'Name begins with', main: true, placeholder: 'etl' },
          { kind: 'text', name: 'label', label: 'Label', placeholder: 'team=data' },
          { kind: 'states', name: 'state', label: 'State', states: jobStates, single: true },
        ]}
      />
      <Panel title={filtered ? 'What matches' : 'All workflows'} live={list} every={steady}>
        <Answered live={list} what="the list of workflows">
          {(page) => (
            <>
              <Table
                caption="Workflows"
                columns={columns}
                rows={page.items}
                rowKey={(w) => w.id}
                rowHref={(w) => href(pathTo('/workflows/:name', { name: w.name }))}
                empty={<Nothing filtered={filtered} more={list.more} />}
              />
              <Pager list={list} one="workflow" />
            </>
          )}
        </Answered>
      </Panel>
    </View>
  );
}

const columns: Column<Workflow>[] = [
  { head: 'Workflow', kind: 'main', cell: (w) => w.name },
  {
    head: 'State',
    cell: (w) => (
      <>
        <StateBadge state={w.state} />
        {w.fault && <span class="toned tone-bad"> it does not go on: {w.fault}</span>}
        {(w.waiting ?? []).map((at) => (
          <a key={at.event} class="toned tone-warn" href={href(pathTo('/workflows/:name', { name: w.name }), { state: 'waiting' })}>
            {' '}
            {number(at.runs)}
            {at.more && ' or more'} {at.runs === 1 ? 'run waits' : 'runs wait'} for {at.event}
          </a>
        ))}
      </>
    ),
  },
  { head: 'Runs', cell: (w) => scheduleWords(w) },
  { head: 'Next run', cell: (w) => <TimeLabel at={w.next_run?.due_at} zone={w.schedule?.timezone} relative /> },
  { head: 'May take', minor: true, cell: (w) => durationText(w.deadline) },
  {
    head: 'Labels',
    minor: true,
    cell: (w) => <Labels labels={w.labels} hrefOf={(label) => href('/workflows', { label })} />,
  },
];

function Nothing({ filtered, more }: { filtered: boolean; more: boolean }) {
  if (more) {
    return <Empty title="Nothing matches in the part that was searched">Search on with “Next page”.</Empty>;
  }
  if (filtered) {
    return (
      <Empty title="No workflow matches">
        <p>Names are searched by how they begin.</p>
      </Empty>
    );
  }
  return (
    <Empty
      title="There are no workflows yet"
      commands={['carillon workflow apply -f deploy/examples/etl.yaml', 'carillon workflow run etl --wait']}
    >
      <p>
        Steps come one after the other or side by side, for each item of a list, after a pause or an event.{' '}
        {may('operator') && <a href={href('/workflows/new')}>Write one here.</a>}
      </p>
    </Empty>
  );
}
