"""Which agent is behind each event of a conversation: pages name it, as the agent may be switched or replaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.utils.html import format_html

from apps.agents.models import Agent
from apps.record import lineage
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.web.templatetags.parley import avatar

JSON = dict[str, Any]

LONGEST_MODEL = 80  # characters of what an agent says to have asked
SPOKEN = (EventType.AGENT_MESSAGE, EventType.AGENT_STATUS)


def card_of(agent: Agent, models: str = "") -> JSON:
    """What a page shows of an agent beside its words: `mark` is HTML, with the models by which they were made."""
    by = format_html('<span class="model">{}</span>', models) if models else ""
    mark = format_html('{}<span class="who">{}</span>{}', avatar(agent), agent.name, by)
    return {"name": agent.name, "slug": agent.slug, "mark": mark}


def authors_of(context: Context, events: Sequence[Event]) -> dict[int, JSON]:
    """The agents that the events name, by the events' indexes. At most one query, save for logs that name nobody."""
    keys = {event.index: key for event in events if (key := _named(event)) is not None}
    if unnamed := [event.index for event in events if event.index not in keys and _speaks(event)]:
        rows = lineage.messages(context).filter(index__in=unnamed, agent__isnull=False)
        keys |= dict(rows.values_list("index", "agent"))
    known = Agent.objects.in_bulk(set(keys.values())) if keys else {}
    return {event.index: card_of(known[keys[event.index]], _models(event)) for event in events if event.index in keys}


def _models(event: Event) -> str:
    """The model, or models, by which a message was made, as the end of its turn says (`usage.Spent.labelled`)."""
    said: JSON = event.payload.get("message", {}).get("metadata", {}) if event.type in SPOKEN else {}
    models = said.get("models")
    names = [name for name in models if isinstance(name, str)] if isinstance(models, list) else []
    return ", ".join(names)[:LONGEST_MODEL]


def _named(event: Event) -> int | None:
    payload: JSON = event.payload
    opened: JSON = payload.get("task") or {}
    key = opened.get("agent") if event.type == EventType.USER_MESSAGE else payload.get("agent")
    return key if isinstance(key, int) else None


def _speaks(event: Event) -> bool:
    return event.type in SPOKEN and "message" in event.payload and "progress" not in event.payload


def choices(agents: Iterable[Agent]) -> list[Agent]:
    """The agents to choose from: those that can work first."""
    return sorted(agents, key=lambda agent: (not agent.is_available, agent.name.lower()))
