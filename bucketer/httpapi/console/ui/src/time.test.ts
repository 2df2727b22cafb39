import { describe, expect, it } from 'vitest';
import {
  clockChanges,
  clockChangeText,
  coarse,
  durationText,
  inputText,
  instantOf,
  labelOf,
  offsetWords,
  parseSpan,
  relativeText,
  spanText,
  timeText,
} from './time';

const berlin = 'Europe/Berlin';

describe('labels over changes of the clock', () => {
  // Berlin, 2027-03-28: 01:59:59 +01:00 is followed by 03:00:00 +02:00.
  it.each([
    ['2027-03-28T00:59:59.000Z', '01:59:59', '+01:00'],
    ['2027-03-28T01:00:00.000Z', '03:00:00', '+02:00'],
    // 2027-10-31: 02:30 is there twice.
    ['2027-10-31T00:30:00.000Z', '02:30:00', '+02:00'],
    ['2027-10-31T01:30:00.000Z', '02:30:00', '+01:00'],
  ])('%s in Berlin', (at, clock, offset) => {
    const label = labelOf(at, berlin);
    expect([label.clock, label.offset]).toEqual([clock, offset]);
  });

  it.each([
    ['2027-01-01T00:00:00.000Z', 'UTC', 'UTC'],
    ['2027-01-01T00:00:00.000Z', 'Asia/Kathmandu', '+05:45'],
    ['2027-01-01T00:00:00.000Z', 'America/St_Johns', '−03:30'],
    ['2027-07-01T00:00:00.000Z', 'America/New_York', '−04:00'],
  ])('the offset of %s in %s is %s', (at, zone, offset) => {
    expect(offsetWords(at, zone)).toBe(offset);
  });

  it('leaves out the day of today, and the year of this year', () => {
    const now = '2026-11-26T09:00:00.000Z';
    expect(timeText('2026-11-26T09:30:05.120Z', berlin, { now })).toBe('10:30:05 +01:00');
    expect(timeText('2026-11-27T09:30:05.120Z', berlin, { now })).toBe('27 Nov 10:30:05 +01:00');
    expect(timeText('2027-01-02T09:30:05.120Z', 'UTC', { now })).toBe('2 Jan 2027 09:30:05 UTC');
    // Today is that of the zone: 23:30 UTC is tomorrow in Berlin.
    expect(timeText('2026-11-26T23:30:00.000Z', berlin, { now })).toBe('27 Nov 00:30:00 +01:00');
  });

  it('shows milliseconds and weekdays if it is asked to', () => {
    expect(timeText('2026-11-26T09:30:05.120Z', 'UTC', { millis: true })).toBe('26 Nov 2026 09:30:05.120 UTC');
    expect(labelOf('2026-11-26T09:30:00.000Z', 'UTC', { weekday: true }).day).toBe('Thu 26 Nov 2026');
    expect(labelOf('2026-11-26T09:30:00.000Z', 'UTC', { short: true }).clock).toBe('09:30');
    expect(labelOf('2026-11-26T09:30:07.000Z', 'UTC', { short: true }).clock).toBe('09:30:07');
  });

  it('knows times before 1970 and midnight', () => {
    expect(timeText('1969-12-31T23:59:59.900Z', 'UTC', { millis: true })).toBe('31 Dec 1969 23:59:59.900 UTC');
    expect(labelOf('2026-11-26T00:00:00.000Z', 'UTC').clock).toBe('00:00:00');
  });
});

describe('clockChanges', () => {
  it('finds the changes of a year in Berlin', () => {
    const changes = clockChanges('2027-01-01T00:00:00Z', '2028-01-01T00:00:00Z', berlin);
    expect(changes.map((c) => [c.at.toISOString(), c.kind, c.from, c.to, c.before, c.after])).toEqual([
      ['2027-03-28T01:00:00.000Z', 'gap', '02:00', '03:00', '+01:00', '+02:00'],
      ['2027-10-31T01:00:00.000Z', 'overlap', '02:00', '03:00', '+02:00', '+01:00'],
    ]);
  });
  it('finds none in UTC, and none outside of the stretch', () => {
    expect(clockChanges('2027-01-01T00:00:00Z', '2028-01-01T00:00:00Z', 'UTC')).toEqual([]);
    expect(clockChanges('2027-03-28T01:00:00Z', '2027-10-31T01:00:00Z', berlin)).toEqual([]);
  });
  it('says what they do', () => {
    const [gap, overlap] = clockChanges('2027-01-01T00:00:00Z', '2028-01-01T00:00:00Z', berlin);
    expect(gap && clockChangeText(gap, berlin)).toBe(
      'On 28 Mar 2027 the clock of Europe/Berlin goes from 02:00 to 03:00: times between them do not exist.',
    );
    expect(overlap && clockChangeText(overlap, berlin)).toBe(
      'On 31 Oct 2027 the clock of Europe/Berlin goes back from 03:00 to 02:00: times between them occur twice.',
    );
  });
  it('knows half hours', () => {
    const [change] = clockChanges('2027-03-01T00:00:00Z', '2027-05-01T00:00:00Z', 'Australia/Lord_Howe');
    expect([change?.kind, change?.from, change?.to]).toEqual(['overlap', '01:30', '02:00']);
  });
});

describe('instantOf', () => {
  it.each([
    ['2027-06-01T09:00', berlin, '2027-06-01T07:00:00.000Z'],
    ['2027-01-01T09:00:30', berlin, '2027-01-01T08:00:30.000Z'],
    ['2027-01-01T09:00', 'UTC', '2027-01-01T09:00:00.000Z'],
    ['2027-01-01T09:00:00.25', 'UTC', '2027-01-01T09:00:00.250Z'],
    ['2027-03-28T03:00', berlin, '2027-03-28T01:00:00.000Z'],
  ])('%s in %s', (text, zone, at) => {
    expect(instantOf(text, zone)?.toISOString()).toBe(at);
  });
  it('is read back as it was shown', () => {
    for (const at of ['2027-10-31T03:30:00.000Z', '2027-03-28T00:30:00.000Z', '2026-11-26T09:30:05.120Z']) {
      expect(instantOf(inputText(at, berlin), berlin)?.toISOString()).toBe(at);
    }
  });
  it.each(['', '2027', 'tomorrow', '2027-13-01'])('%s is none', (text) => {
    expect(instantOf(text, 'UTC')).toBeUndefined();
  });
});

describe('spans', () => {
  it.each([
    ['1m30s', 90_000],
    ['1h0m0s', 3_600_000],
    ['250ms', 250],
    ['1.5s', 1500],
    ['-10m', -600_000],
    ['0s', 0],
    ['0', 0],
    ['1d', undefined],
    ['', undefined],
    ['10', undefined],
  ])('%s is %s ms', (text, ms) => {
    expect(parseSpan(text)).toBe(ms);
  });
  it.each([
    ['2m0s', '2 min'],
    ['1h30m0s', '1 h 30 min'],
    ['24h0m0s', '1 d'],
    ['250ms', '250 ms'],
    ['1.5s', '1.5 s'],
    ['0s', 'none'],
  ])('%s in words is %s', (text, words) => {
    expect(durationText(text)).toBe(words);
  });
  it.each([
    [0, '0 ms'],
    [0.42, '0.4 ms'],
    [1.25, '1.3 ms'],
    [12, '12 ms'],
    [999.6, '1.00 s'],
    [1234, '1.23 s'],
    [12_340, '12.3 s'],
    [125_000, '2 min 5 s'],
    [7_260_000, '2 h 1 min'],
    [-1500, '−1.50 s'],
  ])('%s ms is %s', (ms, text) => {
    expect(spanText(ms)).toBe(text);
  });
  it('is coarse', () => {
    expect(coarse(90 * 60_000)).toBe('1 h 30 min');
    expect(coarse(26 * 3_600_000)).toBe('1 d 2 h');
    expect(coarse(40 * 86_400_000)).toBe('40 d');
    expect(coarse(200)).toBe('0 s');
  });
  it('is relative to now', () => {
    const now = '2026-11-26T09:00:00.000Z';
    expect(relativeText('2026-11-26T09:00:12.000Z', now)).toBe('in 12 s');
    expect(relativeText('2026-11-26T08:57:00.000Z', now)).toBe('3 min ago');
    expect(relativeText('2026-11-26T09:00:00.500Z', now)).toBe('now');
  });
});
