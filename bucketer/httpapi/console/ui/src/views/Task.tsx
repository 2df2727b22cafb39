// One task: what it does, within which limits, and the way to its runs.

import { useAction } from '../api/action';
import { answer, api, ask } from '../api/client';
import type { TopList } from '../api/coming';
import { slow, steady, useLive } from '../api/live';
import { may, maySeeAll, tenant } from '../api/session';
import type { Task } from '../api/types';
import { serverNow } from '../clock';
import { Changes } from '../parts/Changes';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Facts, type Fact } from '../parts/Facts';
import { Icon } from '../parts/Icon';
import { JsonView } from '../parts/JsonView';
import { Note } from '../parts/Note';
import { Answered, Panel } from '../parts/Panel';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo, type Query } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { authWords, targetWords } from '../target';
import { durationText, spanText } from '../time';
import { missedLately } from '../verdict';
import { count, number } from '../words';

export function TaskView({ params }: ViewParams) {
  const name = params.name ?? '';
  const path = { path: { name } };
  const live = useLive(`task ${name}`, (signal) => answer(api.GET('/v1/tasks/{name}', { params: path, signal })), {
    every: steady,
  });
  const task = live.data;
  return (
    <View
      title={name}
      above={[['Tasks', '/tasks']]}
      about={task?.description && <bdi>{task.description}</bdi>}
      actions={
        <>
          {task && <Actions task={task} />}
          <CopyCurl path={pathTo('/v1/tasks/:name', { name })} />
        </>
      }
    >
      <Answered live={live} what="this task">
        {(t) => (
          <>
            {t.fault && (
              <Note tone="bad" alert>
                What is stored of it is not understood, and its runs fail until it is put again: {t.fault}
              </Note>
            )}
            <Tabs
              label="Of the task"
              tabs={[
                { id: 'now', title: 'What it does', content: () => <WhatItDoes task={t} /> },
                { id: 'changes', title: 'Revisions', content: () => <Changes object={`task/${t.name}`} /> },
                { id: 'definition', title: 'Definition', content: () => <JsonView label="Task" value={t} /> },
              ]}
            />
          </>
        )}
      </Answered>
    </View>
  );
}

function Actions({ task }: { task: Task }) {
  const action = useAction({ loud: true });
  if (!may('operator')) {
    return null;
  }
  const { name } = task;
  const remove = async (): Promise<void> => {
    const yes = await confirm({
      title: `Delete the task ${name}?`,
      children: <p>Its runs to come will fail: those of jobs and workflows that name it. That cannot be taken back.</p>,
      action: 'Delete the task',
      danger: true,
      typed: name,
    });
    if (!yes) {
      return;
    }
    const done = await action.run(async () => {
      await answer(api.DELETE('/v1/tasks/{name}', { params: { path: { name } } }));
      return true;
    }, `The task ${name} is deleted.`);
    if (done) {
      go('/tasks');
    }
  };
  return (
    <>
      <a class="button primary" href={href('/jobs/new', { task: name })}>
        <Icon name="plus" /> Job of this task
      </a>
      <a class="button" href={href(pathTo('/tasks/:name/edit', { name }))}>
        Edit
      </a>
      <button type="button" class="button danger" disabled={action.busy} onClick={() => void remove()}>
        Delete
      </button>
    </>
  );
}

const guarantees: Record<string, string> = {
  at_least_once: 'at least once: it may be called again after a fault',
  at_most_once: 'at most once: after a fault it is not called again',
  effectively_once: 'effectively once: a later result of an attempt that was given up counts no more',
};

function WhatItDoes({ task }: { task: Task }) {
  return (
    <div class="columns">
      <Panel title="What it does">
        <Facts facts={targetFacts(task)} />
      </Panel>
      <Panel title="Within which limits">
        <Facts
          facts={[
            ['Time-out of an attempt', durationText(task.timeout)],
            ['Retries', retryWords(task)],
            ['Guarantee', guarantees[task.guarantee ?? ''] ?? task.guarantee],
            ['Rate', task.rate ?? 'no bound'],
            ['Runs at once', task.max_concurrent ? `at most ${number(task.max_concurrent)}` : 'no bound'],
            ['Changed', <TimeLabel key="changed" at={task.updated_at} relative />],
            ['Created', <TimeLabel key="created" at={task.created_at} relative />],
          ]}
        />
      </Panel>
      <LastHour task={task} />
      {task.payload_schema !== undefined && (
        <Panel title="What its payload must be" about="A JSON Schema. A job whose payload does not fit is refused.">
          <JsonView label="Payload schema" value={task.payload_schema} />
        </Panel>
      )}
    </div>
  );
}

function targetFacts(task: Task): (Fact | false)[] {
  const { http, nats, script, lambda } = task;
  const headers = Object.entries(http?.headers ?? {});
  return [
    ['Does', <bdi key="does">{targetWords(task)}</bdi>],
    ['Body', http && (http.body === 'none' ? 'none' : 'the payload')],
    ['Shows who calls by', authWords(task)],
    ['Signed with', http && (http.signing_key || 'the key called default, if there is one')],
    ['Headers', headers.length > 0 && <bdi>{headers.map(([k, v]) => `${k}: ${v}`).join('\n')}</bdi>],
    ['Answers', nats && 'a reply without the header Carillon-Error is success'],
    ['Arguments', script && (script.args ?? []).length > 0 && <code>{(script.args ?? []).join(' ')}</code>],
    ['Invoked', lambda?.invocation],
    ['Credentials', lambda && <a href={href('/secrets')}>{lambda.credentials}</a>],
  ];
}

function retryWords(task: Task): string {
  const r = task.retry;
  if (!r?.max_attempts || r.max_attempts === 1) {
    return 'none: one attempt';
  }
  return `${count(r.max_attempts, 'attempt')}, first after ${durationText(r.initial)}, each pause × ${r.factor ?? 2}, at most ${durationText(r.max)}${r.jitter === 'full' ? ', drawn at random below that' : ''}`;
}

function LastHour({ task }: { task: Task }) {
  const live = useLive<TopList>(
    `top tasks of ${tenant.value}`,
    (signal) =>
      ask('/v1/stats/top', {
        query: { by: 'task', from: new Date(serverNow() - 3_600_000).toISOString(), limit: 500, scope: 'tenant' },
        signal,
      }),
    { every: slow },
  );
  const sums = live.data?.items.find((t) => t.name === task.name && (!t.tenant || t.tenant === tenant.value || !maySeeAll()));
  const { name } = task;
  return (
    <Panel title="The last hour" live={live} every={slow}>
      <Answered live={live} what="counts by task">
        {() =>
          sums ? (
            <Facts
              facts={[
                ['Started', number(sums.started)],
                ['Attempts succeeded', number(sums.succeeded)],
                [
                  'Attempts failed',
                  <Counted key="failed" n={sums.failed} tone="bad" query={{ task: name, last: '1h', state: ['failed', 'retrying'], of: 'attempts' }} />,
                ],
                ['Late by more than 1 s', <Counted key="late" n={sums.late} tone="warn" query={{ task: name, last: '1h', late: '1s', of: 'late' }} />],
                ['Missed', sums.missed > 0 && <Counted n={sums.missed} tone="bad" query={{ task: name, ...missedLately }} />],
                ['Lateness', sums.lateness && `half start at most ${spanText(sums.lateness.p50_ms)} late, 99 % at most ${spanText(sums.lateness.p99_ms)} (by classes)${task.rate ? ', with what they wait for the rate' : ''}`],
              ]}
            />
          ) : (
            <p class="muted">No run of it is among the most frequent of the last hour.</p>
          )
        }
      </Answered>
      <div class="row">
        <a class="button small" href={href('/runs', { task: name, last: '1h' })}>
          Its runs
        </a>
        <a class="button small" href={href('/runs', { task: name, state: 'pending', last: '1h' })}>
          Those that wait
        </a>
        <a class="button small" href={href('/runs', { task: name, state: ['failed', 'missed'], last: '24h' })}>
          Those that failed, of a day
        </a>
        <a class="button small" href={href('/dead-letters', { task: name })}>
          Its dead letters
        </a>
      </div>
    </Panel>
  );
}

/** A number, which leads to what it counts. */
function Counted({ n, tone, query }: { n: number; tone: 'bad' | 'warn'; query: Query }) {
  return n === 0 ? (
    <>0</>
  ) : (
    <a class={`toned tone-${tone}`} href={href('/runs', query)}>
      {number(n)}
    </a>
  );
}
