// A worker on the real program: its runs, by NATS; and what the fake does not model.

import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";

import { connect, type NatsConnection } from "@nats-io/transport-node";

import { defineJob, input, item, output, type Client } from "../src/index.js";
import { outcome } from "../src/run.js";
import { Verifier } from "../src/webhooks.js";
import { Final, RetryAfter, Stopped, Worker, type WorkerOptions } from "../src/worker.js";
import { all, Dev, ended, Hook, leftOut } from "./world.js";

const text = (body: Uint8Array): string => new TextDecoder().decode(body);

test("the last word of an attempt", () => {
  assert.deepEqual(outcome({ result: { a: 1 } }), { body: new TextEncoder().encode('{"a":1}'), headers: { "Carillon-Word": "result" } });
  assert.deepEqual(["text", undefined, new Uint8Array([0]), null].map((result) => text(outcome({ result }).body)), ["text", "", "\0", "null"]);
  assert.deepEqual(outcome({ result: "0123456789" }, 4).headers, { "Carillon-Word": "result", "Carillon-Output-Cut": "true" });
  const said = (error: unknown): Record<string, string> => outcome({ error }).headers;
  assert.equal(said(new TypeError("a\nb  ä"))["Carillon-Error"], "TypeError: a b ?");
  assert.deepEqual(said(new Final("no")), { "Carillon-Word": "result", "Carillon-Error": "no", "Carillon-Error-Final": "true" });
  assert.equal(said(new RetryAfter("later", 30))["Carillon-Retry-After"], "30");
  assert.equal(said(new Error("x".repeat(5000)))["Carillon-Error"]?.length, 1024);
  assert.equal(outcome({ result: 1n }).headers["Carillon-Error-Final"], "true"); // cannot be encoded
});

suite("on the real program", { skip: leftOut }, () => {
  const hook = new Hook();
  let dev: Dev;
  let url: string;
  let c: Client;
  let nc: NatsConnection;
  before(async () => {
    dev = await Dev.start();
    c = dev.client();
    nc = await connect({ servers: dev.nats });
    url = await hook.start();
  });
  after(async () => {
    await nc.close();
    await dev.stop();
    await hook.stop();
  });

  /** Runs a worker, tells a story beside it, and stops the worker, which must end in order. */
  async function onWorker(register: (worker: Worker) => void, story: () => Promise<void>, options: WorkerOptions = {}): Promise<void> {
    const worker = new Worker(nc, { warn: () => undefined, ...options });
    register(worker);
    const stop = new AbortController();
    let running: Promise<void> | undefined;
    await new Promise<void>((ready, failed) => {
      running = worker.run({ signal: stop.signal, ready });
      running.catch(failed);
    });
    try {
      await story();
    } finally {
      stop.abort();
      await running;
    }
  }

  test("runs by a worker", async () => {
    const email = defineJob<{ to: string }>("ts-email", {
      subject: "work.ts.email",
      read: (v) => {
        if (typeof (v as { to?: unknown }).to !== "string") throw new TypeError("to must be text");
        return v as { to: string };
      },
    });
    await onWorker(
      (worker) =>
        worker.handle(email, (run) => {
          run.log(`sending to ${run.payload.to}`);
          run.progress(1, 2);
          run.progress(2, 2);
          if (run.payload.to === "nobody") throw new Final("no such customer");
          if (run.attempt === 1) throw new TypeError("once more");
          return { sent: run.payload.to, attempt: run.attempt };
        }),
      async () => {
        await c.tasks.put(email.task, { nats: { subject: email.subject }, retry: { initial: "1ms", max: "10ms" } });
        const good = await c.runs.wait((await c.jobs.create(email.job({ to: "a" }))).id);
        assert.deepEqual([good.state, good.attempts?.map((a) => a.outcome)], ["succeeded", ["failed", "succeeded"]]);
        assert.deepEqual([good.attempts?.[0]?.error, good.attempts?.[1]?.progress?.done], ["TypeError: once more", 2]);
        assert.equal(text(await c.runs.output(good.id)), '{"sent":"a","attempt":2}');
        assert.deepEqual((await all(c.runs.logs(good.id))).map((l) => l.text), ["sending to a", "sending to a"]);
        const bad = await ended(c, (await c.jobs.create(email.job({ to: "nobody" }))).id);
        assert.deepEqual([bad.state, bad.dead_letter, bad.attempts?.[0]?.error], ["failed", true, "no such customer"]);
        const wrong = await ended(c, (await c.jobs.create({ task: email.task, payload: { to: 7 } })).id);
        assert.deepEqual([wrong.dead_letter, wrong.attempts?.[0]?.error], [true, "PayloadError: payload of ts-email: to must be text"]);
      },
    );
  });

  test("a cancel and a time-out reach the handler", async () => {
    const why: string[] = [];
    let began: () => void = () => undefined;
    await onWorker(
      (worker) =>
        worker.handle("work.ts.slow", async ({ signal, log }) => {
          log("begun"); // an executor can answer a worker that has said a word
          began();
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          why.push((signal.reason as Stopped).why);
          throw signal.reason;
        }),
      async () => {
        const begun = new Promise<void>((resolve) => (began = resolve));
        const { id } = await c.jobs.create({ nats: { subject: "work.ts.slow" }, timeout: "1m" });
        await begun;
        await c.runs.cancel(id);
        assert.equal((await c.runs.wait(id)).state, "cancelled");
        const once = await c.jobs.create({ nats: { subject: "work.ts.slow" }, timeout: "200ms", retry: { max_attempts: 1 } });
        assert.equal((await c.runs.wait(once.id)).state, "failed");
      },
    );
    assert.deepEqual(why, ["cancelled", "timeout"]);
  });

  test("what finds no slot comes again, and a stop lets what is at work end", async () => {
    let most = 0;
    let atWork = 0;
    let free: () => void = () => undefined;
    const freed = new Promise<void>((resolve) => (free = resolve));
    const ids: string[] = [];
    await onWorker(
      (worker) =>
        worker.handle("work.ts.one", async () => {
          most = Math.max(most, ++atWork);
          await freed;
          atWork--;
          return "done";
        }),
      async () => {
        for (let n = 0; n < 3; n++) ids.push((await c.jobs.create({ nats: { subject: "work.ts.one" } })).id);
        free();
        for (const id of ids) assert.equal((await c.runs.wait(id)).state, "succeeded");
      },
      { concurrency: 1 },
    );
    assert.equal(most, 1);

    let began: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => (began = resolve));
    let id = "";
    await onWorker(
      (worker) =>
        worker.handle("work.ts.drain", async () => {
          began();
          await new Promise((resolve) => setTimeout(resolve, 300)); // while the worker drains
          return "done";
        }),
      async () => {
        id = (await c.jobs.create({ nats: { subject: "work.ts.drain" } })).id;
        await begun;
      },
    );
    assert.equal((await c.runs.wait(id)).state, "succeeded");
  });

  test("a call is signed", async () => {
    const key = (await (await fetch(dev.api + "/v1/signing-keys", { method: "POST", headers: { "content-type": "application/json" }, body: '{"name": "ts-key"}' })).json()) as { secret: string };
    for (let n = 0; ; n++) {
      // nodes take a new key up within 10 s
      const { id } = await c.jobs.create({ http: { url: `${url}/signed/${n}`, signing_key: "ts-key" }, payload: { n } });
      await c.runs.wait(id);
      const call = hook.calls.find((made) => made.path === `/signed/${n}`);
      if (!call?.headers["webhook-signature"] && n < 100) {
        await c.sleep(200);
        continue;
      }
      assert.equal(new Verifier([key.secret]).verify(call!.headers, call!.body), id);
      break;
    }
  });

  test("a workflow", async () => {
    await c.workflows.put("ts-etl", {
      steps: [
        { name: "extract", http: { url: url + "/extract" }, payload: { date: input("/date") } },
        { name: "load", after: ["extract"], http: { url: url + "/load" }, for_each: { items: [1, 2] }, payload: { n: item(), said: output("extract") } },
      ],
    });
    const run = await c.workflows.trigger("ts-etl", { date: "2026-11-21" });
    const done = await c.runs.wait(run.id);
    assert.deepEqual([done.state, done.steps?.map((s) => s.state)], ["succeeded", ["succeeded", "succeeded"]]);
    assert.equal(hook.calls.find((made) => made.path === "/extract")?.body, '{"date":"2026-11-21"}');
    assert.deepEqual(hook.calls.filter((made) => made.path === "/load").map((made) => made.body).sort(), ['{"n":1,"said":null}', '{"n":2,"said":null}']);
    assert.deepEqual((await all(c.workflows.runs("ts-etl"))).map((r) => r.id), [run.id]);
  });

  test("a preview, and a job by cron", async () => {
    const schedule = { cron: "30 2 * * *", timezone: "Europe/Berlin" };
    const said = await c.schedules.preview({ schedule, from: "2027-03-27T00:00:00Z", count: 3 });
    assert.deepEqual(said.times?.slice(0, 2), ["2027-03-27T01:30:00.000Z", "2027-03-28T01:00:00.000Z"]);
    await c.jobs.put("ts-report", { http: { url }, schedule });
    assert.equal((await c.jobs.upcoming("ts-report", 3)).length, 3);
    assert.match((await c.jobs.upcoming("ts-report", 1, new Date("2040-01-01T00:00:00Z")))[0]!.due_at, /^2040-01-01T/);
    await c.jobs.cancel("ts-report");
  });
});
