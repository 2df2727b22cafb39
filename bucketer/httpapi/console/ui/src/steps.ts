// The steps of a workflow, as they are drawn and told of. Pure.

import type { Run } from './api/types';
import { itemsOf, memberOf, textOf, type Part } from './document';
import { whyItWaits } from './runs';
import { messageKinds } from './target';
import { durationText } from './time';
import { count, number } from './words';

/** A step, as far as a drawing goes. */
export interface StepShape {
  name: string;
  /** The steps before it. */
  after: readonly string[];
  /** How those must have ended; "all_succeeded" if nothing else is said. */
  when: string;
  /** task, http, nats, script, lambda, a message, wait or workflow; "" if it is not known. */
  kind: string;
  /** The task's name, the event that is waited for, and so on. */
  what: string;
  /** A condition; "" if it has none. */
  condition: string;
  forEach: boolean;
}

/** A step of a run, as the API answers it. */
export interface StepRun {
  name: string;
  after?: readonly string[] | null | undefined;
  state: string;
  run_id?: string | undefined;
  reason?: string | undefined;
  attempts?: number | undefined;
  started_at?: string | undefined;
  finished_at?: string | undefined;
  items?: { total: number; states: Record<string, number> | null } | undefined;
}

export interface DrawnGraph {
  nodes:
    | readonly {
        name: string;
        kind: string;
        what?: string | undefined;
        when?: string | undefined;
        if?: string | undefined;
        for_each?: boolean | undefined;
      }[]
    | null;
  edges: readonly { from: string; to: string }[] | null;
}

/** The steps of a graph as the API draws it. */
export function shapesOfGraph(graph: DrawnGraph): StepShape[] {
  const before = new Map<string, string[]>();
  for (const { from, to } of graph.edges ?? []) {
    before.set(to, [...(before.get(to) ?? []), from]);
  }
  return (graph.nodes ?? []).map((n) => ({
    name: n.name,
    after: before.get(n.name) ?? [],
    when: n.when || usualWhen,
    kind: n.kind,
    what: n.what ?? '',
    condition: n.if ?? '',
    forEach: n.for_each === true,
  }));
}

/** The steps of a run whose graph is not there. */
export function shapesOfRun(steps: readonly StepRun[]): StepShape[] {
  return steps.map((s) => ({
    name: s.name,
    after: s.after ?? [],
    when: usualWhen,
    kind: '',
    what: '',
    condition: '',
    forEach: s.items !== undefined,
  }));
}

export const usualWhen = 'all_succeeded';

/** What each "when" says, after "it starts". */
export const whenWords: Record<string, string> = {
  all_succeeded: 'when all before it have succeeded',
  all_done: 'when all before it have ended, however',
  any_succeeded: 'as soon as one before it has succeeded',
  any_failed: 'as soon as one before it has failed',
  always: 'when all before it have ended, also after a cancel',
};

/** A "when" in a word or two, for an edge; "" for the usual one. */
export function whenShort(when: string): string {
  const short: Record<string, string> = {
    all_done: 'all done',
    any_succeeded: 'any succeeded',
    any_failed: 'any failed',
    always: 'always',
  };
  return short[when] ?? '';
}

const kinds = ['task', 'http', 'nats', 'script', 'lambda', ...messageKinds, 'wait', 'workflow'] as const;

/** The steps of a workflow that somebody writes. What cannot be read is left out. */
export function shapesOfText(root: Part): StepShape[] {
  const shapes: StepShape[] = [];
  for (const part of itemsOf(memberOf(root, 'steps'))) {
    const name = textOf(memberOf(part, 'name'));
    if (name === undefined || shapes.some((s) => s.name === name)) {
      continue;
    }
    const kind = kinds.find((k) => memberOf(part, k) !== undefined) ?? '';
    const after = itemsOf(memberOf(part, 'after')).map(textOf);
    shapes.push({
      name,
      after: after.filter((a): a is string => a !== undefined),
      when: textOf(memberOf(part, 'when')) ?? usualWhen,
      kind,
      what: whatOf(kind, memberOf(part, kind)),
      condition: textOf(memberOf(part, 'if')) ?? '',
      forEach: memberOf(part, 'for_each') !== undefined,
    });
  }
  // A step that is named and not there yet has no place to draw a line from.
  const names = new Set(shapes.map((s) => s.name));
  return breakCycles(shapes.map((s) => ({ ...s, after: s.after.filter((a) => names.has(a) && a !== s.name) })));
}

function whatOf(kind: string, work: Part | undefined): string {
  switch (kind) {
    case 'task':
    case 'workflow':
      return textOf(work) ?? '';
    case 'http':
      return textOf(memberOf(work, 'url')) ?? '';
    case 'nats':
      return textOf(memberOf(work, 'subject')) ?? '';
    case 'script':
      return textOf(memberOf(work, 'command')) ?? '';
    case 'lambda':
      return textOf(memberOf(work, 'function')) ?? '';
    case 'jetstream':
      return textOf(memberOf(work, 'subject')) ?? '';
    case 'kafka':
      return textOf(memberOf(work, 'topic')) ?? '';
    case 'sqs':
      return textOf(memberOf(work, 'queue_url')) ?? '';
    case 'sns':
      return textOf(memberOf(work, 'topic_arn')) ?? '';
    case 'eventbridge':
      return textOf(memberOf(work, 'bus')) ?? 'default';
    case 'step_functions':
      return textOf(memberOf(work, 'state_machine')) ?? '';
    case 'wait': {
      const event = textOf(memberOf(work, 'event'));
      const until = textOf(memberOf(work, 'until'));
      return event ?? (until === undefined ? (textOf(memberOf(work, 'for')) ?? '') : `until ${until}`);
    }
  }
  return '';
}

/** Steps without the edges that lead back: a drawing needs an order, and the server names the fault. */
function breakCycles(shapes: StepShape[]): StepShape[] {
  const byName = new Map(shapes.map((s) => [s.name, s]));
  const done = new Set<string>();
  const under = new Set<string>();
  const kept = new Map<string, string[]>();
  const visit = (name: string): void => {
    under.add(name);
    const after: string[] = [];
    for (const before of byName.get(name)?.after ?? []) {
      if (under.has(before)) {
        continue;
      }
      after.push(before);
      if (!done.has(before)) {
        visit(before);
      }
    }
    kept.set(name, after);
    under.delete(name);
    done.add(name);
  };
  for (const s of shapes) {
    if (!done.has(s.name)) {
      visit(s.name);
    }
  }
  return shapes.map((s) => ({ ...s, after: kept.get(s.name) ?? [] }));
}

/** What a step does, in words. */
export function workWords(s: Pick<StepShape, 'kind' | 'what'>): string {
  const what = s.what;
  switch (s.kind) {
    case 'task':
      return `task ${what}`;
    case 'workflow':
      return `workflow ${what}`;
    case 'http':
      return what === '' ? 'HTTP call' : what.replace(/^https?:\/\//, '');
    case 'nats':
      return `NATS ${what}`;
    case 'script':
      return `script ${what}`;
    case 'lambda':
      return `Lambda ${what}`;
    case 'jetstream':
      return `JetStream ${what}`;
    case 'kafka':
      return `Kafka ${what}`;
    case 'sqs':
      return `SQS ${what.replace(/^.*\//, '')}`;
    case 'sns':
      return `SNS ${what.replace(/^.*:/, '')}`;
    case 'eventbridge':
      return `EventBridge ${what}`;
    case 'step_functions':
      return `Step Functions ${what.replace(/^.*:stateMachine:/, '')}`;
    case 'wait':
      return isSpan(what) ? `wait ${durationText(what)}` : what.startsWith('until ') ? `wait ${what}` : `wait for ${what}`;
  }
  return s.kind;
}

function isSpan(text: string): boolean {
  return /^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$/.test(text);
}

/** The event that a step waits for; undefined if it waits for none. */
export function eventOf(s: Pick<StepShape, 'kind' | 'what'>): string | undefined {
  return s.kind === 'wait' && s.what !== '' && !isSpan(s.what) && !s.what.startsWith('until ') ? s.what : undefined;
}

/** How many steps are in each state, those in most first where it matters: what is wrong, what runs. */
export function statesOf(steps: readonly { state: string }[]): [state: string, n: number][] {
  const counts = new Map<string, number>();
  for (const s of steps) {
    counts.set(s.state, (counts.get(s.state) ?? 0) + 1);
  }
  return stateOrder.filter((state) => counts.has(state)).map((state) => [state, counts.get(state) ?? 0]);
}

/** States of steps, the one first of which a person wants to know first. */
export const stateOrder = [
  'failed',
  'missed',
  'stuck',
  'running',
  'retrying',
  'waiting',
  'pending',
  'cancelled',
  'skipped',
  'succeeded',
] as const;

/** The state of many steps together: the first of the order that one of them is in. */
export function stateTogether(states: Iterable<string>): string {
  const all = new Set(states);
  return stateOrder.find((state) => all.has(state)) ?? 'pending';
}

/** Why a step stands as it does, as the API says it, in words; "" if there is nothing to say. */
export function reasonWords(s: StepRun): string {
  if (s.reason === 'by hand') {
    return 'It was skipped by hand.';
  }
  const reason = s.reason ?? '';
  return reason === '' ? '' : reason.charAt(0).toUpperCase() + reason.slice(1) + (/[.!?]$/.test(reason) ? '' : '.');
}

/** The time that a step waits for; undefined if it waits for none. */
export function untilOf(s: Pick<StepRun, 'reason'>): string | undefined {
  return /^it waits until (\d\S+)$/.exec(s.reason ?? '')?.[1];
}

const openStates = ['pending', 'running', 'waiting', 'retrying'];

/** Whether a step has not ended. */
export function isOpen(s: Pick<StepRun, 'state'>): boolean {
  return openStates.includes(s.state);
}

/** The steps that a step waits for: it has not started, and they have not ended. */
export function openBefore(s: StepRun, steps: ReadonlyMap<string, StepRun>): StepRun[] {
  if (s.state !== 'pending') {
    return [];
  }
  return (s.after ?? []).flatMap((name) => {
    const before = steps.get(name);
    return before && isOpen(before) ? [before] : [];
  });
}

/** "It waits for a (running), b (pending) and 3 more.", of those of openBefore. */
export function beforeWords(before: readonly StepRun[], most = 2): string {
  const told = before.slice(0, most).map((s) => `${s.name} (${s.state})`);
  const more = before.length - told.length;
  return `It waits for ${told.join(', ')}${more > 0 ? ` and ${number(more)} more` : ''}.`;
}

/** Why the run of a step does not start, or does not go on. */
export interface StepWait {
  text: string;
  /** When it is tried, as far as one time is known for all of the step. */
  until?: string | undefined;
}

/**
 * What the runs of steps wait for, by the step: the rate of a task, a limit, a target that is left
 * alone, the pause before the next attempt. A step with items may wait for several things.
 */
export function waitsOf(runs: readonly Run[], now: number): Map<string, StepWait> {
  const found = new Map<string, { texts: Map<string, number>; hasItems: boolean; until: string | undefined }>();
  for (const run of runs) {
    const wait = run.state === 'pending' || run.state === 'retrying' ? whyItWaits(run, now) : undefined;
    if (!wait || wait.word === 'due' || run.step === undefined) {
      continue; // it is on its way
    }
    const of = found.get(run.step) ?? { texts: new Map<string, number>(), hasItems: run.item !== undefined, until: wait.until };
    of.texts.set(wait.text, (of.texts.get(wait.text) ?? 0) + 1);
    found.set(run.step, of);
  }
  return new Map(
    [...found].map(([step, { texts, hasItems, until }]) => [
      step,
      hasItems
        ? { text: [...texts].map(([text, n]) => `${count(n, 'item')}: ${text}`).join(' ') }
        : { text: [...texts.keys()].join(' '), until },
    ]),
  );
}

/** How far the items of a step have come. */
export function itemsDone(items: StepRun['items']): { done: number; failed: number; total: number } {
  const states = items?.states ?? {};
  const of = (...names: string[]): number => names.reduce((n, name) => n + (states[name] ?? 0), 0);
  return {
    done: of('succeeded', 'skipped'),
    failed: of('failed', 'missed', 'cancelled'),
    total: items?.total ?? 0,
  };
}

/**
 * The body of an event that a filter such as "event.day == input.date && event.ok == true" lets
 * through, as far as the filter is one of equalities. Input is the payload of the run.
 */
export function bodyFor(filter: string, input: unknown): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const part of filter.split('&&')) {
    const form = /^\s*\(?\s*(\S+)\s*==\s*(.+?)\s*\)?\s*$/.exec(part);
    const [left = '', right = ''] = form?.slice(1) ?? [];
    const [path, value] = left.startsWith('event.') ? [left, right] : [right, left];
    if (!/^event(?:\.[A-Za-z_]\w*)+$/.test(path)) {
      continue;
    }
    const known = valueOf(value, input);
    if (known !== undefined) {
      put(body, path.split('.').slice(1), known);
    }
  }
  return body;
}

function valueOf(text: string, input: unknown): unknown {
  if (/^input(?:\.[A-Za-z_]\w*)*$/.test(text)) {
    let at: unknown = input;
    for (const name of text.split('.').slice(1)) {
      at = typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[name] : undefined;
    }
    return at;
  }
  const quoted = /^'([^'\\]*)'$/.exec(text) ?? /^"([^"\\]*)"$/.exec(text);
  if (quoted) {
    return quoted[1];
  }
  if (/^-?\d+(?:\.\d+)?$/.test(text)) {
    return Number(text);
  }
  return text === 'true' ? true : text === 'false' ? false : undefined;
}

function put(body: Record<string, unknown>, names: readonly string[], value: unknown): void {
  let at = body;
  for (const name of names.slice(0, -1)) {
    const next = Object.hasOwn(at, name) ? at[name] : undefined;
    if (typeof next === 'object' && next !== null) {
      at = next as Record<string, unknown>;
    } else {
      at = at[name] = {};
    }
  }
  const last = names.at(-1);
  if (last !== undefined && !Object.hasOwn(at, last)) {
    at[last] = value;
  }
}

/** The steps in which a text is found; undefined if there is none. */
export function foundIn(shapes: readonly StepShape[], text: string): Set<string> | undefined {
  if (text === '') {
    return undefined;
  }
  const has = (s: StepShape): boolean => `${s.name} ${s.kind} ${s.what}`.toLowerCase().includes(text);
  return new Set(shapes.filter(has).map((s) => s.name));
}
