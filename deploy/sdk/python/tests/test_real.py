"""What the fake does not model, on the real program."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

from carillon import item, output, workflow_input
from carillon.webhooks import Verifier

from conftest import Dev, Hook


def test_a_call_is_signed(dev: Dev, hook: Hook) -> None:
    with dev.client() as c:
        key = c.send("POST", "signing-keys", body={"name": "py-key"}).json()
        for n in range(100):  # nodes take a new key up within 10 s
            job = c.jobs.create({"http": {"url": f"{hook.url}/signed/{n}", "signing_key": "py-key"}, "payload": {"n": 1}})
            _, headers, body = hook.wait(f"/signed/{n}")
            if "webhook-signature" in {h.lower() for h in headers}:
                break
            time.sleep(0.2)
        assert Verifier(key["secret"]).verify(headers, body) == job["id"]


def test_a_workflow(dev: Dev, hook: Hook) -> None:
    with dev.client() as c:
        steps: list[Any] = [
            {"name": "extract", "http": {"url": hook.url + "/extract"}, "payload": {"date": workflow_input("/date")}},
            {
                "name": "load",
                "after": ["extract"],
                "http": {"url": hook.url + "/load"},
                "for_each": {"items": [1, 2], "max_concurrent": 2},
                "payload": {"n": item(), "said": output("extract")},
            },
        ]
        c.workflows.put("py-etl", {"steps": steps})
        run = c.workflows.trigger("py-etl", {"date": "2026-11-21"})
        ended: Any = c.runs.wait(run["id"])
        assert (ended["state"], [s["state"] for s in ended["steps"]]) == ("succeeded", ["succeeded"] * 2), ended
        assert hook.wait("/extract")[2] == b'{"date":"2026-11-21"}'
        assert sorted(body for path, _, body in hook.calls if path == "/load") == [b'{"n":1,"said":null}', b'{"n":2,"said":null}']
        assert [r["id"] for r in c.workflows.runs("py-etl")] == [run["id"]]


def test_a_preview(dev: Dev) -> None:
    with dev.client() as c:
        said = c.schedules.preview(
            {"schedule": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, "from": "2027-03-27T00:00:00Z", "count": 3}
        )
    assert said["times"][:2] == ["2027-03-27T01:30:00.000Z", "2027-03-28T01:00:00.000Z"]


def test_a_job_by_cron(dev: Dev) -> None:
    with dev.client() as c:
        c.jobs.put("py-report", {"http": {"url": "http://127.0.0.1:9/"}, "schedule": {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"}})
        assert len(c.jobs.upcoming("py-report", 3)) == 3
        later = c.jobs.upcoming("py-report", 1, datetime(2040, 1, 1, tzinfo=timezone.utc))
        assert [n["due_at"][:7] for n in later] == ["2040-01"]
        c.jobs.cancel("py-report")
