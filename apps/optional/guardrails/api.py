"""Guardrails in the client API: rows, what they decided, and a trial without a save."""

from __future__ import annotations

from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Shape, Text
from apps.engine.turns.guards import Way
from apps.optional.guardrails import decisions, rails
from apps.optional.guardrails.finding import CATEGORIES
from apps.optional.guardrails.models import MOST_AGENTS, Guardrail, RailDecision
from parley import db

EXAMPLE = {"name": "Personal data", "direction": "in", "checkKind": "personal", "action": "redact"}
MAX_SAMPLE = 20_000  # characters


@extend_schema_serializer(component_name="Guardrail")
class GuardrailShape(ModelShape):
    """A check on what goes to agents or comes from them."""

    agents = serializers.ListField(
        child=serializers.CharField(max_length=100), max_length=MOST_AGENTS, required=False,
        help_text="Slugs. Empty: all agents of the workspace, and all that it talks to.",
    )  # fmt: skip
    categories = serializers.ListField(
        child=Choice(choices=list(CATEGORIES)), max_length=len(CATEGORIES), required=False,
        help_text="What `personal` looks for.",
    )  # fmt: skip

    class Meta:
        model = Guardrail
        fields = (
            "id", "name", "direction", "check_kind", "action", "agents", "words", "patterns", "label", "categories",
            "region", "most_characters", "most_files", "most_bytes", "question", "model", "seconds", "if_fails",
            "decided_by", "only_watch", "is_on", "order", "created_at", "updated_at",
        )  # fmt: skip


@extend_schema_serializer(component_name="GuardrailDecision")
class DecisionShape(ModelShape):
    """What a guardrail decided. The event `guardrail` in the session's log has the same."""

    class Meta:
        model = RailDecision
        fields = ("id", "direction", "done", "count", "ms", "at")


@extend_schema_serializer(component_name="GuardrailNumbers")
class NumbersShape(Shape):
    days = serializers.IntegerField(help_text="How many days are counted.")
    by_done = serializers.DictField(child=serializers.IntegerField(), help_text="How often, by what was done.")
    p50_ms = serializers.IntegerField(allow_null=True, help_text="Half of the checks took at most so long.")
    p95_ms = serializers.IntegerField(allow_null=True, help_text="95 % of the checks took at most so long.")


@extend_schema_serializer(component_name="TrialText")
class TrialText(Body):
    text = Text(max_length=MAX_SAMPLE, help_text="It is not stored.")
    direction = Choice(choices=[one.value for one in Way], default=Way.IN.value)


@extend_schema_serializer(component_name="GuardrailTrial")
class TrialShape(Shape):
    effect = serializers.CharField(help_text="`pass`, `block`, `redact`, `ask` or `fail`: it could not check.")
    text = serializers.CharField(help_text="As it would pass.")
    says = serializers.CharField(help_text="What people would be told.")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="What it finds, by category.")
    ms = serializers.IntegerField(help_text="How long the check took.")


class Guardrails(ResourceViewSet):
    resource = rails.GUARDRAILS
    shape = GuardrailShape
    notes = {
        "list": "Those of the current workspace, in the order in which they check. Without the role Manager, your own.",
        "create": "Without the role Manager, `agents` names agents of your own.",
    }
    refuses = {"create": [403, 409], "update": [403]}
    examples = (
        OpenApiExample("Hide personal data", {**EXAMPLE, "categories": ["email", "card"]}, request_only=True),
    )  # fmt: skip

    @documented("guardrails_numbers", "Retrieve how often a guardrail acted", answers={200: NumbersShape})
    def numbers(self, request: Request, **key: Any) -> Response:
        found = decisions.numbers(self.find(**key))
        shown = {"days": decisions.DAYS, "byDone": found.by_done, "p50Ms": found.p50, "p95Ms": found.p95}
        return Response(shown)

    @documented("guardrails_decisions", "List a guardrail's newest decisions", answers={200: DecisionShape(many=True)})
    def decisions(self, request: Request, **key: Any) -> Response:
        rows = [one for one, _ in decisions.newest(self.principal, self.find(**key))]
        return Response(DecisionShape(rows, many=True).data)

    @documented("guardrails_try", "Try a guardrail with a text", body=TrialText, answers={200: TrialShape})
    async def try_out(self, request: Request, **key: Any) -> Response:
        """Nothing is stored. It checks also if it is off."""
        rail = await db.run(lambda: self.find(**key))
        asked = self.body(TrialText)
        trial = await rails.try_out(rail, asked["text"], Way(asked["direction"]))
        return Response(TrialShape.json_of(trial))


urlpatterns = [
    *Guardrails.urls(),
    path("guardrails/<uuid:guardrail>/numbers", Guardrails.at(get="numbers"), name="guardrail-numbers"),
    path("guardrails/<uuid:guardrail>/decisions", Guardrails.at(get="decisions"), name="guardrail-decisions"),
    path("guardrails/<uuid:guardrail>/try", Guardrails.at(post="try_out"), name="guardrail-try"),
]
