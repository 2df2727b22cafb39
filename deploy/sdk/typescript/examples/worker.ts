// The worker of the shop. It ends in order on SIGTERM.
//
//     NATS_URL=nats://127.0.0.1:4222 node build/examples/worker.js

import { connect } from "@nats-io/transport-node";

import { Client } from "../src/index.js"; // "carillon-client"
import { Worker } from "../src/worker.js"; // "carillon-client/worker"
import { remind, remindJob } from "./shop.js";

await Client.fromEnv().tasks.put(remindJob.task, { nats: { subject: remindJob.subject }, timeout: "1m" });
const nc = await connect({ servers: process.env["NATS_URL"] ?? "nats://127.0.0.1:4222", maxReconnectAttempts: -1 });
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
process.once("SIGINT", () => stop.abort());
const worker = new Worker(nc, { concurrency: 16 }).handle(remindJob, remind);
await worker.run({ signal: stop.signal, ready: () => console.log("ready") });
await nc.close();
