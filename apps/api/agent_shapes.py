"""An agent, as the schema declares it (`agents.agent_json` makes it)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from apps.agents.models import Agent
from apps.api.fields import Shape


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
