// The promise: RATE runs fall due every second, for DURATION, and start on time. Jobs are imported AHEAD (30 s) of their
// second at the same constant rate, so intake and dispatch both carry RATE all the time; each run is an HTTP call to the
// sink. It fails if p99 of the lateness is above 1 s (P99_MS), if any run is missing, early or failed, if any call or
// line fails or is refused, or if the generator itself falls behind.
//
//   PROFILE=2core  RATE 2,000, for two cores that hold Cassandra, NATS, all of Carillon, k6 and the sink. One run there
//                  cost 0.6 ms of CPU a job all told (carillon 0.2, Cassandra 0.2, NATS 0.1, sink 0.1, k6 0.02), so
//                  2,000/s take 1.2 cores. Lateness means something only while some CPU is to spare: without, it is
//                  the length of the queue for the CPU.
//   PROFILE=full   RATE 10,000, the default. By the same figures it takes 6 cores for everything; by estimate, not yet
//                  by a run, it wants 8, or 2 each for Cassandra, NATS, Carillon's nodes, and k6 with the sink.
//   PROFILE=smoke  RATE 100 for 10 s: does the script work?

import { check } from 'k6';
import exec from 'k6/execution';

import { importLines, whole } from './lib/api.js';
import { begin, conclude } from './lib/cluster.js';
import { number, seconds } from './lib/env.js';
import { Chunk, evenly, makeRunName } from './lib/jobs.js';
import { exact, patience } from './lib/profiles.js';

const profiles = {
  smoke: { rate: 100, duration: 10, ahead: 10 },
  '2core': { rate: 2000, duration: 60, ahead: 30 },
  full: { rate: 10000, duration: 60, ahead: 30 },
};
const profile = __ENV.PROFILE || 'full';
if (!(profile in profiles)) throw new Error(`PROFILE=${profile}: not one of ${Object.keys(profiles).join(', ')}`);

const rate = Math.round(number('RATE', profiles[profile].rate));
const duration = seconds('DURATION', profiles[profile].duration);
const ahead = seconds('AHEAD', profiles[profile].ahead);
const bound = number('P99_MS', 1000);

const mostLines = 1000; // of one import
const imports = Math.ceil(rate / mostLines); // a second

export const options = {
  ...patience,
  scenarios: {
    imports: {
      executor: 'constant-arrival-rate', rate: imports, timeUnit: '1s', duration: `${duration}s`,
      preAllocatedVUs: 12, maxVUs: 16, // a node takes 16 imports at once
      gracefulStop: '60s',
    },
  },
  thresholds: {
    ...exact({ import: [2000, 4000] }),
    import_lines_failed: ['count==0'],
    jobs_accepted: [`count>=${rate * duration}`],
    lateness_p99_ms: [`value<=${bound}`],
  },
};

// The imports of one second, each with its part of the second's instants.
const share = (i) => Math.floor((i * rate) / imports);
const chunks = Array.from({ length: imports }, (_, i) => new Chunk(evenly(share(i + 1) - share(i), share(i), rate)));

export function setup() {
  const before = begin();
  return { name: makeRunName(), before, first: (Math.ceil(Date.now() / 1000) + ahead) * 1000 };
}

export default whole(({ name, first }) => {
  const i = exec.scenario.iterationInTest;
  const chunk = chunks[i % imports];
  const due = new Date(first + Math.floor(i / imports) * 1000);
  importLines(chunk.text(due, `${name}/${i}`), chunk.length);
  check(due, { 'imported before its second': (d) => Date.now() < d.getTime() });
});

export function teardown({ before, first }) {
  conclude(before, new Date(first + duration * 1000));
}
