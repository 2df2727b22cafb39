// The time of now. Spans and ages are counted by the server's clock, since that of the browser may be
// wrong by hours.

import { computed, signal } from '@preact/signals';

/** How far the server's clock is ahead of this browser's, in ms. */
export const clockOffset = signal(0);

/** A browser whose clock is wrong by more is told so, in ms. */
export const clockTolerance = 5000;

export const clockWrong = computed(() => Math.abs(clockOffset.value) > clockTolerance);

/** Notes the server's time in an answer that was asked for and came at those times here. */
export function noteServerTime(server: number, sent: number, received: number): void {
  const offset = server - (sent + received) / 2;
  // Slow answers say little, and a shift of less than the way takes is none.
  if (Math.abs(offset - clockOffset.peek()) > (received - sent) / 2 + 50) {
    clockOffset.value = offset;
  }
}

/** The server's time now, in ms. For event handlers; views read `now`, which ticks. */
export function serverNow(): number {
  return Date.now() + clockOffset.peek();
}

const ticks = signal(Date.now());
setInterval(() => {
  if (!document.hidden) {
    ticks.value = Date.now();
  }
}, 1000);
document.addEventListener('visibilitychange', () => {
  ticks.value = Date.now();
});

/** The server's time, every second. What reads it in a view is drawn anew each second. */
export const now = computed(() => ticks.value + clockOffset.value);

/** This browser's time, every second: for ages of what came at Date.now(). */
export const localNow = computed(() => ticks.value);
