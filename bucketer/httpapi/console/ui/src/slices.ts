// A file of jobs, one a line, cut into pieces that are sent one by one, and how far that has come. Pure.
//
// A browser reads nothing of an answer before it has sent the whole request, and a node stops reading
// when it cannot send its answers. So a request is small enough to be taken in whole.

/** Bounds of a piece. */
export interface Bounds {
  lines: number;
  bytes: number;
}

/** The most that a node takes in before it has to send an answer: its buffers, and those of the way. */
export const largest: Bounds = { lines: 2000, bytes: 256 * 1024 };

/** How long a line may be that the API takes, in bytes. */
export const longestLine = 256 * 1024;

/** A line of the file, by its place. */
export interface Line {
  /** From 1, blank lines included. */
  number: number;
  /** Offsets in the file, without the end of the line. */
  start: number;
  end: number;
}

export interface Slice {
  /** Offsets in the file, with the end of the last line. */
  start: number;
  end: number;
  /** How many lines are before it in the file. */
  before: number;
  /** All its lines, blank ones as well. */
  lines: readonly Line[];
}

const newline = 10;

/**
 * The next piece of a file, of what was read from `start` on. Undefined: more must be read before a
 * line ends. A line that is longer than the bounds is a piece of its own.
 */
export function nextSlice(
  bytes: Uint8Array,
  start: number,
  before: number,
  isLast: boolean,
  bounds: Bounds,
): Slice | undefined {
  const lines: Line[] = [];
  let at = 0;
  while (at < bytes.length && lines.length < bounds.lines) {
    const found = bytes.indexOf(newline, at);
    if (found < 0 && !isLast) {
      break;
    }
    const end = found < 0 ? bytes.length : found;
    const next = found < 0 ? end : end + 1;
    if (lines.length > 0 && next > bounds.bytes) {
      break;
    }
    lines.push({ number: before + lines.length + 1, start: start + at, end: start + end });
    at = next;
  }
  return lines.length === 0 ? undefined : { start, end: start + at, before, lines };
}

const encoder = new TextEncoder();

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}

export function isBlank(line: Uint8Array): boolean {
  return line.every(isSpace);
}

/**
 * The line with an idempotency key, so that sending it again does not make the job twice. One that
 * has a key, or is no object, stays as it is.
 */
export function withKey(line: Uint8Array, key: string): Uint8Array {
  let at = 0;
  while (isSpace(line[at])) {
    at++;
  }
  if (line[at] !== 0x7b || hasKey(line)) {
    return line;
  }
  let next = at + 1;
  while (isSpace(line[next])) {
    next++;
  }
  const head = encoder.encode(`{"key":${JSON.stringify(key)}${line[next] === 0x7d ? '' : ','}`);
  const out = new Uint8Array(head.length + line.length - at - 1);
  out.set(head);
  out.set(line.subarray(at + 1), head.length);
  return out;
}

const word = encoder.encode('"key"');

/** Whether a job on a line has a key. A line that is no JSON counts as if: it is sent as it is. */
function hasKey(line: Uint8Array): boolean {
  let found = false;
  for (let i = line.indexOf(word[0] ?? 0); i >= 0 && !found; i = line.indexOf(word[0] ?? 0, i + 1)) {
    found = word.every((byte, k) => line[i + k] === byte);
  }
  if (!found) {
    return false;
  }
  try {
    const job: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line));
    return typeof job !== 'object' || job === null || Object.hasOwn(job, 'key');
  } catch {
    return true;
  }
}

/** A hash of bytes that tells files apart. It keeps no secret. */
export function hashOf(bytes: Uint8Array): string {
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (const byte of bytes) {
    a = Math.imul(a ^ byte, 2654435761);
    b = Math.imul(b ^ byte, 1597334677);
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  return (b >>> 0).toString(16).padStart(8, '0') + (a >>> 0).toString(16).padStart(8, '0');
}

/** What a file is known by, after a reload. */
export interface FileId {
  name: string;
  size: number;
  /** Of its first MiB. */
  hash: string;
}

export function sameFile(a: FileId, b: FileId): boolean {
  return a.name === b.name && a.size === b.size && a.hash === b.hash;
}

/** How far an import has come: all before `at` is answered. Nothing of the lines themselves is in it. */
export interface Progress {
  file: FileId;
  tenant: string;
  at: number;
  /** Lines before `at`. */
  lines: number;
  created: number;
  existing: number;
  failed: number;
  /** Where the lines are that failed. */
  failures: readonly Line[];
  checkOnly: boolean;
  addKeys: boolean;
}

export function beginning(file: FileId, tenant: string, options: { checkOnly: boolean; addKeys: boolean }): Progress {
  return { file, tenant, at: 0, lines: 0, created: 0, existing: 0, failed: 0, failures: [], ...options };
}

/** What became of a piece. */
export interface Outcome {
  created: number;
  existing: number;
  failures: readonly Line[];
}

/** The progress with pieces that are done, as far as they follow it; and the ones that do not yet. */
export function advanced<T extends { slice: Slice; outcome: Outcome }>(
  progress: Progress,
  done: readonly T[],
): { progress: Progress; rest: T[] } {
  const rest = [...done].sort((a, b) => a.slice.start - b.slice.start);
  let next = progress;
  for (let first = rest[0]; first && first.slice.start === next.at; first = rest[0]) {
    rest.shift();
    const { slice, outcome } = first;
    next = {
      ...next,
      at: slice.end,
      lines: next.lines + slice.lines.length,
      created: next.created + outcome.created,
      existing: next.existing + outcome.existing,
      failed: next.failed + outcome.failures.length,
      failures: outcome.failures.length === 0 ? next.failures : [...next.failures, ...outcome.failures],
    };
  }
  return { progress: next, rest };
}

/** The progress as a text to keep, and back. Places of lines are told by how far they are from the last. */
export function packed(progress: Progress): string {
  let last: Line = { number: 0, start: 0, end: 0 };
  const failures = progress.failures.map((line) => {
    const text = [line.number - last.number, line.start - last.end, line.end - line.start].map((n) => n.toString(36));
    last = line;
    return text.join('.');
  });
  return JSON.stringify({ version: 1, ...progress, failures: failures.join(' ') });
}

/** What packed made; undefined if it is anything else. */
export function unpacked(text: string | null): Progress | undefined {
  try {
    const kept = JSON.parse(text ?? '') as Record<string, unknown>;
    const { failures: packedLines, version, ...rest } = kept;
    const progress = rest as unknown as Progress;
    const whole = [progress.at, progress.lines, progress.created, progress.existing, progress.failed, progress.file.size];
    if (version !== 1 || typeof packedLines !== 'string' || !whole.every((n) => Number.isSafeInteger(n) && n >= 0)) {
      return undefined;
    }
    let last: Line = { number: 0, start: 0, end: 0 };
    const failures = packedLines
      .split(' ')
      .filter(Boolean)
      .map((one) => {
        const [number = NaN, start = NaN, length = NaN] = one.split('.').map((n) => Number.parseInt(n, 36));
        last = { number: last.number + number, start: last.end + start, end: last.end + start + length };
        return last;
      });
    return failures.every((l) => Number.isSafeInteger(l.end)) ? { ...progress, failures } : undefined;
  } catch {
    return undefined;
  }
}

/** What stands in a line of the answer to an import. */
export type AnswerLine =
  | { line: number; status: number; error?: AnswerProblem }
  | { summary: { lines: number; created: number; existing: number; failed: number } }
  | { error: AnswerProblem };

export interface AnswerProblem {
  title?: string;
  detail?: string;
  status?: number;
  errors?: { location?: string; message?: string }[] | null;
}

/** Reads the answer to an import. A line that is cut off is left out. */
export function readAnswer(text: string): AnswerLine[] {
  const lines: AnswerLine[] = [];
  for (const line of text.split('\n')) {
    if (line.trim() === '') {
      continue;
    }
    try {
      lines.push(JSON.parse(line) as AnswerLine);
    } catch {
      break;
    }
  }
  return lines;
}

/** Why a line failed, in a sentence. */
export function whyFailed(problem: AnswerProblem | undefined): string {
  const faults = (problem?.errors ?? []).map((f) => `${(f.location ?? '').replace(/^body\.?/, '')} ${f.message ?? ''}`.trim());
  const words = faults.length > 0 ? faults.join('; ') : [problem?.title, problem?.detail].filter(Boolean).join(': ');
  return words === '' ? 'It was refused.' : words;
}

/** Whether a line that was refused may be taken a moment later. */
export function isPassing(status: number): boolean {
  return status === 429 || status >= 500;
}

/** How many lines the next piece has: so many that it takes about a second. */
export function nextSize(lines: number, took: number, failedShare: number): number {
  let next = lines;
  if (took < 700) {
    next = lines * 2;
  } else if (took > 3000) {
    next = Math.floor(lines / 2);
  }
  // Each line that fails is an answer to be sent.
  const most = failedShare > 0.2 ? 500 : largest.lines;
  return Math.max(50, Math.min(next, most));
}

/** What is wrong with a file as a whole, by how it begins; undefined if nothing is seen. */
export function unfit(begin: Uint8Array, name: string): { what: string; command: string } | undefined {
  if (begin[0] === 0x1f && begin[1] === 0x8b) {
    return { what: 'It is compressed by gzip, and this page reads plain text.', command: `carillon import ${quotedName(name)}` };
  }
  if (begin[0] === 0x28 && begin[1] === 0xb5 && begin[2] === 0x2f && begin[3] === 0xfd) {
    return { what: 'It is compressed by zstd, and this page reads plain text.', command: `carillon import ${quotedName(name)}` };
  }
  let at = begin[0] === 0xef && begin[1] === 0xbb && begin[2] === 0xbf ? 3 : 0;
  while (isSpace(begin[at]) || begin[at] === newline) {
    at++;
  }
  if (begin[at] === 0x5b) {
    return {
      what: 'It is one list, and each line must be one job.',
      command: `jq -c '.[]' ${quotedName(name)} > jobs.ndjson`,
    };
  }
  return undefined;
}

function quotedName(name: string): string {
  return /^[\w./-]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`;
}
