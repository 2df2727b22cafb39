// Writes a workflow, or changes one, as a text: YAML or JSON. While it is typed the node checks it, each
// fault leads to its line, and the graph that it makes stands beside it.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { ask, askFor } from '../api/client';
import { useLive } from '../api/live';
import type { Fault, Problem } from '../api/problem';
import { may } from '../api/session';
import type { Workflow } from '../api/types';
import { lineAt, locate, memberOf, textOf, toJson, type Part, type Position } from '../document';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Dialog } from '../parts/Dialog';
import { Diff } from '../parts/Diff';
import { Field } from '../parts/Field';
import { Icon } from '../parts/Icon';
import { MayNot } from '../parts/MayNot';
import { Answered, Panel } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { StepGraph } from '../parts/StepGraph';
import { Table } from '../parts/Table';
import { goToPlace, TextEditor } from '../parts/TextEditor';
import { say } from '../parts/Toasts';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { shapesOfText, workWords } from '../steps';
import { useUnsaved } from '../unsaved';
import { count, scheduleWords } from '../words';
import { firstWorkflow, requestOf } from '../workflows';

type Yaml = typeof import('../yaml');

interface Loaded {
  yaml: Yaml;
  text: string;
  etag: string;
}

async function load(name: string | undefined, signal?: AbortSignal): Promise<Loaded> {
  const yaml = await import('../yaml');
  if (name === undefined) {
    return { yaml, text: firstWorkflow, etag: '' };
  }
  const response = await askFor(pathTo('/v1/workflows/:name', { name }), { signal });
  // Read as a text: numbers of payloads stay what they are to the last digit.
  const part = yaml.readYaml(await response.text());
  return { yaml, text: yaml.writeYaml(requestOf(part)), etag: response.headers.get('ETag') ?? '' };
}

export function WorkflowForm({ params }: ViewParams) {
  const name = params.name;
  const live = useLive(name === undefined ? 'new workflow' : `edit workflow ${name}`, (signal) => load(name, signal), { every: 0 });
  const above: [string, string][] = [['Workflows', '/workflows']];
  if (name !== undefined) {
    above.push([name, pathTo('/workflows/:name', { name })]);
  }
  return (
    <View
      title={name === undefined ? 'New workflow' : `Change ${name}`}
      above={above}
      about="A run keeps the definition that it began with: a change holds for runs that begin after it."
    >
      <Answered live={live} what={name === undefined ? 'the editor' : 'this workflow'}>
        {(loaded) => <Editor key={name} yaml={loaded.yaml} name={name} first={loaded.text} etag={loaded.etag} />}
      </Answered>
    </View>
  );
}

interface Read {
  root?: Part;
  fault?: { at: number; message: string };
}

function read(yaml: Yaml, text: string): Read {
  try {
    const root = yaml.readYaml(text);
    return root.kind === 'map' ? { root } : { fault: { at: 0, message: 'A workflow is a map: name, steps and so on' } };
  } catch (thrown) {
    return thrown instanceof yaml.Unreadable
      ? { fault: { at: thrown.at, message: thrown.message } }
      : { fault: { at: 0, message: String(thrown) } };
  }
}

/** How long a person may pause while typing, in ms, before the node is asked. */
const pause = 700;

type Check = { state: 'ok'; workflow: Workflow } | { state: 'wrong'; problem: Problem };

function Editor({ yaml, name, first, etag: firstTag }: { yaml: Yaml; name: string | undefined; first: string; etag: string }) {
  const [text, setText] = useState(first);
  const [base, setBase] = useState(first);
  const [etag, setEtag] = useState(firstTag);
  const [theirs, setTheirs] = useState<Loaded | undefined>(undefined);
  const action = useAction();
  const area = useRef<HTMLTextAreaElement>(null);
  const { root, fault } = useMemo(() => read(yaml, text), [text]);
  const stated = textOf(memberOf(root, 'name'));
  const target = name ?? stated ?? '';
  const json = useMemo(() => (root ? toJson(root) : undefined), [root]);
  const check = useCheck(target, json);
  const saved = useUnsaved(text !== base);

  const refused = action.problem && action.problem.status !== 412 ? action.problem : undefined;
  const faults = refused?.faults.length ? refused.faults : check?.state === 'wrong' ? check.problem.faults : [];
  const located = useMemo(() => faults.map((f) => placeOf(f, root, text)), [faults, root]);
  const marks = useMemo(() => {
    const all = new Map<number, string>();
    if (fault) {
      all.set(lineAt(text, fault.at), fault.message);
    }
    for (const l of located) {
      if (l.line !== undefined) {
        all.set(l.line, [all.get(l.line), `${l.name} ${l.fault.message}`].filter(Boolean).join('\n'));
      }
    }
    return all;
  }, [fault, located, text]);
  const shapes = useMemo(() => (root ? shapesOfText(root) : []), [root]);
  // While a text cannot be read, what it was a moment ago is drawn.
  const lastShapes = useRef(shapes);
  if (root) {
    lastShapes.current = shapes;
  }
  const wrongSteps = useMemo(() => {
    const names = faults.map((f) => /^body\.steps\[(\d+)\]/.exec(f.location)?.[1]);
    const steps = root ? memberOf(root, 'steps') : undefined;
    return new Set(
      names.flatMap((i) => {
        const step = i === undefined || steps?.kind !== 'list' ? undefined : textOf(memberOf(steps.items[Number(i)], 'name'));
        return step === undefined ? [] : [step];
      }),
    );
  }, [faults, root]);
  const [selected, setSelected] = useState('');

  if (!may('operator')) {
    return <MayNot what="change workflows" />;
  }

  const put = async (tag: string): Promise<void> => {
    if (json === undefined || target === '') {
      return;
    }
    if (name === undefined && check?.state === 'ok' && check.workflow.generation > 0) {
      const yes = await confirm({
        title: `Replace the workflow ${target}?`,
        children: <p>There is a workflow of this name. Its next runs are by what is written here.</p>,
        action: 'Replace it',
        danger: true,
      });
      if (!yes) {
        return;
      }
    }
    const done = await action.run(async () => {
      try {
        return await ask<Workflow>(pathTo('/v1/workflows/:name', { name: target }), {
          method: 'PUT',
          headers: { 'Content-Type': 'application/json', ...(tag === '' ? {} : { 'If-Match': tag }) },
          content: json,
        });
      } catch (thrown) {
        if ((thrown as Problem).status === 412) {
          setTheirs(await load(target));
        }
        throw thrown;
      }
    });
    if (done) {
      saved();
      say(name === undefined ? `The workflow ${done.name} is there.` : 'The workflow is changed.');
      go(pathTo('/workflows/:name', { name: done.name }));
    }
  };

  const goTo = (at: Position): void => goToPlace(area.current, at.start, at.end);
  const rewrite = (to: 'yaml' | 'json'): void => {
    if (root) {
      setText(to === 'json' ? toJson(root, 2) + '\n' : yaml.writeYaml(root));
    }
  };
  const isJson = /^\s*\{/.test(text);
  return (
    <form
      class="stack"
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        void put(etag);
      }}
    >
      <Refusal
        problem={refused && refused.faults.length === 0 ? refused : undefined}
        what={name === undefined ? 'The workflow was not created' : 'The workflow was not changed'}
        focus
      />
      <div class="text-and-graph">
        <Panel
          title="Text"
          actions={
            <button type="button" class="button small" disabled={!root} onClick={() => rewrite(isJson ? 'yaml' : 'json')}>
              {isJson ? 'Write it as YAML' : 'Write it as JSON'}
            </button>
          }
        >
          <Field label="Workflow, YAML or JSON" help="Enter keeps the indent. Comments are not kept by the node.">
            {(input) => <TextEditor input={input} value={text} onValue={setText} marks={marks} area={area} />}
          </Field>
        </Panel>
        <div class="stack">
          <Panel title="Check">
            <Verdict fault={fault} text={text} check={check} json={json} target={target} isNew={name === undefined} onGo={goTo} />
            {located.length > 0 && (
              <ul class="faults located">
                {located.map((l, i) => (
                  <li key={i}>
                    {l.at ? (
                      <button type="button" class="link-button" onClick={() => l.at && goTo(l.at)}>
                        line {l.line}
                      </button>
                    ) : null}{' '}
                    <code>{l.name}</code> {l.fault.message}
                  </li>
                ))}
              </ul>
            )}
          </Panel>
          <Panel title={count(lastShapes.current.length, 'step')}>
            {lastShapes.current.length === 0 ? (
              <p class="muted">The graph is drawn once there is a step with a name.</p>
            ) : (
              <StepGraph
                caption="The steps"
                shapes={lastShapes.current}
                selected={selected}
                wrong={wrongSteps}
                onSelect={(step) => {
                  setSelected(step);
                  const i = shapes.findIndex((s) => s.name === step);
                  const at = root && i >= 0 ? stepPlace(root, step) : undefined;
                  if (at) {
                    goTo(at);
                  }
                }}
                table={() => (
                  <Table
                    caption="Steps"
                    rows={lastShapes.current}
                    rowKey={(s) => s.name}
                    columns={[
                      { head: 'Step', kind: 'main', cell: (s) => s.name },
                      { head: 'Does', cell: (s) => <bdi>{workWords(s)}</bdi> },
                      { head: 'After', cell: (s) => s.after.join(', ') || <span class="muted">–</span> },
                    ]}
                  />
                )}
              />
            )}
          </Panel>
        </div>
      </div>
      <div class="form-end">
        <a class="button" href={href(name === undefined ? '/workflows' : pathTo('/workflows/:name', { name }))}>
          Leave it
        </a>
        {json !== undefined && target !== '' && (
          <CopyCurl method="PUT" path={pathTo('/v1/workflows/:name', { name: target })} body={JSON.parse(json) as unknown} />
        )}
        <button type="submit" class="button primary" disabled={action.busy || json === undefined || target === ''}>
          {name === undefined ? 'Create the workflow' : 'Change the workflow'}
        </button>
      </div>
      {theirs && (
        <Conflict
          base={base}
          theirs={theirs}
          onClose={() => setTheirs(undefined)}
          onTheirs={() => {
            setText(theirs.text);
            setBase(theirs.text);
            setEtag(theirs.etag);
            setTheirs(undefined);
          }}
          onMine={() => {
            setBase(theirs.text);
            setEtag(theirs.etag);
            setTheirs(undefined);
            void put(theirs.etag);
          }}
        />
      )}
    </form>
  );
}

interface Located {
  fault: Fault;
  name: string;
  at: Position | undefined;
  line: number | undefined;
}

function placeOf(fault: Fault, root: Part | undefined, text: string): Located {
  const at = root ? locate(root, fault.location) : undefined;
  const name = fault.location.replace(/^body\.?/, '') || 'the whole';
  return { fault, name, at, line: at ? lineAt(text, at.start) : undefined };
}

/** Where the step of a name stands. */
function stepPlace(root: Part, name: string): Position | undefined {
  const steps = memberOf(root, 'steps');
  return steps?.kind === 'list' ? steps.items.find((s) => textOf(memberOf(s, 'name')) === name) : undefined;
}

/** Has the node check the text a moment after it was typed. Undefined: it is being asked. */
function useCheck(name: string, json: string | undefined): Check | undefined {
  const key = json === undefined || name === '' ? undefined : `${name}\n${json}`;
  const [settled, setSettled] = useState<string | undefined>(undefined);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(key), pause);
    return () => clearTimeout(timer);
  }, [key]);
  const asked = settled === key ? key : undefined;
  const live = useLive<Workflow>(
    asked === undefined ? null : `check workflow ${asked}`,
    (signal) =>
      ask(pathTo('/v1/workflows/:name', { name }), {
        method: 'PUT',
        query: { dry_run: true },
        headers: { 'Content-Type': 'application/json' },
        content: json ?? '',
        signal,
      }),
    { every: 0 },
  );
  if (live.data) {
    return { state: 'ok', workflow: live.data };
  }
  return live.problem ? { state: 'wrong', problem: live.problem } : undefined;
}

function Verdict(props: {
  fault: Read['fault'];
  text: string;
  check: Check | undefined;
  json: string | undefined;
  target: string;
  isNew: boolean;
  onGo: (at: Position) => void;
}) {
  const { fault, text, check, target, isNew, onGo } = props;
  return (
    <div role="status">
      {fault ? (
        <p class="toned tone-bad">
          <Icon name="cross" size={14} />{' '}
          <button type="button" class="link-button" onClick={() => onGo({ start: fault.at, end: fault.at + 1 })}>
            line {lineAt(text, fault.at)}
          </button>{' '}
          {fault.message}.
        </p>
      ) : target === '' ? (
        <p class="toned tone-warn">
          <Icon name="warning" size={14} /> It needs a name: begin with a line such as <code>name: etl</code>.
        </p>
      ) : check === undefined ? (
        <p class="muted">The node checks it when you pause.</p>
      ) : check.state === 'ok' ? (
        <p>
          <span class="toned tone-good">
            <Icon name="check" size={14} /> The node would take it.
          </span>{' '}
          It runs {scheduleWords(check.workflow)}.
          {isNew && check.workflow.generation > 0 && (
            <span class="toned tone-warn"> There is a workflow {target} already: it would be replaced.</span>
          )}
        </p>
      ) : (
        <p class="toned tone-bad">
          <Icon name="cross" size={14} />{' '}
          {check.problem.faults.length > 0 ? `${count(check.problem.faults.length, 'fault')}:` : check.problem.sentence}
        </p>
      )}
    </div>
  );
}

function Conflict(props: {
  base: string;
  theirs: Loaded;
  onClose: () => void;
  onTheirs: () => void;
  onMine: () => void;
}) {
  const { base, theirs, onClose, onTheirs, onMine } = props;
  return (
    <Dialog title="Somebody changed it meanwhile" wide onClose={onClose}>
      <p>Nothing of yours is lost. What was changed since you began to edit:</p>
      <Diff before={base} after={theirs.text} whole />
      <div class="dialog-actions">
        <button type="button" class="button" onClick={onClose}>
          Back to the text
        </button>
        <button type="button" class="button" onClick={onTheirs}>
          Take theirs, leave mine
        </button>
        <button type="button" class="button danger" onClick={onMine}>
          Put mine over theirs
        </button>
      </div>
    </Dialog>
  );
}
