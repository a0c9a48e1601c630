"""Agents: the list, one, and a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import prefetch_related_objects
from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.agents import cards
from apps.agents.models import MAX_CATEGORY_LENGTH, Agent
from apps.agents.negotiation import Assessment
from apps.agents.rollouts import api as rollouts
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Choice, Listing, Query, Shape, page_of
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON
from apps.remote.models import SignatureStatus
from apps.routing import ranking
from parley import db

DIGITS = 4  # of measurements
MAX_QUERY = 200  # characters


TRUST = {
    SignatureStatus.VERIFIED: "verified",
    SignatureStatus.UNSIGNED: "unsigned",
    SignatureStatus.UNVERIFIED: "not_trusted",
}


def agents_json(agents: Sequence[Agent]) -> list[JSON]:
    """Agents with `stats` loaded. One query if some are remote."""
    prefetch_related_objects([agent for agent in agents if agent.kind == Agent.Kind.REMOTE], "remote")
    return [agent_json(agent) for agent in agents]


def agent_json(agent: Agent) -> JSON:
    """An agent with `stats` loaded. Only operators see why it is unhealthy."""
    remote = getattr(agent, "remote", None) if agent.kind == Agent.Kind.REMOTE else None
    stats = getattr(agent, "stats", None)  # none before its first work
    rates = {name: _rounded(getattr(stats, name)) for name in ("success_rate", "mean_rating")} if stats else {}
    return AgentShape.json_of(
        agent,
        url=cards.agent_url(agent),
        card_url=f"{cards.agent_url(agent)}/.well-known/agent-card.json",
        skills=cards.card_skills(agent),
        card_trust=TRUST[remote.signature] if remote else None,
        card_notes=remote.card_notes if remote else [],
        health=dict(zip(("status", "reason"), cards.public_health(agent), strict=True)),
        stats=AgentStats.json_of(stats, **rates) if stats else None,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def fit_json(assessment: Assessment) -> JSON:
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


LISTED: dict[str, dict[str, bool]] = {"true": {"listed": True}, "false": {"listed": False}, "all": {}}


class ListingAgents(Listing):
    listed = Choice(
        [*LISTED],
        default="true",
        help_text="`true` lists the agents that people choose from, `false` those that only agents and plans use, "
        "`all` both.",
    )


class Searching(Query):
    q = serializers.CharField(
        default="", allow_blank=True, max_length=MAX_QUERY, help_text="Words to search for, or part of an agent's name."
    )
    skill = serializers.CharField(required=False, max_length=MAX_QUERY, help_text="The id or name of a skill.")
    tag = serializers.CharField(required=False, max_length=MAX_QUERY, help_text="A tag of a skill.")
    mode = serializers.CharField(
        required=False,
        max_length=MAX_QUERY,
        help_text="A media type that the agent accepts or produces. `image/*` matches any image.",
    )
    health = Choice(Agent.Health.choices, required=False)
    kind = Choice(Agent.Kind.choices, required=False)
    category = serializers.CharField(required=False, max_length=MAX_CATEGORY_LENGTH, help_text="The agent's category.")


def _texts(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), **options)


class AgentSkill(Shape):
    """A skill from the agent's A2A card. The card may have more fields."""

    id = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(required=False)
    tags = _texts(required=False)
    examples = _texts(required=False)
    input_modes = _texts(required=False)
    output_modes = _texts(required=False)


class AgentHealth(Shape):
    status = serializers.ChoiceField(Agent.Health.choices)
    reason = serializers.CharField(
        help_text="Why the agent is not healthy, in words for people. Empty if it is healthy."
    )


class AgentStats(Shape):
    """Measurements of the agent's recent work."""

    latency_ms = serializers.IntegerField(
        allow_null=True, help_text="The median time in milliseconds that a caller waits for a turn."
    )
    recent_runs = serializers.IntegerField(source="runs")
    success_rate = serializers.FloatField(allow_null=True, min_value=0, max_value=1)
    ratings = serializers.IntegerField(help_text="The number of tasks with a rating.")
    mean_rating = serializers.FloatField(allow_null=True, min_value=1, max_value=5)
    measured_at = serializers.DateTimeField(source="updated_at")


@extend_schema_serializer(component_name="Agent")
class AgentShape(Shape):
    """An agent that you may use."""

    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    version = serializers.CharField()
    kind = serializers.ChoiceField(Agent.Kind.choices)
    access = serializers.ChoiceField(Agent.Access.choices)
    listed = serializers.BooleanField(
        help_text="Whether people choose from it. Otherwise only other agents and plans use it."
    )
    mcp_tools = serializers.ChoiceField(
        Agent.McpTools.choices, help_text="What MCP clients are offered: nothing, one tool, or a tool for each skill."
    )
    category = serializers.CharField(help_text="The heading under which lists show the agent. Empty if it has none.")
    url = serializers.CharField(help_text="The agent's A2A URL.")
    card_url = serializers.CharField(help_text="The URL of the agent's A2A card.")
    skills = AgentSkill(many=True)
    input_modes = _texts(help_text="The media types that the agent accepts.")
    output_modes = _texts(help_text="The media types that the agent produces.")
    streaming = serializers.BooleanField(source="streams")
    signs_artifacts = serializers.BooleanField(source="sign_artifacts")
    card_trust = serializers.ChoiceField(
        [*TRUST.values()],
        allow_null=True,
        help_text="Whether a trusted key signed a remote agent's card, nobody did, or the signature proves nothing. "
        "Null for agents of this installation.",
    )
    card_notes = _texts(
        help_text="What was assumed or left out when a remote agent's card was read, a sentence each. Empty for agents "
        "of this installation."
    )
    cost = serializers.FloatField(
        help_text="The cost of a task in this installation's currency. 0 if the agent is free."
    )
    health = AgentHealth()
    stats = AgentStats(allow_null=True, help_text="The agent's measurements. Null if there are none yet.")
    updated_at = serializers.DateTimeField()


class MatchedSkill(Shape):
    id = serializers.CharField()
    name = serializers.CharField()
    score = serializers.FloatField(min_value=0, max_value=1)
    reasons = _texts()


class Fit(Shape):
    """How well an agent fits the search, by the same assessment as in a negotiation."""

    score = serializers.FloatField(min_value=0, max_value=1)
    confidence = serializers.FloatField(min_value=0, max_value=1)
    would_take = serializers.BooleanField()
    rejection_reason = serializers.CharField(allow_null=True, help_text="Why the agent would not accept the work.")
    skills = MatchedSkill(many=True, help_text="The skills that fit, best match first. At most five.")


@extend_schema_serializer(component_name="FoundAgent")
class FoundShape(AgentShape):
    """An agent in the results of a search."""

    fit = Fit(
        allow_null=True,
        help_text="How well the agent fits. Null for the agent that forwards work to other agents, because it "
        "is not compared.",
    )


class FoundAgents(Shape):
    """The results of a search, best match first."""

    items = FoundShape(many=True)


class Agents(Endpoint):
    @documented(
        "agents_list",
        "List the agents that you may use, by name",
        query=ListingAgents,
        answers={200: page_of(AgentShape)},
    )
    def get(self, request: Request) -> Response:
        """By default only listed agents."""
        asked = self.query(ListingAgents)
        rows = Agent.objects.visible_to(self.principal).filter(**LISTED[asked["listed"]]).select_related("stats")
        return self.page(rows, ("name", "id"), asked, agents_json)


class OneAgent(Endpoint):
    @documented("agents_retrieve", "Retrieve an agent", answers={200: AgentShape})
    def get(self, request: Request, slug: str) -> Response:
        return Response(agent_json(Agent.objects.select_related("stats").find(self.principal, slug)))


class AgentSearch(Endpoint):
    @documented("agents_search", "Search agents, best match first", query=Searching, answers={200: FoundAgents})
    async def get(self, request: Request) -> Response:
        """Finds listed agents. The search compares words. It also compares meaning if an embedding model is
        configured.
        """
        asked = self.query(Searching)
        found = await ranking.search_agents(self.principal, asked.pop("q"), **asked)
        return Response({"items": await db.run(_found_json, found)})


def _found_json(found: list[ranking.FoundAgent]) -> list[JSON]:
    fits = [{"fit": fit_json(one.assessment) if one.assessment else None} for one in found]
    return [agent | fit for agent, fit in zip(agents_json([one.agent for one in found]), fits, strict=True)]


urlpatterns = [
    path("agents", Agents.as_view(), name="agents"),
    path("agents/search", AgentSearch.as_view(), name="agent-search"),
    *rollouts.urlpatterns,
    path("agents/<str:slug>", OneAgent.as_view(), name="agent"),
]
