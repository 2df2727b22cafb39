// Creates a task, or changes one. The body of the request is what is edited, by fields or as JSON: what
// the fields do not know stays in it. What the API finds wrong stands at its field.

import { useEffect, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api } from '../api/client';
import { useLive } from '../api/live';
import { faultsAt, type Problem } from '../api/problem';
import { may } from '../api/session';
import type { Task, TaskRequest } from '../api/types';
import { readPairs, writePairs } from '../jobs';
import { isObject, valueAt, withValue, type Json, type JsonObject } from '../merge';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { AreaField, SelectField, TextField } from '../parts/Field';
import { Icon } from '../parts/Icon';
import { Answered, Panel } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { Tabs } from '../parts/Tabs';
import { say } from '../parts/Toasts';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { workKindOf, workKinds, type WorkKind, type WorkLike } from '../target';
import { parseSpan } from '../time';

/** The fields of a task that one may ask for. */
const asked = [
  'description',
  'http',
  'nats',
  'script',
  'lambda',
  'timeout',
  'retry',
  'guarantee',
  'rate',
  'max_concurrent',
  'payload_schema',
] as const;

function requestOf(task: Task): JsonObject {
  const body: JsonObject = {};
  for (const name of asked) {
    const value = task[name] as Json | undefined;
    if (value !== undefined && value !== '' && value !== 0) {
      body[name] = structuredClone(value);
    }
  }
  return body;
}

export function TaskForm({ params }: ViewParams) {
  const name = params.name;
  const live = useLive<Task>(
    name === undefined ? null : `edit task ${name}`,
    (signal) => answer(api.GET('/v1/tasks/{name}', { params: { path: { name: name ?? '' } }, signal })),
    { every: 0 },
  );
  const above: [string, string][] = [['Tasks', '/tasks']];
  if (name !== undefined) {
    above.push([name, pathTo('/tasks/:name', { name })]);
  }
  return (
    <View title={name === undefined ? 'New task' : `Change ${name}`} above={above}>
      {name === undefined ? (
        <Editor first={{ http: { url: '' } }} />
      ) : (
        <Answered live={live} what="this task">
          {(task) => <Editor key={task.name} name={task.name} first={requestOf(task)} />}
        </Answered>
      )}
    </View>
  );
}

interface Form {
  body: JsonObject;
  problem: Problem | undefined;
  text: (path: string) => string;
  set: (path: string, value: Json | undefined) => void;
  replace: (body: JsonObject) => void;
  /** Notes what is wrong with a field before it is sent; undefined: nothing. */
  wrong: (name: string, fault: string | undefined) => void;
}

function Editor({ name: fixed, first }: { name?: string; first: JsonObject }) {
  const [body, setBody] = useState(first);
  const [typed, setTyped] = useState('');
  const [wrongs, setWrongs] = useState<ReadonlyMap<string, string>>(new Map());
  const action = useAction();
  const name = fixed ?? typed.trim();
  const dirty = body !== first || typed !== '';
  useEffect(() => {
    const warn = (e: BeforeUnloadEvent): void => e.preventDefault();
    if (dirty) {
      addEventListener('beforeunload', warn);
    }
    return () => removeEventListener('beforeunload', warn);
  }, [dirty]);
  const form: Form = {
    body,
    problem: action.problem,
    text: (path) => {
      const value = valueAt(body, path);
      return value === undefined || value === null ? '' : String(value);
    },
    set: (path, value) => setBody((old) => withValue(old, path, value)),
    replace: setBody,
    wrong: (field, fault) =>
      setWrongs((old) => {
        const next = new Map(old);
        if (fault === undefined) {
          next.delete(field);
        } else {
          next.set(field, fault);
        }
        return next;
      }),
  };
  if (!may('operator')) {
    return (
      <p class="absent">
        <Icon name="slash" /> Your key may look at tasks, and not change them.
      </p>
    );
  }
  const put = async (): Promise<void> => {
    const done = await action.run(async () => {
      if (fixed === undefined && (await exists(name)) && !(await mayReplace(name))) {
        return undefined;
      }
      return answer(
        api.PUT('/v1/tasks/{name}', { params: { path: { name } }, body: body as unknown as TaskRequest }),
      );
    });
    if (done) {
      say(fixed === undefined ? `The task ${name} is there.` : 'The task is changed: runs that start from now on go by it.');
      go(pathTo('/tasks/:name', { name }));
    }
  };
  return (
    <form
      class="stack narrow-form"
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        if (wrongs.size === 0 && name !== '') {
          void put();
        }
      }}
    >
      <Refusal problem={action.problem} what={fixed === undefined ? 'The task was not created' : 'The task was not changed'} form focus />
      {fixed === undefined && (
        <Panel title="What it is called">
          <div class="fields">
            <TextField
              label="Name"
              at="path.name"
              problem={action.problem}
              value={typed}
              onValue={setTyped}
              placeholder="send-email"
              help="Unique in the tenant: a–z, 0–9, “.”, “_” and “-”. Jobs name the task by it."
            />
          </div>
        </Panel>
      )}
      <Tabs
        label="How it is edited"
        name="edit"
        tabs={[
          { id: 'fields', title: 'By fields', content: () => <Fields form={form} /> },
          { id: 'json', title: 'As JSON', content: () => <AsJson form={form} /> },
        ]}
      />
      <div class="form-end">
        {wrongs.size > 0 && <p class="field-wrong">First mend: {[...wrongs.values()].join('; ')}.</p>}
        <a class="button" href={href(fixed === undefined ? '/tasks' : pathTo('/tasks/:name', { name: fixed }))}>
          Leave it
        </a>
        <CopyCurl method="PUT" path={pathTo('/v1/tasks/:name', { name: name || 'NAME' })} body={body} />
        <button type="submit" class="button primary" disabled={action.busy || wrongs.size > 0 || name === ''}>
          {fixed === undefined ? 'Create the task' : 'Change the task'}
        </button>
      </div>
    </form>
  );
}

async function exists(name: string): Promise<boolean> {
  try {
    await answer(api.GET('/v1/tasks/{name}', { params: { path: { name } } }));
    return true;
  } catch {
    return false; // not there, or the put will say what is wrong
  }
}

function mayReplace(name: string): Promise<boolean> {
  return confirm({
    title: `Replace the task ${name}?`,
    children: <p>There is a task of this name. All that names it runs by what you state here.</p>,
    action: 'Replace it',
    danger: true,
  });
}

/** A field of the form: where its value stands in the body, and how it is typed. */
interface Spec {
  path: string;
  label: string;
  kind?: 'span' | 'number' | 'lines' | 'pairs' | 'json';
  /** Chosen instead of typed. The first is what holds if nothing is said. */
  options?: readonly (string | readonly [value: string, text: string])[];
  placeholder?: string;
  help?: string;
  /** It stays in the body when it is empty. */
  needed?: boolean;
  class?: string;
}

const targets: Record<WorkKind, readonly Spec[]> = {
  http: [
    { path: 'http.method', label: 'Method', options: ['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'] },
    { path: 'http.url', label: 'URL', needed: true, class: 'wide', placeholder: 'https://example.com/hook' },
    { path: 'http.body', label: 'Body', options: [['payload', 'the payload'], 'none'] },
    { path: 'http.signing_key', label: 'Signed with the key', placeholder: 'default', help: 'Empty: the one called default, if there is one.' },
    { path: 'http.headers', label: 'Headers', kind: 'pairs', class: 'whole', help: 'One a line: name: value. Secrets belong below.' },
    {
      path: 'http.auth',
      label: 'How calls show who makes them, JSON',
      kind: 'json',
      class: 'whole',
      placeholder: '{"bearer": {"secret": "orders-token"}}',
      help: 'One of bearer, basic, header, oauth2_client_credentials, aws_sigv4 and mtls. It names secrets, and never holds one.',
    },
  ],
  nats: [{ path: 'nats.subject', label: 'Subject', needed: true, placeholder: 'work.email' }],
  script: [
    { path: 'script.command', label: 'Command', needed: true, help: 'A name in the operator’s list.' },
    { path: 'script.args', label: 'Arguments', kind: 'lines', help: 'One a line.' },
  ],
  lambda: [
    { path: 'lambda.function', label: 'Function', needed: true, help: 'Name or ARN.' },
    { path: 'lambda.region', label: 'Region', needed: true, placeholder: 'eu-central-1' },
    { path: 'lambda.credentials', label: 'Credentials', needed: true, help: 'The name of a secret.' },
    { path: 'lambda.invocation', label: 'Invoked', options: [['sync', 'and waited for'], ['async', 'without waiting for it']] },
  ],
};

const panels: readonly (readonly [title: string, fields: readonly Spec[]])[] = [
  [
    'Time-out and retries',
    [
      { path: 'timeout', label: 'Time-out of an attempt', kind: 'span', placeholder: '30s' },
      { path: 'retry.max_attempts', label: 'Attempts at most', kind: 'number', placeholder: '5' },
      { path: 'retry.initial', label: 'First pause', kind: 'span', placeholder: '1s' },
      { path: 'retry.factor', label: 'Each pause is longer by', kind: 'number', placeholder: '2' },
      { path: 'retry.max', label: 'Longest pause', kind: 'span', placeholder: '10m' },
      { path: 'retry.jitter', label: 'Pauses', options: [['full', 'drawn at random below that'], ['none', 'as stated']] },
      {
        path: 'guarantee',
        label: 'Guarantee',
        options: [['at_least_once', 'at least once'], ['at_most_once', 'at most once'], ['effectively_once', 'effectively once']],
      },
    ],
  ],
  [
    'How much of it, in the whole cluster',
    [
      { path: 'rate', label: 'Starts', placeholder: 'any number', help: 'Such as 100/s, 10/m or 1000/h.' },
      { path: 'max_concurrent', label: 'Runs at once, at most', kind: 'number', placeholder: 'any number' },
    ],
  ],
  [
    'For people, and for payloads',
    [
      { path: 'description', label: 'What it is for', class: 'whole' },
      {
        path: 'payload_schema',
        label: 'Schema of payloads, JSON',
        kind: 'json',
        class: 'whole',
        placeholder: '{"type": "object", "required": ["to"]}',
        help: 'A JSON Schema 2020-12. A job whose payload does not fit is refused.',
      },
    ],
  ],
];

const begins: Record<WorkKind, Json> = {
  http: { url: '' },
  nats: { subject: '' },
  script: { command: '' },
  lambda: { function: '', region: '', credentials: '' },
};

function Fields({ form }: { form: Form }) {
  const { body } = form;
  const kind = workKindOf(body as WorkLike) ?? 'http';
  const choose = (next: WorkKind): void => {
    const rest = Object.fromEntries(Object.entries(body).filter(([name]) => !workKinds.some((k) => k.value === name)));
    form.replace({ ...rest, [next]: begins[next] });
  };
  return (
    <>
      <Panel title="What it does">
        <div class="fields">
          <SelectField class="whole" label="It is" value={kind} onValue={(v) => choose(v as WorkKind)} options={workKinds} />
          {targets[kind].map((spec) => (
            <One key={spec.path} form={form} spec={spec} />
          ))}
        </div>
      </Panel>
      {panels.map(([title, fields]) => (
        <Panel key={title} title={title}>
          <div class="fields">
            {fields.map((spec) => (
              <One key={spec.path} form={form} spec={spec} />
            ))}
          </div>
        </Panel>
      ))}
    </>
  );
}

/** What a field shows of a value. */
function shownOf(value: Json | undefined, kind: Spec['kind']): string {
  if (value === undefined || value === null) {
    return '';
  }
  switch (kind) {
    case 'lines':
      return (value as string[]).join('\n');
    case 'pairs':
      return writePairs(value, ': ');
    case 'json':
      return JSON.stringify(value, null, 2);
    default:
      return String(value);
  }
}

/** What was typed as a value; a fault keeps it out of the body. */
function valueOf(text: string, spec: Spec): { value?: Json | undefined; fault?: string } {
  if (text.trim() === '' && !spec.needed) {
    return {};
  }
  switch (spec.kind) {
    case 'span':
      return parseSpan(text) === undefined ? { value: text, fault: 'is no span such as 30s, 15m or 1h30m' } : { value: text.trim() };
    case 'number':
      return { value: Number(text) };
    case 'lines':
      return { value: text.split('\n') };
    case 'pairs': {
      const { pairs, faults } = readPairs(text, ':');
      return faults.length > 0 ? { fault: faults.join(', ') } : { value: pairs };
    }
    case 'json':
      try {
        return { value: JSON.parse(text) as Json };
      } catch (thrown) {
        return { fault: `is no JSON (${(thrown as Error).message})` };
      }
    default:
      return { value: text };
  }
}

function One({ form, spec }: { form: Form; spec: Spec }) {
  const { path, label, kind, options, placeholder, help } = spec;
  const stated = valueAt(form.body, path);
  const [text, setText] = useState(() => shownOf(stated, kind));
  const [fault, setFault] = useState<string | undefined>(undefined);
  useEffect(() => () => form.wrong(path, undefined), []);
  const common = {
    label,
    at: `body.${path}`,
    problem: form.problem,
    faults: fault === undefined ? [] : [fault],
    ...(spec.class === undefined ? {} : { class: spec.class }),
    ...(help === undefined ? {} : { help }),
    ...(placeholder === undefined ? {} : { placeholder }),
  };
  if (options) {
    const all = options.map((o) => (typeof o === 'string' ? { value: o, text: o } : { value: o[0], text: o[1] }));
    return (
      <SelectField
        {...common}
        value={(stated as string | undefined) ?? all[0]?.value ?? ''}
        onValue={(v) => form.set(path, v === all[0]?.value ? undefined : v)}
        options={all}
      />
    );
  }
  const type = (typed: string): void => {
    setText(typed);
    const read = valueOf(typed, spec);
    setFault(read.fault);
    form.wrong(path, read.fault && `${label}: ${read.fault}`);
    form.set(path, read.value);
  };
  return kind === 'lines' || kind === 'pairs' || kind === 'json' ? (
    <AreaField {...common} rows={kind === 'json' ? 4 : 3} value={text} onValue={type} />
  ) : (
    <TextField {...common} type={kind === 'number' ? 'number' : 'text'} value={text} onValue={type} />
  );
}

function AsJson({ form }: { form: Form }) {
  const [text, setText] = useState(() => JSON.stringify(form.body, null, 2));
  const [fault, setFault] = useState<string | undefined>(undefined);
  useEffect(() => () => form.wrong('JSON', undefined), []);
  return (
    <AreaField
      label="Body of the request"
      at="body"
      rows={24}
      value={text}
      faults={[...(fault === undefined ? [] : [fault]), ...faultsAt(form.problem, 'body').map((f) => `${f.location}: ${f.message}`)]}
      onValue={(value) => {
        setText(value);
        let said: string | undefined;
        try {
          const parsed = JSON.parse(value) as Json;
          if (isObject(parsed)) {
            form.replace(parsed);
          } else {
            said = 'it must be an object';
          }
        } catch (thrown) {
          said = `it is no JSON (${thrown instanceof Error ? thrown.message : String(thrown)})`;
        }
        setFault(said);
        form.wrong('JSON', said);
      }}
      help="Everything that the API takes. It is in the fields too, as far as they know it."
    />
  );
}
