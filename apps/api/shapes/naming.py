"""How things are called on the wire: agents by their slugs, parts in the A2A shape, times in UTC."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings

from apps.agents.models import Agent
from apps.record import wire

JSON = dict[str, Any]
Slugs = Mapping[int | None, str]

timestamp = wire.timestamp


def slugs_of(agents: Iterable[int | None]) -> Slugs:
    """The slugs of agents by their keys. One query, or none."""
    keys = {key for key in agents if key is not None}
    return dict(Agent.objects.filter(pk__in=keys).values_list("pk", "slug")) if keys else {}


def parts_json(parts: Iterable[JSON], session: uuid.UUID) -> list[JSON]:
    """Parts for the wire: content that is kept in a file is a link."""
    return [_linked(part, session) if "stored" in part else part for part in parts]


def _linked(stored: JSON, session: uuid.UUID) -> JSON:
    rest = {name: value for name, value in stored.items() if name != "stored"}
    return {"url": settings.PUBLIC_BASE_URL + wire.download_path(stored, session), **rest}
