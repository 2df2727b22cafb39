// What the tests share: the real program (CARILLON_PROGRAM names it), and something that it can call.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";

import { Client, type Run } from "../src/index.js";

/** The program that is tested against. Without it those tests are left out; in CI that is a failure. */
export const program = process.env["CARILLON_PROGRAM"];
if (!program && process.env["CI"] === "true") throw new Error("CARILLON_PROGRAM is not set");
export const leftOut = program ? false : "LEFT OUT: CARILLON_PROGRAM is not set";

/** A `carillon dev` on free ports of the loopback interface. */
export class Dev {
  private constructor(
    private readonly process: ChildProcess,
    readonly api: string,
    readonly nats: string,
  ) {}

  static async start(): Promise<Dev> {
    const env = { ...process.env, CARILLON_SECRETS_KEYS: "k1:" + Buffer.alloc(32).toString("base64") }; // encrypts signing keys
    const child = spawn(program!, ["dev", "--port", "0", "--nats-port", "0", "--log-level", "error"], { env, stdio: ["ignore", "pipe", "inherit"] });
    for await (const line of createInterface(child.stdout)) {
      const up = /Carillon is up\..* API (\S+) .* workers (\S+)/.exec(line);
      if (up) {
        child.stdout.resume();
        return new Dev(child, up[1]!, up[2]!);
      }
    }
    throw new Error("carillon dev ended before it was up");
  }

  client(): Client {
    return new Client(this.api);
  }

  async stop(): Promise<void> {
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    await ended;
  }
}

/** An HTTP server that is called, and remembers by what. `answers` are the statuses to come, then 200. */
export class Hook {
  readonly answers: number[] = [];
  readonly calls: { path: string; headers: IncomingHttpHeaders; body: string }[] = [];
  private readonly server: Server;

  constructor() {
    this.server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        this.calls.push({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(parts).toString() });
        response.writeHead(this.answers.shift() ?? 200).end();
      });
    });
  }

  async start(): Promise<string> {
    this.server.listen(0, "127.0.0.1");
    await once(this.server, "listening");
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, "close");
  }
}

/** Returns a run of the real program once it has ended. That it lies in the dead letters shows a moment later. */
export async function ended(c: Client, id: string): Promise<Run> {
  let run = await c.runs.wait(id);
  for (let n = 0; n < 600 && run.state === "failed" && !run.dead_letter; n++) {
    await c.sleep(100);
    run = await c.runs.get(id);
  }
  return run;
}

/** Returns all of a list. */
export async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of list) items.push(item);
  return items;
}
