import { describe, expect, it } from 'vitest';
import { bytes, count, everyWords, limitWords, percent, preemptedWords, rateWords, scheduleWords, shortNumber, spreadWords, uniqueWords, whyOf } from './words';

describe('scheduleWords', () => {
  it.each([
    [{ schedule: { cron: '0 9 * * MON-FRI', timezone: 'Europe/Berlin' } }, 'at 09:00 on Monday to Friday, Europe/Berlin time'],
    [{ schedule: { cron: '0 9 * * *', timezone: 'UTC' } }, 'at 09:00 every day, UTC'],
    [{ schedule: { cron: 'what ever it may be' } }, 'by cron what ever it may be, UTC'],
    [{ schedule: { every: '15m0s' } }, 'every 15 minutes'],
    [{ schedule: { at: '2026-11-26T09:00:00Z' } }, 'once'],
    [{ schedule: {}, on: { event: 'file.uploaded', filter: 'true', delay: '5s' } }, 'on the event file.uploaded, if it matches a filter, 5 s later'],
    [{ schedule: {}, after: { jobs: ['a', 'b'], when: 'all_done' } }, 'after a and b, when all have ended'],
    [{ schedule: {}, after: { jobs: ['a', 'b', 'c', 'd', 'e'], when: 'all_succeeded' } }, 'after a, b, c and 2 more, if all succeeded'],
    [{ schedule: {}, schedules: [{ cron: '0 9 * * *' }, { every: '1h0m0s' }] }, 'at 09:00 every day, UTC; and every hour'],
    [{}, 'when it is asked to'],
  ])('%j', (job, words) => {
    expect(scheduleWords(job)).toBe(words);
  });
});

describe('everyWords', () => {
  it.each([
    ['24h0m0s', 'every day'],
    ['48h0m0s', 'every 2 days'],
    ['1h0m0s', 'every hour'],
    ['1m30s', 'every 90 seconds'],
    ['250ms', 'every 250 milliseconds'],
    ['soon', 'every soon'],
  ])('%s', (every, words) => {
    expect(everyWords(every)).toBe(words);
  });
});

describe('limits', () => {
  it('say of what a key is', () => {
    expect(limitWords({ limit: 1 })).toBe('at most 1 run; further runs wait');
    expect(limitWords({ limit: 2, on_limit: 'skip', key: '/customer/id' })).toBe(
      'at most 2 runs for each value at /customer/id in the payload; further runs are skipped',
    );
  });
  it('say what makes two jobs the same, and for how long', () => {
    expect(uniqueWords({ by: ['task', 'payload/customer/id'], window: '1h0m0s' })).toBe('no other with the same task and payload/customer/id within 1 h');
    expect(uniqueWords({ by: ['task'], window: '1m30s' })).toBe('no other with the same task within 1 min 30 s');
  });
  it('say how often a run was pre-empted', () => {
    expect(preemptedWords(1)).toBe('1 time, to let a critical run start; that used no attempt');
    expect(preemptedWords(0)).toBeUndefined();
    expect(preemptedWords(undefined)).toBeUndefined();
  });
});

describe('numbers', () => {
  it.each([
    [0, '0'],
    [7.25, '7.3'],
    [950, '950'],
    [9999, '9,999'],
    [12_345, '12.3 k'],
    [123_456, '123 k'],
    [1_284_000, '1.28 M'],
  ])('%s is short %s', (n, text) => {
    expect(shortNumber(n)).toBe(text);
  });
  it.each([
    [0, 0, '–'],
    [0, 10, '0 %'],
    [10, 10, '100 %'],
    [99_999, 100_000, '> 99.9 %'],
    [1, 100_000, '< 0.1 %'],
    [1, 3, '33 %'],
    [995, 1000, '99.5 %'],
  ])('%s of %s is %s', (part, whole, text) => {
    expect(percent(part, whole)).toBe(text);
  });
  it('counts', () => {
    expect(count(1, 'run')).toBe('1 run');
    expect(count(1284, 'run')).toBe('1,284 runs');
    expect(count(2, 'entry', 'entries')).toBe('2 entries');
    expect(bytes(1536)).toBe('1.5 KiB');
    expect(bytes(12)).toBe('12 B');
  });
});

describe('whyOf', () => {
  it('reads the word, and knows what it means', () => {
    expect(whyOf('rate: the rate of its task is used up until then')).toEqual({
      word: 'rate',
      meaning: 'The rate of its task is used up.',
    });
  });
  it('shows what a newer node says', () => {
    expect(whyOf('moon: it waits for the moon')).toEqual({ word: 'moon', meaning: 'it waits for the moon' });
    expect(whyOf('no word of it')).toEqual({ word: '', meaning: 'no word of it' });
  });
});

it.each([
  ['1/m', '1 run a minute'],
  ['1000/h', '1,000 runs an hour'],
  ['10/s', '10 runs a second'],
  ['10/30s', '10/30s'],
])('the rate %s', (rate, want) => {
  expect(rateWords(rate)).toBe(want);
});

it('says what a jitter is for', () => {
  expect(spreadWords(7000)).toMatch(/^Each run is due 7\.00 s after the time of its schedule: .*jitter/);
});
