"""Signatures of webhooks, in each scheme."""

import datetime
import hashlib
import hmac

import pytest
from django.test import RequestFactory
from standardwebhooks import Webhook

from apps.accounts import webhook_signatures
from apps.accounts.webhook_signatures import BEARER, GITHUB, STANDARD, STRIPE, VERIFIERS, is_signed

BODY = b'{"id": "evt_1"}'
NOW = 1_800_000_000.0
SECRET = webhook_signatures.new_secret()


def signed(scheme: str, secret: str = SECRET, body: bytes = BODY, at: int = int(NOW)) -> dict[str, str]:
    """The headers that a sender of the scheme would send."""
    match scheme:
        case "standard":
            moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
            signature = Webhook(secret).sign("msg_1", moment, body.decode())
            return {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": f"v1a,x {signature}"}
        case "github":
            return {"X-Hub-Signature-256": "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()}
        case "stripe":
            digest = hmac.digest(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hex()
            return {"Stripe-Signature": f"t={at},v1={'0' * 64},v1={digest},v0=old"}
        case _:
            return {"Authorization": f"Bearer {secret}"}


def check(scheme: str, headers: dict[str, str], *keys: str, body: bytes = BODY, now: float = NOW) -> bool:
    request = RequestFactory().post("/", headers=headers)
    return is_signed(scheme, keys or [SECRET], request.headers, body, now)


@pytest.mark.parametrize("scheme", VERIFIERS)
def test_the_secret_signs_and_another_does_not(scheme: str):
    assert check(scheme, signed(scheme))
    assert check(scheme, signed(scheme), webhook_signatures.new_secret(), SECRET), "the one before still counts"
    assert not check(scheme, signed(scheme, webhook_signatures.new_secret()))
    assert not check(scheme, signed(scheme), "")
    assert not check(scheme, {})


@pytest.mark.parametrize("scheme", [STANDARD, GITHUB, STRIPE])
def test_another_body_is_not_signed(scheme: str):
    assert not check(scheme, signed(scheme), body=b"{}")


@pytest.mark.parametrize("scheme", [STANDARD, STRIPE])
@pytest.mark.parametrize("seconds", [-301, 301])
def test_old_and_future_times_are_refused(scheme: str, seconds: int):
    assert not check(scheme, signed(scheme), now=NOW + seconds)


@pytest.mark.parametrize("scheme", VERIFIERS)
def test_nonsense_is_not_signed(scheme: str):
    names = ["webhook-id", "webhook-timestamp", "webhook-signature", "Authorization"]
    names += ["X-Hub-Signature-256", "Stripe-Signature"]
    for text in ("", ",", "v1,", "t=,v1=", "t=x,v1=é", "Bearer", "Bearer é", "9" * 400, "v1,\x00 v1"):
        assert not check(scheme, dict.fromkeys(names, text))


def test_what_we_send_is_read_by_the_public_library():
    body, at = b'{"type": "task.completed"}', datetime.datetime.now(datetime.UTC)
    headers = webhook_signatures.standard_headers("msg_2", at, body, [webhook_signatures.new_secret(), SECRET])
    assert Webhook(SECRET).verify(body, headers) == {"type": "task.completed"}


@pytest.mark.parametrize(
    ("scheme", "secret"), [(STANDARD, "whsec_x"), (STANDARD, "whsec_é"), (STRIPE, "short"), (BEARER, "a b" * 9)]
)
def test_unusable_secrets_are_refused(scheme: str, secret: str):
    assert webhook_signatures.secret_problem(scheme, secret)
    assert not webhook_signatures.secret_problem(scheme, webhook_signatures.new_secret(scheme))
