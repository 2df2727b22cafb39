// Answers "why did it not run at nine?".

import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import { useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import type { Job, Preview, Run } from '../api/types';
import { nameOfJob, pausesOf, timesOf, whyNot, zoneOfJob } from '../jobs';
import { TextField } from '../parts/Field';
import { PauseText, useAudit } from '../parts/JobAudit';
import { RunTable } from '../parts/JobRuns';
import { Answered, Panel } from '../parts/Panel';
import { TimeLabel } from '../parts/TimeLabel';
import { pathTo } from '../place';
import { viewerZone } from '../preferences';
import { href, queryValue, setQuery } from '../router';
import { ownRuns } from '../runs';
import { inputText, instantOf, parseSpan } from '../time';

const minute = 60_000;

/** How many runs of that minute are shown. */
const shownAtMost = 20;

/** Answers "why did it not run at nine?". */
export function WhyNot({ job }: { job: Job }) {
  // Who asks about nine o'clock means that of the job.
  const zone = zoneOfJob(job) ?? viewerZone.value;
  const asked = queryValue('at');
  const [typed, setTyped] = useState(asked === '' ? '' : inputText(asked, zone));
  const [fault, setFault] = useState('');
  const audit = useAudit(job, asked !== '');
  const at = asked === '' ? undefined : Date.parse(asked);
  const live = useLive(
    at === undefined ? null : `why not ${job.id} ${at}`,
    async (signal) => {
      const times = timesOf(job);
      const begin = Math.floor((at ?? 0) / minute) * minute;
      // A run may be due later than its time, by the offset of its job.
      const end = begin + minute + (parseSpan(job.jitter ?? '') ?? 0);
      const window = { from: new Date(begin).toISOString(), to: new Date(end).toISOString() };
      const [runs, preview] = await Promise.all([
        // Many replays may be due in that minute, too, before all that the job itself ran.
        gather(
          async (cursor) => {
            const query = { ...window, cursor, limit: 100 };
            const page = await ask<PageLike<Run>>(`/v1/jobs/${job.id}/runs`, { query, signal });
            return { ...page, items: ownRuns(page.items ?? []).filter((r) => Date.parse(r.nominal_at) < begin + minute) };
          },
          '',
          shownAtMost,
        ),
        times
          ? ask<Preview>('/v1/schedules/preview', {
              method: 'POST',
              body: { ...times, count: 1, from: new Date(begin - 1).toISOString() },
              signal,
            })
          : undefined,
      ]);
      const first = preview?.times?.[0];
      const named = preview ? first !== undefined && Date.parse(first) < begin + minute : undefined;
      return { runs: runs.items.slice(0, shownAtMost), named, next: first };
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
            const since = (audit ?? []).filter((e) => Date.parse(e.at) > begin && !['pause', 'resume', 'create', 'trigger'].includes(e.action));
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
