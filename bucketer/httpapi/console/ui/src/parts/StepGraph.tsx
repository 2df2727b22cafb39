// The steps of a workflow as a graph, coloured by how they stand. The drawing is for those who see it
// and point at it: every step is in the table behind the toggle as well, by which keys choose one.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import {
  condensed,
  groupName,
  groupWords,
  noChoices,
  openAround,
  revealed,
  shown,
  withOpen,
  withShut,
  type Choices,
  type Group,
} from '../graph';
import { isLarge, pathThrough, placeInRanks, type Direction, type Placed } from '../layout';
import { itemsDone, statesOf, stateTogether, usualWhen, whenShort, workWords, type StepRun, type StepShape } from '../steps';
import { count, number } from '../words';
import { Figure } from './Figure';
import { Icon, IconButton } from './Icon';
import { lookOf } from './StateBadge';

export interface StepGraphProps {
  caption: string;
  shapes: readonly StepShape[];
  /** How each stands, by its name; absent: it is no run. */
  runs?: ReadonlyMap<string, StepRun> | undefined;
  selected: string;
  onSelect: (step: string) => void;
  /** The steps that are looked for; the others are drawn faintly. Undefined: nothing is looked for. */
  found?: ReadonlySet<string> | undefined;
  /** Steps with which something is wrong. */
  wrong?: ReadonlySet<string> | undefined;
  table: () => ComponentChildren;
  legend?: ComponentChildren;
}

const width = 184;
const height = 48;
/** The least and the largest that a person may choose. */
const smallest = 0.2;
const largest = 2;
/** A box that is narrower has no room for steps side by side. */
const narrow = 620;
/** So many steps that are looked for are shown by themselves, though they are in groups. */
const revealedAtMost = 25;

export function StepGraph(props: StepGraphProps) {
  const { caption, shapes, runs, selected, onSelect, found, wrong, table, legend } = props;
  const structure = shapes.map((s) => `${s.name} ${s.after.join(' ')}`).join('\n');
  const graph = useMemo(() => condensed(shapes), [structure]);
  const [choices, setChoices] = useState<Choices>(noChoices);
  const [boxWidth, setBoxWidth] = useState(0);
  const [zoom, setZoom] = useState<number | undefined>(undefined);
  const box = useRef<HTMLDivElement>(null);
  const direction: Direction = boxWidth > 0 && boxWidth < narrow ? 'down' : 'across';

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) {
      return undefined;
    }
    const measure = (): void => setBoxWidth(element.clientWidth);
    const resized = new ResizeObserver(measure);
    resized.observe(element);
    measure();
    return () => resized.disconnect();
  }, []);

  useEffect(() => setChoices(noChoices), [structure]);
  const few = found !== undefined && found.size > 0 && found.size <= revealedAtMost ? [...found] : [];
  const wanted = [...few, ...(selected === '' ? [] : [selected])].join('\n');
  useEffect(() => {
    if (wanted !== '') {
      setChoices((before) => revealed(graph, before, wanted.split('\n')));
    }
  }, [graph, wanted]);

  const drawn = useMemo(() => shown(graph, choices), [graph, choices]);
  const dagre = useDagre();
  const placed = useMemo(() => {
    const nodes = drawn.groups.map((g) => ({ id: g.id, width, height }));
    const links = drawn.edges.map((e) => ({ from: e.from.id, to: e.to.id }));
    if (dagre === 'loading' || nodes.length === 0) {
      return placeInRanks([], [], direction);
    }
    return dagre === 'absent' || isLarge(nodes, links)
      ? placeInRanks(nodes, links, direction)
      : dagre.place(nodes, links, direction);
  }, [drawn, direction, dagre]);
  const fit = boxWidth > 0 && placed.width > 0 ? (boxWidth - 2) / placed.width : 1;
  const scale = zoom ?? Math.min(1, Math.max(fit, direction === 'down' ? 0.6 : 0.8));
  const byName = useMemo(() => new Map(shapes.map((s) => [s.name, s])), [shapes]);
  const around = selected === '' ? undefined : openAround(graph, choices, selected);

  // What is selected is brought into view, once.
  const at = placed.nodes.get(selected);
  useEffect(() => {
    const element = box.current;
    if (element && at) {
      const [x, y] = [at.x * scale, at.y * scale];
      const sees =
        x > element.scrollLeft + 40 &&
        x < element.scrollLeft + element.clientWidth - 40 &&
        y > element.scrollTop + 20 &&
        y < element.scrollTop + element.clientHeight - 20;
      if (!sees) {
        element.scrollTo({ left: x - element.clientWidth / 2, top: y - element.clientHeight / 2 });
      }
    }
  }, [selected, at?.x, at?.y]);

  const zoomTo = (next: number): void => {
    const element = box.current;
    const bounded = Math.min(largest, Math.max(smallest, next));
    if (element) {
      // What is in the middle stays there.
      const x = (element.scrollLeft + element.clientWidth / 2) / scale;
      const y = (element.scrollTop + element.clientHeight / 2) / scale;
      requestAnimationFrame(() => {
        element.scrollTo({ left: x * bounded - element.clientWidth / 2, top: y * bounded - element.clientHeight / 2 });
      });
    }
    setZoom(bounded);
  };
  useWheelZoom(box, (by) => zoomTo(scale * by));

  const groups = drawn.groups.filter((g) => g.kind !== 'step').length;
  return (
    <Figure
      caption={caption}
      legend={legend}
      table={table}
      actions={
        <span class="row">
          {around && (
            <button type="button" class="button small" onClick={() => setChoices((c) => withShut(c, around))}>
              Close the group of {selected}
            </button>
          )}
          {graph.nodes.length > graph.top.length && (
            <>
              {groups > 0 && (
                <button type="button" class="button small" onClick={() => setChoices({ ...noChoices, all: true })}>
                  Open all {number(graph.nodes.length)}
                </button>
              )}
              <button type="button" class="button small" onClick={() => setChoices({ ...noChoices, all: false })}>
                As few as may be
              </button>
            </>
          )}
          {choices !== noChoices && graph.nodes.length > graph.top.length && (
            <button type="button" class="button quiet small" onClick={() => setChoices(noChoices)}>
              As at first
            </button>
          )}
          <IconButton icon="minus" name="Smaller" onClick={() => zoomTo(scale / 1.25)} />
          <IconButton icon="plus" name="Larger" onClick={() => zoomTo(scale * 1.25)} />
          <button type="button" class="button small" onClick={() => zoomTo(fit)}>
            Fit
          </button>
        </span>
      }
    >
      <div
        class="step-graph"
        ref={box}
        tabIndex={0}
        role="region"
        aria-label={`${caption}, as a drawing. Plus and minus change its size. The same as a table is behind the button above.`}
        onKeyDown={(e) => {
          if (e.key === '+' || e.key === '-' || e.key === '0') {
            e.preventDefault();
            zoomTo(e.key === '0' ? fit : e.key === '+' ? scale * 1.25 : scale / 1.25);
          }
        }}
        onPointerDown={(e) => drag(e, box.current)}
      >
        <Drawing
          placed={placed}
          groups={drawn.groups}
          scale={scale}
          byName={byName}
          runs={runs}
          selected={selected}
          found={found}
          wrong={wrong}
          onSelect={onSelect}
          onOpen={(group) => setChoices((c) => withOpen(c, group))}
        />
      </div>
    </Figure>
  );
}

type Dagre = typeof import('../dagre');

let loaded: Dagre | undefined;

/** Dagre, once it is there. It is a large part of the page, and only graphs need it. */
function useDagre(): Dagre | 'loading' | 'absent' {
  const [state, setState] = useState<Dagre | 'loading' | 'absent'>(loaded ?? 'loading');
  useEffect(() => {
    if (!loaded) {
      import('../dagre').then(
        (dagre) => {
          loaded = dagre;
          setState(dagre);
        },
        // The node does not answer, or is of a version that has none: rows are good enough.
        () => setState('absent'),
      );
    }
  }, []);
  return state;
}

/** Zooms by the wheel together with Control, which is what pinching is to a browser. */
function useWheelZoom(box: { current: HTMLDivElement | null }, by: (factor: number) => void): void {
  const latest = useRef(by);
  latest.current = by;
  useEffect(() => {
    const element = box.current;
    const onWheel = (e: WheelEvent): void => {
      if (e.ctrlKey) {
        e.preventDefault();
        latest.current(Math.exp(-e.deltaY / 300));
      }
    };
    // Preact's own listener could not keep the page from zooming.
    element?.addEventListener('wheel', onWheel, { passive: false });
    return () => element?.removeEventListener('wheel', onWheel);
  }, []);
}

/** Moves the drawing by the mouse. A finger moves it anyway. */
function drag(e: PointerEvent, box: HTMLDivElement | null): void {
  if (!box || e.pointerType !== 'mouse' || e.button !== 0 || (e.target as Element).closest('.step-node')) {
    return;
  }
  const from = { x: e.clientX + box.scrollLeft, y: e.clientY + box.scrollTop };
  const move = (m: PointerEvent): void => box.scrollTo(from.x - m.clientX, from.y - m.clientY);
  const end = (): void => {
    removeEventListener('pointermove', move);
    removeEventListener('pointerup', end);
  };
  addEventListener('pointermove', move);
  addEventListener('pointerup', end);
}

interface DrawingProps {
  placed: Placed;
  groups: readonly Group[];
  scale: number;
  byName: ReadonlyMap<string, StepShape>;
  runs: ReadonlyMap<string, StepRun> | undefined;
  selected: string;
  found: ReadonlySet<string> | undefined;
  wrong: ReadonlySet<string> | undefined;
  onSelect: (step: string) => void;
  onOpen: (group: Group) => void;
}

function Drawing({ placed, groups, scale, byName, runs, selected, found, wrong, onSelect, onOpen }: DrawingProps) {
  return (
    <svg
      width={Math.ceil(placed.width * scale)}
      height={Math.ceil(placed.height * scale)}
      viewBox={`0 0 ${Math.ceil(placed.width) || 1} ${Math.ceil(placed.height) || 1}`}
      aria-hidden="true"
      focusable="false"
    >
      <defs>
        <marker id="step-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path class="step-arrow" d="M0 0.500L7.500 4L0 7.500z" />
        </marker>
      </defs>
      {placed.edges.map((e) => {
        const when = byName.get(e.to)?.when ?? usualWhen;
        const classes = ['step-edge', when !== usualWhen && 'dotted', (e.from === selected || e.to === selected) && 'lit'];
        return (
          <path
            key={`${e.from} ${e.to}`}
            class={classes.filter(Boolean).join(' ')}
            d={pathThrough(e.points)}
            marker-end="url(#step-arrow)"
          />
        );
      })}
      {groups.map((group) => {
        const at = placed.nodes.get(group.id);
        if (!at) {
          return null;
        }
        const faint = found !== undefined && !group.steps.some((step) => found.has(step));
        const common = { x: at.x - width / 2, y: at.y - height / 2, faint, wrong: group.steps.some((s) => wrong?.has(s)) };
        const shape = byName.get(group.id);
        return shape ? (
          <StepNode
            key={group.id}
            {...common}
            shape={shape}
            run={runs?.get(group.id)}
            isRun={runs !== undefined}
            selected={group.id === selected}
            onSelect={onSelect}
          />
        ) : (
          <GroupNode key={group.id} {...common} group={group} runs={runs} found={found} onOpen={onOpen} />
        );
      })}
    </svg>
  );
}

interface NodePlace {
  x: number;
  y: number;
  faint: boolean;
  wrong: boolean;
}

/** A text that is cut where it has no room. The whole of it is in the node's title. */
function short(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** The parts of a node are made anew only if it is another: of a thousand few change. */
function StepNode(
  props: NodePlace & {
    shape: StepShape;
    run: StepRun | undefined;
    isRun: boolean;
    selected: boolean;
    onSelect: (step: string) => void;
  },
) {
  const { onSelect, ...rest } = props;
  const latest = useRef(onSelect);
  latest.current = onSelect;
  return useMemo(() => <StepParts {...rest} onSelect={(step) => latest.current(step)} />, [JSON.stringify(rest)]);
}

function StepParts({ x, y, faint, wrong, shape, run, isRun, selected, onSelect }: Parameters<typeof StepNode>[0]) {
  const state = run?.state ?? (isRun ? 'pending' : '');
  const look = state === '' ? undefined : lookOf(state);
  const { done, failed, total } = itemsDone(run?.items);
  const second = run?.items
    ? `${number(done)} of ${number(total)}${failed > 0 ? `, ${number(failed)} failed` : ''}`
    : workWords(shape);
  const tag = [whenShort(shape.when), shape.condition && 'if', shape.forEach && !run?.items && 'for each'].filter(Boolean).join(' · ');
  const classes = ['step-node', look && `tone-${look.tone}`, selected && 'selected', faint && 'faint', wrong && 'wrong'];
  return (
    <g class={classes.filter(Boolean).join(' ')} transform={`translate(${x} ${y})`} onClick={() => onSelect(shape.name)}>
      <title>{[shape.name, state.replace('_', ' '), workWords(shape), run?.reason].filter(Boolean).join('\n')}</title>
      {shape.kind === 'workflow' && <rect class="step-under" x="4" y="4" width={width} height={height} rx="6" />}
      <rect class="step-box" width={width} height={height} rx={shape.kind === 'wait' ? height / 2 : 6} />
      {look && (
        <g class="step-icon" transform="translate(12 8)">
          <Icon name={look.icon} size={14} />
        </g>
      )}
      <text class="step-name" x={look ? 32 : 14} y="20">
        {short(shape.name, look ? 20 : 22)}
      </text>
      <text class="step-work" x={look ? 32 : 14} y="36">
        {short(second, look ? 23 : 26)}
      </text>
      {run?.items && <Bar parts={itemParts(run)} total={total} />}
      {tag !== '' && (
        <text class="step-tag" x="8" y="-3">
          {tag}
        </text>
      )}
    </g>
  );
}

function itemParts(run: StepRun): [state: string, n: number][] {
  return Object.entries(run.items?.states ?? {});
}

/** How many of a whole are in which state, as a bar at the foot of a node. */
function Bar({ parts, total }: { parts: readonly [state: string, n: number][]; total: number }) {
  const whole = width - 44;
  let x = 32;
  return (
    <>
      <rect class="step-bar" x={x} y={height - 7} width={whole} height="3" rx="1.5" />
      {[...parts]
        .sort(([a], [b]) => (a === 'succeeded' ? -1 : b === 'succeeded' ? 1 : 0))
        .map(([state, n]) => {
          const w = total > 0 ? (n / total) * whole : 0;
          x += w;
          return (
            <rect key={state} class={`step-part tone-${lookOf(state).tone}`} x={x - w} y={height - 7} width={w} height="3" />
          );
        })}
    </>
  );
}

function GroupNode(
  props: NodePlace & {
    group: Group;
    runs: ReadonlyMap<string, StepRun> | undefined;
    found: ReadonlySet<string> | undefined;
    onOpen: (group: Group) => void;
  },
) {
  const { x, y, faint, wrong, group, runs, found, onOpen } = props;
  const steps = group.steps.map((name) => ({ state: runs?.get(name)?.state ?? 'pending' }));
  const states = runs ? statesOf(steps) : [];
  const look = runs ? lookOf(stateTogether(steps.map((s) => s.state))) : undefined;
  const matching = found === undefined ? 0 : group.steps.filter((s) => found.has(s)).length;
  const told = states.filter(([state]) => state !== 'succeeded' && state !== 'pending').slice(0, 2);
  const second =
    matching > 0
      ? `${count(matching, 'match', 'matches')} of ${number(group.steps.length)}`
      : told.length > 0
        ? told.map(([state, n]) => `${number(n)} ${state}`).join(', ')
        : groupWords[group.kind];
  const classes = ['step-node', 'group', look && `tone-${look.tone}`, faint && 'faint', wrong && 'wrong'];
  return (
    <g class={classes.filter(Boolean).join(' ')} transform={`translate(${x} ${y})`} onClick={() => onOpen(group)}>
      <title>
        {[`${number(group.steps.length)} steps ${groupWords[group.kind]}: click to open`, groupName(group)]
          .concat(states.map(([state, n]) => `${number(n)} ${state}`))
          .join('\n')}
      </title>
      <rect class="step-under" x="6" y="6" width={width} height={height} rx="6" />
      <rect class="step-under" x="3" y="3" width={width} height={height} rx="6" />
      <rect class="step-box" width={width} height={height} rx="6" />
      {look && (
        <g class="step-icon" transform="translate(12 8)">
          <Icon name={look.icon} size={14} />
        </g>
      )}
      <text class="step-name" x={look ? 32 : 14} y="20">
        {number(group.steps.length)} steps
      </text>
      <text class="step-work" x={look ? 32 : 14} y="36">
        {short(second, look ? 23 : 26)}
      </text>
      {runs && <Bar parts={states.filter(([state]) => state !== 'pending')} total={group.steps.length} />}
      <g class="step-open" transform={`translate(${width - 22} 8)`}>
        <Icon name="plus" size={12} />
      </g>
    </g>
  );
}
