"""Icons, avatars of agents, and the signs of states."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.accounts.models import User
from apps.agents import cards, options
from apps.agents.intake import intake_of
from apps.agents.media_types import Intake
from apps.agents.models import NATURES, Agent, AgentStats, in_words
from apps.conversations.pages.session import addressing
from apps.engine import activity
from apps.installation.models import Activity
from apps.record.models import Context
from parley.faces.cells import money
from parley.registry import added

register = template.Library()
register.filter(in_words)
register.filter(money)

LONGEST_SHOWN = 20_000  # characters of a document in a page
HUES = 12  # classes hue-0 … hue-11 of the stylesheet

STATES = {
    "submitted": ("working", "Waiting to start"),
    "working": ("working", "Working"),
    "input-required": ("waiting", "Waiting for you"),
    "auth-required": ("waiting", "Waiting for you"),
    "completed": ("done", "Done"),
    "failed": ("failed", "Failed"),
    "rejected": ("canceled", "Not accepted"),
    "canceled": ("canceled", "Stopped"),
}
"""The sign and the label of each state of a task."""

HEALTH_WORDS = {
    Agent.Health.OK: "Works",
    Agent.Health.DEGRADED: "Often fails",
    Agent.Health.UNAVAILABLE: "Does not work now",
}
HEALTH_SIGNS = {
    Agent.Health.OK: "done",
    Agent.Health.DEGRADED: "waiting",
    Agent.Health.UNAVAILABLE: "failed",
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite `static/icons.svg`, as decoration: it needs a label beside it."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', static("icons.svg"), name)


@register.simple_tag
def styles(*names: str) -> SafeString:
    """Links to style sheets of `static/css`."""
    links = ((static(f"css/{name}.css"),) for name in names)
    return format_html_join("\n", '<link rel="stylesheet" href="{}">', links)


@register.simple_tag
def added_parts(name: str) -> SafeString:
    """What apps add at a place of all pages, by its name in `parley.registry`."""
    return format_html_join("", "{}", ((part(),) for part in added[name]))


@register.simple_tag
def agent_figures(agent: Agent) -> SafeString:
    """What apps count of an agent."""
    return format_html_join("", "{}", ((part(agent),) for part in added["agent_figures"]))


@register.filter
def at(mapping: Mapping[Any, Any] | str, key: Any) -> Any:
    """The value of a key; None if there is no mapping, or no such key."""
    return mapping.get(key) if isinstance(mapping, Mapping) else None


@register.simple_tag
def avatar(agent: Agent) -> SafeString:
    """Its picture, or its letter in its own hue."""
    if agent.picture:
        source = reverse("web:agent-picture", args=[agent.slug], query={"v": agent.picture})
        return format_html('<img class="avatar" src="{}" alt="" width="32" height="32">', source)
    letter = agent.name[:1].upper()
    return format_html('<span class="avatar hue-{}" aria-hidden="true">{}</span>', hue_of(agent), letter)


def hue_of(agent: Agent) -> int:
    """A number that depends only on the slug."""
    return zlib.crc32(agent.slug.encode()) % HUES


@register.simple_tag
def health(agent: Agent, viewer: User) -> SafeString:
    """The health of an agent that is not healthy, paused or drained; for operators with the reason."""
    is_well = agent.health == Agent.Health.OK and agent.current_activity == Activity.ACTIVE
    return SafeString("") if is_well else condition(agent, viewer)


@register.simple_tag
def condition(agent: Agent, viewer: User) -> SafeString:
    """The health of an agent; for operators with the reason."""
    look, word, why = HEALTH_SIGNS[Agent.Health(agent.health)], HEALTH_WORDS[Agent.Health(agent.health)], ""
    if agent.current_activity != Activity.ACTIVE:
        look, word = "waiting", agent.current_activity.label
    elif viewer.is_operator:
        why = agent.ailment
    elif agent.health == Agent.Health.UNAVAILABLE:
        why = "It cannot answer at the moment. Ask an operator, who sees why here."
    return format_html(
        '<span class="health"><span class="sign sign-{}">{}</span> {} <span class="muted">{}</span></span>',
        look, icon(look), word, why,
    )  # fmt: skip


@register.simple_tag
def intake(agent: Agent, session: Context | str = "") -> Intake:
    """What files the agent takes, in this session if there is one."""
    return intake_of(agent, session.options if isinstance(session, Context) else None)


@register.simple_tag
def offered_models(agent: Agent, session: Context | str = "") -> list[options.ModelChoice]:
    """The models that people choose from in this session, or in a new one."""
    return options.offered_models(agent, session.options if isinstance(session, Context) else None)


@register.simple_tag
def held_note(agent: Agent) -> str:
    """What to know before writing to an agent that is paused or drained; "" for others."""
    return activity.sentence(agent)


@register.filter
def spoken_examples(skill: dict[str, Any]) -> list[str]:
    return cards.spoken_examples(skill)


@register.filter
def reads_names(agent: Agent) -> bool:
    return addressing.reads_names(agent)


@register.filter
def first_example(agent: Agent) -> str:
    """What a person might say to it; "" if its card names nothing."""
    return next((example for skill in agent.skills for example in cards.spoken_examples(skill)), "")


@register.simple_tag
def typical_time(agent: Agent) -> str:
    """The median time of the agent's recent turns, such as "about a second"; "" without any. Its stats are loaded."""
    stats = getattr(agent, "stats", None)
    return in_words(stats.took_p50) if stats and stats.took_p50 is not None else ""


@register.filter
def reliability(stats: AgentStats) -> str:
    """How many recent answers failed, as a sentence; "" without any."""
    if not stats.runs:
        return ""
    failed = stats.runs - stats.succeeded
    if not failed:
        return "No recent answer failed."
    return f"{failed} of its {stats.runs} most recent answers failed." if stats.runs > 1 else "Its last answer failed."


@register.filter
def kind_words(agent: Agent) -> str:
    return NATURES[agent.nature]


@register.simple_tag
def state_sign(state: str | None) -> SafeString:
    look, word = _state_label(state)
    return format_html(
        '<span class="sign sign-{}" title="{}">{}<span class="visually-hidden">{}</span></span>',
        look, word, icon(look), word,
    )  # fmt: skip


@register.simple_tag
def news_sign(state: str | None) -> SafeString:
    """The sign in a list of sessions: only for what works, waits or failed. A place for later ones otherwise."""
    is_news = _state_label(state)[0] in ("working", "waiting", "failed")
    return state_sign(state) if is_news else SafeString('<span class="sign sign-quiet"></span>')


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
