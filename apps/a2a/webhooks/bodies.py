"""What a webhook is told of an event, in the version of A2A that it was asked for."""

from __future__ import annotations

import json

from apps.a2a import snapshots, versions
from apps.a2a.errors import JSON
from apps.a2a.models import PushConfig
from apps.a2a.old import answers
from apps.a2a.old.forms import JSON_RPC
from apps.conversations import wire
from apps.conversations.models import Event

MEDIA_TYPES = {versions.CURRENT: "application/a2a+json", versions.OLD: "application/json"}


def body_of(config: PushConfig, event: Event) -> bytes:
    """The body for an event that is told (`outbox.is_told`); `config.task.context` should be loaded."""
    shown = _task(event) if config.version == versions.OLD else wire.stream_response(event, config.task.context)
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode()


def headers_of(config: PushConfig) -> dict[str, str]:
    """The headers that go with it; a header without content is left out."""
    headers = {
        "Content-Type": MEDIA_TYPES[config.version],
        "User-Agent": "Parley",
        "X-A2A-Notification-Token": config.token,
        "Authorization": f"{config.scheme} {config.credentials}" if config.credentials else "",
    }
    return {name: value for name, value in headers.items() if value}


def _task(event: Event) -> JSON:
    """In 0.3 a webhook is told the whole task (0.3 §9.5), as it was at the event."""
    return answers.task(snapshots.at(event), JSON_RPC)
