"""Signs that pages share: icons, an agent's letter in its own hue, states."""

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
from apps.web.finding import KINDS

register = template.Library()

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
"""How each state of a task looks, and what it is called."""

HEALTH = {
    "degraded": ("waiting", "Has trouble at the moment"),
    "unavailable": ("failed", "Not available now"),
}
"""The same for agents that are not well."""


@register.simple_tag
def icon(name: str) -> SafeString:
    """A sign of the sprite `static/icons.svg`; decoration, so a label must stand beside it."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', static("icons.svg"), name)


@register.filter
def at(mapping: Mapping[Any, Any] | str, key: Any) -> Any:
    """The value of a key, where there is a mapping and it has one."""
    return mapping.get(key) if isinstance(mapping, Mapping) else None


@register.simple_tag
def avatar(agent: Agent) -> SafeString:
    """The agent's letter in its own hue."""
    letter = agent.name[:1].upper()
    return format_html('<span class="avatar hue-{}" aria-hidden="true">{}</span>', hue_of(agent), letter)


def hue_of(agent: Agent) -> int:
    """Made from its slug, so that it stays."""
    return zlib.crc32(agent.slug.encode()) % HUES


@register.simple_tag
def health(agent: Agent, viewer: User) -> SafeString:
    """How an agent is that is not well: a sign and a word for everybody, and why for operators."""
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
    """How an agent is, also where it is well: a sign and a word; and why not, for operators."""
    if agent.health != Agent.Health.OK:
        return health(agent, viewer)
    return format_html('<span class="health"><span class="sign sign-done">{}</span> Well</span>', icon("done"))


@register.filter
def kind_words(agent: Agent) -> str:
    """Where it runs, in people's words."""
    return KINDS[Agent.Kind(agent.kind)]


@register.simple_tag
def state_sign(state: str | None) -> SafeString:
    """The sign of a task's state: a shape, a colour and a word for readers."""
    look, word = STATES.get(state or "", ("none", "Answered"))
    return format_html(
        '<span class="sign sign-{}" title="{}">{}<span class="visually-hidden">{}</span></span>',
        look, word, icon(look), word,
    )  # fmt: skip


@register.simple_tag
def state_mark(state: str | None, x: int, y: int) -> SafeString:
    """The sign of a task's state within a picture, around a point of it."""
    look, word = STATES.get(state or "", ("none", "Answered"))
    return format_html(
        '<g class="sign-{}"><circle class="under" cx="{}" cy="{}" r="10"></circle>'
        '<use href="{}#{}" x="{}" y="{}" width="18" height="18"><title>{}</title></use></g>',
        look, x, y, static("icons.svg"), look, x - 9, y - 9, word,
    )  # fmt: skip


@register.filter
def state_word(state: str | None) -> str:
    """What a task's state is called."""
    return STATES.get(state or "", ("none", "Answered"))[1]


@register.filter
def state_look(state: str) -> str:
    """The sign of a task's state."""
    return STATES.get(state, ("none", "Answered"))[0]
