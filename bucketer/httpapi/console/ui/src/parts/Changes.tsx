// Changes out of the audit log: who did what, when, and what it was before and after.

import { ask } from '../api/client';
import { slow } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import { maySee } from '../api/session';
import type { AuditEntry } from '../api/types';
import { serverNow } from '../clock';
import { withPayload } from '../revisions';
import { href } from '../router';
import { Diff } from './Diff';
import { Empty } from './Empty';
import { Icon } from './Icon';
import { Pager } from './Pager';
import { Answered, Panel } from './Panel';
import { TimeLabel } from './TimeLabel';

/** The audit log goes back so far, in ms. */
export const auditKept = 400 * 86_400_000 - 3_600_000;

/**
 * What the audit log tells of one thing, such as "workflow/etl", from when it was made on; `of` is the
 * thing as it is now.
 */
export function Changes({ object, since = '', of }: { object: string; since?: string; of?: { payload?: unknown } }) {
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
      about={`From the audit log, the latest first. It is kept for 400 days.${of?.payload === undefined ? '' : ' It has the sizes of payloads: the one of now is shown where it is the same.'}`}
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
              {(list.first ? withPayload(page.items, of?.payload) : page.items).map((entry) => (
                <Change key={entry.id} entry={entry} />
              ))}
            </div>
            <Pager list={list} one="change" />
          </>
        )}
      </Answered>
    </Panel>
  );
}

function Change({ entry }: { entry: AuditEntry }) {
  return (
    <details class="revision">
      <summary>
        <TimeLabel at={entry.at} relative /> <strong>{entry.action}</strong> by <bdi>{entry.actor}</bdi>{' '}
        <bdi class="muted">{entry.note}</bdi>
      </summary>
      <Diff before={entry.before} after={entry.after} />
    </details>
  );
}
