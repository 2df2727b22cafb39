// Which member owns which shards, as a ring: a lane for each member, a piece of the lane for each run
// of neighbouring shards. A lane tells owners apart where colours do not. Pure.

export interface ShardLike {
  shard: number;
  owner?: string | undefined;
  behind_seconds: number;
}

/** Neighbouring shards of one owner. */
export interface Arc {
  owner: string;
  /** The first shard, and the one after the last. */
  from: number;
  to: number;
  /** Of the one that is furthest behind, in seconds. */
  behind: number;
}

export interface Lane {
  owner: string;
  shards: number;
  arcs: readonly Arc[];
  behind: number;
}

/** A shard that is so far behind is late, in seconds: a minute is published whole, and then swept. */
export const behindLate = 240;
/** A shard that is so far behind has come to a halt, in seconds. */
export const behindBad = 600;

export function toneOf(behind: number): 'good' | 'warn' | 'bad' {
  return behind >= behindBad ? 'bad' : behind >= behindLate ? 'warn' : 'good';
}

/** The lanes: those of members, by name, and at last that of shards which nobody owns. */
export function lanesOf(shards: readonly ShardLike[], members: readonly string[]): Lane[] {
  const sorted = [...shards].sort((a, b) => a.shard - b.shard);
  const owners = new Set([...members, ...sorted.map((s) => s.owner ?? '')].filter((name) => name !== ''));
  const lanes = [...owners].sort().map((owner) => laneOf(owner, sorted));
  const orphans = laneOf('', sorted);
  return orphans.shards > 0 ? [...lanes, orphans] : lanes;
}

function laneOf(owner: string, sorted: readonly ShardLike[]): Lane {
  const arcs: Arc[] = [];
  let shards = 0;
  for (const s of sorted) {
    if ((s.owner ?? '') !== owner) {
      continue;
    }
    shards++;
    const last = arcs.at(-1);
    // What differs in how it stands is a piece of its own, or nobody would see one late shard.
    if (last && last.to === s.shard && toneOf(last.behind) === toneOf(s.behind_seconds)) {
      last.to = s.shard + 1;
      last.behind = Math.max(last.behind, s.behind_seconds);
    } else {
      arcs.push({ owner, from: s.shard, to: s.shard + 1, behind: s.behind_seconds });
    }
  }
  return { owner, shards, arcs, behind: Math.max(0, ...arcs.map((a) => a.behind)) };
}

/** The path of a piece of a ring between two radii, of shards `from` to `to` of so many. */
export function arcPath(from: number, to: number, of: number, inner: number, outer: number): string {
  if (of <= 0 || to - from >= of) {
    // A whole ring is two halves: an arc that ends where it begins is none.
    return arcPath(0, 1, 2, inner, outer) + arcPath(1, 2, 2, inner, outer);
  }
  const full = 2 * Math.PI;
  // A hair of space between pieces, but never more than a fifth of one.
  const gap = Math.min(0.6 / outer, (full / of) * 0.2) / 2;
  const [a, b] = [(from / of) * full + gap, (to / of) * full - gap];
  const at = (angle: number, radius: number): string =>
    `${round(Math.sin(angle) * radius)} ${round(-Math.cos(angle) * radius)}`;
  const large = b - a > Math.PI ? 1 : 0;
  return (
    `M${at(a, outer)}A${round(outer)} ${round(outer)} 0 ${large} 1 ${at(b, outer)}` +
    `L${at(b, inner)}A${round(inner)} ${round(inner)} 0 ${large} 0 ${at(a, inner)}Z`
  );
}

function round(n: number): number {
  const rounded = Math.round(n * 100) / 100;
  return rounded === 0 ? 0 : rounded;
}

/** "0–3, 7, 9–12", of at most so many pieces. */
export function rangesOf(arcs: readonly Pick<Arc, 'from' | 'to'>[], most = 12): string {
  const joined: { from: number; to: number }[] = [];
  for (const { from, to } of arcs) {
    const last = joined.at(-1);
    if (last && last.to === from) {
      last.to = to;
    } else {
      joined.push({ from, to });
    }
  }
  const words = joined.slice(0, most).map((a) => (a.to - a.from === 1 ? `${a.from}` : `${a.from}–${a.to - 1}`));
  return words.join(', ') + (joined.length > most ? ` and ${joined.length - most} more pieces` : '');
}

/** A member that was there, as far as this page has seen. */
export interface Seen {
  name: string;
  /** When it was in the list for the last time, in ms. */
  last: number;
}

/** How long a member is told of that has left, in ms. */
export const goneFor = 15 * 60_000;

/** What has been seen of members, with the list of now: one that has left stays told of for a while. */
export function noteMembers(before: readonly Seen[], names: readonly string[], now: number): Seen[] {
  const gone = before.filter((s) => !names.includes(s.name) && now - s.last < goneFor);
  return [...names.map((name) => ({ name, last: now })), ...gone];
}
