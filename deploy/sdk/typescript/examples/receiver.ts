// A receiver of Carillon's calls that trusts only those that are signed.
//
//     WEBHOOK_SECRET=whsec_… node build/examples/receiver.js 9000

import { createServer, type Server } from "node:http";
import { buffer } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

import { VerificationError, Verifier } from "../src/webhooks.js"; // "carillon-client/webhooks"

export function receiver(verifier: Verifier): Server {
  return createServer((request, response) => {
    void (async () => {
      const body = await buffer(request);
      try {
        const run = verifier.verify(request.headers, body);
        response.end(`run ${run}: ${body.length} bytes\n`);
      } catch (e) {
        if (!(e instanceof VerificationError)) throw e;
        response.writeHead(401).end(`${e.message}\n`);
      }
    })();
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  receiver(new Verifier([process.env["WEBHOOK_SECRET"] ?? ""])).listen(Number(process.argv[2] ?? 9000), "127.0.0.1");
}
