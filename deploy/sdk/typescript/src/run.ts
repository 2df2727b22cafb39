// One attempt of a run, as a handler has it, and the last word on it. It needs no NATS: the test kit uses it, too.

import { PayloadError, type JobType } from "./jobs.js";

const maxLog = 64 << 10; // bytes
const maxError = 1 << 10;

/** A failure after which no attempt should follow. */
export class Final extends Error {
  override readonly name = "Final";
}

/** A failure after which the next attempt should wait for so many seconds at least (at most 24 h). */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  constructor(
    message: string,
    readonly seconds: number,
  ) {
    super(message);
  }
}

/** Why a handler is to stop: the reason of run.signal. */
export class Stopped extends Error {
  override readonly name = "Stopped";
  constructor(readonly why: string) {
    super({ timeout: "the time of the attempt is up", abandoned: "nobody waits for the result any more" }[why] ?? `the handler is to stop: ${why}`);
  }
}

/** One attempt of a run, as its handler has it. */
export interface Run<P = unknown> {
  /** The same at every attempt, so the idempotency key. */
  readonly id: string;
  readonly tenant: string;
  readonly job: string;
  /** From 1. */
  readonly attempt: number;
  /** Grows: of two executions the higher is the later. */
  readonly fence: bigint;
  readonly due: Date;
  /** Of a recurring job: the instant that its schedule names. */
  readonly nominal?: Date;
  readonly subject: string;
  /** W3C traceparent. */
  readonly trace: string;
  /** What JSON holds, or what the JobType makes of it; undefined if there is none. */
  readonly payload: P;
  /** Aborts with a Stopped when the run is cancelled, its time is up, the worker stops, or nobody waits any more. A handler
   * should end then; its slot is taken until it does. */
  readonly signal: AbortSignal;
  /** Keeps lines in the log of the run, where they can be read at once. The executor bounds how many. */
  log(text: string): void;
  /** Tells how far the handler has come. Of what is told in quick succession the last counts. */
  progress(done: number, total?: number, text?: string): void;
}

export type Handler<P = any> = (run: Run<P>) => unknown; // eslint-disable-line @typescript-eslint/no-explicit-any

/** Where a run's words go. */
export interface Talk {
  say(word: string, body: Uint8Array): void;
  progress(said: object): void;
}

const utf8 = new TextEncoder();

/** The facts of a run, by their headers. */
export interface Facts {
  get(name: string): string;
}

function need(facts: Facts, name: string): string {
  const value = facts.get(name);
  if (!value) throw new TypeError(`the header ${name} is missing`);
  return value;
}

function date(text: string): Date {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) throw new RangeError(`${text} is no time`);
  return at;
}

/** Makes a run of a request; throws if it is none of Carillon's. The payload is not read yet. */
export function newRun(facts: Facts, data: Uint8Array, subject: string, talk: Talk, signal: AbortSignal): Run & { timeout: number; deadline?: Date; maxOutput: number } {
  const attempt = Number(need(facts, "Carillon-Attempt"));
  if (!Number.isInteger(attempt)) throw new TypeError("Carillon-Attempt is no number");
  const nominal = facts.get("Carillon-Nominal-At");
  const deadline = facts.get("Carillon-Deadline");
  return {
    id: need(facts, "Carillon-Run-Id"),
    tenant: facts.get("Carillon-Tenant"),
    job: facts.get("Carillon-Job-Id"),
    attempt,
    fence: BigInt(need(facts, "Carillon-Fence")),
    due: date(need(facts, "Carillon-Due-At")),
    ...(nominal ? { nominal: date(nominal) } : {}),
    subject,
    trace: facts.get("traceparent"),
    payload: data as unknown,
    signal,
    timeout: Number(facts.get("Carillon-Timeout-Ms") || 0),
    ...(deadline ? { deadline: date(deadline) } : {}),
    maxOutput: Number(facts.get("Carillon-Max-Output") || 0),
    log: (text) => talk.say("log", utf8.encode(text).subarray(0, maxLog)),
    progress: (done, total, text) => talk.progress({ done, ...(total ? { total } : {}), ...(text ? { text } : {}) }),
  };
}

/** Calls a handler with its payload. */
export async function call(handler: Handler, kind: JobType<unknown> | undefined, run: Run, data: Uint8Array): Promise<unknown> {
  let payload: unknown;
  try {
    if (data.length > 0) payload = JSON.parse(new TextDecoder().decode(data));
  } catch (e) {
    throw new PayloadError(`decode payload: ${String(e)}`);
  }
  return await handler({ ...run, payload: kind ? kind.read(payload) : payload });
}

/** The output that a handler's result is: bytes and text as they are, undefined as nothing, all else as JSON. */
export function outputOf(result: unknown): Uint8Array {
  if (result === undefined) return new Uint8Array();
  if (result instanceof Uint8Array) return result;
  if (typeof result === "string") return utf8.encode(result);
  const text = JSON.stringify(result) as string | undefined;
  if (text === undefined) throw new TypeError(`${typeof result} has no form in JSON`);
  return utf8.encode(text);
}

/** The last word of an attempt: what its handler returned or threw. most bounds the output, in bytes; 0: it does not. */
export function outcome(ended: { result?: unknown; error?: unknown }, most = 0): { body: Uint8Array; headers: Record<string, string> } {
  const headers: Record<string, string> = { "Carillon-Word": "result" };
  let body: Uint8Array = new Uint8Array();
  let { error } = ended;
  if (error === undefined) {
    try {
      body = outputOf(ended.result);
    } catch (e) {
      error = new Final(`encode result: ${String(e)}`); // the work is done: to do it again would not help
    }
  }
  if (error !== undefined) {
    const named = error instanceof Final || error instanceof RetryAfter || error instanceof Stopped;
    const text = error instanceof Error ? (named ? error.message || error.name : `${error.name}: ${error.message}`) : String(error);
    const line = text.replace(/[^\x20-\x7e]+/g, (c) => (/^\s+$/.test(c) ? " " : "?")).replace(/ +/g, " ").trim();
    headers["Carillon-Error"] = line.slice(0, maxError) || "failed";
    if (error instanceof Final || error instanceof PayloadError) headers["Carillon-Error-Final"] = "true";
    if (error instanceof RetryAfter && error.seconds > 0) headers["Carillon-Retry-After"] = String(error.seconds);
  }
  if (most > 0 && body.length > most) {
    body = body.subarray(0, most);
    headers["Carillon-Output-Cut"] = "true";
  }
  return { body, headers };
}
