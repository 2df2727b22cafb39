// A job in two seconds, and what became of it.
//
//     CARILLON_API=http://127.0.0.1:8080 node build/examples/quickstart.js

import { Client } from "../src/index.js"; // "carillon-client"

const c = Client.fromEnv();
const job = await c.jobs.create({
  http: { url: process.env["HOOK"] ?? "http://127.0.0.1:8080/healthz", method: "GET" },
  schedule: { at: new Date(Date.now() + 2000).toISOString() },
  labels: { from: "quickstart" },
});
const run = await c.runs.wait(job.id);
console.log(run.state, `${run.lateness_ms ?? 0} ms late`);
