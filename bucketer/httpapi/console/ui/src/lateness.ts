// Classes of lateness: how many first starts were how late. Pure.

/** A class as the API tells it: starts that were at most so late, and later than the class before. */
export interface LatenessClass {
  /** Absent: there is no bound, so that they were later than all other classes say. */
  up_to_ms?: number;
  count: number;
}

/** Where a class ends, in ms. */
function endOf(c: LatenessClass): number {
  return c.up_to_ms ?? Infinity;
}

/** A start that is later than this counts as late. */
export const lateFromMs = 1000;

/** A row of the heat map. */
export interface Band {
  /** Starts up to so late, and later than the band before; Infinity for the last. */
  upTo: number;
  label: string;
  /** Whether starts in it are late. */
  late: boolean;
}

// The classes of the API end there. It counts by them, so nothing is lost when fields are filled.
const ends: readonly [ms: number, label: string][] = [
  [1, '≤ 1 ms'],
  [2, '≤ 2 ms'],
  [5, '≤ 5 ms'],
  [10, '≤ 10 ms'],
  [20, '≤ 20 ms'],
  [50, '≤ 50 ms'],
  [100, '≤ 100 ms'],
  [200, '≤ 200 ms'],
  [500, '≤ 500 ms'],
  [1000, '≤ 1 s'],
  [2000, '≤ 2 s'],
  [5000, '≤ 5 s'],
  [10_000, '≤ 10 s'],
  [30_000, '≤ 30 s'],
  [60_000, '≤ 1 min'],
  [300_000, '≤ 5 min'],
  [Infinity, '> 5 min'],
];

export const bands: readonly Band[] = ends.map(([upTo, label]) => ({ upTo, label, late: upTo > lateFromMs }));

/** The band in which starts of that lateness lie. */
export function bandOf(ms: number): number {
  const i = bands.findIndex((band) => ms <= band.upTo);
  return i < 0 ? bands.length - 1 : i;
}

/** Counts by band. */
export function spread(classes: readonly LatenessClass[]): number[] {
  const counts = bands.map(() => 0);
  for (const c of classes) {
    const i = bandOf(endOf(c));
    counts[i] = (counts[i] ?? 0) + c.count;
  }
  return counts;
}

/** The lateness that is longer than that of the band before: from where a band begins. */
export function bandFrom(band: number): number {
  return band === 0 ? 0 : (bands[band - 1]?.upTo ?? 0);
}

export function merge(many: Iterable<readonly LatenessClass[]>): LatenessClass[] {
  const sums = new Map<number, number>();
  for (const classes of many) {
    for (const c of classes) {
      sums.set(endOf(c), (sums.get(endOf(c)) ?? 0) + c.count);
    }
  }
  return [...sums].map(([up_to_ms, count]) => ({ up_to_ms, count })).sort((a, b) => endOf(a) - endOf(b));
}

export function total(classes: readonly LatenessClass[]): number {
  return classes.reduce((sum, c) => sum + c.count, 0);
}

/** The upper end of the class of that rank, in ms; undefined if there were no starts. */
export function rank(classes: readonly LatenessClass[], q: number): number | undefined {
  const all = total(classes);
  if (all === 0) {
    return undefined;
  }
  let wanted = Math.max(1, Math.ceil(q * all));
  for (const c of [...classes].sort((a, b) => endOf(a) - endOf(b))) {
    wanted -= c.count;
    if (wanted <= 0) {
      return endOf(c);
    }
  }
  return undefined;
}

/** How many starts were late. */
export function lateCount(classes: readonly LatenessClass[], from: number = lateFromMs): number {
  return classes.reduce((sum, c) => (endOf(c) > from ? sum + c.count : sum), 0);
}
