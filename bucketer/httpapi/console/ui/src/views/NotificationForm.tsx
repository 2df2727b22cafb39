// Creates a rule for notifications, or changes one: by fields or as JSON.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api } from '../api/client';
import { useLive } from '../api/live';
import { faultsAt, problemBelow } from '../api/problem';
import { may } from '../api/session';
import type { Notification, NotificationRequest } from '../api/types';
import { valueAt, withValue, type Json, type JsonObject } from '../merge';
import { BodyAsJson, BodyChoice, BodyJson, BodyLines, BodyPairs, BodySpan, BodyText, FormEnd, useBodyForm, type BodyForm } from '../parts/BodyForm';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { AreaField, SelectField, TextField } from '../parts/Field';
import { Icon } from '../parts/Icon';
import { MayNot } from '../parts/MayNot';
import { Answered, Panel } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { Tabs } from '../parts/Tabs';
import { say } from '../parts/Toasts';
import { View } from '../parts/View';
import { kinds, requestOf, sinkBegins, sinkKindOf, sinkKinds, type SinkKind } from '../notifications';
import { pathTo } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';

const begin: JsonObject = { on: ['failed', 'missed'], sinks: [{ slack: {} }] };
const mostSinks = 5;

export function NotificationForm({ params }: ViewParams) {
  const name = params.name;
  const live = useLive<Notification>(
    name === undefined ? null : `edit notification ${name}`,
    (signal) => answer(api.GET('/v1/notifications/{name}', { params: { path: { name: name ?? '' } }, signal })),
    { every: 0 },
  );
  const above: [string, string][] = [['Notifications', '/notifications']];
  if (name !== undefined) {
    above.push([name, pathTo('/notifications/:name', { name })]);
  }
  return (
    <View title={name === undefined ? 'New rule' : `Change ${name}`} above={above}>
      {name === undefined ? (
        <Editor first={begin} />
      ) : (
        <Answered live={live} what="this rule">
          {(rule) => <Editor key={rule.name} name={rule.name} first={requestOf(rule) as JsonObject} />}
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
    return <MayNot what="change notifications" />;
  }
  const put = async (): Promise<void> => {
    const done = await action.run(async () => {
      if (fixed === undefined && (await exists(name)) && !(await mayReplace(name))) {
        return undefined;
      }
      return answer(
        api.PUT('/v1/notifications/{name}', { params: { path: { name } }, body: body as unknown as NotificationRequest }),
      );
    });
    if (done) {
      form.saved();
      say(fixed === undefined ? `The rule ${name} is there. Send a test to see whether its sinks take it.` : 'The rule is changed.');
      go(pathTo('/notifications/:name', { name }));
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
      <Refusal problem={action.problem} what={fixed === undefined ? 'The rule was not created' : 'The rule was not changed'} form focus />
      {fixed === undefined && (
        <Panel title="What it is called">
          <div class="fields">
            <TextField
              label="Name"
              at="path.name"
              problem={action.problem}
              value={typed}
              onValue={setTyped}
              placeholder="billing"
              help="Unique in the tenant: a–z, 0–9, “.”, “_” and “-”."
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
        <a class="button" href={href(fixed === undefined ? '/notifications' : pathTo('/notifications/:name', { name: fixed }))}>
          Leave it
        </a>
        <CopyCurl method="PUT" path={pathTo('/v1/notifications/:name', { name: name || 'NAME' })} body={body} />
        <button type="submit" class="button primary" disabled={action.busy || form.wrongs.length > 0 || name === ''}>
          {fixed === undefined ? 'Create the rule' : 'Change the rule'}
        </button>
      </FormEnd>
    </form>
  );
}

async function exists(name: string): Promise<boolean> {
  try {
    await answer(api.GET('/v1/notifications/{name}', { params: { path: { name } } }));
    return true;
  } catch {
    return false; // not there, or the put will say what is wrong
  }
}

function mayReplace(name: string): Promise<boolean> {
  return confirm({
    title: `Replace the rule ${name}?`,
    children: <p>There is a rule of this name.</p>,
    action: 'Replace it',
    danger: true,
  });
}

function Fields({ form }: { form: BodyForm }) {
  return (
    <>
      <Panel title="Of what it tells">
        <Kinds form={form} />
        <div class="fields">
          <BodyText form={form} path="match.job" label="Job" optional placeholder="billing-*" help="A name, or a glob with * and ?." />
          <BodyText form={form} path="match.task" label="Task" optional placeholder="send-email" />
          <BodyText form={form} path="match.workflow" label="Workflow" optional placeholder="etl" />
          <BodyPairs form={form} path="match.labels" mark="=" label="Labels" help="One a line: name=value." />
          <TextField
            label="Failures in a row"
            type="number"
            optional
            at="body.match.in_a_row"
            problem={form.problem}
            value={form.text('match.in_a_row')}
            onValue={(v) => form.set('match.in_a_row', v === '' ? undefined : Number(v))}
            placeholder="3"
            help="Tells of the failures of a job from this number in a row on."
          />
          <BodySpan
            form={form}
            path="match.late_by"
            label="Late by"
            placeholder="1s"
            help="Of runs that were late: only those that started at least so much after their time."
          />
        </div>
      </Panel>
      <Sinks form={form} />
      <Panel title="How often" about="The words and usual values are those of Prometheus Alertmanager.">
        <div class="fields">
          <BodyLines
            form={form}
            path="group_by"
            label="Told together is what is alike in"
            optional
            help="One a line: job, task, workflow, kind, error, label.NAME. Empty: job and error."
          />
          <BodySpan form={form} path="group_wait" label="First message after" placeholder="30s" />
          <BodySpan form={form} path="group_interval" label="Next one after" placeholder="5m" />
          <BodySpan form={form} path="repeat_interval" label="Told again after" placeholder="4h" />
          <SelectField
            label="When all jobs of a group have succeeded"
            at="body.send_resolved"
            problem={form.problem}
            value={valueAt(form.body, 'send_resolved') === false ? 'no' : 'yes'}
            onValue={(v) => form.set('send_resolved', v === 'no' ? false : undefined)}
            options={[
              { value: 'yes', text: 'a message says so' },
              { value: 'no', text: 'nothing is said' },
            ]}
          />
          <BodyJson
            form={form}
            path="mute_time_intervals"
            label="Mute, JSON"
            placeholder='[{"weekdays": ["saturday", "sunday"], "location": "Europe/Berlin"}]'
            help="While one of them lasts nothing is sent; what happens is told after it."
          />
          <BodyText form={form} path="description" label="Description" optional class="whole" />
        </div>
      </Panel>
    </>
  );
}

function Kinds({ form }: { form: BodyForm }) {
  const on = (valueAt(form.body, 'on') as string[] | undefined) ?? [];
  const faults = faultsAt(form.problem, 'body.on').map((f) => f.message);
  return (
    <fieldset class="field whole" data-at="body.on">
      <legend>When</legend>
      {kinds.map(({ value, text }) => (
        <label key={value} class="check">
          <input
            type="checkbox"
            checked={on.includes(value)}
            onChange={(e) => {
              const chosen = e.currentTarget.checked;
              form.set('on', kinds.map((k) => k.value).filter((k) => (k === value ? chosen : on.includes(k))));
            }}
          />
          {text}
        </label>
      ))}
      {faults.length > 0 && <p class="field-wrong">{faults.join(', ')}</p>}
    </fieldset>
  );
}

function Sinks({ form }: { form: BodyForm }) {
  const sinks = (valueAt(form.body, 'sinks') as JsonObject[] | undefined) ?? [];
  const put = (next: JsonObject[]): void => form.set('sinks', next);
  return (
    <>
      {sinks.map((sink, i) => (
        <Sink
          key={`${i} of ${sinks.length} ${sinkKindOf(sink)}`}
          form={form}
          at={`body.sinks[${i}]`}
          title={sinks.length === 1 ? 'Where' : `Where, ${i + 1}`}
          sink={sink}
          onSink={(next) => put(sinks.map((old, j) => (j === i ? next : old)))}
          onRemove={sinks.length > 1 ? () => put(sinks.filter((_, j) => j !== i)) : undefined}
        />
      ))}
      {sinks.length < mostSinks && (
        <button type="button" class="button" onClick={() => put([...sinks, { email: { to: [] } }])}>
          <Icon name="plus" /> Tell another one, too
        </button>
      )}
    </>
  );
}

interface SinkProps {
  form: BodyForm;
  /** Where the API finds fault with it. */
  at: string;
  title: string;
  sink: JsonObject;
  onSink: (sink: JsonObject) => void;
  onRemove: (() => void) | undefined;
}

function Sink({ form, at, title, sink, onSink, onRemove }: SinkProps) {
  const kind = sinkKindOf(sink) ?? 'webhook';
  const here = (sink[kind] ?? {}) as JsonObject;
  // A form of its own, whose paths begin at the sink.
  const own: BodyForm = {
    ...form,
    body: here,
    problem: form.problem && problemBelow(form.problem, `${at}.${kind}`),
    text: (path) => {
      const value = valueAt(here, path);
      return value === undefined || value === null ? '' : String(value);
    },
    set: (path, value) => onSink({ [kind]: withValue(here, path, value) }),
    wrong: (name, fault) => form.wrong(`${at} ${name}`, fault),
  };
  return (
    <Panel
      title={title}
      actions={
        onRemove && (
          <button type="button" class="button small" onClick={onRemove}>
            Leave it out
          </button>
        )
      }
    >
      <div class="fields">
        <SelectField
          class="whole"
          label="It is"
          at={at}
          value={kind}
          onValue={(v) => onSink({ [v]: sinkBegins[v as SinkKind] as Json })}
          options={sinkKinds}
        />
        <SinkFields key={kind} form={own} kind={kind} />
      </div>
    </Panel>
  );
}

function SinkFields({ form, kind }: { form: BodyForm; kind: SinkKind }) {
  switch (kind) {
    case 'email':
      return <MailFields form={form} />;
    case 'pagerduty':
      return (
        <>
          <BodyText form={form} path="routing_key_secret" label="Secret that holds the integration’s key" placeholder="pagerduty" help="Put it among the secrets first: 32 characters, of an integration with the Events API v2." />
          <BodyChoice form={form} path="severity" label="Severity" usual="error" options={[['critical'], ['error'], ['warning'], ['info']]} />
          <BodyText form={form} path="url" label="URL" type="url" optional placeholder="https://events.eu.pagerduty.com/v2/enqueue" help="Only for accounts of the EU region." />
          <BodyJson form={form} path="links" label="Links, JSON" placeholder='[{"href": "https://wiki.example.com/runbook", "text": "Runbook"}]' />
        </>
      );
    default:
      return (
        <>
          <BodyText form={form} path="url" label="URL" type="url" optional placeholder={urls[kind]} help={urlHelp[kind]} />
          <BodyText form={form} path="url_secret" label="Secret that holds the URL" optional placeholder={`${kind}-url`} help={secretHelp} />
          <BodyPairs form={form} path="headers" mark=":" label="Headers" help="One a line: name: value." />
          <BodyJson form={form} path="auth" label="How calls show who makes them, JSON" placeholder='{"bearer": {"secret": "hooks-token"}}' />
        </>
      );
  }
}

const urls: Record<Exclude<SinkKind, 'email' | 'pagerduty'>, string> = {
  slack: 'https://hooks.slack.com/services/…',
  teams: 'https://….logic.azure.com/workflows/…',
  webhook: 'https://example.com/hook',
  alertmanager: 'https://alertmanager.example.com/api/v2/alerts',
};

const urlHelp: Record<keyof typeof urls, string> = {
  slack: 'An incoming webhook. Who has it may post, so it is better kept as a secret.',
  teams: 'A workflow that posts what it receives. Who has it may post, so it is better kept as a secret.',
  webhook: 'It gets JSON as Standard Webhooks has it, signed by the key called default if there is one.',
  alertmanager: 'Of its API v2.',
};

const secretHelp = 'Instead of the URL. Put it among the secrets first: then nobody is shown it.';

function MailFields({ form }: { form: BodyForm }) {
  const own = valueAt(form.body, 'server') !== undefined;
  const to = (valueAt(form.body, 'to') as string[] | undefined) ?? [];
  const choose = (chosen: boolean): void => {
    form.set('server', chosen ? { host: '' } : undefined);
  };
  return (
    <>
      <AreaField
        label="To"
        at="body.to"
        problem={form.problem}
        rows={3}
        value={to.join('\n')}
        onValue={(v) => form.set('to', v === '' ? [] : v.split('\n'))}
        placeholder="ops@example.com"
        help="One address a line."
      />
      <SelectField
        label="Sent by"
        at="body.server"
        problem={own ? undefined : form.problem}
        value={own ? 'own' : 'operators'}
        onValue={(v) => choose(v === 'own')}
        options={[
          { value: 'operators', text: 'the operator’s mail server' },
          { value: 'own', text: 'another mail server' },
        ]}
      />
      {(own || valueAt(form.body, 'from') !== undefined) && (
        <BodyText form={form} path="from" label="From" optional placeholder="carillon@example.com" />
      )}
      {own && (
        <>
          <BodyText form={form} path="server.host" label="Mail server" placeholder="smtp.example.com" />
          <BodyChoice
            form={form}
            path="server.tls"
            label="Encrypted"
            usual="starttls"
            options={[
              ['starttls', 'by STARTTLS'],
              ['implicit', 'from the first byte on'],
              ['none', 'not at all'],
            ]}
          />
          <TextField
            label="Port"
            type="number"
            optional
            at="body.server.port"
            problem={form.problem}
            value={form.text('server.port')}
            onValue={(v) => form.set('server.port', v === '' ? undefined : Number(v))}
            placeholder="587"
          />
          <BodyText form={form} path="server.username" label="User" optional />
          <BodyText form={form} path="server.password_secret" label="Secret that holds the password" optional placeholder="mail-password" />
        </>
      )}
    </>
  );
}
