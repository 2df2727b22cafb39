// Instants, spans and zones in words. Pure: the time of now and the zone are given.

/** An instant as the API writes it, or a Date. */
export type Instant = string | number | Date;

export const UTC = 'UTC';

export function toDate(at: Instant): Date {
  return at instanceof Date ? at : new Date(at);
}

/** The zone of the person's computer. */
export function localZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || UTC;
}

/** Reports whether this browser knows the zone. */
export function knowsZone(zone: string): boolean {
  try {
    formatOf(zone);
    return true;
  } catch {
    return false;
  }
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-GB', {
      timeZone: zone,
      hourCycle: 'h23',
      weekday: 'short',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
    });
    formats.set(zone, format);
  }
  return format;
}

/** What the clock and the calendar on the wall of a zone show. */
export interface Wall {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  millisecond: number;
  weekday: string;
}

export function wallOf(at: Instant, zone: string): Wall {
  const date = toDate(at);
  const wall: Wall = {
    year: 0,
    month: 0,
    day: 0,
    hour: 0,
    minute: 0,
    second: 0,
    millisecond: ((date.getTime() % 1000) + 1000) % 1000,
    weekday: '',
  };
  for (const part of formatOf(zone).formatToParts(date)) {
    switch (part.type) {
      case 'year':
      case 'month':
      case 'day':
      case 'hour':
      case 'minute':
      case 'second':
        wall[part.type] = Number(part.value);
        break;
      case 'weekday':
        wall.weekday = part.value;
        break;
    }
  }
  return wall;
}

/** How far the zone is ahead of UTC at that instant, in ms. */
export function offsetOf(at: Instant, zone: string): number {
  const w = wallOf(at, zone);
  const shown = Date.UTC(w.year, w.month - 1, w.day, w.hour, w.minute, w.second, w.millisecond);
  return shown - toDate(at).getTime();
}

/** "UTC", "+01:00" or "−03:30". */
export function offsetWords(at: Instant, zone: string): string {
  if (zone === UTC || zone === 'Etc/UTC') {
    return UTC;
  }
  return offsetText(offsetOf(at, zone));
}

function offsetText(ms: number): string {
  const minutes = Math.round(Math.abs(ms) / 60_000);
  return `${ms < 0 ? '−' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** An instant as a zone shows it, in the parts of a label. */
export interface Label {
  /** "" if it is the day of now, else "21 Nov" or "21 Nov 2027". */
  day: string;
  /** "10:30:05" or "10:30:05.123". */
  clock: string;
  /** "UTC" or "+01:00". */
  offset: string;
}

export interface LabelOptions {
  /** The instant that is now: it decides whether the day is left out. */
  now?: Instant | undefined;
  millis?: boolean | undefined;
  weekday?: boolean | undefined;
  /** Leave out seconds that are zero. */
  short?: boolean | undefined;
}

export function labelOf(at: Instant, zone: string, options: LabelOptions = {}): Label {
  const w = wallOf(at, zone);
  let day = `${w.day} ${months[w.month - 1]}`;
  if (options.now === undefined) {
    day += ` ${w.year}`;
  } else {
    const today = wallOf(options.now, zone);
    if (today.year !== w.year) {
      day += ` ${w.year}`;
    } else if (today.month === w.month && today.day === w.day) {
      day = '';
    }
  }
  if (options.weekday && day !== '') {
    day = `${w.weekday} ${day}`;
  }
  let clock = `${two(w.hour)}:${two(w.minute)}`;
  if (!options.short || w.second !== 0 || (options.millis && w.millisecond !== 0)) {
    clock += `:${two(w.second)}`;
  }
  if (options.millis) {
    clock += `.${String(w.millisecond).padStart(3, '0')}`;
  }
  return { day, clock, offset: offsetWords(at, zone) };
}

/** "21 Nov 10:30:05 +01:00". */
export function timeText(at: Instant, zone: string, options: LabelOptions = {}): string {
  const label = labelOf(at, zone, options);
  return `${label.day === '' ? '' : label.day + ' '}${label.clock} ${label.offset}`;
}

/** "in 12 s", "3 min ago", "now". */
export function relativeText(at: Instant, now: Instant): string {
  const ms = toDate(at).getTime() - toDate(now).getTime();
  if (Math.abs(ms) < 1000) {
    return 'now';
  }
  return ms > 0 ? `in ${coarse(ms)}` : `${coarse(-ms)} ago`;
}

const units: readonly [name: string, ms: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
];

/** A span in its two largest units: "2 h 5 min", "45 s". */
export function coarse(ms: number): string {
  const most = Math.round(ms / 1000) * 1000;
  for (const [i, [name, size]] of units.entries()) {
    if (most < size) {
      continue;
    }
    const whole = Math.floor(most / size);
    const next = units[i + 1];
    const rest = next && whole < 10 ? Math.floor((most % size) / next[1]) : 0;
    return rest > 0 && next ? `${whole} ${name} ${rest} ${next[0]}` : `${whole} ${name}`;
  }
  return '0 s';
}

/** A measured span: "0.4 ms", "12 ms", "1.23 s", "2 min 5 s". */
export function spanText(ms: number): string {
  const size = Math.abs(ms);
  if (size === Infinity) {
    return 'over 5 min';
  }
  const sign = ms < 0 ? '−' : '';
  if (size < 1) {
    return size === 0 ? '0 ms' : `${sign}${size.toPrecision(1)} ms`;
  }
  if (size < 10 && !Number.isInteger(size)) {
    return `${sign}${size.toFixed(1)} ms`;
  }
  if (size < 999.5) {
    return `${sign}${Math.round(size)} ms`;
  }
  if (size < 10_000) {
    return `${sign}${(size / 1000).toFixed(2)} s`;
  }
  if (size < 60_000) {
    return `${sign}${(size / 1000).toFixed(1)} s`;
  }
  return sign + coarse(size);
}

const goUnits: Record<string, number> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Reads a duration as the API writes it ("1m30s"), in ms; undefined if it is none. */
export function parseSpan(text: string): number | undefined {
  const form = /^([+-]?)((?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))+)$/.exec(text.trim());
  if (!form) {
    return text.trim() === '0' ? 0 : undefined;
  }
  let ms = 0;
  for (const [, number, unit] of (form[2] ?? '').matchAll(/(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)/g)) {
    ms += Number(number) * (goUnits[unit ?? ''] ?? 0);
  }
  return form[1] === '-' ? -ms : ms;
}

/** A duration of the API in words: "1m30s" is "1 min 30 s". What is none stays as it is. */
export function durationText(text: string | undefined): string {
  if (!text) {
    return '';
  }
  const ms = parseSpan(text);
  if (ms === undefined) {
    return text;
  }
  if (ms === 0) {
    return 'none';
  }
  if (ms < 1000) {
    return `${ms} ms`;
  }
  const words: string[] = [];
  let rest = ms;
  for (const [name, size] of units) {
    const whole = name === 's' ? rest / size : Math.floor(rest / size);
    if (whole > 0) {
      words.push(`${whole} ${name}`);
    }
    rest -= Math.floor(whole) * size;
  }
  return words.join(' ');
}

/** A change of a zone's clock. */
export interface ClockChange {
  at: Date;
  /** Offsets before and after it, such as "+01:00". */
  before: string;
  after: string;
  /** Wall times that it leaves out, or shows twice, such as "02:00" and "03:00". */
  kind: 'gap' | 'overlap';
  from: string;
  to: string;
}

/** The changes of a zone's clock in [from, to), at most 20 years apart. */
export function clockChanges(from: Instant, to: Instant, zone: string): ClockChange[] {
  const changes: ClockChange[] = [];
  const end = Math.min(toDate(to).getTime(), toDate(from).getTime() + 20 * 366 * 86_400_000);
  const step = 7 * 86_400_000;
  for (let low = toDate(from).getTime(); low < end; low += step) {
    const high = Math.min(low + step, end);
    let [a, b] = [low, high];
    const before = offsetOf(a, zone);
    if (before === offsetOf(b, zone)) {
      continue;
    }
    while (b - a > 1000) {
      const middle = Math.floor((a + b) / 2000) * 1000;
      if (middle <= a) {
        break;
      }
      if (offsetOf(middle, zone) === before) {
        a = middle;
      } else {
        b = middle;
      }
    }
    if (b >= end) {
      break;
    }
    const after = offsetOf(b, zone);
    // The wall shows `out` as the old clock and `back` as the new one.
    const out = clockAt(b + before);
    const back = clockAt(b + after);
    const kind = after > before ? 'gap' : 'overlap';
    changes.push({
      at: new Date(b),
      before: offsetText(before),
      after: offsetText(after),
      kind,
      from: kind === 'gap' ? out : back,
      to: kind === 'gap' ? back : out,
    });
  }
  return changes;
}

/** The change of a clock in words. */
export function clockChangeText(change: ClockChange, zone: string): string {
  const w = labelOf(change.at.getTime() - 1000, zone);
  return change.kind === 'gap'
    ? `On ${w.day} the clock of ${zone} goes from ${change.from} to ${change.to}: times between them do not exist.`
    : `On ${w.day} the clock of ${zone} goes back from ${change.to} to ${change.from}: times between them occur twice.`;
}

/** The changes of the clocks of zones in [from, to), in words. */
export function clockNotes(from: Instant, to: Instant, zones: readonly string[]): string[] {
  return [...new Set(zones)].flatMap((zone) => clockChanges(from, to, zone).map((c) => clockChangeText(c, zone)));
}

function clockAt(shifted: number): string {
  const date = new Date(shifted);
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
}

function two(n: number): string {
  return String(n).padStart(2, '0');
}

/** Reads what a datetime-local input holds as an instant of a zone; undefined if it is none. */
export function instantOf(text: string, zone: string): Date | undefined {
  const form = /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?$/.exec(text.trim());
  if (!form) {
    return undefined;
  }
  const [, year, month, day, hour, minute, second, millis] = form;
  const shown = Date.UTC(
    Number(year),
    Number(month) - 1,
    Number(day),
    Number(hour),
    Number(minute),
    Number(second ?? 0),
    Number((millis ?? '').padEnd(3, '0')),
  );
  if (Number.isNaN(shown)) {
    return undefined;
  }
  // The offset of the instant is not known yet: that of the guess is, and once more settles it.
  let at = shown - offsetOf(shown, zone);
  at = shown - offsetOf(at, zone);
  return new Date(at);
}

/** What a datetime-local input shows of an instant in a zone. */
export function inputText(at: Instant, zone: string): string {
  const w = wallOf(at, zone);
  const seconds = w.second !== 0 || w.millisecond !== 0 ? `:${two(w.second)}` : '';
  const millis = w.millisecond !== 0 ? `.${String(w.millisecond).padStart(3, '0')}` : '';
  return `${String(w.year).padStart(4, '0')}-${two(w.month)}-${two(w.day)}T${two(w.hour)}:${two(w.minute)}${seconds}${millis}`;
}
