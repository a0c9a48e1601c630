"""Filters of the list of agents by what their cards say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.agents import finding
from apps.agents.models import Agent

MOST = 100  # choices that are offered; any other can be named in the URL

SAID = ("pk", "skills", "input_modes", "output_modes")


class Said(NamedTuple):
    """Something that cards say: all that they say of it, and whether one says this."""

    choices: Callable[[Iterable[Agent]], list[str]]
    fits: Callable[[Agent, str], bool]


class CardFilter(admin.SimpleListFilter):
    """By something that the cards say. The filters of a page share one query."""

    said: Said

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in self.said.choices(_agents(request))[:MOST]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Agent]) -> QuerySet[Agent]:
        if not (chosen := self.value()):
            return queryset
        return queryset.filter(pk__in=[agent.pk for agent in _agents(request) if self.said.fits(agent, chosen)])


def _agents(request: Any) -> list[Agent]:
    """What all the cards say, read once for a request."""
    if not hasattr(request, "agents_by_card"):
        request.agents_by_card = list(Agent.objects.only(*SAID))
    agents: list[Agent] = request.agents_by_card
    return agents


class SkillFilter(CardFilter):
    title = "skill"
    parameter_name = "skill"
    said = Said(finding.skills_of, finding.has_skill)


class TagFilter(CardFilter):
    title = "tag"
    parameter_name = "tag"
    said = Said(finding.tags_of, finding.has_tag)


class ModeFilter(CardFilter):
    title = "media type"
    parameter_name = "mode"
    said = Said(finding.modes_of, finding.has_mode)
