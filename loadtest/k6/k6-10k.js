// The promise: RATE runs fall due every second, for DURATION, and start on time. Jobs are imported AHEAD (30 s) of their
// second at the same constant rate, so intake and dispatch both carry RATE all the time; each run is an HTTP call to the
// sink. It fails if p99 of the lateness is above 1 s (P99_MS), if any run is missing, early or failed, if any call or
// line fails or is refused, or if the generator itself falls behind.
//
//   PROFILE=full   RATE 10,000, the default. It needs, beside Carillon's own machines, cores that are free for the load:
//                  a run costs about 0.3 ms of CPU all told (intake 80 µs, dispatch and call 110 µs, Cassandra 70 µs, NATS 30 µs,
//                  sink and k6 the rest), so 10,000/s with intake going on want 3 to 4 cores at 100 %. Take 8 cores on
//                  one machine, or 2 for each of Cassandra, NATS with the dispatchers, executors, and k6 with the sink.
//   PROFILE=2core  RATE 2,000: what two cores carry that hold Cassandra, NATS, all of Carillon, k6 and the sink, with
//                  about a third of the machine to spare. Lateness means something only while there is some to spare:
//                  at full load it is the length of the queue for the CPU.
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
