// Creates a task, or changes one. The body of the request is what is edited, by fields or as JSON: what
// the fields do not know stays in it. What the API finds wrong stands at its field.

import { useEffect, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api } from '../api/client';
import { useLive } from '../api/live';
import { faultsAt, type Problem } from '../api/problem';
import { may } from '../api/session';
import type { TaskRequest } from '../api/nouns';
import type { Task } from '../api/types';
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
      class="stack"
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
        <Panel title="Name">
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

function Fields({ form }: { form: Form }) {
  return (
    <>
      <Panel title="What it does">
        <Target form={form} />
      </Panel>
      <Panel title="Time-out and retries">
        <div class="fields">
          <SpanField form={form} path="timeout" label="Time-out of an attempt" placeholder="30s" />
          <NumberField form={form} path="retry.max_attempts" label="Attempts at most" placeholder="5" />
          <SpanField form={form} path="retry.initial" label="First pause" placeholder="1s" />
          <NumberField form={form} path="retry.factor" label="Each pause is longer by" placeholder="2" />
          <SpanField form={form} path="retry.max" label="Longest pause" placeholder="10m" />
          <Choice form={form} path="retry.jitter" label="Pauses" usual="full" options={[['full', 'drawn at random below that'], ['none', 'as stated']]} />
          <Choice
            form={form}
            path="guarantee"
            label="Guarantee"
            usual="at_least_once"
            options={['at_least_once', 'at_most_once', 'effectively_once'].map((v) => [v, v.replaceAll('_', ' ')])}
          />
        </div>
      </Panel>
      <Panel title="How much of it, in the whole cluster">
        <div class="fields">
          <Text form={form} path="rate" label="Starts" optional placeholder="100/s" help="Such as 100/s, 10/m or 1000/h. Empty: no bound." />
          <NumberField form={form} path="max_concurrent" label="Runs at once, at most" placeholder="any number" />
        </div>
      </Panel>
      <Panel title="For people, and for payloads">
        <div class="fields">
          <Text form={form} path="description" label="What it is for" optional class="whole" />
          <JsonField form={form} path="payload_schema" label="Schema of payloads, JSON" help="A JSON Schema 2020-12. A job whose payload does not fit is refused." placeholder='{"type": "object", "required": ["to"]}' />
        </div>
      </Panel>
    </>
  );
}

const begins: Record<WorkKind, Json> = {
  http: { url: '' },
  nats: { subject: '' },
  script: { command: '' },
  lambda: { function: '', region: '', credentials: '' },
};

function Target({ form }: { form: Form }) {
  const { body } = form;
  const kind = workKindOf(body as WorkLike) ?? 'http';
  const choose = (next: WorkKind): void => {
    const rest = Object.fromEntries(Object.entries(body).filter(([name]) => !workKinds.some((k) => k.value === name)));
    form.replace({ ...rest, [next]: begins[next] });
  };
  return (
    <div class="fields">
      <SelectField class="whole" label="It is" value={kind} onValue={(v) => choose(v as WorkKind)} options={workKinds} />
      {kind === 'http' && (
        <>
          <Choice
            form={form}
            path="http.method"
            label="Method"
            usual="POST"
            options={['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'].map((v) => [v, v])}
          />
          <Text form={form} path="http.url" label="URL" placeholder="https://example.com/hook" />
          <Choice form={form} path="http.body" label="Body" usual="payload" options={[['payload', 'the payload'], ['none', 'none']]} />
          <Text form={form} path="http.signing_key" label="Signed with the key" optional placeholder="default" help="One of the signing keys. Empty: the one called default, if there is one." />
          <Headers form={form} />
          <JsonField
            form={form}
            path="http.auth"
            label="How calls show who makes them, JSON"
            placeholder='{"bearer": {"secret": "orders-token"}}'
            help="One of bearer, basic, header, oauth2_client_credentials, aws_sigv4 and mtls. It names secrets, and never holds one."
          />
        </>
      )}
      {kind === 'nats' && <Text form={form} path="nats.subject" label="Subject" placeholder="work.email" />}
      {kind === 'script' && (
        <>
          <Text form={form} path="script.command" label="Command" help="A name in the operator’s list." />
          <AreaField
            label="Arguments"
            optional
            at="body.script.args"
            problem={form.problem}
            rows={3}
            value={((valueAt(body, 'script.args') as string[] | undefined) ?? []).join('\n')}
            onValue={(v) => form.set('script.args', v === '' ? undefined : v.split('\n'))}
            help="One a line."
          />
        </>
      )}
      {kind === 'lambda' && (
        <>
          <Text form={form} path="lambda.function" label="Function" help="Name or ARN." />
          <Text form={form} path="lambda.region" label="Region" placeholder="eu-central-1" />
          <Text form={form} path="lambda.credentials" label="Credentials" help="The name of a secret." />
          <Choice form={form} path="lambda.invocation" label="Invoked" usual="sync" options={[['sync', 'and waited for'], ['async', 'without waiting for it']]} />
        </>
      )}
    </div>
  );
}

function Text(props: {
  form: Form;
  path: string;
  label: string;
  optional?: boolean;
  placeholder?: string;
  help?: string;
  class?: string;
}) {
  const { form, path, optional = false, ...field } = props;
  return (
    <TextField
      {...field}
      optional={optional}
      at={`body.${path}`}
      problem={form.problem}
      value={form.text(path)}
      onValue={(v) => form.set(path, v === '' && optional ? undefined : v)}
    />
  );
}

function Choice(props: {
  form: Form;
  path: string;
  label: string;
  usual: string;
  options: readonly (readonly string[])[];
}) {
  const { form, path, label, usual, options } = props;
  return (
    <SelectField
      label={label}
      at={`body.${path}`}
      problem={form.problem}
      value={form.text(path) || usual}
      onValue={(v) => form.set(path, v === usual ? undefined : v)}
      options={options.map(([value = '', text = '']) => ({ value, text }))}
    />
  );
}

function SpanField({ form, path, label, placeholder }: { form: Form; path: string; label: string; placeholder: string }) {
  const value = form.text(path);
  const faults = value !== '' && parseSpan(value) === undefined ? ['is no span such as 30s, 15m or 1h30m'] : [];
  return (
    <TextField
      label={label}
      at={`body.${path}`}
      problem={form.problem}
      faults={faults}
      value={value}
      placeholder={placeholder}
      onValue={(v) => form.set(path, v.trim() === '' ? undefined : v.trim())}
    />
  );
}

function NumberField({ form, path, label, placeholder }: { form: Form; path: string; label: string; placeholder: string }) {
  return (
    <TextField
      label={label}
      type="number"
      at={`body.${path}`}
      problem={form.problem}
      value={form.text(path)}
      placeholder={placeholder}
      onValue={(v) => form.set(path, v === '' ? undefined : Number(v))}
    />
  );
}

function Headers({ form }: { form: Form }) {
  const path = 'http.headers';
  const [text, setText] = useState(() => writePairs(valueAt(form.body, path), ': '));
  const [faults, setFaults] = useState<readonly string[]>([]);
  useEffect(() => () => form.wrong(path, undefined), []);
  return (
    <AreaField
      class="whole"
      label="Headers"
      optional
      at={`body.${path}`}
      problem={form.problem}
      faults={faults}
      rows={3}
      value={text}
      help="One a line: name: value. Secrets belong below."
      onValue={(value) => {
        setText(value);
        const found = readPairs(value, ':');
        setFaults(found.faults);
        form.wrong(path, found.faults.length === 0 ? undefined : `headers: ${found.faults.join(', ')}`);
        form.set(path, Object.keys(found.pairs).length === 0 ? undefined : found.pairs);
      }}
    />
  );
}

function JsonField(props: { form: Form; path: string; label: string; help: string; placeholder: string }) {
  const { form, path, label, help, placeholder } = props;
  const [text, setText] = useState(() => {
    const value = valueAt(form.body, path);
    return value === undefined ? '' : JSON.stringify(value, null, 2);
  });
  const [fault, setFault] = useState<string | undefined>(undefined);
  useEffect(() => () => form.wrong(path, undefined), []);
  return (
    <AreaField
      class="whole"
      label={label}
      optional
      at={`body.${path}`}
      problem={form.problem}
      faults={fault === undefined ? [] : [fault]}
      rows={4}
      value={text}
      placeholder={placeholder}
      help={help}
      onValue={(value) => {
        setText(value);
        let said: string | undefined;
        if (value.trim() === '') {
          form.set(path, undefined);
        } else {
          try {
            form.set(path, JSON.parse(value) as Json);
          } catch (thrown) {
            said = `it is no JSON (${thrown instanceof Error ? thrown.message : String(thrown)})`;
          }
        }
        setFault(said);
        form.wrong(path, said && `${path}: ${said}`);
      }}
    />
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
