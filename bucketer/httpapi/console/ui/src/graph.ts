// A graph of up to a thousand steps, made small enough to read. Steps in a line, and steps side by
// side with the same ones before and after them, become a group; groups become groups again. Then
// groups are opened while there is room, and where the person opens them. Pure.

export interface GraphNode {
  name: string;
  after: readonly string[];
}

/**
 * A step, or a group of them. "line": one after the other. "side": side by side. "level": at the same
 * depth, of a graph in which nothing else helps.
 */
export interface Group {
  /** Stays the same as long as the graph does. */
  id: string;
  kind: 'step' | 'line' | 'side' | 'level';
  members: readonly Group[];
  /** The names of the steps in it. */
  steps: readonly string[];
}

/** How many nodes are drawn at most, unless the person opens more. */
export const readable = 60;

interface Links {
  before: Map<Group, Set<Group>>;
  after: Map<Group, Set<Group>>;
}

/** Which top group each step is in. */
function placesOf(groups: readonly Group[]): Map<string, Group> {
  const places = new Map<string, Group>();
  for (const group of groups) {
    for (const step of group.steps) {
      places.set(step, group);
    }
  }
  return places;
}

function linksOf(nodes: readonly GraphNode[], groups: readonly Group[]): Links {
  const places = placesOf(groups);
  const links: Links = { before: new Map(), after: new Map() };
  for (const group of groups) {
    links.before.set(group, new Set());
    links.after.set(group, new Set());
  }
  for (const node of nodes) {
    const to = places.get(node.name);
    for (const name of node.after) {
      const from = places.get(name);
      if (from && to && from !== to) {
        links.before.get(to)?.add(from);
        links.after.get(from)?.add(to);
      }
    }
  }
  return links;
}

function stepGroup(name: string): Group {
  return { id: name, kind: 'step', members: [], steps: [name] };
}

function grouped(kind: Group['kind'], parts: readonly Group[]): Group {
  // A line in a line is one line, and so with sides.
  const members = parts.flatMap((p) => (p.kind === kind && kind !== 'level' ? p.members : [p]));
  const steps = members.flatMap((m) => m.steps);
  return { id: `${kind}:${steps[0]}:${steps.length}`, kind, members, steps };
}

/** The groups of a graph, as few as there may be. */
export function condense(nodes: readonly GraphNode[]): Group[] {
  let groups = nodes.map((n) => stepGroup(n.name));
  for (;;) {
    const fewer = sides(nodes, lines(nodes, groups));
    if (fewer.length === groups.length) {
      return groups;
    }
    groups = fewer;
  }
}

/** Joins groups of which each is the only one after the one before it, which has no other after it. */
function lines(nodes: readonly GraphNode[], groups: readonly Group[]): Group[] {
  const { before, after } = linksOf(nodes, groups);
  const only = (set: Set<Group> | undefined): Group | undefined => (set?.size === 1 ? [...set][0] : undefined);
  const nextOf = (g: Group): Group | undefined => {
    const next = only(after.get(g));
    return next && only(before.get(next)) === g ? next : undefined;
  };
  const inside = new Set(groups.map(nextOf).filter((g) => g !== undefined));
  const out: Group[] = [];
  for (const group of groups) {
    if (inside.has(group)) {
      continue; // a line that began before it has it
    }
    const line = [group];
    for (let next = nextOf(group); next; next = nextOf(next)) {
      line.push(next);
    }
    out.push(line.length > 1 ? grouped('line', line) : group);
  }
  return out;
}

/** Joins groups that have the same ones before them and the same ones after them. */
function sides(nodes: readonly GraphNode[], groups: readonly Group[]): Group[] {
  const { before, after } = linksOf(nodes, groups);
  const numbers = new Map(groups.map((g, i) => [g, i]));
  const key = (set: Set<Group> | undefined): string =>
    [...(set ?? [])].map((g) => numbers.get(g) ?? 0).sort((a, b) => a - b).join(' ');
  const byPlace = new Map<string, Group[]>();
  for (const group of groups) {
    const place = `${key(before.get(group))}|${key(after.get(group))}`;
    byPlace.set(place, [...(byPlace.get(place) ?? []), group]);
  }
  const out: Group[] = [];
  for (const group of groups) {
    const place = `${key(before.get(group))}|${key(after.get(group))}`;
    const alike = byPlace.get(place) ?? [];
    if (alike.length < 2) {
      out.push(group);
    } else if (alike[0] === group) {
      out.push(grouped('side', alike));
    }
  }
  return out;
}

/** How many steps are before each group on the longest way to it. */
function depthsOf(nodes: readonly GraphNode[], groups: readonly Group[]): Map<Group, number> {
  const { before, after } = linksOf(nodes, groups);
  const depths = new Map<Group, number>();
  const open = new Map(groups.map((g) => [g, before.get(g)?.size ?? 0]));
  const ready = groups.filter((g) => open.get(g) === 0);
  for (let group = ready.shift(); group; group = ready.shift()) {
    const depth = depths.get(group) ?? 0;
    depths.set(group, depth);
    for (const next of after.get(group) ?? []) {
      depths.set(next, Math.max(depths.get(next) ?? 0, depth + 1));
      const left = (open.get(next) ?? 1) - 1;
      open.set(next, left);
      if (left === 0) {
        ready.push(next);
      }
    }
  }
  return depths;
}

/** Joins what is equally deep, the fullest levels first, until there are at most so many groups. */
function levels(nodes: readonly GraphNode[], groups: readonly Group[], most: number): Group[] {
  if (groups.length <= most) {
    return [...groups];
  }
  const depths = depthsOf(nodes, groups);
  const byDepth = new Map<number, Group[]>();
  for (const group of groups) {
    const depth = depths.get(group) ?? 0;
    byDepth.set(depth, [...(byDepth.get(depth) ?? []), group]);
  }
  const joined = new Map<Group, Group>();
  let size = groups.length;
  for (const level of [...byDepth.values()].sort((a, b) => b.length - a.length)) {
    if (size <= most || level.length < 2) {
      break;
    }
    const one = grouped('level', level);
    for (const group of level) {
      joined.set(group, one);
    }
    size -= level.length - 1;
  }
  return [...new Set(groups.map((g) => joined.get(g) ?? g))];
}

/** A graph that was condensed: made once, as long as its steps are the same. */
export interface Condensed {
  nodes: readonly GraphNode[];
  top: readonly Group[];
  /** The groups that are open if nobody has said otherwise. */
  opened: ReadonlySet<string>;
}

/** Condenses a graph and opens what there is room for, the groups of few members first. */
export function condensed(nodes: readonly GraphNode[], most: number = readable): Condensed {
  if (nodes.length <= most) {
    return { nodes, top: nodes.map((n) => stepGroup(n.name)), opened: new Set() };
  }
  const top = levels(nodes, condense(nodes), most);
  const opened = new Set<string>();
  let size = top.length;
  const closed = top.filter((g) => g.kind !== 'step');
  for (;;) {
    closed.sort((a, b) => b.members.length - a.members.length);
    const group = closed.pop();
    if (!group || size - 1 + group.members.length > most) {
      return { nodes, top, opened };
    }
    opened.add(group.id);
    size += group.members.length - 1;
    closed.push(...group.members.filter((m) => m.kind !== 'step'));
  }
}

/** What the person has opened and closed against the rule. */
export interface Choices {
  all?: boolean | undefined;
  open: ReadonlySet<string>;
  shut: ReadonlySet<string>;
  /** Steps that are to be seen: of large groups around them the rest stays together. */
  seen: ReadonlySet<string>;
}

export const noChoices: Choices = { open: new Set(), shut: new Set(), seen: new Set() };

export interface Shown {
  groups: readonly Group[];
  edges: readonly { from: Group; to: Group }[];
}

/** A group of more members is opened only in part, to show a step. */
const partFrom = 12;

/** The members of a group that are drawn by themselves; undefined: it is drawn as one. */
function partsOf(graph: Condensed, choices: Choices, group: Group): readonly Group[] | undefined {
  if (group.kind === 'step') {
    return undefined;
  }
  const shut = choices.shut.has(group.id);
  if (choices.open.has(group.id) || (!shut && (choices.all ?? graph.opened.has(group.id)))) {
    return group.members;
  }
  const isSeen = (g: Group): boolean => g.steps.some((step) => choices.seen.has(step));
  if (shut || !isSeen(group)) {
    return undefined;
  }
  if (group.members.length <= partFrom) {
    return group.members;
  }
  const parts: Group[] = [];
  let rest: Group[] = [];
  const close = (): void => {
    if (rest.length > 0) {
      parts.push(rest.length === 1 && rest[0] ? rest[0] : grouped(group.kind, rest));
      rest = [];
    }
  };
  for (const member of group.members) {
    if (!isSeen(member)) {
      rest.push(member);
      continue;
    }
    if (group.kind === 'line') {
      close(); // what is before it stays before it
    }
    parts.push(member);
  }
  close();
  return parts;
}

/** What is drawn. */
export function shown(graph: Condensed, choices: Choices): Shown {
  const groups: Group[] = [];
  const walk = (group: Group): void => {
    const parts = partsOf(graph, choices, group);
    if (parts) {
      parts.forEach(walk);
    } else {
      groups.push(group);
    }
  };
  graph.top.forEach(walk);
  const { after } = linksOf(graph.nodes, groups);
  const edges = groups.flatMap((from) => [...(after.get(from) ?? [])].map((to) => ({ from, to })));
  return { groups, edges };
}

/** The groups in which a step is, from the outermost on. */
export function groupsAround(graph: Condensed, step: string): Group[] {
  const around: Group[] = [];
  let level = graph.top;
  for (;;) {
    const group = level.find((g) => g.steps.includes(step));
    if (!group || group.kind === 'step') {
      return around;
    }
    around.push(group);
    level = group.members;
  }
}

/** The choices by which those steps are seen. */
export function revealed(graph: Condensed, choices: Choices, steps: readonly string[]): Choices {
  const shut = new Set(choices.shut);
  for (const step of steps) {
    for (const group of groupsAround(graph, step)) {
      shut.delete(group.id);
    }
  }
  return { ...choices, shut, seen: new Set([...choices.seen, ...steps]) };
}

/** The innermost open group around a step, which a person may shut; undefined if there is none. */
export function openAround(graph: Condensed, choices: Choices, step: string): Group | undefined {
  return groupsAround(graph, step)
    .filter((g) => partsOf(graph, choices, g) !== undefined)
    .at(-1);
}

export function withOpen(choices: Choices, group: Group): Choices {
  const shut = new Set(choices.shut);
  shut.delete(group.id);
  return { ...choices, open: new Set(choices.open).add(group.id), shut };
}

export function withShut(choices: Choices, group: Group): Choices {
  const open = new Set(choices.open);
  open.delete(group.id);
  const seen = new Set(choices.seen);
  for (const step of group.steps) {
    seen.delete(step);
  }
  return { ...choices, open, shut: new Set(choices.shut).add(group.id), seen };
}

/** What a group is called: "12 steps side by side, a to l". */
export function groupName(group: Group): string {
  const [first, last] = [group.steps[0] ?? '', group.steps.at(-1) ?? ''];
  return group.kind === 'step' ? first : `${first} … ${last}`;
}

export const groupWords: Record<Group['kind'], string> = {
  step: '',
  line: 'in a line',
  side: 'side by side',
  level: 'at one level',
};
