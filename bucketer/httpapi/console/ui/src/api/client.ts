// The way to the API: one place that sends, and that notes what each answer says of the node, of its
// clock, and of the person's session.

import { computed, signal } from '@preact/signals';
import type { Client } from 'openapi-fetch';
import { noteHome } from '../homes';
import { place } from '../router';
import { Problem, problemOf } from './problem';
import type { paths } from './schema';

/**
 * The address of the API, without a slash at its end: the page lies at console/ below it, also where a
 * proxy has put both under a path.
 */
export const apiBase = new URL('..', location.href.replace(/[?#].*$/, '')).href.replace(/\/$/, '');

/** An absolute address of the API, for a person to copy. */
export function apiAddress(path: string): string {
  return apiBase + path;
}

/** The tenant that the person has chosen, and "" for that of the key. */
export const chosenTenant = computed(() => place.value.query.get('tenant') ?? '');

/** Set when an answer says that the session is over: session.ts reacts. */
export const signedOut = signal<Problem | undefined>(undefined);

/** What hinders the page at the moment, by path: answers that did not come, and 503s. */
const troubles = signal<ReadonlyMap<string, Trouble>>(new Map());

export interface Trouble {
  problem: Problem;
  since: number;
  last: number;
}

/** A trouble that nobody has met for so long counts no more, in ms. */
const troubleMemory = 60_000;

/** The trouble that began first, if there is one. */
export const trouble = computed<Trouble | undefined>(() => {
  let first: Trouble | undefined;
  for (const one of troubles.value.values()) {
    if (!first || one.since < first.since) {
      first = one;
    }
  }
  return first;
});

function noteTrouble(path: string, problem: Problem): void {
  const at = Date.now();
  const next = new Map([...troubles.peek()].filter(([, t]) => at - t.last < troubleMemory));
  next.set(path, { problem, since: next.get(path)?.since ?? at, last: at });
  troubles.value = next;
}

function noteSuccess(path: string): void {
  const at = Date.now();
  const old = troubles.peek();
  // Once the node answers, that it could not be reached is over for every path.
  const next = new Map(
    [...old].filter(([p, t]) => p !== path && t.problem.status !== 0 && at - t.last < troubleMemory),
  );
  if (next.size !== old.size) {
    troubles.value = next;
  }
}

/** The longest that an answer may take, in ms. */
const patience = 20_000;

/** What a stranger in between (a proxy, a captive portal) may answer instead of the node. */
const strange = new Set([502, 503, 504]);

/** How often a change that has a key is sent before the person is told that it failed. */
const sends = 3;
/** How long to wait before a change is sent again, unless the answer says it, in ms. */
const resendAfter = 1500;

/**
 * Sends a request as fetch does. It adds the tenant, bounds the time, and notes trouble. It throws a
 * Problem if no answer comes. A change with an idempotency key is sent again while the node cannot say
 * that it is durable: it is the same change.
 */
export function send(request: Request): Promise<Response> {
  return sendWithin(request, patience);
}

async function sendWithin(request: Request, ms: number): Promise<Response> {
  if (chosenTenant.peek() !== '' && !request.headers.has('Carillon-Tenant')) {
    request.headers.set('Carillon-Tenant', chosenTenant.peek());
  }
  const tries = request.headers.has('Idempotency-Key') ? sends : 1;
  for (let n = 1; n < tries; n++) {
    let wait = resendAfter;
    try {
      const response = await sendOnce(request.clone(), ms);
      if (!strange.has(response.status)) {
        return response;
      }
      wait = Math.min(Number(response.headers.get('Retry-After') ?? '0') * 1000 || resendAfter, 10_000);
    } catch (thrown) {
      if (request.signal.aborted) {
        throw thrown;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  return sendOnce(request, ms);
}

async function sendOnce(request: Request, ms: number): Promise<Response> {
  const path = new URL(request.url).pathname;
  const late = AbortSignal.timeout(ms);
  let response: Response;
  try {
    response = await fetch(request, { signal: AbortSignal.any([request.signal, late]) });
  } catch (thrown) {
    if (request.signal.aborted) {
      throw thrown;
    }
    const problem = late.aborted
      ? new Problem(0, 'unreachable', 'The node did not answer in time')
      : new Problem(0, 'unreachable', 'The node cannot be reached');
    noteTrouble(path, problem);
    throw problem;
  }
  if (strange.has(response.status)) {
    noteTrouble(path, problemOf(response, await bodyOf(response.clone())));
  } else {
    noteSuccess(path);
  }
  return response;
}

/** The JSON of an answer; undefined if it is none. It throws if the answer breaks off. */
async function bodyOf(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const methods = ['GET', 'PUT', 'POST', 'PATCH', 'DELETE'] as const;

/** What the document says may be asked. Only its types are openapi-fetch's. */
type Api = Pick<Client<paths>, (typeof methods)[number]>;

/** What stands in a typed request. */
interface TypedRequest {
  params?: {
    path?: Record<string, string | number>;
    query?: PlainRequest['query'];
    header?: Record<string, string>;
  };
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

async function asked(
  method: string,
  path: string,
  { params, body, headers, signal }: TypedRequest,
): Promise<Sent<unknown>> {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params?.path?.[name] ?? ''));
  const response = await askFor(filled, {
    method,
    query: params?.query,
    headers: { ...params?.header, ...headers },
    body,
    signal,
  });
  return { data: await jsonOf(response), response };
}

/**
 * Every request of the document, typed: api.GET('/v1/runs/{id}', {params: {path: {id}}}). It throws a
 * Problem if it is refused.
 */
export const api = Object.fromEntries(
  methods.map((method) => [method, (path: string, request: TypedRequest = {}) => asked(method, path, request)]),
) as unknown as Api;

interface Sent<T> {
  data?: T;
  response: Response;
}

/** Returns what a typed request was answered with. */
export async function answer<T>(sent: Promise<Sent<T>>): Promise<T> {
  return (await sent).data as T;
}

/** Like answer, with the headers of the answer: its ETag. */
export async function answerWithHeaders<T>(sent: Promise<Sent<T>>): Promise<{ data: T; headers: Headers }> {
  const { data, response } = await sent;
  return { data: data as T, headers: response.headers };
}

/** The JSON of an answer that is a success; undefined if there is none in it. */
async function jsonOf(response: Response): Promise<unknown> {
  if (response.status === 204) {
    return undefined;
  }
  const body = await bodyOf(response);
  if (body === undefined) {
    throw new Problem(
      response.status,
      'strange',
      'The answer is none of Carillon',
      'Something between this page and the node answered instead.',
    );
  }
  noteHome(response.headers, body);
  return body;
}

function refusal(response: Response, body: unknown): Problem {
  const problem = problemOf(response, body);
  if (response.status === 401) {
    signedOut.value = problem;
  }
  return problem;
}

/** What a request may hold that the document does not describe. */
export interface PlainRequest {
  method?: string;
  query?: Record<string, string | number | boolean | readonly string[] | undefined> | undefined;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, instead of a body. Its media type is a header. */
  content?: string | Uint8Array<ArrayBuffer>;
  /** The longest that the answer may take, in ms. */
  patience?: number;
  signal?: AbortSignal | undefined;
}

/**
 * Asks for what the document does not say yet, and returns the answer's JSON (undefined for none), or
 * throws a Problem. The caller states the type; nothing checks it.
 */
export async function ask<T>(path: string, options: PlainRequest = {}): Promise<T> {
  return (await jsonOf(await askFor(path, options))) as T;
}

/** Like ask, with the text of the answer: numbers in it may have more digits than JavaScript keeps. */
export async function askWithText<T>(path: string, options: PlainRequest = {}): Promise<{ data: T; text: string }> {
  const response = await askFor(path, options);
  const text = await response.clone().text();
  return { data: (await jsonOf(response)) as T, text };
}

/** Like ask, for answers that are no JSON. */
export async function askFor(path: string, options: PlainRequest = {}): Promise<Response> {
  const url = new URL(apiBase + path);
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value === undefined || value === '') {
      continue;
    }
    for (const one of Array.isArray(value) ? value : [String(value)]) {
      url.searchParams.append(name, one);
    }
  }
  const init: RequestInit = {
    method: options.method ?? 'GET',
    headers: { ...options.headers },
    credentials: 'same-origin',
  };
  if (options.body !== undefined) {
    init.body = JSON.stringify(options.body);
    init.headers = { 'Content-Type': 'application/json', ...options.headers };
  }
  if (options.content !== undefined) {
    init.body = options.content;
  }
  if (options.signal) {
    init.signal = options.signal;
  }
  const response = await sendWithin(new Request(url, init), options.patience ?? patience);
  if (!response.ok) {
    throw refusal(response, await bodyOf(response));
  }
  return response;
}

/** A new idempotency key: a form has one from when it is opened until it is sent with success. */
export function newKey(): string {
  // randomUUID is absent where the page came by plain HTTP.
  const random = crypto.getRandomValues(new Uint8Array(16));
  return 'console-' + [...random].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
