"""Reading a TaskPushNotificationConfig and the requests that name one (A2A 1.0 §4.3, §3.1.7 to §3.1.10)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from apps.a2a.fields import Fields

SECRET = re.compile(r"(?! )[ -~]{0,4096}(?<! )")  # what an HTTP header takes
SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")  # RFC 9110 §11.1
PAGE_SIZE = 50
LARGEST_PAGE = 100


@dataclass(frozen=True, slots=True)
class Webhook:
    """What a client asks for. An empty `config_id` lets the server choose."""

    config_id: str
    url: str
    token: str
    scheme: str
    credentials: str
    version: str


@dataclass(frozen=True, slots=True)
class WebhookAsking:
    """A request about one webhook of a task."""

    task: str
    config_id: str


@dataclass(frozen=True, slots=True)
class WebhookListing:
    """A request for a page of a task's webhooks."""

    task: str
    page_size: int
    page_token: str


def read_webhook(fields: Fields, version: str) -> Webhook:
    """What cannot be used is noted in `fields`."""
    authentication = fields.message("authentication")
    scheme = authentication.text("scheme") if authentication else ""
    if authentication and not SCHEME.fullmatch(scheme):
        authentication.refuse("scheme", "Must be the name of an HTTP authentication scheme, such as Bearer.")
    return Webhook(
        config_id=fields.text("id", single_line=True),
        url=fields.url("url"),
        token=_secret(fields, "token"),
        scheme=scheme,
        credentials=_secret(authentication, "credentials") if authentication else "",
        version=version,
    )


def read_webhook_asking(fields: Fields) -> WebhookAsking:
    """Raises InvalidFields."""
    asking = WebhookAsking(
        fields.text("taskId", required=True, single_line=True), fields.text("id", required=True, single_line=True)
    )
    fields.check()
    return asking


def read_webhook_listing(fields: Fields) -> WebhookListing:
    """Raises InvalidFields."""
    listing = WebhookListing(
        fields.text("taskId", required=True, single_line=True),
        fields.integer("pageSize", 1, LARGEST_PAGE) or PAGE_SIZE,
        fields.text("pageToken", single_line=True),
    )
    fields.check()
    return listing


def _secret(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not SECRET.fullmatch(value):
        fields.refuse(name, "Must be at most 4096 visible ASCII characters, with no space at either end.")
    return value
