// What lists of runs say of each: how late it started, how long it took, what is known of it.

import type { Run } from '../api/types';
import { serverNow } from '../clock';
import { lateFromMs } from '../lateness';
import { hasEnded, saidOf, tookMs } from '../runs';
import { spanText } from '../time';

function Nothing() {
  return <span class="muted">–</span>;
}

export function LateBy({ run }: { run: Run }) {
  if (run.lateness_ms !== undefined) {
    return <span class={run.lateness_ms > lateFromMs ? 'toned tone-bad' : undefined}>{spanText(run.lateness_ms)}</span>;
  }
  const waited = serverNow() - Date.parse(run.due_at);
  return run.state === 'pending' && waited > lateFromMs ? (
    <span class="toned tone-warn">{spanText(waited)} so far</span>
  ) : (
    <Nothing />
  );
}

export function Took({ run }: { run: Run }) {
  const ms = tookMs(run, serverNow());
  if (ms === undefined) {
    return <Nothing />;
  }
  return hasEnded(run) ? <>{spanText(ms)}</> : <span class="muted">{spanText(ms)} so far</span>;
}

/** Why it waits, failed or was given up; else what started it. */
export function Said({ run }: { run: Run }) {
  const text = saidOf(run, serverNow());
  return text === '' ? (
    <span class="muted">{run.trigger}</span>
  ) : (
    <span class="said" title={text}>
      <bdi>{text}</bdi>
    </span>
  );
}
