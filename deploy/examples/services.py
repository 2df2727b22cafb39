"""What the workflows of this folder call: answers of JSON on http://127.0.0.1:9000. It needs nothing but Python 3.

    python3 deploy/examples/services.py [port]
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def answer(path: str, said: dict) -> tuple[int, dict]:
    """Returns the status and the body with which a call is answered."""
    if path == "/extract":
        return 200, {"date": said.get("date"), "files": [f"part-{n}.csv" for n in range(8)]}
    if path == "/transform":
        return 200, {"file": said["file"], "rows": 100 * (said["number"] + 1)}
    if path == "/load":
        return 200, {"rows": sum(part["rows"] for part in said["parts"])}
    what, _, act = path.strip("/").partition("/")
    if act == "book":
        trip = said.get("trip") or {}
        if trip.get("fail") == what:
            return 409, {"error": f"there is no {what} left"}  # final: other than 5xx it is not tried again
        return 200, {"booked": what, "trip": trip.get("trip")}
    return 200, {"done": path, "said": said}


class Services(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(0.3)  # so that one can watch
        status, body = answer(self.path, json.loads(text) if text else {})
        print(self.path, text.decode(), "→", status, json.dumps(body), flush=True)
        out = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    ThreadingHTTPServer(("127.0.0.1", port), Services).serve_forever()
