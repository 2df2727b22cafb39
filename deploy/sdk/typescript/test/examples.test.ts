// The examples, as their readers run them.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { promisify } from "node:util";

import { receiver } from "../examples/receiver.js";
import { remind, remindJob, Shop } from "../examples/shop.js";
import { epoch, Fake, runHandler } from "../src/testing.js";
import { sign, Verifier } from "../src/webhooks.js";
import { Dev, leftOut } from "./world.js";

const day = 86_400_000;
const now = new Date(epoch);
const script = (name: string): string => new URL(`../examples/${name}.js`, import.meta.url).pathname;

test("the shop reminds after two days", async () => {
  const reminded: number[] = [];
  const fake = new Fake().on(remindJob, (call) => void reminded.push(call.payload.order));
  const carillon = fake.client();
  await carillon.tasks.put(remindJob.task, { nats: { subject: remindJob.subject } });
  const shop = new Shop(carillon);
  const first = await shop.order(7, "a@example.com", now);
  assert.equal(await shop.order(7, "a@example.com", now), first);
  await shop.paid(await shop.order(8, "b@example.com", now));
  await fake.advance(2 * day - 1000);
  assert.deepEqual(reminded, []);
  await fake.advance(1000);
  assert.deepEqual(reminded, [7]);
});

test("the README's tests with time", async () => {
  const readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
  const code = /\n## Tests with time\n\n```ts\n([^]*?)\n```\n/.exec(readme)?.[1] ?? "";
  assert.match(code, /assert\.deepEqual\(sent/);
  const here = code.replace("carillon-client/testing", "../src/testing.js").replace("./examples/", "../examples/");
  const file = new URL("readme.mjs", import.meta.url);
  await writeFile(file, here);
  await import(file.href);
});

test("the handler of the shop", async () => {
  const run = (to: string, attempt = 1): ReturnType<typeof runHandler> => runHandler(remind, { order: 7, to }, { kind: remindJob, attempt });
  assert.deepEqual((await run("a@example.com")).value, { sent: "a@example.com" });
  assert.ok((await run("nowhere")).final);
  assert.deepEqual([(await run("a@busy.example")).retryAfter, (await run("a@busy.example", 2)).error], [60, ""]);
});

test("the receiver trusts only what is signed", async () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const server = receiver(new Verifier([secret])).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const at = Math.floor(Date.now() / 1000);
  const headers = { "webhook-id": "run-1", "webhook-timestamp": String(at), "webhook-signature": sign("run-1", at, "{}", secret) };
  const post = (body: string): Promise<Response> => fetch(url, { method: "POST", headers, body });
  assert.equal(await (await post("{}")).text(), "run run-1: 2 bytes\n");
  assert.equal((await post("{ }")).status, 401);
  server.closeAllConnections();
  server.close();
});

test("quickstart, and the worker of the shop", { skip: leftOut }, async () => {
  const dev = await Dev.start();
  try {
    const env = { ...process.env, CARILLON_API: dev.api, NATS_URL: dev.nats, HOOK: dev.api + "/healthz" };
    const first = promisify(execFile)(process.execPath, [script("quickstart")], { env });
    const worker = spawn(process.execPath, [script("worker")], { env, stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(worker, "exit");
    try {
      const [ready] = (await once(worker.stdout, "data")) as [Buffer];
      assert.equal(ready.toString(), "ready\n");
      const c = dev.client();
      const { id } = await c.jobs.create(remindJob.job({ order: 7, to: "a@example.com" }));
      assert.equal((await c.runs.wait(id)).state, "succeeded");
      assert.equal(new TextDecoder().decode(await c.runs.output(id)), '{"sent":"a@example.com"}');
      worker.kill("SIGTERM");
      assert.deepEqual(await ended, [0, null]);
    } finally {
      worker.kill("SIGKILL");
    }
    assert.match((await first).stdout, /^succeeded /);
  } finally {
    await dev.stop();
  }
});
