"""Typed jobs: a task together with the type of its payload, so that who creates a job and who runs it agree.

    @dataclass
    class Email:
        to: str
        subject: str = ""

    send_email = JobType("send-email", Email, subject="work.email")

    client.jobs.create(send_email.job(Email(to="a@example.com"), at=tomorrow))

    @worker.handle(send_email)
    async def send(run: Run[Email]) -> dict[str, int]:
        ...  # run.payload is an Email
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from datetime import datetime
from types import UnionType
from typing import Any, Generic, TypeVar, cast

from .types import Concurrency, JobRequest, UniqueRequest

P = TypeVar("P")
Priority = typing.Literal["critical", "high", "normal", "low"]


class PayloadError(ValueError):
    """A payload is not of its type. A worker answers it as a final failure: it will be no other at the next attempt."""


class JobType(Generic[P]):
    """A task and the type of its payload: a dataclass, or anything that `read` makes of JSON.

    `task` names the task. `subject` is that of its calls, if a worker runs them; the task must be put with
    {"nats": {"subject": …}} once.
    """

    def __init__(self, task: str, payload: type[P], *, subject: str = "", read: typing.Callable[[Any], P] | None = None) -> None:
        self.task = task
        self.payload = payload
        self.subject = subject
        self._read = read

    def job(
        self,
        payload: P,
        *,
        at: datetime | None = None,
        unique: UniqueRequest | None = None,
        concurrency: Concurrency | None = None,
        priority: Priority | None = None,
        preemptible: bool | None = None,
        labels: Mapping[str, str] | None = None,
        **more: Any,
    ) -> JobRequest:
        """Returns a job of the task. `more` is any other field of a job: name, schedule, misfire, key … (retry,
        timeout and guarantee are the task's).

            unique={"by": ["payload/customer/id"], "window": timedelta(hours=1)}   one such job an hour
            concurrency={"limit": 1, "key": "/customer/id"}   one run at once of each customer (recurring jobs)
            priority="low", preemptible=True   a critical run may take its slot
        """
        if not isinstance(payload, typing.get_origin(self.payload) or self.payload):
            raise TypeError(f"the payload of {self.task} is {type(payload).__name__}, not {self.payload.__name__}")
        job: dict[str, Any] = {"task": self.task, "payload": payload, **more}
        stated = {"unique": unique, "concurrency": concurrency, "priority": priority, "preemptible": preemptible, "labels": labels}
        job.update({name: value for name, value in stated.items() if value is not None})
        if at is not None:
            job["schedule"] = {"at": at}
        return cast(JobRequest, job)

    def read(self, value: Any) -> P:
        """Makes a payload of what JSON holds, or raises PayloadError."""
        if self._read is not None:
            try:
                return self._read(value)
            except (TypeError, ValueError, KeyError) as e:
                raise PayloadError(f"payload of {self.task}: {e}") from e
        return cast(P, _read(self.payload, value, self.task))


def _read(kind: Any, value: Any, where: str) -> Any:
    """Makes a value of a type: dataclasses of objects, with their fields checked; lists, dicts and unions of such."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise PayloadError(f"{where}: must be an object")
        hints = typing.get_type_hints(kind)
        read = {f.name: _read(hints[f.name], value[f.name], f"{where}.{f.name}") for f in dataclasses.fields(kind) if f.name in value}
        try:
            return cast(Any, kind)(**read)
        except TypeError as e:  # a field is missing
            raise PayloadError(f"{where}: {e}") from e
    if origin is list and isinstance(value, list):
        return [_read(args[0], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if origin is dict and isinstance(value, Mapping):
        return {k: _read(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if origin is typing.Literal:
        if value in args:
            return value
        raise PayloadError(f"{where}: must be one of {args}")
    if origin is typing.Union or origin is UnionType:
        for one in args:
            try:
                return _read(one, value, where)
            except PayloadError:
                continue
    elif kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    elif kind is datetime and isinstance(value, str):
        from .values import instant

        try:
            return instant(value)
        except ValueError as e:
            raise PayloadError(f"{where}: {e}") from e
    elif isinstance(kind, type) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool) or kind is object):
        return value
    raise PayloadError(f"{where}: must be {getattr(kind, '__name__', kind)}, is {type(value).__name__}")
