import assert from "node:assert/strict";
import { test } from "node:test";

import { parseSecret, sign, VerificationError, Verifier } from "../src/webhooks.js";

// The example of the specification's reference libraries: everybody's signature of it is this one.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const at = 1614265330;
const body = '{"test": 2432232314}';
const signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const wrong = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

const headers = (change: Record<string, string> = {}): Record<string, string> => ({
  "webhook-id": id,
  "webhook-timestamp": String(at),
  "Webhook-Signature": signature,
  ...change,
});

test("a signature is that of the specification", () => {
  assert.equal(sign(id, at, body, secret), signature);
  assert.equal(sign(id, at, Buffer.from(body), other, secret).split(" ")[1], signature);
});

const cases: [string, Record<string, string>, string, number, string][] = [
  ["right", headers(), body, at, ""],
  ["at the end of the tolerance", headers(), body, at + 300, ""],
  ["ahead, within the tolerance", headers(), body, at - 300, ""],
  ["too old", headers(), body, at + 301, "timestamp"],
  ["too far ahead", headers(), body, at - 301, "timestamp"],
  ["beside others", headers({ "Webhook-Signature": `${wrong} v2,x ${signature}` }), body, at, ""],
  ["of another version alone", headers({ "Webhook-Signature": "v2" + signature.slice(2) }), body, at, "signature"],
  ["another body", headers(), body + " ", at, "signature"],
  ["another id", headers({ "webhook-id": id + "x" }), body, at, "signature"],
  ["another timestamp", headers({ "webhook-timestamp": String(at + 1) }), body, at, "signature"],
  ["not base64", headers({ "Webhook-Signature": "v1,????" }), body, at, "signature"],
  ["a part of it", headers({ "Webhook-Signature": "v1,g0hM" }), body, at, "signature"],
  ["beyond the most", headers({ "Webhook-Signature": `${(wrong + " ").repeat(16)}${signature}` }), body, at, "signature"],
  ["no id", headers({ "webhook-id": "" }), body, at, "unsigned"],
  ["no signature", headers({ "Webhook-Signature": "" }), body, at, "unsigned"],
  ["no timestamp", headers({ "webhook-timestamp": "" }), body, at, "unsigned"],
  ["a timestamp with a sign", headers({ "webhook-timestamp": `+${at}` }), body, at, "unsigned"],
  ["a timestamp with zeros", headers({ "webhook-timestamp": `0${at}` }), body, at, "unsigned"],
  ["a timestamp with a line after it", headers({ "webhook-timestamp": `${at}\n` }), body, at, "unsigned"],
];

for (const [name, given, sent, now, reason] of cases) {
  test(`verify: ${name}`, () => {
    for (const secrets of [[secret], [other, secret], [secret, other]]) {
      const verifier = new Verifier(secrets, { now: () => now * 1000 });
      if (reason === "") assert.equal(verifier.verify(given, sent), id);
      else assert.throws(() => verifier.verify(given, sent), (e) => e instanceof VerificationError && e.reason === reason);
    }
    assert.throws(() => new Verifier([other], { now: () => now * 1000 }).verify(given, sent), VerificationError);
  });
}

test("headers may be those of fetch and of node:http", () => {
  const verifier = new Verifier([secret], { now: () => at * 1000 });
  assert.equal(verifier.verify(new Headers(headers()), body), id);
  assert.equal(verifier.verify({ "webhook-id": [id], "webhook-timestamp": String(at), "webhook-signature": signature }, Buffer.from(body)), id);
});

test("what is no secret is not repeated", () => {
  for (const text of ["", "whsec_", "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_s3cret-s3cret-s3cret-s3cret-s3cret"]) {
    assert.throws(() => parseSecret(text), (e: Error) => !e.message.includes("s3cret"));
  }
  assert.throws(() => new Verifier([]), TypeError);
});
