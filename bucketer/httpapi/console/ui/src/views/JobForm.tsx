// Creates a job, or changes one. The body of the request is what is edited, by fields or as JSON: what
// the fields do not know stays in it. When it runs is shown while it is typed; what the API finds wrong
// stands at its field; what somebody else changed meanwhile is brought together with this.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answerWithHeaders, api, ask, newKey } from '../api/client';
import { slow, useLive } from '../api/live';
import type { PageLike } from '../api/pages';
import type { Problem } from '../api/problem';
import { may } from '../api/session';
import type { Job, JobRequest, Preview, Task } from '../api/types';
import { serverNow } from '../clock';
import { cronHints, cronWords, fieldHints, fieldsOf } from '../cron';
import { useDraft, useKeepDraft } from '../draft';
import {
  limitFields,
  nameOfJob,
  previewOf,
  repeatedFields,
  requestOf,
  scheduleFields,
  whenKinds,
  whenOf,
  workKinds,
  workOf,
  type WhenKind,
  type WorkKind,
} from '../jobs';
import { holdsNull, isObject, patchOf, valueAt, withValue, type Json, type JsonObject } from '../merge';
import {
  BodyAsJson,
  BodyChoice,
  BodyInstant,
  BodyJson,
  BodyLines,
  BodyNumber,
  BodyPairs,
  BodySpan,
  BodyText,
  FormEnd,
  LimitFields,
  useBodyForm,
  workBegins,
  WorkFields,
  type BodyForm,
} from '../parts/BodyForm';
import { confirm, type Question } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Field, SelectField } from '../parts/Field';
import { Icon } from '../parts/Icon';
import { MergeDialog } from '../parts/MergeDialog';
import { Notes } from '../parts/Notes';
import { Answered, Panel } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { Tabs } from '../parts/Tabs';
import { say } from '../parts/Toasts';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { viewerZone } from '../preferences';
import { go, href, queryValue } from '../router';
import type { ViewParams } from '../routes';
import { clockNotes, knowsZone, localZone, parseSpan, timeText, UTC } from '../time';
import { everyWords } from '../words';

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

interface Draft {
  body: JsonObject;
  base: JsonObject;
  etag: string;
}

function Editor({ first, loaded }: { first: JsonObject; loaded?: Loaded }) {
  const draft = useDraft<Draft>();
  const [base, setBase] = useState(draft?.base ?? first);
  const [etag, setEtag] = useState(draft?.etag ?? loaded?.etag ?? '');
  const [key, setKey] = useState(newKey);
  const [theirs, setTheirs] = useState<Loaded | undefined>(undefined);
  const action = useAction();
  const form = useBodyForm(draft?.body ?? first, action.problem, { explicit: loaded !== undefined, saved: base });
  const { body } = form;
  useKeepDraft<Draft>(body === base ? undefined : { body, base, etag });

  const create = async (): Promise<void> => {
    const nameless = canRepeat(whenOf(body)) && !body.name;
    if (nameless && !(await confirm(namelessQuestion))) {
      return;
    }
    const made = await action.run(async () => {
      const { data } = await answerWithHeaders(
        api.POST('/v1/jobs', { params: { header: { 'Idempotency-Key': key } }, body: body as unknown as JobRequest }),
      );
      return data;
    });
    if (made) {
      setKey(newKey());
      form.saved();
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
      form.saved();
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
        if (form.wrongs.length === 0) {
          void (loaded ? change(body, base, etag) : create());
        }
      }}
    >
      {action.problem?.status !== 412 && (
        <Refusal
          problem={action.problem}
          what={loaded ? 'The job was not changed' : 'The job was not created'}
          form
          focus
        />
      )}
      <div class="form-columns">
        <div class="stack">
          <Tabs
            label="How it is edited"
            name="edit"
            tabs={[
              {
                id: 'fields',
                title: 'By fields',
                content: () => <Fields form={form} changing={loaded !== undefined} />,
              },
              { id: 'json', title: 'As JSON', content: () => <BodyAsJson form={form} /> },
            ]}
          />
        </div>
        <SchedulePreview body={body} />
      </div>
      <FormEnd form={form}>
        <a class="button" href={href(loaded ? pathTo('/jobs/:id', { id: nameOfJob(loaded.job) }) : '/jobs')}>
          Leave it
        </a>
        {!loaded && <CopyCurl method="POST" path="/v1/jobs" body={body} />}
        <button type="submit" class="button primary" disabled={action.busy || form.wrongs.length > 0}>
          {loaded ? 'Change the job' : 'Create the job'}
        </button>
      </FormEnd>
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
            form.replace(merged);
            void change(merged, now, theirs.etag);
          }}
        />
      )}
    </form>
  );
}

function canRepeat(when: WhenKind): boolean {
  return when !== 'now' && when !== 'at';
}

const namelessQuestion: Question = {
  title: 'Create the job without a name?',
  children: <p>It cannot be given one later: lists, revisions and commands call it by its id.</p>,
  action: 'Create it without a name',
};

function Fields({ form, changing }: { form: BodyForm; changing: boolean }) {
  const when = whenOf(form.body);
  const repeats = canRepeat(when);
  return (
    <>
      <WhatRuns form={form} />
      <WhenItRuns form={form} when={when} />
      <Panel title="Name, payload, labels">
        <div class="fields">
          {repeats && (
            <BodyText
              form={form}
              path="name"
              label="Name"
              optional
              disabled={changing}
              help={changing ? 'A name cannot be changed.' : 'It cannot be given or changed later. Unique in the tenant: a–z, 0–9, “.”, “_” and “-”.'}
            />
          )}
          <BodyChoice
            form={form}
            path="priority"
            label="Priority"
            usual="normal"
            options={[['critical'], ['high'], ['normal'], ['low']]}
          />
          <BodyJson form={form} path="payload" label="Payload, JSON" placeholder='{"to": "a@example.com"}' />
          <BodyPairs
            form={form}
            path="labels"
            mark="="
            label="Labels"
            help="One a line: name=value. Lists and operations select by them."
          />
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

function WhatRuns({ form }: { form: BodyForm }) {
  const { body } = form;
  const kind = workOf(body);
  const left = useRef<Partial<Record<string, Json>>>({});
  const tasks = useLive<PageLike<Task>>('task names', (signal) => ask('/v1/tasks', { query: { limit: 200 }, signal }), {
    every: slow,
  });
  const choose = (next: WorkKind): void => {
    let changed = body;
    for (const name of [...workKinds, ...(next === 'task' ? limitFields : [])]) {
      if (changed[name] !== undefined) {
        left.current[name] = changed[name];
        changed = withValue(changed, name, undefined);
      }
    }
    form.replace({ ...changed, [next]: left.current[next] ?? (next === 'task' ? '' : workBegins[next]) });
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
        {kind === 'task' ? (
          <>
            <BodyText
              form={form}
              path="task"
              label="Task"
              list="task-names"
              help="Time-out, retries and rate stand with the task."
            />
            <datalist id="task-names">
              {(tasks.data?.items ?? []).map((t) => (
                <option key={t.name} value={t.name} />
              ))}
            </datalist>
          </>
        ) : (
          <WorkFields key={kind} form={form} kind={kind} />
        )}
      </div>
      {kind !== 'task' && (
        <details>
          <summary>Time-out, retries, guarantee</summary>
          <LimitFields form={form} />
        </details>
      )}
    </Panel>
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

function WhenItRuns({ form, when }: { form: BodyForm; when: WhenKind }) {
  const { body, text } = form;
  const left = useRef<Partial<Record<WhenKind, JsonObject>>>({});
  const zone = viewerZone.value;
  const choose = (next: WhenKind): void => {
    const kept: JsonObject = {};
    const changed: JsonObject = {};
    const goes: readonly string[] =
      next === 'now' || next === 'at' ? repeatedFields : next === 'on' || next === 'after' ? scheduleFields : [];
    for (const [name, value] of Object.entries(body)) {
      const of = name === 'schedule' || name === 'on' || name === 'after' || goes.includes(name);
      (of ? kept : changed)[name] = value;
    }
    left.current[when] = kept;
    form.replace({ ...changed, ...(left.current[next] ?? whenBegins[next]) });
  };
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
        {when === 'at' && <BodyInstant form={form} path="schedule.at" label="At" zone={zone} />}
        {when === 'cron' && <CronFields form={form} zone={text('schedule.timezone') || UTC} />}
        {when === 'every' && (
          <>
            <BodySpan
              form={form}
              path="schedule.every"
              label="Every"
              placeholder="15m"
              help={parseSpan(text('schedule.every')) ? everyWords(text('schedule.every')) : 'Such as 90s, 15m or 24h.'}
            />
            <BodyInstant
              form={form}
              path="schedule.anchor"
              label="Counted from"
              zone={zone}
              optional
              help="Empty: from its creation."
            />
          </>
        )}
        {when === 'on' && (
          <>
            <BodyText form={form} path="on.event" label="Event" placeholder="file.uploaded" />
            <BodyText
              form={form}
              path="on.filter"
              label="Filter"
              optional
              mono
              placeholder="event.region == 'eu'"
              help="An expression of CEL over the body of the event."
            />
            <BodySpan form={form} path="on.delay" label="Later by" placeholder="0s" />
          </>
        )}
        {when === 'after' && (
          <>
            <BodyLines form={form} path="after.jobs" label="Jobs" help="Names or ids, one a line." />
            <BodyChoice
              form={form}
              path="after.when"
              label="When"
              usual="all_succeeded"
              options={[
                ['all_succeeded', 'all have succeeded'],
                ['all_done', 'all have ended'],
                ['any_succeeded', 'one has succeeded'],
                ['any_failed', 'one has failed'],
              ]}
            />
            <BodySpan form={form} path="after.deadline" label="Stuck after" placeholder="24h" />
          </>
        )}
      </div>
      {(when === 'cron' || when === 'every') && (
        <details
          open={scheduleFields.some((name) => body[name] !== undefined && !(name === 'jitter' && form.explicit))}
        >
          <summary>Begin, end, number of runs, jitter</summary>
          <div class="fields">
            <BodyInstant form={form} path="start" label="No run before" zone={zone} optional />
            <BodyInstant form={form} path="end" label="No run from then on" zone={zone} optional />
            <BodyNumber form={form} path="max_runs" label="Runs at most" />
            <BodySpan
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

function CronFields({ form, zone }: { form: BodyForm; zone: string }) {
  const cron = form.text('schedule.cron');
  const words = cronWords(cron);
  const fields = fieldHints(cron);
  return (
    <>
      <Field
        class="whole"
        label="Cron expression"
        at="body.schedule.cron"
        problem={form.problem}
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
            {cronHints(cron, zone).map((hint) => (
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
            onInput={(e) =>
              form.set('schedule', { ...(valueAt(form.body, 'schedule') as JsonObject), cron: e.currentTarget.value })
            }
          />
        )}
      </Field>
      <BodyText
        form={form}
        path="schedule.timezone"
        label="Time zone"
        optional
        placeholder={UTC}
        list="zones"
        help={
          knowsZone(zone)
            ? `There it is now ${timeText(serverNow(), zone, { now: serverNow(), short: true })}.`
            : 'A name such as Europe/Berlin.'
        }
      />
      <datalist id="zones">
        {zones.map((z) => (
          <option key={z} value={z} />
        ))}
      </datalist>
      <BodyChoice
        form={form}
        path="schedule.gap"
        label="A time that the clock leaves out"
        usual="run"
        options={[
          ['run', 'runs at the end of the gap'],
          ['skip', 'is skipped'],
        ]}
      />
      <BodyChoice
        form={form}
        path="schedule.overlap_hour"
        label="A time that the clock has twice"
        usual="first"
        options={[
          ['first', 'runs the first time'],
          ['second', 'runs the second time'],
          ['both', 'runs both times'],
        ]}
      />
    </>
  );
}

function IfLate({ form, repeats }: { form: BodyForm; repeats: boolean }) {
  return (
    <Panel title="If it is late, or too much at once">
      <div class="fields">
        <BodyChoice
          form={form}
          path="misfire.policy"
          label="Of late runs"
          usual={repeats ? 'run_latest' : 'run_all'}
          options={[
            ['run_latest', 'the latest is made up for'],
            ['run_all', 'all are made up for'],
            ['skip', 'none: they are missed'],
          ]}
        />
        <BodySpan form={form} path="misfire.deadline" label="Missed if later than" placeholder="never" />
        {repeats && (
          <BodyNumber
            form={form}
            path="concurrency.limit"
            label="Runs at once, at most"
            placeholder="any number"
            goes="concurrency"
          />
        )}
        {repeats && valueAt(form.body, 'concurrency.limit') !== undefined && (
          <BodyChoice
            form={form}
            path="concurrency.on_limit"
            label="Further runs"
            usual="queue"
            options={[
              ['queue', 'wait'],
              ['skip', 'are skipped'],
              ['cancel_oldest', 'have the oldest cancelled'],
            ]}
          />
        )}
      </div>
    </Panel>
  );
}

/** How long a person may pause while typing, in ms. */
const typingPause = 250;

/** Whether an expression is one that need not be sent: a person is still typing. */
function isUnfinished(cron: string): boolean {
  return fieldsOf(cron) === undefined || fieldHints(cron).some((f) => f.fault !== undefined);
}

function SchedulePreview({ body }: { body: JsonObject }) {
  const asked = useMemo(() => {
    const preview = previewOf(body);
    if (!preview) {
      return undefined;
    }
    const { cron, every } = preview.schedule;
    if (cron === undefined ? parseSpan(String(every)) === undefined : isUnfinished(String(cron))) {
      return null;
    }
    return JSON.stringify({ ...preview, count: 10 });
  }, [body]);
  const [settled, setSettled] = useState(asked);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(asked), typingPause);
    return () => clearTimeout(timer);
  }, [asked]);
  const live = useLive<Preview>(
    typeof settled === 'string' ? `preview ${settled}` : null,
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
            {
              {
                now: 'As soon as it is created.',
                at: 'Once, at its instant.',
                on: 'When its event comes.',
                after: 'When the jobs have ended.',
                cron: '',
                every: '',
              }[whenOf(body)]
            }
          </p>
        ) : settled === null ? (
          <p class="muted">Its times are shown here once the expression is whole.</p>
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
  const changes = last ? clockNotes(serverNow(), Date.parse(last) + 1000, [own ?? viewer, viewer]) : [];
  return (
    <>
      <p role="status">
        <strong>{preview.description}</strong>
      </p>
      <Notes notes={[...(preview.notes ?? []), ...changes]} />
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
    </>
  );
}
