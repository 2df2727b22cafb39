"""A client of the API: what can be asked for, by noun.

A request that could not be sent, or was refused for now (429, 502, 503, 504), is sent again. That does nothing
twice: whatever creates something has an idempotency key. A call draws its key unless it is given one. A program
that crashes and begins anew must give one, or it may create twice.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast
from urllib.parse import quote

import httpx

from .errors import APIError, Unreachable
from .imports import Imports
from .types import (
    Event,
    Job,
    JobRequest,
    LogLine,
    NextRun,
    Preview,
    PreviewRequest,
    Run,
    Task,
    TaskRequest,
    Workflow,
    WorkflowRequest,
)
from .values import encode, write_instant

MAX_WAIT = 10.0  # seconds between two tries, whatever Retry-After says
MAX_PAGE = 500  # items of one answer of a list
TERMINAL = frozenset({"succeeded", "failed", "cancelled", "missed", "skipped"})  # states of runs that have ended


class Client:
    """Asks a node, or a load balancer before several. One client may be used by many threads.

    `key` is an API key. `tenant` names the tenant where the API asks for no key. `retries` is how often a request
    is sent again after its first try, `timeout` bounds each try, in seconds. `transport` and `sleep` are for tests.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        tenant: str | None = None,
        retries: int = 5,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if tenant:
            headers["Carillon-Tenant"] = tenant
        self._http = httpx.Client(base_url=base_url.rstrip("/") + "/v1/", headers=headers, timeout=timeout, transport=transport)
        self._retries = retries
        self._sleep = sleep
        self.jobs = Jobs(self)
        self.runs = Runs(self)
        self.tasks = Tasks(self)
        self.workflows = Workflows(self)
        self.events = Events(self)
        self.schedules = Schedules(self)
        self.imports = Imports(self)

    @classmethod
    def from_env(cls, **options: Any) -> Client:
        """A client of CARILLON_API (default: http://127.0.0.1:8080) with the key CARILLON_KEY, if there is one."""
        api = os.environ.get("CARILLON_API", "http://127.0.0.1:8080").split(",")[0].strip()
        return cls(api, key=os.environ.get("CARILLON_KEY") or None, **options)

    def close(self) -> None:
        """Lets go of its connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        method: str,
        *path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        has_body: bool = False,
    ) -> httpx.Response:
        """Sends a request until it is answered for good, and returns an answer that is no error. It is public for
        what the package has no method for. Path elements are quoted; a body of None is sent if has_body."""
        if not all(path):
            raise ValueError("a name or an id is empty")
        sent = dict(headers or {})
        if content is None and (body is not None or has_body):
            content = encode(body)
            sent.setdefault("Content-Type", "application/json")
        url = "/".join(quote(p, safe="") for p in path)
        attempt = 0
        while True:
            failure: APIError | Unreachable
            try:
                answer = self._http.request(method, url, params=_stated(query or {}), content=content, headers=sent)
                if answer.is_success:
                    return answer
                failure = APIError.of(answer.status_code, answer.reason_phrase, answer.content, answer.headers.get("Retry-After"))
                if not failure.temporary:
                    raise failure
            except httpx.TransportError as e:
                failure = Unreachable(f"{method} {url}: {e!r}")
                failure.__cause__ = e
            if attempt >= self._retries:
                raise failure
            self._sleep(pause(attempt, getattr(failure, "retry_after", 0.0)))
            attempt += 1

    def get(self, *path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.send("GET", *path, query=query).json()

    def create(self, *path: str, body: Any = None, has_body: bool = False, idempotency_key: str | None = None) -> Any:
        """Sends a POST that creates something, once."""
        return self.send("POST", *path, body=body, has_body=has_body, headers=key_header(idempotency_key)).json()

    def list(self, *path: str, query: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Yields the items of a list, page by page."""
        params: dict[str, Any] = {"limit": MAX_PAGE, **(query or {})}
        while True:
            page = self.get(*path, query=params)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            params["cursor"] = page["next_cursor"]


def key_header(key: str | None) -> dict[str, str]:
    """The header that has something created once: by that key, or by one that is drawn."""
    text = uuid.uuid4().hex if key is None else key
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return {"Idempotency-Key": f'"{escaped}"'}


def pause(attempt: int, retry_after: float) -> float:
    """How long to wait after a try (from 0): 0.1 s doubled each time up to 6.4 s, half of it drawn by lot so that
    clients do not come back together; longer if the answer asks for it; at most MAX_WAIT."""
    backoff = 0.1 * 2 ** min(attempt, 6)
    return float(min(max(backoff / 2 + random.random() * backoff / 2, retry_after), MAX_WAIT))


def _stated(query: Mapping[str, Any]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for name, value in query.items():
        if isinstance(value, datetime):
            value = write_instant(value)
        if value is not None and value != "":
            params[name] = value
    return params


class _Noun:
    def __init__(self, client: Client) -> None:
        self._c = client


class Jobs(_Noun):
    """Where a method takes an id it also takes a name."""

    def create(self, job: JobRequest | Mapping[str, Any], *, idempotency_key: str | None = None) -> Job:
        """Makes a job. Without a schedule, an event or jobs before it, it is due at once."""
        return cast(Job, self._c.create("jobs", body=job, idempotency_key=idempotency_key))

    def put(self, name: str, job: JobRequest | Mapping[str, Any]) -> Job:
        """Creates the job of a name, or replaces what it says. It must be able to have many runs."""
        return cast(Job, self._c.send("PUT", "jobs", name, body=job).json())

    def get(self, id: str) -> Job:
        return cast(Job, self._c.get("jobs", id))

    def patch(self, id: str, patch: Mapping[str, Any]) -> Job:
        """Changes a job by a JSON merge patch (RFC 7396): {"schedule": {"at": tomorrow}}."""
        return cast(Job, self._c.send("PATCH", "jobs", id, body=patch).json())

    def cancel(self, id: str) -> Job:
        """Cancels a job; twice is the same as once. One that has finished is an APIError of the kind "finished"."""
        return cast(Job, self._c.send("DELETE", "jobs", id).json())

    def pause(self, id: str) -> Job:
        return cast(Job, self._c.send("POST", "jobs", id, "pause").json())

    def resume(self, id: str) -> Job:
        return cast(Job, self._c.send("POST", "jobs", id, "resume").json())

    def trigger(self, id: str, *, idempotency_key: str | None = None) -> Run:
        """Runs a job now, besides its schedule, and returns the run."""
        return cast(Run, self._c.create("jobs", id, "trigger", idempotency_key=idempotency_key))

    def list(self, *, state: str = "", label: str = "", name_prefix: str = "") -> Iterator[Job]:
        """Yields the jobs that can have many runs, newest first. One-off jobs are runs: see Runs.list. A label is
        stated as name=value."""
        return self._c.list("jobs", query={"state": state, "label": label, "name_prefix": name_prefix})

    def runs(self, id: str, *, state: str = "", since: datetime | None = None, until: datetime | None = None) -> Iterator[Run]:
        """Yields the runs of a job with since ≤ due < until, the latest due first."""
        return self._c.list("jobs", id, "runs", query={"state": state, "from": since, "to": until})

    def upcoming(self, id: str, count: int = 10, since: datetime | None = None) -> Sequence[NextRun]:
        """Returns the next runs of a job, if it stays as it is: at most count of them, from 1 to 100. They are due after
        since, or after now."""
        return cast("Sequence[NextRun]", self._c.get("jobs", id, "upcoming", query={"count": count, "from": since})["items"])


class Runs(_Noun):
    def get(self, id: str) -> Run:
        """Returns a run with its attempts, and one of a workflow with its steps."""
        return cast(Run, self._c.get("runs", id))

    def list(self, since: datetime, until: datetime, *, state: str = "", task: str = "", job: str = "", label: str = "") -> Iterator[Run]:
        """Yields the runs with since ≤ due < until, in the order of due times. It asks for an hour at a time."""
        hour, at = timedelta(hours=1), since
        while True:
            end = min(at + hour, until)
            yield from self._c.list("runs", query={"from": at, "to": end, "state": state, "task": task, "job": job, "label": label})
            at = end
            if at >= until:
                return

    def cancel(self, id: str) -> Run:
        return cast(Run, self._c.send("POST", "runs", id, "cancel").json())

    def retry(self, id: str, *, idempotency_key: str | None = None) -> Run:
        """Runs a run that has ended again, as a new run, which it returns."""
        return cast(Run, self._c.create("runs", id, "retry", idempotency_key=idempotency_key))

    def skip_step(self, id: str, step: str) -> Run:
        """Has a step of a workflow run not run."""
        return cast(Run, self._c.send("POST", "runs", id, "steps", step, "skip").json())

    def output(self, id: str) -> bytes:
        """Returns the output of the attempt that succeeded, else of the last that has ended."""
        return self._c.send("GET", "runs", id, "output").content

    def logs(self, id: str) -> Iterator[LogLine]:
        """Yields the lines that the run's attempts have logged so far."""
        return self._c.list("runs", id, "logs")

    def wait(self, id: str, timeout: float = 60.0) -> Run:
        """Returns a run once it has ended. It looks every 0.1 s at first, and later every 2 s. After timeout
        seconds of pauses it raises TimeoutError."""
        waited, look = 0.0, 0.1
        while True:
            run = self.get(id)
            if run["state"] in TERMINAL:
                return run
            if waited >= timeout:
                raise TimeoutError(f"run {id} is {run['state']} after {timeout:g} s")
            self._c._sleep(look)
            waited, look = waited + look, min(2 * look, 2.0)


class Tasks(_Noun):
    """Calls with a name, which jobs and steps refer to."""

    def put(self, name: str, task: TaskRequest | Mapping[str, Any]) -> Task:
        return cast(Task, self._c.send("PUT", "tasks", name, body=task).json())

    def get(self, name: str) -> Task:
        return cast(Task, self._c.get("tasks", name))

    def list(self) -> Iterator[Task]:
        return self._c.list("tasks")

    def delete(self, name: str) -> None:
        """Deletes a task: runs to come that name it fail. One that does not exist is deleted already."""
        try:
            self._c.send("DELETE", "tasks", name)
        except APIError as e:
            if e.kind != "not-found":  # as an earlier try may have done
                raise


class Workflows(_Noun):
    """Where a method takes a name it also takes an id."""

    def put(self, name: str, workflow: WorkflowRequest | Mapping[str, Any], *, dry_run: bool = False) -> Workflow:
        """Creates the workflow, or replaces what it says; dry_run changes nothing. A run under way keeps what it
        began with."""
        return cast(Workflow, self._c.send("PUT", "workflows", name, body=workflow, query={"dry_run": "true"} if dry_run else None).json())

    def get(self, name: str) -> Workflow:
        return cast(Workflow, self._c.get("workflows", name))

    def list(self, *, state: str = "", label: str = "", name_prefix: str = "") -> Iterator[Workflow]:
        return self._c.list("workflows", query={"state": state, "label": label, "name_prefix": name_prefix})

    def cancel(self, name: str) -> Workflow:
        """Lets no run of a workflow begin any more; those under way go on."""
        return cast(Workflow, self._c.send("DELETE", "workflows", name).json())

    def pause(self, name: str) -> Workflow:
        return cast(Workflow, self._c.send("POST", "workflows", name, "pause").json())

    def resume(self, name: str) -> Workflow:
        return cast(Workflow, self._c.send("POST", "workflows", name, "resume").json())

    def trigger(self, name: str, payload: Any = None, *, idempotency_key: str | None = None) -> Run:
        """Runs a workflow now, besides its schedule, and returns the run. None: the workflow's own payload."""
        body = {} if payload is None else {"payload": payload}
        return cast(Run, self._c.create("workflows", name, "trigger", body=body, idempotency_key=idempotency_key))

    def runs(self, name: str, *, state: str = "", since: datetime | None = None, until: datetime | None = None) -> Iterator[Run]:
        return self._c.list("workflows", name, "runs", query={"state": state, "from": since, "to": until})


class Events(_Noun):
    def publish(self, name: str, body: Any = None, *, idempotency_key: str | None = None) -> str:
        """Publishes an event, and returns its id once it is durable. The body is the payload of the runs that the
        event starts."""
        return str(self._c.create("events", name, body=body, has_body=True, idempotency_key=idempotency_key)["id"])

    def list(self, since: datetime, until: datetime, *, name: str = "") -> Iterator[Event]:
        """Yields the events that were accepted in a window, in that order. It asks for an hour at a time."""
        hour, at = timedelta(hours=1), since
        while True:
            end = min(at + hour, until)
            yield from self._c.list("events", query={"from": at, "to": end, "name": name})
            at = end
            if at >= until:
                return

    def runs(self, id: str) -> Iterator[Run]:
        """Yields the runs that an event started. They are planned soon after the event: at first there may be none."""
        return self._c.list("runs", query={"event": id})


class Schedules(_Noun):
    def preview(self, request: PreviewRequest | Mapping[str, Any]) -> Preview:
        """Returns the times of a schedule, in words and as instants. Nothing is created."""
        return cast(Preview, self._c.send("POST", "schedules", "preview", body=request).json())
