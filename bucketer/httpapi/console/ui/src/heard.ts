// What came of an event: who heard it, out of what the API tells of runs and their steps. Pure.

import { count } from './words';

interface WaitingStep {
  wait?: { event?: string | undefined; for?: string | undefined } | undefined;
}

/** The workflows of which a step waits for an event of that name. */
export function waitersFor<T extends { steps?: readonly WaitingStep[] | null | undefined }>(workflows: readonly T[], event: string): T[] {
  return workflows.filter((w) => (w.steps ?? []).some((s) => s.wait?.event === event));
}

export interface HeardStep {
  run: string;
  workflow: string;
  step: string;
  /** How the run stands that went on. */
  state: string;
}

interface RunWithSteps {
  id: string;
  workflow?: string | undefined;
  state: string;
  steps?: readonly { name: string; event?: { id: string } | undefined }[] | null | undefined;
}

/** The steps of runs whose wait an event ended. */
export function stepsThatHeard(runs: readonly RunWithSteps[], event: string): HeardStep[] {
  return runs.flatMap((run) =>
    (run.steps ?? [])
      .filter((s) => s.event?.id === event)
      .map((s) => ({ run: run.id, workflow: run.workflow ?? '', step: s.name, state: run.state })),
  );
}

/** What came of an event in a sentence: "It started 2 runs: 1 succeeded, 1 running. 1 step went on by it." */
export function outcomeWords(started: readonly { state: string }[], more: boolean, steps: number | undefined): string {
  const states = new Map<string, number>();
  for (const { state } of started) {
    states.set(state, (states.get(state) ?? 0) + 1);
  }
  const told = [...states].sort((a, b) => b[1] - a[1]).map(([state, n]) => `${n} ${state}`);
  const runs =
    started.length === 0
      ? 'It started no run.'
      : `It started ${count(started.length, 'run')}${more ? ' or more' : ''}: ${told.join(', ')}.`;
  return steps === undefined ? runs : `${runs} ${steps === 0 ? 'No step' : count(steps, 'step')} went on by it.`;
}
