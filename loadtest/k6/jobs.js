// Single creations: POST /v1/jobs, each job due within the next half minute, so that intake and runs load the cluster
// together, as they do in life. One iteration is one job; 200 a second are average.

import { create, whole } from './lib/api.js';
import { begin, conclude } from './lib/cluster.js';
import { after, between, jobAt, makeRunName } from './lib/jobs.js';
import { patience, scenario, thresholds } from './lib/profiles.js';

const rate = 200;
const horizon = 30 * 1000; // ms

export const options = {
  ...patience,
  scenarios: { jobs: scenario(rate, 200) },
  thresholds: thresholds(rate, { create: [100, 250] }),
};

export function setup() {
  return { name: makeRunName(), before: begin() };
}

export default whole(({ name }) => {
  create(jobAt(after(between(0, horizon)), name));
});

export function teardown({ before }) {
  conclude(before, after(horizon));
}
