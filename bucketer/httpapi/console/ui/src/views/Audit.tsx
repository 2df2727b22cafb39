// The audit log: who changed what, and when.

import { useRef } from 'preact/hooks';
import { ask } from '../api/client';
import { slow } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import type { AuditEntry } from '../api/types';
import { serverNow } from '../clock';
import { auditKept } from '../parts/Changes';
import { CopyCurl } from '../parts/CopyCurl';
import { Diff } from '../parts/Diff';
import { Empty } from '../parts/Empty';
import { FilterBar } from '../parts/FilterBar';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { WindowPicker } from '../parts/WindowPicker';
import { pathTo } from '../place';
import { href, queryValue, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { windowOf } from '../window';

const choices = {
  spans: [
    { value: '1h', text: 'last hour' },
    { value: '24h', text: 'last day' },
    { value: '168h', text: 'last 7 days' },
    { value: '720h', text: 'last 30 days' },
    { value: '9600h', text: 'all of 400 days' },
  ],
  usual: '168h',
  longest: auditKept,
};

const pageSize = 50;

/** Kinds of things that are changed, and the view of each. */
const kinds: Record<string, string> = {
  job: '/jobs/:id',
  task: '/tasks/:id',
  workflow: '/workflows/:id',
  run: '/runs/:id',
  'dead-letter': '/dead-letters/:id',
  operation: '/operations/:id',
  tenant: '/tenants/:id',
  key: '/keys',
  'signing-key': '/signing-keys',
  secret: '/secrets',
  target: '/tasks?tab=targets',
  import: '',
};

export function Audit(_props: ViewParams) {
  const [actor, object, action] = [queryValue('actor'), queryValue('object'), queryValue('action')];
  const ends = { from: queryValue('from'), to: queryValue('to'), last: queryValue('last') };
  const shown = useRef({ from: '', to: '' });
  const list = usePages<AuditEntry>(
    `audit ${JSON.stringify([actor, object, action, ends])}`,
    (cursor, signal) => {
      const window = windowOf(ends, serverNow(), choices);
      const [from, to] = [window.from.toISOString(), window.to.toISOString()];
      shown.current = { from, to };
      return gather(
        async (at) => {
          const page = await ask<PageLike<AuditEntry>>('/v1/audit', {
            query: { limit: pageSize, actor, object: objectAsked(object), from, to, cursor: at },
            signal,
          });
          const items = (page.items ?? []).filter((e) => action === '' || e.action === action);
          return { ...page, items };
        },
        cursor,
        pageSize / 2,
        8,
      );
    },
    { every: slow },
  );
  return (
    <View
      title="Audit"
      about="Who changed what in the tenant. Kept for 400 days. One-off jobs that are made are not told of, and an import is one entry."
      actions={<CopyCurl path={`/v1/audit?${new URLSearchParams({ ...(actor ? { actor } : {}), ...(object ? { object: objectAsked(object) } : {}) }).toString()}`} />}
    >
      <FilterBar
        clears={['from', 'to', 'last']}
        filters={[
          { kind: 'text', name: 'actor', label: 'Who', placeholder: 'deploy' },
          {
            kind: 'text',
            name: 'object',
            label: 'What',
            main: true,
            placeholder: 'job/nightly-report, or task/ for all tasks',
            suggestions: Object.keys(kinds).map((k) => (k === 'import' ? k : `${k}/`)),
          },
          {
            kind: 'choice',
            name: 'action',
            label: 'Did',
            options: ['create', 'update', 'delete', 'cancel', 'pause', 'resume', 'trigger', 'retry', 'replay', 'discard', 'backfill', 'import', 'revoke', 'rotate', 'reset', 'skip'].map((v) => ({ value: v, text: v })),
            any: 'anything',
          },
        ]}
      >
        <WindowPicker label="When" {...choices} />
      </FilterBar>
      <Panel title="Changes, the latest first" live={list} every={slow}>
        <Answered live={list} what="the audit log" needs="It needs the role admin.">
          {(page) => (
            <>
              <div class="changes">
                {page.items.map((entry) => (
                  <Entry key={entry.id} entry={entry} />
                ))}
              </div>
              {page.items.length === 0 && (
                <Empty title={list.more ? 'Nothing matches in the part that was searched' : 'No change matches'} commands={['carillon audit --object job/']}>
                  <p>{list.more ? 'Search on with “Next page”.' : 'Take a longer window, or fewer filters.'}</p>
                </Empty>
              )}
              <Pager
                one="change"
                list={{
                  ...list,
                  // A cursor is good for its window alone: that is held still from here on.
                  toNext: () => setQuery({ ...shown.current, last: '', cursor: page.next_cursor }, { replace: false }),
                }}
              />
            </>
          )}
        </Answered>
      </Panel>
    </View>
  );
}

/** A name alone may be of anything; the API takes "kind/name", or "kind/" for all of a kind. */
function objectAsked(object: string): string {
  return object in kinds && object !== 'import' ? `${object}/` : object;
}

function Entry({ entry }: { entry: AuditEntry }) {
  const hasSides = entry.before !== undefined || entry.after !== undefined;
  return (
    <div class="revision entry">
      <p>
        <TimeLabel at={entry.at} millis relative />{' '}
        <a class="underlined" href={href('/audit', { actor: entry.actor, last: queryValue('last') })} title="All that they changed">
          <bdi>{entry.actor}</bdi>
        </a>{' '}
        <strong>{entry.action}</strong> <Thing object={entry.object} /> <bdi class="muted">{entry.note}</bdi>
      </p>
      {hasSides && (
        <details>
          <summary>
            What changed<span class="hidden"> in {entry.object}</span>
          </summary>
          <Diff before={entry.before} after={entry.after} />
        </details>
      )}
    </div>
  );
}

function Thing({ object }: { object: string }) {
  const [kind = '', ...rest] = object.split('/');
  const id = rest.join('/');
  const pattern = kinds[kind];
  if (!pattern) {
    return <bdi>{object}</bdi>;
  }
  const [path = '', query = ''] = pattern.split('?');
  return (
    <a class="underlined" href={href(pathTo(path, { id }), Object.fromEntries(new URLSearchParams(query)))}>
      <bdi>{object}</bdi>
    </a>
  );
}
