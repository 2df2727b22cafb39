// Which stretch of due times a list of runs is of: by its ends, or as one that moves with now. Pure.

import { parseSpan } from './time';

export interface Window {
  from: Date;
  to: Date;
  /** It moves with now: the first page is always of now. */
  moves: boolean;
}

/** The longest window that the API takes, in ms. */
export const longestWindow = 86_400_000;

export const spans: readonly { value: string; text: string }[] = [
  { value: '5m', text: 'last 5 minutes' },
  { value: '15m', text: 'last 15 minutes' },
  { value: '1h', text: 'last hour' },
  { value: '6h', text: 'last 6 hours' },
  { value: '24h', text: 'last 24 hours' },
  { value: '-15m', text: 'next 15 minutes' },
  { value: '-1h', text: 'next hour' },
  { value: '-24h', text: 'next 24 hours' },
];

/** What is shown if nothing is asked for. */
export const usualSpan = '15m';

/** What a list offers and takes that is not of runs. */
export interface WindowChoices {
  spans: readonly { value: string; text: string }[];
  usual: string;
  /** In ms. */
  longest: number;
}

const ofRuns: WindowChoices = { spans, usual: usualSpan, longest: longestWindow };

/**
 * The window of an address: from and to, or last=15m ("-1h": the next hour). Runs that are due in this
 * second belong to "last", so it ends a little after now.
 */
export function windowOf(
  query: { from: string; to: string; last: string },
  now: number,
  { usual, longest }: Pick<WindowChoices, 'usual' | 'longest'> = ofRuns,
): Window {
  const from = Date.parse(query.from);
  const to = Date.parse(query.to);
  if (!Number.isNaN(from) && !Number.isNaN(to) && to > from) {
    return { from: new Date(from), to: new Date(Math.min(to, from + longest)), moves: false };
  }
  const span = parseSpan(query.last) ?? parseSpan(usual) ?? 0;
  const bounded = Math.min(Math.abs(span), longest - 2000) || 900_000;
  return span < 0
    ? { from: new Date(now), to: new Date(now + bounded), moves: true }
    : { from: new Date(now - bounded), to: new Date(now + 1000), moves: true };
}

/** The window of a minute. */
export function minuteWindow(at: number): { from: string; to: string } {
  const begin = Math.floor(at / 60_000) * 60_000;
  return { from: new Date(begin).toISOString(), to: new Date(begin + 60_000).toISOString() };
}
