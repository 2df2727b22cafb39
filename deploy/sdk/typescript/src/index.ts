// Carillon for TypeScript: a client of its API; workers are in carillon-client/worker, signatures of webhooks in
// carillon-client/webhooks, a test kit in carillon-client/testing.

export * from "./client.js";
export { APIError, ImportCut, Unreachable, type Fault, type Problem } from "./errors.js";
export { Imports, type ImportOptions, type ImportReport, type ImportResult } from "./imports.js";
export { defineJob, PayloadError, type JobRequest, type JobType } from "./jobs.js";
export type { components, operations, paths } from "./schema.js";
export { input, item, output, runFact, span, writeSpan } from "./values.js";
