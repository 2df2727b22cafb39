// What was done to a job, and by whom, out of the audit log.

import { answer, api, ask } from '../api/client';
import { useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import { maySee } from '../api/session';
import type { AuditEntry, Job, Preview } from '../api/types';
import { serverNow } from '../clock';
import { canRepeat, nameOfJob, operationOf, pausesOf, previewOf, requestOf, zoneOfJob, type Pause } from '../jobs';
import { filterWords } from '../operations';
import { pathTo } from '../place';
import { viewerZone } from '../preferences';
import { href } from '../router';
import { timeText } from '../time';
import { auditKept } from './Changes';
import { Icon } from './Icon';
import { Note } from './Note';
import { Panel } from './Panel';
import { TimeLabel } from './TimeLabel';

const minute = 60_000;

/** Changes of a job that the audit log tells of, the latest first; undefined: not asked, not known, or not shown. */
export function useAudit(job: Job, asked = true): readonly AuditEntry[] | undefined {
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

/** That it was done by an operation, to all that match: which those were, as long as the operation is kept. */
function WithOthers({ operation }: { operation: string }) {
  const live = useLive(
    operation === '' ? null : `operation ${operation}`,
    (signal) => answer(api.GET('/v1/operations/{id}', { params: { path: { id: operation } }, signal })),
    { every: 0 },
  );
  if (operation === '') {
    return null;
  }
  const words = live.data ? filterWords(live.data) : '';
  return (
    <>
      , together with <a href={href(`/operations/${operation}`)}>{words === '' ? 'others' : `all of ${words}`}</a>
    </>
  );
}

export function PauseText({ pause, zone }: { pause: Pause; zone: string | undefined }) {
  return (
    <>
      from <TimeLabel at={pause.from} zone={zone} /> (by <bdi>{pause.by}</bdi>
      <WithOthers operation={pause.operation} />){' '}
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

/** Says of a job that is paused since when, by whom and why, and when it would run. */
export function PausedNow({ job }: { job: Job }) {
  const paused = job.state === 'paused';
  const [pause] = pausesOf(useAudit(job, paused) ?? []);
  const asked = previewOf(requestOf(job));
  const next = useLive(
    paused && asked ? `next of ${job.id} ${job.generation}` : null,
    (signal) => ask<Preview>('/v1/schedules/preview', { method: 'POST', body: { ...asked, count: 1 }, signal }),
    { every: 0 },
  );
  if (!paused) {
    return null;
  }
  const at = next.data?.times?.[0];
  const own = zoneOfJob(job);
  return (
    <Note tone="warn" icon="pause">
      <strong>It is paused: it does not run until somebody resumes it.</strong>{' '}
      {pause && pause.to === undefined ? (
        <>
          <bdi>{pause.by}</bdi> paused it <TimeLabel at={pause.from} zone={zoneOfJob(job)} relative />
          <WithOthers operation={pause.operation} />.
        </>
      ) : (
        !maySee('admin') && 'Who paused it stands in the audit log, which needs a key of the role admin.'
      )}{' '}
      {at !== undefined && (
        <>
          If it is resumed now it runs next at <TimeLabel at={at} zone={zoneOfJob(job)} relative />
          {own !== undefined && own !== viewerZone.value && `, ${timeText(at, own, { now: serverNow(), short: true })} in ${own}`}.
        </>
      )}{' '}
      <a href={href(pathTo('/jobs/:id', { id: nameOfJob(job) }), { tab: 'history' })}>What was done to it before</a>
    </Note>
  );
}

const words: Record<string, string> = {
  create: 'created',
  update: 'changed',
  cancel: 'cancelled',
  pause: 'paused',
  resume: 'resumed',
  trigger: 'run by hand',
  backfill: 'run again for a stretch of its past',
};

const shownAtMost = 30;

/** All that was done to it, the latest first. */
export function Doings({ job }: { job: Job }) {
  const audit = useAudit(job);
  const revisions = href(pathTo('/jobs/:id', { id: nameOfJob(job) }), { tab: 'revisions' });
  return (
    <Panel
      title="What was done to it"
      about="Created, changed, paused, resumed: by whom, and when. The latest first, from the audit log."
    >
      {!maySee('admin') ? (
        <p class="absent">
          <Icon name="slash" /> Who did what stands in the audit log, which needs a key of the role admin.
        </p>
      ) : (
        audit && (
          <>
            {audit.length === 0 && <p class="muted">The audit log tells of nothing.</p>}
            <ul>
              {audit.slice(0, shownAtMost).map((e) => (
                <li key={e.id}>
                  <TimeLabel at={e.at} zone={zoneOfJob(job)} relative /> <strong>{words[e.action] ?? e.action}</strong> by{' '}
                  <bdi>{e.actor}</bdi>
                  <WithOthers operation={operationOf(e.note)} />
                  {e.action === 'update' && (
                    <>
                      {' '}
                      (<a href={revisions}>what</a>)
                    </>
                  )}
                  {e.action === 'trigger' && <RunOf note={e.note} />}
                </li>
              ))}
            </ul>
            {audit.length > shownAtMost && (
              <p class="muted">
                The latest {shownAtMost} are shown. <a href={revisions}>All of them</a>
              </p>
            )}
          </>
        )
      )}
    </Panel>
  );
}

function RunOf({ note }: { note: string | undefined }) {
  const run = /^run (\S+)$/.exec(note ?? '')?.[1];
  return run === undefined ? null : (
    <>
      {' '}
      (<a href={href(`/runs/${run}`)}>its run</a>)
    </>
  );
}
