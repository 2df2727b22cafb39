// The steps of a workflow run: as a graph coloured as they stand, as a table, and one of them closely.

import { useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask } from '../api/client';
import { slow, useLive, type Live } from '../api/live';
import type { PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Run, RunStep } from '../api/types';
import { now, serverNow } from '../clock';
import { ApproveButton, ApprovedBy } from '../parts/Approval';
import { confirm } from '../parts/Confirm';
import { Facts } from '../parts/Facts';
import { FilterBar } from '../parts/FilterBar';
import { Icon } from '../parts/Icon';
import { Missing, Panel } from '../parts/Panel';
import { Progress, type ProgressPart } from '../parts/Progress';
import { StateBadge } from '../parts/StateBadge';
import { ShapeFacts, stepHref } from '../parts/StepFacts';
import { StepGraph } from '../parts/StepGraph';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { href, queryValue, queryValues, setQuery } from '../router';
import { hasEnded, lastAttempt, tookMs, whyItWaits } from '../runs';
import {
  beforeWords,
  foundIn,
  isOpen,
  itemsDone,
  openBefore,
  reasonWords,
  statesOf,
  untilOf,
  workWords,
  type StepShape,
  type StepWait,
} from '../steps';
import { spanText } from '../time';
import { count, number } from '../words';

/** What the runs of steps wait for, by the step. */
export type Waits = ReadonlyMap<string, StepWait>;

export function WaitWords({ wait }: { wait: StepWait }) {
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
export function Reason({ step }: { step: RunStep }) {
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

export function Steps(props: { run: Run; shapes: readonly StepShape[]; waits: Waits; live: Live<Run>; every: number }) {
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
          ['Went on as', step.event && <ApprovedBy event={step.event} at={step.finished_at} />],
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
