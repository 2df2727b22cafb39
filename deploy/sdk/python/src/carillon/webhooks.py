"""Checks the signatures of the HTTP calls that Carillon makes (Standard Webhooks, version 1).

    verifier = Verifier(os.environ["WEBHOOK_SECRET"])
    verifier.verify(request.headers, body)      # raises VerificationError; body is the bytes as they came
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping

TOLERANCE = 300  # seconds by which a call may be old, or ahead
_MAX_SIGNATURES = 16
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)\Z", re.ASCII)


class VerificationError(Exception):
    """The call is not to be trusted. `reason` is "unsigned", "timestamp" or "signature"."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(text)


def parse_secret(text: str) -> bytes:
    """Reads a secret: "whsec_" and the base64 of 24 to 64 bytes. The error does not repeat it."""
    try:
        if not text.startswith("whsec_"):
            raise ValueError
        secret = base64.b64decode(text[len("whsec_") :], validate=True)
        if not 24 <= len(secret) <= 64:
            raise ValueError
    except (ValueError, binascii.Error):
        raise ValueError('a secret is "whsec_" and the base64 of 24 to 64 bytes') from None
    return secret


def sign(id: str, timestamp: int, body: bytes, *secrets: str) -> str:
    """Returns the header webhook-signature of a call: what Carillon sends, for tests of a receiver."""
    return " ".join("v1," + base64.b64encode(_sum(id, str(timestamp), body, parse_secret(s))).decode() for s in secrets)


def _sum(id: str, timestamp: str, body: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()


class Verifier:
    """Takes calls that are signed with one of the secrets: while one is being replaced there are two."""

    def __init__(self, *secrets: str, tolerance: int = TOLERANCE, now: Callable[[], float] = time.time) -> None:
        if not secrets:
            raise ValueError("a verifier needs a secret")
        self._secrets = [parse_secret(s) for s in secrets]
        self._tolerance = tolerance
        self._now = now

    def verify(self, headers: Mapping[str, str], body: bytes) -> str:
        """Returns the id of a call (webhook-id, the run's: the same when the call is repeated), or raises
        VerificationError. A receiver that remembers ids for the tolerance notices repetitions, too."""
        lower = {name.lower(): value for name, value in headers.items()}
        id, timestamp = lower.get("webhook-id", ""), lower.get("webhook-timestamp", "")
        signatures = lower.get("webhook-signature", "")
        if not id or not signatures or not _NUMBER.match(timestamp) or timestamp == "-0":
            raise VerificationError("unsigned", "a header is missing or not valid")
        if abs(int(timestamp) - int(self._now())) > self._tolerance:
            raise VerificationError("timestamp", "the timestamp is too old or lies ahead")
        right = False
        for text in signatures.split(" ")[:_MAX_SIGNATURES]:
            if not text.startswith("v1,"):
                continue  # of a version to come
            try:
                given = base64.b64decode(text[3:], validate=True)
            except (ValueError, binascii.Error):
                continue
            for secret in self._secrets:  # constant in time
                right = hmac.compare_digest(given, _sum(id, timestamp, body, secret)) or right
        if not right:
            raise VerificationError("signature", "no signature is right")
        return id
