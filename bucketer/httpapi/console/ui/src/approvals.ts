// Steps that wait for events, out of what the API tells of each event. Pure.

export interface StepThatWaits {
  run: string;
  workflow: string;
  step: string;
  event: string;
  since: string;
}

interface HearersLike {
  steps: readonly { workflow_run_id: string; workflow?: string | undefined; step: string; since: string }[];
}

/** The steps that hear the events, those first that have waited longest; heard[i] is of events[i]. */
export function waitingSteps(events: readonly string[], heard: readonly HearersLike[]): StepThatWaits[] {
  return events
    .flatMap((event, i) =>
      (heard[i]?.steps ?? []).map((s) => ({
        run: s.workflow_run_id,
        workflow: s.workflow ?? '',
        step: s.step,
        event,
        since: s.since,
      })),
    )
    .sort((a, b) => a.since.localeCompare(b.since) || a.run.localeCompare(b.run) || a.step.localeCompare(b.step));
}
