// Creates a job, or changes one. The body of the request is what is edited, by fields or as JSON: what
// the fields do not know stays in it. When it runs is shown while it is typed; what the API finds wrong
// stands at its field; what somebody else changed meanwhile is brought together with this.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answerWithHeaders, api, ask, newKey } from '../api/client';
import { slow, useLive } from '../api/live';
import type { PageLike } from '../api/pages';
import { faultsAt, type Problem } from '../api/problem';
import type { Job, JobRequest, Preview, Task } from '../api/types';
import { may } from '../api/session';
import { serverNow } from '../clock';
import { cronHints, cronWords, fieldHints } from '../cron';
import {
  limitFields,
  nameOfJob,
  readPairs,
  repeatedFields,
  requestOf,
  scheduleFields,
  whenKinds,
  whenOf,
  workKinds,
  workOf,
  writePairs,
  type WhenKind,
  type WorkKind,
} from '../jobs';
import { holdsNull, isObject, patchOf, valueAt, withValue, type Json, type JsonObject } from '../merge';
import { CopyCurl } from '../parts/CopyCurl';
import { AreaField, Field, SelectField, TextField } from '../parts/Field';
import { Icon } from '../parts/Icon';
import { MergeDialog } from '../parts/MergeDialog';
import { Answered, Panel } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { Tabs } from '../parts/Tabs';
import { say } from '../parts/Toasts';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { viewerZone } from '../preferences';
import { go, href, queryValue } from '../router';
import type { ViewParams } from '../routes';
import { clockChanges, clockChangeText, inputText, instantOf, knowsZone, localZone, parseSpan, timeText, UTC } from '../time';
import { everyWords } from '../words';
import { Notes } from './Job';

export function JobNew(_props: ViewParams) {
  const task = queryValue('task');
  const [first] = useState<JsonObject>(() => ({
    ...(task === '' ? { http: { url: '' } } : { task }),
    schedule: { cron: '0 9 * * MON-FRI', timezone: localZone() },
  }));
  return (
    <View title="New job" above={[['Jobs', '/jobs']]}>
      <Editor first={first} />
    </View>
  );
}

interface Loaded {
  job: Job;
  etag: string;
}

async function load(id: string, signal?: AbortSignal): Promise<Loaded> {
  const { data, headers } = await answerWithHeaders(
    api.GET('/v1/jobs/{id}', { params: { path: { id } }, ...(signal ? { signal } : {}) }),
  );
  return { job: data, etag: headers.get('ETag') ?? '' };
}

export function JobEdit({ params }: ViewParams) {
  const id = params.id ?? '';
  const live = useLive(`edit ${id}`, (signal) => load(id, signal), { every: 0 });
  const above: [string, string][] = [
    ['Jobs', '/jobs'],
    [id, pathTo('/jobs/:id', { id })],
  ];
  return (
    <View title={`Change ${id}`} above={above}>
      <Answered live={live} what="this job">
        {(loaded) => <Editor key={loaded.job.id} first={requestOf(loaded.job)} loaded={loaded} />}
      </Answered>
    </View>
  );
}

/** What the form hands to its parts. */
interface Form {
  body: JsonObject;
  problem: Problem | undefined;
  text: (path: string) => string;
  set: (path: string, value: Json | undefined) => void;
  replace: (body: JsonObject) => void;
  /** Notes what is wrong with a field before it is sent; undefined: nothing. */
  wrong: (name: string, fault: string | undefined) => void;
  changing: boolean;
}

function Editor({ first, loaded }: { first: JsonObject; loaded?: Loaded }) {
  const [body, setBody] = useState(first);
  const [base, setBase] = useState(first);
  const [etag, setEtag] = useState(loaded?.etag ?? '');
  const [key, setKey] = useState(newKey);
  const [theirs, setTheirs] = useState<Loaded | undefined>(undefined);
  const [wrongs, setWrongs] = useState<ReadonlyMap<string, string>>(new Map());
  const action = useAction();
  const form: Form = {
    body,
    problem: action.problem,
    text: (path) => {
      const value = valueAt(body, path);
      return value === undefined || value === null ? '' : String(value);
    },
    set: (path, value) => setBody((old) => withValue(old, path, value)),
    replace: setBody,
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
    changing: loaded !== undefined,
  };

  // What was typed is not lost by a slip.
  const dirty = body !== base;
  useEffect(() => {
    const ask = (e: BeforeUnloadEvent): void => e.preventDefault();
    if (dirty) {
      addEventListener('beforeunload', ask);
    }
    return () => removeEventListener('beforeunload', ask);
  }, [dirty]);

  const create = async (): Promise<void> => {
    const made = await action.run(async () => {
      const { data } = await answerWithHeaders(
        api.POST('/v1/jobs', { params: { header: { 'Idempotency-Key': key } }, body: body as unknown as JobRequest }),
      );
      return data;
    });
    if (made) {
      setKey(newKey());
      say(`The job ${nameOfJob(made)} is there.`);
      const once = Boolean(made.schedule.at) && !made.schedule.cron && !made.schedule.every;
      go(once ? `/runs/${made.id}` : pathTo('/jobs/:id', { id: nameOfJob(made) }));
    }
  };

  const change = async (mine: JsonObject, from: JsonObject, tag: string): Promise<void> => {
    const patch = patchOf(from, mine);
    if (Object.keys(patch).length === 0) {
      say('Nothing was changed.');
      return;
    }
    const id = loaded?.job.id ?? '';
    const name = loaded?.job.name;
    const whole = holdsNull(patch.payload as Json | undefined) && holdsNull(mine.payload);
    const done = await action.run(async () => {
      const headers = { 'If-Match': tag };
      try {
        // A merge patch cannot say that a member of the payload is null: then all of it is put.
        return whole && name
          ? await ask<Job>(pathTo('/v1/jobs/:id', { id: name }), { method: 'PUT', headers, body: mine })
          : await ask<Job>(`/v1/jobs/${id}`, { method: 'PATCH', headers, body: patch });
      } catch (thrown) {
        if ((thrown as Problem).status === 412) {
          setTheirs(await load(id));
        }
        throw thrown;
      }
    });
    if (done) {
      say('The job is changed.');
      go(pathTo('/jobs/:id', { id: nameOfJob(done) }));
    }
  };

  if (!may('operator')) {
    return (
      <p class="absent">
        <Icon name="slash" /> Your key may look at jobs, and not change them.
      </p>
    );
  }
  return (
    <form
      class="stack"
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        if (wrongs.size === 0) {
          void (loaded ? change(body, base, etag) : create());
        }
      }}
    >
      {action.problem?.status !== 412 && (
        <Refusal problem={action.problem} what={loaded ? 'The job was not changed' : 'The job was not created'} form focus />
      )}
      <div class="form-columns">
        <div class="stack">
          <Tabs
            label="How it is edited"
            name="edit"
            tabs={[
              { id: 'fields', title: 'By fields', content: () => <Fields form={form} /> },
              { id: 'json', title: 'As JSON', content: () => <AsJson form={form} /> },
            ]}
          />
        </div>
        <SchedulePreview body={body} />
      </div>
      <div class="form-end">
        {wrongs.size > 0 && <p class="field-wrong">First mend: {[...wrongs.values()].join('; ')}.</p>}
        <a class="button" href={href(loaded ? pathTo('/jobs/:id', { id: nameOfJob(loaded.job) }) : '/jobs')}>
          Leave it
        </a>
        {!loaded && <CopyCurl method="POST" path="/v1/jobs" body={body} />}
        <button type="submit" class="button primary" disabled={action.busy || wrongs.size > 0}>
          {loaded ? 'Change the job' : 'Create the job'}
        </button>
      </div>
      {theirs && (
        <MergeDialog
          base={base}
          mine={body}
          theirs={requestOf(theirs.job)}
          changedAt={theirs.job.updated_at}
          onClose={() => setTheirs(undefined)}
          onMerged={(merged) => {
            const now = requestOf(theirs.job);
            setTheirs(undefined);
            setBase(now);
            setEtag(theirs.etag);
            setBody(merged);
            void change(merged, now, theirs.etag);
          }}
        />
      )}
    </form>
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
      rows={28}
      value={text}
      faults={[...(fault === undefined ? [] : [fault]), ...faultsAt(form.problem, 'body').map((f) => `${f.location}: ${f.message}`)]}
      onValue={(value) => {
        setText(value);
        try {
          const parsed: unknown = JSON.parse(value);
          if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
            throw new Error('it must be an object');
          }
          setFault(undefined);
          form.wrong('JSON', undefined);
          form.replace(parsed as JsonObject);
        } catch (thrown) {
          const said = `this is no JSON object (${thrown instanceof Error ? thrown.message : String(thrown)})`;
          setFault(said);
          form.wrong('JSON', said);
        }
      }}
      help="Everything that the API takes. It is in the fields too, as far as they know it."
    />
  );
}

function Fields({ form }: { form: Form }) {
  const when = whenOf(form.body);
  const repeats = when !== 'now' && when !== 'at';
  return (
    <>
      <WhatRuns form={form} />
      <WhenItRuns form={form} when={when} />
      <Panel title="Name, payload, labels">
        <div class="fields">
          {repeats && (
            <TextField
              label="Name"
              optional
              at="body.name"
              problem={form.problem}
              value={form.text('name')}
              onValue={(v) => form.set('name', v || undefined)}
              disabled={form.changing}
              help={form.changing ? 'A name cannot be changed.' : 'Unique in the tenant: a–z, 0–9, “.”, “_” and “-”.'}
            />
          )}
          <SelectField
            label="Priority"
            at="body.priority"
            problem={form.problem}
            value={form.text('priority') || 'normal'}
            onValue={(v) => form.set('priority', v === 'normal' && !form.changing ? undefined : v)}
            options={['critical', 'high', 'normal', 'low'].map((v) => ({ value: v, text: v }))}
          />
          <PayloadField form={form} />
          <PairsField form={form} path="labels" mark="=" label="Labels" help="One a line: name=value. Lists and operations select by them." />
        </div>
      </Panel>
      <IfLate form={form} repeats={repeats} />
    </>
  );
}

const workNames: Record<WorkKind, string> = {
  task: 'Run a task',
  http: 'Call a URL',
  nats: 'Ask a NATS subject',
  script: 'Run a script',
  lambda: 'Invoke a Lambda function',
};

const workBegins: Record<WorkKind, Json> = {
  task: '',
  http: { url: '' },
  nats: { subject: '' },
  script: { command: '' },
  lambda: { function: '', region: '', credentials: '' },
};

function WhatRuns({ form }: { form: Form }) {
  const { body, problem, set, text } = form;
  const kind = workOf(body);
  const left = useRef<Partial<Record<string, Json>>>({});
  const tasks = useLive<PageLike<Task>>('task names', (signal) => ask('/v1/tasks', { query: { limit: 200 }, signal }), { every: slow });
  const choose = (next: WorkKind): void => {
    let changed = body;
    for (const name of [...workKinds, ...(next === 'task' ? limitFields : [])]) {
      if (changed[name] !== undefined) {
        left.current[name] = changed[name];
        changed = withValue(changed, name, undefined);
      }
    }
    changed = { ...changed, [next]: left.current[next] ?? workBegins[next] };
    form.replace(changed);
  };
  return (
    <Panel title="What runs">
      <div class="fields">
        <SelectField
          class="whole"
          label="It is to"
          value={kind}
          onValue={(v) => choose(v as WorkKind)}
          options={workKinds.map((k) => ({ value: k, text: workNames[k] }))}
        />
        {kind === 'task' && (
          <>
            <TextField
              label="Task"
              at="body.task"
              problem={problem}
              value={text('task')}
              onValue={(v) => set('task', v)}
              list="task-names"
              help="Time-out, retries and rate stand with the task."
            />
            <datalist id="task-names">
              {(tasks.data?.items ?? []).map((t) => (
                <option key={t.name} value={t.name} />
              ))}
            </datalist>
          </>
        )}
        {kind === 'http' && (
          <>
            <SelectField
              label="Method"
              at="body.http.method"
              problem={problem}
              value={text('http.method') || 'POST'}
              onValue={(v) => set('http.method', v)}
              options={['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'].map((v) => ({ value: v, text: v }))}
            />
            <TextField
              label="URL"
              type="url"
              at="body.http.url"
              problem={problem}
              value={text('http.url')}
              onValue={(v) => set('http.url', v)}
              placeholder="https://example.com/hook"
            />
            <SelectField
              label="Body"
              at="body.http.body"
              problem={problem}
              value={text('http.body') || 'payload'}
              onValue={(v) => set('http.body', v)}
              options={[
                { value: 'payload', text: 'the payload' },
                { value: 'none', text: 'none' },
              ]}
            />
            <PairsField form={form} path="http.headers" mark=":" label="Headers" help="One a line: name: value. Secrets belong into http.auth (as JSON)." />
            {isObject(body.http) && body.http.auth !== undefined && (
              <p class="muted whole">It shows who calls by {Object.keys(isObject(body.http.auth) ? body.http.auth : {}).join()}: that is edited as JSON.</p>
            )}
          </>
        )}
        {kind === 'nats' && (
          <TextField label="Subject" at="body.nats.subject" problem={problem} value={text('nats.subject')} onValue={(v) => set('nats.subject', v)} placeholder="work.report" />
        )}
        {kind === 'script' && (
          <>
            <TextField label="Command" at="body.script.command" problem={problem} value={text('script.command')} onValue={(v) => set('script.command', v)} help="A name in the operator’s list." />
            <AreaField
              label="Arguments"
              at="body.script.args"
              problem={problem}
              rows={3}
              value={((valueAt(body, 'script.args') as string[] | undefined) ?? []).join('\n')}
              onValue={(v) => set('script.args', v === '' ? undefined : v.split('\n'))}
              help="One a line."
            />
          </>
        )}
        {kind === 'lambda' &&
          (
            [
              ['Function', 'function', 'Name or ARN.'],
              ['Region', 'region', ''],
              ['Credentials', 'credentials', 'The name of a secret.'],
            ] as const
          ).map(([label, name, help]) => (
            <TextField key={name} label={label} at={`body.lambda.${name}`} problem={problem} value={text(`lambda.${name}`)} onValue={(v) => set(`lambda.${name}`, v)} help={help} />
          ))}
      </div>
      {kind !== 'task' && <Limits form={form} />}
    </Panel>
  );
}

function Limits({ form }: { form: Form }) {
  const { problem, text, set } = form;
  return (
    <details>
      <summary>Time-out, retries, guarantee</summary>
      <div class="fields">
        <SpanField form={form} path="timeout" label="Time-out of an attempt" placeholder="30s" />
        <NumberField form={form} path="retry.max_attempts" label="Attempts at most" placeholder="5" />
        <SpanField form={form} path="retry.initial" label="First pause" placeholder="1s" />
        <NumberField form={form} path="retry.factor" label="Each pause is longer by" placeholder="2" />
        <SpanField form={form} path="retry.max" label="Longest pause" placeholder="10m" />
        <SelectField
          label="Pauses"
          at="body.retry.jitter"
          problem={problem}
          value={text('retry.jitter') || 'full'}
          onValue={(v) => set('retry.jitter', v === 'full' && !form.changing ? undefined : v)}
          options={[
            { value: 'full', text: 'drawn at random below that' },
            { value: 'none', text: 'as stated' },
          ]}
        />
        <SelectField
          label="Guarantee"
          at="body.guarantee"
          problem={problem}
          value={text('guarantee') || 'at_least_once'}
          onValue={(v) => set('guarantee', v === 'at_least_once' && !form.changing ? undefined : v)}
          options={['at_least_once', 'at_most_once', 'effectively_once'].map((v) => ({ value: v, text: v.replaceAll('_', ' ') }))}
        />
      </div>
    </details>
  );
}

const whenNames: Record<WhenKind, string> = {
  now: 'Once, now',
  at: 'Once, at an instant',
  cron: 'By a cron expression',
  every: 'Every so often',
  on: 'On an event',
  after: 'After other jobs',
};

const whenBegins: Record<WhenKind, JsonObject> = {
  now: {},
  at: { schedule: { at: '' } },
  cron: { schedule: { cron: '0 9 * * MON-FRI', timezone: localZone() } },
  every: { schedule: { every: '15m' } },
  on: { on: { event: '' } },
  after: { after: { jobs: [] } },
};

function WhenItRuns({ form, when }: { form: Form; when: WhenKind }) {
  const { body, problem, set, text } = form;
  const left = useRef<Partial<Record<WhenKind, JsonObject>>>({});
  const zone = viewerZone.value;
  const choose = (next: WhenKind): void => {
    const kept: JsonObject = {};
    const changed: JsonObject = {};
    for (const [name, value] of Object.entries(body)) {
      const of = name === 'schedule' || name === 'on' || name === 'after';
      const goes =
        (next === 'now' || next === 'at') && (repeatedFields as readonly string[]).includes(name)
          ? true
          : (next === 'on' || next === 'after') && (scheduleFields as readonly string[]).includes(name);
      if (of || goes) {
        kept[name] = value;
      } else {
        changed[name] = value;
      }
    }
    left.current[when] = kept;
    form.replace({ ...changed, ...(left.current[next] ?? whenBegins[next]) });
  };
  const jobZone = text('schedule.timezone') || UTC;
  return (
    <Panel title="When it runs">
      <div class="fields">
        <SelectField
          class="whole"
          label="It runs"
          value={when}
          onValue={(v) => choose(v as WhenKind)}
          options={whenKinds.map((k) => ({ value: k, text: whenNames[k] }))}
        />
        {when === 'at' && (
          <InstantField form={form} path="schedule.at" label={`At, in ${zone}`} zone={zone} />
        )}
        {when === 'cron' && <CronFields form={form} zone={jobZone} />}
        {when === 'every' && (
          <>
            <SpanField
              form={form}
              path="schedule.every"
              label="Every"
              placeholder="15m"
              help={parseSpan(text('schedule.every')) ? everyWords(text('schedule.every')) : 'Such as 90s, 15m or 24h.'}
            />
            <InstantField form={form} path="schedule.anchor" label={`Counted from, in ${zone}`} zone={zone} optional help="Empty: from its creation." />
          </>
        )}
        {when === 'on' && (
          <>
            <TextField label="Event" at="body.on.event" problem={problem} value={text('on.event')} onValue={(v) => set('on.event', v)} placeholder="file.uploaded" />
            <TextField label="Filter" optional mono at="body.on.filter" problem={problem} value={text('on.filter')} onValue={(v) => set('on.filter', v || undefined)} placeholder="event.region == 'eu'" help="An expression of CEL over the body of the event." />
            <SpanField form={form} path="on.delay" label="Later by" placeholder="0s" />
          </>
        )}
        {when === 'after' && (
          <>
            <AreaField
              label="Jobs"
              at="body.after.jobs"
              problem={problem}
              rows={3}
              value={((valueAt(body, 'after.jobs') as string[] | undefined) ?? []).join('\n')}
              onValue={(v) => set('after', { ...(isObject(body.after) ? body.after : {}), jobs: v === '' ? [] : v.split('\n') })}
              help="Names or ids, one a line."
            />
            <SelectField
              label="When"
              at="body.after.when"
              problem={problem}
              value={text('after.when') || 'all_succeeded'}
              onValue={(v) => set('after.when', v)}
              options={[
                { value: 'all_succeeded', text: 'all have succeeded' },
                { value: 'all_done', text: 'all have ended' },
                { value: 'any_succeeded', text: 'one has succeeded' },
                { value: 'any_failed', text: 'one has failed' },
              ]}
            />
            <SpanField form={form} path="after.deadline" label="Stuck after" placeholder="24h" />
          </>
        )}
      </div>
      {(when === 'cron' || when === 'every') && (
        <details open={scheduleFields.some((name) => body[name] !== undefined && !(name === 'jitter' && form.changing))}>
          <summary>Begin, end, number of runs, jitter</summary>
          <div class="fields">
            <InstantField form={form} path="start" label={`No run before, in ${zone}`} zone={zone} optional />
            <InstantField form={form} path="end" label={`No run from then on, in ${zone}`} zone={zone} optional />
            <NumberField form={form} path="max_runs" label="Runs at most" placeholder="" />
            <SpanField
              form={form}
              path="jitter"
              label="Jitter"
              placeholder="by its length"
              help="The window of an offset that the job keeps: it spreads jobs of the same time. 0s: none."
            />
          </div>
        </details>
      )}
    </Panel>
  );
}

const zones = ((): string[] => {
  try {
    return [UTC, ...Intl.supportedValuesOf('timeZone').filter((z) => z !== UTC)];
  } catch {
    return [UTC];
  }
})();

function CronFields({ form, zone }: { form: Form; zone: string }) {
  const { problem, text, set } = form;
  const cron = text('schedule.cron');
  const words = cronWords(cron);
  const hints = cronHints(cron, zone);
  const fields = fieldHints(cron);
  return (
    <>
      <Field
        class="whole"
        label="Cron expression"
        at="body.schedule.cron"
        problem={problem}
        faults={fields.map((f) => f.fault).filter((f): f is string => f !== undefined)}
        help={
          <>
            <span class="cron-fields">
              {fields.map((f, i) => (
                <span key={i} class={f.fault ? 'wrong' : undefined}>
                  <code>{f.text}</code> {f.name}
                </span>
              ))}
            </span>
            {words !== undefined && <strong>{words}</strong>}
            {hints.map((hint) => (
              <span key={hint} class="cron-hint">
                {hint}
              </span>
            ))}
          </>
        }
      >
        {(input) => (
          <input
            {...input}
            class="mono"
            autocomplete="off"
            spellcheck={false}
            value={cron}
            onInput={(e) => set('schedule', { ...(valueAt(form.body, 'schedule') as JsonObject), cron: e.currentTarget.value })}
          />
        )}
      </Field>
      <TextField
        label="Time zone"
        at="body.schedule.timezone"
        problem={problem}
        value={text('schedule.timezone')}
        placeholder={UTC}
        onValue={(v) => set('schedule.timezone', v || undefined)}
        list="zones"
        help={knowsZone(zone) ? `There it is now ${timeText(serverNow(), zone, { now: serverNow(), short: true })}.` : 'A name such as Europe/Berlin.'}
      />
      <datalist id="zones">
        {zones.map((z) => (
          <option key={z} value={z} />
        ))}
      </datalist>
      <SelectField
        label="A time that the clock leaves out"
        at="body.schedule.gap"
        problem={problem}
        value={text('schedule.gap') || 'run'}
        onValue={(v) => set('schedule.gap', v === 'run' && !form.changing ? undefined : v)}
        options={[
          { value: 'run', text: 'runs at the end of the gap' },
          { value: 'skip', text: 'is skipped' },
        ]}
      />
      <SelectField
        label="A time that the clock has twice"
        at="body.schedule.overlap_hour"
        problem={problem}
        value={text('schedule.overlap_hour') || 'first'}
        onValue={(v) => set('schedule.overlap_hour', v === 'first' && !form.changing ? undefined : v)}
        options={[
          { value: 'first', text: 'runs the first time' },
          { value: 'second', text: 'runs the second time' },
          { value: 'both', text: 'runs both times' },
        ]}
      />
    </>
  );
}

function IfLate({ form, repeats }: { form: Form; repeats: boolean }) {
  const { problem, text, set } = form;
  const usual = repeats ? 'run_latest' : 'run_all';
  return (
    <Panel title="If it is late, or too much at once">
      <div class="fields">
        <SelectField
          label="Of late runs"
          at="body.misfire.policy"
          problem={problem}
          value={text('misfire.policy') || usual}
          onValue={(v) => set('misfire.policy', v === usual && !form.changing ? undefined : v)}
          options={[
            { value: 'run_latest', text: 'the latest is made up for' },
            { value: 'run_all', text: 'all are made up for' },
            { value: 'skip', text: 'none: they are missed' },
          ]}
        />
        <SpanField form={form} path="misfire.deadline" label="Missed if later than" placeholder="never" />
        {repeats && (
          <>
            <NumberField form={form} path="concurrency.limit" label="Runs at once, at most" placeholder="any number" />
            {valueAt(form.body, 'concurrency.limit') !== undefined && (
              <SelectField
                label="Further runs"
                at="body.concurrency.on_limit"
                problem={problem}
                value={text('concurrency.on_limit') || 'queue'}
                onValue={(v) => set('concurrency.on_limit', v)}
                options={[
                  { value: 'queue', text: 'wait' },
                  { value: 'skip', text: 'are skipped' },
                  { value: 'cancel_oldest', text: 'have the oldest cancelled' },
                ]}
              />
            )}
          </>
        )}
      </div>
    </Panel>
  );
}

function SpanField(props: { form: Form; path: string; label: string; placeholder: string; help?: string }) {
  const { form, path, label, placeholder, help } = props;
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
      {...(help === undefined ? {} : { help })}
    />
  );
}

function NumberField(props: { form: Form; path: string; label: string; placeholder: string }) {
  const { form, path, label, placeholder } = props;
  return (
    <TextField
      label={label}
      type="number"
      at={`body.${path}`}
      problem={form.problem}
      value={form.text(path)}
      placeholder={placeholder}
      onValue={(v) => {
        // Removing the limit removes what goes with it.
        const parent = path === 'concurrency.limit' && v === '' ? 'concurrency' : path;
        form.set(parent, v === '' ? undefined : Number(v));
      }}
    />
  );
}

function InstantField(props: { form: Form; path: string; label: string; zone: string; optional?: boolean; help?: string }) {
  const { form, path, label, zone, optional = false, help } = props;
  const stated = form.text(path);
  const [typed, setTyped] = useState(() => (stated === '' ? '' : inputText(stated, zone)));
  return (
    <TextField
      label={label}
      type="datetime-local"
      optional={optional}
      at={`body.${path}`}
      problem={form.problem}
      value={typed}
      onValue={(v) => {
        setTyped(v);
        const at = instantOf(v, zone);
        form.set(path, at ? at.toISOString() : optional ? undefined : '');
      }}
      {...(help === undefined ? {} : { help })}
    />
  );
}

function PayloadField({ form }: { form: Form }) {
  const stated = form.body.payload;
  const [text, setText] = useState(() => (stated === undefined ? '' : JSON.stringify(stated, null, 2)));
  const [fault, setFault] = useState<string | undefined>(undefined);
  useEffect(() => () => form.wrong('payload', undefined), []);
  return (
    <AreaField
      class="whole"
      label="Payload, JSON"
      optional
      at="body.payload"
      problem={form.problem}
      faults={fault === undefined ? [] : [fault]}
      value={text}
      rows={5}
      placeholder='{"to": "a@example.com"}'
      onValue={(value) => {
        setText(value);
        if (value.trim() === '') {
          setFault(undefined);
          form.wrong('payload', undefined);
          form.set('payload', undefined);
          return;
        }
        try {
          form.set('payload', JSON.parse(value) as Json);
          setFault(undefined);
          form.wrong('payload', undefined);
        } catch (thrown) {
          const said = `the payload is no JSON (${thrown instanceof Error ? thrown.message : String(thrown)})`;
          setFault(said);
          form.wrong('payload', said);
        }
      }}
    />
  );
}

function PairsField(props: { form: Form; path: string; mark: ':' | '='; label: string; help: string }) {
  const { form, path, mark, label, help } = props;
  const [text, setText] = useState(() => writePairs(valueAt(form.body, path), mark === ':' ? ': ' : '='));
  const [faults, setFaults] = useState<readonly string[]>([]);
  useEffect(() => () => form.wrong(path, undefined), []);
  return (
    <AreaField
      class="whole"
      label={label}
      optional
      at={`body.${path}`}
      problem={form.problem}
      faults={faults}
      rows={3}
      value={text}
      help={help}
      onValue={(value) => {
        setText(value);
        const read = readPairs(value, mark);
        setFaults(read.faults);
        form.wrong(path, read.faults.length === 0 ? undefined : `${label.toLowerCase()}: ${read.faults.join(', ')}`);
        form.set(path, Object.keys(read.pairs).length === 0 ? undefined : read.pairs);
      }}
    />
  );
}

/** How long a person may pause while typing, in ms. */
const typingPause = 250;

function SchedulePreview({ body }: { body: JsonObject }) {
  const asked = useMemo(() => {
    const when = whenOf(body);
    if ((when !== 'cron' && when !== 'every') || !isObject(body.schedule)) {
      return undefined;
    }
    const { cron, timezone, gap, overlap_hour, every, anchor } = body.schedule;
    const schedule = when === 'cron' ? { cron, timezone, gap, overlap_hour } : { every, anchor };
    return JSON.stringify({ schedule, count: 10, ...(body.jitter === undefined ? {} : { jitter: body.jitter }) });
  }, [body]);
  const [settled, setSettled] = useState(asked);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(asked), typingPause);
    return () => clearTimeout(timer);
  }, [asked]);
  const live = useLive<Preview>(
    settled === undefined ? null : `preview ${settled}`,
    (signal) => ask('/v1/schedules/preview', { method: 'POST', body: JSON.parse(settled ?? '{}') as unknown, signal }),
    { every: 0 },
  );
  // What was shown stays until the next answer: it would jump otherwise.
  const last = useRef<Preview | undefined>(undefined);
  if (live.data) {
    last.current = live.data;
  }
  const own = (isObject(body.schedule) && typeof body.schedule.timezone === 'string' && body.schedule.timezone) || UTC;
  const cron = isObject(body.schedule) && body.schedule.cron !== undefined;
  return (
    <aside class="preview" aria-label="When it will run">
      <Panel title="When it will run">
        {settled === undefined ? (
          <p class="muted">
            {{ now: 'As soon as it is created.', at: 'Once, at its instant.', on: 'When its event comes.', after: 'When the jobs have ended.', cron: '', every: '' }[whenOf(body)]}
          </p>
        ) : live.problem && !live.problem.passing ? (
          <PreviewFaults problem={live.problem} />
        ) : last.current ? (
          <PreviewTimes preview={last.current} own={cron && knowsZone(own) ? own : undefined} />
        ) : (
          <p class="muted">{live.problem ? live.problem.sentence : 'Asking for its next times.'}</p>
        )}
      </Panel>
    </aside>
  );
}

function PreviewFaults({ problem }: { problem: Problem }) {
  return (
    <div role="status" class="stack">
      <p>There is no time yet:</p>
      <ul class="faults">
        {problem.faults.length === 0 && <li>{problem.sentence}</li>}
        {problem.faults.map((f) => (
          <li key={f.location + f.message}>
            <strong>{f.location.replace(/^body\.(schedule\.)?/, '')}</strong> {f.message}
          </li>
        ))}
      </ul>
    </div>
  );
}

function PreviewTimes({ preview, own }: { preview: Preview; own: string | undefined }) {
  const viewer = viewerZone.value;
  const times = preview.times ?? [];
  const last = times.at(-1);
  const both = own !== undefined && own !== viewer;
  const changes = last
    ? [...new Set([own ?? viewer, viewer])].flatMap((zone) =>
        clockChanges(serverNow(), Date.parse(last) + 1000, zone).map((c) => clockChangeText(c, zone)),
      )
    : [];
  return (
    <>
      <p role="status">
        <strong>{preview.description}</strong>
      </p>
      <table class="preview-times">
        <caption class="hidden">Its next times</caption>
        <thead>
          <tr>
            <th scope="col">in {own ?? viewer}</th>
            {both && <th scope="col">in {viewer}</th>}
          </tr>
        </thead>
        <tbody>
          {times.map((at) => (
            <tr key={at}>
              <td>{timeText(at, own ?? viewer, { now: serverNow(), weekday: true, short: true })}</td>
              {both && <td>{timeText(at, viewer, { now: serverNow(), weekday: true, short: true })}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      <Notes notes={[...(preview.notes ?? []), ...changes]} />
    </>
  );
}

