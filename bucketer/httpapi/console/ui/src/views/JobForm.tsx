// Creates a job, or changes one. The body of the request is what is edited, by fields or as JSON: what
// the fields do not know stays in it. When it runs is shown while it is typed; what the API finds wrong
// stands at its field; what somebody else changed meanwhile is brought together with this.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answerWithHeaders, api, ask, newKey } from '../api/client';
import { useLive } from '../api/live';
import type { Problem } from '../api/problem';
import { may } from '../api/session';
import type { Job, JobRequest } from '../api/types';
import { useDraft, useKeepDraft } from '../draft';
import { nameOfJob, requestOf, whenOf } from '../jobs';
import { holdsNull, patchOf, type Json, type JsonObject } from '../merge';
import { BodyAsJson, FormEnd, useBodyForm } from '../parts/BodyForm';
import { confirm, type Question } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Icon } from '../parts/Icon';
import { MergeDialog } from '../parts/MergeDialog';
import { Answered } from '../parts/Panel';
import { Refusal } from '../parts/Refusal';
import { Tabs } from '../parts/Tabs';
import { say } from '../parts/Toasts';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href, queryValue } from '../router';
import type { ViewParams } from '../routes';
import { localZone } from '../time';
import { Fields, repeats } from './JobFields';
import { SchedulePreview } from './JobPreview';

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
    const nameless = repeats(whenOf(body)) && !body.name;
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

const namelessQuestion: Question = {
  title: 'Create the job without a name?',
  children: <p>It cannot be given one later: lists, revisions and commands call it by its id.</p>,
  action: 'Create it without a name',
};
