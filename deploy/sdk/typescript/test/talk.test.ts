// What a worker and an executor say to each other, with the executor played by the test, and time by a mock.

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { mock, test } from "node:test";

import { headers as newHeaders, type Msg, type NatsConnection } from "@nats-io/transport-node";

import { Stopped, Worker, type Handler, type WorkerOptions } from "../src/worker.js";

interface Said {
  subject: string;
  word: string;
  headers: Record<string, string>;
  body: string;
  reply: string;
}

/** A connection of nats-core whose other side is the test. */
class Connection {
  readonly subscribed = new Map<string, (error: null, msg: Msg) => void>();
  readonly said: Said[] = [];
  readonly info = { max_payload: 1 << 20 };

  subscribe(subject: string, { callback }: { callback: (error: null, msg: Msg) => void }): object {
    this.subscribed.set(subject, callback);
    const gone = (): void => void this.subscribed.delete(subject);
    return { unsubscribe: gone, drain: () => Promise.resolve(gone()) };
  }

  publish(subject: string, body: Uint8Array, { reply = "", headers }: { reply?: string; headers: ReturnType<typeof newHeaders> }): void {
    const read = Object.fromEntries(headers.keys().map((name) => [name, headers.get(name)]));
    this.said.push({ subject, word: read["Carillon-Word"] ?? "", headers: read, body: new TextDecoder().decode(body), reply });
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  #deliver(subject: string, facts: Record<string, string>, data: string, reply: string, code = 0): void {
    const headers = code ? newHeaders(code, "No Responders") : newHeaders();
    for (const [name, value] of Object.entries(facts)) headers.set(name, value);
    this.subscribed.get(subject)!(null, { headers, data: new TextEncoder().encode(data), subject, reply } as unknown as Msg);
  }

  /** Has a run come. */
  async offer(data = "", more: Record<string, string> = {}): Promise<void> {
    this.#deliver("work", { "Carillon-Run-Id": "r", "Carillon-Attempt": "1", "Carillon-Fence": "7", "Carillon-Due-At": "2026-11-21T09:30:00Z", ...more }, data, "executor");
    await setImmediate();
  }

  /** Answers the worker's last word. */
  async answer(facts: Record<string, string>, code = 0): Promise<void> {
    this.#deliver(this.said.at(-1)!.reply, facts, "", "", code);
    await setImmediate();
  }

  words(): string {
    return this.said.map((s) => s.word).join(" ");
  }
}

async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms);
  await setImmediate();
  await setImmediate();
}

function talk(name: string, handler: Handler, story: (nc: Connection, warned: string[]) => Promise<void>, options: WorkerOptions = {}): void {
  test(name, async () => {
    mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.UTC(2026, 10, 21, 9, 30) });
    try {
      const nc = new Connection();
      const warned: string[] = [];
      const stop = new AbortController();
      const worker = new Worker(nc as unknown as NatsConnection, { warn: (text) => void warned.push(text), ...options }).handle("work", handler);
      const running = worker.run({ signal: stop.signal });
      await setImmediate();
      await story(nc, warned);
      stop.abort();
      for (let n = 0; n < 20; n++) await pass(10_000);
      await running;
      assert.equal(nc.subscribed.size, 0); // of subjects and of answers
    } finally {
      mock.timers.reset();
    }
  });
}

/** A handler that works until it is to stop, and notes why. */
function patient(why: string[]): Handler {
  return ({ signal }) =>
    new Promise((_, reject) =>
      signal.addEventListener("abort", () => {
        why.push((signal.reason as Stopped).why);
        reject(signal.reason as Error);
      }),
    );
}

talk("a result is sent until it is heard", (run) => ({ got: run.payload }), async (nc) => {
  await nc.offer('{"n":1}');
  for (const ms of [1000, 2000]) await pass(ms);
  assert.deepEqual(nc.said.map((s) => [s.subject, s.word, s.body]), Array(3).fill(["executor", "result", '{"got":{"n":1}}']));
  await nc.answer({ "Carillon-Ack": "true" });
  await pass(60_000);
  assert.equal(nc.said.length, 3);
});

talk("a result that nobody hears is given up after 30 s", () => "done", async (nc, warned) => {
  await nc.offer();
  for (let s = 0; s < 60; s++) await pass(1000);
  assert.deepEqual(warned, ["run r: nobody heard the result: it may be attempted again"]);
});

talk("what came too late is declined", () => "done", async (nc) => {
  await nc.offer("", { "Carillon-Deadline": "2026-11-21T09:29:54Z" });
  assert.deepEqual([nc.words(), nc.said[0]?.subject], ["declined", "executor"]);
  await nc.offer("", { "Carillon-Deadline": "2026-11-21T09:29:59Z" }); // clocks differ
  assert.equal(nc.words(), "declined result");
  await nc.answer({ "Carillon-Ack": "true" });
});

talk("what finds no slot is declined", patient([]), async (nc) => {
  await nc.offer();
  await nc.offer();
  assert.equal(nc.words(), "declined");
}, { concurrency: 1, drain: 10 });

const abandoned: string[] = [];
talk("a worker that nobody hears stops its handler", patient(abandoned), async (nc) => {
  await nc.offer();
  await pass(1000);
  await nc.answer({}, 503);
  await pass(10_000);
  await nc.answer({}, 503);
  assert.deepEqual([nc.words(), abandoned], ["alive alive", []]);
  await pass(10_000);
  assert.deepEqual([nc.words(), abandoned], ["alive alive result", ["abandoned"]]);
  await nc.answer({ "Carillon-Gone": "true" });
});

const outlived: string[] = [];
talk("a moment without an executor is outlived", patient(outlived), async (nc) => {
  await nc.offer();
  await pass(1000);
  await nc.answer({}, 503);
  for (let n = 0; n < 3; n++) await pass(10_000);
  assert.deepEqual([nc.words(), outlived], ["alive alive alive alive", []]);
  await nc.answer({ "Carillon-Cancel": "cancelled" });
  assert.deepEqual([nc.said.at(-1)?.headers["Carillon-Error"], outlived], ["the handler is to stop: cancelled", ["cancelled"]]);
  await nc.answer({ "Carillon-Ack": "true" });
});

const timedOut: string[] = [];
talk("the time of an attempt ends", patient(timedOut), async (nc) => {
  await nc.offer("", { "Carillon-Timeout-Ms": "500" });
  await pass(499);
  assert.deepEqual(timedOut, []);
  await pass(1);
  assert.deepEqual([nc.said.at(-1)?.headers["Carillon-Error"], timedOut], ["the time of the attempt is up", ["timeout"]]);
  await nc.answer({ "Carillon-Ack": "true" });
});

talk("of progress in quick succession the last counts", (run) => {
  for (let n = 1; n <= 100; n++) run.progress(n, 100, "counting");
}, async (nc) => {
  await nc.offer();
  assert.deepEqual(nc.said.map((s) => s.body), ['{"done":1,"total":100,"text":"counting"}', '{"done":100,"total":100,"text":"counting"}', ""]);
  await nc.answer({ "Carillon-Ack": "true" });
});

const stopped: string[] = [];
talk("a stop ends handlers that do not end", patient(stopped), async (nc) => {
  await nc.offer();
}, { drain: 60_000 });

test("it was told why", () => assert.deepEqual(stopped, ["stopped"]));

talk("what is no run is passed over", () => assert.fail("it began"), async (nc, warned) => {
  await nc.offer("", { "Carillon-Attempt": "one" });
  nc.subscribed.get("work")!(null, { subject: "work", data: new Uint8Array() } as unknown as Msg);
  assert.deepEqual([nc.said, warned.length], [[], 2]);
});

talk("what is no JSON is a final failure", () => assert.fail("it began"), async (nc) => {
  await nc.offer("{");
  assert.equal(nc.said[0]?.headers["Carillon-Error-Final"], "true");
  await nc.answer({ "Carillon-Ack": "true" });
});
