// Workers: programs that run the tasks of the kind nats. They speak executor/worker/PROTOCOL.md over a connection of
// @nats-io/transport-node (or another transport of nats-core).
//
//     const nc = await connect({ servers: "nats://127.0.0.1:4222", maxReconnectAttempts: -1 });
//     const worker = new Worker(nc, { concurrency: 16 });
//     worker.handle("work.email", async (run) => {
//       run.log(`sending to ${run.payload.to}`);
//       return { sent: 1 };
//     });
//     await worker.run({ signal });        // until signal aborts; then it drains
//
// A worker has the guarantees of its task, not more: a run may come twice, also to two workers at once. run.id is the key
// with which to recognise it; of two executions the one with the higher run.fence is the later.

import { createInbox, headers as newHeaders, type Msg, type NatsConnection } from "@nats-io/nats-core";

import { PayloadError, type JobType } from "./jobs.js";
import { call, Final, newRun, outcome, RetryAfter, Stopped, type Handler, type Talk } from "./run.js";

export { Final, RetryAfter, Stopped, type Handler, type Run } from "./run.js";

const defaultQueue = "carillon-workers"; // workers of one name share the runs of a subject
// Milliseconds. An executor gives up a worker that is silent for 35 s. After `missed` signs of life in a row that nobody
// took the executor counts as gone. The result is sent for longer than an executor takes to reconnect.
const aliveFirst = 1000;
const aliveEvery = 10_000;
const maxMissed = 2;
const resultFirst = 1000;
const resultMost = 5000;
const resultLast = 30_000;
const progressEvery = 250;
const stopLast = 5000; // for the end of a handler that was told to stop to be heard
const skew = 5000; // by which the clocks of a worker and an executor may differ
const headerRoom = 4 << 10; // bytes

/** What a worker and an executor say to each other about one attempt. */
class Conversation implements Talk {
  readonly control = new AbortController();
  readonly reply = createInbox();
  #ended = false;
  #unheard = false;
  #missed = 0;
  #told: object | undefined;
  #pacing: NodeJS.Timeout | undefined;
  #living: NodeJS.Timeout | undefined;
  #heard!: () => void;
  readonly #acknowledged = new Promise<true>((resolve) => (this.#heard = () => resolve(true)));

  constructor(
    private readonly nc: NatsConnection,
    private readonly inbox: string,
  ) {}

  stop(why: string): void {
    this.control.abort(new Stopped(why));
  }

  say(word: string, body: Uint8Array = new Uint8Array()): void {
    if (!this.#ended) this.#send(body, { "Carillon-Word": word });
  }

  #send(body: Uint8Array, said: Record<string, string>): boolean {
    const headers = newHeaders();
    for (const [name, value] of Object.entries(said)) headers.set(name, value);
    try {
      this.nc.publish(this.inbox, body, { reply: this.reply, headers });
      return true;
    } catch {
      return false; // the connection's: it is tried again, or of no weight
    }
  }

  progress(said: object): void {
    this.#told = said;
    if (this.#pacing !== undefined || this.#ended) return;
    this.#sendProgress();
    this.#pacing = setTimeout(() => {
      this.#pacing = undefined;
      if (this.#told && !this.#ended) this.progress(this.#told);
    }, progressEvery);
  }

  #sendProgress(): void {
    if (this.#told) this.say("progress", new TextEncoder().encode(JSON.stringify(this.#told)));
    this.#told = undefined;
  }

  /** Takes an answer of the executor in. */
  hear(msg: Msg): void {
    const h = msg.headers;
    if (!h) return;
    if (h.get("Carillon-Cancel")) this.stop(h.get("Carillon-Cancel"));
    else if (h.get("Carillon-Gone")) {
      this.stop("abandoned");
      this.#heard();
    } else if (h.get("Carillon-Ack")) this.#heard();
    else if (h.code === 503) this.#unheard = true; // nobody listens: for a moment, or for ever
  }

  /** Says that the handler is at work, until the end. */
  live(wait = aliveFirst): void {
    this.#living = setTimeout(() => {
      this.#missed = this.#unheard ? this.#missed + 1 : 0;
      this.#unheard = false;
      if (this.#missed >= maxMissed) return this.stop("abandoned");
      this.say("alive");
      this.live(aliveEvery);
    }, wait);
  }

  /** Sends the end until it was heard, for last ms at most; reports whether it was. */
  async end(body: Uint8Array, headers: Record<string, string>, last: number): Promise<boolean> {
    clearTimeout(this.#living);
    clearTimeout(this.#pacing);
    this.#sendProgress();
    this.#ended = true;
    for (let wait = resultFirst, left = last; ; left -= wait, wait = Math.min(2 * wait, resultMost)) {
      this.#send(body, headers); // core NATS may lose a message
      let timer: NodeJS.Timeout | undefined;
      const waited = new Promise<false>((resolve) => (timer = setTimeout(resolve, Math.min(wait, left), false)));
      const heard = await Promise.race([this.#acknowledged, waited]);
      clearTimeout(timer);
      if (heard || left <= wait) return heard;
    }
  }
}

export interface WorkerOptions {
  /** Handlers at work at once; the rest is declined, for others to take. 64 unless stated. */
  concurrency?: number;
  /** The queue group: workers of one name share the runs of a subject. */
  queue?: string;
  /** How many ms a stop waits for handlers at work before their signals abort; 30,000 unless stated. */
  drain?: number;
  /** Told of what goes wrong beside the runs; console.warn unless stated. */
  warn?: (text: string, error?: unknown) => void;
}

/** Runs handlers for what comes on their subjects. The connection is the caller's: it is not closed. */
export class Worker {
  readonly #nc: NatsConnection;
  readonly #options: Required<WorkerOptions>;
  readonly #handlers = new Map<string, { handler: Handler; kind: JobType<unknown> | undefined }>();
  readonly #atWork = new Map<Promise<void>, Conversation>();
  #draining = false;

  constructor(nc: NatsConnection, options: WorkerOptions = {}) {
    this.#nc = nc;
    this.#options = { concurrency: 64, queue: defaultQueue, drain: 30_000, warn: console.warn, ...options };
  }

  /** Has a function run what comes on a subject, or on that of a JobType, whose payload it gets. */
  handle<P>(on: JobType<P>, handler: Handler<P>): this;
  handle(on: string, handler: Handler): this;
  handle(on: string | JobType<unknown>, handler: Handler): this {
    const [subject, kind] = typeof on === "string" ? [on, undefined] : [on.subject, on];
    if (!subject) throw new TypeError("a handler needs a subject: a JobType has one if it was given one");
    this.#handlers.set(subject, { handler, kind });
    return this;
  }

  /** Takes runs until signal aborts, and then drains: it takes no more, and what is at work may end within the drain time.
   * ready is called once it takes runs. */
  async run({ signal, ready }: { signal: AbortSignal; ready?: () => void }): Promise<void> {
    if (this.#handlers.size === 0) throw new TypeError("a worker without handlers");
    const subs = [...this.#handlers].map(([subject, { handler, kind }]) =>
      this.#nc.subscribe(subject, {
        queue: this.#options.queue,
        callback: (error, msg) => (error ? this.#options.warn(`subscription to ${subject}`, error) : this.#take(msg, handler, kind)),
      }),
    );
    await this.#nc.flush();
    ready?.();
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    this.#draining = true; // what comes from now on is declined
    await Promise.all(subs.map((sub) => sub.drain()));
    await this.#ends(this.#options.drain);
    if (this.#atWork.size > 0) {
      this.#options.warn(`drain time-out: ${this.#atWork.size} handlers at work are stopped`);
      for (const conversation of this.#atWork.values()) conversation.stop("stopped");
      await this.#ends(2 * stopLast);
    }
    await this.#nc.flush();
  }

  /** Waits until nothing is at work, for ms at most. */
  async #ends(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const waited = new Promise((resolve) => (timer = setTimeout(resolve, ms)));
    await Promise.race([Promise.all(this.#atWork.keys()), waited]);
    clearTimeout(timer);
  }

  #take(msg: Msg, handler: Handler, kind: JobType<unknown> | undefined): void {
    let run: ReturnType<typeof newRun>;
    let conversation: Conversation;
    try {
      if (!msg.reply || !msg.headers) throw new TypeError("it has no inbox, or no headers");
      conversation = new Conversation(this.#nc, msg.reply);
      run = newRun(msg.headers, msg.data, msg.subject, conversation, conversation.control.signal);
    } catch (e) {
      this.#options.warn(`a message on ${msg.subject} that is no run is passed over`, e);
      return;
    }
    const late = run.deadline !== undefined && Date.now() - run.deadline.getTime() > skew;
    if (late) this.#options.warn(`run ${run.id} came after its deadline: it is declined`); // also by a clock that is wrong, and then each
    if (late || this.#draining || this.#atWork.size >= this.#options.concurrency) {
      conversation.say("declined");
      return;
    }
    const work = this.#work(handler, kind, run, msg.data, conversation)
      .catch((e: unknown) => this.#options.warn(`an attempt of run ${run.id} ended without a result`, e))
      .finally(() => this.#atWork.delete(work));
    this.#atWork.set(work, conversation);
  }

  /** Runs the handler, says meanwhile that it is alive, and sends its result until it is heard. */
  async #work(handler: Handler, kind: JobType<unknown> | undefined, run: ReturnType<typeof newRun>, data: Uint8Array, conversation: Conversation): Promise<void> {
    const { signal } = conversation.control;
    const control = this.#nc.subscribe(conversation.reply, { callback: (error, msg) => void (error ?? conversation.hear(msg)) });
    const timer = run.timeout > 0 ? setTimeout(() => conversation.stop("timeout"), Math.min(run.timeout, 2 ** 31 - 1)) : undefined;
    conversation.live();
    try {
      let ended: { result?: unknown; error?: unknown };
      try {
        ended = { result: await call(handler, kind, run, data) };
      } catch (error) {
        ended = { error: error ?? new Error("failed") };
        if (!signal.aborted && !(error instanceof Final || error instanceof RetryAfter || error instanceof PayloadError)) {
          this.#options.warn(`the handler of run ${run.id} failed`, error);
        }
      }
      const most = (this.#nc.info?.max_payload ?? 1 << 20) - headerRoom;
      const { body, headers } = outcome(ended, run.maxOutput > 0 ? Math.min(most, run.maxOutput) : most);
      if (!(await conversation.end(body, headers, signal.aborted ? stopLast : resultLast))) {
        this.#options.warn(`run ${run.id}: nobody heard the result: it may be attempted again`);
      }
    } finally {
      clearTimeout(timer);
      control.unsubscribe();
    }
  }
}
