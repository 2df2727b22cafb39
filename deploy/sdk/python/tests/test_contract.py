"""The same story told to the fake and to the real program: the fake does not promise what is not so."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from carillon import APIError, Client
from carillon.testing import Fake

from conftest import Dev, Hook, ended


@dataclasses.dataclass
class World:
    """A Carillon, and something that it can call."""

    client: Client
    now: Callable[[], datetime]
    pass_time: Callable[[float], None]
    url: str
    name: str  # before each name, so that tests do not meet
    settle: Callable[[str], Any]  # waits for a run's end, and returns the run


@pytest.fixture(params=["fake", "real"])
def world(request: pytest.FixtureRequest, hook: Hook) -> Iterator[World]:
    if request.param == "fake":
        fake = Fake()
        fake.on("http://127.0.0.1:1/hook", lambda call: hook.answers.pop(0) if hook.answers else 200)
        with fake.client() as c:

            def settle(id: str) -> Any:
                fake.advance(timedelta(hours=1))
                return c.runs.get(id)

            yield World(c, lambda: fake.now, lambda s: fake.advance(timedelta(seconds=s)), "http://127.0.0.1:1", "f", settle)
        return
    dev: Dev = request.getfixturevalue("dev")
    with dev.client() as c:
        yield World(c, lambda: datetime.now(timezone.utc), lambda s: None, hook.url, f"r{id(hook)}", lambda run: ended(c, run))


def refused(call: Callable[[], Any]) -> tuple[int, str, list[str]]:
    with pytest.raises(APIError) as e:
        call()
    return e.value.status, e.value.kind, sorted(f.location for f in e.value.faults)


def test_a_job_runs_and_is_shown(world: World) -> None:
    job = world.client.jobs.create({"http": {"url": world.url + "/hook"}, "payload": {"n": 1}, "labels": {"team": "x"}})
    run: Any = world.settle(job["id"])
    assert {k: run[k] for k in ("id", "job_id", "state", "trigger", "tenant", "priority", "payload", "labels")} == {
        "id": job["id"],
        "job_id": job["id"],
        "state": "succeeded",
        "trigger": "schedule",
        "tenant": "default",
        "priority": "normal",
        "payload": {"n": 1},
        "labels": {"team": "x"},
    }
    assert [(a["number"], a["outcome"], a["status_code"]) for a in run["attempts"]] == [(1, "succeeded", 200)]
    assert refused(lambda: world.client.jobs.cancel(job["id"])) == (409, "finished", [])
    assert world.client.jobs.get(job["id"])["state"] == "finished"


def test_failures_are_retried_as_the_policy_says(world: World, hook: Hook) -> None:
    hook.answers += [500, 429, 200]
    policy = {"max_attempts": 3, "initial": "1ms", "max": "10ms", "jitter": "none"}
    run: Any = world.settle(world.client.jobs.create({"http": {"url": world.url + "/hook"}, "retry": policy})["id"])
    assert (run["state"], [a["outcome"] for a in run["attempts"]]) == ("succeeded", ["failed", "failed", "succeeded"])
    hook.answers += [404]
    run = world.settle(world.client.jobs.create({"http": {"url": world.url + "/hook"}, "retry": policy})["id"])
    assert (run["state"], run["dead_letter"], len(run["attempts"])) == ("failed", True, 1)
    again = world.client.runs.retry(run["id"])
    assert (again["origin"], again["trigger"]) == (run["id"], "retry") and world.settle(again["id"])["state"] == "succeeded"


def test_keys_make_a_job_once(world: World) -> None:
    body: Any = {"http": {"url": world.url + "/hook"}, "schedule": {"at": world.now() + timedelta(days=2)}}
    job = world.client.jobs.create(body, idempotency_key=world.name + "order-7")
    assert world.client.jobs.create(body, idempotency_key=world.name + "order-7")["id"] == job["id"]
    other = {**body, "payload": 1}
    assert refused(lambda: world.client.jobs.create(other, idempotency_key=world.name + "order-7")) == (422, "key-reused", ["header.Idempotency-Key"])
    assert world.client.jobs.get(job["id"])["next_run"]["id"] == job["id"]
    assert world.client.jobs.cancel(job["id"])["state"] == world.client.jobs.cancel(job["id"])["state"] == "cancelled"
    assert world.client.runs.get(job["id"])["state"] == "cancelled"


def test_every_fault_is_told(world: World) -> None:
    wrong: Any = {"nothing": 1, "http": {"url": "ftp://x"}, "name": "No Name", "schedule": {"every": "soon"}}
    status, kind, locations = refused(lambda: world.client.jobs.create(wrong))
    assert (status, kind) == (422, "invalid")
    assert {"body.nothing", "body.http.url", "body.name", "body.schedule.every"} <= set(locations)
    assert refused(lambda: world.client.jobs.create({"task": "none-such"})) == (422, "no-task", ["body.task"])
    assert refused(lambda: world.client.jobs.get("none-such"))[:2] == (404, "not-found")


def test_a_job_by_interval(world: World) -> None:
    name = world.name + "-poll"
    body: Any = {"http": {"url": world.url + "/hook"}, "schedule": {"every": timedelta(hours=1), "anchor": world.now()}, "jitter": "0s"}
    job = world.client.jobs.create({**body, "name": name, "labels": {"at": world.name}})
    assert refused(lambda: world.client.jobs.create({**body, "name": name}))[:2] == (409, "name-taken")
    assert [j["name"] for j in world.client.jobs.list(label=f"at={world.name}")] == [name]
    assert world.client.jobs.pause(name)["state"] == "paused"
    assert world.client.jobs.resume(name)["state"] == "active"
    run = world.client.jobs.trigger(name)
    assert (run["trigger"], run["job_id"], run["job_name"]) == ("manual", job["id"], name)
    assert world.client.jobs.put(name, {**body, "payload": 2})["payload"] == 2
    assert world.client.jobs.cancel(name)["state"] == "cancelled"


def test_a_job_that_is_only_triggered(world: World) -> None:
    name = world.name + "-by-hand"
    job = world.client.jobs.create({"name": name, "http": {"url": world.url + "/hook"}})
    assert "next_run" not in job
    run: Any = world.settle(world.client.jobs.trigger(name)["id"])
    assert (run["state"], run["job_id"], world.client.jobs.get(name)["state"]) == ("succeeded", job["id"], "active")
    at: Any = {"name": name + "-at", "http": {"url": world.url + "/hook"}, "schedule": {"at": world.now() + timedelta(days=1)}}
    assert refused(lambda: world.client.jobs.create(at)) == (422, "invalid", ["body.name"])
    world.client.jobs.cancel(name)


def test_an_import_says_what_became_of_each_line(world: World) -> None:
    at = world.now() + timedelta(days=2)
    jobs: Any = [
        {"key": world.name + "1", "http": {"url": world.url + "/hook"}, "schedule": {"at": at}},
        {"key": world.name + "2", "http": {"url": "nowhere"}},
        {"http": {"url": world.url + "/hook"}, "schedule": {"at": at}},
    ]
    report = world.client.imports.run(jobs, validate_only=True)
    assert (report.created, report.existing, len(report.failed)) == (0, 2, 1)
    results = {r["line"]: r for r in world.client.imports.create(jobs)}
    assert {n: r["status"] for n, r in results.items()} == {1: 201, 2: 422, 3: 201}
    assert results[2]["error"]["errors"][0]["location"] == "body.http.url"
    again = {r["line"]: r for r in world.client.imports.create(jobs[:1])}
    assert (again[1]["status"], again[1]["id"]) == (200, results[1]["id"])


def test_tasks(world: World) -> None:
    name = world.name + "-task"
    put = world.client.tasks.put(name, {"http": {"url": world.url + "/hook"}, "retry": {"max_attempts": 2}})
    assert (put["name"], put["timeout"], put["guarantee"], put["retry"]) == (
        name,
        "30s",
        "at_least_once",
        {"max_attempts": 2, "initial": "1s", "factor": 2, "max": "10m0s", "jitter": "full"},
    )
    assert world.client.tasks.get(name)["http"]["url"] == world.url + "/hook"
    assert name in [t["name"] for t in world.client.tasks.list()]
    run: Any = world.settle(world.client.jobs.create({"task": name})["id"])
    assert (run["state"], run["task"]) == ("succeeded", name)
    both: Any = {"task": name, "timeout": "1s", "retry": {}, "guarantee": "at_most_once"}
    assert refused(lambda: world.client.jobs.create(both)) == (422, "invalid", ["body.guarantee", "body.retry", "body.timeout"])
    world.client.tasks.delete(name)
    assert refused(lambda: world.client.tasks.get(name))[:2] == (404, "not-found")


def test_events_start_jobs(world: World) -> None:
    name = world.name + ".uploaded"
    world.client.jobs.create({"http": {"url": world.url + "/hook"}, "on": {"event": name}})
    id = world.client.events.publish(name, {"file": 7})
    runs: list[Any] = list(world.client.events.runs(id))
    for _ in range(200):  # planned soon after the event
        if runs:
            break
        world.client._sleep(0.1)
        runs = list(world.client.events.runs(id))
    assert [(r["trigger"], r["payload"]) for r in runs] == [("event", {"file": 7})]
