"""What a worker and an executor say to each other, with the executor played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from carillon import JobType
from carillon import worker as under_test
from carillon.values import write_instant
from carillon.worker import Run, Worker


class Connection:
    """A connection of nats-py whose other side is the test."""

    max_payload = 1 << 20

    def __init__(self) -> None:
        self.subscribed: dict[str, Callable[[Any], Awaitable[None]]] = {}
        self.said: asyncio.Queue[tuple[str, dict[str, str], bytes, str]] = asyncio.Queue()
        self._inboxes = 0

    def new_inbox(self) -> str:
        self._inboxes += 1
        return f"_INBOX.{self._inboxes}"

    async def subscribe(self, subject: str, queue: str = "", cb: Any = None) -> Any:
        self.subscribed[subject] = cb

        async def gone() -> None:
            self.subscribed.pop(subject, None)

        return SimpleNamespace(unsubscribe=gone, drain=gone)

    async def publish(self, subject: str, body: bytes = b"", reply: str = "", headers: dict[str, str] | None = None) -> None:
        await self.said.put((subject, headers or {}, body, reply))

    async def flush(self) -> None:
        pass

    async def offer(self, payload: bytes = b"", **more: str) -> None:
        """Has a run come."""
        headers = {"Carillon-Run-Id": "r", "Carillon-Attempt": "1", "Carillon-Fence": "7", "Carillon-Due-At": "2026-11-21T09:30:00Z"}
        headers.update({"Carillon-" + name.replace("_", "-"): value for name, value in more.items()})
        await self.subscribed["work"](SimpleNamespace(headers=headers, data=payload, subject="work", reply="executor"))

    async def hear(self, word: str) -> tuple[str, dict[str, str], bytes, str]:
        """Returns the next thing that is said of a word, and passes over others."""
        while True:
            said = await asyncio.wait_for(self.said.get(), 60)
            if said[1].get("Carillon-Word") == word:
                return said

    async def answer(self, reply: str, **headers: str) -> None:
        await self.subscribed[reply](SimpleNamespace(headers={n.replace("_", "-"): v for n, v in headers.items()}, data=b"", subject=reply, reply=""))


def talk(handler: Any, story: Callable[[Connection], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        nc = Connection()
        worker = Worker(nc, **options)
        worker.handle("work")(handler)
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.ensure_future(worker.run(stop, ready))
        await ready.wait()
        await story(nc)
        stop.set()
        await asyncio.wait_for(running, 60)
        assert not nc.subscribed  # of subjects and of answers

    asyncio.run(main())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of seconds are of hundredths."""
    for name in ("ALIVE_FIRST", "ALIVE_EVERY", "RESULT_FIRST", "RESULT_MOST"):
        monkeypatch.setattr(under_test, name, getattr(under_test, name) / 100)


def test_a_result_is_sent_until_it_is_heard(quick: None) -> None:
    async def handler(run: Run[Any]) -> Any:
        return {"got": run.payload}

    async def story(nc: Connection) -> None:
        await nc.offer(b'{"n":1}')
        for _ in range(3):
            subject, headers, body, reply = await nc.hear("result")
            assert (subject, body, "Carillon-Error" in headers) == ("executor", b'{"got":{"n":1}}', False)
        await nc.answer(reply, Carillon_Ack="true")

    talk(handler, story)


def test_what_came_too_late_is_declined() -> None:
    began: list[str] = []

    async def handler(run: Run[Any]) -> None:
        began.append(run.id)

    async def story(nc: Connection) -> None:
        now = datetime.now(timezone.utc)
        await nc.offer(Deadline=write_instant(now - timedelta(seconds=6)))
        assert (await nc.hear("declined"))[0] == "executor" and not began
        await nc.offer(Deadline=write_instant(now - timedelta(seconds=1)))  # clocks differ
        await nc.answer((await nc.hear("result"))[3], Carillon_Ack="true")
        assert began == ["r"]

    talk(handler, story)


def test_a_worker_that_nobody_hears_stops_its_handler(quick: None) -> None:
    why: list[str] = []

    async def handler(run: Run[Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            why.append(run.cancelled)

    async def story(nc: Connection) -> None:
        await nc.offer()
        for _ in range(2):
            await nc.answer((await nc.hear("alive"))[3], Status="503")
        await nc.answer((await nc.hear("result"))[3], Carillon_Gone="true")
        assert why == ["abandoned"]

    talk(handler, story)


def test_a_moment_without_an_executor_is_outlived(quick: None) -> None:
    go_on: list[asyncio.Event] = []

    async def handler(run: Run[Any]) -> str:
        go_on.append(asyncio.Event())
        await go_on[0].wait()
        return "done"

    async def story(nc: Connection) -> None:
        await nc.offer()
        await nc.answer((await nc.hear("alive"))[3], Status="503")
        for _ in range(3):
            await nc.hear("alive")
        go_on[0].set()
        _, headers, body, reply = await nc.hear("result")
        assert body == b"done" and "Carillon-Error" not in headers
        await nc.answer(reply, Carillon_Ack="true")

    talk(handler, story)


def test_of_progress_in_quick_succession_the_last_counts() -> None:
    async def handler(run: Run[Any]) -> None:
        for n in range(100):
            await run.progress(n + 1, 100, "counting")

    async def story(nc: Connection) -> None:
        await nc.offer()
        told = [(await nc.hear("progress"))[2] for _ in range(2)]
        assert told == [b'{"done":1,"total":100,"text":"counting"}', b'{"done":100,"total":100,"text":"counting"}']
        await nc.answer((await nc.hear("result"))[3], Carillon_Ack="true")

    talk(handler, story)


def test_a_stop_ends_handlers_that_do_not_end() -> None:
    why: list[str] = []

    async def handler(run: Run[Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            why.append(run.cancelled)

    async def story(nc: Connection) -> None:
        await nc.offer()

        async def executor() -> None:
            await nc.answer((await nc.hear("result"))[3], Carillon_Ack="true")

        asyncio.ensure_future(executor())

    talk(handler, story, drain=0.05)
    assert why == ["stopped"]


def test_a_handler_that_would_block_is_refused() -> None:
    worker = Worker(Connection())
    with pytest.raises(TypeError, match="no coroutine function"):
        worker.handle("work")(lambda run: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="needs a subject"):
        worker.handle(JobType("t", dict))(worker.run)  # type: ignore[arg-type]


def test_what_is_no_run_is_passed_over() -> None:
    async def story(nc: Connection) -> None:
        await nc.offer(Attempt="one")
        await nc.subscribed["work"](SimpleNamespace(headers=None, data=b"", subject="work", reply=""))
        assert nc.said.empty()

    async def handler(run: Run[Any]) -> None:
        raise AssertionError("it began")

    talk(handler, story)
