"""Filters of the list of agents by what their cards say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.agents import finding
from apps.agents.models import Agent

MOST = 100  # choices that are offered; any other can be named in the URL

SAID = ("pk", "skills", "input_modes", "output_modes")


class CardFilter(admin.SimpleListFilter):
    """By something that the cards say. The filters of a page share one query."""

    @staticmethod
    def offered(agents: Iterable[Agent], /) -> list[str]:
        """What can be chosen."""
        raise NotImplementedError

    @staticmethod
    def fits(agent: Agent, chosen: str, /) -> bool:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in self.offered(_agents(request))[:MOST]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Agent]) -> QuerySet[Agent]:
        if not (chosen := self.value()):
            return queryset
        return queryset.filter(pk__in=[agent.pk for agent in _agents(request) if self.fits(agent, chosen)])


def _agents(request: Any) -> list[Agent]:
    """What all the cards say, read once for a request."""
    if not hasattr(request, "agents_by_card"):
        request.agents_by_card = list(Agent.objects.only(*SAID))
    agents: list[Agent] = request.agents_by_card
    return agents


class SkillFilter(CardFilter):
    title = "skill"
    parameter_name = "skill"
    offered = staticmethod(finding.skills_of)
    fits = staticmethod(finding.has_skill)


class TagFilter(CardFilter):
    title = "tag"
    parameter_name = "tag"
    offered = staticmethod(finding.tags_of)
    fits = staticmethod(finding.has_tag)


class ModeFilter(CardFilter):
    title = "media type"
    parameter_name = "mode"
    offered = staticmethod(finding.modes_of)
    fits = staticmethod(finding.has_mode)
