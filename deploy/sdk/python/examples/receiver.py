"""A receiver of Carillon's calls that trusts only those that are signed; the standard library alone.

WEBHOOK_SECRET=whsec_… python examples/receiver.py 9000
"""

from __future__ import annotations

import http.server
import os
import sys

from carillon.webhooks import VerificationError, Verifier


def handler(verifier: Verifier) -> type[http.server.BaseHTTPRequestHandler]:
    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1 << 20))
            try:
                run = verifier.verify(self.headers, body)  # type: ignore[arg-type]
                status, said = 200, f"run {run}: {len(body)} bytes\n"
            except VerificationError as e:
                status, said = 401, f"{e}\n"
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

    return Receiver


if __name__ == "__main__":
    verifier = Verifier(os.environ["WEBHOOK_SECRET"])
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), handler(verifier)).serve_forever()
