// A client of the API: what can be asked for, by noun.
//
// A request that could not be sent, or was refused for now (429, 502, 503, 504), is sent again. That does nothing
// twice: whatever creates something has an idempotency key. A call draws its key unless it is given one. A program that
// crashes and begins anew must give one, or it may create twice.

import { randomUUID } from "node:crypto";
import createFetch, { type Client as Fetching } from "openapi-fetch";

import { APIError, Unreachable } from "./errors.js";
import { Imports } from "./imports.js";
import type { JobRequest } from "./jobs.js";
import type { components, paths } from "./schema.js";

type Schemas = components["schemas"];
export type Job = Schemas["Job"];
export type Run = Schemas["Run"];
export type Task = Schemas["Task"];
export type TaskRequest = Schemas["TaskRequest"];
export type Workflow = Schemas["Workflow"];
export type WorkflowRequest = Schemas["WorkflowRequest"];
export type Event = Schemas["Event"];
export type NextRun = Schemas["NextRun"];
export type LogLine = Schemas["LogLine"];
export type Preview = Schemas["Preview"];
export type PreviewRequest = Schemas["PreviewRequest"];

const maxWait = 10_000; // ms between two tries, whatever Retry-After says
const maxPage = 500; // items of one answer of a list
const hour = 3_600_000;
const terminal = new Set(["succeeded", "failed", "cancelled", "missed", "skipped"]);

/** Whether a run has ended. */
export const hasEnded = (run: Run): boolean => terminal.has(run.state);

/** How long to wait after a try (from 0), in ms: 100 doubled each time up to 6,400, half of it drawn by lot so that clients
 * do not come back together; longer if the answer asks for it (seconds); at most 10,000. */
export function pause(attempt: number, retryAfter: number): number {
  const backoff = 100 * 2 ** Math.min(attempt, 6);
  return Math.min(Math.max(backoff / 2 + (Math.random() * backoff) / 2, retryAfter * 1000), maxWait);
}

const realSleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export interface Options {
  /** An API key. */
  key?: string;
  /** The tenant, where the API asks for no key. */
  tenant?: string;
  /** How often a request is sent again after its first try; 5 unless stated. */
  retries?: number;
  /** Bounds each try, in ms; 30,000 unless stated. */
  timeout?: number;
  /** Sends the requests; for tests. */
  fetch?: (request: Request) => Promise<Response>;
  /** Waits; for tests. */
  sleep?: (ms: number) => Promise<void>;
}

export interface Creating {
  /** The same key and request create the same thing once within 24 h. Unless stated it is drawn. */
  idempotencyKey?: string;
}

/** The header that has something created once: by that key, or by one that is drawn. */
const keyHeader = (c: Creating): { "Idempotency-Key": string } => ({
  "Idempotency-Key": `"${(c.idempotencyKey ?? randomUUID()).replace(/[\\"]/g, "\\$&")}"`,
});

/** Asks a node, or a load balancer before several. */
export class Client {
  /** Every operation, as the OpenAPI document has it: for what has no method here. It sends again and throws as they do. */
  readonly api: Fetching<paths>;
  readonly retries: number;
  readonly sleep: (ms: number) => Promise<void>;
  readonly jobs = new Jobs(this);
  readonly runs = new Runs(this);
  readonly tasks = new Tasks(this);
  readonly workflows = new Workflows(this);
  readonly events = new Events(this);
  readonly schedules = new Schedules(this);
  readonly imports = new Imports(this);

  constructor(baseUrl = "http://127.0.0.1:8080", options: Options = {}) {
    this.retries = options.retries ?? 5;
    this.sleep = options.sleep ?? realSleep;
    const headers: Record<string, string> = {};
    if (options.key) headers["Authorization"] = `Bearer ${options.key}`;
    if (options.tenant) headers["Carillon-Tenant"] = options.tenant;
    const send = options.fetch ?? ((request: Request) => fetch(request));
    const timeout = options.timeout ?? 30_000;
    this.api = createFetch<paths>({ baseUrl, headers, fetch: (request: Request) => this.#send(request, send, timeout) });
  }

  /** A client of CARILLON_API (default: http://127.0.0.1:8080) with the key CARILLON_KEY, if there is one. */
  static fromEnv(options: Options = {}): Client {
    const api = (process.env["CARILLON_API"] ?? "http://127.0.0.1:8080").split(",")[0]!.trim();
    const key = process.env["CARILLON_KEY"];
    return new Client(api, { ...(key ? { key } : {}), ...options });
  }

  /** Sends a request until it is answered for good. An answer that is an error is thrown. */
  async #send(request: Request, send: (request: Request) => Promise<Response>, timeout: number): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      let failure: APIError | Unreachable;
      try {
        const ended = AbortSignal.any([request.signal, AbortSignal.timeout(timeout)]);
        const response = await send(new Request(request.clone(), { signal: ended }));
        if (response.ok) return response;
        failure = await APIError.of(response);
      } catch (e) {
        request.signal.throwIfAborted();
        failure = new Unreachable(`${request.method} ${request.url}: ${e instanceof Error ? e.message : String(e)}`, { cause: e });
      }
      const again = failure instanceof Unreachable || failure.temporary;
      if (!again || attempt >= this.retries) throw failure;
      await this.sleep(pause(attempt, failure instanceof APIError ? failure.retryAfter : 0));
    }
  }
}

/** Yields the items of a list, page by page. */
async function* pages<T>(ask: (page: { limit: number; cursor?: string }) => Promise<{ data?: { items: T[] | null; next_cursor?: string } }>): AsyncGenerator<T, void, undefined> {
  for (let cursor: string | undefined; ; ) {
    const { data } = await ask({ limit: maxPage, ...(cursor ? { cursor } : {}) });
    yield* data!.items ?? [];
    cursor = data!.next_cursor;
    if (!cursor) return;
  }
}

/** Goes through a window hour by hour: the API lists no longer ones. */
async function* hours<T>(since: Date, until: Date, list: (from: string, to: string) => AsyncGenerator<T, void, undefined>): AsyncGenerator<T, void, undefined> {
  for (let at = since.getTime(); ; ) {
    const end = Math.min(at + hour, until.getTime());
    yield* list(new Date(at).toISOString(), new Date(end).toISOString());
    at = end;
    if (at >= until.getTime()) return;
  }
}

/** Leaves out what is not stated. */
function stated<T extends object>(query: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(query).filter(([, v]) => v !== undefined && v !== "")) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

export interface JobQuery {
  state?: Job["state"];
  /** name=value */
  label?: string;
  namePrefix?: string;
}

export interface RunQuery {
  state?: Run["state"];
  /** since ≤ due < until */
  since?: Date;
  until?: Date;
}

const jobQuery = (q: JobQuery): { state?: Job["state"]; label?: string; name_prefix?: string } => stated({ state: q.state, label: q.label, name_prefix: q.namePrefix });
// The states of runs that can be asked for; of a workflow no run is stuck or skipped as a whole.
type AnyState = "pending" | "running" | "waiting" | "retrying" | "succeeded" | "failed" | "cancelled" | "missed";
const runQuery = (q: RunQuery): { state?: AnyState[]; from?: string; to?: string } => stated({ state: q.state && [q.state as AnyState], from: q.since?.toISOString(), to: q.until?.toISOString() });

/** Where a method takes an id it also takes a name. */
export class Jobs {
  constructor(private readonly c: Client) {}

  /** Makes a job. Without a schedule, an event or jobs before it, it is due at once. */
  async create(job: JobRequest, options: Creating = {}): Promise<Job> {
    return (await this.c.api.POST("/v1/jobs", { body: job, params: { header: keyHeader(options) } })).data!;
  }

  /** Creates the job of a name, or replaces what it says. It must be able to have many runs. */
  async put(name: string, job: JobRequest): Promise<Job> {
    return (await this.c.api.PUT("/v1/jobs/{id}", { params: { path: { id: name } }, body: job })).data!;
  }

  async get(id: string): Promise<Job> {
    return (await this.c.api.GET("/v1/jobs/{id}", { params: { path: { id } } })).data!;
  }

  /** Changes a job by a JSON merge patch (RFC 7396): {schedule: {at: tomorrow}}. */
  async patch(id: string, patch: object): Promise<Job> {
    return (await this.c.api.PATCH("/v1/jobs/{id}", { params: { path: { id } }, body: patch })).data!;
  }

  /** Cancels a job; twice is the same as once. One that has finished is an APIError of the kind "finished". */
  async cancel(id: string): Promise<Job> {
    return (await this.c.api.DELETE("/v1/jobs/{id}", { params: { path: { id } } })).data!;
  }

  async pause(id: string): Promise<Job> {
    return (await this.c.api.POST("/v1/jobs/{id}/pause", { params: { path: { id } } })).data!;
  }

  async resume(id: string): Promise<Job> {
    return (await this.c.api.POST("/v1/jobs/{id}/resume", { params: { path: { id } } })).data!;
  }

  /** Runs a job now, besides its schedule, and returns the run. */
  async trigger(id: string, options: Creating = {}): Promise<Run> {
    return (await this.c.api.POST("/v1/jobs/{id}/trigger", { params: { path: { id }, header: keyHeader(options) } })).data!;
  }

  /** Yields the jobs that can have many runs, newest first. One-off jobs are runs: see Runs.list. */
  list(query: JobQuery = {}): AsyncGenerator<Job, void, undefined> {
    return pages((page) => this.c.api.GET("/v1/jobs", { params: { query: { ...jobQuery(query), ...page } } }));
  }

  /** Yields the runs of a job, the latest due first. */
  runs(id: string, query: RunQuery = {}): AsyncGenerator<Run, void, undefined> {
    return pages((page) => this.c.api.GET("/v1/jobs/{id}/runs", { params: { path: { id }, query: { ...runQuery(query), ...page } } }));
  }

  /** Returns the next runs of a job, if it stays as it is: at most count of them, from 1 to 100. They are due after since, or after now. */
  async upcoming(id: string, count = 10, since?: Date): Promise<NextRun[]> {
    const query = { count, ...(since ? { from: since.toISOString() } : {}) };
    return (await this.c.api.GET("/v1/jobs/{id}/upcoming", { params: { path: { id }, query } })).data!.items ?? [];
  }
}

export class Runs {
  constructor(private readonly c: Client) {}

  /** Returns a run with its attempts, and one of a workflow with its steps. */
  async get(id: string): Promise<Run> {
    return (await this.c.api.GET("/v1/runs/{id}", { params: { path: { id } } })).data!;
  }

  /** Yields the runs with since ≤ due < until, in the order of due times. It asks for an hour at a time. */
  list(since: Date, until: Date, filter: { state?: Run["state"]; task?: string; job?: string; label?: string } = {}): AsyncGenerator<Run, void, undefined> {
    const { state, label, ...rest } = filter;
    const query = { ...stated(rest), ...(state ? { state: [state] } : {}), ...(label ? { label: [label] } : {}) };
    return hours(since, until, (from, to) => pages((page) => this.c.api.GET("/v1/runs", { params: { query: { ...query, from, to, ...page } } })));
  }

  async cancel(id: string): Promise<Run> {
    return (await this.c.api.POST("/v1/runs/{id}/cancel", { params: { path: { id } } })).data!;
  }

  /** Runs a run that has ended again, as a new run, which it returns. */
  async retry(id: string, options: Creating = {}): Promise<Run> {
    return (await this.c.api.POST("/v1/runs/{id}/retry", { params: { path: { id }, header: keyHeader(options) } })).data!;
  }

  /** Has a step of a workflow run not run. */
  async skipStep(id: string, step: string): Promise<Run> {
    return (await this.c.api.POST("/v1/runs/{id}/steps/{step}/skip", { params: { path: { id, step } } })).data!;
  }

  /** Returns the output of the attempt that succeeded, else of the last that has ended. */
  async output(id: string): Promise<Uint8Array> {
    const { response } = await this.c.api.GET("/v1/runs/{id}/output", { params: { path: { id } }, parseAs: "stream" });
    return new Uint8Array(await response.arrayBuffer());
  }

  /** Yields the lines that the run's attempts have logged so far. */
  logs(id: string): AsyncGenerator<LogLine, void, undefined> {
    return pages((page) => this.c.api.GET("/v1/runs/{id}/logs", { params: { path: { id }, query: page } }));
  }

  /** Returns a run once it has ended. It looks every 0.1 s at first, and later every 2 s, for timeout ms. */
  async wait(id: string, timeout = 60_000): Promise<Run> {
    for (let waited = 0, look = 100; ; waited += look, look = Math.min(2 * look, 2000)) {
      const run = await this.get(id);
      if (hasEnded(run)) return run;
      if (waited >= timeout) throw new Error(`run ${id} is ${run.state} after ${timeout} ms`);
      await this.c.sleep(look);
    }
  }
}

/** Calls with a name, which jobs and steps refer to. */
export class Tasks {
  constructor(private readonly c: Client) {}

  async put(name: string, task: TaskRequest): Promise<Task> {
    return (await this.c.api.PUT("/v1/tasks/{name}", { params: { path: { name } }, body: task })).data!;
  }

  async get(name: string): Promise<Task> {
    return (await this.c.api.GET("/v1/tasks/{name}", { params: { path: { name } } })).data!;
  }

  list(): AsyncGenerator<Task, void, undefined> {
    return pages((page) => this.c.api.GET("/v1/tasks", { params: { query: page } }));
  }

  /** Deletes a task: runs to come that name it fail. One that does not exist is deleted already. */
  async delete(name: string): Promise<void> {
    try {
      await this.c.api.DELETE("/v1/tasks/{name}", { params: { path: { name } } });
    } catch (e) {
      if (!(e instanceof APIError) || e.kind !== "not-found") throw e; // as an earlier try may have done
    }
  }
}

/** Where a method takes a name it also takes an id. */
export class Workflows {
  constructor(private readonly c: Client) {}

  /** Creates the workflow, or replaces what it says; dryRun changes nothing. A run under way keeps what it began with. */
  async put(name: string, workflow: WorkflowRequest, options: { dryRun?: boolean } = {}): Promise<Workflow> {
    const query = options.dryRun ? { dry_run: true } : {};
    return (await this.c.api.PUT("/v1/workflows/{name}", { params: { path: { name }, query }, body: workflow })).data!;
  }

  async get(name: string): Promise<Workflow> {
    return (await this.c.api.GET("/v1/workflows/{name}", { params: { path: { name } } })).data!;
  }

  list(query: JobQuery = {}): AsyncGenerator<Workflow, void, undefined> {
    return pages((page) => this.c.api.GET("/v1/workflows", { params: { query: { ...jobQuery(query), ...page } } }));
  }

  /** Lets no run of a workflow begin any more; those under way go on. */
  async cancel(name: string): Promise<Workflow> {
    return (await this.c.api.DELETE("/v1/workflows/{name}", { params: { path: { name } } })).data!;
  }

  async pause(name: string): Promise<Workflow> {
    return (await this.c.api.POST("/v1/workflows/{name}/pause", { params: { path: { name } } })).data!;
  }

  async resume(name: string): Promise<Workflow> {
    return (await this.c.api.POST("/v1/workflows/{name}/resume", { params: { path: { name } } })).data!;
  }

  /** Runs a workflow now, besides its schedule, and returns the run. Without a payload: the workflow's own. */
  async trigger(name: string, payload?: unknown, options: Creating = {}): Promise<Run> {
    const body = payload === undefined ? {} : { payload };
    return (await this.c.api.POST("/v1/workflows/{name}/trigger", { params: { path: { name }, header: keyHeader(options) }, body })).data!;
  }

  runs(name: string, query: RunQuery = {}): AsyncGenerator<Run, void, undefined> {
    return pages((page) => this.c.api.GET("/v1/workflows/{name}/runs", { params: { path: { name }, query: { ...runQuery(query), ...page } } }));
  }
}

export class Events {
  constructor(private readonly c: Client) {}

  /** Publishes an event, and returns its id once it is durable. The body is the payload of the runs that it starts. */
  async publish(name: string, body: unknown = null, options: Creating = {}): Promise<string> {
    const { data } = await this.c.api.POST("/v1/events/{name}", {
      params: { path: { name }, header: keyHeader(options) },
      body: body as never,
      bodySerializer: JSON.stringify,
    });
    return data!.id;
  }

  /** Yields the events that were accepted in a window, in that order. It asks for an hour at a time. */
  list(since: Date, until: Date, name?: string): AsyncGenerator<Event, void, undefined> {
    return hours(since, until, (from, to) => pages((page) => this.c.api.GET("/v1/events", { params: { query: { ...stated({ name }), from, to, ...page } } })));
  }

  /** Yields the runs that an event started. They are planned soon after the event: at first there may be none. */
  runs(id: string): AsyncGenerator<Run, void, undefined> {
    return pages((page) => this.c.api.GET("/v1/runs", { params: { query: { event: id, ...page } } }));
  }
}

export class Schedules {
  constructor(private readonly c: Client) {}

  /** Returns the times of a schedule, in words and as instants. Nothing is created. */
  async preview(request: PreviewRequest): Promise<Preview> {
    return (await this.c.api.POST("/v1/schedules/preview", { body: request })).data!;
  }
}
