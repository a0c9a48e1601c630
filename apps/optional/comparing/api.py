"""Comparisons in the client API."""

from __future__ import annotations

from typing import Any

from django.urls import path, reverse
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.api.framework.resources import ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Line, Listing, Shape, Struct, page_of
from apps.api.shapes import JSON
from apps.conversations.api.messages import Content, read_parts
from apps.conversations.api.sessions import usable_agent
from apps.engine.send import chosen_version
from apps.optional.comparing import comparing
from apps.optional.comparing.comparing import LEAST, MOST, Answerer, ShownSide, State
from apps.optional.comparing.models import Comparison
from apps.record.errors import InvalidFields, KeyUsed

ONE = Comparison.Choice.ONE
EXAMPLE: JSON = {"text": "Name three rivers", "answerers": [{"agent": "echo"}, {"agent": "report"}]}


class NewAnswerer(Body):
    agent = Line(help_text="The slug of the agent that answers.")
    version = serializers.IntegerField(
        required=False, min_value=1, help_text="The number of its version that answers. By default the current one."
    )
    options = Struct(required=False, help_text="The agent's options, such as `model`.")


def _answerers_field() -> serializers.BaseSerializer[Any]:
    bounds: JSON = {"allow_empty": False, "max_length": MOST}
    return NewAnswerer(many=True, help_text=f"{LEAST} to {MOST} answerers, with that of `answerId`.", **bounds)


class NewComparison(Content):
    session_id = serializers.UUIDField(
        required=False, help_text="The session in which the message is said. By default a new one."
    )
    answer_id = serializers.UUIDField(
        required=False,
        help_text="The id of an agent's message in the session. That answer is a side, and the message that it answers "
        "is sent to the others.",
    )
    project = serializers.UUIDField(
        required=False, allow_null=True, help_text="The id of the project that a new session begins in."
    )
    temporary = serializers.BooleanField(
        default=False, help_text="Whether a new session and its branches neither use nor leave memory of you."
    )
    answerers = _answerers_field()
    blind = serializers.BooleanField(
        default=False,
        help_text="Whether names are hidden until you choose. The order of the sides is then random. A branch that you "
        "open by itself names its agent.",
    )

    def validate(self, attrs: JSON) -> JSON:
        if "answer_id" in attrs and ("session_id" not in attrs or attrs.get("text") or attrs.get("parts")):
            raise serializers.ValidationError({"answer_id": ["Give it with `sessionId`, and without a message."]})
        if "session_id" in attrs:
            told = "Give it without `sessionId`: the branches have it as the session has."
            if wrong := {name: [told] for name in ("project", "temporary") if attrs.get(name)}:
                raise serializers.ValidationError(wrong)
        return attrs


class NewChoice(Body):
    choice = serializers.ChoiceField(
        [one for one in Comparison.Choice.choices if one[0]], help_text="`one`: that of `position`."
    )
    position = serializers.IntegerField(
        required=False, min_value=1, help_text="The place of the side that you go on with."
    )

    def validate(self, attrs: JSON) -> JSON:
        if (attrs["choice"] == ONE) != ("position" in attrs):
            raise serializers.ValidationError({"position": ["Give it with the choice `one`, and only then."]})
        return attrs


@extend_schema_serializer(component_name="ListedSide")
class ListedSideShape(Shape):
    """An answerer, and its branch. A blind comparison names no answerer before the choice."""

    position = serializers.IntegerField(help_text="Its place on the page, starting at 1.")
    agent = serializers.CharField(source="agent.slug", allow_null=True, help_text="Null while it is hidden.")
    version = serializers.IntegerField(source="version.number", allow_null=True, default=None)
    model = serializers.CharField(help_text="That was chosen for it. Otherwise empty.")
    session_id = serializers.UUIDField(help_text="The branch with the answer.")
    is_chosen = serializers.BooleanField()


@extend_schema_serializer(component_name="AnswererSide")
class SideShape(ListedSideShape):
    """An answerer, its branch, and what came of the message there."""

    state = serializers.ChoiceField([one.value for one in State])
    held = serializers.CharField(help_text="Why the message was not sent. Otherwise empty.")
    answer = serializers.CharField(help_text="The text of the agent's last message of the turn.")
    seconds = serializers.FloatField(allow_null=True, help_text="How long the turn ran.")
    cost = serializers.FloatField(allow_null=True, help_text="What language models cost, in US dollars, if known.")


@extend_schema_serializer(component_name="ListedComparison")
class ListedComparisonShape(Shape):
    """One message to several answerers, and which was chosen. Retrieve it for the answers."""

    id = serializers.UUIDField()
    session_id = serializers.UUIDField(help_text="The session in which the message was said.")
    blind = serializers.BooleanField()
    choice = serializers.ChoiceField(Comparison.Choice.choices, help_text="Empty: not chosen yet.")
    chosen_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    sides = ListedSideShape(many=True)

    def to_representation(self, row: Comparison) -> JSON:
        return self.json_of(row, sides=[ListedSideShape.json_of(one, **_hidden(row)) for one in row.sides.all()])


@extend_schema_serializer(component_name="AnswerComparison")
class ComparisonShape(ListedComparisonShape):
    """One message to several answerers, and which answer was chosen."""

    sides = SideShape(many=True)

    def to_representation(self, row: Comparison) -> JSON:
        return self.json_of(row, sides=[_side_json(one) | _hidden(row) for one in comparing.shown_sides(row)])


def _hidden(row: Comparison) -> JSON:
    """What stands instead of the names that a blind comparison hides."""
    return {"agent": None, "version": None, "model": ""} if row.hides_names else {}


def _side_json(side: ShownSide) -> JSON:
    about = {name: getattr(side, name) for name in ("state", "held", "seconds", "cost")}
    return SideShape.json_of(side.row, **about, answer=side.turn.text if side.turn else "")


class Comparisons(ResourceViewSet):
    resource = comparing.COMPARISONS
    usual = ("list", "create", "retrieve")
    shape = ComparisonShape
    examples = (OpenApiExample("Two agents", EXAMPLE, request_only=True),)

    @documented(
        "comparisons_list",
        "List your comparisons without their answers, newest first",
        query=Listing,
        answers={200: page_of(ListedComparisonShape)},
    )
    def list(self, request: Request) -> Response:
        rows = self.resource.visible_to(self.principal)
        return self.listed(rows.prefetch_related("sides__agent", "sides__version"), ListedComparisonShape)

    @documented(
        "comparisons_create",
        "Send one message to several agents, models or versions",
        body=NewComparison,
        answers={200: ComparisonShape, 201: ComparisonShape},
        refuses=[404, 409],
        keyed=True,
        examples=examples,
    )
    def create(self, request: Request) -> Response:
        """Each gets the message in a branch of the session. You choose the branch with which you go on.

        A repeated request with the same `Idempotency-Key` returns the same comparison with status 200.
        """
        asked, key = self.body(NewComparison), self.idempotency_key
        quotas.count_fork(self.principal)
        parts = [] if "answer_id" in asked else read_parts(asked)
        answerers = _answerers(self.principal, asked["answerers"])
        how = {"session": asked.get("session_id"), "answer": asked.get("answer_id"), "blind": asked["blind"]}
        how |= {"project": asked.get("project"), "temporary": asked["temporary"]}
        try:
            made, is_new = comparing.begin(self.principal, answerers, parts=parts, key=key, **how)
        except KeyUsed as refusal:
            raise refusal.named("Idempotency-Key") from None
        headers = {"Location": reverse("api:comparison", args=[made.pk])}
        return Response(self.shown(ComparisonShape, made), status=201 if is_new else 200, headers=headers)

    @documented("comparisons_choose", "Choose an answer", body=NewChoice, answers={200: ComparisonShape}, refuses=[409])
    def choose(self, request: Request, **key: Any) -> Response:
        """The branch of the chosen answer becomes your current one. The choice counts in the agents' numbers. You can
        change it until the next message in one of the branches.
        """
        row, asked = self.find(**key), self.body(NewChoice)
        quotas.count_act(self.principal)
        side = comparing.side_at(row, asked["position"]) if asked["choice"] == ONE else None
        made = comparing.choose(self.principal, row, asked["choice"], side)
        return Response(self.shown(ComparisonShape, made))


def _answerers(principal: Principal, sides: list[JSON]) -> list[Answerer]:
    """Raises InvalidFields."""
    found: list[Answerer] = []
    for place, asked in enumerate(sides):
        try:
            agent = usable_agent(principal, asked["agent"])
            version = chosen_version(principal, agent, asked.get("version"))
        except InvalidFields as wrong:
            raise InvalidFields([(f"answerers[{place}].{name}", said) for name, said in wrong.violations]) from None
        found.append(comparing.answerer_of(agent, version, asked.get("options")))
    return found


urlpatterns = [
    *Comparisons.urls(),
    path("comparisons/<uuid:comparison>/choice", Comparisons.at(put="choose"), name="comparison-choice"),
]
