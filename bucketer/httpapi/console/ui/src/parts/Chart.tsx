// The one chart: values over time. uPlot draws it; the legend, the caption and the table are ours.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { viewerZone } from '../preferences';
import { timeText, wallOf } from '../time';
import { number } from '../words';
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
  /** In ms, rising. */
  times: readonly number[];
  series: readonly ChartSeries[];
  height?: number;
  /** An instant at which a line stands: now. */
  mark?: number | undefined;
  /** Where a click on a time leads, and the row of the table. */
  hrefAt?: (index: number) => string | undefined;
  /** Charts with the same key move their cursors together. */
  sync?: string;
  format?: (value: number) => string;
  /** Draw it on a scale on which small values are seen beside large ones. */
  log?: boolean;
}

const bars = uPlot.paths.bars?.({ size: [0.9, 14, 1] });
const steps = uPlot.paths.stepped?.({ align: 1 });

export function Chart(props: ChartProps) {
  const { caption, times, series, height = 160, hrefAt, format = number } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  const hovered = useSignal<number | null>(null);
  const zone = viewerZone.value;
  const colours = colourVersion();
  const form = series.map((s) => `${s.label} ${s.kind} ${s.colour}`).join('\n');

  useEffect(() => {
    const element = box.current;
    if (!element) {
      return undefined;
    }
    const made = new uPlot(optionsOf(element, latest, hovered, zone), dataOf(latest.current), element);
    plot.current = made;
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0) {
        made.setSize({ width: element.clientWidth, height: latest.current.height ?? 160 });
      }
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [zone, colours, form, height, props.sync, props.log]);

  useEffect(() => {
    plot.current?.setData(dataOf(props));
  }, [times, series]);

  return (
    <Figure
      caption={caption}
      legend={<Legend series={series} times={times} hovered={hovered.value} zone={zone} format={format} />}
      table={() => (
        <ChartTable caption={caption} times={times} series={series} zone={zone} format={format} hrefAt={hrefAt} />
      )}
    >
      <div class={`chart ${hrefAt ? 'pickable' : ''}`} ref={box} aria-hidden="true" />
    </Figure>
  );
}

function dataOf({ times, series }: ChartProps): uPlot.AlignedData {
  return [times.map((t) => t / 1000), ...series.map((s) => [...s.values])] as uPlot.AlignedData;
}

function optionsOf(
  element: HTMLElement,
  latest: { current: ChartProps },
  hovered: { value: number | null },
  zone: string,
): uPlot.Options {
  const props = latest.current;
  const axis: uPlot.Axis = {
    stroke: colourOf(element, '--muted'),
    grid: { stroke: colourOf(element, '--line'), width: 1 },
    ticks: { stroke: colourOf(element, '--line'), width: 1, size: 4 },
    font: '11px system-ui, sans-serif',
  };
  const markColour = colourOf(element, '--muted');
  return {
    width: Math.max(element.clientWidth, 200),
    height: props.height ?? 160,
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 6 },
      ...(props.sync === undefined ? {} : { sync: { key: props.sync } }),
    },
    padding: [8, 8, 0, 0],
    scales: {
      x: { time: true },
      y: { range: (_u, _low, high) => [0, Math.max(high ?? 0, 1) * 1.08], ...(props.log ? { distr: 4 as const } : {}) },
    },
    axes: [
      {
        ...axis,
        space: 60,
        values: (_u, splits) =>
          splits.map((s) => {
            const w = wallOf(s * 1000, zone);
            return `${String(w.hour).padStart(2, '0')}:${String(w.minute).padStart(2, '0')}`;
          }),
      },
      {
        ...axis,
        size: 46,
        space: 28,
        values: (_u, splits) => splits.map((v) => (v === null ? '' : (latest.current.format ?? number)(v))),
      },
    ],
    series: [
      {},
      ...props.series.map((s): uPlot.Series => {
        const colour = colourOf(element, s.colour);
        return {
          label: s.label,
          stroke: colour,
          width: s.kind === 'bars' ? 0 : 1.5,
          points: { show: false },
          ...(s.kind === 'area' || s.kind === 'bars' ? { fill: faded(colour, s.kind === 'bars' ? 0.85 : 0.22) } : {}),
          ...(s.kind === 'dashed' ? { dash: [5, 4], fill: faded(colour, 0.08) } : {}),
          ...(s.kind === 'bars' && bars ? { paths: bars } : {}),
          ...((s.kind === 'dashed' || s.kind === 'area') && steps ? { paths: steps } : {}),
        };
      }),
    ],
    hooks: {
      setCursor: [
        (u) => {
          hovered.value = u.cursor.idx ?? null;
        },
      ],
      draw: [
        (u) => {
          const { mark } = latest.current;
          if (mark === undefined) {
            return;
          }
          const x = Math.round(u.valToPos(mark / 1000, 'x', true));
          if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) {
            return;
          }
          u.ctx.save();
          u.ctx.strokeStyle = markColour;
          u.ctx.lineWidth = devicePixelRatio;
          u.ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
          u.ctx.beginPath();
          u.ctx.moveTo(x, u.bbox.top);
          u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
          u.ctx.stroke();
          u.ctx.restore();
        },
      ],
      ready: [
        (u) => {
          u.over.addEventListener('click', () => {
            const { idx } = u.cursor;
            const to = idx === null || idx === undefined ? undefined : latest.current.hrefAt?.(idx);
            if (to !== undefined) {
              location.hash = to;
            }
          });
          u.over.addEventListener('mouseleave', () => {
            hovered.value = null;
          });
        },
      ],
    },
  };
}

function Legend(props: {
  series: readonly ChartSeries[];
  times: readonly number[];
  hovered: number | null;
  zone: string;
  format: (value: number) => string;
}) {
  const { series, times, hovered, zone, format } = props;
  const at = hovered === null ? undefined : times[hovered];
  return (
    <div class="legend" aria-hidden="true">
      {series.map((s) => {
        const value = hovered === null ? undefined : s.values[hovered];
        return (
          <span key={s.label} class="legend-item">
            <Swatch series={s} />
            {s.label}
            {value !== undefined && value !== null && <strong>{format(value)}</strong>}
          </span>
        );
      })}
      <span class="legend-time">{at === undefined ? '' : timeText(at, zone, { now: Date.now(), short: true })}</span>
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
  hrefAt?: ((index: number) => string | undefined) | undefined;
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
            const text = timeText(at, zone, { now: Date.now(), short: true });
            const to = hrefAt?.(i);
            return (
              <tr key={at}>
                <th scope="row">{to === undefined ? text : <a href={to}>{text}</a>}</th>
                {series.map((s) => {
                  const value = s.values[i];
                  return (
                    <td key={s.label} class="number">
                      {value === undefined || value === null ? '–' : format(value)}
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
