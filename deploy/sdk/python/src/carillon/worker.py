"""Workers: programs that run the tasks of the kind nats. They speak executor/worker/PROTOCOL.md over a connection of
nats-py (`pip install carillon-client[worker]`).

    nc = await nats.connect("nats://127.0.0.1:4222", max_reconnect_attempts=-1)
    worker = Worker(nc, concurrency=16)

    @worker.handle("work.email")
    async def send(run: Run) -> dict[str, int]:
        await run.log("sending to " + run.payload["to"])
        return {"sent": 1}

    await worker.run()      # until SIGTERM or SIGINT; then it drains

A worker has the guarantees of its task, not more: a run may come twice, also to two workers at once. `run.id` is the
key with which to recognise it; of two executions the one with the higher `run.fence` is the later.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import signal
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Generic, TypeVar

from .jobs import JobType, PayloadError
from .values import encode, instant

P = TypeVar("P")

QUEUE = "carillon-workers"  # workers of one name share the runs of a subject
# Seconds. An executor gives up a worker that is silent for 35 s. After MISSED signs of life in a row that nobody took
# the executor counts as gone. The result is sent for longer than an executor takes to reconnect.
ALIVE_FIRST, ALIVE_EVERY, MISSED = 1.0, 10.0, 2
RESULT_FIRST, RESULT_MOST, RESULT_LAST = 1.0, 5.0, 30.0
PROGRESS_EVERY = 0.25
STOP_LAST = 5.0  # for a handler that was told to stop to return, and its end to be heard
SKEW = timedelta(seconds=5)  # by which the clocks of a worker and an executor may differ
MAX_LOG, MAX_ERROR, HEADER_ROOM = 64 << 10, 1 << 10, 4 << 10  # bytes

log = logging.getLogger("carillon.worker")


class Final(Exception):
    """A failure after which no attempt should follow."""


class RetryAfter(Exception):
    """A failure after which the next attempt should wait for so many seconds at least (at most 24 h)."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds


class Run(Generic[P]):
    """One attempt of a run, as its handler has it.

    `payload` is what JSON holds, None if there is none, or what the JobType makes of it. `cancelled` says why the
    handler was stopped, "" if it was not: "cancelled", "timeout", "stopped" or "abandoned" (nobody waits for the
    result any more). A handler is stopped by asyncio's cancellation.
    """

    def __init__(self, headers: dict[str, str], data: bytes, subject: str = "") -> None:
        self.id = headers["Carillon-Run-Id"]  # the same at every attempt, so the idempotency key
        self.tenant = headers.get("Carillon-Tenant", "")
        self.job = headers.get("Carillon-Job-Id", "")
        self.attempt = int(headers["Carillon-Attempt"])  # from 1
        self.fence = int(headers["Carillon-Fence"])
        self.due = instant(headers["Carillon-Due-At"])
        nominal = headers.get("Carillon-Nominal-At")
        self.nominal = instant(nominal) if nominal else None  # of a recurring job: what its schedule names
        self.subject = subject
        self.trace = headers.get("traceparent", "")  # W3C
        self.timeout = int(headers.get("Carillon-Timeout-Ms", 0)) / 1000 or None
        self.data = data
        self.payload: P = None  # type: ignore[assignment]
        self.cancelled = ""
        deadline = headers.get("Carillon-Deadline")
        self._deadline = instant(deadline) if deadline else None
        self._max_output = int(headers.get("Carillon-Max-Output", 0))
        self._talk: _Talk | None = None

    def late(self, now: datetime) -> bool:
        """Whether the executor has given the attempt up: the request was held up on its way."""
        return self._deadline is not None and now - self._deadline > SKEW

    async def log(self, text: str) -> None:
        """Keeps lines in the log of the run, where they can be read at once. The executor bounds how many."""
        if self._talk:
            await self._talk.say("log", text.encode()[:MAX_LOG])

    async def progress(self, done: int, total: int = 0, text: str = "") -> None:
        """Tells how far the handler has come. Of what is told in quick succession the last counts."""
        if self._talk:
            said: dict[str, Any] = {"done": done}
            if total:
                said["total"] = total
            if text:
                said["text"] = text
            self._talk.progress(said)


Handler = Callable[[Run[Any]], Awaitable[Any]]


def output_of(result: Any) -> bytes:
    """Returns the output that a handler's result is: bytes and text as they are, None as nothing, all else as JSON."""
    if result is None:
        return b""
    if isinstance(result, bytes):
        return result
    return result.encode() if isinstance(result, str) else encode(result)


def outcome(result: Any, error: BaseException | None, most: int = 0) -> tuple[bytes, dict[str, str]]:
    """Returns the body and the headers of the last word of an attempt. most bounds the body, in bytes; 0: it does not."""
    headers, body = {"Carillon-Word": "result"}, b""
    if error is None:
        try:
            body = output_of(result)
        except (TypeError, ValueError) as e:  # the work is done: to do it again would not help
            error = Final(f"encode result: {e}")
    if error is not None:
        named = isinstance(error, (Final, RetryAfter)) or not str(error)
        text = (str(error) or type(error).__name__) if named else f"{type(error).__name__}: {error}"
        headers["Carillon-Error"] = " ".join(text.encode("ascii", "replace").decode().split())[:MAX_ERROR] or "failed"
        if isinstance(error, (Final, PayloadError)):
            headers["Carillon-Error-Final"] = "true"
        if isinstance(error, RetryAfter) and error.seconds > 0:
            headers["Carillon-Retry-After"] = f"{error.seconds:g}"
    if most and len(body) > most:
        body, headers["Carillon-Output-Cut"] = body[:most], "true"
    return body, headers


class _Talk:
    """What a worker and an executor say to each other about one attempt."""

    def __init__(self, nc: Any, inbox: str, reply: str) -> None:
        self.nc, self.inbox, self.reply = nc, inbox, reply
        self.stop: Callable[[str], None] = lambda why: None
        self.heard = asyncio.Event()
        self.ended = False
        self._unheard, self._missed = False, 0
        self._told: dict[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def say(self, word: str, body: bytes = b"") -> None:
        """Says a word of which nothing depends."""
        if not self.ended:
            try:
                await self.nc.publish(self.inbox, body, reply=self.reply, headers={"Carillon-Word": word})
            except Exception as e:  # noqa: BLE001 -- the connection's: the end is what counts
                log.debug("a word to the executor could not be sent: %r", e)

    def progress(self, said: dict[str, Any]) -> None:
        self._told = said
        if self._timer is None and not self.ended:
            self._send_progress()
            self._timer = asyncio.get_running_loop().call_later(PROGRESS_EVERY, self._again)

    def _again(self) -> None:
        self._timer = None
        if self._told is not None and not self.ended:
            self.progress(self._told)

    def _send_progress(self) -> None:
        told, self._told = self._told, None
        if told is not None:
            task = asyncio.ensure_future(self.say("progress", encode(told)))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def hear(self, msg: Any) -> None:
        """Takes an answer of the executor in."""
        h = msg.headers or {}
        if why := h.get("Carillon-Cancel"):
            self.stop(why)
        elif h.get("Carillon-Gone"):
            self.stop("abandoned")
            self.heard.set()
        elif h.get("Carillon-Ack"):
            self.heard.set()
        elif h.get("Status") == "503":  # nobody listens: for a moment, or for ever
            self._unheard = True

    async def live(self) -> None:
        """Says that the handler is at work, until it is cancelled."""
        wait = ALIVE_FIRST
        while True:
            await asyncio.sleep(wait)
            self._missed = self._missed + 1 if self._unheard else 0
            self._unheard = False
            if self._missed >= MISSED:
                self.stop("abandoned")
                return
            await self.say("alive")
            wait = ALIVE_EVERY

    async def end(self, body: bytes, headers: dict[str, str], last: float) -> bool:
        """Sends the end until it was heard, for last seconds at most."""
        self._send_progress()
        if self._timer is not None:
            self._timer.cancel()
        if self._sending:
            await asyncio.wait(set(self._sending))
        self.ended = True
        loop = asyncio.get_running_loop()
        give_up, wait = loop.time() + last, RESULT_FIRST
        while True:  # core NATS may lose a message
            try:
                await self.nc.publish(self.inbox, body, reply=self.reply, headers=headers)
            except Exception as e:  # noqa: BLE001
                if body and "MaxPayload" in type(e).__name__:  # the server's bound has become smaller
                    body, headers["Carillon-Output-Cut"] = b"", "true"
                    continue
                log.debug("a result could not be sent: %r", e)
            left = give_up - loop.time()
            try:
                await asyncio.wait_for(self.heard.wait(), max(min(wait, left), 0.01))
                return True
            except asyncio.TimeoutError:
                if left <= wait:
                    return False
            wait = min(2 * wait, RESULT_MOST)


class Worker:
    """Runs handlers for what comes on their subjects. The connection is the caller's: it is not closed.

    `concurrency` is how many handlers are at work at once; the rest is declined, for others to take. `drain` is how
    many seconds a stop waits for handlers at work before they are cancelled.
    """

    def __init__(self, nc: Any, *, concurrency: int = 64, queue: str = QUEUE, drain: float = 30.0) -> None:
        self._nc = nc
        self._concurrency = concurrency
        self._queue = queue
        self._drain = drain
        self._handlers: dict[str, tuple[Handler, JobType[Any] | None]] = {}
        self._at_work: set[asyncio.Task[None]] = set()
        self._stops: dict[asyncio.Task[None], Callable[[str], None]] = {}
        self._draining = False

    def handle(self, on: str | JobType[Any]) -> Callable[[Handler], Handler]:
        """Has a coroutine function run what comes on a subject, or on that of a JobType, whose payload it gets."""

        def give(handler: Handler) -> Handler:
            subject = on.subject if isinstance(on, JobType) else on
            if inspect.isfunction(handler) and not inspect.iscoroutinefunction(handler):
                raise TypeError(f"{handler.__name__} is no coroutine function: it would hold up all others; see asyncio.to_thread")
            if not subject:
                raise ValueError("a handler needs a subject: a JobType has one if it was given one")
            self._handlers[subject] = (handler, on if isinstance(on, JobType) else None)
            return handler

        return give

    async def run(self, stop: asyncio.Event | None = None, ready: asyncio.Event | None = None) -> None:
        """Takes runs until stop is set (None: until SIGTERM or SIGINT), and then drains: it takes no more, and what
        is at work may end within the drain time. ready is set once it takes runs."""
        if not self._handlers:
            raise ValueError("a worker without handlers")
        if stop is None:
            stop = asyncio.Event()
            for sig in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(sig, stop.set)
        subs = [await self._nc.subscribe(subject, queue=self._queue, cb=self._taker(*h)) for subject, h in self._handlers.items()]
        await self._nc.flush()
        if ready is not None:
            ready.set()
        await stop.wait()
        self._draining = True  # what comes from now on is declined
        for sub in subs:
            await sub.drain()
        if self._at_work:
            await asyncio.wait(set(self._at_work), timeout=self._drain)
        if self._at_work:
            log.warning("drain time-out: %d handlers at work are stopped", len(self._at_work))
            for tell in list(self._stops.values()):
                tell("stopped")
            await asyncio.wait(set(self._at_work), timeout=2 * STOP_LAST)
        await self._nc.flush()

    def _taker(self, handler: Handler, kind: JobType[Any] | None) -> Callable[[Any], Awaitable[None]]:
        async def take(msg: Any) -> None:
            try:
                run: Run[Any] = Run(msg.headers or {}, msg.data, msg.subject)
                if not msg.reply:
                    raise ValueError("no reply subject")
            except (KeyError, ValueError) as e:
                log.warning("a message on %s that is no run is passed over: %r", msg.subject, e)
                return
            late = run.late(datetime.now(timezone.utc))
            if late:  # also by a clock that is wrong, and then each
                log.warning("run %s came after its deadline: it is declined", run.id)
            if late or self._draining or len(self._at_work) >= self._concurrency:
                await self._nc.publish(msg.reply, b"", headers={"Carillon-Word": "declined"})
                return
            task = asyncio.ensure_future(self._work(handler, kind, run, msg.reply))
            self._at_work.add(task)
            task.add_done_callback(self._forget)

        return take

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._at_work.discard(task)
        self._stops.pop(task, None)
        if not task.cancelled() and (e := task.exception()) is not None:
            log.error("an attempt ended without a result", exc_info=e)

    async def _work(self, handler: Handler, kind: JobType[Any] | None, run: Run[Any], inbox: str) -> None:
        """Runs the handler, says meanwhile that it is alive, and sends its result until it is heard."""
        talk = run._talk = _Talk(self._nc, inbox, self._nc.new_inbox())
        control = await self._nc.subscribe(talk.reply, cb=talk.hear)
        work = asyncio.ensure_future(call(handler, kind, run))

        def stop(why: str) -> None:
            run.cancelled = run.cancelled or why
            work.cancel()

        talk.stop = stop
        own = asyncio.current_task()
        if own is not None:
            self._stops[own] = stop
        alive = asyncio.ensure_future(talk.live())
        timer = asyncio.get_running_loop().call_later(run.timeout, stop, "timeout") if run.timeout else None
        try:
            result, error = None, None  # type: Any, BaseException | None
            await asyncio.wait({work})
            if work.cancelled():
                error = Exception({"timeout": "the time of the attempt is up"}.get(run.cancelled, f"the handler was stopped: {run.cancelled or 'by itself'}"))
            elif (failure := work.exception()) is not None:
                error = failure
                if not isinstance(failure, (Final, RetryAfter, PayloadError)):
                    log.error("the handler of run %s failed", run.id, exc_info=failure)
            else:
                result = work.result()
            alive.cancel()
            most = self._nc.max_payload - HEADER_ROOM
            body, headers = outcome(result, error, min(most, run._max_output) if run._max_output else most)
            if not await talk.end(body, headers, STOP_LAST if run.cancelled else RESULT_LAST):
                log.warning("run %s: nobody heard the result: it may be attempted again", run.id)
        finally:
            alive.cancel()
            work.cancel()
            if timer is not None:
                timer.cancel()
            await control.unsubscribe()


async def call(handler: Handler, kind: JobType[Any] | None, run: Run[Any]) -> Any:
    """Calls a handler with its payload."""
    try:
        run.payload = json.loads(run.data) if run.data else None
    except ValueError as e:
        raise PayloadError(f"decode payload: {e}") from e
    if kind is not None:
        run.payload = kind.read(run.payload)
    return await handler(run)
