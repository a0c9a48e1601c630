"""Plans: list, definitions, saving, checking, and their JSON Schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.urls import path, reverse
from django.utils.cache import get_conditional_response
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.errors import NotFound
from apps.accounts.models import User
from apps.accounts.principals import READ
from apps.accounts.requests import quotas
from apps.agents import cards
from apps.agents.models import Agent, AgentVersion
from apps.api.framework.policies import encode_json
from apps.api.framework.schema import FILE_ANSWERS, documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Query, Shape, Struct, page_of
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON
from apps.plans import definitions, drafting, progress, registry
from apps.plans.definitions import MOST_BYTES, PlanDefinition, as_yaml, check_size
from apps.plans.drafting import LONGEST_GOAL
from apps.plans.pictures import graph_svg
from apps.plans.registry import may_change
from apps.record.errors import InvalidFields
from parley import db
from parley.faces.drawing import svg

MAX_VERSIONS = 100
PICTURE = {**FILE_ANSWERS, (200, svg.MEDIA_TYPE): OpenApiTypes.BINARY}
MAX_PROBLEMS = 100
NO_VERSION = "There is no such version of the plan, or it is not yours to see."
ONE_OF_TWO = "Give the definition as `definition` (JSON) or as `yaml` (text): one of the two."

EXAMPLE_PLAN = {
    "slug": "short-story",
    "definition": {
        "name": "Short story",
        "description": "Writes a short story.",
        "inputs": {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}},
        "steps": {"draft": {"agent": "echo", "message": "A story about {{ inputs.topic }}."}},
    },
}


class OnePlanQuery(Query):
    version = serializers.IntegerField(
        default=None,
        min_value=1,
        max_value=2_000_000_000,
        help_text="The number of a version. By default the current version.",
    )


class Written(Body):
    definition = Struct(required=False, help_text="The definition as JSON. `/plans/schema` describes its format.")
    yaml = serializers.CharField(
        required=False,
        trim_whitespace=False,
        max_length=MOST_BYTES,
        help_text="The definition as YAML. Send either `definition` or `yaml`.",
    )


class CheckPlan(Written):
    slug = Line(
        default="",
        allow_blank=True,
        max_length=63,
        help_text="The slug that the plan will have. A plan may not name itself as an agent.",
    )


class SavePlan(Written):
    note = Line(default="", allow_blank=True, help_text="What is new in this version.")
    access = Choice(
        Agent.Access.choices,
        required=False,
        help_text="Who may use the plan. Only operators of agents may set this. By default only its author "
        "can use a new plan.",
    )


class NewPlan(SavePlan):
    slug = Line(max_length=63, help_text="The plan's slug: lower-case letters, digits and hyphens.")


class NewPlanVersion(SavePlan):
    as_candidate = serializers.BooleanField(
        default=False, help_text="Only save a version, for `PUT /agents/{slug}/rollout`. The plan stays as it is."
    )
    base = serializers.IntegerField(
        required=False,
        min_value=1,
        help_text="The number of the version that you changed. If there is a newer version, the request is "
        "refused with status 409.",
    )


@extend_schema_serializer(component_name="Plan")
class PlanShape(Shape):
    """A plan that you may use. A plan is an agent whose work consists of steps that agents and people carry out."""

    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    access = serializers.ChoiceField(Agent.Access.choices)
    version = serializers.IntegerField(
        source="current_version.number", allow_null=True, help_text="The number of the version that new runs use."
    )
    steps = serializers.IntegerField(help_text="The number of steps in the definition. A run may have more.")
    may_change = serializers.BooleanField(help_text="Whether you may save a new version of the plan.")
    url = serializers.CharField(help_text="The plan's A2A URL.")
    updated_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="PlanVersion")
class VersionShape(Shape):
    number = serializers.IntegerField(help_text="The number of the version, starting at 1.")
    note = serializers.CharField()
    sha256 = serializers.CharField(help_text="The SHA-256 digest of the definition as canonical JSON (RFC 8785).")
    created_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="WholePlan")
class WholePlanShape(PlanShape):
    """A plan with the definition of its current version, or of the version that you requested."""

    shown_version = serializers.IntegerField(
        allow_null=True, help_text="The number of the version that `definition` shows."
    )
    definition = Struct(
        allow_null=True,
        help_text="The definition as JSON. `/plans/schema` describes its format. Null if the server can no "
        "longer read the definition.",
    )
    yaml = serializers.CharField(help_text="The definition as YAML.")
    inputs = Struct(help_text="The JSON Schema of the plan's inputs.")
    versions = VersionShape(many=True, help_text="The plan's versions, newest first. At most 100.")


class Plans(Endpoint):
    @documented(
        "plans_list", "List the plans that you may use, by name", query=Listing, answers={200: page_of(PlanShape)}
    )
    def get(self, request: Request) -> Response:
        rows = registry.sized(registry.visible_plans(self.principal))

        def show(plans: list[Any]) -> list[JSON]:
            return [plan_json(plan, plan.size, _user(request)) for plan in plans]

        return self.page(rows, ("name", "id"), self.query(Listing), show)

    @documented(
        "plans_create",
        "Create a plan",
        body=NewPlan,
        answers={201: WholePlanShape},
        examples=[OpenApiExample("One step", EXAMPLE_PLAN, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """An invalid definition is refused with a message for each path. Nothing is saved in that case."""
        asked = self.body(NewPlan)
        return Response(_saved(_user(request), None, asked["slug"], asked), status=201)


class DraftAsked(Body):
    goal = serializers.CharField(
        max_length=LONGEST_GOAL, help_text="What should be done. Name the steps if you know them."
    )


@extend_schema_serializer(component_name="PlanDraft")
class DraftShape(Shape):
    """A plan that could be saved, and that is not saved yet."""

    definition = Struct(help_text="The definition as JSON. `/plans/schema` describes its format.")
    yaml = serializers.CharField(help_text="The same as YAML.")
    by_model = serializers.BooleanField(
        help_text="Whether a language model wrote it. Otherwise each part of the goal goes to the agent whose skills "
        "fit it best."
    )


class DraftPlan(Endpoint):
    @documented("plans_draft", "Draft a plan from a goal", body=DraftAsked, answers={200: DraftShape}, refuses=[409])
    async def post(self, request: Request) -> Response:
        """The steps are done by agents that you may use. Nothing is saved; status 409 means that no agent fits."""
        asked = await db.run(self.body, DraftAsked)
        await db.run(quotas.count_act, self.principal)
        draft = await drafting.draft_plan(self.principal, asked["goal"])
        content = draft.definition.as_json
        return Response({"definition": content, "yaml": as_yaml(content), "byModel": draft.by_model})


class OnePlan(Endpoint):
    @documented(
        "plans_retrieve", "Retrieve a plan with its definition", query=OnePlanQuery, answers={200: WholePlanShape}
    )
    def get(self, request: Request, slug: str) -> Response:
        """Only people who may change the plan can retrieve versions before the current one."""
        plan = registry.find_plan(self.principal, slug)
        number, version = self.query(OnePlanQuery)["version"], plan.current_version
        if number is not None and (version is None or version.number != number):
            version = plan.versions.filter(number=number).first() if may_change(_user(request), plan) else None
            if version is None:
                raise NotFound(NO_VERSION)
        return Response(whole_plan_json(plan, version, _user(request)))

    @documented(
        "plans_update",
        "Save a new version of a plan",
        body=NewPlanVersion,
        answers={200: WholePlanShape},
        refuses=[409],
    )
    def put(self, request: Request, slug: str) -> Response:
        """Active runs keep the version with which they started. If the definition has not changed, no version is
        created.
        """
        plan = registry.find_own_plan(self.principal, _user(request), slug)
        return Response(_saved(_user(request), plan, slug, self.body(NewPlanVersion)))


@extend_schema_serializer(component_name="PlanProblem")
class ProblemShape(Shape):
    path = serializers.CharField(
        help_text="The path in the definition, such as `steps.review.agent`. `file` means the whole definition."
    )
    message = serializers.CharField()


@extend_schema_serializer(component_name="CheckedPlan")
class CheckedShape(Shape):
    """The result of a check. Nothing was saved."""

    is_valid = serializers.BooleanField()  # type: ignore[assignment]
    problems = ProblemShape(many=True)
    definition = Struct(
        allow_null=True,
        help_text="The definition as the server read it, without default values. Null if the server could not read it.",
    )


class Check(Endpoint):
    scopes = {"POST": READ}

    @documented("plans_check", "Check a definition", body=CheckPlan, answers={200: CheckedShape})
    def post(self, request: Request) -> Response:
        """The check saves nothing. The agents that the definition names must exist, and you must be allowed to use
        them.
        """
        asked, definition = self.body(CheckPlan), None
        problems: Sequence[tuple[str, str]] = []
        try:
            definition = _read(asked)
            registry.validate(definition, asked["slug"], self.principal)
        except ValidationError as error:
            problems = InvalidFields.of(error).violations
        told = [{"path": path, "message": sentence} for path, sentence in problems[:MAX_PROBLEMS]]
        known = definition.as_json if definition else None
        return Response({"isValid": not problems, "problems": told, "definition": known})


class Picture(Endpoint):
    @documented(
        "plans_picture",
        "Draw a plan",
        answers=PICTURE,
    )
    def get(self, request: Request, slug: str) -> HttpResponse:
        """The response is a self-contained SVG image. It shows each step, left to right in the order of
        dependencies.
        """
        definition = registry.definition_of(registry.find_plan(self.principal, slug))
        if definition is None:
            raise NotFound("The plan's definition cannot be read any more, so there is no picture of it.")
        return picture(graph_svg(progress.definition_graph(definition)))


def picture(content: str) -> HttpResponse:
    """SVG that may run and load nothing."""
    return HttpResponse(content, content_type=svg.MEDIA_TYPE, headers={"Content-Security-Policy": svg.POLICY})


def plan_json(plan: Agent, size: int, user: User) -> JSON:
    """A plan with `size` steps; version and workspace should be loaded."""
    return PlanShape.json_of(plan, steps=size, may_change=may_change(user, plan), url=cards.agent_url(plan))


def whole_plan_json(plan: Agent, version: AgentVersion | None, user: User) -> JSON:
    definition = registry.definition_at(version)
    versions = plan.versions.defer("content").order_by("-number")[:MAX_VERSIONS]
    size = len(plan.current_version.content.get("steps", ())) if plan.current_version else 0
    return plan_json(plan, size, user) | {
        "shownVersion": version.number if version else None,
        "definition": definition.as_json if definition else None,
        "yaml": as_yaml(version.content) if version else "",
        "inputs": definition.inputs if definition else {},
        "versions": VersionShape.list_of(versions),
    }


def _user(request: Request) -> User:
    return cast("User", request.user)


def _read(asked: JSON) -> PlanDefinition:
    """Raises InvalidFields, ValidationError."""
    if ("definition" in asked) == ("yaml" in asked):
        raise InvalidFields([("definition", ONE_OF_TWO)])
    if "yaml" in asked:
        return PlanDefinition.from_yaml(asked["yaml"])
    check_size(encode_json(asked["definition"]).decode())
    return PlanDefinition.read(asked["definition"])


def _saved(user: User, plan: Agent | None, slug: str, asked: JSON) -> JSON:
    """Raises InvalidFields with a message for each path, PlanChanged."""
    try:
        definition = _read(asked)
    except ValidationError as error:
        raise InvalidFields(InvalidFields.of(error).violations[:MAX_PROBLEMS]) from None
    stated = {name: asked[name] for name in ("base", "note", "access", "as_candidate") if name in asked}
    saved = registry.save_plan(user, plan, slug, definition, **stated)
    return whole_plan_json(saved, saved.current_version, user)


SCHEMA_TYPE = "application/schema+json"
SCHEMA_MAX_AGE = 3600  # seconds


class PlanSchema(Endpoint):
    """Anybody may read it."""

    permission_classes = [AllowAny]

    @documented(
        "plans_schema",
        "Retrieve the JSON Schema of plan definitions",
        answers={(200, SCHEMA_TYPE): OpenApiTypes.OBJECT, 304: None},
    )
    def get(self, request: Request) -> HttpResponse:
        """The schema uses Draft 2020-12. This operation requires no credentials. Send the `ETag` of an earlier
        response as `If-None-Match` to get status 304 if the schema has not changed.
        """
        content, etag = _schema_document(f"{settings.PUBLIC_BASE_URL}{reverse('api:plan-schema')}")
        headers = {
            "ETag": etag,
            "Cache-Control": f"public, max-age={SCHEMA_MAX_AGE}",
            "Access-Control-Allow-Origin": "*",
        }
        whole = HttpResponse(content, content_type=SCHEMA_TYPE, headers=headers)
        return cast("HttpResponse", get_conditional_response(cast("Any", request), etag, response=whole))


@cache
def _schema_document(address: str) -> tuple[bytes, str]:
    content = json.dumps(definitions.plan_schema(address), ensure_ascii=False, indent=1).encode()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


urlpatterns = [
    path("plans/schema", PlanSchema.as_view(), name="plan-schema"),
    path("plans", Plans.as_view(), name="plans"),
    path("plans/check", Check.as_view(), name="plan-check"),
    path("plans/draft", DraftPlan.as_view(), name="plan-draft"),
    path("plans/<str:slug>", OnePlan.as_view(), name="plan"),
    path("plans/<str:slug>/picture", Picture.as_view(), name="plan-picture"),
]
