// One run: how it stands and why, its life as a bar, its attempts, what it was given and what it said.

import { useEffect, useState } from 'preact/hooks';
import { useAction, type Action } from '../api/action';
import { answer, api, askWithText, newKey } from '../api/client';
import { fast, slow, useLive } from '../api/live';
import type { Problem } from '../api/problem';
import { may } from '../api/session';
import type { Run } from '../api/types';
import { memberText } from '../json';
import { lateFromMs } from '../lateness';
import { confirm } from '../parts/Confirm';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Icon } from '../parts/Icon';
import { JsonView, TextView } from '../parts/JsonView';
import { LogTail } from '../parts/LogTail';
import { Answered, Panel } from '../parts/Panel';
import { LifeBar } from '../parts/RunLife';
import { StateBadge } from '../parts/StateBadge';
import { Tabs } from '../parts/Tabs';
import { View } from '../parts/View';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { hasEnded, nameOf } from '../runs';
import { count } from '../words';
import { EditAndRun } from './RunEditAgain';
import { Attempts, Output, RunFacts } from './RunParts';
import { StartedLate, Why } from './RunWhy';

interface Shown {
  run: Run;
  /** Its payload as it is written; undefined: it has none. */
  payload: string | undefined;
}

async function load(id: string, signal: AbortSignal): Promise<Shown> {
  const { data, text } = await askWithText<Run>(`/v1/runs/${encodeURIComponent(id)}`, { signal });
  return { run: data, payload: memberText(text, 'payload') };
}

export function RunView({ params }: ViewParams) {
  const id = params.id ?? '';
  const [over, setOver] = useState(false);
  const live = useLive(`shown run ${id}`, (signal) => load(id, signal), { every: over ? slow : fast });
  const run = live.data?.run;
  useEffect(() => {
    if (run) {
      setOver(hasEnded(run));
      if (run.workflow) {
        go(`/workflow-runs/${run.id}`, {}, { replace: true });
      }
    }
  }, [run]);
  return (
    <View
      title={run ? nameOf(run) : 'Run'}
      badge={run && <StateBadge state={run.state} />}
      above={[['Runs', '/runs']]}
      about={<Id text={id} />}
      actions={
        <>
          {live.data && <Actions {...live.data} />}
          <CopyCurl path={`/v1/runs/${id}`} />
        </>
      }
    >
      {live.problem?.status === 404 && !run ? (
        <Gone id={id} problem={live.problem} />
      ) : (
        <Answered live={live} what="this run">
          {(shown) => <Parts {...shown} />}
        </Answered>
      )}
    </View>
  );
}

function Gone({ id, problem }: { id: string; problem: Problem }) {
  return (
    <Panel title="There is no such run">
      <p>{problem.detail || problem.title}</p>
      <p>
        A run leaves some time after its end. If it failed for good it may still lie in the{' '}
        <a href={href(`/dead-letters/${id}`)}>dead letters</a>. It may also be one of another tenant.
      </p>
    </Panel>
  );
}

/** Cancels a run, after a question. */
async function cancelRun(run: Run, action: Action): Promise<void> {
  const yes = await confirm({
    title: 'Cancel this run?',
    children: (
      <p>
        {run.state === 'running'
          ? 'Its worker is told to stop. What it has done until then stays done.'
          : 'It will not start. That cannot be taken back; it can be run again as a new run.'}
      </p>
    ),
    action: 'Cancel the run',
    danger: true,
  });
  if (yes) {
    await action.run(() => answer(api.POST('/v1/runs/{id}/cancel', { params: { path: { id: run.id } } })), 'The run is cancelled.');
  }
}

/** Beside why a run waits: the way out of it. */
function CancelHere({ run }: { run: Run }) {
  const action = useAction({ loud: true });
  return may('operator') ? (
    <button type="button" class="button danger small" disabled={action.busy} onClick={() => void cancelRun(run, action)}>
      Cancel it, so that it does not run
    </button>
  ) : null;
}

function Actions({ run, payload }: Shown) {
  const action = useAction({ loud: true });
  const [key] = useState(newKey);
  const [editing, setEditing] = useState(false);
  if (!may('operator')) {
    return null;
  }
  const retry = async (): Promise<void> => {
    const again = await action.run(
      () =>
        answer(
          api.POST('/v1/runs/{id}/retry', {
            params: { path: { id: run.id }, header: { 'Idempotency-Key': `${key}-${run.state}` } },
          }),
        ),
      'It runs again, as this new run.',
    );
    if (again) {
      go(`/runs/${again.id}`);
    }
  };
  const step = run.workflow_run_id !== undefined;
  return (
    <>
      {!hasEnded(run) && (
        <button type="button" class="button danger-quiet" disabled={action.busy} onClick={() => void cancelRun(run, action)}>
          Cancel
        </button>
      )}
      {hasEnded(run) && !step && (
        <button type="button" class="button primary" disabled={action.busy} onClick={() => void retry()}>
          <Icon name="again" /> Run again
        </button>
      )}
      {!step && (
        <button type="button" class="button" onClick={() => setEditing(true)}>
          Edit and run again
        </button>
      )}
      {editing && <EditAndRun run={run} payload={payload} onClose={() => setEditing(false)} />}
    </>
  );
}

function Parts({ run, payload }: Shown) {
  const attempts = run.attempts ?? [];
  return (
    <>
      <Why run={run} cancel={<CancelHere run={run} />} />
      {(run.lateness_ms ?? 0) > lateFromMs && <StartedLate run={run} />}
      <div class="columns">
        <Panel title="Its life">
          <LifeBar run={run} />
        </Panel>
        <Panel title="Facts">
          <RunFacts run={run} />
        </Panel>
      </div>
      <Panel title={count(attempts.length, 'attempt')}>
        <Attempts attempts={attempts} />
      </Panel>
      <section class="panel" aria-label="Log, output and payload">
        <Tabs
          label="What it said, and what it was given"
          tabs={[
            { id: 'log', title: 'Log', content: () => <LogTail run={run.id} /> },
            { id: 'output', title: 'Output', content: () => <Output run={run} /> },
            {
              id: 'payload',
              title: 'Payload',
              content: () =>
                payload === undefined ? (
                  <p class="muted">It was given no payload.</p>
                ) : (
                  <TextView label="Payload" text={payload} json />
                ),
            },
            { id: 'json', title: 'As JSON', content: () => <JsonView label="Run" value={run} /> },
          ]}
        />
      </section>
    </>
  );
}
