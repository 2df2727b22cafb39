// Cron expressions in words, and hints on them while a person types. Pure. The server decides what an
// expression means (POST /v1/schedules/preview); this is for lists, where asking would be too much.

interface Place {
  name: string;
  min: number;
  max: number;
  names: readonly string[];
}

const monthNames = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const weekdayNames = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
const longMonths = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const longWeekdays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

export const places: readonly Place[] = [
  { name: 'second', min: 0, max: 59, names: [] },
  { name: 'minute', min: 0, max: 59, names: [] },
  { name: 'hour', min: 0, max: 23, names: [] },
  { name: 'day of month', min: 1, max: 31, names: [] },
  { name: 'month', min: 1, max: 12, names: monthNames },
  { name: 'day of week', min: 0, max: 7, names: weekdayNames },
];

const macros: Record<string, string> = {
  '@YEARLY': '0 0 1 1 *',
  '@ANNUALLY': '0 0 1 1 *',
  '@MONTHLY': '0 0 1 * *',
  '@WEEKLY': '0 0 * * 0',
  '@DAILY': '0 0 * * *',
  '@MIDNIGHT': '0 0 * * *',
  '@HOURLY': '0 * * * *',
};

/** The six fields of an expression, in upper case; undefined if there are other than five or six. */
export function fieldsOf(text: string): string[] | undefined {
  const upper = text.trim().toUpperCase();
  const fields = (macros[upper] ?? upper).split(/[ \t]+/);
  if (fields.length === 5) {
    return ['0', ...fields];
  }
  return fields.length === 6 ? fields : undefined;
}

interface Read {
  members: number[];
  wild: boolean;
  /** Words for what is no set of numbers, such as "the last day of the month". */
  words: string[];
  hashed: boolean;
}

function valueOf(text: string, place: Place): number | undefined {
  const named = place.names.indexOf(text);
  if (named >= 0) {
    return place === places[4] ? named + 1 : named;
  }
  if (!/^\d{1,2}$/.test(text)) {
    return undefined;
  }
  const n = Number(text);
  return n < place.min || n > place.max ? undefined : n;
}

const ordinals = ['first', 'second', 'third', 'fourth', 'fifth'];

/** Reads a field; undefined if it is not understood here. */
function read(text: string, at: number): Read | undefined {
  const place = places[at];
  if (!place) {
    return undefined;
  }
  const size = at === 5 ? 7 : place.max + 1;
  const found = new Set<number>();
  const out: Read = { members: [], wild: false, words: [], hashed: false };
  if (text === '?' && (at === 3 || at === 5)) {
    text = '*';
  }
  for (const element of text.split(',')) {
    if (/^H(\(\d{1,2}-\d{1,2}\))?(\/\d{1,2})?$/.test(element)) {
      out.hashed = true;
      out.wild ||= /^H\//.test(element);
      continue;
    }
    const day = at === 3 ? monthDay(element) : at === 5 ? weekDay(element, place) : undefined;
    if (day !== undefined) {
      out.words.push(day);
      continue;
    }
    const form = /^(\*|[0-9A-Z]+)(?:-([0-9A-Z]+))?(?:\/(\d{1,2}))?$/.exec(element);
    if (!form) {
      return undefined;
    }
    const [, first = '', last, stepText] = form;
    const step = stepText === undefined ? 1 : Number(stepText);
    if (step < 1) {
      return undefined;
    }
    let low = place.min;
    let high = at === 5 ? 6 : place.max;
    if (first === '*') {
      if (last !== undefined) {
        return undefined;
      }
      out.wild = true;
    } else {
      const a = valueOf(first, place);
      const b = last === undefined ? (stepText === undefined ? a : high) : valueOf(last, place);
      if (a === undefined || b === undefined) {
        return undefined;
      }
      [low, high] = [a, b];
      if (high < low) {
        high += size - (at === 3 || at === 4 ? 1 : 0);
      }
    }
    for (let n = low; n <= high; n += step) {
      const range = at === 3 || at === 4 ? ((n - 1) % place.max) + 1 : n % size;
      found.add(range);
    }
  }
  out.members = [...found].sort((a, b) => a - b);
  return out;
}

function monthDay(element: string): string | undefined {
  if (element === 'L') {
    return 'the last day of the month';
  }
  if (element === 'LW') {
    return 'the last working day of the month';
  }
  const before = /^L-(\d{1,2})$/.exec(element);
  if (before) {
    return `the ${before[1] === '1' ? 'day' : before[1] + ' days'} before the last of the month`;
  }
  const near = /^(\d{1,2})W$/.exec(element);
  return near ? `the working day nearest to day ${near[1]} of the month` : undefined;
}

function weekDay(element: string, place: Place): string | undefined {
  const nth = /^([0-9A-Z]{1,3})#([1-5]|L)$/.exec(element) ?? /^([0-9A-Z]{1,3})(L)$/.exec(element);
  if (!nth) {
    return undefined;
  }
  const day = valueOf(nth[1] ?? '', place);
  if (day === undefined) {
    return undefined;
  }
  const which = nth[2] === 'L' ? 'last' : ordinals[Number(nth[2]) - 1];
  return `the ${which} ${longWeekdays[day % 7]} of the month`;
}

function joined(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words[words.length - 1]}`;
}

/** "1, 2 and 9", "Monday to Friday", "0, 5, 10 … 55". */
function listed(members: readonly number[], name: (n: number) => string): string {
  const words: string[] = [];
  for (let i = 0; i < members.length;) {
    const at = (k: number): number => members[k] ?? 0;
    let step = 1;
    let n = 1;
    if (i + 1 < members.length) {
      step = at(i + 1) - at(i);
      n = 2;
    }
    while (n > 1 && i + n < members.length && at(i + n) - at(i + n - 1) === step) {
      n++;
    }
    if (step === 1 && n >= 3) {
      words.push(`${name(at(i))} to ${name(at(i + n - 1))}`);
    } else if (n >= 5) {
      words.push(`${name(at(i))}, ${name(at(i + 1))}, ${name(at(i + 2))} … ${name(at(i + n - 1))}`);
    } else {
      n = 1;
      words.push(name(at(i)));
    }
    i += n;
  }
  return joined(words);
}

/** The n of 0, n, 2n … round a dial of that size; undefined if the members are not that. */
function evenly(members: readonly number[], size: number): number | undefined {
  if (members.length < 2 || size % members.length !== 0) {
    return undefined;
  }
  const step = size / members.length;
  return members.every((m, i) => m === i * step) ? step : undefined;
}

export function everyNth(n: number, unit: string): string {
  return n === 1 ? `every ${unit}` : `every ${n} ${unit}s`;
}

const two = (n: number): string => String(n).padStart(2, '0');

/** A cron expression in words, without its zone; undefined if it is not understood here. */
export function cronWords(text: string): string | undefined {
  const fields = fieldsOf(text);
  if (!fields) {
    return undefined;
  }
  const all = fields.map((field, i) => read(field, i));
  if (!all.every((field): field is Read => field !== undefined)) {
    return undefined;
  }
  const [seconds, minutes, hours, days, monthsOf, week] = all as [Read, Read, Read, Read, Read, Read];
  if (all.some((field) => field.hashed)) {
    return hashedWords(fields);
  }
  const dayWords = daysInWords(days, week);
  let words: string;
  let on = dayWords;
  const perDay = seconds.members.length * minutes.members.length * hours.members.length;
  if (perDay === 0) {
    return undefined;
  }
  if (perDay <= 6) {
    const times: string[] = [];
    for (const h of hours.members) {
      for (const m of minutes.members) {
        for (const s of seconds.members) {
          times.push(`${two(h)}:${two(m)}${s === 0 ? '' : ':' + two(s)}`);
        }
      }
    }
    words = `at ${joined(times)}`;
    on = on === '' ? 'every day' : on;
  } else {
    words = frequency(seconds.members, minutes.members, hours.members);
  }
  if (on !== '') {
    words += ` ${on}`;
  }
  if (monthsOf.members.length < 12) {
    words += ` in ${listed(monthsOf.members, (n) => longMonths[n - 1] ?? '')}`;
  }
  return words;
}

function hashedWords(fields: readonly string[]): string {
  const [, minute = '', hour = ''] = fields;
  const plain = fields.slice(3).every((field) => field === '*' || field === '?');
  if (plain && /^H\/\d+$/.test(minute) && hour === '*') {
    return `every ${minute.slice(2)} minutes, from a minute drawn for the job`;
  }
  if (plain && minute === 'H' && hour === '*') {
    return 'every hour, at a minute drawn for the job';
  }
  if (plain && minute === 'H' && hour === 'H') {
    return 'every day, at a time drawn for the job';
  }
  return `at times of which H is drawn for the job (${fields.slice(1).join(' ')})`;
}

function frequency(seconds: number[], minutes: number[], hours: number[]): string {
  const onlyZero = seconds.length === 1 && seconds[0] === 0;
  if (onlyZero && minutes.length === 1 && minutes[0] === 0) {
    const n = evenly(hours, 24);
    if (n !== undefined) {
      return everyNth(n, 'hour');
    }
  }
  const words: string[] = [];
  let rising = false;
  if (!onlyZero) {
    const n = evenly(seconds, 60);
    if (n !== undefined) {
      words.push(everyNth(n, 'second'));
      rising = true;
    } else {
      words.push(`at second ${listed(seconds, String)}`);
    }
  }
  const even = evenly(minutes, 60);
  if (words.length === 0 && even !== undefined) {
    words.push(everyNth(even, 'minute'));
    rising = true;
  } else if (words.length === 0) {
    words.push(`at minute ${listed(minutes, String)}`);
  } else if (minutes.length < 60) {
    words.push(`of minute ${listed(minutes, String)}`);
    rising = false;
  } else if (!rising) {
    words.push('of every minute');
    rising = true;
  }
  if (hours.length < 24) {
    words.push(`of hour ${listed(hours, String)}`);
  } else if (!rising) {
    words.push('of every hour');
  }
  return words.join(' ');
}

function daysInWords(days: Read, week: Read): string {
  const month: string[] = [];
  if (days.members.length > 0) {
    month.push(`day ${listed(days.members, String)} of the month`);
  }
  month.push(...days.words);
  const weekly: string[] = [];
  if (week.members.length > 0) {
    // The week begins on Monday here, so that Saturday and Sunday stand together.
    const shifted = week.members.map((n) => (n + 6) % 7).sort((a, b) => a - b);
    weekly.push(listed(shifted, (n) => longWeekdays[(n + 1) % 7] ?? ''));
  }
  weekly.push(...week.words);
  const anyDay = days.members.length === 31;
  const anyWeek = week.members.length === 7;
  const either = !days.wild && !week.wild;
  if ((either && (anyDay || anyWeek)) || (anyDay && anyWeek)) {
    return '';
  }
  if (either) {
    return `on ${joined(month)}, and on ${joined(weekly)}`;
  }
  if (anyDay) {
    return `on ${joined(weekly)}`;
  }
  return anyWeek ? `on ${joined(month)}` : `on ${joined(month)}, if that is ${joined(weekly)}`;
}

/** What is to be said of a field of an expression. */
export interface FieldHint {
  name: string;
  text: string;
  /** Why it cannot stand there; undefined if it can, as far as is known here. */
  fault?: string | undefined;
}

/** Says what stands where in an expression, while it is typed. */
export function fieldHints(text: string): FieldHint[] {
  const upper = text.trim().toUpperCase();
  const typed = (macros[upper] ?? upper).split(/[ \t]+/).filter((field) => field !== '');
  const offset = typed.length >= 6 ? 0 : 1;
  return typed.slice(0, 6).map((field, i) => {
    const at = i + offset;
    const place = places[at];
    const understood = place ? read(field, at) : undefined;
    return {
      name: place?.name ?? '',
      text: field,
      fault: understood
        ? undefined
        : `${field} cannot stand as ${place?.name}: ${place?.min} to ${at === 5 ? '6, or SUN to SAT' : place?.max}`,
    };
  });
}

/** Things about an expression that surprise people. */
export function cronHints(text: string, zone: string): string[] {
  const hints: string[] = [];
  const upper = text.trim().toUpperCase();
  if (upper === '') {
    return hints;
  }
  if (/^(CRON_)?TZ=/.test(upper)) {
    hints.push('The time zone has a field of its own.');
    return hints;
  }
  if (upper.startsWith('@EVERY')) {
    hints.push('For an interval choose “every”.');
    return hints;
  }
  const count = (macros[upper] ?? upper).split(/[ \t]+/).length;
  const fields = fieldsOf(text);
  if (!fields) {
    hints.push(
      count < 5
        ? `${5 - count} more: minute, hour, day of month, month, day of week.`
        : 'Five fields (minute, hour, day of month, month, day of week), or six with the second first.',
    );
    return hints;
  }
  if (count === 6) {
    hints.push('Six fields: the first is the second.');
  }
  const all = fields.map((field, i) => read(field, i));
  const [, minutes, hours, days, monthsOf, week] = all;
  if (!minutes || !hours || !days || !monthsOf || !week) {
    return hints;
  }
  for (const [i, field] of fields.entries()) {
    const step = /^\*\/(\d{1,2})$/.exec(field);
    const size = [60, 60, 24][i];
    if (step && size && Number(step[1]) > 0 && size % Number(step[1]) !== 0) {
      hints.push(
        `${field} counts anew in each ${['minute', 'hour', 'day'][i]}: the last gap is shorter than the others.`,
      );
    }
  }
  if (!days.wild && !week.wild) {
    hints.push('Both days are stated: it is enough that one of them matches.');
  }
  if (!days.wild && days.words.length === 0 && days.members.length > 0 && Math.min(...days.members) > 28) {
    hints.push('Months without that day are skipped. L is the last day of each month.');
  }
  if (all.some((field) => field?.hashed)) {
    hints.push('H is drawn from the id of the job: the preview shows other times than the job will have.');
  }
  if (zone !== 'UTC' && !minutes.wild && !hours.wild && hours.members.some((h) => h <= 3)) {
    hints.push('Clocks change at night: see below what becomes of times that do not exist or occur twice.');
  }
  return hints;
}
