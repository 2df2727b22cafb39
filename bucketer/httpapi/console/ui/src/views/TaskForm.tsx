// Creates a task, or changes one: by fields or as JSON. What the API finds wrong stands at its field.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api } from '../api/client';
import { useLive } from '../api/live';
import { may } from '../api/session';
import type { Task, TaskRequest } from '../api/types';
import type { Json, JsonObject } from '../merge';
import {
  BodyAsJson,
  BodyJson,
  BodyNumber,
  BodyText,
  FormEnd,
  LimitFields,
  useBodyForm,
  workBegins,
  WorkFields,
  type BodyForm,
} from '../parts/BodyForm';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { SelectField, TextField } from '../parts/Field';
import { MayNot } from '../parts/MayNot';
import { Answered, Panel } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { Tabs } from '../parts/Tabs';
import { say } from '../parts/Toasts';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { messageKinds, workKindOf, workKinds, type WorkKind, type WorkLike } from '../target';

/** The fields of a task that one may ask for. */
const asked = [
  'description',
  'http',
  'nats',
  'script',
  'lambda',
  ...messageKinds,
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
    const value = (task as Record<string, unknown>)[name] as Json | undefined;
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

function Editor({ name: fixed, first }: { name?: string; first: JsonObject }) {
  const [typed, setTyped] = useState('');
  const action = useAction();
  const [begun] = useState(first);
  const form = useBodyForm(begun, action.problem, { dirty: typed !== '' });
  const { body } = form;
  const name = fixed ?? typed.trim();
  if (!may('operator')) {
    return <MayNot what="change tasks" />;
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
      form.saved();
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
        if (form.wrongs.length === 0 && name !== '') {
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
          { id: 'json', title: 'As JSON', content: () => <BodyAsJson form={form} /> },
        ]}
      />
      <FormEnd form={form}>
        <a class="button" href={href(fixed === undefined ? '/tasks' : pathTo('/tasks/:name', { name: fixed }))}>
          Leave it
        </a>
        <CopyCurl method="PUT" path={pathTo('/v1/tasks/:name', { name: name || 'NAME' })} body={body} />
        <button type="submit" class="button primary" disabled={action.busy || form.wrongs.length > 0 || name === ''}>
          {fixed === undefined ? 'Create the task' : 'Change the task'}
        </button>
      </FormEnd>
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

function Fields({ form }: { form: BodyForm }) {
  const kind = workKindOf(form.body as WorkLike) ?? 'http';
  const choose = (next: WorkKind): void => {
    const rest = Object.fromEntries(Object.entries(form.body).filter(([name]) => !workKinds.some((k) => k.value === name)));
    form.replace({ ...rest, [next]: workBegins[next] });
  };
  return (
    <>
      <Panel title="What it does">
        <div class="fields">
          <SelectField class="whole" label="It is" value={kind} onValue={(v) => choose(v as WorkKind)} options={workKinds} />
          <WorkFields key={kind} form={form} kind={kind} />
        </div>
      </Panel>
      <Panel title="Time-out and retries">
        <LimitFields form={form} />
      </Panel>
      <Panel title="How much of it, in the whole cluster">
        <div class="fields">
          <BodyText form={form} path="rate" label="Starts" optional placeholder="any number" help="Such as 100/s, 10/m or 1000/h." />
          <BodyNumber form={form} path="max_concurrent" label="Runs at once, at most" placeholder="any number" />
        </div>
      </Panel>
      <Panel title="For people, and for payloads">
        <div class="fields">
          <BodyText form={form} path="description" label="What it is for" optional class="whole" />
          <BodyJson
            form={form}
            path="payload_schema"
            label="Schema of payloads, JSON"
            placeholder='{"type": "object", "required": ["to"]}'
            help="A JSON Schema 2020-12. A job whose payload does not fit is refused."
          />
        </div>
      </Panel>
    </>
  );
}
