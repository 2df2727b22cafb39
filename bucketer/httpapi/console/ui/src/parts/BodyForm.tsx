// Forms whose body is JSON: what is edited is the body of the request, field by field, and what the
// fields do not know stays in it. Each field stands at a path of the body, where the API finds fault
// with it.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { faultsAt, type Problem } from '../api/problem';
import { readPairs, writePairs } from '../jobs';
import { longNumber } from '../json';
import { isObject, same, valueAt, withValue, type Json, type JsonObject } from '../merge';
import { workKinds, type WorkKind } from '../target';
import { inputText, instantOf, parseSpan } from '../time';
import { useUnsaved } from '../unsaved';
import { AreaField, SelectField, TextField } from './Field';

/** What the form hands to its fields. */
export interface BodyForm {
  body: JsonObject;
  problem: Problem | undefined;
  /** What stands at a path, as a text. */
  text: (path: string) => string;
  set: (path: string, value: Json | undefined) => void;
  replace: (body: JsonObject) => void;
  /** Notes what is wrong with a field before it is sent; undefined: nothing. */
  wrong: (name: string, fault: string | undefined) => void;
  /** What is wrong, of all fields. */
  wrongs: readonly string[];
  /** A value that is the usual one is stated, since another one stands there now. */
  explicit: boolean;
  /** Notes that all is saved: the form may be left. */
  saved: () => void;
}

/** The state of a form. It asks before it is left while something is not saved. */
export function useBodyForm(
  first: JsonObject,
  problem: Problem | undefined,
  options: { explicit?: boolean; dirty?: boolean; saved?: JsonObject } = {},
): BodyForm {
  const [body, replace] = useState(first);
  const [wrongs, setWrongs] = useState<ReadonlyMap<string, string>>(new Map());
  const base = options.saved ?? first;
  const dirty = options.dirty === true || wrongs.size > 0 || (body !== base && !same(body, base));
  const saved = useUnsaved(dirty);
  return {
    body,
    problem,
    text: (path) => {
      const value = valueAt(body, path);
      return value === undefined || value === null ? '' : String(value);
    },
    set: (path, value) => replace((old) => withValue(old, path, value)),
    replace,
    wrong: (name, fault) =>
      setWrongs((old) => {
        if (old.get(name) === fault) {
          return old;
        }
        const next = new Map(old);
        if (fault === undefined) {
          next.delete(name);
        } else {
          next.set(name, fault);
        }
        return next;
      }),
    wrongs: [...wrongs.values()],
    explicit: options.explicit === true,
    saved,
  };
}

export interface BodyFieldProps {
  form: BodyForm;
  path: string;
  label: string;
  help?: ComponentChildren;
  optional?: boolean;
  placeholder?: string;
  class?: string;
}

type Given = Omit<BodyFieldProps, 'form' | 'path'> & { at: string; problem: Problem | undefined };

function given({ form, path, ...field }: BodyFieldProps): Given {
  return { ...field, at: `body.${path}`, problem: form.problem };
}

export function BodyText(props: BodyFieldProps & { list?: string; mono?: boolean; disabled?: boolean; type?: 'url' }) {
  const { form, path, optional } = props;
  return (
    <TextField
      {...props}
      {...given(props)}
      value={form.text(path)}
      onValue={(v) => form.set(path, v === '' && optional ? undefined : v)}
    />
  );
}

export function BodyChoice(props: BodyFieldProps & { usual: string; options: readonly (readonly string[])[] }) {
  const { form, path, usual, options } = props;
  return (
    <SelectField
      {...given(props)}
      value={form.text(path) || usual}
      onValue={(v) => form.set(path, v === usual && !form.explicit ? undefined : v)}
      options={options.map(([value = '', text = value]) => ({ value, text }))}
    />
  );
}

/** A duration as the API writes it. */
export function BodySpan(props: BodyFieldProps) {
  const { form, path } = props;
  const value = form.text(path);
  return (
    <TextField
      {...given(props)}
      faults={value !== '' && parseSpan(value) === undefined ? ['is no span such as 30s, 15m or 1h30m'] : []}
      value={value}
      onValue={(v) => form.set(path, v.trim() === '' ? undefined : v.trim())}
    />
  );
}

/** `goes` is the path of what leaves with the number. */
export function BodyNumber(props: BodyFieldProps & { goes?: string }) {
  const { form, path, goes = path } = props;
  return (
    <TextField
      {...given(props)}
      type="number"
      value={form.text(path)}
      onValue={(v) => (v === '' ? form.set(goes, undefined) : form.set(path, Number(v)))}
    />
  );
}

export function BodyInstant(props: BodyFieldProps & { zone: string }) {
  const { form, path, zone, optional } = props;
  const stated = form.text(path);
  const shown = (): string => (stated === '' ? '' : inputText(stated, zone));
  const [typed, setTyped] = useState(shown);
  useEffect(() => setTyped(shown()), [zone]); // it stays the instant that it is
  return (
    <TextField
      {...given(props)}
      label={`${props.label}, in ${zone}`}
      type="datetime-local"
      value={typed}
      onValue={(v) => {
        setTyped(v);
        form.set(path, instantOf(v, zone)?.toISOString() ?? (optional ? undefined : ''));
      }}
    />
  );
}

/** A list of texts, one a line. */
export function BodyLines(props: BodyFieldProps) {
  const { form, path, optional } = props;
  return (
    <AreaField
      {...given(props)}
      rows={3}
      value={((valueAt(form.body, path) as string[] | undefined) ?? []).join('\n')}
      onValue={(v) => form.set(path, v === '' ? (optional ? undefined : []) : v.split('\n'))}
    />
  );
}

/** A text that is not always what stands in the body: what is wrong with it is noted. */
function Typed(props: BodyFieldProps & { rows: number; first: string; read: (text: string) => string[] }) {
  const { form, path, label, rows, first, read } = props;
  const [text, setText] = useState(first);
  const [faults, setFaults] = useState<readonly string[]>([]);
  useEffect(() => () => form.wrong(path, undefined), []);
  return (
    <AreaField
      {...given(props)}
      faults={faults}
      rows={rows}
      value={text}
      onValue={(value) => {
        setText(value);
        const found = read(value);
        setFaults(found);
        form.wrong(path, found.length === 0 ? undefined : `${label}: ${found.join(', ')}`);
      }}
    />
  );
}

/** Lines of "name: value" or "name=value". */
export function BodyPairs(props: BodyFieldProps & { mark: ':' | '=' }) {
  const { form, path, mark } = props;
  return (
    <Typed
      class="whole"
      optional
      {...props}
      rows={3}
      first={writePairs(valueAt(form.body, path), mark === ':' ? ': ' : '=')}
      read={(text) => {
        const { pairs, faults } = readPairs(text, mark);
        form.set(path, Object.keys(pairs).length === 0 ? undefined : pairs);
        return faults;
      }}
    />
  );
}

function parse(text: string, take: (value: Json) => string[]): string[] {
  const long = longNumber(text);
  if (long !== undefined) {
    return [`${long} has more digits than this form keeps: write it as a text, or send the job with the program`];
  }
  try {
    return take(JSON.parse(text) as Json);
  } catch (thrown) {
    return [`it is no JSON (${thrown instanceof Error ? thrown.message : String(thrown)})`];
  }
}

/** Any JSON. */
export function BodyJson(props: BodyFieldProps) {
  const { form, path } = props;
  const stated = valueAt(form.body, path);
  return (
    <Typed
      class="whole"
      optional
      {...props}
      rows={5}
      first={stated === undefined ? '' : JSON.stringify(stated, null, 2)}
      read={(text) => {
        if (text.trim() === '') {
          form.set(path, undefined);
          return [];
        }
        return parse(text, (value) => {
          form.set(path, value);
          return [];
        });
      }}
    />
  );
}

/** The whole body as JSON. */
export function BodyAsJson({ form }: { form: BodyForm }) {
  const [text, setText] = useState(() => JSON.stringify(form.body, null, 2));
  const [faults, setFaults] = useState<readonly string[]>([]);
  useEffect(() => () => form.wrong('', undefined), []);
  return (
    <AreaField
      label="Body of the request"
      at="body"
      rows={28}
      value={text}
      faults={[...faults, ...faultsAt(form.problem, 'body').map((f) => `${f.location}: ${f.message}`)]}
      onValue={(value) => {
        setText(value);
        const found = parse(value, (body) => {
          if (!isObject(body)) {
            return ['it must be an object'];
          }
          form.replace(body);
          return [];
        });
        setFaults(found);
        form.wrong('', found.length === 0 ? undefined : `the JSON: ${found.join()}`);
      }}
      help="Everything that the API takes. It is in the fields too, as far as they know it."
    />
  );
}

export const workBegins: Record<WorkKind, Json> = {
  http: { url: '' },
  nats: { subject: '' },
  script: { command: '' },
  lambda: { function: '', region: '', credentials: '' },
  jetstream: { subject: '' },
  kafka: { brokers: [''], topic: '' },
  sqs: { queue_url: '', region: '', credentials: '' },
  sns: { topic_arn: '', region: '', credentials: '' },
  eventbridge: { source: '', detail_type: '', region: '', credentials: '' },
  step_functions: { state_machine: '', region: '', credentials: '' },
};

export { workKinds };

/** What is called: the fields of http, nats, script or lambda, or a message as JSON. */
export function WorkFields({ form, kind }: { form: BodyForm; kind: WorkKind }) {
  switch (kind) {
    case 'http':
      return (
        <>
          <BodyChoice
            form={form}
            path="http.method"
            label="Method"
            usual="POST"
            options={['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'].map((v) => [v])}
          />
          <BodyText form={form} path="http.url" label="URL" type="url" placeholder="https://example.com/hook" />
          <BodyChoice
            form={form}
            path="http.body"
            label="Body"
            usual="payload"
            options={[['payload', 'the payload'], ['none']]}
          />
          <BodyText
            form={form}
            path="http.signing_key"
            label="Signed with the key"
            optional
            placeholder="default"
            help="One of the signing keys. Empty: the one called default, if there is one."
          />
          <BodyPairs
            form={form}
            path="http.headers"
            mark=":"
            label="Headers"
            help="One a line: name: value. Secrets belong below."
          />
          <BodyJson
            form={form}
            path="http.auth"
            label="How calls show who makes them, JSON"
            placeholder='{"bearer": {"secret": "orders-token"}}'
            help="One of bearer, basic, header, oauth2_client_credentials, aws_sigv4, mtls and body_field. It names secrets, and never holds one."
          />
        </>
      );
    case 'nats':
      return <BodyText form={form} path="nats.subject" label="Subject" placeholder="work.email" />;
    case 'script':
      return (
        <>
          <BodyText form={form} path="script.command" label="Command" help="A name in the operator’s list." />
          <BodyLines form={form} path="script.args" label="Arguments" optional help="One a line." />
        </>
      );
    case 'lambda':
      return (
        <>
          <BodyText form={form} path="lambda.function" label="Function" help="Name or ARN." />
          <BodyText form={form} path="lambda.region" label="Region" placeholder="eu-central-1" />
          <BodyText form={form} path="lambda.credentials" label="Credentials" help="The name of a secret." />
          <BodyChoice
            form={form}
            path="lambda.invocation"
            label="Invoked"
            usual="sync"
            options={[
              ['sync', 'and waited for'],
              ['async', 'without waiting for it'],
            ]}
          />
        </>
      );
    default:
      return (
        <BodyJson
          form={form}
          path={kind}
          label="Where the message goes, JSON"
          help="The payload is the message. Credentials and passwords are names of secrets: no secret stands here."
        />
      );
  }
}

/** Time-out, retries and guarantee. */
export function LimitFields({ form }: { form: BodyForm }) {
  return (
    <div class="fields">
      <BodySpan form={form} path="timeout" label="Time-out of an attempt" placeholder="30s" />
      <BodyNumber form={form} path="retry.max_attempts" label="Attempts at most" placeholder="5" />
      <BodySpan form={form} path="retry.initial" label="First pause" placeholder="1s" />
      <BodyNumber form={form} path="retry.factor" label="Each pause is longer by" placeholder="2" />
      <BodySpan form={form} path="retry.max" label="Longest pause" placeholder="10m" />
      <BodyChoice
        form={form}
        path="retry.jitter"
        label="Pauses"
        usual="full"
        options={[
          ['full', 'drawn at random below that'],
          ['none', 'as stated'],
        ]}
      />
      <BodyChoice
        form={form}
        path="guarantee"
        label="Guarantee"
        usual="at_least_once"
        options={['at_least_once', 'at_most_once', 'effectively_once'].map((v) => [v, v.replaceAll('_', ' ')])}
      />
    </div>
  );
}

/** The buttons of a form, and what must be mended before. */
export function FormEnd({ form, children }: { form: BodyForm; children: ComponentChildren }) {
  return (
    <div class="form-end">
      {form.wrongs.length > 0 && <p class="field-wrong">First mend: {form.wrongs.join('; ')}.</p>}
      {children}
    </div>
  );
}
