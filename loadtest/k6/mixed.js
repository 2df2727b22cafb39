// What callers do beside creating: reads, lists of a window, cancels and reschedules, in the proportions below, each
// judged by what the API promises about the answer. One iteration is one of them; 100 a second are average.

import { check, sleep } from 'k6';

import { cancel, create, list, read, reschedule, whole } from './lib/api.js';
import { begin, conclude } from './lib/cluster.js';
import { after, between, jobAt, makeRunName } from './lib/jobs.js';
import { patience, scenario, thresholds } from './lib/profiles.js';

const rate = 100;
const soonest = 10 * 1000; // ms; long enough for a job to be changed before it starts
const horizon = 40 * 1000; // ms
const listed = 10 * 1000; // ms of due time in a listed window
const listedAtOnce = 10 * 60 * 1000; // ms of due time, when all runs are listed at the end
const keptOfAVU = 100; // ids

export const options = {
  ...patience,
  scenarios: { mixed: scenario(rate, 200) },
  thresholds: thresholds(rate, {
    create: [100, 250],
    'create keyed': [200, 500],
    'read jobs': [100, 250],
    'read runs': [100, 250],
    list: [500, 1000],
    cancel: [200, 500],
    reschedule: [200, 500],
  }),
};

// What this VU has made and not cancelled, oldest first: {id, at}.
const mine = [];

// anyOfMine returns one of them at random, once there is one.
function anyOfMine() {
  return mine[Math.floor(Math.random() * mine.length)];
}

// Each action takes the name of the run. The shares add up to 1.
const actions = [
  { share: 0.4, act: createOne },
  { share: 0.05, act: createKeyed },
  { share: 0.25, act: readOne },
  { share: 0.1, act: listWindow },
  { share: 0.1, act: cancelOne },
  { share: 0.1, act: rescheduleOne },
];

export function setup() {
  return { name: makeRunName(), before: begin(), from: Date.now() };
}

export default whole(({ name }) => {
  let left = Math.random();
  for (const { share, act } of actions) {
    left -= share;
    if (left < 0) {
      act(name);
      return;
    }
  }
});

export function teardown({ name, before, from }) {
  const due = after(horizon);
  while (new Date() < due) sleep(1); // until then some runs are open for good reason
  conclude(before, due, () => openRuns(name, from, due.getTime()));
}

// openRuns lists all runs of the test, whose jobs were due from one time to another, and returns how many have neither
// succeeded nor been cancelled.
function openRuns(name, from, to) {
  let open = 0;
  for (let at = from; at <= to; at += listedAtOnce) {
    const runs = list(new Date(at), new Date(Math.min(at + listedAtOnce, to + 1)), { limit: 500 });
    if (!runs) return Infinity;
    const ours = runs.filter((run) => run.payload && run.payload.ref === name);
    open += ours.filter((run) => run.state !== 'succeeded' && run.state !== 'cancelled').length;
  }
  return open;
}

function keep(job) {
  mine.push({ id: job.id, at: new Date(job.schedule.at) });
  if (mine.length > keptOfAVU) mine.shift();
}

function createOne(name) {
  const { job } = create(jobAt(after(between(soonest, horizon)), name));
  if (job) keep(job);
}

// createKeyed sends a keyed job twice. The second answer must be about the same job, and say so.
function createKeyed(name) {
  const request = jobAt(after(between(soonest, horizon)), name);
  const how = { op: 'create keyed', key: `${name}-${__VU}-${__ITER}` };
  const first = create(request, how);
  if (!first.job) return;
  keep(first.job);
  const second = create(request, how);
  if (!second.job) return;
  check(second, {
    'created again: the same job': (r) => r.job.id === first.job.id,
    'created again: said to be replayed': (r) => r.replayed,
  });
}

function readOne(name) {
  const one = anyOfMine();
  if (!one) return createOne(name);
  const { fine, res } = read(Math.random() < 0.5 ? 'jobs' : 'runs', one.id);
  if (fine) check(res.json(), { 'read: what was asked for': (body) => body.id === one.id });
}

// listWindow lists some seconds of what is due, and looks at the order.
function listWindow() {
  const from = after(between(-listed, horizon - listed));
  const to = new Date(from.getTime() + listed);
  const runs = list(from, to, { maxPages: 3 });
  if (!runs) return;
  const dues = runs.map((run) => run.due_at);
  check(dues, {
    'listed: only what is due in the window': (d) => d.every((due) => due >= from.toISOString() && due < to.toISOString()),
    'listed: in order of due time': (d) => d.every((due, i) => i === 0 || d[i - 1] <= due),
  });
}

function cancelOne(name) {
  if (mine.length === 0) return createOne(name);
  const one = mine.splice(Math.floor(Math.random() * mine.length), 1)[0];
  if (cancel(one.id).status !== 200) return;
  const { fine, res } = read('runs', one.id);
  // What was under way when it was cancelled may still succeed; what was not due yet may not.
  if (fine && one.at > after(2000)) check(res.json(), { 'cancelled: the run says so': (run) => run.state === 'cancelled' });
}

function rescheduleOne(name) {
  const one = anyOfMine();
  if (!one) return createOne(name);
  const at = after(between(soonest, horizon));
  const { status, res } = reschedule(one.id, at);
  if (status !== 200) return;
  one.at = at;
  check(res.json(), { 'rescheduled: due when it was asked for': (body) => body.schedule.at === at.toISOString() });
}
