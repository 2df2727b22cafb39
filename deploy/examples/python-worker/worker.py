"""A worker of Carillon in Python: it runs the task {"nats": {"subject": "work.demo"}}.

    pip install -r requirements.txt
    NATS_URL=nats://127.0.0.1:4222 python worker.py

Write a handler as `demo` below, and give it to serve(). What is spoken is described in executor/worker/PROTOCOL.md.
What a handler returns is the output of the run, which later steps of a workflow may refer to. `run.publish` publishes
an event: it asks the API at CARILLON_API, with the key CARILLON_KEY if there is one.
"""

import asyncio
import http.client
import json
import logging
import os
import signal
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timedelta, timezone

import nats
from nats.aio.msg import Msg

QUEUE = "carillon-workers"  # workers of one name share the runs of a subject
SLOTS = 16  # handlers at work at once; the rest is declined, for others to take
ALIVE_FIRST, ALIVE_EVERY = 1.0, 10.0  # the executor gives a worker up that is silent for 35 s
DRAIN = 20.0  # how long a stop waits for handlers at work
SKEW = timedelta(seconds=5)  # by which the clocks of executor and worker may differ
RESULT_TRIES = 10  # how often a result is sent until somebody hears it
PUBLISH_TRIES = 5  # how often an event is sent that was not taken


class Final(Exception):
    """A failure after which no attempt should follow."""


def output_of(result) -> bytes:
    """Returns the output that a handler's result is. Bytes are the output as they are, and None is none; anything else
    is written as JSON, so that later steps may refer to parts of it: {"$from": "count", "pointer": "/counted"}."""
    if result is None or isinstance(result, bytes):
        return result or b""
    return json.dumps(result).encode()


def publish(name: str, body, key: str, api: str = "", tenant: str = "") -> str:
    """Publishes an event and returns its id once it is durable. Within a day the same key and body give the same event,
    so it is sent again when no answer came. It blocks: call it from a thread, as Run.publish does."""
    nodes = (api or os.environ.get("CARILLON_API", "http://127.0.0.1:8080")).split(",")
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    if secret := os.environ.get("CARILLON_KEY"):
        headers["Authorization"] = "Bearer " + secret
    elif tenant:  # where the API asks for no key
        headers["Carillon-Tenant"] = tenant
    path = "/v1/events/" + urllib.parse.quote(name, safe="")
    for left in range(PUBLISH_TRIES - 1, -1, -1):
        url, wait = nodes[left % len(nodes)].rstrip("/") + path, "1"
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)["id"]
        except urllib.error.HTTPError as e:
            said = e.read(4096).decode(errors="replace")
            if e.code not in (429, 502, 503, 504):
                raise Final(f"event {name} is refused: {e.code} {said}") from e
            if not left:
                raise RuntimeError(f"event {name} is not taken: {e.code} {said}") from e
            wait = e.headers.get("Retry-After", wait)
        except (OSError, http.client.HTTPException) as e:  # nobody knows whether it came
            if not left:
                raise RuntimeError(f"event {name} cannot be published: {e}") from e
        time.sleep(min(float(wait), 10.0) if wait.isdigit() else 1.0)
    raise AssertionError("the last try returns or raises")


class Run:
    """One attempt of a run. `id` is the idempotency key: a run may come twice."""

    def __init__(self, nc, request: Msg):
        h = request.headers or {}
        self.id, self.attempt, self.fence = h["Carillon-Run-Id"], int(h["Carillon-Attempt"]), int(h["Carillon-Fence"])
        self.tenant = h.get("Carillon-Tenant", "")
        self.due, self.timeout = h["Carillon-Due-At"], int(h.get("Carillon-Timeout-Ms", 0)) / 1000 or None
        self.deadline = datetime.fromisoformat(h["Carillon-Deadline"].replace("Z", "+00:00")) if "Carillon-Deadline" in h else None
        self.max_output = min(int(h.get("Carillon-Max-Output", 1 << 20)), nc.max_payload - 4096)
        self.payload = json.loads(request.data) if request.data else None
        self._nc, self._inbox, self._control = nc, request.reply, nc.new_inbox()

    def late(self) -> bool:
        """Whether the executor has given the attempt up: the request was held up on its way."""
        return self.deadline is not None and datetime.now(timezone.utc) - self.deadline > SKEW

    async def say(self, word: str, body: bytes = b"") -> None:
        await self._nc.publish(self._inbox, body, reply=self._control, headers={"Carillon-Word": word})

    async def log(self, text: str) -> None:
        await self.say("log", text.encode()[:65536])

    async def progress(self, done: int, total: int = 0) -> None:
        await self.say("progress", json.dumps({"done": done, "total": total}).encode())

    async def publish(self, name: str, body, key: str = "") -> str:
        """Publishes an event of this run, once however often the run is attempted, as long as it says the same. If a run
        publishes several events of one name, each needs a key of its own."""
        return await asyncio.to_thread(publish, name, body, f"{self.id}:{key or name}", tenant=self.tenant)

    async def handle(self, handler) -> None:
        """Runs the handler, says meanwhile that it is alive, and sends its result until it is heard."""
        work = asyncio.ensure_future(asyncio.wait_for(handler(self), self.timeout))
        heard = asyncio.Event()

        async def answered(msg: Msg) -> None:  # the executor's answers
            h = msg.headers or {}
            if "Carillon-Cancel" in h or "Carillon-Gone" in h:
                work.cancel()
            if "Carillon-Ack" in h or "Carillon-Gone" in h:
                heard.set()

        control = await self._nc.subscribe(self._control, cb=answered)
        alive = asyncio.ensure_future(self._alive())
        try:
            headers, body = {"Carillon-Word": "result"}, b""
            try:
                body = output_of(await work)
            except (Exception, asyncio.CancelledError) as e:  # a failure of the run is not one of the worker
                headers["Carillon-Error"] = " ".join(f"{type(e).__name__}: {e}".split())[:1000]
                if isinstance(e, Final):
                    headers["Carillon-Error-Final"] = "true"
            if len(body) > self.max_output:
                body, headers["Carillon-Output-Cut"] = body[: self.max_output], "true"
            alive.cancel()
            for _ in range(RESULT_TRIES):  # core NATS may lose a message
                await self._nc.publish(self._inbox, body, reply=self._control, headers=headers)
                try:
                    return await asyncio.wait_for(heard.wait(), 2)
                except asyncio.TimeoutError:
                    pass
            logging.warning("run %s: nobody heard the result", self.id)
        finally:
            alive.cancel()
            await control.unsubscribe()

    async def _alive(self) -> None:
        await asyncio.sleep(ALIVE_FIRST)
        while True:
            await self.say("alive")
            await asyncio.sleep(ALIVE_EVERY)


async def serve(nc, handlers: dict, stop: asyncio.Event) -> None:
    """Runs what comes on the subjects of handlers until stop is set, and lets what is at work end."""
    at_work: set = set()

    async def take(request: Msg) -> None:
        try:
            run = Run(nc, request)
        except (KeyError, ValueError) as e:
            logging.warning("a message that is no run is passed over: %r", e)
            return
        if late := run.late():  # also by a clock that is wrong, and then each
            logging.warning("run %s came after its deadline, %s: it is declined", run.id, run.deadline)
        if late or stop.is_set() or len(at_work) >= SLOTS:
            await nc.publish(request.reply, b"", headers={"Carillon-Word": "declined"})
            return
        task = asyncio.ensure_future(run.handle(handlers[request.subject]))
        at_work.add(task)
        task.add_done_callback(at_work.discard)

    subs = [await nc.subscribe(subject, queue=QUEUE, cb=take) for subject in handlers]
    await nc.flush()
    print("ready", flush=True)
    await stop.wait()
    for sub in subs:
        await sub.drain()
    if at_work:
        await asyncio.wait(at_work, timeout=DRAIN)


async def demo(run: Run):
    """Counts to payload["n"], payload["pause"] seconds each. It publishes the event payload["event"], if there is one."""
    said = run.payload or {}
    n = int(said.get("n", 3))
    if n < 0:
        raise Final("cannot count to less than nothing")
    for i in range(n):
        await run.log(f"counting {i + 1}")
        await run.progress(i + 1, n)
        await asyncio.sleep(float(said.get("pause", 0)))
    counted = {"counted": n, "attempt": run.attempt}
    if "event" in said:
        counted["event"] = await run.publish(said["event"], {"counted": n, "run": run.id})
    return counted  # the output of the run


async def main() -> None:
    stop = asyncio.Event()
    for sig in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    nc = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), max_reconnect_attempts=-1)
    await serve(nc, {"work.demo": demo}, stop)
    await nc.drain()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main())
