// The same story told to the fake and to the real program: the fake does not promise what is not so.

import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";

import { APIError, type Client, type JobRequest, type Run } from "../src/index.js";
import { Fake } from "../src/testing.js";
import { all, Dev, ended, Hook, leftOut } from "./world.js";

/** A Carillon, and something that it can call. */
interface World {
  client: Client;
  now: () => number;
  url: string;
  answers: number[];
  /** Before each name, so that tests do not meet. */
  name: string;
  /** Waits for a run's end, and returns the run. */
  settle: (id: string) => Promise<Run>;
}

const hour = 3_600_000;

async function refused(call: Promise<unknown>): Promise<[number, string, string[]]> {
  try {
    await call;
  } catch (e) {
    if (e instanceof APIError) return [e.status, e.kind, e.faults.map((f) => f.location ?? "").sort()];
    throw e;
  }
  return [0, "", []];
}

function story(world: () => World): void {
  const hook = (): JobRequest => ({ http: { url: world().url + "/hook" } });
  const at = (ms: number): string => new Date(Math.floor(world().now()) + ms).toISOString();

  test("a job runs and is shown", async () => {
    const { client, settle } = world();
    const job = await client.jobs.create({ ...hook(), payload: { n: 1 }, labels: { team: "x" } });
    const { id, job_id, state, trigger, tenant, priority, payload, labels, attempts } = await settle(job.id);
    assert.deepEqual(
      { id, job_id, state, trigger, tenant, priority, payload, labels },
      { id: job.id, job_id: job.id, state: "succeeded", trigger: "schedule", tenant: "default", priority: "normal", payload: { n: 1 }, labels: { team: "x" } },
    );
    assert.deepEqual(attempts?.map((a) => [a.number, a.outcome, a.status_code]), [[1, "succeeded", 200]]);
    assert.deepEqual(await refused(client.jobs.cancel(job.id)), [409, "finished", []]);
    assert.equal((await client.jobs.get(job.id)).state, "finished");
  });

  test("failures are retried as the policy says", async () => {
    const { client, settle, answers } = world();
    const retry = { max_attempts: 3, initial: "1ms", max: "10ms", jitter: "none" as const };
    answers.push(500, 429, 200);
    let run = await settle((await client.jobs.create({ ...hook(), retry })).id);
    assert.deepEqual([run.state, run.attempts?.map((a) => a.outcome)], ["succeeded", ["failed", "failed", "succeeded"]]);
    answers.push(404);
    run = await settle((await client.jobs.create({ ...hook(), retry })).id);
    assert.deepEqual([run.state, run.dead_letter, run.attempts?.length], ["failed", true, 1]);
    const again = await client.runs.retry(run.id);
    assert.deepEqual([again.origin, again.trigger, (await settle(again.id)).state], [run.id, "retry", "succeeded"]);
  });

  test("keys make a job once", async () => {
    const { client, name } = world();
    const body: JobRequest = { ...hook(), schedule: { at: at(48 * hour) } };
    const idempotencyKey = name + "order-7";
    const job = await client.jobs.create(body, { idempotencyKey });
    assert.equal((await client.jobs.create(body, { idempotencyKey })).id, job.id);
    assert.deepEqual(await refused(client.jobs.create({ ...body, payload: 1 }, { idempotencyKey })), [422, "key-reused", ["header.Idempotency-Key"]]);
    assert.equal((await client.jobs.get(job.id)).next_run?.id, job.id);
    for (let n = 0; n < 2; n++) assert.equal((await client.jobs.cancel(job.id)).state, "cancelled");
    assert.equal((await client.runs.get(job.id)).state, "cancelled");
  });

  test("every fault is told", async () => {
    const { client } = world();
    const wrong = { nothing: 1, http: { url: "ftp://x" }, name: "No Name", schedule: { every: "soon" } } as JobRequest;
    const [status, kind, locations] = await refused(client.jobs.create(wrong));
    assert.deepEqual([status, kind], [422, "invalid"]);
    for (const where of ["body.nothing", "body.http.url", "body.name", "body.schedule.every"]) assert.ok(locations.includes(where), `${where} of ${locations.join()}`);
    assert.deepEqual(await refused(client.jobs.create({ task: "none-such" })), [422, "no-task", ["body.task"]]);
    assert.deepEqual((await refused(client.jobs.get("none-such"))).slice(0, 2), [404, "not-found"]);
  });

  test("a job by interval", async () => {
    const { client, name: prefix } = world();
    const name = prefix + "-poll";
    const body: JobRequest = { ...hook(), schedule: { every: "1h", anchor: at(0) }, jitter: "0s" };
    const job = await client.jobs.create({ ...body, name, labels: { at: prefix } });
    assert.deepEqual((await refused(client.jobs.create({ ...body, name }))).slice(0, 2), [409, "name-taken"]);
    assert.deepEqual((await all(client.jobs.list({ label: `at=${prefix}` }))).map((j) => j.name), [name]);
    assert.equal((await client.jobs.pause(name)).state, "paused");
    assert.equal((await client.jobs.resume(name)).state, "active");
    const run = await client.jobs.trigger(name);
    assert.deepEqual([run.trigger, run.job_id, run.job_name], ["manual", job.id, name]);
    assert.equal((await client.jobs.put(name, { ...body, payload: 2 })).payload, 2);
    assert.equal((await client.jobs.cancel(name)).state, "cancelled");
  });

  test("a job that is only triggered", async () => {
    const { client, name: prefix, settle } = world();
    const name = prefix + "-by-hand";
    const job = await client.jobs.create({ name, ...hook() });
    assert.equal(job.next_run, undefined);
    const run = await settle((await client.jobs.trigger(name)).id);
    assert.deepEqual([run.state, run.job_id, (await client.jobs.get(name)).state], ["succeeded", job.id, "active"]);
    assert.deepEqual(await refused(client.jobs.create({ name: name + "-at", ...hook(), schedule: { at: at(48 * hour) } })), [422, "invalid", ["body.name"]]);
    await client.jobs.cancel(name);
  });

  test("an import says what became of each line", async () => {
    const { client, name } = world();
    const schedule = { at: at(48 * hour) };
    const jobs: JobRequest[] = [{ key: name + "1", ...hook(), schedule }, { key: name + "2", http: { url: "nowhere" } }, { ...hook(), schedule }];
    const report = await client.imports.run(jobs, { validateOnly: true });
    assert.deepEqual([report.created, report.existing, report.failed.length], [0, 2, 1]);
    const results = (await all(client.imports.create(jobs))).sort((a, b) => a.line - b.line);
    assert.deepEqual(results.map((r) => r.status), [201, 422, 201]);
    assert.equal(results[1]?.error?.errors?.[0]?.location, "body.http.url");
    const [again] = await all(client.imports.create(jobs.slice(0, 1)));
    assert.deepEqual([again?.status, again?.id], [200, results[0]?.id]);
  });

  test("tasks", async () => {
    const { client, name: prefix, url, settle } = world();
    const name = prefix + "-task";
    const put = await client.tasks.put(name, { http: { url: url + "/hook" }, retry: { max_attempts: 2 } });
    assert.deepEqual([put.name, put.timeout, put.guarantee, put.retry], [name, "30s", "at_least_once", { max_attempts: 2, initial: "1s", factor: 2, max: "10m0s", jitter: "full" }]);
    assert.equal((await client.tasks.get(name)).http?.url, url + "/hook");
    assert.ok((await all(client.tasks.list())).some((t) => t.name === name));
    const run = await settle((await client.jobs.create({ task: name })).id);
    assert.deepEqual([run.state, run.task], ["succeeded", name]);
    const both: JobRequest = { task: name, timeout: "1s", retry: {}, guarantee: "at_most_once" };
    assert.deepEqual(await refused(client.jobs.create(both)), [422, "invalid", ["body.guarantee", "body.retry", "body.timeout"]]);
    await client.tasks.delete(name);
    assert.deepEqual((await refused(client.tasks.get(name))).slice(0, 2), [404, "not-found"]);
  });

  test("events start jobs", async () => {
    const { client, name: prefix } = world();
    const name = prefix + ".uploaded";
    await client.jobs.create({ ...hook(), on: { event: name } });
    const id = await client.events.publish(name, { file: 7 });
    let runs = await all(client.events.runs(id));
    for (let n = 0; n < 200 && runs.length === 0; n++) {
      await client.sleep(100); // planned soon after the event
      runs = await all(client.events.runs(id));
    }
    assert.deepEqual(runs.map((r) => [r.trigger, r.payload]), [["event", { file: 7 }]]);
  });
}

suite("the fake", () => {
  const answers: number[] = [];
  const fake = new Fake().on("http://127.0.0.1:1/hook", () => answers.shift() ?? 200);
  const client = fake.client();
  const settle = async (id: string): Promise<Run> => {
    await fake.advance(hour);
    return client.runs.get(id);
  };
  story(() => ({ client, now: () => fake.now.getTime(), url: "http://127.0.0.1:1", answers, name: "f", settle }));
});

suite("the real program", { skip: leftOut }, () => {
  const hook = new Hook();
  let dev: Dev;
  let world: World;
  before(async () => {
    dev = await Dev.start();
    const client = dev.client();
    world = { client, now: Date.now, url: await hook.start(), answers: hook.answers, name: "r", settle: (id) => ended(client, id) };
  });
  after(async () => {
    await dev.stop();
    await hook.stop();
  });
  story(() => world);
});
