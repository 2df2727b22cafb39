// How the API writes times, durations, and references in workflows.

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const part = /([0-9]+(?:\.[0-9]*)?)(ns|us|µs|ms|s|m|h)/g;

/** Reads a duration of an answer, such as "1m30s": milliseconds. */
export function span(text: string): number {
  const negative = text.startsWith("-");
  const rest = negative ? text.slice(1) : text;
  if (rest === "0") return 0;
  if (rest === "" || rest.replace(part, "") !== "") throw new RangeError(`${JSON.stringify(text)} is no duration`);
  let total = 0;
  for (const [, number, unit] of rest.matchAll(part)) total += Number(number) * units[unit!]!;
  return negative ? -total : total;
}

/** Writes milliseconds as a duration of a request. */
export function writeSpan(ms: number): string {
  if (!Number.isFinite(ms)) throw new RangeError(`${ms} is no duration`);
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

/** In the payload of a step: the output of a step before it, or the part at a JSON pointer. */
export const output = (step: string, pointer = ""): object => (pointer === "" ? { $from: step } : { $from: step, pointer });

/** In the payload of a step: what the workflow run was given, or a part of it. */
export const input = (pointer = ""): object => ({ $input: pointer });

/** In the payload of a step with for_each: its item, or a part of it. */
export const item = (pointer = ""): object => ({ $item: pointer });

/** In the payload of a step: a fact of the run. */
export const runFact = (pointer: "/id" | "/nominal_at"): object => ({ $run: pointer });
