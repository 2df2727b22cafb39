// Notifications: of what the tenant is told, where, and whether it was.

import { useAll } from '../api/all';
import { answer, api } from '../api/client';
import { may } from '../api/session';
import type { Notification } from '../api/types';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Icon } from '../parts/Icon';
import { SearchedList } from '../parts/SearchedList';
import { StateBadge } from '../parts/StateBadge';
import type { Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { matchWords, notTaken, sinkWords, standing } from '../notifications';
import { pathTo } from '../place';
import { href } from '../router';
import type { ViewParams } from '../routes';

const columns: Column<Notification>[] = [
  { head: 'Rule', kind: 'main', cell: (n) => n.name },
  {
    head: 'State',
    cell: (n) => {
      const { state, words } = standing(n);
      return <StateBadge state={state} words={words} />;
    },
  },
  { head: 'Last message', cell: (n) => <TimeLabel at={n.state?.last_message_at} relative none="none lately" /> },
  {
    head: 'Not taken by',
    cell: (n) => (notTaken(n).length > 0 ? <span class="toned tone-bad">{notTaken(n).join(', ')}</span> : ''),
  },
  { head: 'Tells of', cell: (n) => n.on.join(', ') },
  { head: 'For', minor: true, cell: (n) => <bdi>{matchWords(n.match)}</bdi> },
  { head: 'Where', cell: (n) => <bdi>{n.sinks.map(sinkWords).join('; ')}</bdi> },
];

export function Notifications(_props: ViewParams) {
  const live = useAll<Notification>('all notifications', (query, signal) =>
    answer(api.GET('/v1/notifications', { params: { query }, signal })),
  );
  return (
    <View
      title="Notifications"
      about="A rule says of what you are told, and where. What is alike is told together; each message is a run, which is retried and seen."
      actions={
        <>
          {may('operator') && (
            <a class="button primary" href={href('/notifications/new')}>
              <Icon name="plus" /> New rule
            </a>
          )}
          <CopyCurl path="/v1/notifications" />
        </>
      }
    >
      <SearchedList
        live={live}
        title="Rules"
        what="the rules for notifications"
        one="rule"
        find={{
          label: 'Name, sink or description',
          placeholder: 'billing',
          textOf: (n) => `${n.name} ${n.sinks.map(sinkWords).join(' ')} ${n.description ?? ''}`,
        }}
        caption="Rules for notifications"
        columns={columns}
        keyOf={(n) => n.name}
        hrefOf={(n) => href(pathTo('/notifications/:name', { name: n.name }))}
        empty={
          <Empty title="There are no rules yet" commands={['carillon notifications set billing < rule.json']}>
            <p>Nobody is told of failures before there is one.</p>
          </Empty>
        }
      />
    </View>
  );
}
