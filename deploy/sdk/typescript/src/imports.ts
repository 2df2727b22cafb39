// Imports: many jobs, one a line.
//
// Each line has an idempotency key: the caller's ("key"), or one that is drawn. So an import whose answer was cut is sent
// again as it is. Lines go in batches; what was refused for now is sent again with the next try.

import { randomUUID } from "node:crypto";

import { pause, type Client } from "./client.js";
import { APIError, ImportCut, type Problem } from "./errors.js";
import type { JobRequest } from "./jobs.js";
import type { components } from "./schema.js";

export type ImportResult = components["schemas"]["ImportResult"];

const batchLines = 1000;

/** What became of an import. */
export interface ImportReport {
  created: number;
  /** Their keys were known, with the same body. */
  existing: number;
  failed: ImportResult[];
}

export interface ImportOptions {
  /** Checks, and writes nothing: what is valid counts as existing. */
  validateOnly?: boolean;
}

export class Imports {
  constructor(private readonly c: Client) {}

  /** Creates jobs, and reports how many there are, and what failed. */
  async run(jobs: Iterable<JobRequest> | AsyncIterable<JobRequest>, options: ImportOptions = {}): Promise<ImportReport> {
    const report: ImportReport = { created: 0, existing: 0, failed: [] };
    for await (const result of this.create(jobs, options)) {
      if (result.error) report.failed.push(result);
      else if (result.status === 201) report.created++;
      else report.existing++;
    }
    return report;
  }

  /** Creates jobs, and yields what became of each, in any order within a batch; `line` is its number, from 1. A line that
   * fails has `error`, and does not stop the others. */
  async *create(jobs: Iterable<JobRequest> | AsyncIterable<JobRequest>, options: ImportOptions = {}): AsyncGenerator<ImportResult, void, undefined> {
    let batch = new Map<number, string>();
    let number = 0;
    for await (const job of jobs) {
      batch.set(++number, JSON.stringify({ ...job, key: job.key ?? randomUUID() }));
      if (batch.size === batchLines) {
        yield* this.#batch(batch, options);
        batch = new Map();
      }
    }
    if (batch.size > 0) yield* this.#batch(batch, options);
  }

  async *#batch(left: Map<number, string>, options: ImportOptions): AsyncGenerator<ImportResult, void, undefined> {
    for (let attempt = 0; ; attempt++) {
      const numbers = [...left.keys()];
      const last = attempt >= this.c.retries;
      let cut: ImportCut | undefined;
      for (const said of await this.#ask([...left.values()].join("\n") + "\n", options)) {
        if (said instanceof ImportCut) {
          cut = said;
          break;
        }
        const result = { ...said, line: numbers[said.line - 1]! };
        if (last || !result.error || !new APIError(result.status, result.error).temporary) {
          left.delete(result.line);
          yield result;
        }
      }
      if (left.size === 0) return;
      if (last) throw cut ?? new ImportCut(`${left.size} lines of an import were not answered`);
      await this.c.sleep(pause(attempt, 0));
    }
  }

  /** Returns the answers to lines; the last says so if it was cut. */
  async #ask(body: string, options: ImportOptions): Promise<(ImportResult | ImportCut)[]> {
    const { response } = await this.c.api.POST("/v1/imports", {
      params: { query: options.validateOnly ? { validate_only: true } : {}, header: { "Content-Type": "application/x-ndjson" } },
      headers: { "Content-Type": "application/x-ndjson" },
      body: body as never,
      bodySerializer: (text: unknown) => text as string,
      parseAs: "stream",
    });
    const answers: (ImportResult | ImportCut)[] = [];
    const text = await response.text().catch(() => "");
    for (const line of text.split("\n")) {
      if (line === "") continue;
      let said: ImportResult & { summary?: object; error?: Problem };
      try {
        said = JSON.parse(line) as typeof said;
      } catch {
        return [...answers, new ImportCut("the answer to an import ends within a line")];
      }
      if (said.summary) return answers;
      if (said.line === undefined) return [...answers, new ImportCut(new APIError(said.error?.status ?? 0, said.error ?? {}).message)];
      answers.push(said);
    }
    return [...answers, new ImportCut("the answer to an import has no summary")];
  }
}
