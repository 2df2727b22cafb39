"""How the API writes times, durations, and references in workflows."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ns|us|µs|ms|s|m|h)")


def instant(text: str) -> datetime:
    """Reads a time of an answer; it is in UTC."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def write_instant(at: datetime) -> str:
    """Writes a time for a request. It must say its offset: a naive time would be of nobody knows which zone."""
    if at.tzinfo is None:
        raise ValueError("a datetime without a time zone: say tzinfo=timezone.utc, or the zone that is meant")
    return at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def span(text: str) -> timedelta:
    """Reads a duration of an answer, such as "1m30s"."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    if rest == "0":
        return timedelta()
    if not rest or _PART.sub("", rest):
        raise ValueError(f"{text!r} is no duration")
    return timedelta(seconds=sign * sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(rest)))


def write_span(d: timedelta) -> str:
    """Writes a duration for a request, to the microsecond."""
    micros = d // timedelta(microseconds=1)
    return f"{micros // 1_000_000}s" if micros % 1_000_000 == 0 else f"{micros}us"


def encode(value: Any) -> bytes:
    """Writes JSON. Times, durations and dataclasses may stand in it."""
    return json.dumps(value, default=_default, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _default(value: Any) -> Any:
    if isinstance(value, datetime):
        return write_instant(value)
    if isinstance(value, timedelta):
        return write_span(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def output(step: str, pointer: str = "") -> dict[str, Any]:
    """In the payload of a step: the output of a step before it, or the part at a JSON pointer."""
    return {"$from": step, "pointer": pointer} if pointer else {"$from": step}


def workflow_input(pointer: str = "") -> dict[str, Any]:
    """In the payload of a step: what the workflow run was given, or a part of it."""
    return {"$input": pointer}


def item(pointer: str = "") -> dict[str, Any]:
    """In the payload of a step with for_each: its item, or a part of it."""
    return {"$item": pointer}


def run_fact(pointer: str) -> dict[str, Any]:
    """In the payload of a step: a fact of the run, "/id" or "/nominal_at"."""
    return {"$run": pointer}
