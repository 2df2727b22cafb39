"""A job in two seconds, and what became of it.

CARILLON_API=http://127.0.0.1:8080 python examples/quickstart.py
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from carillon import Client


def main() -> None:
    with Client.from_env() as c:
        job = c.jobs.create(
            {
                "http": {"url": "http://127.0.0.1:8080/healthz", "method": "GET"},
                "schedule": {"at": datetime.now(timezone.utc) + timedelta(seconds=2)},
                "labels": {"from": "quickstart"},
            }
        )
        run = c.runs.wait(job["id"])
        print(run["state"], f"{run.get('lateness_ms', 0)} ms late")


if __name__ == "__main__":
    main()
