"""The agents that a caller may use: all, one, and those that fit what is searched for."""

from __future__ import annotations

from typing import Any

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts.principals import Principal
from apps.agents import cards
from apps.agents.models import Agent
from apps.agents.negotiation import Assessment
from apps.api import pages
from apps.api.agent_shapes import AgentShape, FoundShape
from apps.api.fields import Choice, Listing, Query, Shape, page_of
from apps.api.problems import NotFound
from apps.api.schema import documented
from apps.api.views import Endpoint
from apps.features.routing import ranking
from apps.record import wire

JSON = dict[str, Any]

DIGITS = 4  # of what is measured
LONGEST = 200  # characters of what is searched for


def agent_json(agent: Agent) -> JSON:
    """An agent; its `stats` should be loaded. Why it is not well, only operators see."""
    return {
        "slug": agent.slug,
        "name": agent.name,
        "description": agent.description,
        "version": agent.version,
        "kind": agent.kind,
        "access": agent.access,
        "url": cards.endpoint(agent),
        "cardUrl": f"{cards.endpoint(agent)}/.well-known/agent-card.json",
        "skills": cards.skills(agent),
        "inputModes": agent.input_modes,
        "outputModes": agent.output_modes,
        "streaming": agent.streams,
        "signsArtifacts": agent.sign_artifacts,
        "cost": agent.cost,
        "health": {"status": agent.health, "reason": cards.HEALTH[Agent.Health(agent.health)]},
        "stats": _measured(agent),
        "updatedAt": wire.timestamp(agent.updated_at),
    }


def _measured(agent: Agent) -> JSON | None:
    stats = getattr(agent, "stats", None)  # one that never worked has none
    if stats is None:
        return None
    return {
        "latencyMs": stats.latency_ms,
        "recentRuns": stats.runs,
        "successRate": _rounded(stats.success_rate),
        "ratings": stats.ratings,
        "meanRating": _rounded(stats.mean_rating),
        "measuredAt": wire.timestamp(stats.updated_at),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def fit_json(assessment: Assessment) -> JSON:
    """How well an agent fits what was searched for."""
    told = assessment.wire
    return {
        "score": told["score"],
        "confidence": told["confidence"],
        "wouldTake": told["accepted"],
        "rejectionReason": told["rejection_reason"],
        "skills": [
            {"id": match["skill_id"], "name": match["skill_name"], "score": match["score"], "reasons": match["reasons"]}
            for match in told["skill_matches"]
        ],
    }


class Searching(Query):
    """What agents are searched for by; all of it must fit."""

    q = serializers.CharField(default="", allow_blank=True, max_length=LONGEST, help_text="Words, or part of a name.")
    skill = serializers.CharField(required=False, max_length=LONGEST, help_text="Id or name of a skill.")
    tag = serializers.CharField(required=False, max_length=LONGEST, help_text="Tag of a skill.")
    mode = serializers.CharField(
        required=False, max_length=LONGEST, help_text="A media type that it takes or makes; `image/*` is any image."
    )
    health = Choice(Agent.Health.choices, required=False)
    kind = Choice(Agent.Kind.choices, required=False)


class FoundAgents(Shape):
    """All that were found, the best first."""

    items = FoundShape(many=True)


class Agents(Endpoint):
    @documented(
        "agents_list", "The agents that you may use, by name", query=Listing, answers={200: page_of(AgentShape)}
    )
    def get(self, request: Request) -> Response:
        rows = Agent.objects.visible_to(self.principal).select_related("stats")
        shown, following = pages.page(rows, ("name", "id"), self.query(Listing), self.principal, "agents")
        return Response({"items": [agent_json(agent) for agent in shown], "nextCursor": following})


class OneAgent(Endpoint):
    @documented("agents_retrieve", "One agent", answers={200: AgentShape}, refuses=[404])
    def get(self, request: Request, slug: str) -> Response:
        return Response(agent_json(find(self.principal, slug)))


class AgentSearch(Endpoint):
    @documented("agents_search", "The agents that fit, the best first", query=Searching, answers={200: FoundAgents})
    async def get(self, request: Request) -> Response:
        """By words, and by meaning where a model for that is configured."""
        asked = self.query(Searching)
        found = await ranking.search(self.principal, asked.pop("q"), **asked)
        return Response({"items": await db.run(_found, found)})


def find(principal: Principal, slug: str) -> Agent:
    """The agent of this slug, which the caller may use. Raises NotFound."""
    usable = Agent.objects.visible_to(principal).select_related("stats")
    agent = usable.filter(slug=slug).first() if slug.isprintable() else None
    if agent is None:
        raise NotFound("There is no such agent, or you may not use it.")
    return agent


def _found(found: list[ranking.Found]) -> list[JSON]:
    return [{**agent_json(one.agent), "fit": fit_json(one.assessment) if one.assessment else None} for one in found]


urlpatterns = [
    path("agents", Agents.as_view(), name="agents"),
    path("agents/search", AgentSearch.as_view(), name="agent-search"),
    path("agents/<str:slug>", OneAgent.as_view(), name="agent"),
]
