// Changes out of the audit log: who did what, when, and what it was before and after.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import { slow, useLive } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import { maySee } from '../api/session';
import type { AuditEntry, Run } from '../api/types';
import { serverNow } from '../clock';
import { operationOf } from '../jobs';
import { changesPayload, isOfSide, withoutPayload, withPayload } from '../revisions';
import { href } from '../router';
import { Diff } from './Diff';
import { Empty } from './Empty';
import { Icon } from './Icon';
import { Pager } from './Pager';
import { Answered, Panel } from './Panel';
import { TimeLabel } from './TimeLabel';

/** The audit log goes back so far, in ms. */
export const auditKept = 400 * 86_400_000 - 3_600_000;

export interface ChangesProps {
  object: string;
  /** When it was made. */
  since?: string;
  /** The thing as it is now. */
  of?: { payload?: unknown };
  /** The id of a job, whose runs still have the payloads of then. */
  job?: string;
}

/** What the audit log tells of one thing, such as "workflow/etl", from when it was made on. */
export function Changes({ object, since = '', of, job }: ChangesProps) {
  // That it was made may be noted a moment before it is.
  const begin = (): number => Math.max((Date.parse(since) || 0) - 60_000, serverNow() - auditKept);
  const list = usePages<AuditEntry>(
    maySee('admin') ? `changes ${object}` : null,
    (cursor, signal) =>
      gather(
        (at) =>
          ask<PageLike<AuditEntry>>('/v1/audit', {
            query: { object, from: new Date(begin()).toISOString(), limit: 50, cursor: at },
            signal,
          }),
        cursor,
        20,
      ),
    { every: slow },
  );
  if (!maySee('admin')) {
    return (
      <p class="absent">
        <Icon name="slash" /> Who changed what stands in the audit log, which needs a key of the role admin.
      </p>
    );
  }
  return (
    <Panel
      title="How it was changed"
      live={list}
      every={slow}
      about={`From the audit log, the latest first. It is kept for 400 days.${of?.payload === undefined ? '' : ' It has the sizes of payloads: where one was changed, its runs say what it was.'}`}
      actions={
        <a class="button small" href={href('/audit', { object, last: '9600h' })}>
          In the audit log
        </a>
      }
    >
      <Answered live={list} what="the audit log">
        {(page) => (
          <>
            {page.items.length === 0 && (
              <Empty title="The audit log tells of no change">
                <p>It may be older than the log.</p>
              </Empty>
            )}
            <div class="changes">
              {(list.first ? withPayload(page.items, of?.payload) : page.items).map((entry, i) => (
                <Change
                  key={entry.id}
                  entry={entry}
                  payload={
                    job !== undefined && changesPayload(page.items[i] ?? {}) ? (
                      <PayloadChange
                        job={job}
                        entry={page.items[i] ?? entry}
                        // The revision after it, if there is one, ends its runs.
                        until={page.items.slice(0, i).findLast((e) => e.after !== undefined)?.at}
                        now={list.first ? of?.payload : undefined}
                      />
                    ) : undefined
                  }
                />
              ))}
            </div>
            <Pager list={list} one="change" />
          </>
        )}
      </Answered>
    </Panel>
  );
}

function Change({ entry, payload }: { entry: AuditEntry; payload: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const operation = operationOf(entry.note);
  return (
    <details class="revision" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <TimeLabel at={entry.at} relative /> <strong>{entry.action}</strong> by <bdi>{entry.actor}</bdi>{' '}
        {payload !== undefined && <strong>another payload </strong>}
        <bdi class="muted">{entry.note}</bdi>
      </summary>
      {operation !== '' && (
        <p>
          It was done to all that an operation selected. <a href={href(`/operations/${operation}`)}>The operation</a>
        </p>
      )}
      {payload === undefined ? (
        <Diff before={entry.before} after={entry.after} />
      ) : (
        <Diff before={withoutPayload(entry.before)} after={withoutPayload(entry.after)} />
      )}
      {open && payload}
    </details>
  );
}

/** What a change made of the payload. The audit log has sizes alone; runs from before and after have it. */
function PayloadChange(props: { job: string; entry: AuditEntry; until: string | undefined; now: unknown }) {
  const { job, entry, until, now } = props;
  const live = useLive(
    `payloads about ${entry.id}`,
    async (signal) => {
      const latest = async (query: { from?: string; to?: string }, side: unknown): Promise<{ payload?: unknown } | undefined> => {
        const page = await ask<PageLike<Run>>(`/v1/jobs/${job}/runs`, { query: { ...query, limit: 5 }, signal });
        return (page.items ?? []).find((run) => run.trigger === 'schedule' && isOfSide(run.payload, side));
      };
      const [was, is] = await Promise.all([
        latest({ to: entry.at }, entry.before),
        until === undefined && isOfSide(now, entry.after)
          ? { payload: now }
          : latest({ from: entry.at, ...(until === undefined ? {} : { to: until }) }, entry.after),
      ]);
      return { was, is };
    },
    { every: 0 },
  );
  return (
    <>
      <h3>Its payload</h3>
      <Answered live={live} what="runs with the payload of then">
        {({ was, is }) => (
          <>
            {(!was || !is) && (
              <p class="muted">
                {was ? 'What it became' : is ? 'What it was before' : 'What it was, and what it became,'} is not known any more:
                no run that has it is kept.
              </p>
            )}
            {(was || is) && <Diff before={was ? text(was.payload) : undefined} after={is ? text(is.payload) : undefined} whole />}
          </>
        )}
      </Answered>
    </>
  );
}

function text(payload: unknown): string {
  return payload === undefined ? 'no payload' : JSON.stringify(payload, null, 2);
}
