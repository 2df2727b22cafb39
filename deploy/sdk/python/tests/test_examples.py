"""The examples, as their readers run them."""

from __future__ import annotations

import asyncio
import http.server
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from carillon.testing import EPOCH, Call, Fake, run_handler
from carillon.webhooks import Verifier, sign

import receiver
import shop
from conftest import PATIENCE, Dev

EXAMPLES = Path(__file__).parent.parent / "examples"
README = EXAMPLES.parent / "README.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src"), "PYTHONDONTWRITEBYTECODE": "1", **more}


def test_the_shop_reminds_after_two_days(fake: Fake) -> None:
    carillon = fake.client()
    carillon.tasks.put(shop.REMIND.task, {"nats": {"subject": shop.REMIND.subject}})
    reminded: list[int] = []
    fake.on(shop.REMIND, lambda call: reminded.append(call.payload["order"]))
    store = shop.Shop(carillon)
    store.order(7, "a@example.com", EPOCH)
    assert store.order(7, "a@example.com", EPOCH) == carillon.jobs.get(store.order(7, "a@example.com", EPOCH))["id"]
    store.paid(store.order(8, "b@example.com", EPOCH))
    fake.advance(timedelta(days=2) - timedelta(seconds=1))
    assert reminded == []
    fake.advance(timedelta(seconds=1))
    assert reminded == [7]


def test_the_readme_tests_with_time() -> None:
    _, _, after = README.read_text().partition("\n## Tests with time\n")
    _, _, rest = after.partition("```python\n")
    code, end, _ = rest.partition("\n```\n")
    assert end and "assert " in code
    said: dict[str, Any] = {}
    exec(compile(code, str(README), "exec"), said)  # noqa: S102 -- as its reader runs it
    assert said["sent"] == [{"order": 7, "to": "a@example.com"}]


def test_the_handler_of_the_shop() -> None:
    def run(to: str, attempt: int = 1) -> Any:
        return asyncio.run(run_handler(shop.remind, shop.Reminder(7, to), kind=shop.REMIND, attempt=attempt))

    assert run("a@example.com").value == {"sent": "a@example.com"}
    assert run("nowhere").final and run("a@busy.example").retry_after == 60 and run("a@busy.example", 2).error == ""


def test_the_shop_on_the_real_program(dev: Dev) -> None:
    pytest.importorskip("nats")
    worker = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "shop.py")],
        env=environment(CARILLON_API=dev.api, NATS_URL=dev.nats),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        with dev.client() as c:
            job = c.jobs.create(shop.REMIND.job(shop.Reminder(7, "a@example.com")))
            assert c.runs.wait(job["id"])["state"] == "succeeded" and c.runs.output(job["id"]) == b'{"sent":"a@example.com"}'
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        worker.wait()
        if worker.stdout is not None:
            worker.stdout.close()


def test_quickstart(dev: Dev) -> None:
    text = (EXAMPLES / "quickstart.py").read_text().replace("http://127.0.0.1:8080/healthz", dev.api + "/healthz")
    said = subprocess.run(
        [sys.executable, "-c", text], env=environment(CARILLON_API=dev.api), capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert said.stdout.startswith("succeeded ")


def test_the_receiver_trusts_only_what_is_signed() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), receiver.handler(Verifier(SECRET)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        url, now = f"http://127.0.0.1:{server.server_address[1]}/", int(time.time())
        headers = {"webhook-id": "run-1", "webhook-timestamp": str(now), "webhook-signature": sign("run-1", now, b"{}", SECRET)}
        assert httpx.post(url, content=b"{}", headers=headers).text == "run run-1: 2 bytes\n"
        assert httpx.post(url, content=b"{ }", headers=headers).status_code == 401
        assert httpx.post(url, content=b"{}").status_code == 401
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_call_has_what_the_shop_gave(fake: Fake) -> None:
    calls: list[Call] = []
    carillon = fake.client()
    carillon.tasks.put(shop.REMIND.task, {"nats": {"subject": shop.REMIND.subject}})
    fake.on(shop.REMIND, calls.append)
    shop.Shop(carillon).order(9, "c@example.com", EPOCH)
    fake.advance(timedelta(days=3))
    assert shop.REMIND.read(calls[0].payload) == shop.Reminder(9, "c@example.com")
