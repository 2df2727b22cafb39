// Errors as the API answers them (RFC 9457), and those of the way to it.

/** One thing that is wrong with a request, and where: "body.schedule.cron". */
export interface Fault {
  location: string;
  message: string;
  value?: unknown;
}

export class Problem extends Error {
  override readonly name = 'Problem';

  constructor(
    /** The status of the answer; 0: there was none. */
    readonly status: number,
    /** The last part of its type: "invalid", "not-found", "unavailable", "unreachable", … */
    readonly kind: string,
    readonly title: string,
    readonly detail: string = '',
    readonly faults: readonly Fault[] = [],
    /** When to try again, in ms; undefined: it was not said. */
    readonly retryAfter?: number,
    /** Of 401: browsers can log in at a provider. */
    readonly provider: boolean = false,
  ) {
    super(detail === '' ? title : `${title}: ${detail}`);
  }

  /** What is wrong, in one sentence or two. */
  get sentence(): string {
    const words = [this.title, this.detail].filter((part) => part !== '');
    if (this.faults.length > 0) {
      words.push(this.faults.map((f) => `${f.location}: ${f.message}`).join('; '));
    }
    return words.map((part) => (/[.!?]$/.test(part) ? part : part + '.')).join(' ');
  }

  /** Nothing is served there: the node is of an older version, or keeps nothing of the kind. */
  get notOffered(): boolean {
    return this.status === 405 || this.status === 501 || (this.status === 404 && !this.notFound);
  }

  /** There is no such job, run or task: never was, not any more, or of another tenant. */
  get notFound(): boolean {
    return this.status === 404 && this.kind !== '' && !this.detail.startsWith('Nothing is served');
  }

  /** The caller may not do this. */
  get forbidden(): boolean {
    return this.status === 403;
  }

  /** It may be different in a moment. A list that begins anew has a cursor of the node that answers then. */
  get passing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 502 || this.staleCursor;
  }

  /** The cursor of a list is not good any more: the list begins anew. */
  get staleCursor(): boolean {
    return this.status === 422 && this.faults.some((f) => f.location === 'query.cursor');
  }
}

const prefix = 'urn:carillon:problem:';

interface Answered {
  type?: unknown;
  title?: unknown;
  detail?: unknown;
  errors?: unknown;
  log_in?: unknown;
}

function isFault(value: unknown): value is Fault {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as Fault).location === 'string' &&
    typeof (value as Fault).message === 'string'
  );
}

/** Makes a Problem of an answer that is no success. A proxy's may be of any form. */
export function problemOf(response: Response, body: unknown): Problem {
  const said: Answered = typeof body === 'object' && body !== null ? body : {};
  const type = typeof said.type === 'string' ? said.type : '';
  const after = Number(response.headers.get('Retry-After') ?? '');
  return new Problem(
    response.status,
    type.startsWith(prefix) ? type.slice(prefix.length) : '',
    typeof said.title === 'string' ? said.title : `The answer was ${response.status} ${response.statusText}`.trim(),
    typeof said.detail === 'string' ? said.detail : '',
    Array.isArray(said.errors) ? said.errors.filter(isFault) : [],
    after > 0 ? after * 1000 : undefined,
    typeof said.log_in === 'string',
  );
}

/** Makes a Problem of whatever was thrown. */
export function asProblem(thrown: unknown): Problem {
  if (thrown instanceof Problem) {
    return thrown;
  }
  if (thrown instanceof TypeError || thrown instanceof DOMException) {
    return new Problem(0, 'unreachable', 'The answer of the node broke off', thrown.message);
  }
  return new Problem(
    0,
    'page',
    'Something went wrong in this page',
    thrown instanceof Error ? thrown.message : String(thrown),
  );
}

/** Reports whether whatever was thrown only says that nobody waits for the answer any more. */
export function isAbort(thrown: unknown): boolean {
  return thrown instanceof DOMException && thrown.name === 'AbortError';
}

/**
 * The messages of the faults that belong to a field: those at its location, and below it where
 * `below` says so ("body.labels" has those of "body.labels.team").
 */
export function faultsAt(problem: Problem | undefined, location: string, below = true): Fault[] {
  if (!problem) {
    return [];
  }
  return problem.faults.filter(
    (f) =>
      f.location === location ||
      (below && (f.location.startsWith(location + '.') || f.location.startsWith(location + '['))),
  );
}

/** The problem as a part of the body has it that stands at a location: there it is "body". */
export function problemBelow(problem: Problem, at: string): Problem {
  const faults = problem.faults
    .filter((f) => f.location.startsWith(at) && /^([.[]|$)/.test(f.location.slice(at.length)))
    .map((f) => ({ ...f, location: `body${f.location.slice(at.length)}` }));
  return new Problem(problem.status, problem.kind, problem.title, problem.detail, faults, problem.retryAfter);
}
