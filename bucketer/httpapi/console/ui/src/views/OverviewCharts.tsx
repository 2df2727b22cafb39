// How late runs start, and what was and will be minute by minute, as charts whose marks lead to runs.

import { useMemo } from 'preact/hooks';
import type { UpcomingMinutes } from '../api/coming';
import { fast, type Live } from '../api/live';
import { useMinutes } from '../api/minutes';
import { serverNow } from '../clock';
import { bandFrom, bands, spread } from '../lateness';
import { Chart } from '../parts/Chart';
import { HeatMap } from '../parts/HeatMap';
import { Icon } from '../parts/Icon';
import { Answered, Panel } from '../parts/Panel';
import type { Query } from '../place';
import { href, queryValue, setQuery } from '../router';

const minute = 60_000;

const mapSpans = [
  { minutes: 60, value: '', text: '1 hour' },
  { minutes: 360, value: '6h', text: '6 hours' },
  { minutes: 1440, value: '24h', text: '24 hours' },
] as const;

export function LatenessMap() {
  const chosen = mapSpans.find((s) => s.value === queryValue('map')) ?? mapSpans[0];
  const live = useMinutes(chosen.minutes);
  // Wide stretches are drawn by several minutes together: a field must be wide enough to be hit.
  const step = chosen.minutes === 60 ? 1 : chosen.minutes === 360 ? 5 : 15;
  const end = Math.floor(serverNow() / (step * minute)) * step * minute + step * minute;
  const drawn = useMemo(() => {
    const times = Array.from(
      { length: chosen.minutes / step },
      (_, i) => end - chosen.minutes * minute + i * step * minute,
    );
    const counts = times.map(() => bands.map(() => 0));
    for (const m of live.data ?? []) {
      const column = counts[Math.floor((Date.parse(m.minute) - (times[0] ?? 0)) / (step * minute))];
      for (const [row, n] of spread(m.lateness?.classes ?? []).entries()) {
        if (column) {
          column[row] = (column[row] ?? 0) + n;
        }
      }
    }
    return { times, counts };
  }, [live.data, end, chosen.minutes, step]);
  const withoutClasses = live.data?.some((m) => m.lateness) && !live.data.some((m) => m.lateness?.classes);
  return (
    <Panel
      title="How late runs start"
      live={live}
      every={fast}
      actions={
        <div class="row" role="group" aria-label="Stretch">
          {mapSpans.map((s) => (
            <button
              key={s.value}
              type="button"
              class="toggle"
              aria-pressed={s === chosen}
              onClick={() => setQuery({ map: s.value })}
            >
              {s.text}
            </button>
          ))}
        </div>
      }
    >
      <Answered live={live} what="counts of lateness">
        {() =>
          withoutClasses ? (
            <p class="absent">
              <Icon name="slash" /> This node does not tell classes of lateness.
            </p>
          ) : (
            <HeatMap
              caption={`First starts by minute and lateness${step > 1 ? `, ${step} minutes together` : ''}. Above the line they are late.`}
              times={drawn.times}
              rows={bands}
              counts={drawn.counts}
              one="start"
              rowHeight={14}
              hrefAt={(time, row) => fieldHref(drawn.times[time] ?? 0, step, row)}
            />
          )
        }
      </Answered>
    </Panel>
  );
}

/** The runs of a field: those that were due when it says, or so much earlier as they were late. */
function fieldHref(at: number, step: number, row: number): string {
  const upTo = Math.min(bands[row]?.upTo ?? 0, 3_600_000);
  const from = bandFrom(row);
  return href('/runs', {
    from: new Date(at - upTo).toISOString(),
    to: new Date(at + step * minute).toISOString(),
    late: from > 0 ? `${from}ms` : '',
  });
}

const pastMinutes = 360;
const comingMinutes = 60;

export function Timeline({ upcoming }: { upcoming: Live<UpcomingMinutes> }) {
  const live = useMinutes(pastMinutes);
  const begin = Math.floor(serverNow() / minute) * minute;
  const drawn = useMemo(() => {
    const first = begin - (pastMinutes - 1) * minute;
    const length = pastMinutes + comingMinutes;
    const times = Array.from({ length }, (_, i) => first + i * minute);
    const past = (i: number): number | null => (i < pastMinutes ? 0 : null);
    const started = times.map((_, i) => past(i));
    const failed = [...started];
    const missed = [...started];
    const late = [...started];
    const worst = times.map(() => 0);
    const due: (number | null)[] = times.map(() => null);
    for (const m of live.data ?? []) {
      const i = Math.round((Date.parse(m.minute) - first) / minute);
      if (i < 0 || i >= pastMinutes) {
        continue;
      }
      started[i] = m.started;
      failed[i] = m.failed;
      missed[i] = m.missed;
      late[i] = m.late;
      worst[i] = m.lateness?.max_ms ?? 0;
    }
    for (const m of upcoming.data?.items ?? []) {
      const i = Math.round((Date.parse(m.minute) - first) / minute);
      if (i >= pastMinutes - 1 && i < length) {
        due[i] = m.runs ?? null;
      }
    }
    return { times, started, failed, missed, late, worst, due };
  }, [live.data, upcoming.data, begin]);
  const { times, started, failed, missed, late, worst, due } = drawn;
  const flow = useMemo(
    () => [
      { label: 'started', values: started, colour: '--run', kind: 'area' as const },
      { label: '≈ due', values: due, colour: '--still', kind: 'dashed' as const },
    ],
    [started, due],
  );
  const faults = useMemo(
    () => [
      { label: 'failed attempts', values: failed, colour: '--bad', kind: 'bars' as const },
      { label: 'missed or skipped', values: missed, colour: '--miss', kind: 'dashed' as const },
      { label: 'more than 1 s late', values: late, colour: '--warn', kind: 'line' as const },
    ],
    [failed, missed, late],
  );
  /** Runs that were due in a minute, or so much before it: what ends late, or is given up, was due before. */
  const runsOf = (i: number, before: number, more: Query): string => {
    const from = (times[i] ?? 0) - before;
    const to = (times[i] ?? 0) + minute;
    return href('/runs', {
      from: new Date(from).toISOString(),
      to: new Date(to).toISOString(),
      ...(before > 0 ? { order: 'latest' } : {}),
      ...more,
    });
  };
  const faultsOf = (i: number, series: number | undefined): string =>
    series === 1
      ? runsOf(i, 360 * minute, { state: 'missed', of: 'missed' })
      : series === 2
        ? runsOf(i, Math.min(worst[i] ?? 0, 60 * minute), { late: '1s', of: 'late' })
        : runsOf(i, 5 * minute, { state: ['failed', 'retrying'], of: 'attempts' });
  return (
    <Panel
      title="Six hours, and the one to come"
      live={live}
      every={fast}
      about={
        upcoming.problem?.forbidden
          ? 'The hour to come is left out: your key may not see what all tenants together have due. The page Coming hour has yours.'
          : upcoming.problem && !upcoming.data
            ? `What is to come is not known: ${upcoming.problem.sentence}`
            : undefined
      }
    >
      <Answered live={live} what="counts of minutes">
        {() => (
          <>
            <Chart
              caption="Runs started a minute, and those to come that are planned already (estimated): of a recurring job only the next"
              times={times}
              series={flow}
              height={150}
              mark={begin}
              sync="timeline"
              hrefAt={(i) => runsOf(i, 0, {})}
            />
            <Chart
              caption="What was not as it should be, a minute"
              times={times}
              series={faults}
              height={110}
              mark={begin}
              sync="timeline"
              hrefAt={faultsOf}
            />
          </>
        )}
      </Answered>
    </Panel>
  );
}
