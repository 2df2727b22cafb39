// One run of a workflow: how it stands and why, its steps as a graph coloured as they stand, and all
// that can be done with it and with a step of it.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask, newKey } from '../api/client';
import { fast, slow, steady, useLive, type Live } from '../api/live';
import type { PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Drawing, Run } from '../api/types';
import { now, serverNow } from '../clock';
import { Approval, ApprovedBy } from '../parts/Approval';
import { homeFact } from '../parts/AtHome';
import { confirm } from '../parts/Confirm';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Facts } from '../parts/Facts';
import { Icon } from '../parts/Icon';
import { JsonView, TextView } from '../parts/JsonView';
import { Note } from '../parts/Note';
import { Answered, Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { stepHref, stepsHref } from '../parts/StepFacts';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { errorOf, hasEnded, lastAttempt, tookMs, whyItWaits } from '../runs';
import { eventOf, shapesOfGraph, shapesOfRun, untilOf, waitsOf, type StepShape } from '../steps';
import { coarse, spanText } from '../time';
import { count, number } from '../words';
import { Reason, Steps, WaitWords, type Waits } from './WorkflowRunSteps';

export function WorkflowRun({ params }: ViewParams) {
  const id = params.id ?? '';
  const [over, setOver] = useState(false);
  const live = useLive(`run ${id}`, (signal) => answer(api.GET('/v1/runs/{id}', { params: { path: { id } }, signal })), {
    every: over ? slow : fast,
  });
  const run = live.data;
  useEffect(() => {
    if (run) {
      setOver(hasEnded(run));
      if (!run.workflow) {
        go(`/runs/${run.id}`, {}, { replace: true });
      }
    }
  }, [run]);
  const above: [string, string][] = [['Workflows', '/workflows']];
  if (run?.workflow) {
    above.push([run.workflow, pathTo('/workflows/:name', { name: run.workflow })]);
  }
  return (
    <View
      title={run?.workflow ? `Run of ${run.workflow}` : 'Run of a workflow'}
      badge={run && <StateBadge state={run.state} />}
      above={above}
      about={<Id text={id} />}
      actions={
        <>
          {run && <Actions run={run} />}
          <CopyCurl path={`/v1/runs/${id}`} />
        </>
      }
    >
      {live.problem?.status === 404 && !run ? (
        <Panel title="There is no such run">
          <p>{live.problem.detail || live.problem.title}</p>
          <p>A run leaves some time after its end. It may also be one of another tenant.</p>
        </Panel>
      ) : (
        <Answered live={live} what="this run">
          {(r) => <Shown run={r} live={live} every={over ? slow : fast} />}
        </Answered>
      )}
    </View>
  );
}

function Actions({ run }: { run: Run }) {
  const action = useAction({ loud: true });
  const [key] = useState(newKey);
  if (!may('operator')) {
    return null;
  }
  const path = { path: { id: run.id } };
  const steps = run.steps ?? [];
  const cancel = async (): Promise<void> => {
    const underWay = steps.filter((s) => s.state === 'running' || s.state === 'retrying').length;
    const yes = await confirm({
      title: 'Cancel this run?',
      children: (
        <p>
          {underWay > 0 ? `${count(underWay, 'step')} under way ${underWay === 1 ? 'is' : 'are'} told to stop. ` : ''}
          No other step starts, but those that are to start after a cancel. What was done stays done. It can be retried:
          then steps that succeeded are taken over.
        </p>
      ),
      action: 'Cancel the run',
      danger: true,
    });
    if (yes) {
      await action.run(() => answer(api.POST('/v1/runs/{id}/cancel', { params: path })), 'The run is cancelled.');
    }
  };
  const retry = async (): Promise<void> => {
    const taken = steps.filter((s) => s.state === 'succeeded').length;
    const yes = await confirm({
      title: run.state === 'succeeded' ? 'Run it again?' : 'Retry from what failed?',
      children: (
        <p>
          A new run of the same definition and payload begins.{' '}
          {taken > 0
            ? `${count(taken, 'step')} that succeeded ${taken === 1 ? 'is' : 'are'} taken over with ${taken === 1 ? 'its output' : 'their outputs'}; the others start again.`
            : 'All its steps start again.'}
        </p>
      ),
      action: 'Retry',
    });
    if (!yes) {
      return;
    }
    const again = await action.run(
      () =>
        answer(api.POST('/v1/runs/{id}/retry', { params: { ...path, header: { 'Idempotency-Key': `${key}-${run.state}` } } })),
      'It goes on as this new run.',
    );
    if (again) {
      go(`/workflow-runs/${again.id}`);
    }
  };
  return hasEnded(run) ? (
    <button type="button" class="button primary" disabled={action.busy} onClick={() => void retry()}>
      <Icon name="again" /> {run.state === 'succeeded' ? 'Run again' : 'Retry from what failed'}
    </button>
  ) : (
    <button type="button" class="button danger" disabled={action.busy} onClick={() => void cancel()}>
      Cancel
    </button>
  );
}

function Shown({ run, live, every }: { run: Run; live: Live<Run>; every: number }) {
  const steps = run.steps ?? [];
  const drawing = useLive(
    // Before it begins its steps are those that the workflow has now.
    `graph of run ${run.id} ${run.started_at ?? ''}`,
    (signal) => ask<Drawing>(`/v1/runs/${run.id}/graph`, { signal }),
    { every: 0 },
  );
  const waits = useWaits(run);
  const names = steps.map((s) => `${s.name} ${(s.after ?? []).join(' ')}`).join('\n');
  const shapes = useMemo(
    () => (drawing.data ? shapesOfGraph(drawing.data) : shapesOfRun(steps)),
    [drawing.data, names],
  );
  return (
    <>
      <Why run={run} shapes={shapes} waits={waits} />
      <Steps run={run} shapes={shapes} waits={waits} live={live} every={every} />
      <div class="columns">
        <Panel title="Facts">
          <RunFacts run={run} />
        </Panel>
        <section class="panel" aria-label="Payload and answer">
          <Tabs
            label="What it was given"
            tabs={[
              {
                id: 'payload',
                title: 'Payload',
                content: () =>
                  run.payload === undefined ? <p class="muted">It has none.</p> : <JsonView label="Payload" value={run.payload} />,
              },
              { id: 'output', title: 'Output', content: () => <Output run={run} /> },
              { id: 'json', title: 'As JSON', content: () => <JsonView label="Run" value={run} /> },
            ]}
          />
        </section>
      </div>
    </>
  );
}

const noWaits: Waits = new Map();

/** What the runs of its steps wait for that have not started, or are tried again: by the step. */
function useWaits(run: Run): Waits {
  const isHeld = (state: string): boolean => state === 'pending' || state === 'retrying';
  const some =
    !hasEnded(run) &&
    (run.steps ?? []).some((s) => (s.run_id ? isHeld(s.state) : Object.keys(s.items?.states ?? {}).some(isHeld)));
  const live = useLive<PageLike<Run>>(
    some ? `waits of ${run.id}` : null,
    (signal) =>
      ask('/v1/runs', { query: { workflow_run: run.id, state: ['pending', 'retrying'], limit: 500 }, signal }),
    { every: steady },
  );
  return useMemo(() => (some && live.data ? waitsOf(live.data.items ?? [], serverNow()) : noWaits), [some, live.data]);
}

function Output({ run }: { run: Run }) {
  const output = lastAttempt(run)?.output;
  if (!output) {
    return <p class="muted">{hasEnded(run) ? 'It has none.' : 'It has none yet: it is that of its last steps.'}</p>;
  }
  return <TextView label="Output" text={output} file={`run-${run.id}.txt`} />;
}

/** How many steps are told of one by one before their table is. */
const toldAtMost = 3;

/** The first thing to read: what it waits for, what failed. */
function Why({ run, shapes, waits }: { run: Run; shapes: readonly StepShape[]; waits: Waits }) {
  const steps = run.steps ?? [];
  const byName = new Map(shapes.map((s) => [s.name, s]));
  const waiting = steps.filter((s) => s.state === 'waiting');
  const events = waiting.filter((s) => eventOf(byName.get(s.name) ?? { kind: '', what: '' }) !== undefined);
  const times = waiting.filter((s) => !events.includes(s));
  // Of those that wait for a time the one that goes on first is told of.
  const first = [...times].sort((a, b) => (untilOf(a) ?? '~').localeCompare(untilOf(b) ?? '~'))[0];
  const failed = steps.filter((s) => s.state === 'failed');
  const begins = run.state === 'pending' ? whyItWaits(run, serverNow()) : undefined;
  return (
    <>
      {run.fault && <Note tone="bad" icon="cross">What is stored of it is not understood: {run.fault}</Note>}
      {run.state === 'missed' && (
        <Note tone="bad" icon="cross">It never began: it was so late that its workflow gave it up. {run.missed?.reason}</Note>
      )}
      {run.state === 'cancelled' && (
        <Note tone="still" icon="clock">It was cancelled{run.cancel_reason ? `: ${run.cancel_reason}` : ', because somebody asked for it'}.</Note>
      )}
      {run.state === 'failed' && failed.length === 0 && (
        <Note tone="bad" icon="cross">
          It failed. <bdi>{errorOf(run)}</bdi>
        </Note>
      )}
      {begins && (
        <Note tone={begins.word === 'late' ? 'bad' : 'still'} icon="clock">
          It has not begun. {begins.text} {begins.until && <TimeLabel at={begins.until} relative />}
        </Note>
      )}
      {failed.length > 0 && (
        <Note tone="bad" icon="cross">
          <strong>{count(failed.length, 'step')} failed.</strong>{' '}
          {failed.slice(0, toldAtMost).map((s) => (
            <span key={s.name} class="why-step">
              <a href={stepHref(s.name)}>{s.name}</a>: <bdi>{s.reason || 'it says nothing of why'}</bdi>{' '}
            </span>
          ))}
          <More n={failed.length - toldAtMost} state="failed" />
        </Note>
      )}
      {events.slice(0, toldAtMost).map((s) => (
        <Approval key={s.name} run={run} step={s} shape={byName.get(s.name)} />
      ))}
      <More n={events.length - toldAtMost} state="waiting" />
      {steps
        .filter((s) => s.event)
        .slice(-toldAtMost)
        .map(
          (s) =>
            s.event && (
              <Note key={s.name} tone="run" icon="check">
                <a href={stepHref(s.name)}>{s.name}</a> was approved: <ApprovedBy event={s.event} at={s.finished_at} />.
              </Note>
            ),
        )}
      {[...waits].slice(0, toldAtMost).map(([name, wait]) => (
        <Note key={name} tone="warn" icon="clock">
          <a href={stepHref(name)}>{name}</a>: <WaitWords wait={wait} />
        </Note>
      ))}
      {first && (
        <Note tone="still" icon="clock">
          <a href={stepHref(first.name)}>{first.name}</a>: <Reason step={first} />{' '}
          <More n={times.length - 1} state="waiting" />
        </Note>
      )}
    </>
  );
}

/** The way to those of which nothing was said. */
function More({ n, state }: { n: number; state: string }) {
  return n > 0 ? (
    <a href={stepsHref({ in: state })}>
      and {number(n)} more {state === 'waiting' ? 'that wait' : ''}
    </a>
  ) : null;
}

function RunFacts({ run }: { run: Run }) {
  const took = tookMs(run, now.value);
  return (
    <Facts
      facts={[
        ['Due', <TimeLabel key="due" at={run.due_at} millis relative />],
        ['Begun', run.started_at && <TimeLabel at={run.started_at} millis />],
        ['Late by', run.lateness_ms !== undefined && <span class={run.lateness_ms > 1000 ? 'toned tone-bad' : ''}>{spanText(run.lateness_ms)}</span>],
        ['Ended', run.finished_at && <TimeLabel at={run.finished_at} millis relative />],
        ['Took', took !== undefined && `${spanText(took)}${hasEnded(run) ? '' : ' so far'}`],
        ['Ends at the latest', !hasEnded(run) && run.deadline_at && <DeadlineAt at={run.deadline_at} />],
        ['Begun by', run.trigger],
        ['Event', run.event && <code>{run.event.name}</code>],
        ['Repeats', run.origin && <a href={href(`/workflow-runs/${run.origin}`)}>{run.origin}</a>],
        ['Replayed as', run.replayed_as && <a href={href(`/workflow-runs/${run.replayed_as}`)}>{run.replayed_as}</a>],
        ['A step of', run.workflow_run_id && <a href={href(`/workflow-runs/${run.workflow_run_id}`, { step: run.step })}>{run.step}</a>],
        ['Priority', run.priority],
        homeFact(run),
      ]}
    />
  );
}

function DeadlineAt({ at }: { at: string }) {
  const left = Date.parse(at) - now.value;
  return (
    <>
      <TimeLabel at={at} /> <span class={left < 600_000 ? 'toned tone-warn' : 'muted'}>{left > 0 ? `${coarse(left)} left` : 'it has passed'}</span>
    </>
  );
}
