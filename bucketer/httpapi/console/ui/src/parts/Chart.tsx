// The one chart: values over time, on a canvas. It is drawn here and not by a library: what is needed
// are lines, areas and bars over one axis of time, and libraries for that weigh more than all views of
// the console that have no chart.

import { signal, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { serverNow } from '../clock';
import { viewerZone } from '../preferences';
import { ticksOf, timeTicks } from '../scale';
import { timeText } from '../time';
import { number, shortNumber } from '../words';
import { colourOf, colourVersion, faded } from './colours';
import { Figure } from './Figure';

export interface ChartSeries {
  label: string;
  /** As many as there are times; null where nothing is known. */
  values: readonly (number | null)[];
  /** A colour of tokens.css, such as "--run". */
  colour: string;
  kind: 'area' | 'line' | 'bars' | 'dashed';
}

export interface ChartProps {
  caption: string;
  /** In ms, rising, evenly apart. */
  times: readonly number[];
  series: readonly ChartSeries[];
  height?: number;
  /** An instant at which a line stands: now. */
  mark?: number | undefined;
  /** Where a time leads, and where a value of a series at it does: in the drawing and in the table. */
  hrefAt?: (index: number, series?: number) => string | undefined;
  /** Charts with the same key move their cursors together. */
  sync?: string;
  format?: (value: number) => string;
}

/** Which index is pointed at, by the key of charts that move together. */
const cursors = new Map<string, Signal<number | null>>();

function cursorOf(key: string | undefined): Signal<number | null> {
  if (key === undefined) {
    return signal(null);
  }
  const known = cursors.get(key) ?? signal(null);
  cursors.set(key, known);
  return known;
}

const left = 46;
const right = 8;
const top = 8;
const bottom = 20;

export function Chart(props: ChartProps) {
  const { caption, times, series, height = 160, mark, hrefAt, sync, format = number } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const cursor = useMemo(() => cursorOf(sync), [sync]);
  const zone = viewerZone.value;
  const colours = colourVersion();

  useEffect(() => {
    const element = canvas.current;
    if (!element) {
      return undefined;
    }
    const redraw = (): void => draw(element, { times, series, mark, zone, height, at: cursor.peek() });
    const resized = new ResizeObserver(redraw);
    resized.observe(element);
    const stop = cursor.subscribe(redraw);
    return () => {
      resized.disconnect();
      stop();
    };
  }, [times, series, mark, zone, colours, height, cursor]);

  const indexAt = (e: MouseEvent): number | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || times.length === 0) {
      return null;
    }
    const share = (e.clientX - box.left - left) / (box.width - left - right);
    const i = Math.floor(share * times.length);
    return i >= 0 && i < times.length ? i : null;
  };

  return (
    <Figure
      caption={caption}
      legend={<Legend series={series} times={times} cursor={cursor} zone={zone} format={format} />}
      table={() => (
        <ChartTable caption={caption} times={times} series={series} zone={zone} format={format} hrefAt={hrefAt} />
      )}
    >
      <canvas
        ref={canvas}
        class={`chart ${hrefAt ? 'pickable' : ''}`}
        style={{ height: `${height}px` }}
        aria-hidden="true"
        onMouseMove={(e) => {
          cursor.value = indexAt(e);
        }}
        onMouseLeave={() => {
          cursor.value = null;
        }}
        onClick={(e) => {
          const i = indexAt(e);
          const to = i === null ? undefined : hrefAt?.(i, nearest(series, i, height, e.offsetY));
          if (to !== undefined) {
            location.hash = to;
          }
        }}
      />
    </Figure>
  );
}

interface Drawing {
  times: readonly number[];
  series: readonly ChartSeries[];
  mark: number | undefined;
  zone: string;
  height: number;
  at: number | null;
}

function draw(element: HTMLCanvasElement, { times, series, mark, zone, height, at }: Drawing): void {
  const context = element.getContext('2d');
  const width = element.clientWidth;
  const [first, second] = times;
  if (!context || width === 0 || first === undefined) {
    return;
  }
  const ratio = devicePixelRatio;
  element.width = Math.round(width * ratio);
  element.height = Math.round(height * ratio);
  context.scale(ratio, ratio);
  const parent = element.parentElement ?? element;
  const [muted, line, ground] = ['--muted', '--line', '--surface'].map((name) => colourOf(parent, name)) as [
    string,
    string,
    string,
  ];
  const { ticks, y } = axisOf(series, height);
  const slot = (width - left - right) / times.length;
  const step = (second ?? first + 60_000) - first;
  const x = (i: number): number => left + i * slot;

  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  context.lineWidth = 1;
  for (const tick of ticks) {
    context.fillStyle = line;
    context.fillRect(left, Math.round(y(tick)), width - left - right, 1);
    context.fillStyle = muted;
    context.fillText(shortNumber(tick), left - 6, y(tick));
  }
  context.textAlign = 'center';
  for (const tick of timeTicks(first, first + step * times.length, zone, (width - left) / 64)) {
    const at = x((tick.at - first) / step);
    context.fillStyle = line;
    context.fillRect(Math.round(at), height - bottom, 1, 4);
    if (at > left + 8 && at < width - right - 12) {
      context.fillStyle = muted;
      context.fillText(tick.text, at, height - bottom / 2 + 3);
    }
  }
  for (const s of series) {
    const colour = colourOf(parent, s.colour);
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.setLineDash(s.kind === 'dashed' ? [4, 3] : []);
    if (s.kind === 'bars') {
      context.fillStyle = faded(colour, 0.85);
      for (const [i, value] of s.values.entries()) {
        if (value) {
          context.fillRect(x(i) + slot * 0.1, y(value), Math.max(slot * 0.8, 1.5), y(0) - y(value));
        }
      }
      continue;
    }
    for (const [from, to] of stretches(s.values)) {
      context.beginPath();
      for (let i = from; i < to; i++) {
        const value = s.values[i] ?? 0;
        if (s.kind === 'line') {
          context.lineTo(x(i) + slot / 2, y(value));
        } else {
          context.lineTo(x(i), y(value));
          context.lineTo(x(i + 1), y(value));
        }
      }
      context.stroke();
      if (s.kind !== 'line') {
        context.lineTo(x(to), y(0));
        context.lineTo(x(from), y(0));
        context.fillStyle = faded(colour, s.kind === 'area' ? 0.2 : 0.07);
        context.fill();
      }
    }
  }
  context.setLineDash([]);
  context.fillStyle = muted;
  context.fillRect(left, Math.round(y(0)), width - left - right, 1);
  const upright = (at: number): void => {
    context.beginPath();
    context.moveTo(at, top);
    context.lineTo(at, height - bottom);
    context.stroke();
  };
  context.strokeStyle = muted;
  context.lineWidth = 1;
  if (mark !== undefined) {
    context.setLineDash([2, 3]);
    upright(x((mark - first) / step));
    context.setLineDash([]);
  }
  if (at !== null && at < times.length) {
    upright(x(at) + slot / 2);
    for (const s of series) {
      const value = s.values[at];
      if (value !== null && value !== undefined) {
        context.beginPath();
        context.arc(x(at) + slot / 2, y(value), 3.5, 0, 2 * Math.PI);
        context.fillStyle = colourOf(parent, s.colour);
        context.fill();
        context.strokeStyle = ground;
        context.stroke();
        context.strokeStyle = muted;
      }
    }
  }
}

/** The axis of values: its marks, and how far down a value stands. */
function axisOf(series: readonly ChartSeries[], height: number): { ticks: number[]; y: (value: number) => number } {
  const most = Math.max(1, ...series.flatMap((s) => s.values.map((v) => v ?? 0)));
  const ticks = ticksOf(most, Math.max(2, Math.floor((height - top - bottom) / 34)));
  const high = Math.max(most, ticks.at(-1) ?? 1) * 1.04;
  return { ticks, y: (value) => top + (1 - value / high) * (height - top - bottom) };
}

/** The series whose value at a time is drawn nearest to where a person points; undefined: all are 0. */
function nearest(series: readonly ChartSeries[], index: number, height: number, pointed: number): number | undefined {
  const { y } = axisOf(series, height);
  const away = (n: number): number => Math.abs(y(series[n]?.values[index] ?? 0) - pointed);
  const drawn = series.map((_, n) => n).filter((n) => (series[n]?.values[index] ?? 0) > 0);
  return drawn.sort((a, b) => away(a) - away(b))[0];
}

/** The stretches [from, to) in which something is known. */
function stretches(values: readonly (number | null)[]): [number, number][] {
  const out: [number, number][] = [];
  let from = -1;
  for (const [i, value] of values.entries()) {
    if (value !== null && from < 0) {
      from = i;
    } else if (value === null && from >= 0) {
      out.push([from, i]);
      from = -1;
    }
  }
  if (from >= 0) {
    out.push([from, values.length]);
  }
  return out;
}

function Legend(props: {
  series: readonly ChartSeries[];
  times: readonly number[];
  cursor: Signal<number | null>;
  zone: string;
  format: (value: number) => string;
}) {
  const { series, times, cursor, zone, format } = props;
  const i = cursor.value;
  const at = i === null ? undefined : times[i];
  return (
    <div class="legend" aria-hidden="true">
      {series.map((s) => {
        const value = i === null ? undefined : s.values[i];
        return (
          <span key={s.label} class="legend-item">
            <Swatch series={s} />
            {s.label}
            {value !== undefined && value !== null && <strong>{format(value)}</strong>}
          </span>
        );
      })}
      <span class="legend-time">
        {at === undefined ? `times of ${zone}` : timeText(at, zone, { now: serverNow(), short: true })}
      </span>
    </div>
  );
}

/** A piece of the series as it is drawn: its form tells it apart where its colour does not. */
function Swatch({ series }: { series: ChartSeries }) {
  const style = { color: `var(${series.colour})` };
  return (
    <svg class="swatch" width="18" height="10" viewBox="0 0 18 10" style={style} aria-hidden="true">
      {series.kind === 'bars' && <path d="M2 10V4h3v6zM7.5 10V1h3v9zM13 10V6h3v4z" fill="currentColor" />}
      {series.kind === 'area' && <path d="M0 10V5l5-3 6 3 7-4v9z" fill="currentColor" />}
      {series.kind === 'line' && <path d="M0 7l6-4 5 3 7-5" fill="none" stroke="currentColor" stroke-width="2" />}
      {series.kind === 'dashed' && (
        <path d="M0 5h18" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="4 3" />
      )}
    </svg>
  );
}

function ChartTable(props: {
  caption: string;
  times: readonly number[];
  series: readonly ChartSeries[];
  zone: string;
  format: (value: number) => string;
  hrefAt?: ChartProps['hrefAt'] | undefined;
}) {
  const { caption, times, series, zone, format, hrefAt } = props;
  const rows = times
    .map((at, i) => ({ at, i }))
    .filter(({ i }) => series.some((s) => (s.values[i] ?? 0) !== 0))
    .reverse();
  return (
    <div class="table-box scroll" tabIndex={0} role="region" aria-label={`${caption}, as a table`}>
      <table>
        <caption class="hidden">{caption}, the latest first. Minutes in which nothing was are left out.</caption>
        <thead>
          <tr>
            <th scope="col">Minute</th>
            {series.map((s) => (
              <th key={s.label} scope="col" class="number">
                {s.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ at, i }) => {
            const text = timeText(at, zone, { now: serverNow(), short: true });
            const to = hrefAt?.(i);
            return (
              <tr key={at}>
                <th scope="row">{to === undefined ? text : <a href={to}>{text}</a>}</th>
                {series.map((s, n) => {
                  const value = s.values[i];
                  const words = value === undefined || value === null ? '–' : format(value);
                  const leads = value ? hrefAt?.(i, n) : undefined;
                  return (
                    <td key={s.label} class="number">
                      {leads === undefined ? words : <a href={leads}>{words}</a>}
                    </td>
                  );
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
