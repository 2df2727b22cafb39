"""What the tests share: a fake, and the real program (CARILLON_PROGRAM names it; without it those tests are left out)."""

from __future__ import annotations

import base64
import http.server
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from carillon import Client
from carillon.testing import Fake

PATIENCE = 60.0  # seconds for what must come, on a machine that has much else to do


@pytest.fixture
def fake() -> Fake:
    return Fake()


class Dev:
    """A `carillon dev` on free ports of the loopback interface."""

    def __init__(self, program: str) -> None:
        secrets = "k1:" + base64.b64encode(bytes(32)).decode()  # encrypts signing keys
        self._process = subprocess.Popen(
            [program, "dev", "--port", "0", "--nats-port", "0", "--log-level", "error"],
            env={**os.environ, "CARILLON_SECRETS_KEYS": secrets},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if up := re.search(r"Carillon is up\..* API (\S+) .* workers (\S+)", line):
                self.api, self.nats = up.groups()
                return
        raise RuntimeError(f"carillon dev ended with {self._process.wait()} before it was up")

    def client(self) -> Client:
        return Client(self.api)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()


@pytest.fixture(scope="session")
def dev() -> Iterator[Dev]:
    program = os.environ.get("CARILLON_PROGRAM")
    if not program:
        if os.environ.get("CI") == "true":
            pytest.fail("CARILLON_PROGRAM is not set")
        pytest.skip("LEFT OUT: the tests against the real program (CARILLON_PROGRAM is not set)")
    running = Dev(program)
    yield running
    running.stop()


def ended(c: Client, id: str) -> Any:
    """Returns a run of the real program once it has ended. That it lies in the dead letters shows a moment later."""
    run = c.runs.wait(id)
    for _ in range(int(PATIENCE * 10)):
        if run["state"] != "failed" or run.get("dead_letter"):
            break
        c._sleep(0.1)
        run = c.runs.get(id)
    return run


class Hook:
    """An HTTP server that is called, and remembers by what. `answers` are the statuses to come, then 200."""

    def __init__(self) -> None:
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with hook.came:
                    status = hook.answers.pop(0) if hook.answers else 200
                    hook.calls.append((self.path, dict(self.headers.items()), body))
                    hook.came.notify_all()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.answers: list[int] = []
        self.calls: list[tuple[str, dict[str, str], bytes]] = []
        self.came = threading.Condition()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def wait(self, path: str) -> tuple[str, dict[str, str], bytes]:
        """Returns the first call of a path, once it has come."""
        with self.came:
            assert self.came.wait_for(lambda: any(c[0] == path for c in self.calls), PATIENCE), f"nobody calls {path}"
            return next(c for c in self.calls if c[0] == path)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def hook() -> Iterator[Hook]:
    running = Hook()
    yield running
    running.stop()
