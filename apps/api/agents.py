"""The agents that a caller may use: all, one, and those that fit what is searched for."""

from __future__ import annotations

from typing import Any

from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts.principals import Principal
from apps.agents import cards
from apps.agents.models import Agent
from apps.agents.negotiation import Assessment
from apps.api.framework import pagination
from apps.api.framework.problems import NotFound
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Choice, Listing, Query, Shape, page_of
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON
from apps.features.routing import ranking
from apps.record import wire

DIGITS = 4  # of what is measured
MAX_QUERY = 200  # characters of what is searched for


def agent_json(agent: Agent) -> JSON:
    """An agent; its `stats` should be loaded. Why it is not well, only operators see."""
    return {
        "slug": agent.slug,
        "name": agent.name,
        "description": agent.description,
        "version": agent.version,
        "kind": agent.kind,
        "access": agent.access,
        "url": cards.agent_url(agent),
        "cardUrl": f"{cards.agent_url(agent)}/.well-known/agent-card.json",
        "skills": cards.card_skills(agent),
        "inputModes": agent.input_modes,
        "outputModes": agent.output_modes,
        "streaming": agent.streams,
        "signsArtifacts": agent.sign_artifacts,
        "cost": agent.cost,
        "health": {"status": agent.health, "reason": cards.HEALTH_REASONS[Agent.Health(agent.health)]},
        "stats": _stats_json(agent),
        "updatedAt": wire.timestamp(agent.updated_at),
    }


def _stats_json(agent: Agent) -> JSON | None:
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

    q = serializers.CharField(default="", allow_blank=True, max_length=MAX_QUERY, help_text="Words, or part of a name.")
    skill = serializers.CharField(required=False, max_length=MAX_QUERY, help_text="Id or name of a skill.")
    tag = serializers.CharField(required=False, max_length=MAX_QUERY, help_text="Tag of a skill.")
    mode = serializers.CharField(
        required=False, max_length=MAX_QUERY, help_text="A media type that it takes or makes; `image/*` is any image."
    )
    health = Choice(Agent.Health.choices, required=False)
    kind = Choice(Agent.Kind.choices, required=False)


def _texts(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), **options)


class AgentSkill(Shape):
    """A skill, as its agent's A2A card has it, which may say more than this."""

    id = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(required=False)
    tags = _texts(required=False)
    examples = _texts(required=False)
    input_modes = _texts(required=False)
    output_modes = _texts(required=False)


class AgentHealth(Shape):
    status = serializers.ChoiceField(Agent.Health.choices)
    reason = serializers.CharField(help_text="For people; empty where it is well.")


class AgentStats(Shape):
    """What was measured of the agent's recent work."""

    latency_ms = serializers.IntegerField(
        allow_null=True, help_text="How long a caller waits for a turn, at the median."
    )
    recent_runs = serializers.IntegerField()
    success_rate = serializers.FloatField(allow_null=True, min_value=0, max_value=1)
    ratings = serializers.IntegerField(help_text="Tasks that somebody gave stars.")
    mean_rating = serializers.FloatField(allow_null=True, min_value=1, max_value=5)
    measured_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="Agent")
class AgentShape(Shape):
    """An agent that the caller may use."""

    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    version = serializers.CharField()
    kind = serializers.ChoiceField(Agent.Kind.choices)
    access = serializers.ChoiceField(Agent.Access.choices)
    url = serializers.CharField(help_text="Where it is reached by A2A.")
    card_url = serializers.CharField(help_text="Its A2A agent card.")
    skills = AgentSkill(many=True)
    input_modes = _texts(help_text="Media types that it takes.")
    output_modes = _texts(help_text="Media types that it makes.")
    streaming = serializers.BooleanField()
    signs_artifacts = serializers.BooleanField()
    cost = serializers.FloatField(help_text="Of a task, in this installation's currency; 0: it is free.")
    health = AgentHealth()
    stats = AgentStats(allow_null=True, help_text="Null for an agent that was not measured yet.")
    updated_at = serializers.DateTimeField()


class MatchedSkill(Shape):
    id = serializers.CharField()
    name = serializers.CharField()
    score = serializers.FloatField(min_value=0, max_value=1)
    reasons = _texts()


class Fit(Shape):
    """How well an agent fits what was searched for, as its negotiation says."""

    score = serializers.FloatField(min_value=0, max_value=1)
    confidence = serializers.FloatField(min_value=0, max_value=1)
    would_take = serializers.BooleanField()
    rejection_reason = serializers.CharField(allow_null=True, help_text="Why it would not take it.")
    skills = MatchedSkill(many=True, help_text="Those that fit, the best first; at most five.")


@extend_schema_serializer(component_name="FoundAgent")
class FoundShape(AgentShape):
    """An agent that a search found."""

    fit = Fit(allow_null=True, help_text="Null for the agent that passes work on, which is not compared.")


class FoundAgents(Shape):
    """All that were found, the best first."""

    items = FoundShape(many=True)


class Agents(Endpoint):
    @documented(
        "agents_list", "The agents that you may use, by name", query=Listing, answers={200: page_of(AgentShape)}
    )
    def get(self, request: Request) -> Response:
        rows = Agent.objects.visible_to(self.principal).select_related("stats")
        shown, following = pagination.paginate(rows, ("name", "id"), self.query(Listing), self.principal, "agents")
        return Response({"items": [agent_json(agent) for agent in shown], "nextCursor": following})


class OneAgent(Endpoint):
    @documented("agents_retrieve", "One agent", answers={200: AgentShape}, refuses=[404])
    def get(self, request: Request, slug: str) -> Response:
        return Response(agent_json(find_agent(self.principal, slug)))


class AgentSearch(Endpoint):
    @documented("agents_search", "The agents that fit, the best first", query=Searching, answers={200: FoundAgents})
    async def get(self, request: Request) -> Response:
        """By words, and by meaning where a model for that is configured."""
        asked = self.query(Searching)
        found = await ranking.search_agents(self.principal, asked.pop("q"), **asked)
        return Response({"items": await db.run(_found_json, found)})


def find_agent(principal: Principal, slug: str) -> Agent:
    """The agent of this slug, which the caller may use. Raises NotFound."""
    usable = Agent.objects.visible_to(principal).select_related("stats")
    agent = usable.filter(slug=slug).first() if slug.isprintable() else None
    if agent is None:
        raise NotFound("There is no such agent, or you may not use it.")
    return agent


def _found_json(found: list[ranking.FoundAgent]) -> list[JSON]:
    return [{**agent_json(one.agent), "fit": fit_json(one.assessment) if one.assessment else None} for one in found]


urlpatterns = [
    path("agents", Agents.as_view(), name="agents"),
    path("agents/search", AgentSearch.as_view(), name="agent-search"),
    path("agents/<str:slug>", OneAgent.as_view(), name="agent"),
]
