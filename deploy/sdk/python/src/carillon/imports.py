"""Imports: many jobs, one a line.

Each line has an idempotency key: the caller's ("key"), or one that is drawn. So an import whose answer was cut is
sent again as it is. Lines go in batches of BATCH; what was refused for now is sent again with the next try.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from .errors import APIError, ImportCut
from .types import ImportResult, JobRequest
from .values import encode

if TYPE_CHECKING:
    from .client import Client

# Lines of a batch. httpx reads no answer before it has sent the whole request, so the answers to a batch must fit
# into the buffers of the connection: these take 0.1 MiB.
BATCH = 1000


@dataclasses.dataclass
class ImportReport:
    """What became of an import."""

    created: int = 0
    existing: int = 0  # their keys were known, with the same body
    failed: list[ImportResult] = dataclasses.field(default_factory=list)

    @property
    def lines(self) -> int:
        return self.created + self.existing + len(self.failed)


def _keyed(job: JobRequest | Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a line with its key: the caller's, or one that is drawn."""
    line = cast("Mapping[str, Any]", job)
    return line if line.get("key") else {**line, "key": uuid.uuid4().hex}


class Imports:
    def __init__(self, client: Client) -> None:
        self._c = client

    def run(self, jobs: Iterable[JobRequest | Mapping[str, Any]], *, validate_only: bool = False) -> ImportReport:
        """Creates jobs, and reports how many there are, and what failed. validate_only checks and writes nothing:
        what is valid counts as existing."""
        report = ImportReport()
        for result in self.create(jobs, validate_only=validate_only):
            if "error" in result:
                report.failed.append(result)
            elif result["status"] == 201:
                report.created += 1
            else:
                report.existing += 1
        return report

    def create(self, jobs: Iterable[JobRequest | Mapping[str, Any]], *, validate_only: bool = False) -> Iterator[ImportResult]:
        """Creates jobs, and yields what became of each, in any order within a batch; "line" is its number, from 1.
        A line that fails has "error", and does not stop the others."""
        numbered = enumerate(jobs, 1)
        while True:
            batch = {n: encode(_keyed(j)) for n, j in itertools.islice(numbered, BATCH)}
            if not batch:
                return
            yield from self._batch(batch, validate_only)

    def _batch(self, left: dict[int, bytes], validate_only: bool) -> Iterator[ImportResult]:
        from .client import pause

        attempt = 0
        while True:
            numbers = list(left)
            last = attempt >= self._c._retries
            cut: ImportCut | None = None
            try:
                for result in self._ask(b"\n".join(left.values()) + b"\n", validate_only):
                    result["line"] = numbers[result["line"] - 1]
                    refused = "error" in result and APIError.of_problem(result["error"]).temporary
                    if not refused or last:
                        del left[result["line"]]
                        yield result
            except ImportCut as e:
                cut = e
            if not left:
                return
            if last:
                raise cut or ImportCut(f"{len(left)} lines of an import were not answered")
            self._c._sleep(pause(attempt, 0.0))
            attempt += 1

    def _ask(self, content: bytes, validate_only: bool) -> Iterator[ImportResult]:
        answer = self._c.send(
            "POST",
            "imports",
            query={"validate_only": "true"} if validate_only else None,
            content=content,
            headers={"Content-Type": "application/x-ndjson"},
        )
        for text in answer.content.splitlines():
            try:
                said = json.loads(text)
            except ValueError:
                raise ImportCut("the answer to an import ends within a line") from None
            if "summary" in said:
                return
            if "line" not in said:  # the import ends here, before its end
                raise ImportCut(str(APIError.of_problem(said["error"])))
            yield cast(ImportResult, said)
        raise ImportCut("the answer to an import has no summary")
