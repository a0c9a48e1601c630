"""What a webhook is told of an event."""

from __future__ import annotations

import json

from apps.a2a import snapshots, versions
from apps.a2a.errors import JSON
from apps.a2a.models import PushConfig
from apps.a2a.old import answers
from apps.a2a.old.forms import JSON_RPC
from apps.record import wire
from apps.record.models import Context, Event

MEDIA_TYPE = "application/a2a+json"
OLD_MEDIA_TYPE = "application/json"


def body_of(event: Event, context: Context, config: PushConfig) -> bytes:
    """The StreamResponse of an event that is told (`outbox.is_told`); in A2A 0.3 the task as it stood then."""
    if config.version == versions.OLD:
        told: JSON | None = answers.task(snapshots.at(config.task_id, event.index), JSON_RPC)
    else:
        told = wire.stream_response(event, context)
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()


def headers_of(config: PushConfig) -> dict[str, str]:
    """The headers that go with it; a header without content is left out."""
    headers = {
        "Content-Type": OLD_MEDIA_TYPE if config.version == versions.OLD else MEDIA_TYPE,
        "User-Agent": "Parley",
        "X-A2A-Notification-Token": config.token,
        "Authorization": f"{config.scheme} {config.credentials}" if config.credentials else "",
    }
    return {name: value for name, value in headers.items() if value}
