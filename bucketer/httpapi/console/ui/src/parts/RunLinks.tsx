// Where runs lead: to their job, and to the runs about the same time.

import type { Run } from '../api/types';
import { pathTo } from '../place';
import { href } from '../router';

export function JobLink({ run }: { run: Run }) {
  const job = run.job_name || run.job_id;
  return job ? <a href={href(pathTo('/jobs/:id', { id: job }))}>{run.job_name || 'its job'}</a> : <>its job</>;
}

/** The window of runs that were due about when it was. */
export function around(run: Run): Record<string, string> {
  const due = Date.parse(run.due_at);
  return { from: new Date(due - 300_000).toISOString(), to: new Date(due + 300_000).toISOString() };
}
