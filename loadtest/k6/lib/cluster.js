// What the nodes say about themselves: /metrics of all, added up, before and after. From the difference comes the
// verdict on the runs: all started, none early, and how late. Nothing else may run on the cluster meanwhile.
//
// It trusts the nodes' own count, in which a run that was started twice may stand for one that never was. Who trusts
// nobody takes `carillon-load check`, which follows each job by its id.

import http from 'k6/http';
import { sleep } from 'k6';
import { Counter, Gauge } from 'k6/metrics';

import { nodes, seconds, sink } from './env.js';

const verdicts = new Counter('verdicts'); // 1 at the end, if all the following could be said
const started = new Gauge('runs_started'); // first attempts
const missing = new Gauge('runs_missing'); // acknowledged and not started, or not ended
const early = new Gauge('runs_early');
const failed = new Gauge('runs_failed'); // attempts that did not succeed
const arrived = new Gauge('sink_arrivals'); // calls at the sink; more than runs_started are repeated ones
const p50 = new Gauge('lateness_p50_ms');
const p99 = new Gauge('lateness_p99_ms');
const p999 = new Gauge('lateness_p999_ms');
const worst = new Gauge('lateness_max_ms');

// quietFor is how long no run may have started for the cluster to be at rest, in seconds; quietWithin is how long setup
// waits for that; drain is how long teardown waits for what is overdue.
const quietFor = 3;
const quietWithin = 150;
const drain = seconds('DRAIN', 60);

const unlimited = 1e9; // stands for what is beyond the last bucket, in ms

const tags = { tags: { op: 'observe', name: 'observe' } };

// scrape adds up the counters of all nodes.
function scrape() {
  const sum = { accepted: 0, started: 0, early: 0, failed: 0, executors: 0, buckets: {}, arrived: 0 };
  for (const node of nodes) {
    const res = http.get(`${node}/metrics`, tags);
    if (res.status !== 200) throw new Error(`${node}/metrics: ${res.status || res.error}`);
    for (const line of String(res.body).split('\n')) {
      if (line.startsWith('carillon_')) add(sum, line);
    }
  }
  if (sum.executors === 0) throw new Error(`no node of ${nodes} has the metrics of an executor`);
  if (sink) sum.arrived = http.get(`${sink}/stats`, tags).json('seen');
  return sum;
}

// add adds one sample, a line such as name{label="value"} 17, to what it counts for.
function add(sum, line) {
  const [, name, labels = '', text] = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line) || [];
  const value = Number(text);
  const has = (label, wanted) => labels.includes(`${label}="${wanted}"`);
  switch (name) {
    case 'carillon_http_requests_total':
      if (has('route', '/v1/jobs') && has('method', 'POST') && has('status', 201)) sum.accepted += value;
      break;
    case 'carillon_import_lines_total':
      if (has('status', 201)) sum.accepted += value;
      break;
    case 'carillon_executor_early_total':
      sum.early += value;
      break;
    case 'carillon_executor_attempts_total':
      if (!has('outcome', 'succeeded') && !has('outcome', 'cancelled')) sum.failed += value;
      break;
    case 'carillon_executor_lateness_seconds_count':
      sum.started += value;
      sum.executors++;
      break;
    case 'carillon_executor_lateness_seconds_bucket': {
      const edge = /le="([^"]+)"/.exec(labels)[1];
      sum.buckets[edge] = (sum.buckets[edge] || 0) + value;
      break;
    }
  }
}

// begin waits until every node is ready and no run starts any more, and returns the counters.
export function begin() {
  const deadline = Date.now() + quietWithin * 1000;
  while (!nodes.every((node) => http.get(`${node}/readyz`, tags).status === 200)) {
    if (Date.now() > deadline) throw new Error('not every node is ready');
    sleep(1);
  }
  let now = scrape();
  for (let quiet = 0; quiet < quietFor; quiet++) {
    if (Date.now() > deadline) throw new Error('other runs go on starting on this cluster');
    sleep(1);
    const next = scrape();
    if (next.started !== now.started) quiet = -1;
    now = next;
  }
  return now;
}

// conclude waits until no run is open, at the latest `drain` after the date `due`, at which the last is due, and gives the
// verdict. open returns how many runs are open; by default, how many more were answered 201 than have started.
export function conclude(before, due, open = null) {
  const deadline = due.getTime() + drain * 1000;
  const unstarted = () => {
    const now = scrape();
    return Math.max(0, now.accepted - before.accepted - (now.started - before.started));
  };
  const count = open || unstarted;
  let left = count();
  while (left > 0 && Date.now() < deadline) {
    sleep(1);
    left = count();
  }
  sleep(1); // the last ones are under way
  const now = scrape();

  const starts = now.started - before.started;
  const edges = Object.keys(now.buckets)
    .map((edge) => ({
      ms: edge === '+Inf' ? unlimited : Number(edge) * 1000,
      count: now.buckets[edge] - (before.buckets[edge] || 0),
    }))
    .sort((a, b) => a.ms - b.ms);
  if (starts < 0 || edges.some((edge) => edge.count < 0)) throw new Error('a node was started anew: its counts are lost');
  if (starts === 0) throw new Error('no run has started');
  // The upper edge of the bucket in which the share is reached: never less than the true quantile.
  const quantile = (share) => edges.find((edge) => edge.count >= share * starts).ms;

  started.add(starts);
  missing.add(left);
  early.add(now.early - before.early);
  failed.add(now.failed - before.failed);
  if (sink) arrived.add(now.arrived - before.arrived);
  p50.add(quantile(0.5));
  p99.add(quantile(0.99));
  p999.add(quantile(0.999));
  worst.add(quantile(1));
  verdicts.add(1);
}
