// The fields of a job: what runs, when, under which name, and what becomes of it if it is late.

import { useRef } from 'preact/hooks';
import { ask } from '../api/client';
import { slow, useLive } from '../api/live';
import type { PageLike } from '../api/pages';
import type { Task } from '../api/types';
import { serverNow } from '../clock';
import { cronHints, cronWords, fieldHints } from '../cron';
import {
  limitFields,
  repeatedFields,
  scheduleFields,
  whenKinds,
  whenOf,
  workKinds,
  workOf,
  type WhenKind,
  type WorkKind,
} from '../jobs';
import { valueAt, withValue, type Json, type JsonObject } from '../merge';
import {
  BodyChoice,
  BodyInstant,
  BodyJson,
  BodyLines,
  BodyNumber,
  BodyPairs,
  BodySpan,
  BodyText,
  LimitFields,
  workBegins,
  WorkFields,
  type BodyForm,
} from '../parts/BodyForm';
import { Field, SelectField } from '../parts/Field';
import { Panel } from '../parts/Panel';
import { viewerZone } from '../preferences';
import { knowsZone, localZone, parseSpan, timeText, UTC } from '../time';
import { everyWords } from '../words';

/** Whether a job that runs so can have many runs. */
export function repeats(when: WhenKind): boolean {
  return when !== 'now' && when !== 'at';
}

export function Fields({ form, changing }: { form: BodyForm; changing: boolean }) {
  const when = whenOf(form.body);
  const repeated = repeats(when);
  return (
    <>
      <WhatRuns form={form} />
      <WhenItRuns form={form} when={when} />
      <Panel title="Name, payload, labels">
        <div class="fields">
          {repeated && (
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
      <IfLate form={form} repeats={repeated} />
    </>
  );
}

const workNames: Record<WorkKind, string> = {
  task: 'Run a task',
  http: 'Call a URL',
  nats: 'Ask a NATS subject',
  script: 'Run a script',
  lambda: 'Invoke a Lambda function',
  jetstream: 'Send a message to JetStream',
  kafka: 'Send a record to Kafka',
  sqs: 'Send a message to SQS',
  sns: 'Send a message to SNS',
  eventbridge: 'Send an event to EventBridge',
  step_functions: 'Start a Step Functions execution',
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
        {repeats && valueAt(form.body, 'concurrency.limit') !== undefined && (
          <BodyText
            form={form}
            path="concurrency.key"
            label="For each value at"
            optional
            mono
            placeholder="/customer/id"
            help="A JSON pointer into the payload: the limit holds for each value there. Empty: for all runs together."
          />
        )}
      </div>
    </Panel>
  );
}
