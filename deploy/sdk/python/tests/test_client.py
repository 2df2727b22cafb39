"""How a client asks until it is answered."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from carillon import APIError, Client, ImportCut, Unreachable
from carillon.client import MAX_WAIT, pause


class Script:
    """Answers requests by a list, and keeps them."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx.Request) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **options: Any) -> Client:
        return Client("http://node/", transport=httpx.MockTransport(self), sleep=self.pauses.append, **options)


def problem(status: int, kind: str, **more: Any) -> httpx.Response:
    body = {"type": f"urn:carillon:problem:{kind}", "title": "Title", "status": status, **more}
    return httpx.Response(status, json=body, headers={"Content-Type": "application/problem+json"})


def test_what_is_refused_for_now_is_sent_again_with_the_same_key() -> None:
    busy = problem(429, "overloaded")
    busy.headers["Retry-After"] = "3"
    script = Script(busy, httpx.ConnectError("refused"), httpx.Response(502, text="<html>"), httpx.Response(201, json={"id": "1"}))
    assert script.client(key="k", tenant="shop").jobs.create({"task": "t"})["id"] == "1"
    assert len({r.headers["Idempotency-Key"] for r in script.requests}) == 1
    assert {r.content for r in script.requests} == {b'{"task":"t"}'}
    assert {(r.headers["Authorization"], r.headers["Carillon-Tenant"]) for r in script.requests} == {("Bearer k", "shop")}
    assert script.pauses[0] == 3.0 and all(0 < p <= MAX_WAIT for p in script.pauses)
    assert str(script.requests[0].url) == "http://node/v1/jobs"


def test_each_call_draws_its_own_key_unless_it_is_given_one() -> None:
    script = Script(*[httpx.Response(201, json={}) for _ in range(3)])
    client = script.client()
    client.jobs.create({"task": "t"})
    client.jobs.create({"task": "t"})
    client.jobs.create({"task": "t"}, idempotency_key='an "order"')
    keys = [r.headers["Idempotency-Key"] for r in script.requests]
    assert keys[0] != keys[1] and keys[2] == '"an \\"order\\""'


def test_an_error_has_all_faults() -> None:
    faults = [{"location": "body.schedule.cron", "message": "never fires", "value": "0 0 30 2 *"}, {"message": "and more"}]
    script = Script(problem(422, "invalid", detail="It is so.", errors=faults))
    with pytest.raises(APIError) as e:
        script.client().jobs.create({"task": "t"})
    error = e.value
    assert (error.status, error.kind, error.title, error.detail, error.temporary) == (422, "invalid", "Title", "It is so.", False)
    assert [(f.location, f.message, f.value) for f in error.faults] == [
        ("body.schedule.cron", "never fires", "0 0 30 2 *"),
        ("", "and more", None),
    ]
    assert str(error) == "422 Title: It is so.: body.schedule.cron never fires; and more"
    assert len(script.requests) == 1 and not script.pauses


def test_the_last_failure_is_told() -> None:
    script = Script(*[httpx.ReadTimeout("slow")] * 3)
    with pytest.raises(Unreachable, match="slow"):
        script.client(retries=2).jobs.get("a")
    script = Script(httpx.Response(503, text="no JSON"))
    with pytest.raises(APIError) as e:
        script.client(retries=0).jobs.get("a")
    assert (e.value.status, e.value.kind, e.value.detail) == (503, "", "no JSON")


def test_pauses_grow_and_are_bounded() -> None:
    for attempt, most in ((0, 0.1), (1, 0.2), (6, 6.4), (60, 6.4)):
        assert most / 2 <= pause(attempt, 0) <= most
    assert pause(0, 7) == 7 and pause(0, 3600) == MAX_WAIT


def test_lists_are_walked_to_their_end() -> None:
    script = Script(
        httpx.Response(200, json={"items": [1, 2], "next_cursor": "c"}),
        httpx.Response(200, json={"items": [], "next_cursor": "d"}),
        httpx.Response(200, json={"items": [3]}),
    )
    assert [str(j) for j in script.client().jobs.list(label="team=x")] == ["1", "2", "3"]
    assert [r.url.params.get("cursor") for r in script.requests] == [None, "c", "d"]
    assert {(r.url.params["label"], r.url.params["limit"]) for r in script.requests} == {("team=x", "500")}


def test_paths_are_quoted_and_never_empty() -> None:
    script = Script(httpx.Response(200, json={}))
    script.client().jobs.get("a/b?c")
    assert script.requests[0].url.raw_path == b"/v1/jobs/a%2Fb%3Fc"
    with pytest.raises(ValueError):
        script.client().jobs.get("")


def test_deleting_a_task_twice_is_the_same_as_once() -> None:
    Script(problem(503, "not-ready"), problem(404, "not-found")).client().tasks.delete("t")
    with pytest.raises(APIError):
        Script(problem(403, "forbidden")).client().tasks.delete("t")


def lines(*said: Any) -> httpx.Response:
    return httpx.Response(200, content="".join(json.dumps(s) + "\n" for s in said).encode())


def test_a_cut_import_is_sent_again_without_what_was_answered() -> None:
    busy = {"line": 3, "status": 503, "error": {"type": "urn:carillon:problem:not-ready", "title": "T", "status": 503}}
    bad = {"line": 1, "status": 422, "error": {"type": "urn:carillon:problem:invalid", "title": "T", "status": 422}}
    script = Script(
        lines({"line": 2, "id": "b", "status": 201}, busy),  # cut
        lines(bad, {"line": 2, "id": "c", "status": 200}, {"summary": {}}),
    )
    report = script.client().imports.run([{"task": n} for n in ("a", "b", "c")])
    assert (report.created, report.existing, [f["line"] for f in report.failed], report.lines) == (1, 1, [1], 3)
    first, again = ([json.loads(t) for t in r.content.splitlines()] for r in script.requests)
    assert [j["task"] for j in first] == ["a", "b", "c"] and [j["task"] for j in again] == ["a", "c"]
    assert again == [first[0], first[2]] and len({j["key"] for j in first}) == 3


def test_an_import_that_is_cut_for_ever_fails() -> None:
    script = Script(*[lines({"line": 1, "id": "a", "status": 201})] * 1, *[lines()] * 2)
    with pytest.raises(ImportCut):
        script.client(retries=2).imports.run([{"task": "a"}, {"task": "b"}])
    stopping = {"error": {"type": "urn:carillon:problem:not-ready", "title": "This node stops", "status": 503}}
    with pytest.raises(ImportCut, match="This node stops"):
        Script(lines(stopping)).client(retries=0).imports.run([{"task": "a"}])
