"""Signatures of webhooks, theirs and ours: how each sender signs, as one table.

Sources: https://www.standardwebhooks.com (symmetric, `v1`), https://docs.svix.com/receiving/verifying-payloads/how-manual,
https://docs.github.com/webhooks (validating deliveries), https://docs.gitlab.com/user/project/integrations/webhooks,
https://docs.stripe.com/webhooks (signatures), https://docs.slack.dev/authentication/verifying-requests-from-slack,
https://docs.sentry.io/integrations/integration-platform/webhooks. Everything is compared in constant time.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

STANDARD_PREFIX = "whsec_"
SECRET_BYTES = 32
GRACE = datetime.timedelta(days=1)  # for which a secret counts, and signs, after it was replaced
TOLERANCE_SECONDS = 300  # between the sender's clock and ours
TIME = re.compile(r"(\d{1,12}|(?P<milliseconds>\d{13}))", re.ASCII)  # since 1970
HEADER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
PLACE = re.compile(rb"\{(id|timestamp|body)\}")
BODY = "{body}"
ALGORITHMS = ("sha256", "sha512", "sha384", "sha1")
ENCODINGS = ("hex", "base64")

STANDARD, GITHUB, GITLAB, STRIPE, SLACK = "standard", "github", "gitlab", "stripe", "slack"
SENTRY, SVIX, BEARER, HMAC = "sentry", "svix", "bearer", "hmac"


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a sender shows that it knows the secret, and where it names its events."""

    label: str
    header: str
    signed: str = ""
    """What the HMAC covers, with `{id}`, `{timestamp}` and `{body}`. Without it, the header has the secret itself."""
    prefix: str = ""
    separator: str = ""
    """Between several signatures in the header."""
    algorithm: str = "sha256"
    encoding: str = "hex"
    is_key_encoded: bool = False
    timestamp_header: str = ""
    timestamp_field: str = ""
    """The name of the time among the header's signatures."""
    id_headers: tuple[str, ...] = ()
    id_fields: tuple[str, ...] = ()
    """Of the body."""
    kind_header: str = ""
    setup: str = ""
    """For people: what to do at the sender's."""

    @property
    def signs_id(self) -> bool:
        """Otherwise whoever has a delivery can send it again with another id, as long as its time is valid."""
        return not self.signed or "{id}" in self.signed

    def signed_time(self, headers: Mapping[str, str]) -> str:
        """The time that the signature covers, or "": then a delivery is valid at any time."""
        return self._timestamp(headers) if "{timestamp}" in self.signed else ""

    def may_be_signed(self, secret: str, headers: Mapping[str, str]) -> bool:
        """Before the body is there: is the secret in the header, or a signature, which `is_signed` checks?"""
        if not headers.get(self.header):
            return False
        return bool(self.signed) or _is_one_of(secret, self._given(headers))

    def is_signed(self, secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        if not self.signed:
            return _is_one_of(secret, self._given(headers))
        key = _decoded(secret) if self.is_key_encoded else secret.encode()
        message_id = headers.get(self.id_headers[0], "") if "{id}" in self.signed else "-"
        timestamp = self._timestamp(headers)
        if not key or not message_id or ("{timestamp}" in self.signed and not _is_recent(timestamp, now)):
            return False
        return _is_one_of(self.sign(key, message_id, timestamp, body), self._given(headers))

    def sign(self, key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
        """Without its prefix."""
        values = {b"id": message_id.encode(), b"timestamp": timestamp.encode(), b"body": body}
        signed = PLACE.sub(lambda place: values[place[1]], self.signed.encode())
        digest = hmac.digest(key, signed, self.algorithm)
        return digest.hex() if self.encoding == "hex" else base64.b64encode(digest).decode()

    def _timestamp(self, headers: Mapping[str, str]) -> str:
        if self.timestamp_header:
            return headers.get(self.timestamp_header, "").strip()
        fields = (one.partition("=") for one in self._texts(headers))
        return next((value for name, _, value in fields if name == self.timestamp_field), "")

    def _texts(self, headers: Mapping[str, str]) -> list[str]:
        text = headers.get(self.header, "")
        return [one.strip() for one in (text.split(self.separator) if self.separator else [text])]

    def _given(self, headers: Mapping[str, str]) -> list[str]:
        """The signatures in the header, without their prefix."""
        size = len(self.prefix)
        found = [one[size:].strip() for one in self._texts(headers) if one[:size].lower() == self.prefix.lower()]
        return [one.lower() for one in found] if self.signed and self.encoding == "hex" else found


SCHEMES = {
    BEARER: Scheme(
        "Bearer token", "Authorization", prefix="Bearer ", id_headers=("Idempotency-Key", "webhook-id")
    ),
    GITHUB: Scheme(
        "GitHub", "X-Hub-Signature-256", BODY, prefix="sha256=",
        id_headers=("X-GitHub-Delivery",), kind_header="X-GitHub-Event",
        setup="In the repository’s or organization’s settings, choose Webhooks, Add webhook. Paste the address as "
        "payload URL and the secret, and choose application/json.",
    ),
    GITLAB: Scheme(
        "GitLab", "X-Gitlab-Token",
        id_headers=("Idempotency-Key", "X-Gitlab-Event-UUID"), kind_header="X-Gitlab-Event",
        setup="In the project’s or group’s settings, choose Webhooks, Add new webhook. Paste the address as URL and "
        "the secret as secret token. If you make a signing token instead, enter it below under New secret.",
    ),
    SENTRY: Scheme(
        "Sentry", "Sentry-Hook-Signature", BODY, id_headers=("Request-ID",), kind_header="Sentry-Hook-Resource",
        setup="In Sentry’s settings, add a custom integration with this address as webhook URL. Sentry then shows a "
        "client secret: enter it below under New secret.",
    ),
    SLACK: Scheme(
        "Slack", "X-Slack-Signature", "v0:{timestamp}:{body}", prefix="v0=",
        timestamp_header="X-Slack-Request-Timestamp", id_fields=("event_id", "trigger_id"),
        setup="Copy the signing secret from the app’s Basic Information at api.slack.com, and enter it below under New "
        "secret. Then give the address as request URL of event subscriptions, interactivity or slash commands.",
    ),
    STRIPE: Scheme(
        "Stripe", "Stripe-Signature", "{timestamp}.{body}", prefix="v1=", separator=",", timestamp_field="t",
        id_fields=("id",),
        setup="In Stripe’s dashboard, add an event destination with this address. Stripe then shows a signing secret: "
        "enter it below under New secret.",
    ),
    STANDARD: Scheme(
        "Standard Webhooks", "webhook-signature", "{id}.{timestamp}.{body}", prefix="v1,", separator=" ",
        encoding="base64", is_key_encoded=True, timestamp_header="webhook-timestamp", id_headers=("webhook-id",),
        setup="Give the address to the sender. If it makes the secret itself, enter that below under New secret.",
    ),
}  # fmt: skip
SCHEMES[SVIX] = replace(
    SCHEMES[STANDARD], label="Svix", header="svix-signature", timestamp_header="svix-timestamp", id_headers=("svix-id",)
)
SCHEMES[HMAC] = Scheme(
    "Other HMAC signature", "X-Signature", BODY, id_headers=("Idempotency-Key", "webhook-id"),
    setup="Give the address and the secret to the sender. If it makes the secret itself, enter that below "
    "under New secret.",
)  # fmt: skip
CHOICES = [(name, scheme.label) for name, scheme in SCHEMES.items()]
OPTIONS = ("header", "algorithm", "encoding", "prefix", "timestamp_header", "signed")
"""What a webhook of the scheme `hmac` sets itself."""


def scheme_of(name: str, secret: str = "", options: Mapping[str, str] | None = None) -> Scheme:
    """How a webhook's sender signs with this secret. `options` are those of `hmac`."""
    if name == GITLAB and secret.startswith(STANDARD_PREFIX):  # GitLab's signing token
        return replace(SCHEMES[STANDARD], kind_header=SCHEMES[GITLAB].kind_header)
    if name != HMAC:
        return SCHEMES[name]
    given = {option: value for option in OPTIONS if (value := (options or {}).get(option, ""))}
    usual = "{timestamp}.{body}" if "timestamp_header" in given else BODY
    return replace(SCHEMES[HMAC], **{"signed": usual, **given})  # type: ignore[arg-type]


def option_problems(name: str, options: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is wrong with a webhook's own options: each with its name."""
    if name != HMAC:
        return [("", "Only the scheme hmac has these.")] if any(options.values()) else []
    scheme, found = scheme_of(name, options=options), []
    for option in ("header", "timestamp_header"):
        if (given := options.get(option)) and not HEADER_NAME.fullmatch(given):
            found.append((option, "Must be the name of a header: letters, digits and hyphens."))
    if not options.get("header"):
        found.append(("header", "Name the header that has the signature."))
    if scheme.algorithm not in ALGORITHMS:
        found.append(("algorithm", f"Must be one of {', '.join(ALGORITHMS)}."))
    if scheme.encoding not in ENCODINGS:
        found.append(("encoding", f"Must be one of {', '.join(ENCODINGS)}."))
    has_time = "{timestamp}" in scheme.signed
    if BODY not in scheme.signed or "{id}" in scheme.signed or has_time != bool(scheme.timestamp_header):
        sentence = "Must have {body}, and {timestamp} if and only if a header has the time. Such as {timestamp}.{body}"
        found.append(("signed", sentence))
    return found


def new_secret(scheme: str = STANDARD) -> str:
    """A secret of 256 bits, in the scheme's form."""
    if SCHEMES[scheme].is_key_encoded:
        return STANDARD_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    return secrets.token_urlsafe(SECRET_BYTES)


def secret_problem(scheme: str, secret: str) -> str:
    """Why a sender's own secret cannot be used, as a sentence; "" if it can."""
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        return "Must be printable ASCII characters without spaces."
    if scheme_of(scheme, secret).is_key_encoded and len(_decoded(secret)) < 16:
        return "Must be whsec_ and at least 16 bytes in base64, as the sender shows it."
    if len(secret) < 16:
        return "Must have at least 16 characters."
    return ""


def standard_headers(message_id: str, at: datetime.datetime, body: bytes, keys: Iterable[str]) -> dict[str, str]:
    """The headers of a webhook that we send, with a signature for each secret; none without secrets.

    `at` is the time of this attempt; `message_id` stays the same for all attempts.
    """
    timestamp = str(int(at.timestamp()))
    signatures = [f"v1,{SCHEMES[STANDARD].sign(_decoded(key), message_id, timestamp, body)}" for key in keys]
    headers = {"webhook-id": message_id, "webhook-timestamp": timestamp}
    return headers | ({"webhook-signature": " ".join(signatures)} if signatures else {})


def is_signed(
    scheme: str, keys: Iterable[str], headers: Mapping[str, str], body: bytes, now: float,
    options: Mapping[str, str] | None = None,
) -> bool:  # fmt: skip
    """Whether one of these secrets signed the request. `now` is in seconds since 1970.

    `headers` find names in any case. Empty secrets sign nothing.
    """
    found = [scheme_of(scheme, key, options).is_signed(key, headers, body, now) for key in keys if key]
    return any(found)  # all were checked, in constant time


def may_be_signed(
    scheme: str, keys: Iterable[str], headers: Mapping[str, str], options: Mapping[str, str] | None = None
) -> bool:
    """Whether `is_signed` may be true, before the body is there."""
    return any([scheme_of(scheme, key, options).may_be_signed(key, headers) for key in keys if key])  # noqa: C419


def _decoded(secret: str) -> bytes:
    text = secret.removeprefix(STANDARD_PREFIX)
    with suppress(binascii.Error, ValueError):
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    return b""


def _is_recent(timestamp: str, now: float) -> bool:
    if not (found := TIME.fullmatch(timestamp)):
        return False
    seconds = int(timestamp) / (1000 if found["milliseconds"] else 1)
    return abs(now - seconds) <= TOLERANCE_SECONDS


def _is_one_of(expected: str, given: Iterable[str]) -> bool:
    return any([hmac.compare_digest(expected.encode(), one.encode()) for one in given])  # noqa: C419
