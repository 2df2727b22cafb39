// Marks on the axes of drawings. Pure.

import { wallOf } from './time';

/** Round values from 0 to about `most`, at most so many besides 0. */
export function ticksOf(most: number, count: number): number[] {
  const rough = most / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10) * power);
  const out: number[] = [];
  for (let tick = step; tick <= most; tick += step) {
    out.push(tick);
  }
  return out.length > 0 ? out : [step];
}

export interface TimeTick {
  at: number;
  /** "09:00", or "27 Nov" at midnight. */
  text: string;
}

const minute = 60_000;
/** How far marks may be apart, in minutes: all of them divide a day. */
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440];
const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Round times of a zone's clock in [from, to), at most about so many. */
export function timeTicks(from: number, to: number, zone: string, most: number): TimeTick[] {
  const span = (to - from) / minute;
  const step = steps.find((s) => span / s <= Math.max(most, 1)) ?? 1440;
  const out: TimeTick[] = [];
  // Quarters of an hour are round in every zone that is in use; minutes are where steps are smaller.
  const look = Math.min(step, 15) * minute;
  for (let at = Math.ceil(from / look) * look; at < to; at += look) {
    const w = wallOf(at, zone);
    const ofDay = w.hour * 60 + w.minute;
    if (ofDay % step === 0) {
      const clock = `${String(w.hour).padStart(2, '0')}:${String(w.minute).padStart(2, '0')}`;
      out.push({ at, text: ofDay === 0 && step >= 60 ? `${w.day} ${months[w.month - 1]}` : clock });
    }
  }
  return out;
}
