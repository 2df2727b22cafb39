// One workflow: its graph, its next runs, what became of its runs, and all that can be done with it.

import { useMemo, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask, newKey } from '../api/client';
import { steady, useLive } from '../api/live';
import { gather, usePages, type PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Drawing, NextRun, Run, Workflow } from '../api/types';
import { serverNow } from '../clock';
import { jsonFault, partOf } from '../document';
import { pausedWords } from '../jobs';
import { Changes } from '../parts/Changes';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Facts, Labels } from '../parts/Facts';
import { AreaField } from '../parts/Field';
import { FilterBar } from '../parts/FilterBar';
import { FormDialog } from '../parts/FormDialog';
import { Icon } from '../parts/Icon';
import { JsonView, TextView } from '../parts/JsonView';
import { Note } from '../parts/Note';
import { Pager } from '../parts/Pager';
import { Answered, Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { ShapeFacts, stepHref } from '../parts/StepFacts';
import { StepGraph } from '../parts/StepGraph';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href, queryValue, queryValues, setQuery } from '../router';
import type { ViewParams } from '../routes';
import { hasEnded, tookMs } from '../runs';
import { foundIn, shapesOfGraph, whenWords, workWords, type StepShape } from '../steps';
import { durationText, spanText } from '../time';
import { count, limitWords, misfireWords, scheduleWords } from '../words';
import { requestOf } from '../workflows';

const runPage = 25;

export function WorkflowView({ params }: ViewParams) {
  const name = params.name ?? '';
  const path = { path: { name } };
  const live = useLive(`workflow ${name}`, (signal) => answer(api.GET('/v1/workflows/{name}', { params: path, signal })), {
    every: steady,
  });
  const workflow = live.data;
  return (
    <View
      title={workflow?.name ?? name}
      badge={workflow && <StateBadge state={workflow.state} />}
      above={[['Workflows', '/workflows']]}
      about={workflow && `Runs ${scheduleWords(workflow)}. A run may take ${durationText(workflow.deadline)}.`}
      actions={
        <>
          {workflow && <Actions workflow={workflow} />}
          <CopyCurl path={pathTo('/v1/workflows/:name', { name })} />
        </>
      }
    >
      <Answered live={live} what="this workflow">
        {(w) => (
          <>
            {w.fault && (
              <Note tone="bad" alert>
                It does not go on, though it is {w.state}: {w.fault}
              </Note>
            )}
            <Tabs
              label="Of the workflow"
              tabs={[
                { id: 'now', title: 'Graph and runs', content: () => <GraphAndRuns workflow={w} /> },
                { id: 'changes', title: 'Revisions', content: () => <Changes object={`workflow/${w.name}`} of={w} /> },
                { id: 'definition', title: 'Definition', content: () => <Definition workflow={w} /> },
              ]}
            />
          </>
        )}
      </Answered>
    </View>
  );
}

function Actions({ workflow }: { workflow: Workflow }) {
  const action = useAction({ loud: true });
  const [running, setRunning] = useState(false);
  if (!may('operator') || workflow.state === 'cancelled') {
    return null;
  }
  const { name } = workflow;
  const path = { path: { name } };
  const cancel = async (): Promise<void> => {
    const yes = await confirm({
      title: `Cancel the workflow ${name}?`,
      children: (
        <p>
          No run of it begins any more, and it cannot be resumed. Runs under way go on: they are cancelled one by one. To
          stop it for a while, pause it.
        </p>
      ),
      action: 'Cancel the workflow',
      danger: true,
      typed: name,
    });
    if (yes) {
      await action.run(() => answer(api.DELETE('/v1/workflows/{name}', { params: path })), 'The workflow is cancelled.');
    }
  };
  return (
    <>
      <button type="button" class="button primary" disabled={action.busy} onClick={() => setRunning(true)}>
        <Icon name="play" /> Run now
      </button>
      {workflow.state === 'active' && (
        <button
          type="button"
          class="button"
          disabled={action.busy}
          onClick={() =>
            void action.run(() => answer(api.POST('/v1/workflows/{name}/pause', { params: path })), `The workflow is paused. ${pausedWords}`)
          }
        >
          <Icon name="pause" /> Pause
        </button>
      )}
      {workflow.state === 'paused' && (
        <button
          type="button"
          class="button"
          disabled={action.busy}
          onClick={() =>
            void action.run(
              () => answer(api.POST('/v1/workflows/{name}/resume', { params: path })),
              'The workflow goes on from now.',
            )
          }
        >
          <Icon name="play" /> Resume
        </button>
      )}
      <a class="button" href={href(pathTo('/workflows/:name/edit', { name }))}>
        Edit
      </a>
      <button type="button" class="button danger" disabled={action.busy} onClick={() => void cancel()}>
        Cancel
      </button>
      {running && <RunDialog workflow={workflow} onClose={() => setRunning(false)} />}
    </>
  );
}

function RunDialog({ workflow, onClose }: { workflow: Workflow; onClose: () => void }) {
  const own = workflow.payload === undefined ? '' : JSON.stringify(workflow.payload, null, 2);
  const [text, setText] = useState(own);
  const [key] = useState(newKey);
  const action = useAction();
  const fault = jsonFault(text);
  const run = async (): Promise<void> => {
    if (fault !== undefined) {
      return;
    }
    // The text goes as it is: numbers stay as they were typed.
    const stated = text.trim();
    const begun = await action.run(
      () =>
        ask<Run>(pathTo('/v1/workflows/:name/trigger', { name: workflow.name }), {
          method: 'POST',
          headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
          content: stated === '' || stated === own ? '{}' : `{"payload":${stated}}`,
        }),
      'It runs now.',
    );
    if (begun) {
      onClose();
      go(`/workflow-runs/${begun.id}`);
    }
  };
  return (
    <FormDialog
      title={`Run ${workflow.name} now`}
      action={action}
      what="It does not run"
      send="Run it"
      ready={fault === undefined}
      onSend={run}
      onClose={onClose}
    >
      <AreaField
        label="Payload, JSON"
        optional
        at="body.payload"
        problem={action.problem}
        faults={fault === undefined ? [] : [fault]}
        value={text}
        onValue={setText}
        rows={8}
        help="The input of the run. Empty, or unchanged: the workflow’s own."
      />
    </FormDialog>
  );
}

function GraphAndRuns({ workflow }: { workflow: Workflow }) {
  return (
    <>
      <Graph workflow={workflow} />
      <div class="columns">
        <Facted workflow={workflow} />
        <Upcoming workflow={workflow} />
      </div>
      <Runs workflow={workflow} />
    </>
  );
}

function Graph({ workflow }: { workflow: Workflow }) {
  const { name } = workflow;
  const live = useLive(
    `graph ${name} ${workflow.generation}`,
    (signal) => ask<Drawing>(pathTo('/v1/workflows/:name/graph', { name }), { signal }),
    { every: 0 },
  );
  const shapes = useMemo(() => (live.data ? shapesOfGraph(live.data) : []), [live.data]);
  const selected = queryValue('step');
  const find = queryValue('find').toLowerCase();
  const found = useMemo(() => foundIn(shapes, find), [shapes, find]);
  const shape = shapes.find((s) => s.name === selected);
  return (
    <Panel title={count(shapes.length || (workflow.steps?.length ?? 0), 'step')}>
      {shapes.length > 8 && (
        <FilterBar filters={[{ kind: 'text', name: 'find', label: 'Find a step', main: true, placeholder: 'load' }]} />
      )}
      <Answered live={live} what="graphs of workflows">
        {() => (
          <div class="graph-and-step">
            <StepGraph
              caption={`The steps of ${name}`}
              shapes={shapes}
              selected={selected}
              onSelect={(step) => setQuery({ step: step === selected ? '' : step })}
              found={found}
              table={() => <StepTable shapes={found ? shapes.filter((s) => found.has(s.name)) : shapes} />}
            />
            {shape && (
              <aside class="step-about" aria-live="polite" aria-label={`Step ${shape.name}`}>
                <h3>{shape.name}</h3>
                <ShapeFacts shape={shape} />
                <StepJson workflow={workflow} step={shape.name} />
              </aside>
            )}
          </div>
        )}
      </Answered>
    </Panel>
  );
}

function StepJson({ workflow, step }: { workflow: Workflow; step: string }) {
  const stated = workflow.steps?.find((s) => s.name === step);
  return stated ? <JsonView label={`Step ${step}`} value={stated} /> : null;
}

function StepTable({ shapes }: { shapes: readonly StepShape[] }) {
  return (
    <Table
      caption="Steps"
      rows={shapes}
      rowKey={(s) => s.name}
      rowHref={(s) => stepHref(s.name)}
      columns={[
        { head: 'Step', kind: 'main', cell: (s) => s.name },
        { head: 'Does', cell: (s) => <bdi>{workWords(s)}</bdi> },
        { head: 'After', cell: (s) => s.after.join(', ') || <span class="muted">–</span> },
        { head: 'Starts', minor: true, cell: (s) => (s.after.length > 0 ? (whenWords[s.when] ?? s.when) : 'at once') },
      ]}
      empty={<p class="muted">No step has that in its name.</p>}
    />
  );
}

function Facted({ workflow: w }: { workflow: Workflow }) {
  const zone = w.schedule?.timezone;
  return (
    <Panel title="Facts">
      <Facts
        facts={[
          ['Runs', scheduleWords(w)],
          ['Cron', w.schedule?.cron && <code>{w.schedule.cron}</code>],
          ['Zone', zone],
          ['Filter', w.on?.filter && <code>{w.on.filter}</code>],
          ['Begins', w.start && <TimeLabel at={w.start} zone={zone} relative />],
          ['Ends', w.end && <TimeLabel at={w.end} zone={zone} relative />],
          ['Runs at most', w.max_runs ? count(w.max_runs, 'time') : undefined],
          ['Spread over', w.jitter ? durationText(w.jitter) : undefined],
          ['If late', misfireWords(w.misfire)],
          ['At once', w.concurrency && limitWords(w.concurrency)],
          ['A run may take', durationText(w.deadline)],
          ['Priority', w.priority],
          ['Labels', Object.keys(w.labels ?? {}).length > 0 && <Labels labels={w.labels} hrefOf={(label) => href('/workflows', { label })} />],
          ['Changed', <TimeLabel key="changed" at={w.updated_at} relative />],
          ['Created', <TimeLabel key="created" at={w.created_at} relative />],
        ]}
      />
    </Panel>
  );
}

function Upcoming({ workflow: w }: { workflow: Workflow }) {
  const live = useLive(
    `workflow upcoming ${w.name}`,
    (signal) =>
      answer(
        api.GET('/v1/workflows/{name}/upcoming', { params: { path: { name: w.name }, query: { count: 5 } }, signal }),
      ),
    { every: steady },
  );
  const columns: Column<NextRun>[] = [
    { head: 'Due', kind: 'main', cell: (n) => <TimeLabel at={n.due_at} zone={w.schedule?.timezone} weekday relative /> },
  ];
  const why =
    w.state === 'paused'
      ? 'It is paused: it has no runs until it is resumed.'
      : w.state !== 'active'
        ? `It is ${w.state}.`
        : w.on
          ? `It runs when the event ${w.on.event} comes.`
          : 'It has no schedule: it runs when it is asked to.';
  return (
    <Panel title="Next runs" live={live} every={steady}>
      <Answered live={live} what="the next runs">
        {(list) => (
          <Table
            caption="Next runs"
            columns={columns}
            rows={list.items ?? []}
            rowKey={(n) => n.id}
            empty={<p class="muted">{why}</p>}
          />
        )}
      </Answered>
    </Panel>
  );
}

const runStates = ['running', 'waiting', 'pending', 'retrying', 'succeeded', 'failed', 'missed', 'cancelled'] as const;

function Runs({ workflow }: { workflow: Workflow }) {
  const { name } = workflow;
  const states = queryValues('state');
  const list = usePages<Run>(
    `runs of workflow ${name} ${states.join(' ')}`,
    (cursor, signal) =>
      gather(
        (at) =>
          ask<PageLike<Run>>(pathTo('/v1/workflows/:name/runs', { name }), {
            query: { limit: runPage, state: states, cursor: at },
            signal,
          }),
        cursor,
        runPage / 2,
      ),
    { every: steady },
  );
  return (
    <Panel title="Its runs" live={list} every={steady}>
      <FilterBar filters={[{ kind: 'states', name: 'state', label: 'State', states: runStates }]} />
      <Answered live={list} what="runs of workflows">
        {(page) => (
          <>
            <Table
              caption={`Runs of ${name}`}
              columns={runColumns(workflow)}
              rows={page.items}
              rowKey={(r) => r.id}
              rowHref={(r) => href(`/workflow-runs/${r.id}`)}
              empty={
                states.length > 0 ? (
                  <Empty title="No run is in that state" />
                ) : (
                  <Empty title="It has not run yet" commands={[`carillon workflow run ${name} --wait`]} />
                )
              }
            />
            <Pager list={list} one="run" />
          </>
        )}
      </Answered>
    </Panel>
  );
}

function runColumns(workflow: Workflow): Column<Run>[] {
  const zone = workflow.schedule?.timezone;
  return [
    { head: 'Due', kind: 'main', cell: (r) => <TimeLabel at={r.due_at} zone={zone} weekday /> },
    { head: 'State', cell: (r) => <StateBadge state={r.state} /> },
    {
      head: 'Late by',
      kind: 'number',
      cell: (r) => (r.lateness_ms === undefined ? <span class="muted">–</span> : spanText(r.lateness_ms)),
    },
    {
      head: 'Took',
      kind: 'number',
      cell: (r) => {
        const ms = tookMs(r, serverNow());
        return ms === undefined ? <span class="muted">–</span> : `${spanText(ms)}${hasEnded(r) ? '' : ' so far'}`;
      },
    },
    { head: 'By', minor: true, cell: (r) => r.trigger },
    {
      head: 'What is known',
      minor: true,
      cell: (r) => {
        const text = r.missed?.reason ?? r.cancel_reason ?? r.error;
        return text && <bdi class="said">{text}</bdi>;
      },
    },
  ];
}

function Definition({ workflow }: { workflow: Workflow }) {
  const yaml = useLive(`yaml of ${workflow.name} ${workflow.generation}`, async () => (await import('../yaml')).writeYaml(requestOf(partOf(workflow))), { every: 0 });
  return (
    <Panel title="Definition" about="As YAML, for carillon workflow apply -f; and as the API answers it.">
      <Answered live={yaml} what="the definition as YAML">
        {(text) => <TextView label="Definition, YAML" text={text} file={`${workflow.name}.yaml`} />}
      </Answered>
      <details>
        <summary>As the API answers it</summary>
        <JsonView label="Workflow" value={workflow} />
      </details>
    </Panel>
  );
}
