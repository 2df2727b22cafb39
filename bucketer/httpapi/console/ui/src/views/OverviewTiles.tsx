// The numbers of the overview, each of which leads to what it counts.

import type { MinuteCounts } from '../api/coming';
import type { Live } from '../api/live';
import type { Problem } from '../api/problem';
import { maySeeAll } from '../api/session';
import type { Cluster } from '../api/types';
import { bandOf, bands, lateFromMs } from '../lateness';
import { Icon } from '../parts/Icon';
import { Missing } from '../parts/Panel';
import type { Query } from '../place';
import { href } from '../router';
import { coarse, spanText } from '../time';
import {
  behindSeconds,
  failingShare,
  missedBadly,
  missedLately,
  rateNow,
  recent,
  slotsFull,
  slotsOf,
  sumOf,
  waitFrom,
  waitsOf,
} from '../verdict';
import { missedWords, number, percent, shortNumber } from '../words';

const minute = 60_000;

interface TileProps {
  name: string;
  value: string;
  /** Beside the value, smaller. */
  unit?: string;
  note?: string;
  tone?: 'good' | 'warn' | 'bad';
  path?: string;
  query?: Query;
}

function Tile({ name, value, unit, note, tone, path, query }: TileProps) {
  const inside = (
    <>
      <span class="tile-name">{name}</span>
      <span class={`tile-value ${tone ? `tone-${tone}` : ''}`}>
        {tone === 'bad' && <Icon name="cross" size={18} />}
        {tone === 'warn' && <Icon name="warning" size={18} />}
        {value}
        {unit && <small> {unit}</small>}
      </span>
      <span class="tile-note">{note ?? '\u00a0'}</span>
    </>
  );
  return (
    <li class="tile">
      {path === undefined ? (
        <div class="tile-body">{inside}</div>
      ) : (
        <a class="tile-body" href={href(path, query)}>
          {inside}
        </a>
      )}
    </li>
  );
}

export function Tiles({ counts, cluster, at }: { counts: Live<MinuteCounts[]>; cluster: Live<Cluster>; at: number }) {
  const minutes = counts.data;
  if (!minutes) {
    return counts.problem ? (
      <Missing problem={counts.problem} what="counts of what was started" retry={counts.refresh} />
    ) : null;
  }
  const lately = recent(minutes, at);
  const recently = sumOf(lately);
  const hour = sumOf(minutes);
  const latest = lately.filter((m) => m.started > 0).at(-1)?.lateness;
  const rate = rateNow(minutes, at);
  const slots = cluster.data ? slotsOf(cluster.data) : undefined;
  const queue = cluster.data?.queue?.waiting;
  const behind = Math.max(0, ...(cluster.data?.shards ?? []).map((s) => s.behind_seconds));
  const tried = recently.succeeded + recently.failed;
  const waits = cluster.data ? waitsOf(cluster.data) : undefined;
  const oldest = waits?.oldest === undefined ? 0 : Math.max(0, at - waits.oldest);
  const late = latest !== undefined && latest.p99_ms > lateFromMs;
  return (
    <ul class="tiles">
      <Tile
        name="Starts a second, now"
        value={rate === undefined ? '–' : shortNumber(rate)}
        note={`${shortNumber(hour.started)} in the last hour`}
        path="/runs"
        query={{ last: '5m' }}
      />
      <Tile
        name="Attempts that succeed"
        value={percent(recently.succeeded, tried)}
        note={`${number(recently.failed)} failed in 5 minutes`}
        {...(recently.failed > tried * failingShare ? { tone: 'warn' as const } : {})}
        path="/runs"
        query={{ last: '15m', state: ['failed', 'retrying'], of: 'attempts' }}
      />
      <Tile
        name="Lateness now, p99"
        value={latest ? spanText(latest.p99_ms) : '–'}
        note={latest ? `p50 ${spanText(latest.p50_ms)}` : 'nothing was started in 5 minutes'}
        {...(late ? { tone: 'bad' as const } : {})}
        path="/runs"
        query={{ last: '15m', late: late ? '1s' : '', of: late ? 'late' : '' }}
      />
      <Tile
        name="Lateness in the hour, p99"
        value={bandWords(hour.p99)}
        note={`p50 ${bandWords(hour.p50)}, ${hour.late > 0 ? number(hour.late) : 'none'} over 1 s`}
        {...(hour.late > 0 ? { tone: 'warn' as const } : {})}
        path="/runs"
        query={{ last: '1h', late: '1s', of: 'late' }}
      />
      <Tile
        name="Missed or skipped in the hour"
        value={number(hour.missed)}
        note={hour.missed > 0 ? missedWords(hour.missed, hour.missedFor) : 'every run was started'}
        {...(hour.missed > 0 ? { tone: missedBadly(hour) > 0 ? ('bad' as const) : ('warn' as const) } : {})}
        path="/runs"
        query={missedLately}
      />
      {maySeeAll() && (
        <>
          <Tile
            name="Due, and waiting"
            value={waits ? `${shortNumber(waits.runs)}${waits.more ? '+' : ''}` : '–'}
            unit={waits ? 'runs' : ''}
            note={waits && waits.runs > 0 ? `the oldest due ${coarse(oldest)} ago` : 'for no rate, limit or target'}
            {...(oldest > waitFrom ? { tone: 'warn' as const } : {})}
            path="/runs"
            query={{ last: oldest < 50 * minute ? '1h' : '24h', state: ['pending', 'retrying'], of: 'waiting' }}
          />
          <Tile
            name="Slots in use"
            value={slots ? shortNumber(slots.used) : '–'}
            unit={slots ? `of ${shortNumber(slots.total)}` : ''}
            note={
              slots
                ? `${percent(slots.used, slots.total)}${slots.waiting > 0 ? `, ${number(slots.waiting)} wait for one` : ''}`
                : 'no executor told'
            }
            {...(slots && slots.total > 0 && slots.used / slots.total >= slotsFull ? { tone: 'warn' as const } : {})}
            path="/cluster"
          />
          <Tile
            name="Backlog"
            value={queue === undefined ? '–' : shortNumber(queue)}
            unit={queue === undefined ? '' : 'messages'}
            note={cluster.data?.shards ? behindWords(behind) : backlogProblem(cluster.problem)}
            {...(behind > behindSeconds ? { tone: 'bad' as const } : {})}
            path="/cluster"
          />
        </>
      )}
    </ul>
  );
}

/** A lateness as the class says it in which it lies: "≤ 20 ms". */
function bandWords(ms: number | undefined): string {
  return ms === undefined ? '–' : (bands[bandOf(ms)]?.label ?? '–');
}

function behindWords(seconds: number): string {
  return seconds > behindSeconds ? `a shard is ${coarse(seconds * 1000)} behind` : 'no shard is behind';
}

function backlogProblem(problem: Problem | undefined): string {
  return problem ? 'the cluster does not tell' : '\u00a0';
}
