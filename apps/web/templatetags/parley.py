"""Icons, avatars of agents, and the signs of states."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.accounts.models import User
from apps.agents.models import Agent

AGENT_KINDS = {
    Agent.Kind.HOSTED: "Runs here",
    Agent.Kind.REMOTE: "Runs elsewhere",
    Agent.Kind.MODEL: "A language model, set up here",
    Agent.Kind.PLAN: "A plan that others work at",
}
"""What each kind of agent is, in plain words."""


register = template.Library()

LONGEST_SHOWN = 20_000  # characters of a document in a page
HUES = 12  # classes hue-0 … hue-11 of the stylesheet

STATES = {
    "submitted": ("working", "Waiting to start"),
    "working": ("working", "Working"),
    "input-required": ("waiting", "Waiting for you"),
    "auth-required": ("waiting", "Waiting for you"),
    "completed": ("done", "Done"),
    "failed": ("failed", "Failed"),
    "rejected": ("failed", "Declined"),
    "canceled": ("canceled", "Stopped"),
}
"""The sign and the label of each state of a task."""

HEALTH = {
    "degraded": ("waiting", "Has trouble at the moment"),
    "unavailable": ("failed", "Not available now"),
}
"""The same for agents that are not well."""


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite `static/icons.svg`, as decoration: it needs a label beside it."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', static("icons.svg"), name)


@register.filter
def at(mapping: Mapping[Any, Any] | str, key: Any) -> Any:
    """The value of a key; None if there is no mapping, or no such key."""
    return mapping.get(key) if isinstance(mapping, Mapping) else None


@register.simple_tag
def avatar(agent: Agent) -> SafeString:
    letter = agent.name[:1].upper()
    return format_html('<span class="avatar hue-{}" aria-hidden="true">{}</span>', hue_of(agent), letter)


def hue_of(agent: Agent) -> int:
    """A number that depends only on the slug."""
    return zlib.crc32(agent.slug.encode()) % HUES


@register.simple_tag
def health(agent: Agent, viewer: User) -> SafeString:
    """The health of an agent that is not well: a sign and words, and for operators the reason."""
    if agent.health == Agent.Health.OK:
        return SafeString("")
    look, word = HEALTH[agent.health]
    why = agent.ailment if viewer.is_staff else ""
    return format_html(
        '<span class="health"><span class="sign sign-{}">{}</span> {} <span class="muted">{}</span></span>',
        look, icon(look), word, why,
    )  # fmt: skip


@register.simple_tag
def condition(agent: Agent, viewer: User) -> SafeString:
    if agent.health != Agent.Health.OK:
        return health(agent, viewer)
    return format_html('<span class="health"><span class="sign sign-done">{}</span> Well</span>', icon("done"))


@register.filter
def kind_words(agent: Agent) -> str:
    return AGENT_KINDS[Agent.Kind(agent.kind)]


@register.simple_tag
def state_sign(state: str | None) -> SafeString:
    look, word = _state_label(state)
    return format_html(
        '<span class="sign sign-{}" title="{}">{}<span class="visually-hidden">{}</span></span>',
        look, word, icon(look), word,
    )  # fmt: skip


@register.simple_tag
def state_mark(state: str | None, x: int, y: int) -> SafeString:
    look, word = _state_label(state)
    return format_html(
        '<g class="sign-{}"><circle class="under" cx="{}" cy="{}" r="10"></circle>'
        '<use href="{}#{}" x="{}" y="{}" width="18" height="18"><title>{}</title></use></g>',
        look, x, y, static("icons.svg"), look, x - 9, y - 9, word,
    )  # fmt: skip


@register.filter
def state_word(state: str | None) -> str:
    return _state_label(state)[1]


@register.filter
def state_look(state: str | None) -> str:
    return _state_label(state)[0]


def _state_label(state: str | None) -> tuple[str, str]:
    """The sign and the name of a task's state. A message that was answered without a task has none."""
    return STATES.get(state or "", ("none", "Answered"))


@register.filter
def beginning(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "\n…"
