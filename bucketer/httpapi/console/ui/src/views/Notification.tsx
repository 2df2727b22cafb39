// One rule for notifications: how it stands, its messages, and what it says.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api, ask } from '../api/client';
import { steady, useLive } from '../api/live';
import { gather, type PageLike } from '../api/pages';
import { may } from '../api/session';
import type { Notification, NotificationRequest, Run } from '../api/types';
import { serverNow } from '../clock';
import { Changes } from '../parts/Changes';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Facts } from '../parts/Facts';
import { SelectField } from '../parts/Field';
import { FormDialog } from '../parts/FormDialog';
import { JsonView } from '../parts/JsonView';
import { Note } from '../parts/Note';
import { Answered, Panel } from '../parts/Panel';
import { Said } from '../parts/RunCells';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { kinds, matchWords, mutedFor, mutedUntil, notTaken, requestOf, sinkWords, standing, unmuted, type MuteInterval } from '../notifications';
import { pathTo } from '../place';
import { go, href } from '../router';
import type { ViewParams } from '../routes';
import { durationText } from '../time';
import { count } from '../words';

/** How many messages are shown, and how far back they are looked for: as far as one list of runs goes. */
const shown = 50;
const lookedBack = 24 * 3_600_000;

export function NotificationView({ params }: ViewParams) {
  const name = params.name ?? '';
  const live = useLive(
    `notification ${name}`,
    (signal) => answer(api.GET('/v1/notifications/{name}', { params: { path: { name } }, signal })),
    { every: steady },
  );
  const rule = live.data;
  const stands = rule && standing(rule);
  return (
    <View
      title={name}
      badge={stands && <StateBadge state={stands.state} words={stands.words} />}
      above={[['Notifications', '/notifications']]}
      about={rule?.description && <bdi>{rule.description}</bdi>}
      actions={
        <>
          {rule && may('operator') && <Actions rule={rule} />}
          <CopyCurl path={pathTo('/v1/notifications/:name', { name })} />
        </>
      }
    >
      <Answered live={live} what="this rule">
        {(n) => (
          <>
            {n.fault && (
              <Note tone="bad" alert>
                What is stored of it is not understood, and nothing is told by it until it is put again: {n.fault}
              </Note>
            )}
            {notTaken(n).length > 0 && (
              <Note tone="bad">
                The last message was not taken, after all attempts, by {notTaken(n).join(', ')}. Its run says why.
              </Note>
            )}
            <Tabs
              label="Of the rule"
              tabs={[
                { id: 'now', title: 'Messages', content: () => <Messages rule={n} /> },
                { id: 'rule', title: 'What it says', content: () => <WhatItSays rule={n} /> },
                { id: 'changes', title: 'Revisions', content: () => <Changes object={`notification/${n.name}`} /> },
                { id: 'definition', title: 'Definition', content: () => <JsonView label="Rule" value={n} /> },
              ]}
            />
          </>
        )}
      </Answered>
    </View>
  );
}

function Actions({ rule }: { rule: Notification }) {
  const { name } = rule;
  const action = useAction({ loud: true });
  const [muting, setMuting] = useState(false);
  const intervals = (rule.mute_time_intervals ?? []) as MuteInterval[];
  const until = mutedUntil(intervals, serverNow());
  const test = (): Promise<unknown> =>
    action.run(
      () => answer(api.POST('/v1/notifications/{name}/test', { params: { path: { name } } })),
      (tested) => `${count(tested.runs.length, 'test message')} on the way: see below whether they are taken.`,
    );
  const unmute = (): Promise<unknown> => action.run(() => putMute(rule, unmuted(intervals)), `${name} tells again.`);
  const remove = async (): Promise<void> => {
    const yes = await confirm({
      title: `Delete the rule ${name}?`,
      children: <p>Within seconds nothing is told by it. What was sent stays among the runs.</p>,
      action: 'Delete the rule',
      danger: true,
      typed: name,
    });
    if (!yes) {
      return;
    }
    const done = await action.run(async () => {
      await answer(api.DELETE('/v1/notifications/{name}', { params: { path: { name } } }));
      return true;
    }, `The rule ${name} is deleted.`);
    if (done) {
      go('/notifications');
    }
  };
  return (
    <>
      <button type="button" class="button primary" disabled={action.busy || !!rule.fault} onClick={() => void test()}>
        Send a test
      </button>
      {until === undefined ? (
        <button type="button" class="button" disabled={action.busy || !!rule.fault} onClick={() => setMuting(true)}>
          Mute
        </button>
      ) : (
        <button type="button" class="button" disabled={action.busy} onClick={() => void unmute()}>
          Unmute
        </button>
      )}
      <a class="button" href={href(pathTo('/notifications/:name/edit', { name }))}>
        Edit
      </a>
      <button type="button" class="button danger" disabled={action.busy} onClick={() => void remove()}>
        Delete
      </button>
      {muting && <MuteDialog rule={rule} onClose={() => setMuting(false)} />}
    </>
  );
}

function putMute(rule: Notification, intervals: readonly MuteInterval[]): Promise<Notification> {
  const body = { ...requestOf(rule), mute_time_intervals: intervals };
  return answer(
    api.PUT('/v1/notifications/{name}', { params: { path: { name: rule.name } }, body: body as unknown as NotificationRequest }),
  );
}

const spans = [
  { value: '1', text: 'an hour' },
  { value: '4', text: '4 hours' },
  { value: '24', text: 'a day' },
  { value: '168', text: 'a week' },
];

function MuteDialog({ rule, onClose }: { rule: Notification; onClose: () => void }) {
  const [hours, setHours] = useState('1');
  const action = useAction();
  const mute = async (): Promise<void> => {
    const intervals = mutedFor((rule.mute_time_intervals ?? []) as MuteInterval[], serverNow(), Number(hours) * 3_600_000);
    if (await action.run(() => putMute(rule, intervals), `${rule.name} is muted.`)) {
      onClose();
    }
  };
  return (
    <FormDialog title={`Mute ${rule.name}`} action={action} what="The rule was not muted" send="Mute it" onSend={mute} onClose={onClose}>
      <SelectField label="For" value={hours} onValue={setHours} options={spans} at="body.mute_time_intervals" problem={action.problem} />
      <p class="muted">What happens meanwhile is counted, and told when it is over.</p>
    </FormDialog>
  );
}

const columns: Column<Run>[] = [
  { head: 'Sent', kind: 'main', cell: (run) => <TimeLabel at={run.due_at} /> },
  { head: 'To', cell: (run) => run.labels?.sink ?? '' },
  { head: 'State', cell: (run) => <StateBadge state={run.state} /> },
  { head: 'What is known', cell: (run) => <Said run={run} /> },
];

function Messages({ rule }: { rule: Notification }) {
  const label = `notification=${rule.name}`;
  const live = useLive(
    `messages of ${rule.name}`,
    async (signal) => {
      const to = serverNow() + 60_000;
      const query = { label, from: new Date(to - lookedBack).toISOString(), to: new Date(to).toISOString(), limit: 500 };
      const page = await gather((cursor) => ask<PageLike<Run>>('/v1/runs', { query: { ...query, cursor }, signal }), '', 500, 8);
      return { items: page.items.toReversed().slice(0, shown), more: page.next_cursor !== undefined };
    },
    { every: steady },
  );
  return (
    <Panel title="Messages of a day" live={live} every={steady} about="Each is a run, at low priority. The latest are first.">
      <Answered live={live} what="the messages">
        {({ items, more }) => (
          <>
            <Table
              caption={`Messages of ${rule.name}`}
              columns={columns}
              rows={items}
              rowKey={(run) => run.id}
              rowHref={(run) => href(`/runs/${run.id}`)}
              empty={<p class="muted">Nothing was sent by it for a day{more ? ', as far as was looked' : ''}.</p>}
            />
            <a class="button small" href={href('/runs', { label, last: '24h' })}>
              All of them, among the runs
            </a>
          </>
        )}
      </Answered>
    </Panel>
  );
}

function WhatItSays({ rule }: { rule: Notification }) {
  const until = mutedUntil((rule.mute_time_intervals ?? []) as MuteInterval[], serverNow());
  return (
    <div class="columns">
      <Panel title="Of what, and where">
        <Facts
          facts={[
            ['Tells of', rule.on.map((kind) => kinds.find((k) => k.value === kind)?.text ?? kind).join('; ')],
            ['For', <bdi key="for">{matchWords(rule.match)}</bdi>],
            ['Where', <bdi key="where">{rule.sinks.map(sinkWords).join('\n')}</bdi>],
          ]}
        />
      </Panel>
      <Panel title="How often">
        <Facts
          facts={[
            ['Told together', rule.group_by.length === 0 ? 'all of it' : `what is alike in ${rule.group_by.join(', ')}`],
            ['First message after', durationText(rule.group_wait)],
            ['Next one after', durationText(rule.group_interval)],
            ['Told again after', durationText(rule.repeat_interval)],
            ['When all is well', rule.send_resolved ? 'a message says so' : 'nothing is said'],
            ['Mute', (rule.mute_time_intervals ?? []).length > 0 && count((rule.mute_time_intervals ?? []).length, 'interval')],
            ['Muted until', until !== undefined && <TimeLabel key="until" at={new Date(until).toISOString()} />],
            ['Not told yet', rule.state && rule.state.untold > 0 && count(rule.state.untold, 'incident')],
            ['Changed', <TimeLabel key="changed" at={rule.updated_at} relative />],
            ['Tells what happened since', <TimeLabel key="began" at={rule.began_at} relative />],
          ]}
        />
      </Panel>
    </div>
  );
}
