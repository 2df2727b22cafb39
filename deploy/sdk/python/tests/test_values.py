from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Literal

import pytest

from carillon import JobType, PayloadError, instant, span
from carillon.values import encode, write_instant, write_span


def test_instants_are_read_and_written() -> None:
    at = instant("2026-11-21T09:30:00.125Z")
    assert at == datetime(2026, 11, 21, 9, 30, 0, 125000, tzinfo=timezone.utc)
    assert write_instant(at.astimezone(timezone(timedelta(hours=2)))) == "2026-11-21T09:30:00.125000Z"
    with pytest.raises(ValueError, match="without a time zone"):
        write_instant(datetime(2026, 11, 21))


@pytest.mark.parametrize(
    ("text", "seconds"), [("1m30s", 90), ("1h0m0.5s", 3600.5), ("250ms", 0.25), ("10µs", 1e-5), ("0", 0), ("0s", 0), ("-2s", -2)]
)
def test_spans_are_read(text: str, seconds: float) -> None:
    assert span(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "1d", "s", "1m 30s"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ValueError):
        span(text)


def test_spans_are_written() -> None:
    for d in (timedelta(seconds=90), timedelta(days=3), timedelta(microseconds=1500), timedelta(seconds=-1)):
        assert span(write_span(d)) == d


def test_json_holds_times_spans_and_dataclasses() -> None:
    said = encode({"at": datetime(2026, 1, 1, tzinfo=timezone.utc), "every": timedelta(minutes=15), "payload": Email("ä@example.com")})
    assert said.decode() == '{"at":"2026-01-01T00:00:00Z","every":"900s","payload":{"to":"ä@example.com","tags":[],"kind":"plain","copy":null}}'


@dataclass
class Email:
    to: str
    tags: list[str] = field(default_factory=list)
    kind: Literal["plain", "html"] = "plain"
    copy: Email | None = None


EMAIL = JobType("send-email", Email, subject="work.email")


def test_a_typed_job_is_a_request() -> None:
    at = datetime(2030, 1, 1, tzinfo=timezone.utc)
    assert EMAIL.job(Email("a"), at=at, labels={"team": "x"}) == {
        "task": "send-email",
        "payload": Email("a"),
        "schedule": {"at": at},
        "labels": {"team": "x"},
    }
    assert EMAIL.job(
        Email("a"),
        unique={"by": ["payload/to"], "window": timedelta(hours=1)},
        concurrency={"limit": 1, "key": "/to"},
        priority="low",
        preemptible=True,
        name="mails",
    ) == {
        "task": "send-email",
        "payload": Email("a"),
        "unique": {"by": ["payload/to"], "window": timedelta(hours=1)},
        "concurrency": {"limit": 1, "key": "/to"},
        "priority": "low",
        "preemptible": True,
        "name": "mails",
    }
    with pytest.raises(TypeError, match="not Email"):
        EMAIL.job({"to": "a"})  # type: ignore[arg-type]


def test_a_payload_is_read_as_its_type() -> None:
    assert EMAIL.read({"to": "a", "tags": ["x"], "copy": {"to": "b"}}) == Email("a", ["x"], "plain", Email("b"))
    assert EMAIL.read({"to": "a", "what is new": 1}) == Email("a")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "must be an object"),
        ({}, "to"),
        ({"to": 1}, "send-email.to: must be str, is int"),
        ({"to": "a", "tags": ["x", 1]}, "send-email.tags[1]: must be str"),
        ({"to": "a", "kind": "odd"}, "must be one of"),
        ({"to": "a", "copy": {"to": 2}}, "send-email.copy"),
    ],
)
def test_a_payload_of_another_type_is_told(value: object, says: str) -> None:
    with pytest.raises(PayloadError) as e:
        EMAIL.read(value)
    assert says in str(e.value)
