// Bulk intake: NDJSON to /v1/imports. One iteration is one import of LINES lines (1,000, and 100 in the smoke profile),
// all due within one second of the next half minute; 4 a second are average. Every tenth is keyed and sent twice: the
// second time each line must be known.

import { check } from 'k6';
import exec from 'k6/execution';

import { importLines, whole } from './lib/api.js';
import { begin, conclude } from './lib/cluster.js';
import { number } from './lib/env.js';
import { after, between, Chunk, evenly, makeRunName } from './lib/jobs.js';
import { patience, profile, scenario, thresholds } from './lib/profiles.js';

const rate = 4;
const lines = number('LINES', profile === 'smoke' ? 100 : 1000);
const keyedEvery = 10;
const soonest = 5 * 1000; // ms
const horizon = 30 * 1000; // ms

export const options = {
  ...patience,
  scenarios: { imports: scenario(rate, 12) }, // a node takes 16 imports at once
  thresholds: {
    ...thresholds(rate, { import: [2000, 4000], resend: [2000, 4000] }),
    import_lines_failed: ['count==0'],
  },
};

const plain = new Chunk(evenly(lines));
const keyed = new Chunk(evenly(lines), { keyed: true });

export function setup() {
  return { name: makeRunName(), before: begin() };
}

export default whole(({ name }) => {
  const i = exec.scenario.iterationInTest;
  const due = after(between(soonest, horizon));
  if (i % keyedEvery !== 0) {
    importLines(plain.text(due, `${name}/${i}`), lines);
    return;
  }
  const text = keyed.text(due, `${name}/${i}`);
  const first = importLines(text, lines);
  const second = first && first.failed === 0 ? importLines(text, lines, 'resend') : null;
  if (second && second.failed === 0) {
    check(second, { 'sent again: every line is known': (s) => s.existing === lines && s.created === 0 });
  }
});

export function teardown({ before }) {
  conclude(before, after(horizon));
}
