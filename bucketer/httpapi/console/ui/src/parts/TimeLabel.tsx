// An instant, always with its zone. What it is in the other zones stands in its title.

import { now, serverNow } from '../clock';
import { viewerZone, zoneFor } from '../preferences';
import { knowsZone, labelOf, localZone, relativeText, timeText, toDate, UTC } from '../time';

export interface TimeLabelProps {
  at: string | number | Date | undefined;
  /** The zone of the job that it belongs to, if it has one. */
  zone?: string | undefined;
  /** Also "in 12 s", "3 min ago". */
  relative?: boolean;
  millis?: boolean;
  weekday?: boolean;
  /** Leave out seconds that are zero. */
  short?: boolean;
  /** Shown if there is no instant. */
  none?: string;
}

export function TimeLabel({ at, zone, relative, millis, weekday, short, none = '–' }: TimeLabelProps) {
  if (at === undefined || at === '') {
    return <span class="muted">{none}</span>;
  }
  const date = toDate(at);
  if (Number.isNaN(date.getTime())) {
    return <span class="muted">{String(at)}</span>;
  }
  const jobZone = zone && knowsZone(zone) ? zone : undefined;
  const shown = zoneFor(jobZone);
  const label = labelOf(date, shown, { now: serverNow(), millis, weekday, short });
  return (
    <time class="time" dateTime={date.toISOString()} title={inEveryZone(date, jobZone)}>
      {label.day !== '' && <span class="time-day">{label.day} </span>}
      <span class="time-clock">{label.clock}</span> <span class="time-zone">{label.offset}</span>
      {relative && <Relative at={date} />}
    </time>
  );
}

function Relative({ at }: { at: Date }) {
  return <span class="time-relative"> {relativeText(at, now.value)}</span>;
}

/** "12 s ago" alone, with the instant in its title. */
export function Ago({ at }: { at: string | number | Date | undefined }) {
  if (at === undefined || at === '') {
    return <span class="muted">–</span>;
  }
  const date = toDate(at);
  return (
    <time class="time" dateTime={date.toISOString()} title={inEveryZone(date)}>
      {relativeText(date, now.value)}
    </time>
  );
}

function inEveryZone(date: Date, job?: string): string {
  const zones = [UTC, localZone(), viewerZone.value, job].filter((z): z is string => z !== undefined);
  return [...new Set(zones)]
    .map((z) => (z === UTC ? timeText(date, z, { millis: true }) : `${timeText(date, z, { millis: true })} ${z}`))
    .join('\n');
}
