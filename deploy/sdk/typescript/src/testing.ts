// A test kit: a Carillon in memory whose clock the test advances, and a way to run one handler of a worker.
//
//     const fake = new Fake();
//     fake.on("https://example.com/hook", () => 200);
//     const shop = new Shop(fake.client());            // what is tested
//     await shop.order(7);                             // has a reminder be sent in two days
//     await fake.advance(2 * 86_400_000);
//     assert.deepEqual(fake.calls.at(-1)?.payload, { order: 7 });
//
// What it models: tasks, one-off jobs, jobs by interval (every, anchor, start, end, max_runs), names, idempotency keys,
// imports, cancel, pause, resume, trigger, retry; calls over HTTP and to workers, with their outcomes, retries by policy
// (without jitter), dead letters and outputs; events and the jobs that run on them.
//
// What it does not model it refuses with 501 and the kind "not-modelled", and never pretends: cron, workflows, jobs after
// jobs, several schedules, unique, concurrency, filters of events, scripts, functions, mails, operations. Handlers take no
// time, so there are no time-outs, rates and limits are not enforced, nothing is pre-empted, and nothing is late. Keys never expire. Whoever needs to
// know more tests against `carillon dev`.

import { Client, type Options } from "./client.js";
import type { JobType } from "./jobs.js";
import { span } from "./values.js";
import { call, Final, newRun, outcome, outputOf, RetryAfter, type Handler } from "./run.js";

export { Final, RetryAfter } from "./run.js";

type Json = any; // eslint-disable-line @typescript-eslint/no-explicit-any -- bodies, as they came

/** When a Fake begins, unless it is told. */
export const epoch = Date.UTC(2030, 0, 1);

const defaultRetry = { max_attempts: 5, initial: "1s", factor: 2, max: "10m0s", jitter: "full" };
const nameForm = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const maxPayload = 64 << 10;
const messages = ["jetstream", "kafka", "sqs", "sns", "eventbridge", "step_functions"];
const work = ["task", "http", "nats", "script", "lambda", "email", ...messages];
const common = ["email", "http", "lambda", "nats", "script", "guarantee", "retry", "timeout", ...messages];
const jobFields = [
  ...common,
  ...["after", "concurrency", "durability", "end", "jitter", "key", "labels", "max_runs", "misfire", "name", "on", "pause_on_failure", "payload", "preemptible", "priority", "region", "requires", "schedule", "schedules", "start", "task", "unique"],
];
const taskFields = [...common, "description", "max_concurrent", "payload_schema", "preemptible", "rate", "requires"];
const ended = new Set(["succeeded", "failed", "cancelled"]);
const retriedStatus = new Set([408, 425, 429]);

/** One attempt, as what is called sees it. */
export interface Call {
  /** The URL, or the subject. */
  target: string;
  payload: Json;
  runId: string;
  jobId: string;
  attempt: number;
  due: Date;
  at: Date;
  headers: Record<string, string>;
}

/** Answers calls. For a URL it returns a status, a status and a body, or undefined for 200. For a subject it returns the
 * output, or throws as a handler of a worker does. What throws anything else has failed, and is tried again. */
export type Answer = (call: Call) => unknown;

class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    readonly title: string,
    readonly faults: { location: string; message: string }[] = [],
    readonly retryAfter = 0,
  ) {
    super(title);
  }

  problem(): object {
    const { status, title, faults } = this;
    return { type: `urn:carillon:problem:${this.kind}`, title, status, ...(faults.length ? { errors: faults } : {}) };
  }
}

const invalid = (faults: { location: string; message: string }[]): Refusal => new Refusal(422, "invalid", "The request is not valid", faults);
const notModelled = (what: string): Refusal => new Refusal(501, "not-modelled", `The fake does not model this: ${what}`);
const notFound = (): Refusal => new Refusal(404, "not-found", "It does not exist");
const finished = (): Refusal => new Refusal(409, "finished", "It cannot be changed any more");
const text = (at: number): string => new Date(at).toISOString();

function time(value: unknown): number {
  const at = typeof value === "string" && /(Z|[+-]\d\d:\d\d)$/.test(value) ? Date.parse(value) : NaN;
  if (Number.isNaN(at)) throw new RangeError("no time");
  return at;
}

interface FakeJob {
  id: string;
  body: Json;
  created: number;
  updated: number;
  many: boolean; // it can have many runs
  state: string;
  generation: number;
  count: number; // runs by schedule so far
}

interface FakeRun {
  id: string;
  job: FakeJob;
  due: number;
  trigger: string;
  payload: Json;
  state: string;
  attempts: Json[];
  nextTry?: number | undefined;
  started?: number;
  finished?: number;
  output: Uint8Array;
  dead: boolean;
  origin?: string;
  event?: string;
}

/** A Carillon in memory, of one tenant. */
export class Fake {
  /** The attempts so far. */
  readonly calls: Call[] = [];
  /** The events that were published. */
  readonly events: { id: string; name: string; body: Json; at: Date }[] = [];
  #now: number;
  #count = 0;
  readonly #answers = new Map<string, Answer>();
  readonly #refusals: Refusal[] = [];
  readonly #tasks = new Map<string, Json>();
  readonly #jobs = new Map<string, FakeJob>();
  readonly #runs = new Map<string, FakeRun>();
  readonly #keys = new Map<string, { mark: string; status: number; said: Json }>();
  readonly #lines = new Map<string, { mark: string; id: string }>();

  constructor(now: Date | number = epoch) {
    this.#now = Number(now);
  }

  get now(): Date {
    return new Date(this.#now);
  }

  /** A client of it. Its pauses advance the clock, and take no time. */
  client(options: Options = {}): Client {
    return new Client("http://fake", { fetch: (request) => this.#serve(request), sleep: (ms) => this.advance(ms), ...options });
  }

  /** Has calls of a URL, a subject or a JobType be answered. Calls of what nobody answers fail. */
  on(target: string | JobType<never> | JobType<Json>, answer: Answer): this {
    this.#answers.set(typeof target === "string" ? target : target.subject, answer);
    return this;
  }

  /** Has the next requests be refused before they do anything; retryAfter is in seconds. */
  refuseNext(times = 1, status = 503, retryAfter = 0): void {
    for (let n = 0; n < times; n++) this.#refusals.push(new Refusal(status, "not-ready", "The fake was told to refuse this", [], retryAfter));
  }

  /** Moves the clock on by ms, and runs what falls due meanwhile, in the order of time. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    for (;;) {
      let next: FakeRun | undefined;
      for (const run of this.#runs.values()) {
        if (run.state !== "pending" && run.state !== "retrying") continue;
        if (!next || (run.nextTry ?? run.due) < (next.nextTry ?? next.due)) next = run;
      }
      if (!next || (next.nextTry ?? next.due) > until) break;
      this.#now = Math.max(this.#now, next.nextTry ?? next.due);
      await this.#attempt(next);
    }
    this.#now = Math.max(this.#now, until);
  }

  /** Runs what is due now. */
  settle(): Promise<void> {
    return this.advance(0);
  }

  // What runs.

  async #attempt(run: FakeRun): Promise<void> {
    const spec = this.#work(run.job.body);
    run.started ??= this.#now;
    const number = run.attempts.length + 1;
    const attempt: Json = { number, executor: "fake", started_at: text(this.#now), finished_at: text(this.#now) };
    run.attempts.push(attempt);
    run.state = "running";
    run.nextTry = undefined;
    if (number === 1 && run.trigger === "schedule" && run.job.many) this.#plan(run.job);
    const failure = await this.#call(run, spec, number, attempt);
    attempt.outcome = failure ? "failed" : "succeeded";
    if (failure) attempt.error = failure.error;
    const policy = { ...defaultRetry, ...spec.retry };
    if ((run.state as string) === "cancelled") attempt.outcome = "cancelled"; // by what was called
    else if (!failure) run.state = "succeeded";
    else if (failure.final || spec.guarantee === "at_most_once" || number >= policy.max_attempts) {
      run.state = "failed";
      run.dead = true;
    } else {
      const wait = Math.min(span(policy.initial) * policy.factor ** (number - 1), span(policy.max));
      run.state = "retrying";
      run.nextTry = this.#now + Math.max(wait, (failure.after ?? 0) * 1000);
    }
    if (ended.has(run.state)) {
      run.finished = this.#now;
      if (run.job.id === run.id && run.job.state !== "cancelled") run.job.state = "finished";
    }
  }

  async #call(run: FakeRun, spec: Json, number: number, attempt: Json): Promise<{ error: string; final?: boolean; after?: number } | undefined> {
    const target: string = spec.http ? spec.http.url : spec.nats.subject;
    const headers = { ...spec.http?.headers, "Carillon-Run-Id": run.id, "Carillon-Job-Id": run.job.id, "Carillon-Attempt": String(number), "Idempotency-Key": run.id };
    const made: Call = { target, payload: run.payload, runId: run.id, jobId: run.job.id, attempt: number, due: new Date(run.due), at: this.now, headers };
    this.calls.push(made);
    const answer = this.#answers.get(target);
    if (!answer) return { error: `${spec.http ? "connection refused" : "no worker"} (the fake has no handler for it)` };
    try {
      const result = await answer(made);
      const [status, said] = !spec.http ? [200, result] : Array.isArray(result) ? result : [result ?? 200, undefined];
      run.output = outputOf(said);
      attempt.output = new TextDecoder().decode(run.output).slice(0, 2048);
      if (!spec.http) return undefined;
      attempt.status_code = status;
      if (status >= 200 && status < 300) return undefined;
      return { error: `status ${status}`, final: status >= 400 && status < 500 && !retriedStatus.has(status) };
    } catch (e) {
      if (e instanceof Final) return { error: e.message, final: true };
      if (e instanceof RetryAfter) return { error: e.message, after: e.seconds };
      return { error: e instanceof Error ? `${e.name}: ${e.message}` : String(e) };
    }
  }

  /** What a job calls, by what its task says now. */
  #work(body: Json): Json {
    const { http, nats, retry, guarantee } = this.#tasks.get(body.task) ?? {};
    return JSON.parse(JSON.stringify({ http, nats, retry, guarantee, ...body })) as Json;
  }

  #id(): string {
    const n = (++this.#count).toString(16);
    return `${n.padStart(8, "0")}-0000-7000-8000-${n.padStart(12, "0")}`;
  }

  #addRun(job: FakeJob, due: number, trigger: string, payload: Json, more: Partial<FakeRun> = {}): FakeRun {
    const id = !job.many && trigger === "schedule" ? job.id : this.#id();
    const run: FakeRun = { id, job, due, trigger, payload, state: "pending", attempts: [], output: new Uint8Array(), dead: false, ...more };
    this.#runs.set(id, run);
    return run;
  }

  /** Plans the next run of a job by interval. */
  #plan(job: FakeJob): void {
    const { schedule, start, end, max_runs: most } = job.body;
    if (!schedule?.every || job.state !== "active" || (most && job.count >= most)) return;
    const every = span(schedule.every);
    const anchor = schedule.anchor ? time(schedule.anchor) : job.created;
    const first = start ? Math.max(this.#now, time(start) - 1) : this.#now;
    const due = anchor + (Math.floor((first - anchor) / every) + 1) * every;
    if (end && due >= time(end)) return;
    job.count++;
    this.#addRun(job, due, "schedule", job.body.payload);
  }

  // What is answered.

  async #serve(request: Request): Promise<Response> {
    try {
      const refusal = this.#refusals.shift();
      if (refusal) throw refusal;
      return await this.#answer(request);
    } catch (e) {
      if (!(e instanceof Refusal)) throw e;
      const headers: Record<string, string> = { "Content-Type": "application/problem+json" };
      if (e.retryAfter) headers["Retry-After"] = String(e.retryAfter);
      return Response.json(e.problem(), { status: e.status, headers });
    }
  }

  async #answer(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const path = url.pathname.split("/").slice(2).map(decodeURIComponent);
    const content = await request.text();
    if (path[0] === "imports") return this.#import(content, url.searchParams.get("validate_only") !== "true");
    const body = content === "" ? undefined : this.#json(content);
    const key = request.headers.get("Idempotency-Key");
    const mark = JSON.stringify([request.method, path, body]);
    const known = key ? this.#keys.get(key) : undefined;
    if (known) {
      if (known.mark !== mark) throw new Refusal(422, "key-reused", "The idempotency key was used before", [{ location: "header.Idempotency-Key", message: "came with another request" }]);
      return Response.json(known.said, { status: known.status, headers: { "Idempotency-Replayed": "true" } });
    }
    const [status, said] = this.#route(request.method, path, url.searchParams, body);
    if (key) this.#keys.set(key, { mark, status, said });
    if (said instanceof Uint8Array) return new Response(new Uint8Array(said), { status, headers: { "Content-Type": "text/plain" } });
    return status === 204 ? new Response(null, { status }) : Response.json(said, { status });
  }

  #json(content: string): Json {
    try {
      return JSON.parse(content);
    } catch {
      throw new Refusal(400, "not-json", "The body is not JSON");
    }
  }

  #route(method: string, path: string[], query: URLSearchParams, body: Json): [number, Json] {
    const [noun, id, act] = path;
    switch (`${method} ${noun}`) {
      case "PUT tasks":
        return this.#putTask(id!, body);
      case "GET tasks":
        if (id === undefined) return page([...this.#tasks.keys()].sort().map((name) => this.#tasks.get(name)), query);
        if (!this.#tasks.has(id)) throw notFound();
        return [200, this.#tasks.get(id)];
      case "DELETE tasks":
        if (!this.#tasks.delete(id!)) throw notFound();
        return [204, undefined];
      case "POST jobs":
        return id === undefined ? [201, this.#showJob(this.#makeJob(this.#check(body)))] : this.#act(this.#job(id), act!);
      case "PUT jobs":
        return this.#putJob(id!, body);
      case "GET jobs":
        return this.#getJobs(id, act, query);
      case "DELETE jobs":
        return [200, this.#showJob(this.#cancelJob(this.#job(id!)))];
      case "GET runs":
        return this.#getRuns(id, act, query);
      case "POST runs":
        return this.#actOnRun(this.#run(id!), act!);
      case "POST events":
        return [202, { id: this.#publish(id!, body) }];
    }
    throw notModelled(`${method} /v1/${path.join("/")}`);
  }

  // Tasks.

  #putTask(name: string, body: Json): [number, Json] {
    const faults = unknown(body, taskFields);
    if (!nameForm.test(name)) faults.push({ location: "path.name", message: "must be a name" });
    if (faults.length) throw invalid(faults);
    modelled(body);
    const kept = Object.fromEntries(Object.entries(body).filter(([, v]) => v !== null)) as Json;
    if (work.filter((w) => w in kept).length !== 1) throw invalid([{ location: "body", message: "must have exactly one of http, nats, script, lambda, email and a message" }]);
    const old = this.#tasks.get(name);
    const times = { created_at: old?.created_at ?? text(this.#now), updated_at: text(this.#now) };
    const task = { name, timeout: "30s", guarantee: "at_least_once", ...kept, retry: { ...defaultRetry, ...kept.retry }, ...times };
    this.#tasks.set(name, task);
    return [old ? 200 : 201, task];
  }

  // Jobs.

  #check(said: Json, line = false): Json {
    const faults = unknown(said, jobFields);
    if (typeof said !== "object" || said === null) throw invalid(faults);
    const body = Object.fromEntries(Object.entries(said).filter(([, v]) => v !== null)) as Json;
    const fault = (location: string, message: string): unknown => faults.push({ location: `body${location}`, message });
    if ("key" in body && !line) fault(".key", "is for lines of imports; a request has the header Idempotency-Key");
    const schedule = body.schedule ?? {};
    const many = !("at" in schedule);
    if (work.filter((w) => w in body).length !== 1) fault("", "must have exactly one of task, http, nats, script, lambda, email and a message");
    for (const name of ["timeout", "retry", "guarantee"]) if ("task" in body && name in body) fault(`.${name}`, "belongs to the task: it cannot be stated beside one");
    if ("http" in body && !/^https?:\/\//.test(body.http.url ?? "")) fault(".http.url", "must be an absolute http or https URL");
    if ("name" in body && !nameForm.test(body.name)) fault(".name", "must be a name");
    else if ("name" in body && !many) fault(".name", "is for jobs that can have many runs");
    if (Buffer.byteLength(JSON.stringify(body.payload ?? null)) > maxPayload) fault(".payload", `must be at most ${maxPayload} bytes`);
    const values: [string, unknown, (v: never) => unknown][] = [
      [".schedule.at", schedule.at, time],
      [".schedule.anchor", schedule.anchor, time],
      [".schedule.every", schedule.every, span],
      [".start", body.start, time],
      [".end", body.end, time],
    ];
    for (const [location, value, read] of values) {
      try {
        if (value !== undefined) read(value as never);
      } catch {
        fault(location, "is not valid");
      }
    }
    if (faults.length) throw invalid(faults);
    modelled(body);
    if ("task" in body && !this.#tasks.has(body.task)) throw new Refusal(422, "no-task", "The request is not valid", [{ location: "body.task", message: "does not exist" }]);
    return body;
  }

  #makeJob(body: Json): FakeJob {
    const many = body.schedule?.every !== undefined || "on" in body || ("name" in body && body.schedule?.at === undefined);
    if (body.name && [...this.#jobs.values()].some((j) => j.body.name === body.name && j.state !== "cancelled")) {
      throw new Refusal(409, "name-taken", "The name is taken");
    }
    const { key: _, ...kept } = body;
    const job: FakeJob = { id: this.#id(), body: kept, created: this.#now, updated: this.#now, many, state: "active", generation: 1, count: 0 };
    this.#jobs.set(job.id, job);
    if (many) this.#plan(job);
    else this.#addRun(job, Math.max(this.#now, body.schedule?.at ? time(body.schedule.at) : 0), "schedule", body.payload);
    return job;
  }

  #job(id: string): FakeJob {
    const job = this.#jobs.get(id) ?? [...this.#jobs.values()].find((j) => j.body.name === id && j.state !== "cancelled");
    if (!job) throw notFound();
    return job;
  }

  #showJob(job: FakeJob): Json {
    const own = job.body.task ? {} : { timeout: "30s", guarantee: "at_least_once", retry: { ...defaultRetry, ...job.body.retry } };
    const { retry: _, ...body } = job.body;
    const shown: Json = { priority: "normal", schedule: {}, misfire: { policy: job.many ? "run_latest" : "run_all" }, ...own, ...body };
    Object.assign(shown, { id: job.id, tenant: "default", state: job.state, generation: job.generation, created_at: text(job.created), updated_at: text(job.updated) });
    const run = this.#runs.get(job.id);
    if (!job.many && run) shown.schedule = { at: text(run.due) };
    const next = [...this.#runs.values()].find((r) => r.job === job && r.state === "pending" && r.trigger === "schedule");
    if (next && job.state === "active") shown.next_run = { id: next.id, nominal_at: text(next.due), due_at: text(next.due) };
    return shown;
  }

  #act(job: FakeJob, act: string): [number, Json] {
    if (act === "trigger") return [201, this.#showRun(this.#addRun(job, this.#now, "manual", job.body.payload))];
    if ((act !== "pause" && act !== "resume") || !job.many) throw notModelled(`${act} of this job`);
    if (job.state !== "active" && job.state !== "paused") throw finished();
    if (act === "pause" && job.state === "active") {
      this.#drop(job);
      job.state = "paused";
      job.updated = this.#now;
    } else if (act === "resume" && job.state === "paused") {
      job.state = "active";
      job.updated = this.#now;
      this.#plan(job);
    }
    return [200, this.#showJob(job)];
  }

  /** Has what was planned of a job not run. */
  #drop(job: FakeJob): void {
    for (const run of [...this.#runs.values()]) {
      if (run.job !== job || run.state !== "pending" || run.trigger !== "schedule") continue;
      if (job.many) {
        this.#runs.delete(run.id);
        job.count--;
      } else {
        run.state = "cancelled";
        run.finished = this.#now;
      }
    }
  }

  #putJob(name: string, said: Json): [number, Json] {
    const body = this.#check({ ...said, name });
    const job = [...this.#jobs.values()].find((j) => j.body.name === name && j.state !== "cancelled");
    if (!job) return [201, this.#showJob(this.#makeJob(body))];
    this.#drop(job);
    Object.assign(job, { body, updated: this.#now, generation: job.generation + 1 });
    this.#plan(job);
    return [200, this.#showJob(job)];
  }

  #cancelJob(job: FakeJob): FakeJob {
    if (job.state === "cancelled") return job;
    if (job.state === "finished" || (!job.many && this.#runs.get(job.id)?.state !== "pending")) throw finished();
    this.#drop(job);
    job.state = "cancelled";
    job.updated = this.#now;
    return job;
  }

  #getJobs(id: string | undefined, act: string | undefined, query: URLSearchParams): [number, Json] {
    if (id !== undefined) {
      const job = this.#job(id);
      if (act === undefined) return [200, this.#showJob(job)];
      if (act !== "runs") throw notModelled(act);
      const runs = [...this.#runs.values()].filter((r) => r.job === job && is(query, "state", r.state)).sort((a, b) => b.due - a.due);
      return page(runs.map((r) => this.#showRun(r)), query);
    }
    const label = query.get("label");
    const jobs = [...this.#jobs.values()].reverse().filter((j) => {
      const labels = Object.entries(j.body.labels ?? {}).map(([k, v]) => `${k}=${String(v)}`);
      return j.many && is(query, "state", j.state) && (j.body.name ?? "").startsWith(query.get("name_prefix") ?? "") && (label === null || labels.includes(label));
    });
    return page(jobs.map((j) => this.#showJob(j)), query);
  }

  // Runs.

  #showRun(run: FakeRun): Json {
    const { job } = run;
    const shown = {
      ...{ id: run.id, job_id: job.id, job_name: job.body.name, tenant: "default", state: run.state, task: job.body.task },
      ...{ priority: job.body.priority ?? "normal", nominal_at: text(run.due), due_at: text(run.due), trigger: run.trigger },
      ...{ labels: job.body.labels, origin: run.origin, payload: run.payload, attempts: run.attempts },
      started_at: run.started === undefined ? undefined : text(run.started),
      finished_at: run.finished === undefined ? undefined : text(run.finished),
      next_attempt_at: run.nextTry === undefined ? undefined : text(run.nextTry),
      dead_letter: run.dead || undefined,
      lateness_ms: run.started === undefined ? undefined : 0,
    };
    return JSON.parse(JSON.stringify(shown)) as Json;
  }

  #run(id: string): FakeRun {
    const run = this.#runs.get(id);
    if (!run) throw notFound();
    return run;
  }

  #getRuns(id: string | undefined, act: string | undefined, query: URLSearchParams): [number, Json] {
    if (id !== undefined) {
      const run = this.#run(id);
      if (act === "output") return [200, run.output];
      if (act !== undefined) throw notModelled(act);
      return [200, this.#showRun(run)];
    }
    let runs = [...this.#runs.values()];
    const event = query.get("event");
    if (event !== null) runs = runs.filter((r) => r.event === event);
    else if (query.has("from") && query.has("to")) {
      const [from, to] = [time(query.get("from")), time(query.get("to"))];
      runs = runs.filter((r) => from <= r.due && r.due < to).sort((a, b) => a.due - b.due);
    } else throw invalid(["from", "to"].map((name) => ({ location: `query.${name}`, message: "must be stated" })));
    runs = runs.filter((r) => is(query, "state", r.state) && is(query, "task", r.job.body.task) && (is(query, "job", r.job.id) || is(query, "job", r.job.body.name)));
    return page(runs.map((r) => this.#showRun(r)), query);
  }

  #actOnRun(run: FakeRun, act: string): [number, Json] {
    if (act === "retry") {
      if (!ended.has(run.state)) throw new Refusal(409, "not-finished", "It has not ended");
      return [201, this.#showRun(this.#addRun(run.job, this.#now, "retry", run.payload, { origin: run.id }))];
    }
    if (act !== "cancel") throw notModelled(act);
    if (run.state === "cancelled") return [200, this.#showRun(run)];
    if (ended.has(run.state)) throw finished();
    Object.assign(run, { state: "cancelled", finished: this.#now, nextTry: undefined });
    if (run.job.many && run.trigger === "schedule" && run.attempts.length === 0) this.#plan(run.job);
    else if (run.job.id === run.id) run.job.state = "cancelled";
    return [200, this.#showRun(run)];
  }

  // Events and imports.

  #publish(name: string, body: Json): string {
    const event = { id: this.#id(), name, body, at: this.now };
    this.events.push(event);
    for (const job of [...this.#jobs.values()]) {
      if (job.state === "active" && job.body.on?.event === name) this.#addRun(job, this.#now, "event", body, { event: event.id });
    }
    return event.id;
  }

  #import(content: string, write: boolean): Response {
    const out: object[] = [];
    const summary = { lines: 0, created: 0, existing: 0, failed: 0 };
    for (const [n, line] of content.split("\n").entries()) {
      if (line.trim() === "") continue;
      summary.lines++;
      try {
        const { status, id } = this.#line(this.#check(this.#json(line), true), write);
        if (status === 201) summary.created++;
        else summary.existing++;
        out.push({ line: n + 1, status, ...(id ? { id } : {}) });
      } catch (e) {
        if (!(e instanceof Refusal)) throw e;
        summary.failed++;
        out.push({ line: n + 1, status: e.status, error: e.problem() });
      }
    }
    out.push({ summary });
    return new Response(out.map((o) => JSON.stringify(o) + "\n").join(""), { headers: { "Content-Type": "application/x-ndjson" } });
  }

  #line(body: Json, write: boolean): { status: number; id?: string } {
    if (!write) return { status: 200 };
    const key = JSON.stringify([body.key, body.schedule?.at]);
    const mark = JSON.stringify(body);
    const known = body.key ? this.#lines.get(key) : undefined;
    if (known) {
      if (known.mark !== mark) throw new Refusal(422, "key-reused", "The idempotency key was used before");
      return { status: 200, id: known.id };
    }
    const { id } = this.#makeJob(body);
    if (body.key) this.#lines.set(key, { mark, id });
    return { status: 201, id };
  }
}

function is(query: URLSearchParams, name: string, value: string | undefined): boolean {
  return !query.has(name) || query.get(name) === value;
}

function page(items: Json[], query: URLSearchParams): [number, Json] {
  const [limit, start] = [Number(query.get("limit") ?? 50), Number(query.get("cursor") ?? 0)];
  return [200, { items: items.slice(start, start + limit), ...(start + limit < items.length ? { next_cursor: String(start + limit) } : {}) }];
}

function unknown(body: Json, known: string[]): { location: string; message: string }[] {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return [{ location: "body", message: "must be an object" }];
  return Object.keys(body as object)
    .filter((name) => !known.includes(name))
    .map((name) => ({ location: `body.${name}`, message: "is not known" }));
}

function modelled(body: Json): void {
  for (const name of ["after", "concurrency", "durability", "email", "lambda", "pause_on_failure", "region", "schedules", "script", "unique", ...messages]) if (body[name] != null) throw notModelled(name);
  for (const name of ["calendar", "cron", "exclude"]) if (body.schedule?.[name] !== undefined) throw notModelled(`schedule.${name}`);
  if (body.on?.filter !== undefined || body.on?.delay !== undefined) throw notModelled("on.filter, on.delay");
}

/** What a handler did with one attempt. */
export interface Handled {
  /** The output, read as JSON; undefined if there is none. */
  readonly value: Json;
  output: Uint8Array;
  error: string;
  final: boolean;
  /** Seconds. */
  retryAfter: number;
  log: string[];
  progress: object[];
}

/** Runs one attempt by a handler of a worker, without NATS. What it says back is as the executor would hear it. */
export async function runHandler<P>(
  handler: Handler<P>,
  payload?: unknown,
  options: { kind?: JobType<P>; attempt?: number; runId?: string; signal?: AbortSignal } = {},
): Promise<Handled> {
  const { kind, attempt = 1, runId = "00000001-0000-7000-8000-000000000001", signal = new AbortController().signal } = options;
  const facts: Record<string, string> = { "Carillon-Run-Id": runId, "Carillon-Attempt": String(attempt), "Carillon-Fence": String(attempt), "Carillon-Due-At": text(epoch) };
  const log: string[] = [];
  const progress: object[] = [];
  const talk = { say: (_: string, body: Uint8Array) => void log.push(...new TextDecoder().decode(body).split("\n")), progress: (said: object) => void progress.push(said) };
  const data = payload === undefined ? new Uint8Array() : new TextEncoder().encode(JSON.stringify(payload));
  const run = newRun({ get: (name) => facts[name] ?? "" }, data, kind?.subject ?? "", talk, signal);
  let result: { result?: unknown; error?: unknown };
  try {
    result = { result: await call(handler as Handler, kind as JobType<unknown> | undefined, run, data) };
  } catch (error) {
    result = { error: error ?? new Error("failed") };
  }
  const { body, headers } = outcome(result);
  return {
    get value(): Json {
      return body.length > 0 ? JSON.parse(new TextDecoder().decode(body)) : undefined;
    },
    output: body,
    error: headers["Carillon-Error"] ?? "",
    final: "Carillon-Error-Final" in headers,
    retryAfter: Number(headers["Carillon-Retry-After"] ?? 0),
    log,
    progress,
  };
}
