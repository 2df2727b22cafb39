// Runs of one job, as a table.

import type { Job, Run } from '../api/types';
import { zoneOfJob } from '../jobs';
import { href } from '../router';
import { LateBy, Said, Took } from './RunCells';
import { StateBadge } from './StateBadge';
import { Table, type Column } from './Table';
import { TimeLabel } from './TimeLabel';

export function RunTable({ runs, job }: { runs: readonly Run[]; job: Job }) {
  const zone = zoneOfJob(job);
  const columns: Column<Run>[] = [
    { head: 'Due', kind: 'main', cell: (run) => <TimeLabel at={run.due_at} zone={zone} /> },
    { head: 'State', cell: (run) => <StateBadge state={run.state} /> },
    { head: 'Late by', kind: 'number', cell: (run) => <LateBy run={run} /> },
    { head: 'Took', kind: 'number', cell: (run) => <Took run={run} /> },
    {
      head: 'What is known',
      cell: (run) => (
        <>
          <Said run={run} />
          {run.origin && (
            <>
              {' '}
              <a href={href(`/runs/${run.origin}`)}>Repeats another run</a>
            </>
          )}
        </>
      ),
    },
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
