"""Running a session again, and comparing it with what came before."""

from __future__ import annotations

import uuid

from django.urls import path, reverse
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.requests import quotas
from apps.api import shapes
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Line, Shape, Struct
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON, SessionShape
from apps.automation import reruns
from apps.automation.reruns import ComparedTurn
from apps.conversations.api.sessions import usable_agent
from apps.engine.send import chosen_version
from apps.record.execution import Run
from apps.record.reading.lookup import find_session


class Rerunning(Body):
    agent = Line(required=False, help_text="The slug of the agent that answers. By default the session's.")
    version = serializers.IntegerField(
        required=False, min_value=1, help_text="The number of its version that answers. By default the current one."
    )


@extend_schema_serializer(component_name="ComparedSide")
class SideShape(Shape):
    """What came of a message in one of two sessions."""

    index = serializers.IntegerField(help_text="The index of the event that recorded the message.")
    agent = serializers.CharField(
        source="agent.slug", allow_null=True, help_text="The slug of the agent that answered."
    )
    agent_version = serializers.IntegerField(source="version", allow_null=True)
    state = serializers.ChoiceField(Run.State.choices, allow_null=True, help_text="Null: no agent here got it.")
    input_hash = serializers.CharField(help_text="The SHA-256 digest of the turn's input, with its ids.")
    answer = serializers.CharField(source="text", help_text="The text of the agent's last message of the turn.")
    files = serializers.ListField(child=serializers.CharField(), help_text="Names of the files in that message.")
    seconds = serializers.FloatField(allow_null=True, help_text="How long the turn ran.")
    usage = Struct(help_text="What language models used.")


@extend_schema_serializer(component_name="ComparedChange")
class ChangeShape(Shape):
    kind = serializers.ChoiceField(["same", "added", "removed"])
    text = serializers.CharField()


@extend_schema_serializer(component_name="ComparedTurn")
class TurnShape(Shape):
    """A message, and what came of it in both sessions."""

    message = serializers.CharField(source="words", help_text="The text of the message.")
    same_input = serializers.BooleanField(help_text="Whether the conversation and the options were the same so far.")
    same_answer = serializers.BooleanField()
    before = SideShape()
    after = SideShape(allow_null=True, help_text="Null: the message was not sent again yet.")
    changes = ChangeShape(
        many=True, help_text="The new text: what is the same, added and removed. Empty if little is alike."
    )


@extend_schema_serializer(component_name="Comparison")
class ComparisonShape(Shape):
    """A rerun beside the session whose messages it got."""

    source_id = serializers.UUIDField(source="source.pk")
    session_id = serializers.UUIDField(source="session.pk")
    is_finished = serializers.BooleanField(help_text="Whether all messages were sent and answered.")
    held = serializers.CharField(help_text="Why the next message is not sent by itself. Otherwise empty.")
    turns = TurnShape(many=True)


class Reruns(Endpoint):
    @documented(
        "sessions_rerun",
        "Run a session again",
        body=Rerunning,
        answers={200: SessionShape, 201: SessionShape},
        refuses=[409],
        keyed=True,
    )
    def post(self, request: Request, session: uuid.UUID) -> Response:
        """A new session gets the messages of this one, each when the agent has answered the one before. An answer to a
        question is sent if the agent asks again. Nobody decides about tool calls for you.

        A repeated request with the same `Idempotency-Key` returns the same session with status 200.
        """
        asked, key = self.body(Rerunning), self.idempotency_key
        quotas.count_act(self.principal)
        agent = usable_agent(self.principal, asked["agent"]) if "agent" in asked else None
        receiver = agent or find_session(self.principal, session, restore=False).agent
        version = chosen_version(self.principal, receiver, asked.get("version"))
        made, is_new = reruns.start(self.principal, session, agent, key=key, version=version)
        headers = {"Location": reverse("api:session", args=[made.pk])}
        shown = shapes.session_json(find_session(self.principal, made.pk))
        return Response(shown, status=201 if is_new else 200, headers=headers)


class Comparisons(Endpoint):
    @documented("sessions_comparison", "Compare a rerun with its source", answers={200: ComparisonShape})
    def get(self, request: Request, session: uuid.UUID) -> Response:
        """For a session that `POST /sessions/{id}/rerun` made."""
        found = reruns.compare(self.principal, session)
        return Response(ComparisonShape.json_of(found, turns=[_turn_json(one) for one in found.turns]))


def _turn_json(turn: ComparedTurn) -> JSON:
    return TurnShape.json_of(
        turn,
        before=_side_json(turn.before),
        after=_side_json(turn.after) if turn.after else None,
        changes=[{"kind": kind, "text": text} for kind, text in turn.changes],
    )


def _side_json(side: reruns.Side) -> JSON:
    run = side.run
    return SideShape.json_of(side, input_hash=run.input_hash if run else "", usage=run.usage if run else {})


urlpatterns = [
    path("sessions/<uuid:session>/rerun", Reruns.as_view(), name="session-rerun"),
    path("sessions/<uuid:session>/comparison", Comparisons.as_view(), name="session-comparison"),
]
