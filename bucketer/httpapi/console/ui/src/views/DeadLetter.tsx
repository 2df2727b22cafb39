// One run that has failed for good: what it was to do, how each attempt ended, and whether it is to be
// tried again.

import { useAction } from '../api/action';
import { answer, api } from '../api/client';
import { slow, useLive } from '../api/live';
import { may } from '../api/session';
import type { Attempt, DeadLetter as Letter } from '../api/types';
import { isOfWorkflow } from '../letters';
import { confirm } from '../parts/Confirm';
import { CopyCurl, Id } from '../parts/CopyCurl';
import { Facts } from '../parts/Facts';
import { Icon } from '../parts/Icon';
import { JsonView, TextView } from '../parts/JsonView';
import { Note } from '../parts/Note';
import { Answered, Panel } from '../parts/Panel';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { spanText } from '../time';
import { count } from '../words';

export function DeadLetter({ params }: ViewParams) {
  const id = params.id ?? '';
  const live = useLive(
    `dead letter ${id}`,
    (signal) => answer(api.GET('/v1/dead-letters/{id}', { params: { path: { id } }, signal })),
    { every: slow },
  );
  const letter = live.data;
  return (
    <View
      title={letter ? `Dead letter of ${letter.job_name || letter.task || 'a one-off job'}` : 'Dead letter'}
      badge={letter && <StateBadge state={letter.state} />}
      above={[['Dead letters', '/dead-letters']]}
      about={<Id text={id} />}
      actions={
        <>
          {letter && <Actions letter={letter} />}
          <CopyCurl path={`/v1/dead-letters/${id}`} />
        </>
      }
    >
      {live.problem?.status === 404 && !letter ? (
        <Panel title="There is no such dead letter">
          <p>
            It was discarded, has left, or never was. Its run may still be there:{' '}
            <a href={href(`/runs/${id}`)}>look for the run</a>.
          </p>
        </Panel>
      ) : (
        <Answered live={live} what="this dead letter">
          {(l) => <Shown letter={l} />}
        </Answered>
      )}
    </View>
  );
}

function Actions({ letter }: { letter: Letter }) {
  const action = useAction({ loud: true });
  if (!may('operator')) {
    return null;
  }
  const path = { path: { id: letter.id } };
  const replay = async (): Promise<void> => {
    const run = await action.run(() => answer(api.POST('/v1/dead-letters/{id}/replay', { params: path })), 'It runs again, as this new run.');
    if (run) {
      go(`/runs/${run.id}`);
    }
  };
  const discard = async (): Promise<void> => {
    const yes = await confirm({
      title: 'Discard this dead letter?',
      children: <p>It is let go, with its payload. That cannot be taken back.</p>,
      action: 'Discard it',
      danger: true,
    });
    if (!yes) {
      return;
    }
    const done = await action.run(async () => {
      await answer(api.DELETE('/v1/dead-letters/{id}', { params: path }));
      return true;
    }, 'It is discarded.');
    if (done) {
      go('/dead-letters');
    }
  };
  return (
    <>
      {letter.state === 'waiting' && !letter.fault && (
        <button type="button" class="button primary" disabled={action.busy} onClick={() => void replay()}>
          <Icon name="again" /> Replay
        </button>
      )}
      {letter.state === 'waiting' && (
        <button type="button" class="button danger" disabled={action.busy} onClick={() => void discard()}>
          Discard
        </button>
      )}
    </>
  );
}

function Shown({ letter }: { letter: Letter }) {
  const attempts = letter.attempts ?? [];
  // No executor runs a workflow run: its attempt stands for all that its steps did.
  const ofWorkflow =
    isOfWorkflow(letter) || (!letter.task && letter.job_name && attempts.length > 0 && attempts.every((a) => !a.executor));
  const name = letter.job_name || letter.job_id;
  return (
    <>
      {letter.fault && (
        <Note tone="bad" alert>
          What is stored of it is not understood: it cannot be replayed, but discarded. {letter.fault}
        </Note>
      )}
      {letter.replay && (
        <Note icon="again">
          {letter.replayed_by ?? 'Somebody'} had it run again <TimeLabel at={letter.replayed_at} relative />:{' '}
          <a href={href(ofWorkflow ? `/workflow-runs/${letter.replay}` : `/runs/${letter.replay}`)}>its new run</a>{' '}
          {letter.replay_state ? <StateBadge state={letter.replay_state} /> : 'has left.'}
        </Note>
      )}
      <Panel title="How it ended">
        <p class="toned tone-bad">
          {letter.outcome.replace('_', ' ')}
          {letter.status_code ? `, answered ${letter.status_code}` : ''}
        </p>
        {letter.error && <TextView label="Error" text={letter.error} />}
        {letter.output && (
          <>
            <h3>The begin of its output</h3>
            <TextView label="Output" text={letter.output} />
          </>
        )}
      </Panel>
      <div class="columns">
        <Panel title="Facts">
          <Facts
            facts={[
              ['Task', letter.task && <a href={href(pathTo('/tasks/:name', { name: letter.task }))}>{letter.task}</a>],
              ofWorkflow
                ? ['Workflow', <a key="job" href={href(pathTo('/workflows/:name', { name }))}>{name}</a>]
                : ['Job', <a key="job" href={href(pathTo('/jobs/:id', { id: name }))}>{name}</a>],
              ['Due', <TimeLabel key="due" at={letter.due_at} millis relative />],
              ['First start', <TimeLabel key="start" at={letter.started_at} millis />],
              ['Failed', <TimeLabel key="failed" at={letter.failed_at} millis relative />],
              ['Attempts', count(letter.attempt_count, 'attempt')],
              ['Leaves by itself', <TimeLabel key="leaves" at={letter.expires_at} relative />],
              ['Repeats', letter.origin && <a href={href(`/runs/${letter.origin}`)}>{letter.origin}</a>],
              ['Priority', letter.priority],
              ['Run', <a key="run" href={href(`/runs/${letter.id}`)}>its run, if that is still there</a>],
            ]}
          />
        </Panel>
        <Panel title="Payload">
          {letter.payload === undefined ? <p class="muted">It has none.</p> : <JsonView label="Payload" value={letter.payload} />}
        </Panel>
      </div>
      <Panel title={count(attempts.length, 'attempt')}>
        <Table caption="Attempts" columns={columns} rows={attempts} rowKey={(a) => `${a.number} ${a.started_at ?? ''} ${a.executor ?? ''}`} empty={<p class="muted">Nothing is known of them.</p>} />
      </Panel>
    </>
  );
}

const columns: Column<Attempt>[] = [
  { head: 'Attempt', kind: 'main', cell: (a) => `Attempt ${a.number}` },
  { head: 'Ended', cell: (a) => <StateBadge state={a.outcome ?? 'running'} /> },
  { head: 'Started', cell: (a) => <TimeLabel at={a.started_at} millis /> },
  {
    head: 'Took',
    kind: 'number',
    cell: (a) => (a.started_at && a.finished_at ? spanText(Date.parse(a.finished_at) - Date.parse(a.started_at)) : <span class="muted">–</span>),
  },
  { head: 'Status', kind: 'number', cell: (a) => a.status_code ?? <span class="muted">–</span> },
  { head: 'Executor', minor: true, cell: (a) => a.executor ?? '' },
  { head: 'Error', cell: (a) => a.error && <bdi class="said">{a.error}</bdi> },
];
