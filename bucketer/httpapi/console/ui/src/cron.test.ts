import { describe, expect, it } from 'vitest';
import { cronHints, cronWords, fieldHints } from './cron';

describe('cronWords', () => {
  // The words are those of the server (bucketer/schedule/describe.go), without the zone.
  it.each([
    ['0 9 * * MON-FRI', 'at 09:00 on Monday to Friday'],
    ['30 2 * * *', 'at 02:30 every day'],
    ['0 9,17 * * *', 'at 09:00 and 17:00 every day'],
    ['*/15 * * * *', 'every 15 minutes'],
    ['* * * * *', 'every minute'],
    ['0 * * * *', 'every hour'],
    ['0 */6 * * *', 'at 00:00, 06:00, 12:00 and 18:00 every day'],
    ['0 */2 * * *', 'every 2 hours'],
    ['*/10 * * * * *', 'every 10 seconds'],
    ['0 0 1 * *', 'at 00:00 on day 1 of the month'],
    ['0 0 1,15 * *', 'at 00:00 on day 1 and 15 of the month'],
    ['0 0 1 1 *', 'at 00:00 on day 1 of the month in January'],
    ['0 0 L * *', 'at 00:00 on the last day of the month'],
    ['0 0 * * FRI#3', 'at 00:00 on the third Friday of the month'],
    ['0 0 * * FRIL', 'at 00:00 on the last Friday of the month'],
    ['0 0 15W * *', 'at 00:00 on the working day nearest to day 15 of the month'],
    ['0 0 * * 0', 'at 00:00 on Sunday'],
    ['0 0 * * 7', 'at 00:00 on Sunday'],
    ['0 0 * * SAT,SUN', 'at 00:00 on Saturday and Sunday'],
    ['0 0 13 * FRI', 'at 00:00 on day 13 of the month, and on Friday'],
    ['0 22-2 * * *', 'at 00:00, 01:00, 02:00, 22:00 and 23:00 every day'],
    ['5,35 * * * *', 'at minute 5 and 35 of every hour'],
    ['0/20 * * * *', 'every 20 minutes'],
    ['* 9-17 * * MON-FRI', 'every minute of hour 9 to 17 on Monday to Friday'],
    ['0 0 * NOV-FEB *', 'at 00:00 every day in January, February, November and December'],
    ['@daily', 'at 00:00 every day'],
    ['@hourly', 'every hour'],
    ['H * * * *', 'every hour, at a minute drawn for the job'],
    ['H/15 * * * *', 'every 15 minutes, from a minute drawn for the job'],
    ['30 0 9 * * *', 'at 09:00:30 every day'],
  ])('%s', (cron, words) => {
    expect(cronWords(cron)).toBe(words);
  });

  it.each(['', '* * *', '61 * * * *', 'x 9 * * *', '0 9 * * FOO', '0 9 32 * *', '0 24 * * *', '@never'])(
    '%s is not understood',
    (cron) => {
      expect(cronWords(cron)).toBeUndefined();
    },
  );
});

describe('fieldHints', () => {
  it('names the fields of five and of six', () => {
    expect(fieldHints('0 9 * * 1').map((f) => f.name)).toEqual(['minute', 'hour', 'day of month', 'month', 'day of week']);
    expect(fieldHints('0 0 9 * * 1').map((f) => f.name)[0]).toBe('second');
  });
  it('says what cannot stand where it stands', () => {
    expect(fieldHints('0 25 * * *').map((f) => f.fault)).toEqual([
      undefined,
      '25 cannot stand as hour: 0 to 23',
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('cronHints', () => {
  it.each([
    ['0 9', 'UTC', '3 more: minute, hour, day of month, month, day of week.'],
    ['*/7 * * * *', 'UTC', '*/7 counts anew in each hour: the last gap is shorter than the others.'],
    ['0 0 13 * FRI', 'UTC', 'Both days are stated: it is enough that one of them matches.'],
    ['0 0 31 * *', 'UTC', 'Months without that day are skipped. L is the last day of each month.'],
    ['0 0 9 * * *', 'UTC', 'Six fields: the first is the second.'],
    ['TZ=Europe/Berlin 0 9 * * *', 'UTC', 'The time zone has a field of its own.'],
    ['@every 5m', 'UTC', 'For an interval choose “every”.'],
    ['30 2 * * *', 'Europe/Berlin', 'Clocks change at night: see below what becomes of times that do not exist or occur twice.'],
    ['H H * * *', 'UTC', 'H is drawn from the id of the job: the preview shows other times than the job will have.'],
  ])('%s in %s', (cron, zone, hint) => {
    expect(cronHints(cron, zone)).toContain(hint);
  });
  it.each([
    ['0 9 * * MON-FRI', 'Europe/Berlin'],
    ['*/15 * * * *', 'Europe/Berlin'],
    ['30 2 * * *', 'UTC'],
    ['', 'UTC'],
  ])('%s in %s surprises nobody', (cron, zone) => {
    expect(cronHints(cron, zone)).toEqual([]);
  });
});
