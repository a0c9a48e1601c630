"""What a webhook is told of an event."""

from __future__ import annotations

import json

from apps.a2a.models import PushConfig
from apps.conversations import wire
from apps.conversations.models import Context, Event

MEDIA_TYPE = "application/a2a+json"


def body_of(event: Event, context: Context) -> bytes:
    """The StreamResponse of an event that is told (`outbox.is_told`)."""
    return json.dumps(wire.stream_response(event, context), separators=(",", ":"), ensure_ascii=False).encode()


def headers_of(config: PushConfig) -> dict[str, str]:
    """The headers that go with it; a header without content is left out."""
    headers = {
        "Content-Type": MEDIA_TYPE,
        "User-Agent": "Parley",
        "X-A2A-Notification-Token": config.token,
        "Authorization": f"{config.scheme} {config.credentials}" if config.credentials else "",
    }
    return {name: value for name, value in headers.items() if value}
