// Checks the signatures of the HTTP calls that Carillon makes (Standard Webhooks, version 1).
//
//     const verifier = new Verifier([process.env.WEBHOOK_SECRET!]);
//     verifier.verify(request.headers, body);      // throws VerificationError; body is the bytes as they came

import { createHmac, timingSafeEqual } from "node:crypto";

/** Seconds by which a call may be old, or ahead. */
export const tolerance = 300;
const maxSignatures = 16;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The call is not to be trusted. */
export class VerificationError extends Error {
  override readonly name = "VerificationError";
  constructor(
    readonly reason: "unsigned" | "timestamp" | "signature",
    text: string,
  ) {
    super(text);
  }
}

function decode(text: string): Buffer | undefined {
  return base64.test(text) ? Buffer.from(text, "base64") : undefined;
}

/** Reads a secret: "whsec_" and the base64 of 24 to 64 bytes. The error does not repeat it. */
export function parseSecret(text: string): Buffer {
  const secret = text.startsWith("whsec_") ? decode(text.slice("whsec_".length)) : undefined;
  if (!secret || secret.length < 24 || secret.length > 64) throw new TypeError('a secret is "whsec_" and the base64 of 24 to 64 bytes');
  return secret;
}

function sum(id: string, timestamp: string, body: Uint8Array | string, secret: Buffer): Buffer {
  return createHmac("sha256", secret).update(`${id}.${timestamp}.`).update(body).digest();
}

/** Returns the header webhook-signature of a call: what Carillon sends, for tests of a receiver. */
export function sign(id: string, timestamp: number, body: Uint8Array | string, ...secrets: string[]): string {
  return secrets.map((s) => "v1," + sum(id, String(timestamp), body, parseSecret(s)).toString("base64")).join(" ");
}

/** The headers of a request: those of fetch, of node:http, or an object. */
export type HeadersLike = Headers | Record<string, string | string[] | undefined>;

function header(headers: HeadersLike, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() === name) return (Array.isArray(value) ? value[0] : value) ?? "";
  }
  return "";
}

/** Takes calls that are signed with one of the secrets: while one is being replaced there are two. */
export class Verifier {
  readonly #secrets: Buffer[];
  readonly #tolerance: number;
  readonly #now: () => number;

  /** now is in milliseconds, as Date.now. */
  constructor(secrets: string[], options: { tolerance?: number; now?: () => number } = {}) {
    if (secrets.length === 0) throw new TypeError("a verifier needs a secret");
    this.#secrets = secrets.map(parseSecret);
    this.#tolerance = options.tolerance ?? tolerance;
    this.#now = options.now ?? Date.now;
  }

  /** Returns the id of a call (webhook-id, the run's: the same when the call is repeated), or throws VerificationError.
   * A receiver that remembers ids for the tolerance notices repetitions, too. */
  verify(headers: HeadersLike, body: Uint8Array | string): string {
    const id = header(headers, "webhook-id");
    const timestamp = header(headers, "webhook-timestamp");
    const signatures = header(headers, "webhook-signature");
    if (id === "" || signatures === "" || !/^(-?[1-9][0-9]*|0)$/.test(timestamp)) {
      throw new VerificationError("unsigned", "a header is missing or not valid");
    }
    if (Math.abs(Number(timestamp) - Math.floor(this.#now() / 1000)) > this.#tolerance) {
      throw new VerificationError("timestamp", "the timestamp is too old or lies ahead");
    }
    let right = false;
    for (const text of signatures.split(" ").slice(0, maxSignatures)) {
      const given = text.startsWith("v1,") ? decode(text.slice(3)) : undefined; // others are of a version to come
      if (!given) continue;
      for (const secret of this.#secrets) {
        const want = sum(id, timestamp, body, secret);
        right = (given.length === want.length && timingSafeEqual(given, want)) || right;
      }
    }
    if (!right) throw new VerificationError("signature", "no signature is right");
    return id;
  }
}
