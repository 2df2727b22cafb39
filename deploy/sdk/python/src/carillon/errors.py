"""The errors of the package."""

from __future__ import annotations

from typing import Any


class CarillonError(Exception):
    """Every error that a call of a client raises, other than that of a wrong argument."""


class Unreachable(CarillonError):
    """The API could not be reached, or did not answer: after the last try nobody knows whether it did
    what it was asked. With the same idempotency key the request may be sent again."""


class ImportCut(CarillonError):
    """The answer to an import ended before its summary. Lines with a key may be sent again."""


class Fault:
    """One thing that is wrong with a request."""

    __slots__ = ("location", "message", "value")

    def __init__(self, location: str, message: str, value: Any = None) -> None:
        self.location = location  # "body.schedule.cron", "path.name"; "" if it is of no part
        self.message = message
        self.value = value  # what was sent, if it is short and no secret

    def __str__(self) -> str:
        return f"{self.location} {self.message}".strip()

    def __repr__(self) -> str:
        return f"Fault({self.location!r}, {self.message!r})"


class APIError(CarillonError):
    """An answer of the API that is an error (RFC 9457), with every fault that it found."""

    def __init__(
        self, status: int, kind: str, title: str, detail: str = "", faults: list[Fault] | None = None, retry_after: float = 0.0
    ) -> None:
        self.status = status  # of HTTP
        self.kind = kind  # what programs decide by: "invalid", "not-found", "key-reused"; "" where it is not said
        self.title = title
        self.detail = detail
        self.faults = faults or []
        self.retry_after = retry_after  # seconds; 0: not said
        text = f"{status} {title}"
        if detail:
            text += f": {detail}"
        if self.faults:
            text += ": " + "; ".join(str(f) for f in self.faults)
        super().__init__(text)

    @property
    def temporary(self) -> bool:
        """Whether the same request may be answered otherwise in a moment."""
        return self.status in (429, 502, 503, 504)

    @classmethod
    def of(cls, status: int, reason: str, body: bytes, retry_after: str | None) -> APIError:
        """Reads the answer that an error is, of the API or of what stands before it."""
        import json

        try:
            problem = json.loads(body)
            if not isinstance(problem, dict) or not problem.get("title"):
                raise ValueError
        except ValueError:
            problem = {"title": reason or "error", "detail": body[:200].decode(errors="replace")}
        return cls.of_problem(problem, status, float(retry_after) if retry_after and retry_after.isdigit() else 0.0)

    @classmethod
    def of_problem(cls, problem: Any, status: int = 0, retry_after: float = 0.0) -> APIError:
        prefix = "urn:carillon:problem:"
        kind = str(problem.get("type", ""))
        faults = [Fault(f.get("location", ""), f.get("message", ""), f.get("value")) for f in problem.get("errors") or []]
        return cls(
            status or int(problem.get("status", 0)),
            kind[len(prefix) :] if kind.startswith(prefix) else "",
            problem["title"],
            problem.get("detail", ""),
            faults,
            retry_after,
        )
