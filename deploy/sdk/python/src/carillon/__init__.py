"""Carillon for Python: a client of its API, workers, signatures of webhooks, and a test kit.

    with carillon.Client("https://carillon.example.com", key=key) as c:
        job = c.jobs.create({"http": {"url": "https://example.com/hook"}, "schedule": {"at": tomorrow}})

`carillon.worker` needs the extra `worker` (nats-py); `carillon.testing` is for tests.
"""

from .client import Client
from .errors import APIError, CarillonError, Fault, ImportCut, Unreachable
from .imports import ImportReport
from .jobs import JobType, PayloadError
from .values import instant, item, output, run_fact, span, workflow_input

__all__ = [
    "APIError",
    "CarillonError",
    "Client",
    "Fault",
    "ImportCut",
    "ImportReport",
    "JobType",
    "PayloadError",
    "Unreachable",
    "instant",
    "item",
    "output",
    "run_fact",
    "span",
    "workflow_input",
]
