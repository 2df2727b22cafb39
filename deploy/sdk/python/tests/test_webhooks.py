from __future__ import annotations

import pytest

from carillon.webhooks import VerificationError, Verifier, parse_secret, sign

# The example of the specification's reference libraries: everybody's signature of it is this one.
SECRET, OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
WRONG = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def headers(id: str = ID, timestamp: str = str(AT), signature: str = SIGNATURE) -> dict[str, str]:
    return {"Webhook-Id": id, "Webhook-Timestamp": timestamp, "Webhook-Signature": signature}


def test_a_signature_is_that_of_the_specification() -> None:
    assert sign(ID, AT, BODY, SECRET) == SIGNATURE
    assert sign(ID, AT, BODY, OTHER, SECRET).split(" ")[1] == SIGNATURE


@pytest.mark.parametrize(
    ("given", "body", "now", "reason"),
    [
        (headers(), BODY, AT, ""),
        (headers(), BODY, AT + 300, ""),
        (headers(), BODY, AT - 300, ""),
        (headers(), BODY, AT + 301, "timestamp"),
        (headers(), BODY, AT - 301, "timestamp"),
        (headers(signature=f"{WRONG} v2,x {SIGNATURE}"), BODY, AT, ""),
        (headers(signature="v2" + SIGNATURE[2:]), BODY, AT, "signature"),
        (headers(), BODY + b" ", AT, "signature"),
        (headers(id=ID + "x"), BODY, AT, "signature"),
        (headers(timestamp=str(AT + 1)), BODY, AT, "signature"),
        (headers(signature="v1,????"), BODY, AT, "signature"),
        (headers(signature=" ".join([WRONG] * 16 + [SIGNATURE])), BODY, AT, "signature"),
        (headers(id=""), BODY, AT, "unsigned"),
        (headers(signature=""), BODY, AT, "unsigned"),
        (headers(timestamp=""), BODY, AT, "unsigned"),
        (headers(timestamp=f"+{AT}"), BODY, AT, "unsigned"),
        (headers(timestamp=f"0{AT}"), BODY, AT, "unsigned"),
        (headers(timestamp=f"{AT}\n"), BODY, AT, "unsigned"),
        (headers(timestamp="9223372036854775808"), BODY, AT, "timestamp"),
    ],
)
def test_verify(given: dict[str, str], body: bytes, now: int, reason: str) -> None:
    for secrets in ((SECRET,), (OTHER, SECRET), (SECRET, OTHER)):
        verifier = Verifier(*secrets, now=lambda: now)
        if not reason:
            assert verifier.verify(given, body) == given["Webhook-Id"]
            continue
        with pytest.raises(VerificationError) as e:
            verifier.verify(given, body)
        assert e.value.reason == reason
    with pytest.raises(VerificationError):
        Verifier(OTHER, now=lambda: now).verify(given, body)


@pytest.mark.parametrize("text", ["", "whsec_", "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_s3cret-s3cret-s3cret-s3cret-s3cret"])
def test_what_is_no_secret_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError) as e:
        parse_secret(text)
    assert "s3cret" not in str(e.value)
    with pytest.raises(ValueError):
        Verifier()
