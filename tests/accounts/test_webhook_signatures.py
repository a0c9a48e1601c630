"""Signatures of webhooks, in each scheme."""

import base64
import datetime
import hashlib
import hmac

import pytest
from django.test import RequestFactory
from standardwebhooks import Webhook

from apps.accounts.secrets import webhook_signatures
from apps.accounts.secrets.webhook_signatures import (
    BEARER,
    GITLAB,
    HMAC,
    SCHEMES,
    STANDARD,
    STRIPE,
    is_signed,
    scheme_of,
)

BODY = b'{"id": "evt_1"}'
NOW = 1_800_000_000.0
SECRET = webhook_signatures.new_secret()


def signed(scheme, secret=SECRET, body=BODY, at=int(NOW)):
    """The headers that a sender of the scheme would send."""

    def digest(text):
        return hmac.digest(secret.encode(), text, hashlib.sha256).hex()

    match scheme:
        case "gitlab":
            return {"X-Gitlab-Token": secret, "X-Gitlab-Event": "Push Hook"}
        case "sentry":
            return {"Sentry-Hook-Signature": digest(body), "Sentry-Hook-Timestamp": str(at)}
        case "slack":
            text = f"v0:{at}:".encode() + body
            return {"X-Slack-Signature": f"v0={digest(text)}", "X-Slack-Request-Timestamp": str(at)}
        case "svix":
            standard = signed(STANDARD, secret, body, at)
            return {name.replace("webhook", "svix"): value for name, value in standard.items()}
        case "hmac":
            return {"X-Signature": digest(body)}
        case "standard":
            moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
            signature = Webhook(secret).sign("msg_1", moment, body.decode())
            return {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": f"v1a,x {signature}"}
        case "github":
            return {"X-Hub-Signature-256": "sha256=" + digest(body)}
        case "stripe":
            signature = digest(f"{at}.".encode() + body)
            return {"Stripe-Signature": f"t={at},v1={'0' * 64},v1={signature},v0=old"}
        case _:
            return {"Authorization": f"Bearer {secret}"}


def check(scheme, headers, *keys, body=BODY, now=NOW, options=None):
    request = RequestFactory().post("/", headers=headers)
    return is_signed(scheme, keys or [SECRET], request.headers, body, now, options)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_secret_signs_and_another_does_not(scheme):
    secret, other = [webhook_signatures.new_secret(scheme) for _ in range(2)]
    assert check(scheme, signed(scheme, secret), secret)
    assert check(scheme, signed(scheme, secret), other, secret), "the one before still counts"
    assert not check(scheme, signed(scheme, other), secret)
    assert not check(scheme, signed(scheme, secret), "")
    assert not check(scheme, {}, secret)


@pytest.mark.parametrize("scheme", [name for name, one in SCHEMES.items() if one.signed])
def test_another_body_is_not_signed(scheme):
    assert not check(scheme, signed(scheme), body=b"{}")


@pytest.mark.parametrize("scheme", [name for name, one in SCHEMES.items() if "{timestamp}" in one.signed])
@pytest.mark.parametrize("seconds", [-301, 301])
def test_old_and_future_times_are_refused(scheme, seconds):
    assert not check(scheme, signed(scheme), now=NOW + seconds)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nonsense_is_not_signed(scheme):
    row = SCHEMES[scheme]
    names = [name for name in (row.header, row.timestamp_header, *row.id_headers) if name]
    for text in ("", "v1,", "t=,v1=", "t=x,v1=é", "Bearer é", "v1,\x00 v1"):
        assert not check(scheme, dict.fromkeys(names, text))


def test_gitlab_may_send_a_token_or_sign():
    token = webhook_signatures.new_secret(GITLAB)
    assert check(GITLAB, signed(GITLAB, token), token)
    assert check(GITLAB, signed(STANDARD))
    assert not check(GITLAB, signed(STANDARD), body=b"{}")
    assert not check(GITLAB, {"X-Gitlab-Token": SECRET}), "a signing token is never sent itself"


@pytest.mark.parametrize(("algorithm", "encoding"), [("sha256", "hex"), ("sha512", "base64")])
def test_another_sender_signs_as_it_declares(algorithm, encoding):
    digest = hmac.digest(SECRET.encode(), b"v0:1800000000000:" + BODY, algorithm)
    text = digest.hex().upper() if encoding == "hex" else base64.b64encode(digest).decode()
    options = {"header": "X-Sign", "algorithm": algorithm, "encoding": encoding, "prefix": "sig="}
    options |= {"timestamp_header": "X-Time", "signed": "v0:{timestamp}:{body}"}
    headers = {"X-Sign": f"sig={text}", "X-Time": "1800000000000"}
    assert not webhook_signatures.option_problems(HMAC, options)
    assert check(HMAC, headers, options=options)
    assert not check(HMAC, headers, options=options, now=NOW + 301)
    assert not check(HMAC, headers | {"X-Sign": text}, options=options)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({}, "header"),
        ({"header": "X:Sign"}, "header"),
        ({"header": "X-Sign", "algorithm": "md5"}, "algorithm"),
        ({"header": "X-Sign", "encoding": "base32"}, "encoding"),
        ({"header": "X-Sign", "signed": "{timestamp}"}, "signed"),
        ({"header": "X-Sign", "signed": "{body}", "timestamp_header": "X-Time"}, "signed"),
    ],
)
def test_unusable_options_are_named(options, wrong):
    assert [name for name, _ in webhook_signatures.option_problems(HMAC, options)] == [wrong]


def test_only_a_signed_time_counts():
    headers = {"X-Time": "7", "webhook-timestamp": "8"}
    timed = scheme_of(HMAC, options={"header": "X", "timestamp_header": "X-Time"})
    assert (timed.signed_time(headers), scheme_of(HMAC).signed_time(headers)) == ("7", "")


def test_sent_signatures_pass_the_public_library():
    body, at = b'{"type": "task.completed"}', datetime.datetime.now(datetime.UTC)
    headers = webhook_signatures.standard_headers("msg_2", at, body, [webhook_signatures.new_secret(), SECRET])
    assert Webhook(SECRET).verify(body, headers) == {"type": "task.completed"}


@pytest.mark.parametrize(
    ("scheme", "secret"), [(STANDARD, "whsec_x"), (STANDARD, "whsec_é"), (STRIPE, "short"), (BEARER, "a b" * 9)]
)
def test_unusable_secrets_are_refused(scheme, secret):
    assert webhook_signatures.secret_problem(scheme, secret)
    assert not webhook_signatures.secret_problem(scheme, webhook_signatures.new_secret(scheme))
