"""What only the fake can: time that the test advances, and what it refuses to pretend."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from carillon import APIError, JobType
from carillon.testing import EPOCH, Call, Fake, Final, RetryAfter, run_handler
from carillon.worker import Run

HOOK = "https://example.com/hook"
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@dataclass
class Email:
    to: str


EMAIL = JobType("send-email", Email, subject="work.email")


def test_a_job_runs_at_its_instant(fake: Fake) -> None:
    fake.on(HOOK, lambda call: None)
    c = fake.client()
    job = c.jobs.create({"http": {"url": HOOK, "headers": {"x-a": "b"}}, "payload": 7, "schedule": {"at": EPOCH + 2 * DAY}})
    fake.advance(2 * DAY - timedelta(milliseconds=1))
    assert not fake.calls and c.runs.get(job["id"])["state"] == "pending"
    fake.advance(HOUR)
    (call,) = fake.calls
    assert (call.target, call.payload, call.at, call.attempt, call.headers["x-a"]) == (HOOK, 7, EPOCH + 2 * DAY, 1, "b")
    assert call.headers["Idempotency-Key"] == job["id"] and fake.now == EPOCH + 2 * DAY - timedelta(milliseconds=1) + HOUR


def test_an_interval_is_kept(fake: Fake) -> None:
    at: list[Any] = []
    fake.on(HOOK, lambda call: at.append(call.at - EPOCH))
    c = fake.client()
    c.jobs.create({"name": "poll", "http": {"url": HOOK}, "schedule": {"every": "15m"}, "max_runs": 5})
    fake.advance(HOUR)
    c.jobs.pause("poll")
    fake.advance(HOUR)
    c.jobs.resume("poll")
    fake.advance(DAY)
    assert at == [15 * MINUTE, 30 * MINUTE, 45 * MINUTE, HOUR, 2 * HOUR + 15 * MINUTE]


def test_retries_wait_as_the_policy_says(fake: Fake) -> None:
    at: list[timedelta] = []

    def fail(call: Call) -> int:
        at.append(call.at - EPOCH)
        return 500

    fake.on(HOOK, fail)
    c = fake.client()
    run = c.jobs.create({"http": {"url": HOOK}, "retry": {"max_attempts": 4, "initial": "10s", "factor": 3, "max": "1m"}})["id"]
    fake.advance(DAY)
    assert at == [timedelta(seconds=s) for s in (0, 10, 40, 100)]
    assert c.runs.get(run)["state"] == "failed"


def test_a_worker_is_asked(fake: Fake) -> None:
    c = fake.client()
    c.tasks.put(EMAIL.task, {"nats": {"subject": EMAIL.subject}})

    def send(call: Call) -> Any:
        if call.payload["to"] == "nobody":
            raise Final("no such customer")
        if call.attempt == 1:
            raise RetryAfter("the server is full", 60)
        return {"sent": call.payload["to"]}

    fake.on(EMAIL, send)
    good, bad = c.jobs.create(EMAIL.job(Email("a")))["id"], c.jobs.create(EMAIL.job(Email("nobody")))["id"]
    fake.settle()
    assert c.runs.get(good)["next_attempt_at"] == "2030-01-01T00:01:00.000Z"
    fake.advance(MINUTE)
    assert c.runs.output(good) == b'{"sent":"a"}'
    dead = c.runs.get(bad)
    assert (dead["state"], dead["dead_letter"], dead["attempts"][0]["error"]) == ("failed", True, "no such customer")


def test_what_is_called_may_call_back(fake: Fake) -> None:
    c = fake.client()
    fake.on(HOOK, lambda call: c.events.publish("called", {"n": call.payload}) and 200)
    c.jobs.create({"http": {"url": HOOK + "/next"}, "on": {"event": "called"}})
    c.jobs.create({"http": {"url": HOOK}, "payload": 1})
    fake.on(HOOK + "/next", lambda call: 204)
    fake.settle()
    assert [call.target for call in fake.calls] == [HOOK, HOOK + "/next"] and fake.calls[1].payload == {"n": 1}
    assert fake.events[0]["name"] == "called"


def test_pauses_of_a_client_advance_the_clock(fake: Fake) -> None:
    fake.refuse_next(2, 429, retry_after=5)
    fake.client().jobs.create({"http": {"url": HOOK}})
    assert timedelta(seconds=10) <= fake.now - EPOCH < timedelta(seconds=11)
    fake.refuse_next(9)
    with pytest.raises(APIError, match="told to refuse"):
        fake.client().jobs.create({"http": {"url": HOOK}})


@pytest.mark.parametrize(
    "job",
    [
        {"http": {"url": HOOK}, "schedule": {"cron": "0 9 * * *"}},
        {"http": {"url": HOOK}, "schedules": [{"every": "1h"}]},
        {"http": {"url": HOOK}, "after": {"jobs": ["a"]}},
        {"http": {"url": HOOK}, "schedule": {"every": "1h"}, "concurrency": {"limit": 1}},
        {"http": {"url": HOOK}, "unique": {"window": "1h"}},
        {"http": {"url": HOOK}, "on": {"event": "e", "filter": "true"}},
        {"script": {"command": "x"}},
    ],
)
def test_what_is_not_modelled_is_refused(fake: Fake, job: Any) -> None:
    with pytest.raises(APIError) as e:
        fake.client().jobs.create(job)
    assert (e.value.status, e.value.kind) == (501, "not-modelled") and not fake.calls
    with pytest.raises(APIError, match="workflows"):
        fake.client().workflows.get("w")


def test_lists_have_pages(fake: Fake) -> None:
    c = fake.client()
    report = c.imports.run({"http": {"url": HOOK}, "schedule": {"at": EPOCH + timedelta(seconds=n)}} for n in range(1203))
    assert (report.created, report.failed) == (1203, [])
    runs = list(c.runs.list(EPOCH, EPOCH + DAY))
    assert len(runs) == 1203 and [r["due_at"] for r in runs] == sorted(r["due_at"] for r in runs)


def test_a_handler_is_run_alone() -> None:
    async def send(run: Run[Any]) -> Any:
        await run.log("sending\nto " + run.payload.to)
        await run.progress(1, 2)
        if run.payload.to == "nobody":
            raise Final("no such customer")
        if run.attempt == 1:
            raise RetryAfter("later", 2.5)
        return {"sent": run.payload.to}

    done = asyncio.run(run_handler(send, Email("a"), kind=EMAIL, attempt=2))
    assert (done.value, done.error, done.log, done.progress) == ({"sent": "a"}, "", ["sending", "to a"], [{"done": 1, "total": 2}])
    done = asyncio.run(run_handler(send, {"to": "a"}, kind=EMAIL))
    assert (done.error, done.final, done.retry_after) == ("later", False, 2.5)
    done = asyncio.run(run_handler(send, {"to": "nobody"}, kind=EMAIL))
    assert (done.error, done.final) == ("no such customer", True)
    done = asyncio.run(run_handler(send, {"to": 7}, kind=EMAIL))
    assert done.final and "must be str" in done.error
