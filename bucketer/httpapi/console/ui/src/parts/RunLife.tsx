// The life of a run as a bar, with its moments below.

import type { Run } from '../api/types';
import { now, serverNow } from '../clock';
import { lifeOf, type Stretch } from '../life';
import { hasEnded } from '../runs';
import { spanText } from '../time';
import { lookOf } from './StateBadge';
import { TimeLabel } from './TimeLabel';

export function LifeBar({ run }: { run: Run }) {
  // It moves while it is not over.
  const at = hasEnded(run) ? serverNow() : now.value;
  const life = lifeOf(run, at);
  const whole = life.end - life.begin;
  const place = (t: number): number => ((t - life.begin) / whole) * 100;
  return (
    <div class="life">
      <div class="life-bar" aria-hidden="true">
        {life.stretches.map((s, i) => (
          <span
            key={i}
            class={`life-stretch ${s.kind} ${s.open ? 'open' : ''} tone-${toneOf(s, run)}`}
            style={{ left: `${place(s.from)}%`, width: `${Math.max(place(s.to) - place(s.from), 0.4)}%` }}
            title={titleOf(s)}
          />
        ))}
      </div>
      <ol class="life-moments">
        {life.moments.map((m, i) => {
          const before = life.moments[i - 1];
          return (
            <li key={i} class={m.expected ? 'muted' : undefined}>
              <TimeLabel at={m.at} millis />
              <span class={m.tone ? `toned tone-${lookOf(m.tone).tone}` : undefined}>
                {m.words}
                {m.expected ? ' (expected)' : ''}
              </span>
              <span class="muted">{before ? `${spanText(m.at - before.at)} later` : ''}</span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function toneOf(s: Stretch, run: Run): string {
  if (s.kind === 'attempt') {
    return lookOf(s.outcome ?? 'running').tone;
  }
  if (['wait', 'queued', 'received'].includes(s.kind) && s.to - s.from > 1000) {
    return run.waiting ? 'warn' : 'bad';
  }
  return 'still';
}

function titleOf(s: Stretch): string {
  const words = {
    ahead: 'until it is due',
    wait: 'waited',
    queued: 'published, until an executor received it',
    received: 'with an executor, until it began',
    attempt: `attempt ${s.number}`,
    pause: 'pause',
  }[s.kind];
  return `${words}: ${spanText(s.to - s.from)}`;
}
