// The import that is under way, if one is. It goes on while the person looks at other views. After a
// reload of the page the file must be picked again; where it was is remembered in this tab.

import { signal } from '@preact/signals';
import { askFor } from './api/client';
import { refreshAll } from './api/live';
import { asProblem, Problem } from './api/problem';
import { tenant } from './api/session';
import {
  advanced,
  beginning,
  hashOf,
  isBlank,
  isPassing,
  largest,
  longestLine,
  nextSize,
  nextSlice,
  packed,
  readAnswer,
  sameFile,
  unpacked,
  whyFailed,
  withKey,
  type AnswerLine,
  type FileId,
  type Line,
  type Outcome,
  type Progress,
  type Slice,
} from './slices';

export type Phase = 'running' | 'waiting' | 'held' | 'stopped' | 'done';

/** A line that failed, as it is told of. */
export interface Failure extends Line {
  /** "" if it failed before the page was loaded. */
  why: string;
  status: number;
}

export interface Importing {
  phase: Phase;
  progress: Progress;
  /** The lines that failed; what became of the first ones is told on the page. */
  failures: readonly Failure[];
  /** Why it waits, or has stopped. */
  problem: Problem | undefined;
  /** When it goes on by itself, by Date.now(). */
  goesOnAt: number | undefined;
  /** When it began, or went on, by Date.now(), and where. */
  began: number;
  beganAt: number;
  /** Where it was could not be kept: a reload begins it anew. */
  unkept: boolean;
}

export const importing = signal<Importing | undefined>(undefined);

const storage = 'carillon.import';
/** How much of a file its hash is of, in bytes. */
const hashed = 1 << 20;
/** How much is read at once, in bytes. */
const chunk = 1 << 20;
/** A file with a line that is longer is none of jobs, in bytes. */
const hugest = 16 << 20;
/** How many pieces are under way at once. */
const atOnce = 3;
/** How long a piece may take, in ms. */
const patience = 120_000;
/** From so many failed lines on it is held to ask, if most lines fail. */
const askFrom = 1000;
/** How often a line is sent again that may be taken later. */
const tries = 8;

export async function identify(file: File): Promise<{ id: FileId; begin: Uint8Array }> {
  const begin = new Uint8Array(await file.slice(0, hashed).arrayBuffer());
  return { id: { name: file.name, size: file.size, hash: hashOf(begin) }, begin };
}

/** The import that this tab was in before it was loaded anew, if it has not come to its end. */
export function keptImport(): Progress | undefined {
  try {
    return unpacked(sessionStorage.getItem(storage));
  } catch {
    return undefined;
  }
}

function keep(progress: Progress): boolean {
  try {
    sessionStorage.setItem(storage, packed(progress));
    return true;
  } catch {
    return false;
  }
}

export function forgetImport(): void {
  try {
    sessionStorage.removeItem(storage);
  } catch {
    // storage is closed: nothing was kept
  }
}

let current: Job | undefined;

/** Begins an import, or goes on with the one that was kept of the same file. */
export function beginImport(file: File, id: FileId, options: { checkOnly: boolean; addKeys: boolean }): void {
  current?.stop();
  const kept = keptImport();
  const goesOn = kept !== undefined && sameFile(kept.file, id) && kept.tenant === tenant.peek() && kept.at < id.size;
  current = new Job(file, goesOn ? kept : beginning(id, tenant.peek(), options));
  current.start();
}

export function holdImport(): void {
  current?.hold();
}

export function resumeImport(): void {
  current?.start();
}

/** Ends it where it is. What was made stays. */
export function stopImport(): void {
  current?.stop();
  forgetImport();
  current = undefined;
  importing.value = undefined;
}

/** The file of the import, for what is made of its failed lines. */
export function importedFile(): File | undefined {
  return current?.file;
}

interface Piece {
  slice: Slice;
  outcome: Outcome & { failures: readonly Failure[] };
}

class Job {
  readonly file: File;
  #progress: Progress;
  #failures: Failure[];
  #done: Piece[] = [];
  #cancel = new AbortController();
  #running = false;
  #ended = false;
  #asked = false;
  #size = 500;
  #unkept = false;

  /** Where the next piece is read, and how many lines are before it. */
  #at: number;
  #lines: number;
  #read: { from: number; bytes: Uint8Array } = { from: 0, bytes: new Uint8Array() };

  constructor(file: File, progress: Progress) {
    this.file = file;
    this.#progress = progress;
    this.#failures = progress.failures.map((line) => ({ ...line, why: '', status: 0 }));
    this.#at = progress.at;
    this.#lines = progress.lines;
    importing.value = {
      phase: 'held',
      progress,
      failures: this.#failures,
      problem: undefined,
      goesOnAt: undefined,
      began: Date.now(),
      beganAt: progress.at,
      unkept: false,
    };
  }

  start(): void {
    if (this.#running || this.#ended) {
      return;
    }
    this.#running = true;
    this.#cancel = new AbortController();
    this.#at = this.#progress.at;
    this.#lines = this.#progress.lines;
    // Pieces that were done ahead of others are sent again, and so are told of again.
    this.#done = [];
    this.#failures = this.#failures.filter((f) => f.start < this.#at);
    this.#tell({ phase: 'running', problem: undefined, goesOnAt: undefined, began: Date.now(), beganAt: this.#at });
    addEventListener('beforeunload', warn);
    void this.#work();
  }

  hold(problem?: Problem): void {
    this.#cancel.abort();
    this.#running = false;
    removeEventListener('beforeunload', warn);
    this.#tell({ phase: problem ? 'stopped' : 'held', problem, goesOnAt: undefined });
  }

  stop(): void {
    this.#ended = true;
    this.hold();
  }

  #tell(changes: Partial<Importing>): void {
    const before = importing.peek();
    if (before && (current === this || current === undefined)) {
      importing.value = { ...before, progress: this.#progress, failures: this.#failures, unkept: this.#unkept, ...changes };
    }
  }

  async #work(): Promise<void> {
    const cancel = this.#cancel;
    try {
      // Without keys a piece that is sent twice makes its jobs twice: as little as may be is at stake.
      await Promise.all(Array.from({ length: this.#progress.addKeys ? atOnce : 1 }, () => this.#lane(cancel.signal)));
      if (!cancel.signal.aborted) {
        this.#finish();
      }
    } catch (thrown) {
      if (!cancel.signal.aborted) {
        this.hold(asProblem(thrown));
      }
    }
  }

  #finish(): void {
    this.#running = false;
    this.#ended = true;
    removeEventListener('beforeunload', warn);
    forgetImport();
    this.#tell({ phase: 'done', problem: undefined, goesOnAt: undefined });
    refreshAll();
  }

  async #lane(signal: AbortSignal): Promise<void> {
    for (let slice = await this.#next(); slice && !signal.aborted; slice = await this.#next()) {
      const outcome = await this.#send(slice, signal);
      if (signal.aborted) {
        return;
      }
      this.#note({ slice, outcome });
    }
  }

  /** Pieces are cut one after the other, whoever asks. */
  #cutting: Promise<unknown> = Promise.resolve();

  #next(): Promise<Slice | undefined> {
    const next = this.#cutting.then(() => this.#cut());
    this.#cutting = next.catch(() => undefined);
    return next;
  }

  async #cut(): Promise<Slice | undefined> {
    let length = chunk;
    while (this.#at < this.file.size) {
      const from = this.#at - this.#read.from;
      const isLast = this.#read.from + this.#read.bytes.length >= this.file.size;
      const bytes = from >= 0 && from < this.#read.bytes.length ? this.#read.bytes.subarray(from) : new Uint8Array();
      const slice =
        bytes.length === 0
          ? undefined
          : nextSlice(bytes, this.#at, this.#lines, isLast, { lines: this.#size, bytes: largest.bytes });
      if (slice) {
        this.#at = slice.end;
        this.#lines += slice.lines.length;
        return slice;
      }
      if (length > hugest) {
        throw new Problem(0, 'file', `Line ${this.#lines + 1} is longer than 16 MiB`, 'Is it a file of one job a line?');
      }
      const end = Math.min(this.#at + length, this.file.size);
      this.#read = { from: this.#at, bytes: new Uint8Array(await this.file.slice(this.#at, end).arrayBuffer()) };
      length *= 4; // a line that is longer than what was read
    }
    return undefined;
  }

  async #send(slice: Slice, signal: AbortSignal): Promise<Piece['outcome']> {
    const outcome = { created: 0, existing: 0, failures: [] as Failure[] };
    const isTooLong = (line: Line): boolean => line.end - line.start > longestLine;
    for (const line of slice.lines.filter(isTooLong)) {
      outcome.failures.push({ ...line, why: 'The line is longer than 256 KiB.', status: 413 });
    }
    let lines: readonly Line[] = slice.lines.filter((line) => !isTooLong(line));
    const bytes = new Uint8Array(await this.file.slice(slice.start, slice.end).arrayBuffer());
    if (bytes.length !== slice.end - slice.start) {
      throw new Problem(0, 'file', 'The file has changed while it was read', 'Pick it again.');
    }
    for (let n = 1; lines.length > 0; n++) {
      const began = Date.now();
      const body = this.#bodyOf(lines, bytes, slice.start);
      const answer = await this.#answer(body, signal);
      if (signal.aborted) {
        return outcome;
      }
      const again: Line[] = [];
      for (const one of answer) {
        if ('summary' in one) {
          outcome.created += this.#progress.checkOnly ? 0 : one.summary.created;
          outcome.existing += one.summary.existing;
        } else if ('line' in one) {
          const line = lines[one.line - 1];
          if (!line) {
            continue;
          }
          if (isPassing(one.status) && n < tries) {
            again.push(line);
          } else {
            outcome.failures.push({ ...line, why: whyFailed(one.error), status: one.status });
          }
        }
      }
      this.#size = nextSize(Math.max(lines.length, this.#size), Date.now() - began, outcome.failures.length / slice.lines.length);
      lines = again;
      if (again.length > 0) {
        await this.#pause(Math.min(1000 * 2 ** n, 30_000), undefined, signal);
      }
    }
    return outcome;
  }

  #bodyOf(lines: readonly Line[], bytes: Uint8Array, from: number): Uint8Array<ArrayBuffer> {
    const parts: Uint8Array[] = [];
    let size = 0;
    for (const line of lines) {
      let text = bytes.subarray(line.start - from, line.end - from);
      if (this.#progress.addKeys && !isBlank(text)) {
        // The text is in the key: a file that was changed beyond its first MiB is no fault.
        text = withKey(text, `console-${this.#progress.file.hash}-${line.number}-${hashOf(text)}`);
      }
      parts.push(text);
      size += text.length + 1;
    }
    const body = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      body.set(part, at);
      at += part.length;
      body[at++] = 10;
    }
    return body;
  }

  /** Sends a piece until it is answered whole. */
  async #answer(body: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<AnswerLine[]> {
    for (let n = 0; ; n++) {
      let problem: Problem;
      try {
        const response = await askFor('/v1/imports', {
          method: 'POST',
          query: { results: 'errors', validate_only: this.#progress.checkOnly },
          // The person may look at another tenant meanwhile.
          headers: { 'Content-Type': 'application/x-ndjson', 'Carillon-Tenant': this.#progress.tenant },
          content: body,
          patience,
          signal,
        });
        const answer = readAnswer(await response.text());
        const last = answer.at(-1);
        if (last && 'summary' in last) {
          return answer;
        }
        problem =
          last && 'error' in last && !('line' in last)
            ? new Problem(503, 'cut', last.error.title ?? 'The import was cut', last.error.detail)
            : new Problem(0, 'cut', 'The answer was cut');
      } catch (thrown) {
        if (signal.aborted) {
          return [];
        }
        problem = asProblem(thrown);
        if (!problem.passing && problem.status !== 408 && problem.status !== 500) {
          throw problem;
        }
      }
      // Smaller pieces may come through where larger ones do not.
      this.#size = Math.max(50, Math.floor(this.#size / 2));
      await this.#pause(Math.max(problem.retryAfter ?? 0, Math.min(1000 * 2 ** n, 30_000)), problem, signal);
      if (signal.aborted) {
        return [];
      }
    }
  }

  async #pause(ms: number, problem: Problem | undefined, signal: AbortSignal): Promise<void> {
    this.#tell({ phase: 'waiting', problem, goesOnAt: Date.now() + ms });
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve();
      });
    });
    if (!signal.aborted) {
      this.#tell({ phase: 'running', problem: undefined, goesOnAt: undefined });
    }
  }

  #note(piece: Piece): void {
    if (piece.outcome.failures.length > 0) {
      this.#failures = [...this.#failures, ...piece.outcome.failures];
    }
    const { progress, rest } = advanced(this.#progress, [...this.#done, piece]);
    this.#progress = progress;
    this.#done = rest;
    this.#unkept = !keep(progress);
    this.#tell({});
    if (!this.#asked && progress.failed >= askFrom && progress.failed > progress.lines / 2) {
      this.#asked = true;
      this.hold(
        new Problem(0, 'many', 'Most lines fail', 'It is held here, in case this is not the file that was meant.'),
      );
    }
  }
}

function warn(e: BeforeUnloadEvent): void {
  e.preventDefault();
}
