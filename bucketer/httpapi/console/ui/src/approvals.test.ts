import { expect, it } from 'vitest';
import { waitingSteps } from './approvals';

it('tells of steps by how long they have waited, with workflow, run and event', () => {
  const step = (run: string, since: string, workflow?: string) => ({ workflow_run_id: run, workflow, step: 'approve', since });
  const got = waitingSteps(
    ['approved', 'paid'],
    [
      { steps: [step('b', '2026-01-01T10:00:00.000Z', 'release'), step('c', '2026-01-01T11:00:00.000Z', 'release')] },
      { steps: [step('a', '2026-01-01T09:00:00.000Z')] },
    ],
  );
  expect(got.map((s) => [s.run, s.workflow, s.event])).toEqual([
    ['a', '', 'paid'],
    ['b', 'release', 'approved'],
    ['c', 'release', 'approved'],
  ]);
});

it('takes an answer that did not come as none', () => {
  expect(waitingSteps(['approved'], [])).toEqual([]);
});
