// One run of a workflow: how it stands and why, its steps as a graph coloured as they stand, and all
// that can be done with it and with a step of it.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask, newKey } from '../api/client';
import { fast, slow, steady, useLive, type Live } from '../api/live';
import type { PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Drawing, Run, RunStep } from '../api/types';
import { now, serverNow } from '../clock';
import { Approval, ApproveButton } from '../parts/Approval';
import { confirm } from '../parts/Confirm';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Facts } from '../parts/Facts';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { JsonView, TextView } from '../parts/JsonView';
import { Note } from '../parts/Note';
import { Answered, Missing, Panel } from '../parts/Panel';
import { Progress, type ProgressPart } from '../parts/Progress';
import { StateBadge } from '../parts/StateBadge';
import { ShapeFacts, stepHref, stepsHref } from '../parts/StepFacts';
import { StepGraph } from '../parts/StepGraph';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href, queryValue, queryValues, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { hasEnded, lastAttempt, tookMs, whyItWaits } from '../runs';
import {
  beforeWords,
  eventOf,
  foundIn,
  isOpen,
  itemsDone,
  openBefore,
  reasonWords,
  shapesOfGraph,
  shapesOfRun,
  statesOf,
  untilOf,
  waitsOf,
  workWords,
  type StepShape,
  type StepWait,
} from '../steps';
import { coarse, spanText } from '../time';
import { count, number } from '../words';

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

type Waits = ReadonlyMap<string, StepWait>;

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
          It failed. <bdi>{lastAttempt(run)?.error}</bdi>
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

function WaitWords({ wait }: { wait: StepWait }) {
  return (
    <>
      {wait.text}
      {wait.until && (
        <>
          {' '}
          It is tried <TimeLabel at={wait.until} relative />.
        </>
      )}
    </>
  );
}

/** Why a step stands as it does, as the API says it. */
function Reason({ step }: { step: RunStep }) {
  const until = untilOf(step);
  return until === undefined ? (
    <bdi class="said">{reasonWords(step)}</bdi>
  ) : (
    <>
      It waits until <TimeLabel at={until} relative />.
    </>
  );
}

/** All that is known of why a step stands as it does; nothing if there is nothing to say. */
function StepWhy({ step, steps, wait }: { step: RunStep; steps: ReadonlyMap<string, RunStep>; wait: StepWait | undefined }) {
  const before = openBefore(step, steps);
  if (before.length > 0) {
    return <>{beforeWords(before)}</>;
  }
  return (
    <>
      {wait && <WaitWords wait={wait} />} {step.reason && <Reason step={step} />}
    </>
  );
}

const barTones: Record<string, ProgressPart['tone']> = {
  succeeded: 'good',
  failed: 'bad',
  missed: 'bad',
  running: 'run',
  retrying: 'warn',
  waiting: 'warn',
  skipped: 'still',
  cancelled: 'still',
};

function Steps(props: { run: Run; shapes: readonly StepShape[]; waits: Waits; live: Live<Run>; every: number }) {
  const { run, shapes, waits, live, every } = props;
  const steps = run.steps ?? [];
  const runs = useMemo(() => new Map(steps.map((s) => [s.name, s])), [run]);
  const selected = queryValue('step');
  const find = queryValue('find').toLowerCase();
  const states = queryValues('in');
  const found = useMemo(() => {
    const byText = foundIn(shapes, find);
    if (states.length === 0) {
      return byText;
    }
    const inState = steps.filter((s) => states.includes(s.state)).map((s) => s.name);
    return new Set(byText ? inState.filter((name) => byText.has(name)) : inState);
  }, [shapes, find, states.join(), run]);
  const counts = statesOf(steps);
  const step = runs.get(selected);
  const shape = shapes.find((s) => s.name === selected);
  if (steps.length === 0) {
    return (
      <Panel title="Steps">
        <p class="muted">{hasEnded(run) ? 'It never began, and its workflow has left.' : 'They are not known yet.'}</p>
      </Panel>
    );
  }
  return (
    <Panel title={count(steps.length, 'step')} live={live} every={every}>
      <Progress
        label="Steps by their state"
        of={steps.length}
        parts={[...counts]
          .reverse()
          .filter(([state]) => state !== 'pending')
          .map(([state, n]) => ({ name: state, n, tone: barTones[state] ?? 'still' }))}
      />
      {(steps.length > 8 || found) && (
        <FilterBar
          filters={[
            { kind: 'text', name: 'find', label: 'Find a step', main: true, placeholder: 'load' },
            { kind: 'states', name: 'in', label: 'State', states: counts.map(([state]) => state) },
          ]}
        />
      )}
      {found && (
        <p class="muted" role="status">
          {found.size === 0 ? 'No step matches.' : `${count(found.size, 'step')} of ${number(steps.length)}`}
        </p>
      )}
      <div class="graph-and-step">
        <StepGraph
          caption="The steps, and how they stand"
          shapes={shapes}
          runs={runs}
          selected={selected}
          onSelect={(name) => setQuery({ step: name === selected ? '' : name })}
          found={found}
          table={() => (
            <StepTable
              rows={found ? steps.filter((s) => found.has(s.name)) : steps}
              steps={runs}
              shapes={shapes}
              waits={waits}
            />
          )}
        />
        {step && (
          <aside class="step-about" aria-label={`Step ${step.name}`}>
            <StepAbout run={run} step={step} steps={runs} shape={shape} wait={waits.get(selected)} />
          </aside>
        )}
      </div>
    </Panel>
  );
}

function StepTable(props: {
  rows: readonly RunStep[];
  steps: ReadonlyMap<string, RunStep>;
  shapes: readonly StepShape[];
  waits: Waits;
}) {
  const { rows, steps, shapes, waits } = props;
  const byName = new Map(shapes.map((s) => [s.name, s]));
  const columns: Column<RunStep>[] = [
    { head: 'Step', kind: 'main', cell: (s) => s.name },
    { head: 'State', cell: (s) => <StateBadge state={s.state} /> },
    {
      head: 'Items',
      kind: 'number',
      cell: (s) => {
        if (!s.items) {
          return <span class="muted">–</span>;
        }
        const { done, failed, total } = itemsDone(s.items);
        return `${number(done)} of ${number(total)}${failed > 0 ? `, ${number(failed)} failed` : ''}`;
      },
    },
    { head: 'Took', kind: 'number', cell: (s) => <Took step={s} /> },
    { head: 'Attempts', kind: 'number', minor: true, cell: (s) => s.attempts ?? 0 },
    { head: 'Does', minor: true, cell: (s) => <bdi>{workWords(byName.get(s.name) ?? { kind: '', what: '' })}</bdi> },
    { head: 'Why', cell: (s) => <StepWhy step={s} steps={steps} wait={waits.get(s.name)} /> },
  ];
  return (
    <Table
      caption="Steps"
      columns={columns}
      rows={rows}
      rowKey={(s) => s.name}
      rowHref={(s) => stepHref(s.name)}
      empty={<p class="muted">No step matches.</p>}
    />
  );
}

function Took({ step }: { step: RunStep }) {
  if (!step.started_at) {
    return <span class="muted">–</span>;
  }
  const end = step.finished_at ? Date.parse(step.finished_at) : now.value;
  return <>{spanText(Math.max(0, end - Date.parse(step.started_at)))}</>;
}

function StepAbout(props: {
  run: Run;
  step: RunStep;
  steps: ReadonlyMap<string, RunStep>;
  shape: StepShape | undefined;
  wait: StepWait | undefined;
}) {
  const { run, step, steps, shape, wait } = props;
  const action = useAction({ loud: true });
  const before = openBefore(step, steps);
  const skip = async (): Promise<void> => {
    const yes = await confirm({
      title: `Skip ${step.name}?`,
      children: (
        <p>
          It counts as succeeded for the steps after it, which go on without its output.
          {step.state === 'running' || step.state === 'retrying' ? ' It runs now, and is told to stop.' : ''} That cannot be
          taken back.
        </p>
      ),
      action: 'Skip the step',
      danger: true,
    });
    if (yes) {
      await action.run(
        () =>
          answer(
            api.POST('/v1/runs/{id}/steps/{step}/skip', { params: { path: { id: run.id, step: step.name } } }),
          ),
        `${step.name} is skipped.`,
      );
    }
  };
  return (
    <>
      <div class="row">
        <h3>{step.name}</h3>
        <StateBadge state={step.state} />
        <button type="button" class="button quiet icon-button step-close" aria-label="Close what is said of the step" onClick={() => setQuery({ step: '' })}>
          <Icon name="cross" size={14} />
        </button>
      </div>
      {before.length > 0 ? (
        <p>
          It waits for{' '}
          {before.slice(0, 4).map((s, i) => (
            <span key={s.name}>
              {i > 0 && ', '}
              <a href={stepHref(s.name)}>{s.name}</a> ({s.state})
            </span>
          ))}
          {before.length > 4 && ` and ${number(before.length - 4)} more`}.
        </p>
      ) : (
        (wait ?? step.reason) && (
          <p class={step.state === 'failed' ? 'toned tone-bad' : undefined}>
            <StepWhy step={step} steps={steps} wait={wait} />
          </p>
        )
      )}
      <Items step={step} />
      <Facts
        facts={[
          ['Started', step.started_at && <TimeLabel at={step.started_at} millis relative />],
          ['Ended', step.finished_at && <TimeLabel at={step.finished_at} millis />],
          ['Took', step.started_at && <Took step={step} />],
          ['Attempts', step.attempts !== undefined && number(step.attempts)],
        ]}
      />
      {shape && <ShapeFacts shape={shape} />}
      <div class="row">
        {step.run_id && (
          <a class="button small" href={href(shape?.kind === 'workflow' ? `/workflow-runs/${step.run_id}` : `/runs/${step.run_id}`)}>
            Its run: attempts, log, output
          </a>
        )}
        {!hasEnded(run) && <ApproveButton key={step.name} run={run} step={step} shape={shape} />}
        {may('operator') && !hasEnded(run) && isOpen(step) && !(step.items && step.state !== 'pending') && (
          <button type="button" class="button small" disabled={action.busy} onClick={() => void skip()}>
            Skip
          </button>
        )}
      </div>
      {step.items && <ItemRuns run={run} step={step.name} />}
    </>
  );
}

function Items({ step }: { step: RunStep }) {
  const { items } = step;
  if (!items) {
    return null;
  }
  const counts = statesOf(Object.keys(items.states ?? {}).map((state) => ({ state }))).map(([state]) => state);
  return (
    <Progress
      label={`Items of ${step.name} by their state`}
      of={items.total}
      parts={[...counts]
        .reverse()
        .filter((state) => state !== 'pending')
        .map((state) => ({ name: state, n: items.states?.[state as keyof typeof items.states] ?? 0, tone: barTones[state] ?? 'still' }))}
    />
  );
}

/** The runs of the items of a step, those first that need somebody. */
function ItemRuns({ run, step }: { run: Run; step: string }) {
  const [wrongOnly, setWrongOnly] = useState(true);
  const over = hasEnded(run);
  const live = useLive<PageLike<Run>>(
    `items of ${run.id} ${step} ${wrongOnly}`,
    (signal) =>
      ask('/v1/runs', {
        query: {
          workflow_run: run.id,
          step,
          limit: 50,
          state: wrongOnly ? ['failed', 'retrying', 'running', 'missed'] : undefined,
        },
        signal,
      }),
    { every: over ? slow : 5000 },
  );
  if (live.problem && !live.data) {
    // A node of an older version has no such list: the counts are all there is.
    return live.problem.status === 422 || live.problem.notOffered ? null : (
      <Missing problem={live.problem} what="the items of a step" retry={live.refresh} />
    );
  }
  const columns: Column<Run>[] = [
    { head: 'Item', kind: 'main', cell: (r) => `Item ${r.item ?? ''}` },
    { head: 'State', cell: (r) => <StateBadge state={r.state} /> },
    {
      head: 'Took',
      kind: 'number',
      cell: (r) => {
        const ms = tookMs(r, serverNow());
        return ms === undefined ? <span class="muted">–</span> : spanText(ms);
      },
    },
    {
      head: 'Why',
      cell: (r) => {
        const text = whyItWaits(r, serverNow())?.text ?? lastAttempt(r)?.error ?? r.reason;
        return text && <bdi class="said">{text}</bdi>;
      },
    },
  ];
  return (
    <section class="stack" aria-label={`Items of ${step}`}>
      <label class="check">
        <input type="checkbox" checked={wrongOnly} onChange={(e) => setWrongOnly(e.currentTarget.checked)} />
        Only items that failed or run
      </label>
      <Table
        caption="Items"
        columns={columns}
        rows={live.data?.items ?? []}
        rowKey={(r) => r.id}
        rowHref={(r) => href(`/runs/${r.id}`)}
        empty={<p class="muted">{live.loading && !live.data ? 'Asking for them.' : wrongOnly ? 'None failed, and none runs.' : 'None has a run yet.'}</p>}
      />
      {live.data?.next_cursor && <p class="muted">The first 50 are shown.</p>}
    </section>
  );
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
        ['A step of', run.workflow_run_id && <a href={href(`/workflow-runs/${run.workflow_run_id}`, { step: run.step })}>{run.step}</a>],
        ['Priority', run.priority],
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
