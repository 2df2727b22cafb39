import type { components } from "./schema.js";

export type JobRequest = components["schemas"]["JobRequest"];

/** A payload is not of its type. A worker answers it as a final failure: it will be no other at the next attempt. */
export class PayloadError extends Error {
  override readonly name = "PayloadError";
}

/** A task together with the type of its payload, so that who creates a job and who runs it agree. */
export interface JobType<P> {
  readonly task: string;
  /** That of its calls, if a worker runs them; the task must be put with {nats: {subject}} once. */
  readonly subject: string;
  /** Returns a job of the task. */
  job(payload: P, more?: Omit<JobRequest, "task" | "payload"> & { at?: Date }): JobRequest;
  /** Makes a payload of what JSON holds, or throws PayloadError. */
  read(value: unknown): P;
}

/** Defines a JobType. `read` checks a payload, and throws if it is not of the type: types are gone at run time, so
 * without it a payload is believed. */
export function defineJob<P>(task: string, options: { subject?: string; read?: (value: unknown) => P } = {}): JobType<P> {
  return {
    task,
    subject: options.subject ?? "",
    job(payload, more = {}) {
      const { at, ...rest } = more;
      const job: JobRequest = { ...rest, task, payload };
      if (at) job.schedule = { at: at.toISOString() };
      return job;
    },
    read(value) {
      try {
        return options.read ? options.read(value) : (value as P);
      } catch (e) {
        throw new PayloadError(`payload of ${task}: ${e instanceof Error ? e.message : String(e)}`, { cause: e });
      }
    },
  };
}
