"""A test kit: a Carillon in memory whose clock the test advances, and a way to run one handler of a worker.

    fake = Fake()
    fake.on("https://example.com/hook", lambda call: 200)
    shop = Shop(fake.client())              # what is tested
    shop.order(7)                           # has a reminder be sent in two days
    fake.advance(timedelta(days=2))
    assert fake.calls[-1].payload == {"order": 7}

What it models: tasks, one-off jobs, jobs by interval (every, anchor, start, end, max_runs), names, idempotency keys,
imports, cancel, pause, resume, trigger, retry; calls over HTTP and to workers, with their outcomes, retries by policy
(without jitter), dead letters and outputs; events and the jobs that run on them.

What it does not model it refuses with 501 and the kind "not-modelled", and never pretends: cron, workflows, jobs after
jobs, several schedules, unique, concurrency, filters of events, scripts, functions, mails, operations. Handlers take no
time, so there are no time-outs, rates and limits are not enforced, nothing is pre-empted, and nothing is late. Keys
never expire. Whoever needs to know more tests against `carillon dev`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import json
import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

import httpx

from .client import TERMINAL, Client
from .jobs import JobType
from .types import JobRequest, TaskRequest
from .values import encode, instant, span
from .worker import Final, Handler, RetryAfter, Run, call, outcome, output_of

__all__ = ["Call", "Fake", "Final", "Handled", "RetryAfter", "run_handler"]

EPOCH = datetime(2030, 1, 1, tzinfo=timezone.utc)
RETRY = {"max_attempts": 5, "initial": "1s", "factor": 2, "max": "10m0s", "jitter": "full"}
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
MAX_PAYLOAD = 64 << 10
MESSAGES = ("jetstream", "kafka", "sqs", "sns", "eventbridge", "step_functions")
WORK = ("task", "http", "nats", "script", "lambda", "email", *MESSAGES)
NOT_MODELLED = ("after", "concurrency", "durability", "email", "lambda", "pause_on_failure", "region", "schedules", "script", "unique", *MESSAGES)
SUCCESS, RETRIED = range(200, 300), (408, 425, 429)


@dataclasses.dataclass(frozen=True)
class Call:
    """One attempt, as what is called sees it."""

    target: str  # the URL, or the subject
    payload: Any
    run_id: str
    job_id: str
    attempt: int
    due: datetime
    at: datetime
    headers: dict[str, str]


class _Problem(Exception):
    def __init__(self, status: int, kind: str, title: str, faults: list[dict[str, Any]] | None = None, retry_after: int = 0) -> None:
        self.status, self.kind, self.title, self.faults, self.retry_after = status, kind, title, faults, retry_after

    def body(self) -> dict[str, Any]:
        problem: dict[str, Any] = {"type": "urn:carillon:problem:" + self.kind, "title": self.title, "status": self.status}
        if self.faults:
            problem["errors"] = self.faults
        return problem


def _invalid(*faults: tuple[str, str]) -> _Problem:
    return _Problem(422, "invalid", "The request is not valid", [{"location": where, "message": what} for where, what in faults])


def _not_modelled(what: str) -> _Problem:
    return _Problem(501, "not-modelled", f"The fake does not model this: {what}")


def _not_found() -> _Problem:
    return _Problem(404, "not-found", "It does not exist")


def _text(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclasses.dataclass
class _Job:
    id: str
    body: dict[str, Any]
    created: datetime
    updated: datetime
    many: bool  # it can have many runs
    state: str = "active"
    generation: int = 1
    count: int = 0  # runs by schedule so far
    next: datetime | None = None


@dataclasses.dataclass
class _Run:
    id: str
    job: _Job
    due: datetime
    trigger: str
    payload: Any
    state: str = "pending"
    attempts: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    next_try: datetime | None = None
    started: datetime | None = None
    finished: datetime | None = None
    output: bytes = b""
    dead: bool = False
    origin: str = ""
    event: str = ""


class Fake:
    """A Carillon in memory, of one tenant. `calls` are the attempts so far; `events` those that were published."""

    def __init__(self, now: datetime = EPOCH) -> None:
        self._lock = threading.RLock()
        self._now = now
        self._n = 0
        self._handlers: dict[str, Callable[[Call], Any]] = {}
        self._failures: list[tuple[int, int]] = []
        self._tasks: dict[str, dict[str, Any]] = {}
        self._jobs: dict[str, _Job] = {}
        self._runs: dict[str, _Run] = {}
        self._keys: dict[str, tuple[bytes, httpx.Response]] = {}
        self._lines: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.calls: list[Call] = []
        self.events: list[dict[str, Any]] = []
        self.transport = httpx.MockTransport(self._serve)

    def client(self, **options: Any) -> Client:
        """A client of it. Its pauses advance the clock, and take no time."""
        return Client("http://fake", transport=self.transport, sleep=lambda s: self.advance(timedelta(seconds=s)), **options)

    @property
    def now(self) -> datetime:
        return self._now

    def on(self, target: str | JobType[Any], handler: Callable[[Call], Any]) -> None:
        """Has handler answer the calls of a URL or a subject. For a URL it returns a status, a status and a body, or
        None for 200. For a subject it returns the output, or raises as a handler of a worker does. What raises
        anything else has failed, and is tried again. Calls of what nobody answers fail, too."""
        self._handlers[target.subject if isinstance(target, JobType) else target] = handler

    def refuse_next(self, times: int = 1, status: int = 503, retry_after: int = 0) -> None:
        """Has the next requests be refused before they do anything."""
        self._failures += [(status, retry_after)] * times

    def advance(self, d: timedelta) -> None:
        """Moves the clock on, and runs what falls due meanwhile, in the order of time."""
        self.advance_to(self._now + d)

    def advance_to(self, at: datetime) -> None:
        with self._lock:
            while True:
                due = [(r.next_try or r.due, r.id, r) for r in self._runs.values() if r.state in ("pending", "retrying")]
                when, _, run = min(due, key=lambda d: d[:2], default=(at, "", None))
                if run is None or when > at:
                    break
                self._now = max(self._now, when)
                self._attempt(run)
            self._now = max(self._now, at)

    def settle(self) -> None:
        """Runs what is due now."""
        self.advance(timedelta())

    # What runs.

    def _attempt(self, run: _Run) -> None:
        spec = self._work(run.job.body)
        run.started = run.started or self._now
        number = len(run.attempts) + 1
        attempt: dict[str, Any] = {"number": number, "executor": "fake", "started_at": _text(self._now), "finished_at": _text(self._now)}
        run.attempts.append(attempt)
        run.state, run.next_try = "running", None
        if number == 1 and run.trigger == "schedule" and run.job.many:
            self._plan(run.job)
        error, final, wait = self._call(run, spec, number, attempt)
        if error is None:
            attempt["outcome"], run.state, run.finished = "succeeded", "succeeded", self._now
        else:
            attempt["outcome"], attempt["error"] = "failed", error
            policy = {**RETRY, **spec.get("retry", {})}
            once = spec.get("guarantee") == "at_most_once"
            if run.state == "cancelled":  # by the handler
                attempt["outcome"] = "cancelled"
            elif final or once or number >= policy["max_attempts"]:
                run.state, run.dead, run.finished = "failed", True, self._now
            else:
                pause = min(span(policy["initial"]) * policy["factor"] ** (number - 1), span(policy["max"]))
                run.state, run.next_try = "retrying", self._now + max(pause, timedelta(seconds=wait))
        if run.state in TERMINAL and not run.job.many and run.job.id == run.id:
            run.job.state = "finished"

    def _call(self, run: _Run, spec: dict[str, Any], number: int, attempt: dict[str, Any]) -> tuple[str | None, bool, float]:
        http = spec.get("http")
        target = http["url"] if http else spec["nats"]["subject"]
        headers = {"Carillon-Run-Id": run.id, "Carillon-Job-Id": run.job.id, "Carillon-Attempt": str(number), "Idempotency-Key": run.id}
        made = Call(
            target, run.payload, run.id, run.job.id, number, run.due, self._now, {**(http or {}).get("headers", {}), **headers}
        )
        self.calls.append(made)
        handler = self._handlers.get(target)
        if handler is None:
            return ("connection refused" if http else "no worker") + " (the fake has no handler for it)", False, 0
        try:
            result = handler(made)
            if not http:
                run.output = output_of(result)
                attempt["output"] = run.output.decode(errors="replace")[:2048]
                return None, False, 0
            status, said = result if isinstance(result, tuple) else (200 if result is None else result, None)
        except Final as e:
            return str(e), True, 0
        except RetryAfter as e:
            return str(e), False, e.seconds
        except Exception as e:  # noqa: BLE001 -- a failure of what is called
            return f"{type(e).__name__}: {e}", False, 0
        attempt["status_code"], run.output = status, output_of(said)
        attempt["output"] = run.output.decode(errors="replace")[:2048]
        if status in SUCCESS:
            return None, False, 0
        return f"status {status}", 400 <= status < 500 and status not in RETRIED, 0

    def _work(self, body: dict[str, Any]) -> dict[str, Any]:
        """What a job calls, by what its task says now."""
        task = self._tasks.get(body.get("task", ""), {})
        return {**{k: v for k, v in task.items() if k in ("http", "nats", "retry", "guarantee")}, **body}

    def _id(self) -> str:
        self._n += 1
        return f"{self._n:08x}-0000-7000-8000-{self._n:012x}"

    def _add_run(self, job: _Job, due: datetime, trigger: str, payload: Any, **more: Any) -> _Run:
        run = _Run(job.id if not job.many and trigger == "schedule" else self._id(), job, due, trigger, payload, **more)
        self._runs[run.id] = run
        return run

    def _plan(self, job: _Job) -> None:
        """Plans the next run of a job by interval."""
        schedule, body = job.body.get("schedule", {}), job.body
        job.next = None
        if "every" not in schedule or job.state != "active" or job.count >= body.get("max_runs", 1 << 62):
            return
        every = span(schedule["every"])
        anchor = instant(schedule["anchor"]) if "anchor" in schedule else job.created
        first = max(self._now, instant(body["start"]) - timedelta(microseconds=1)) if "start" in body else self._now
        due = anchor + ((first - anchor) // every + 1) * every
        if "end" in body and due >= instant(body["end"]):
            return
        job.count, job.next = job.count + 1, due
        self._add_run(job, due, "schedule", body.get("payload"))

    # What is answered.

    def _serve(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            try:
                if self._failures:
                    status, wait = self._failures.pop(0)
                    raise _Problem(status, "not-ready", "The fake was told to refuse this", retry_after=wait)
                return self._answer(request)
            except _Problem as p:
                headers = {"Content-Type": "application/problem+json"}
                if p.retry_after:
                    headers["Retry-After"] = str(p.retry_after)
                return httpx.Response(p.status, headers=headers, content=encode(p.body()))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = [unquote(part) for part in request.url.raw_path.decode().split("?")[0].strip("/").split("/")][1:]
        query, method = request.url.params, request.method
        key = request.headers.get("Idempotency-Key", "").strip('"')
        if path == ["imports"] and method == "POST":
            return self._import(request)
        body = self._json(request.content) if request.content else None
        known = self._keys.get(key) if key else None
        mark = encode([method, path, body])
        if known is not None:
            if known[0] != mark:
                raise _Problem(422, "key-reused", "The idempotency key was used before", [{"location": "header.Idempotency-Key", "message": "came with another request"}])
            return httpx.Response(known[1].status_code, headers={"Idempotency-Replayed": "true"}, content=known[1].content)
        status, said = self._route(method, path, query, body)
        answer = httpx.Response(status, content=encode(said) if not isinstance(said, bytes) else said)
        if key:
            self._keys[key] = (mark, answer)
        return answer

    def _json(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except ValueError:
            raise _Problem(400, "not-json", "The body is not JSON") from None

    def _route(self, method: str, path: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        noun, rest = path[0], path[1:]
        handler = getattr(self, f"_{noun.replace('-', '_')}_{method.lower()}", None)
        if handler is None:
            raise _not_modelled(f"{method} /v1/{'/'.join(path)}")
        answer: tuple[int, Any] = handler(rest, query, body)
        return answer

    def _page(self, items: list[Any], query: httpx.QueryParams) -> tuple[int, Any]:
        limit, start = int(query.get("limit", 50)), int(query.get("cursor", 0))
        page: dict[str, Any] = {"items": items[start : start + limit]}
        if start + limit < len(items):
            page["next_cursor"] = str(start + limit)
        return 200, page

    # Tasks.

    def _tasks_put(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        faults = [("path.name", "must be a name")] if not NAME.match(rest[0]) else []
        faults += self._unknown(body, TaskRequest)
        if faults:
            raise _invalid(*faults)
        self._modelled(body)
        kept = {k: v for k, v in body.items() if v is not None}
        if sum(w in kept for w in WORK[1:]) != 1:
            raise _invalid(("body", "must have exactly one of http, nats, script, lambda, email and a message"))
        existed = rest[0] in self._tasks
        times = {"created_at": self._tasks.get(rest[0], {}).get("created_at", _text(self._now)), "updated_at": _text(self._now)}
        kept = {"name": rest[0], "timeout": "30s", "guarantee": "at_least_once", **kept, "retry": {**RETRY, **kept.get("retry", {})}, **times}
        self._tasks[rest[0]] = kept
        return 200 if existed else 201, kept

    def _tasks_get(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        if not rest:
            return self._page([self._tasks[name] for name in sorted(self._tasks)], query)
        if rest[0] not in self._tasks:
            raise _not_found()
        return 200, self._tasks[rest[0]]

    def _tasks_delete(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        if self._tasks.pop(rest[0], None) is None:
            raise _not_found()
        return 204, b""

    # Jobs.

    def _unknown(self, body: Any, kind: Any) -> list[tuple[str, str]]:
        if not isinstance(body, dict):
            return [("body", "must be an object")]
        return [(f"body.{name}", "is not known") for name in sorted(set(body) - set(kind.__annotations__))]

    def _modelled(self, body: dict[str, Any]) -> None:
        for name in NOT_MODELLED:
            if body.get(name) is not None:
                raise _not_modelled(name)
        for name in ("calendar", "cron", "exclude"):
            if name in (body.get("schedule") or {}):
                raise _not_modelled(f"schedule.{name}")
        if "filter" in (body.get("on") or {}) or "delay" in (body.get("on") or {}):
            raise _not_modelled("on.filter, on.delay")

    def _check_job(self, body: Any, line: bool = False) -> dict[str, Any]:
        faults = self._unknown(body, JobRequest)
        if not isinstance(body, dict):
            raise _invalid(*faults)
        body = {k: v for k, v in body.items() if v is not None}
        if "key" in body and not line:
            faults.append(("body.key", "is for lines of imports; a request has the header Idempotency-Key"))
        schedule = body.get("schedule", {})
        many = "at" not in schedule
        if sum(w in body for w in WORK) != 1:
            faults.append(("body", "must have exactly one of task, http, nats, script, lambda, email and a message"))
        faults += [
            (f"body.{name}", "belongs to the task: it cannot be stated beside one")
            for name in ("timeout", "retry", "guarantee")
            if "task" in body and name in body
        ]
        if "http" in body and not str(body["http"].get("url", "")).startswith(("http://", "https://")):
            faults.append(("body.http.url", "must be an absolute http or https URL"))
        if "name" in body and not NAME.match(str(body["name"])):
            faults.append(("body.name", "must be a name"))
        elif "name" in body and not many:
            faults.append(("body.name", "is for jobs that can have many runs"))
        if len(encode(body.get("payload"))) > MAX_PAYLOAD:
            faults.append(("body.payload", f"must be at most {MAX_PAYLOAD} bytes"))
        for where, holder, read in (
            ("schedule.at", schedule.get("at"), instant),
            ("schedule.anchor", schedule.get("anchor"), instant),
            ("schedule.every", schedule.get("every"), span),
            ("start", body.get("start"), instant),
            ("end", body.get("end"), instant),
        ):
            try:
                if holder is not None:
                    read(holder)
            except (ValueError, TypeError, AttributeError):
                faults.append((f"body.{where}", "is not valid"))
        if faults:
            raise _invalid(*faults)
        self._modelled(body)
        if "task" in body and body["task"] not in self._tasks:
            raise _Problem(422, "no-task", "The request is not valid", [{"location": "body.task", "message": "does not exist"}])
        return dict(body)

    def _make_job(self, body: dict[str, Any]) -> _Job:
        schedule = body.get("schedule", {})
        many = "every" in schedule or "on" in body or ("name" in body and "at" not in schedule)
        if body.get("name") and any(j.body.get("name") == body["name"] and j.state != "cancelled" for j in self._jobs.values()):
            raise _Problem(409, "name-taken", "The name is taken")
        job = _Job(self._id(), {k: v for k, v in body.items() if k != "key"}, self._now, self._now, many)
        self._jobs[job.id] = job
        if many:
            self._plan(job)
        else:
            due = max(instant(schedule["at"]), self._now) if "at" in schedule else self._now
            self._add_run(job, due, "schedule", body.get("payload"))
        return job

    def _job(self, id: str) -> _Job:
        if id in self._jobs:
            return self._jobs[id]
        for job in self._jobs.values():
            if job.body.get("name") == id and job.state != "cancelled":
                return job
        raise _not_found()

    def _show_job(self, job: _Job) -> dict[str, Any]:
        work = self._work(job.body)
        shown: dict[str, Any] = {"priority": "normal", "schedule": {}, "misfire": {"policy": "run_latest" if job.many else "run_all"}}
        if "task" not in job.body:
            shown |= {"timeout": "30s", "guarantee": "at_least_once", "retry": {**RETRY, **work.get("retry", {})}}
        shown |= {k: v for k, v in job.body.items() if k != "retry"}
        shown |= {"id": job.id, "tenant": "default", "state": job.state, "generation": job.generation}
        shown |= {"created_at": _text(job.created), "updated_at": _text(job.updated)}
        if not job.many and job.id in self._runs:
            shown["schedule"] = {"at": _text(self._runs[job.id].due)}
        coming = [r for r in self._runs.values() if r.job is job and r.state == "pending" and r.trigger == "schedule"]
        if coming and job.state == "active":
            shown["next_run"] = {"id": coming[0].id, "nominal_at": _text(coming[0].due), "due_at": _text(coming[0].due)}
        return shown

    def _jobs_post(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        if not rest:
            return 201, self._show_job(self._make_job(self._check_job(body)))
        job, act = self._job(rest[0]), rest[1]
        if act == "trigger":
            return 201, self._show_run(self._add_run(job, self._now, "manual", job.body.get("payload")))
        if act not in ("pause", "resume") or not job.many:
            raise _not_modelled(f"{act} of this job")
        if job.state not in ("active", "paused"):
            raise _Problem(409, "finished", "It cannot be changed any more")
        if act == "pause" and job.state == "active":
            self._drop(job)
            job.state, job.updated = "paused", self._now
        elif act == "resume" and job.state == "paused":
            job.state, job.updated = "active", self._now
            self._plan(job)
        return 200, self._show_job(job)

    def _drop(self, job: _Job) -> None:
        """Has what was planned of a job not run."""
        for run in [r for r in self._runs.values() if r.job is job and r.state == "pending" and r.trigger == "schedule"]:
            if job.many:
                del self._runs[run.id]
                job.count -= 1
            else:
                run.state, run.finished = "cancelled", self._now

    def _jobs_put(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        body = self._check_job({**body, "name": rest[0]} if isinstance(body, dict) else body)
        try:
            job = self._job(rest[0])
        except _Problem:
            return 201, self._show_job(self._make_job(body))
        self._drop(job)
        job.body, job.updated, job.generation = body, self._now, job.generation + 1
        self._plan(job)
        return 200, self._show_job(job)

    def _jobs_get(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        if not rest:
            jobs = [
                j
                for j in reversed(self._jobs.values())
                if j.many
                and query.get("state", j.state) == j.state
                and j.body.get("name", "").startswith(query.get("name_prefix", ""))
                and ("label" not in query or query["label"] in [f"{k}={v}" for k, v in j.body.get("labels", {}).items()])
            ]
            return self._page([self._show_job(j) for j in jobs], query)
        job = self._job(rest[0])
        if rest[1:] == ["runs"]:
            runs = sorted((r for r in self._runs.values() if r.job is job), key=lambda r: r.due, reverse=True)
            return self._page([self._show_run(r) for r in runs if query.get("state", r.state) == r.state], query)
        if rest[1:]:
            raise _not_modelled("/".join(rest[1:]))
        return 200, self._show_job(job)

    def _jobs_delete(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        job = self._job(rest[0])
        if job.state == "cancelled":
            return 200, self._show_job(job)
        if job.state == "finished" or not job.many and self._runs[job.id].state != "pending":
            raise _Problem(409, "finished", "It cannot be changed any more")
        self._drop(job)
        job.state, job.updated = "cancelled", self._now
        return 200, self._show_job(job)

    # Runs.

    def _show_run(self, run: _Run) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": run.id,
            "job_id": run.job.id,
            "tenant": "default",
            "state": run.state,
            "priority": run.job.body.get("priority", "normal"),
            "nominal_at": _text(run.due),
            "due_at": _text(run.due),
            "trigger": run.trigger,
            "attempts": run.attempts,
        }
        for name, value in (
            ("job_name", run.job.body.get("name")),
            ("task", run.job.body.get("task")),
            ("labels", run.job.body.get("labels")),
            ("origin", run.origin),
            ("payload", run.payload),
            ("started_at", run.started and _text(run.started)),
            ("finished_at", run.finished and _text(run.finished)),
            ("next_attempt_at", run.next_try and _text(run.next_try)),
            ("dead_letter", run.dead),
            ("lateness_ms", 0 if run.started else None),
        ):
            if value or value == 0 and value is not False:
                shown[name] = value
        return shown

    def _run(self, id: str) -> _Run:
        if id not in self._runs:
            raise _not_found()
        return self._runs[id]

    def _runs_get(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        if rest:
            run = self._run(rest[0])
            return (200, run.output) if rest[1:] == ["output"] else (200, self._show_run(run))
        if "event" in query:
            runs = [r for r in self._runs.values() if r.event == query["event"]]
        elif "from" in query and "to" in query:
            since, until = instant(query["from"]), instant(query["to"])
            runs = sorted((r for r in self._runs.values() if since <= r.due < until), key=lambda r: (r.due, r.id))
        else:
            raise _invalid(("query.from", "must be stated"), ("query.to", "must be stated"))
        wanted = [
            r
            for r in runs
            if query.get("state", r.state) == r.state
            and query.get("task", r.job.body.get("task")) == r.job.body.get("task")
            and query.get("job", r.job.id) in (r.job.id, r.job.body.get("name"))
        ]
        return self._page([self._show_run(r) for r in wanted], query)

    def _runs_post(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        run = self._run(rest[0])
        if rest[1:] == ["cancel"]:
            if run.state == "cancelled":
                return 200, self._show_run(run)
            if run.state in TERMINAL:
                raise _Problem(409, "finished", "It cannot be changed any more")
            run.state, run.finished, run.next_try = "cancelled", self._now, None
            if run.job.many and run.trigger == "schedule" and not run.attempts:
                self._plan(run.job)
            elif run.job.id == run.id:
                run.job.state = "cancelled"
            return 200, self._show_run(run)
        if rest[1:] == ["retry"]:
            if run.state not in TERMINAL:
                raise _Problem(409, "not-finished", "It has not ended")
            return 201, self._show_run(self._add_run(run.job, self._now, "retry", run.payload, origin=run.id))
        raise _not_modelled("/".join(rest[1:]))

    # Events and imports.

    def _events_post(self, rest: list[str], query: httpx.QueryParams, body: Any) -> tuple[int, Any]:
        event = {"id": self._id(), "name": rest[0], "body": body, "at": _text(self._now)}
        self.events.append(event)
        for job in list(self._jobs.values()):
            if job.state == "active" and job.body.get("on", {}).get("event") == rest[0]:
                self._add_run(job, self._now, "event", body, event=event["id"])
        return 202, {"id": event["id"]}

    def _import(self, request: httpx.Request) -> httpx.Response:
        content = gzip.decompress(request.content) if request.headers.get("Content-Encoding") == "gzip" else request.content
        write = request.url.params.get("validate_only") != "true"
        out: list[Any] = []
        counts = {"lines": 0, "created": 0, "existing": 0, "failed": 0}
        for number, text in enumerate(content.split(b"\n"), 1):
            if not text.strip():
                continue
            counts["lines"] += 1
            try:
                body = self._check_job(self._json(text), line=True)
                what, line = self._line(body, write)
                counts[what] += 1
                out.append({"line": number, "status": 201 if what == "created" else 200, **({"id": line} if line else {})})
            except _Problem as p:
                counts["failed"] += 1
                out.append({"line": number, "status": p.status, "error": p.body()})
        out.append({"summary": counts})
        return httpx.Response(200, content=b"\n".join(encode(o) for o in out) + b"\n")

    def _line(self, body: dict[str, Any], write: bool) -> tuple[str, str]:
        if not write:
            return "existing", ""
        key = (body.get("key", ""), body.get("schedule", {}).get("at", ""))
        mark = encode(body)
        if key[0] and key in self._lines:
            known, id = self._lines[key]
            if known != mark:
                raise _Problem(422, "key-reused", "The idempotency key was used before")
            return "existing", id
        id = self._make_job(body).id
        if key[0]:
            self._lines[key] = (mark, id)
        return "created", id


@dataclasses.dataclass
class Handled:
    """What a handler did with one attempt."""

    output: bytes = b""
    error: str = ""
    final: bool = False
    retry_after: float = 0.0
    log: list[str] = dataclasses.field(default_factory=list)
    progress: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def value(self) -> Any:
        """The output, read as JSON; None if there is none."""
        return json.loads(self.output) if self.output else None


class _Deaf:
    """Takes what a handler says, and keeps it."""

    def __init__(self, handled: Handled) -> None:
        self._h = handled

    async def say(self, word: str, body: bytes = b"") -> None:
        self._h.log += body.decode(errors="replace").splitlines()

    def progress(self, said: dict[str, Any]) -> None:
        self._h.progress.append(said)


async def run_handler(
    handler: Handler, payload: Any = None, *, kind: JobType[Any] | None = None, attempt: int = 1, run_id: str = "00000001-0000-7000-8000-000000000001"
) -> Handled:
    """Runs one attempt by a handler of a worker, without NATS. What it says back is as the executor would hear it."""
    headers = {"Carillon-Run-Id": run_id, "Carillon-Attempt": str(attempt), "Carillon-Fence": str(attempt), "Carillon-Due-At": _text(EPOCH)}
    run: Run[Any] = Run(headers, b"" if payload is None else encode(payload), kind.subject if kind else "")
    handled = Handled()
    run._talk = _Deaf(handled)  # type: ignore[assignment]
    result, error = None, None
    try:
        result = await call(handler, kind, run)
    except (Exception, asyncio.CancelledError) as e:  # noqa: BLE001 -- as a worker does
        error = e
    handled.output, said = outcome(result, error)
    handled.error, handled.final = said.get("Carillon-Error", ""), "Carillon-Error-Final" in said
    handled.retry_after = float(said.get("Carillon-Retry-After", 0))
    return handled
