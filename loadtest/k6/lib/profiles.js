// The profiles: how much load, in which shape, and what is asked of Carillon under it. Every script has one figure, its
// rate of iterations under average load, and takes the rest from here.
//
// All shapes are open: an iteration starts when it is time for it, whether or not earlier ones have been answered. A
// closed loop would wait for a slow system, and so ask less of it exactly when it should show what it does.

import { number, seconds } from './env.js';

// A shape has stages [seconds, target as a multiple of the rate], entered from `from`, and its bounds:
//
//   slack         factor on the bounds of latency
//   errors        share of calls that may fail. Not 0 under overload only: 503 is the right answer of a node that
//                 cannot promise durability
//   backPressure  share of calls that may be answered 429
//   dropped       share of iterations that may not be started on time, because maxVUs of them are under way
//   lateness      p99 of the lateness of runs, in ms, as the nodes measure it
const shapes = {
  // Does it work at all? Bounds are wide: first calls are slow.
  smoke: { from: 0.1, stages: [[10, 0.1]], slack: 5, errors: 0, backPressure: 0, dropped: 0.05, lateness: 1000 },
  // What a normal hour looks like.
  average: { from: 0, stages: [[10, 1], [50, 1]], slack: 1, errors: 0, backPressure: 0, dropped: 0.01, lateness: 1000 },
  // Up to four times as much, in steps. Refusing is right, failing is not.
  stress: {
    from: 0, stages: [[10, 1], [50, 1], [10, 2], [50, 2], [10, 3], [50, 3], [10, 4], [50, 4], [10, 0]],
    slack: 20, errors: 0.01, backPressure: 0.5, dropped: 0.5, lateness: 60000,
  },
  // Ten times as much from one moment to the next, and then quiet again.
  spike: {
    from: 0.5, stages: [[20, 0.5], [2, 5], [20, 5], [2, 0.5], [40, 0.5]],
    slack: 20, errors: 0.01, backPressure: 0.5, dropped: 0.5, lateness: 60000,
  },
  // For hours: does anything grow?
  soak: { from: 0, stages: [[30, 0.7], ['DURATION', 0.7]], slack: 1, errors: 0.0001, backPressure: 0.001, dropped: 0.01, lateness: 1000 },
};

// A herd is so many jobs due at the same instant, the first of a minute, for so many minutes in a row, beside so many
// single creations a second; with bounds on the last start after the instant, in ms.
const herds = {
  smoke: { jobs: 500, minutes: 1, beside: 0, last: 2000 },
  average: { jobs: 10000, minutes: 1, beside: 0, last: 5000 },
  stress: { jobs: 100000, minutes: 1, beside: 0, last: 10000 },
  spike: { jobs: 20000, minutes: 1, beside: 50, last: 10000 },
  soak: { jobs: 5000, minutes: 60, beside: 20, last: 5000 },
};

export const profile = __ENV.PROFILE || 'smoke';

// pick returns what a table has for the profile.
export function pick(table) {
  if (!(profile in table)) throw new Error(`PROFILE=${profile}: not one of ${Object.keys(table).join(', ')}`);
  return table[profile];
}

function stagesOf(shape) {
  return shape.stages.map(([length, target]) => [length === 'DURATION' ? seconds('DURATION', 3600) : length, target]);
}

// planned returns how many iterations a scenario of this rate starts, if none is dropped.
function planned(rate) {
  const shape = pick(shapes);
  let [count, before] = [0, shape.from];
  for (const [length, target] of stagesOf(shape)) {
    count += (rate * length * (before + target)) / 2;
    before = target;
  }
  return count;
}

// scenario is the scenario of a script that makes `rate` iterations a second under average load (RATE overrides it),
// of which at most maxVUs are under way.
export function scenario(rate, maxVUs) {
  const base = number('RATE', rate);
  const shape = pick(shapes);
  // k6 takes whole iterations for each time unit: ten seconds keep a slow script's 0.1 a second exact.
  const per10s = (multiple) => Math.max(1, Math.round(base * multiple * 10));
  return {
    executor: 'ramping-arrival-rate',
    timeUnit: '10s',
    startRate: per10s(shape.from),
    stages: stagesOf(shape).map(([length, multiple]) => ({ duration: `${length}s`, target: per10s(multiple) })),
    preAllocatedVUs: Math.ceil(maxVUs / 4),
    maxVUs,
    gracefulStop: '60s',
  };
}

// thresholds are those of a script with that rate; ops maps the name of a call to its bounds [p95, p99] in ms under
// average load. Refused calls are quick, and left out of the latency.
export function thresholds(rate, ops) {
  const shape = pick(shapes);
  const dropped = Math.floor(planned(number('RATE', rate)) * shape.dropped);
  return {
    ...common(ops, shape),
    dropped_iterations: [`count<=${dropped}`],
    lateness_p99_ms: [`value<=${number('P99_MS', shape.lateness)}`],
  };
}

// common are the thresholds that every script has.
function common(ops, { errors, backPressure, slack }) {
  const all = {
    checks: ['rate==1'],
    errors: [{ threshold: `rate<=${errors}`, abortOnFail: profile === 'soak', delayAbortEval: '1m' }],
    back_pressure: [`rate<=${backPressure}`],
    // Of a metric that nobody fed k6 says that it is within bounds; the verdict says that they were fed.
    verdicts: ['count==1'],
    jobs_accepted: ['count>=1'],
    iterations_broken: ['count==0'],
    runs_early: ['value==0'],
    runs_missing: ['value==0'],
    runs_failed: ['value==0'],
  };
  for (const [op, [p95, p99]] of Object.entries(ops)) {
    all[`http_req_duration{op:${op},expected_response:true}`] = [`p(95)<=${p95 * slack}`, `p(99)<=${p99 * slack}`];
  }
  return all;
}

// exact are the thresholds of a script that plans each job: nothing may fail, nothing may be dropped.
export function exact(ops) {
  return { ...common(ops, { errors: 0, backPressure: 0, slack: 1 }), dropped_iterations: ['count==0'] };
}

// herd is the herd of the profile. JOBS overrides its size, MAX_MS its bound.
export function herd() {
  const h = pick(herds);
  return { ...h, jobs: number('JOBS', h.jobs), last: number('MAX_MS', h.last) };
}

// Times that setup and teardown may take: they wait for a quiet cluster, and for the last run.
export const patience = { setupTimeout: '3m', teardownTimeout: '2h' };
