import type { components } from "./schema.js";

export type Problem = components["schemas"]["Problem"];
export type Fault = components["schemas"]["Fault"];

const prefix = "urn:carillon:problem:";

/** An answer of the API that is an error (RFC 9457), with every fault that it found. */
export class APIError extends Error {
  override readonly name = "APIError";
  /** What programs decide by: "invalid", "not-found", "key-reused"; "" where it is not said. */
  readonly kind: string;
  readonly title: string;
  readonly detail: string;
  readonly faults: Fault[];

  constructor(
    /** Of HTTP. */
    readonly status: number,
    problem: Partial<Problem>,
    /** Seconds; 0: not said. */
    readonly retryAfter = 0,
  ) {
    const faults = problem.errors ?? [];
    const told = faults.map((f) => `${f.location ?? ""} ${f.message}`.trim()).join("; ");
    super([`${status} ${problem.title}`, problem.detail, told].filter(Boolean).join(": "));
    this.kind = problem.type?.startsWith(prefix) ? problem.type.slice(prefix.length) : "";
    this.title = problem.title ?? "";
    this.detail = problem.detail ?? "";
    this.faults = faults;
  }

  /** Whether the same request may be answered otherwise in a moment. */
  get temporary(): boolean {
    return [429, 502, 503, 504].includes(this.status);
  }

  /** Reads the answer that an error is, of the API or of what stands before it. */
  static async of(response: Response): Promise<APIError> {
    const text = await response.text().catch(() => "");
    let problem: Partial<Problem> = {};
    try {
      problem = JSON.parse(text) as Partial<Problem>;
    } catch {
      // not of the API
    }
    if (!problem?.title) problem = { title: response.statusText || "error", detail: text.slice(0, 200) };
    const wait = response.headers.get("Retry-After") ?? "";
    return new APIError(response.status, problem, /^[0-9]+$/.test(wait) ? Number(wait) : 0);
  }
}

/** The API could not be reached, or did not answer: nobody knows whether it did what it was asked. With the same
 * idempotency key the request may be sent again. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

/** The answer to an import ended before its summary. Lines with a key may be sent again. */
export class ImportCut extends Error {
  override readonly name = "ImportCut";
}
