// Is everything on time, and if not, why? The answer comes first; below it the numbers, and each of them
// leads to the runs behind it.

import { useEffect, useState } from 'preact/hooks';
import { answer, api } from '../api/client';
import { fast, isStale, liveOn, slow, useLive, type Live } from '../api/live';
import { scopeOf, useMinutes } from '../api/minutes';
import { maySeeAll, tenant } from '../api/session';
import type { Cluster } from '../api/types';
import { clockOffset, localNow } from '../clock';
import { Age } from '../parts/Age';
import { ApprovalsInShort } from '../parts/Approvals';
import { curlOf } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { Icon } from '../parts/Icon';
import { Panel } from '../parts/Panel';
import { View } from '../parts/View';
import { href } from '../router';
import type { ViewParams } from '../routes';
import { verdictOf, type Verdict } from '../verdict';
import { LatenessMap, Timeline } from './OverviewCharts';
import { Herds } from './OverviewComing';
import { Tiles } from './OverviewTiles';
import { Top, useTop } from './OverviewTop';

export function Overview(_props: ViewParams) {
  const counts = useMinutes(60);
  const cluster = useLive<Cluster>(
    maySeeAll() ? 'cluster of the overview' : null,
    (signal) => answer(api.GET('/v1/cluster', { signal })),
    { every: fast },
  );
  const hosts = useTop('host', slow);
  const [counted, setCounted] = useState(true);
  const upcoming = useLive(
    'coming hour',
    (signal) => answer(api.GET('/v1/stats/upcoming', { params: { query: { minutes: 60 } }, signal })),
    { every: counted ? slow : fast },
  );
  // Minutes that were not counted yet are, a moment later.
  const whole = upcoming.data?.items.every((m) => m.runs !== undefined) ?? true;
  useEffect(() => setCounted(whole), [whole]);
  // Counts are judged as of when they came: they do not get better by getting old.
  const at = (counts.at ?? Date.now()) + clockOffset.value;
  const old = counts.at !== undefined && liveOn.value && isStale(counts.at, fast, localNow.value);
  const verdict = verdictOf({
    minutes: counts.data,
    missing: counts.missing,
    cluster: cluster.data,
    tenant: tenant.value,
    hosts: hosts.data?.items,
    now: at,
    old: old ? localNow.value - (counts.at ?? 0) : undefined,
  });
  const idle =
    counts.data !== undefined &&
    counts.data.every((m) => m.due === 0 && m.started === 0 && m.missed === 0) &&
    (upcoming.data?.items ?? []).every((m) => !m.runs);
  return (
    <View
      title="Overview"
      about={
        scopeOf() === 'all' ? (
          <>Counts of all tenants together. Runs that a mark leads to are those of the tenant {tenant.value}.</>
        ) : undefined
      }
    >
      {counts.data === undefined && counts.problem === undefined ? (
        <div class="verdict tone-still" aria-busy="true">
          <Icon name="dots" size={28} />
          <div>
            <p class="verdict-headline">Asking the node</p>
          </div>
        </div>
      ) : (
        <VerdictBox verdict={verdict} live={counts} />
      )}
      <ApprovalsInShort />
      {idle && <Beginning />}
      <Tiles counts={counts} cluster={cluster} at={at} />
      <LatenessMap />
      <Timeline upcoming={upcoming} />
      <Top />
      <Herds upcoming={upcoming} />
    </View>
  );
}

function VerdictBox({ verdict, live }: { verdict: Verdict; live: Live<unknown> }) {
  const icon = { good: 'check', warn: 'warning', bad: 'cross', still: 'dots' } as const;
  return (
    <section class={`verdict tone-${verdict.tone}`} aria-label="Is everything on time?">
      <Icon name={icon[verdict.tone]} size={30} />
      <div class="verdict-body">
        <p class="verdict-headline" role="status">
          {verdict.headline}
        </p>
        <p class="verdict-detail">
          {verdict.detail} <Age live={live} every={fast} />
        </p>
        {verdict.reasons.length > 0 && (
          <ul class="verdict-reasons">
            {verdict.reasons.map((reason) => (
              <li key={reason.text} class={`tone-${reason.tone}`}>
                <Icon name={reason.tone === 'bad' ? 'cross' : 'warning'} size={14} />
                <span>
                  {reason.text}{' '}
                  {reason.link && <a href={href(reason.link.path, reason.link.query)}>{reason.link.words}</a>}
                </span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

function Beginning() {
  const body = { http: { url: 'https://example.com/hook' }, schedule: { every: '1m' }, name: 'first' };
  return (
    <Panel title="Begin here">
      <Empty
        title="Nothing has run in the last hour, and nothing is due in the next one"
        commands={[
          'carillon job create --url https://example.com/hook --in 5s',
          "carillon job create --name nightly --url https://example.com/report --cron '0 2 * * *' --timezone Europe/Berlin",
          curlOf('POST', '/v1/jobs', body),
        ]}
      >
        <p>
          Create a job <a href={href('/jobs/new')}>in the console</a>, with the program <code>carillon</code>, or with
          curl. Its runs show up here on their second.
        </p>
      </Empty>
    </Panel>
  );
}

