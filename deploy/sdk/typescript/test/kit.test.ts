// What only the fake can: time that the test advances, and what it refuses to pretend.

import assert from "node:assert/strict";
import { test } from "node:test";

import { APIError, defineJob, type JobRequest } from "../src/index.js";
import { epoch, Fake, Final, RetryAfter, runHandler, type Call } from "../src/testing.js";
import type { Run } from "../src/run.js";
import { all } from "./world.js";

const hook = "https://example.com/hook";
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const email = defineJob<{ to: string }>("send-email", { subject: "work.email" });

test("a job runs at its instant", async () => {
  const fake = new Fake().on(hook, () => undefined);
  const c = fake.client();
  const job = await c.jobs.create({ http: { url: hook, headers: { "x-a": "b" } }, payload: 7, schedule: { at: new Date(epoch + 2 * day).toISOString() } });
  await fake.advance(2 * day - 1);
  assert.deepEqual([fake.calls.length, (await c.runs.get(job.id)).state], [0, "pending"]);
  await fake.advance(hour);
  const [call] = fake.calls;
  assert.deepEqual([call?.target, call?.payload, call?.at.getTime(), call?.attempt, call?.headers["x-a"], call?.headers["Idempotency-Key"]], [hook, 7, epoch + 2 * day, 1, "b", job.id]);
});

test("an interval is kept", async () => {
  const at: number[] = [];
  const fake = new Fake().on(hook, (call) => void at.push((call.at.getTime() - epoch) / minute));
  const c = fake.client();
  await c.jobs.create({ name: "poll", http: { url: hook }, schedule: { every: "15m" }, max_runs: 5 });
  await fake.advance(hour);
  await c.jobs.pause("poll");
  await fake.advance(hour);
  await c.jobs.resume("poll");
  await fake.advance(day);
  assert.deepEqual(at, [15, 30, 45, 60, 135]);
});

test("retries wait as the policy says", async () => {
  const at: number[] = [];
  const fake = new Fake().on(hook, (call) => {
    at.push((call.at.getTime() - epoch) / 1000);
    return 500;
  });
  const c = fake.client();
  const { id } = await c.jobs.create({ http: { url: hook }, retry: { max_attempts: 4, initial: "10s", factor: 3, max: "1m" } });
  await fake.advance(day);
  assert.deepEqual([at, (await c.runs.get(id)).state], [[0, 10, 40, 100], "failed"]);
});

test("a worker is asked", async () => {
  const fake = new Fake().on(email, (call: Call) => {
    if (call.payload.to === "nobody") throw new Final("no such customer");
    if (call.attempt === 1) throw new RetryAfter("the server is full", 60);
    return { sent: call.payload.to };
  });
  const c = fake.client();
  await c.tasks.put(email.task, { nats: { subject: email.subject } });
  const good = await c.jobs.create(email.job({ to: "a" }));
  const bad = await c.jobs.create(email.job({ to: "nobody" }));
  await fake.settle();
  assert.equal((await c.runs.get(good.id)).next_attempt_at, "2030-01-01T00:01:00.000Z");
  await fake.advance(minute);
  assert.equal(new TextDecoder().decode(await c.runs.output(good.id)), '{"sent":"a"}');
  const dead = await c.runs.get(bad.id);
  assert.deepEqual([dead.state, dead.dead_letter, dead.attempts?.[0]?.error], ["failed", true, "no such customer"]);
});

test("what is called may call back", async () => {
  const fake = new Fake();
  const c = fake.client();
  fake.on(hook, async (call) => (await c.events.publish("called", { n: call.payload })) && 200).on(hook + "/next", () => 204);
  await c.jobs.create({ http: { url: hook + "/next" }, on: { event: "called" } });
  await c.jobs.create({ http: { url: hook }, payload: 1 });
  await fake.settle();
  assert.deepEqual(fake.calls.map((call) => [call.target, call.payload]), [[hook, 1], [hook + "/next", { n: 1 }]]);
  assert.equal(fake.events[0]?.name, "called");
});

test("pauses of a client advance the clock", async () => {
  const fake = new Fake();
  fake.refuseNext(2, 429, 5);
  await fake.client().jobs.create({ http: { url: hook } });
  assert.ok(fake.now.getTime() - epoch >= 10_000 && fake.now.getTime() - epoch < 11_000);
  fake.refuseNext(9);
  await assert.rejects(fake.client().jobs.create({ http: { url: hook } }), /told to refuse/);
});

test("what is not modelled is refused", async () => {
  const fake = new Fake();
  const http = { url: hook };
  const jobs: JobRequest[] = [
    { http, schedule: { cron: "0 9 * * *" } },
    { http, schedules: [{ every: "1h" }] },
    { http, after: { jobs: ["a"] } },
    { http, schedule: { every: "1h" }, concurrency: { limit: 1 } },
    { http, unique: { window: "1h" } },
    { http, on: { event: "e", filter: "true" } },
    { script: { command: "x" } },
  ];
  for (const job of jobs) await assert.rejects(fake.client().jobs.create(job), (e) => e instanceof APIError && e.status === 501 && e.kind === "not-modelled");
  await assert.rejects(fake.client().workflows.get("w"), /workflows/);
  assert.equal(fake.calls.length, 0);
});

test("a job and a task may say that they can be pre-empted, and where they run", async () => {
  const c = new Fake().client();
  const more = { preemptible: true, requires: { gpu: "true" } };
  await c.tasks.put("t", { http: { url: hook }, ...more });
  assert.equal((await c.jobs.create({ task: "t", priority: "low", ...more })).preemptible, true);
});

test("lists have pages", async () => {
  const fake = new Fake();
  const c = fake.client();
  const jobs = Array.from({ length: 1203 }, (_, n) => ({ http: { url: hook }, schedule: { at: new Date(epoch + n * 1000).toISOString() } }));
  assert.equal((await c.imports.run(jobs)).created, 1203);
  const runs = await all(c.runs.list(new Date(epoch), new Date(epoch + day)));
  assert.equal(runs.length, 1203);
  assert.deepEqual(runs, [...runs].sort((a, b) => (a.due_at < b.due_at ? -1 : 1)));
});

test("a handler is run alone", async () => {
  const send = runHandler.bind(null, async (run: Run<any>) => {
    run.log(`sending\nto ${run.payload.to}`);
    run.progress(1, 2);
    if (run.payload.to === "nobody") throw new Final("no such customer");
    if (run.attempt === 1) throw new RetryAfter("later", 2.5);
    return { sent: run.payload.to };
  });
  let done = await send({ to: "a" }, { attempt: 2 });
  assert.deepEqual([done.value, done.error, done.log, done.progress], [{ sent: "a" }, "", ["sending", "to a"], [{ done: 1, total: 2 }]]);
  done = await send({ to: "a" });
  assert.deepEqual([done.error, done.final, done.retryAfter], ["later", false, 2.5]);
  done = await send({ to: "nobody" });
  assert.deepEqual([done.error, done.final], ["no such customer", true]);
});
