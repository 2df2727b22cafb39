"""A worker on the real program: its runs, by NATS."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from carillon import Client, JobType
from carillon.worker import Final, RetryAfter, Run, Worker, outcome

from conftest import PATIENCE, Dev, ended

nats = pytest.importorskip("nats")


@dataclass
class Email:
    to: str


def test_the_last_word_of_an_attempt() -> None:
    assert outcome({"a": 1}, None) == (b'{"a":1}', {"Carillon-Word": "result"})
    assert outcome("text", None)[0] == b"text" and outcome(None, None)[0] == b"" and outcome(b"\x00", None)[0] == b"\x00"
    assert outcome("0123456789", None, 4) == (b"0123", {"Carillon-Word": "result", "Carillon-Output-Cut": "true"})
    assert outcome(None, ValueError("a\nb  c"))[1]["Carillon-Error"] == "ValueError: a b c"
    assert outcome(None, Final("no"))[1] == {"Carillon-Word": "result", "Carillon-Error": "no", "Carillon-Error-Final": "true"}
    assert outcome(None, RetryAfter("later", 30))[1]["Carillon-Retry-After"] == "30"
    assert len(outcome(None, Exception("x" * 5000))[1]["Carillon-Error"]) == 1024
    assert outcome(object(), None)[1]["Carillon-Error-Final"] == "true"  # cannot be encoded
    outcome(None, Exception("ä"))[1]["Carillon-Error"].encode("ascii")


def on_worker(dev: Dev, register: Callable[[Worker], None], story: Callable[[Client], None], **options: Any) -> None:
    """Runs a worker, tells a story to a client beside it, and stops the worker, which must end in order."""

    async def main() -> None:
        nc = await nats.connect(dev.nats)
        worker = Worker(nc, **options)
        register(worker)
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.ensure_future(worker.run(stop, ready))
        await asyncio.wait_for(ready.wait(), PATIENCE)
        try:
            with dev.client() as c:
                await asyncio.to_thread(story, c)
        finally:
            stop.set()
            await asyncio.wait_for(running, PATIENCE)
            await nc.close()

    asyncio.run(main())


def test_runs_by_a_worker(dev: Dev) -> None:
    email = JobType("py-email", Email, subject="work.py.email")

    def register(worker: Worker) -> None:
        @worker.handle(email)
        async def send(run: Run[Email]) -> Any:
            await run.log(f"sending to {run.payload.to}")
            await run.progress(1, 2)
            await run.progress(2, 2)
            if run.payload.to == "nobody":
                raise Final("no such customer")
            if run.attempt == 1:
                raise ValueError("once more")
            return {"sent": run.payload.to, "attempt": run.attempt}

    def story(c: Client) -> None:
        c.tasks.put(email.task, {"nats": {"subject": email.subject}, "retry": {"initial": "1ms", "max": "10ms"}})
        ids = [c.jobs.create(email.job(Email(to)))["id"] for to in ("a", "nobody")]
        wrong = c.jobs.create({"task": email.task, "payload": {"to": 7}})["id"]
        good: Any = c.runs.wait(ids[0])
        assert (good["state"], [a["outcome"] for a in good["attempts"]]) == ("succeeded", ["failed", "succeeded"]), good
        assert good["attempts"][0]["error"] == "ValueError: once more"
        assert good["attempts"][1]["progress"]["done"] == 2
        assert c.runs.output(ids[0]) == b'{"sent":"a","attempt":2}'
        assert [line["text"] for line in c.runs.logs(ids[0])] == ["sending to a"] * 2
        bad = ended(c, ids[1])
        assert (bad["state"], bad["dead_letter"], bad["attempts"][0]["error"]) == ("failed", True, "no such customer")
        dead = ended(c, wrong)
        assert dead["dead_letter"] and "py-email.to: must be str" in dead["attempts"][0]["error"]

    on_worker(dev, register, story)


def test_a_cancel_and_a_time_out_reach_the_handler(dev: Dev) -> None:
    began, why = threading.Semaphore(0), []

    def register(worker: Worker) -> None:
        @worker.handle("work.py.slow")
        async def slow(run: Run[Any]) -> None:
            await run.log("begun")  # an executor can answer a worker that has said a word
            began.release()
            try:
                await asyncio.Event().wait()
            finally:
                why.append(run.cancelled)

    def story(c: Client) -> None:
        id = c.jobs.create({"nats": {"subject": "work.py.slow"}, "timeout": "1m"})["id"]
        assert began.acquire(timeout=PATIENCE)
        c.runs.cancel(id)
        assert c.runs.wait(id)["state"] == "cancelled"
        once: Any = {"nats": {"subject": "work.py.slow"}, "timeout": "200ms", "retry": {"max_attempts": 1}}
        assert c.runs.wait(c.jobs.create(once)["id"])["state"] == "failed"

    on_worker(dev, register, story)
    assert why == ["cancelled", "timeout"]


def test_what_finds_no_slot_comes_again(dev: Dev) -> None:
    free = threading.Event()
    most, at_work = 0, 0

    def register(worker: Worker) -> None:
        @worker.handle("work.py.one")
        async def one(run: Run[Any]) -> None:
            nonlocal most, at_work
            at_work += 1
            most = max(most, at_work)
            await asyncio.to_thread(free.wait, PATIENCE)
            at_work -= 1

    def story(c: Client) -> None:
        ids = [c.jobs.create({"nats": {"subject": "work.py.one"}})["id"] for _ in range(3)]
        free.set()
        assert [c.runs.wait(id)["state"] for id in ids] == ["succeeded"] * 3

    on_worker(dev, register, story, concurrency=1)
    assert most == 1


def test_a_stop_lets_what_is_at_work_end(dev: Dev) -> None:
    began, go_on = threading.Event(), threading.Event()
    ids: list[str] = []

    def register(worker: Worker) -> None:
        @worker.handle("work.py.drain")
        async def drain(run: Run[Any]) -> str:
            began.set()
            await asyncio.to_thread(go_on.wait, PATIENCE)
            return "done"

    def story(c: Client) -> None:
        ids.append(c.jobs.create({"nats": {"subject": "work.py.drain"}})["id"])
        assert began.wait(PATIENCE)
        threading.Timer(0.2, go_on.set).start()  # while the worker drains, most likely; right in either case

    on_worker(dev, register, story)
    with dev.client() as c:
        assert c.runs.wait(ids[0])["state"] == "succeeded"
