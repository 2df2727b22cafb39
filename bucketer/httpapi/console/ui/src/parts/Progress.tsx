// How far something has come: a bar, and the same in words beside it.

import { number } from '../words';

export interface ProgressPart {
  /** What it counts: "done". */
  name: string;
  n: number;
  tone: 'good' | 'bad' | 'run' | 'still' | 'warn';
}

export interface ProgressProps {
  label: string;
  parts: readonly ProgressPart[];
  /** How many there are in all; undefined: nobody knows yet. */
  of: number | undefined;
  /** That is an estimate. */
  about?: boolean;
}

export function Progress({ label, parts, of, about = false }: ProgressProps) {
  const sum = parts.reduce((n, p) => n + p.n, 0);
  const whole = Math.max(of ?? sum, sum, 1);
  const told = parts.filter((p) => p.n > 0);
  let x = 0;
  return (
    <div class="progress">
      <svg
        class="progress-bar"
        viewBox="0 0 1000 10"
        preserveAspectRatio="none"
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={of}
        aria-valuenow={of === undefined ? undefined : sum}
        aria-valuetext={`${told.map((p) => `${number(p.n)} ${p.name}`).join(', ') || 'nothing yet'}${of === undefined ? '' : ` of ${number(of)}`}`}
      >
        <rect class="progress-whole" width="1000" height="10" />
        {told.map((p) => {
          const w = (p.n / whole) * 1000;
          x += w;
          return <rect key={p.name} class={`progress-part tone-${p.tone}`} x={x - w} width={w} height="10" />;
        })}
      </svg>
      <p class="progress-words">
        {told.map((p) => (
          <span key={p.name} class={`tone-${p.tone}`}>
            <strong>{number(p.n)}</strong> {p.name}
          </span>
        ))}
        {told.length === 0 && <span class="muted">nothing yet</span>}
        {of !== undefined && (
          <span class="muted">
            of {about ? 'about ' : ''}
            {number(of)}
          </span>
        )}
      </p>
    </div>
  );
}
