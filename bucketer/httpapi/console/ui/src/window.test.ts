import { describe, expect, it } from 'vitest';
import { minuteWindow, windowOf } from './window';

const now = Date.parse('2026-11-26T03:10:30.000Z');
const iso = (w: { from: Date; to: Date }): string[] => [w.from.toISOString(), w.to.toISOString()];

describe('windowOf', () => {
  it('is the last quarter of an hour unless asked otherwise', () => {
    expect(iso(windowOf({ from: '', to: '', last: '' }, now))).toEqual(['2026-11-26T02:55:30.000Z', '2026-11-26T03:10:31.000Z']);
    expect(windowOf({ from: '', to: '', last: 'x' }, now).moves).toBe(true);
  });
  it('may lie ahead', () => {
    expect(iso(windowOf({ from: '', to: '', last: '-1h' }, now))).toEqual(['2026-11-26T03:10:30.000Z', '2026-11-26T04:10:30.000Z']);
  });
  it('takes stated ends, and never more than the API does', () => {
    const w = windowOf({ from: '2026-11-25T00:00:00Z', to: '2026-11-28T00:00:00Z', last: '1h' }, now);
    expect(iso(w)).toEqual(['2026-11-25T00:00:00.000Z', '2026-11-26T00:00:00.000Z']);
    expect(w.moves).toBe(false);
    const day = windowOf({ from: '', to: '', last: '24h' }, now);
    expect(day.to.getTime() - day.from.getTime()).toBeLessThanOrEqual(86_400_000);
  });
  it('does without ends that make no sense', () => {
    expect(windowOf({ from: '2026-11-25T00:00:00Z', to: '2026-11-24T00:00:00Z', last: '' }, now).moves).toBe(true);
  });
  it('knows a minute', () => {
    expect(minuteWindow(now)).toEqual({ from: '2026-11-26T03:10:00.000Z', to: '2026-11-26T03:11:00.000Z' });
  });
});
