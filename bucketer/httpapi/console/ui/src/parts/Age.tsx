// How old an answer is, and red when it is older than it should be.

import { localNow } from '../clock';
import { isStale, liveOn, type Live } from '../api/live';
import { coarse } from '../time';

export function Age({ live, every, held = false }: { live: Live<unknown>; every: number; held?: boolean }) {
  if (live.at === undefined) {
    return null;
  }
  const age = Math.max(0, localNow.value - live.at);
  const stale = every > 0 && isStale(live.at, every, localNow.value);
  const words = age < 1500 ? 'now' : `${coarse(age)} ago`;
  if (held || !liveOn.value) {
    return <span class="age held">held still, {words}</span>;
  }
  return stale ? <span class="age stale">not up to date: {words}</span> : <span class="age">{words}</span>;
}
