"""A shop that reminds its customers: what creates jobs, what runs them, and what is called, in one file.

NATS_URL=nats://127.0.0.1:4222 python examples/shop.py      # the worker
tests/test_examples.py tests all of it without a server.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import datetime, timedelta

from carillon import Client, JobType
from carillon.worker import Final, RetryAfter, Run, Worker


@dataclass
class Reminder:
    order: int
    to: str


REMIND = JobType("remind", Reminder, subject="work.remind")


class Shop:
    def __init__(self, carillon: Client) -> None:
        self._carillon = carillon

    def order(self, number: int, to: str, now: datetime) -> str:
        """Takes an order; its customer is reminded in two days. The key keeps a second try from reminding twice."""
        job = REMIND.job(Reminder(number, to), at=now + timedelta(days=2), labels={"order": str(number)})
        return self._carillon.jobs.create(job, idempotency_key=f"remind-{number}")["id"]

    def paid(self, reminder: str) -> None:
        self._carillon.jobs.cancel(reminder)


async def remind(run: Run[Reminder]) -> dict[str, str]:
    """Sends a reminder. A run may come twice: whatever sends mail should know run.id."""
    if "@" not in run.payload.to:
        raise Final(f"{run.payload.to!r} is no address")
    if run.payload.to.endswith("@busy.example") and run.attempt == 1:
        raise RetryAfter("the mail server asks to come later", 60)
    await run.log(f"reminding {run.payload.to} of order {run.payload.order}")
    return {"sent": run.payload.to}


async def main() -> None:
    import nats

    with Client.from_env() as c:
        c.tasks.put(REMIND.task, {"nats": {"subject": REMIND.subject}, "timeout": "1m"})
    nc = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), max_reconnect_attempts=-1)
    worker = Worker(nc, concurrency=16)
    worker.handle(REMIND)(remind)
    print("ready", flush=True)
    await worker.run()  # until SIGTERM
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main())
