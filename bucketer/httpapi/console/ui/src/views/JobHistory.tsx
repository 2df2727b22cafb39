// What became of the runs of a job, and what was done to it.

import { useMemo } from 'preact/hooks';
import { ask } from '../api/client';
import { steady } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import type { Job, Run } from '../api/types';
import { canRepeat, nameOfJob, zoneOfJob } from '../jobs';
import { Empty } from '../parts/Empty';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Doings } from '../parts/JobAudit';
import { RunTable } from '../parts/JobRuns';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { lookOf } from '../parts/StateBadge';
import { zoneFor } from '../preferences';
import { href, queryValues } from '../router';
import { hasEnded, ownRuns, runStates } from '../runs';
import { labelOf, spanText, timeText } from '../time';
import { count, percent } from '../words';

const historySize = 200;

export function History({ job }: { job: Job }) {
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
                {canRepeat(job) && (
                  <p class="muted">
                    Times for which a run was planned have a mark. While a job is paused none are planned: such times
                    have none.
                  </p>
                )}
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
      {canRepeat(job) && <Doings job={job} />}
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
  const ended = ownRuns(runs).filter(hasEnded);
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
                const words = `${timeText(run.due_at, zone, { now: run.due_at })} ${run.state}${run.lateness_ms === undefined ? '' : `, ${spanText(run.lateness_ms)} late`}${run.origin ? ', repeats another run' : ''}`;
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
