// The audit log: who changed what, and when.

import { useRef } from 'preact/hooks';
import { ask } from '../api/client';
import { slow } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import type { AuditEntry } from '../api/types';
import { serverNow } from '../clock';
import { operationOf } from '../jobs';
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
    { value: '30m', text: 'last half hour' },
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

/** Kinds of things that are changed, and where each is seen. */
const kinds: Record<string, (id: string) => string | undefined> = {
  job: (id) => href(pathTo('/jobs/:id', { id })),
  task: (id) => href(pathTo('/tasks/:name', { name: id })),
  workflow: (id) => href(pathTo('/workflows/:name', { name: id })),
  run: (id) => href(`/runs/${id}`),
  'dead-letter': (id) => href(`/dead-letters/${id}`),
  operation: (id) => href(`/operations/${id}`),
  tenant: (id) => href(pathTo('/tenants/:name', { name: id })),
  key: (id) => href('/keys', { find: id }),
  'signing-key': () => href('/signing-keys'),
  secret: (id) => href('/secrets', { find: id }),
  target: () => href('/tasks', { tab: 'targets' }),
  event: (id) => href('/events', { name: id }),
  import: () => undefined,
};

const actions = [
  'create',
  'update',
  'delete',
  'cancel',
  'pause',
  'resume',
  'trigger',
  'retry',
  'replay',
  'discard',
  'backfill',
  'import',
  'revoke',
  'rotate',
  'reset',
  'skip',
  'publish',
].map((value) => ({ value, text: value }));

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
            // What was done is looked for here, in larger pages.
            query: { limit: action === '' ? pageSize : 500, actor, object: objectAsked(object), from, to, cursor: at },
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
      about="Who changed, paused, approved and cancelled what in the tenant. Kept for 400 days. One-off jobs that are made are not told of, and an import is one entry."
      actions={<CopyCurl path={`/v1/audit?${new URLSearchParams({ ...(actor ? { actor } : {}), ...(object ? { object: objectAsked(object) } : {}) }).toString()}`} />}
    >
      <FilterBar
        clears={['from', 'to', 'last']}
        filters={[
          {
            kind: 'text',
            name: 'actor',
            label: 'Who',
            placeholder: 'deploy',
            suggestions: [...new Set(list.items.map((e) => e.actor))].sort(),
          },
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
            options: actions,
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
                  <p>
                    {list.more ? 'Search on with “Next page”.' : 'Take a longer window, or fewer filters.'}
                    {object !== '' && !object.includes('/') && objectAsked(object) === object && (
                      <> What was changed is told by kind and name, whole: job/{object}, task/{object}.</>
                    )}
                  </p>
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

/** The API takes "kind/name", or "kind/" for all of a kind: a kind alone is all of it. */
function objectAsked(object: string): string {
  return Object.hasOwn(kinds, object) && object !== 'import' ? `${object}/` : object;
}

function Entry({ entry }: { entry: AuditEntry }) {
  const operation = operationOf(entry.note);
  const hasSides = entry.before !== undefined || entry.after !== undefined;
  return (
    <div class="revision entry">
      <p>
        <TimeLabel at={entry.at} millis relative />{' '}
        <a class="underlined" href={href('/audit', { actor: entry.actor, last: queryValue('last') })} title="All that they changed">
          <bdi>{entry.actor}</bdi>
        </a>{' '}
        <strong>{entry.action}</strong> <Thing object={entry.object} /> <bdi class="muted">{entry.note}</bdi>
        {operation !== '' && (
          <>
            {' '}
            <a class="underlined" href={href(`/operations/${operation}`)}>
              the operation
            </a>
          </>
        )}
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
  const [kind = '', ...id] = object.split('/');
  const to = Object.hasOwn(kinds, kind) ? kinds[kind]?.(id.join('/')) : undefined;
  return to === undefined ? (
    <bdi>{object}</bdi>
  ) : (
    <a class="underlined" href={to}>
      <bdi>{object}</bdi>
    </a>
  );
}
