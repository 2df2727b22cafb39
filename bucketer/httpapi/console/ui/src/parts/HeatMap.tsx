// Counts by minute and class, on a canvas: the darker a field, the more. Fields of classes that are late
// have another colour, and a frame, so that one late start is seen among thousands on time.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { serverNow } from '../clock';
import { viewerZone } from '../preferences';
import { timeTicks } from '../scale';
import { timeText } from '../time';
import { count as countOf, number } from '../words';
import { colourOf, colourVersion, faded } from './colours';
import { Figure } from './Figure';

export interface HeatMapProps {
  caption: string;
  /** The minutes, in ms, rising. */
  times: readonly number[];
  /** The classes, from below to above. */
  rows: readonly { label: string; late: boolean }[];
  /** By time, then by row. */
  counts: readonly (readonly number[])[];
  /** What is counted, in one word: "start". */
  one: string;
  /** Where a field leads. */
  hrefAt?: (time: number, row: number) => string | undefined;
  rowHeight?: number;
}

const left = 62;
const bottom = 20;

export function HeatMap(props: HeatMapProps) {
  const { caption, times, rows, counts, one, hrefAt, rowHeight = 16 } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const hovered = useSignal<{ time: number; row: number } | null>(null);
  const zone = viewerZone.value;
  const colours = colourVersion();
  const height = rows.length * rowHeight + bottom;

  useEffect(() => {
    const element = canvas.current;
    if (!element) {
      return undefined;
    }
    const redraw = (): void => draw(element, latest.current, zone, rowHeight, hovered.peek());
    const resized = new ResizeObserver(redraw);
    resized.observe(element);
    redraw();
    const stop = hovered.subscribe(redraw);
    return () => {
      resized.disconnect();
      stop();
    };
  }, [zone, colours, rowHeight, rows, times, counts]);

  const fieldAt = (e: MouseEvent): { time: number; row: number } | null => {
    const element = canvas.current;
    if (!element || times.length === 0) {
      return null;
    }
    const box = element.getBoundingClientRect();
    const x = e.clientX - box.left - left;
    const y = e.clientY - box.top;
    const time = Math.floor((x / (box.width - left)) * times.length);
    const row = rows.length - 1 - Math.floor(y / rowHeight);
    return time >= 0 && time < times.length && row >= 0 && row < rows.length ? { time, row } : null;
  };
  const field = hovered.value;
  const at = field ? times[field.time] : undefined;

  return (
    <Figure
      caption={caption}
      legend={
        <p class="legend" aria-hidden="true">
          {field && at !== undefined
            ? `${timeText(at, zone, { now: serverNow(), short: true })}, ${rows[field.row]?.label}: ${countOf(counts[field.time]?.[field.row] ?? 0, one)}`
            : `Point at a field to read it; click it for its runs. Times of ${zone}.`}
        </p>
      }
      table={() => <HeatTable {...props} zone={zone} />}
    >
      <canvas
        ref={canvas}
        class={`heat-map ${field && hrefAt && (counts[field.time]?.[field.row] ?? 0) > 0 ? 'pickable' : ''}`}
        style={{ height: `${height}px` }}
        aria-hidden="true"
        onMouseMove={(e) => {
          hovered.value = fieldAt(e);
        }}
        onMouseLeave={() => {
          hovered.value = null;
        }}
        onClick={(e) => {
          const picked = fieldAt(e);
          const to =
            picked && (counts[picked.time]?.[picked.row] ?? 0) > 0 ? hrefAt?.(picked.time, picked.row) : undefined;
          if (to !== undefined) {
            location.hash = to;
          }
        }}
      />
    </Figure>
  );
}

function draw(
  element: HTMLCanvasElement,
  { times, rows, counts }: HeatMapProps,
  zone: string,
  rowHeight: number,
  hovered: { time: number; row: number } | null,
): void {
  const context = element.getContext('2d');
  const width = element.clientWidth;
  if (!context || width === 0) {
    return;
  }
  const ratio = devicePixelRatio;
  const height = rows.length * rowHeight + bottom;
  element.width = Math.round(width * ratio);
  element.height = Math.round(height * ratio);
  context.scale(ratio, ratio);
  const parent = element.parentElement ?? element;
  const good = colourOf(parent, '--heat');
  const late = colourOf(parent, '--bad');
  const muted = colourOf(parent, '--muted');
  const line = colourOf(parent, '--line');
  const text = colourOf(parent, '--text');
  const most = Math.max(1, ...counts.flat());
  const field = (width - left) / Math.max(times.length, 1);

  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  for (const [row, { label }] of rows.entries()) {
    const y = (rows.length - 1 - row) * rowHeight;
    context.fillStyle = muted;
    context.textAlign = 'right';
    context.fillText(label, left - 6, y + rowHeight / 2);
    context.fillStyle = faded(line, 0.6);
    context.fillRect(left, y + rowHeight - 1, width - left, 1);
  }
  for (const [time, column] of counts.entries()) {
    for (const [row, n] of column.entries()) {
      if (n === 0) {
        continue;
      }
      const isLate = rows[row]?.late === true;
      // By its logarithm: between one and a hundred thousand there is something to see.
      const strength = 0.18 + 0.82 * (most === 1 ? 1 : Math.log(1 + n) / Math.log(1 + most));
      const x = left + time * field;
      const y = (rows.length - 1 - row) * rowHeight;
      const w = Math.max(field - (field > 4 ? 1 : 0), 1);
      context.fillStyle = faded(isLate ? late : good, isLate ? Math.max(strength, 0.55) : strength);
      context.fillRect(x, y, w, rowHeight - 1);
      if (isLate && field > 5) {
        context.strokeStyle = late;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, w - 1, rowHeight - 2);
      }
    }
  }
  const firstLate = rows.findIndex((r) => r.late);
  if (firstLate > 0) {
    const y = (rows.length - firstLate) * rowHeight - 0.5;
    context.strokeStyle = late;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(width, y);
    context.stroke();
    context.setLineDash([]);
  }
  if (hovered) {
    context.strokeStyle = text;
    context.lineWidth = 1.5;
    context.strokeRect(
      left + hovered.time * field,
      (rows.length - 1 - hovered.row) * rowHeight,
      Math.max(field, 3),
      rowHeight,
    );
  }
  context.fillStyle = muted;
  context.textAlign = 'center';
  const [first, second] = times;
  if (first !== undefined && second !== undefined) {
    const step = second - first;
    for (const tick of timeTicks(first, first + step * times.length, zone, (width - left) / 64)) {
      const x = left + ((tick.at - first) / step) * field;
      if (x > left + 8 && x < width - 16) {
        context.fillText(tick.text, x, rows.length * rowHeight + bottom / 2 + 2);
      }
    }
  }
}

function HeatTable({ caption, times, rows, counts, hrefAt, zone }: HeatMapProps & { zone: string }) {
  const shown = times.map((at, i) => ({ at, i })).filter(({ i }) => counts[i]?.some((n) => n > 0));
  const used = rows.map((r, row) => ({ ...r, row })).filter(({ row }) => counts.some((c) => (c[row] ?? 0) > 0));
  return (
    <div class="table-box scroll" tabIndex={0} role="region" aria-label={`${caption}, as a table`}>
      <table>
        <caption class="hidden">
          {caption}, the latest first. Minutes and classes in which nothing was are left out.
        </caption>
        <thead>
          <tr>
            <th scope="col">Minute</th>
            {used.map((r) => (
              <th key={r.label} scope="col" class="number">
                {r.label}
                {r.late && <span class="hidden"> (late)</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.reverse().map(({ at, i }) => (
            <tr key={at}>
              <th scope="row">{timeText(at, zone, { now: serverNow(), short: true })}</th>
              {used.map((r) => {
                const n = counts[i]?.[r.row] ?? 0;
                const to = n > 0 ? hrefAt?.(i, r.row) : undefined;
                return (
                  <td key={r.label} class={`number ${r.late && n > 0 ? 'late' : ''}`}>
                    {to === undefined ? number(n) : <a href={to}>{number(n)}</a>}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
