// How a client asks until it is answered.

import assert from "node:assert/strict";
import { test } from "node:test";

import { APIError, Client, defineJob, ImportCut, pause, PayloadError, span, Unreachable, writeSpan, type JobRequest, type Options } from "../src/index.js";
import { all } from "./world.js";

/** Answers requests by a list, and keeps them. */
class Script {
  readonly requests: { method: string; url: URL; headers: Headers; body: string }[] = [];
  readonly pauses: number[] = [];
  constructor(private readonly answers: (Response | Error)[]) {}

  client(options: Options = {}): Client {
    return new Client("http://node", {
      fetch: async (request) => {
        this.requests.push({ method: request.method, url: new URL(request.url), headers: request.headers, body: await request.text() });
        const answer = this.answers.shift();
        if (!answer || answer instanceof Error) throw answer ?? new Error("no answer is left");
        return answer;
      },
      sleep: (ms) => Promise.resolve(void this.pauses.push(ms)),
      ...options,
    });
  }
}

const job: JobRequest = { task: "t" };

function problem(status: number, kind: string, more: object = {}, headers: Record<string, string> = {}): Response {
  return Response.json({ type: `urn:carillon:problem:${kind}`, title: "Title", status, ...more }, { status, headers });
}

test("what is refused for now is sent again with the same key", async () => {
  const script = new Script([problem(429, "overloaded", {}, { "Retry-After": "3" }), new TypeError("fetch failed"), new Response("<html>", { status: 502 }), Response.json({ id: "1" }, { status: 201 })]);
  assert.deepEqual(await script.client({ key: "k", tenant: "shop" }).jobs.create(job), { id: "1" });
  assert.equal(new Set(script.requests.map((r) => r.headers.get("Idempotency-Key"))).size, 1);
  for (const r of script.requests) {
    assert.deepEqual([r.body, r.headers.get("Authorization"), r.headers.get("Carillon-Tenant"), r.url.href], ['{"task":"t"}', "Bearer k", "shop", "http://node/v1/jobs"]);
  }
  assert.equal(script.pauses[0], 3000);
});

test("each call draws its own key unless it is given one", async () => {
  const script = new Script([1, 2, 3].map((id) => Response.json({ id }, { status: 201 })));
  const c = script.client();
  await c.jobs.create(job);
  await c.jobs.create(job);
  await c.jobs.create(job, { idempotencyKey: 'an "order"' });
  const keys = script.requests.map((r) => r.headers.get("Idempotency-Key"));
  assert.notEqual(keys[0], keys[1]);
  assert.equal(keys[2], '"an \\"order\\""');
});

test("an error has all faults", async () => {
  const errors = [{ location: "body.schedule.cron", message: "never fires", value: "0 0 30 2 *" }, { message: "and more" }];
  const script = new Script([problem(422, "invalid", { detail: "It is so.", errors })]);
  await assert.rejects(script.client().jobs.create(job), (e) => {
    assert.ok(e instanceof APIError);
    assert.deepEqual([e.status, e.kind, e.title, e.detail, e.faults, e.temporary], [422, "invalid", "Title", "It is so.", errors, false]);
    assert.equal(e.message, "422 Title: It is so.: body.schedule.cron never fires; and more");
    return true;
  });
  assert.deepEqual([script.requests.length, script.pauses.length], [1, 0]);
});

test("the last failure is told", async () => {
  await assert.rejects(new Script([new TypeError("slow"), new TypeError("slow")]).client({ retries: 1 }).jobs.get("a"), (e) => e instanceof Unreachable && e.message.includes("slow"));
  await assert.rejects(new Script([new Response("no JSON", { status: 503 })]).client({ retries: 0 }).jobs.get("a"), (e) => e instanceof APIError && e.status === 503 && e.kind === "" && e.detail === "no JSON");
});

test("pauses grow and are bounded", () => {
  for (const [attempt, most] of [[0, 100], [1, 200], [6, 6400], [60, 6400]] as const) {
    const p = pause(attempt, 0);
    assert.ok(most / 2 <= p && p <= most, `${attempt}: ${p}`);
  }
  assert.deepEqual([pause(0, 7), pause(0, 3600)], [7000, 10_000]);
});

test("lists are walked to their end", async () => {
  const script = new Script([Response.json({ items: [1, 2], next_cursor: "c" }), Response.json({ items: [], next_cursor: "d" }), Response.json({ items: [3] })]);
  assert.deepEqual(await all(script.client().jobs.list({ label: "team=x" })), [1, 2, 3]);
  assert.deepEqual(script.requests.map((r) => r.url.search), ["?label=team%3Dx&limit=500", "?label=team%3Dx&limit=500&cursor=c", "?label=team%3Dx&limit=500&cursor=d"]);
});

test("a window is asked for hour by hour", async () => {
  const script = new Script([1, 2, 3].map((n) => Response.json({ items: [n] })));
  const since = new Date("2026-01-01T00:00:00Z");
  assert.deepEqual(await all(script.client().runs.list(since, new Date("2026-01-01T02:30:00Z"), { state: "failed" })), [1, 2, 3]);
  assert.deepEqual(
    script.requests.map((r) => [r.url.searchParams.get("from")?.slice(11, 16), r.url.searchParams.get("to")?.slice(11, 16), r.url.searchParams.get("state")]),
    [["00:00", "01:00", "failed"], ["01:00", "02:00", "failed"], ["02:00", "02:30", "failed"]],
  );
});

test("paths are quoted", async () => {
  const script = new Script([Response.json({})]);
  await script.client().jobs.get("a/b?c");
  assert.equal(script.requests[0]?.url.pathname, "/v1/jobs/a%2Fb%3Fc");
});

test("deleting a task twice is the same as once", async () => {
  await new Script([problem(503, "not-ready"), problem(404, "not-found")]).client().tasks.delete("t");
  await assert.rejects(new Script([problem(403, "forbidden")]).client().tasks.delete("t"), APIError);
});

const lines = (...said: object[]): Response => new Response(said.map((s) => JSON.stringify(s) + "\n").join(""));

test("a cut import is sent again without what was answered", async () => {
  const error = (status: number, kind: string): object => ({ type: `urn:carillon:problem:${kind}`, title: "T", status });
  const script = new Script([
    lines({ line: 2, id: "b", status: 201 }, { line: 3, status: 503, error: error(503, "not-ready") }), // cut
    lines({ line: 1, status: 422, error: error(422, "invalid") }, { line: 2, id: "c", status: 200 }, { summary: {} }),
  ]);
  const report = await script.client().imports.run(["a", "b", "c"].map((task) => ({ task })));
  assert.deepEqual([report.created, report.existing, report.failed.map((f) => f.line)], [1, 1, [1]]);
  const [first, again] = script.requests.map((r) => r.body.trim().split("\n").map((l) => JSON.parse(l) as JobRequest));
  assert.deepEqual(first?.map((j) => j.task), ["a", "b", "c"]);
  assert.deepEqual(again, [first?.[0], first?.[2]]);
  assert.equal(new Set(first?.map((j) => j.key)).size, 3);
  assert.equal(script.requests[0]?.headers.get("Content-Type"), "application/x-ndjson");
});

test("an import that is cut for ever fails", async () => {
  const script = new Script([lines({ line: 1, id: "a", status: 201 }), lines(), lines()]);
  await assert.rejects(script.client({ retries: 2 }).imports.run([job, job]), ImportCut);
  const stopping = lines({ error: { type: "urn:carillon:problem:not-ready", title: "This node stops", status: 503 } });
  await assert.rejects(new Script([stopping]).client({ retries: 0 }).imports.run([job]), /This node stops/);
});

test("spans are read and written", () => {
  const cases: [string, number][] = [["1m30s", 90_000], ["1h0m0.5s", 3_600_500], ["250ms", 250], ["10µs", 0.01], ["0", 0], ["-2s", -2000]];
  for (const [text, ms] of cases) assert.equal(span(text), ms);
  for (const text of ["", "5", "1d", "s", "1m 30s"]) assert.throws(() => span(text), RangeError);
  for (const ms of [90_000, 1500, 0.5, -1000]) assert.equal(span(writeSpan(ms)), ms);
});

test("a typed job is a request, and its payload is read as its type", () => {
  const email = defineJob<{ to: string }>("send-email", {
    read: (v) => {
      if (typeof (v as { to?: unknown }).to !== "string") throw new TypeError("to must be text");
      return v as { to: string };
    },
  });
  assert.deepEqual(email.job({ to: "a" }, { at: new Date(0), labels: { team: "x" } }), { task: "send-email", payload: { to: "a" }, schedule: { at: "1970-01-01T00:00:00.000Z" }, labels: { team: "x" } });
  const more = { unique: { by: ["payload/to"], window: writeSpan(3_600_000) }, concurrency: { limit: 1, key: "/to" }, priority: "low", preemptible: true } as const;
  assert.deepEqual(email.job({ to: "a" }, { ...more, unique: { ...more.unique, by: [...more.unique.by] } }), { task: "send-email", payload: { to: "a" }, ...more });
  assert.deepEqual(email.read({ to: "a" }), { to: "a" });
  assert.throws(() => email.read({ to: 1 }), (e) => e instanceof PayloadError && e.message === "payload of send-email: to must be text");
});
