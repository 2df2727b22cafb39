// Everything at once: JOBS jobs due at the first instant of a minute, as if everybody had written `0 * * * *`. They are
// imported before; in the spike profile single creations go on beside, in the soak profile there is a herd every minute.

import { check } from 'k6';
import exec from 'k6/execution';
import { Trend } from 'k6/metrics';

import { create, importLines, list, whole } from './lib/api.js';
import { begin, conclude } from './lib/cluster.js';
import { after, between, Chunk, jobAt, makeRunName } from './lib/jobs.js';
import { exact, herd, patience } from './lib/profiles.js';

const { jobs, minutes, beside, last } = herd();
const lines = Math.min(1000, jobs);
const importsOfAMinute = Math.ceil(jobs / lines);
const importRate = 5000; // lines a second that the slowest cluster of interest takes in
const lead = 10000 + (1000 * jobs * minutes) / importRate; // ms from the start to the first herd, at least
const listedUpTo = 20000; // runs; a larger herd is not listed afterwards
const besideHorizon = 30 * 1000; // ms
const minute = 60 * 1000;

const lateness = new Trend('herd_lateness_ms'); // of each listed run, exactly, as the API tells it

export const options = {
  ...patience,
  scenarios: {
    imports: {
      executor: 'shared-iterations', vus: Math.min(4, importsOfAMinute * minutes), iterations: importsOfAMinute * minutes,
      maxDuration: '10m', exec: 'importSome',
    },
    ...(beside > 0 && {
      beside: {
        executor: 'constant-arrival-rate', rate: beside, preAllocatedVUs: 50, maxVUs: 200, exec: 'createOne',
        duration: `${Math.ceil((lead + minutes * minute + minute) / 1000)}s`,
      },
    }),
  },
  thresholds: {
    ...exact({ import: [4000, 8000], ...(beside > 0 && { create: [1000, 2000] }) }),
    import_lines_failed: ['count==0'],
    lateness_max_ms: [`value<=${last}`],
    ...(jobs <= listedUpTo && { herd_lateness_ms: [`max<=${last}`] }),
  },
};

const full = new Chunk(new Array(lines).fill(0));
const rest = new Chunk(new Array(jobs - (importsOfAMinute - 1) * lines).fill(0));

export function setup() {
  const before = begin();
  const first = Math.ceil((Date.now() + lead) / minute) * minute;
  return { name: makeRunName(), before, first };
}

export const importSome = whole(({ name, first }) => {
  const i = exec.scenario.iterationInTest;
  const [nth, part] = [Math.floor(i / importsOfAMinute), i % importsOfAMinute];
  const chunk = part === importsOfAMinute - 1 ? rest : full;
  const due = new Date(first + nth * minute);
  importLines(chunk.text(due, `${name}/${nth}/${part}`), chunk.length);
  check(due, { 'imported before it was due': (d) => Date.now() < d.getTime() });
});

export const createOne = whole(({ name }) => {
  create(jobAt(after(between(0, besideHorizon)), `${name}/beside`));
});

export function teardown({ name, before, first }) {
  const end = first + (minutes - 1) * minute;
  conclude(before, new Date(beside > 0 ? Math.max(end, Date.now() + besideHorizon) : end));
  if (jobs > listedUpTo) return;
  for (let nth = 0; nth < minutes; nth++) {
    const at = first + nth * minute;
    const runs = list(new Date(at), new Date(at + 1), { limit: 500 });
    if (!runs) continue; // counted as an error
    const ours = runs.filter((run) => run.payload && String(run.payload.ref).startsWith(`${name}/${nth}/`));
    check(ours, {
      'listed: the whole herd': (runs) => runs.length === jobs,
      'listed: every run has succeeded': (runs) => runs.every((run) => run.state === 'succeeded'),
    });
    for (const run of ours) lateness.add(run.lateness_ms);
  }
}
