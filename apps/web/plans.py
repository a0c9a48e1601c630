"""The plans that a person may use: all of them, a page for each, and where a run of one is started."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

import db
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.send import send
from apps.plans import checks, depicting, finding, graphs
from apps.plans.definitions import PlanDefinition, as_yaml
from apps.plans.inputs import OWN_INPUTS
from apps.plans.registration import may_change
from apps.plans.templates import TemplateProblem
from apps.record import strict_json
from apps.record.errors import ContextNotFound, InvalidParams, UnsupportedOperation
from apps.record.models import Task
from apps.web.composing import message_from, refuse_too_large
from apps.web.outlines import outline_of
from apps.web.principals import principal_of
from apps.web.questions import Field, fields_of
from apps.web.sending import act
from apps.web.shell import page

JSON = dict[str, Any]

MOST_PLANS = 200
RECENT = 10  # runs on a page


@dataclass(frozen=True)
class Inputs:
    """What a plan is started with, as a form: `fields`; or `outline`, of what is written as JSON."""

    slot: JSON
    fields: list[Field]
    outline: list[str]
    speaks_of: frozenset[str]  # of text and files, what the plan does something with

    @classmethod
    def of(cls, definition: PlanDefinition) -> Inputs:
        stated = definition.inputs
        properties = {name: one for name, one in stated.get("properties", {}).items() if name not in OWN_INPUTS}
        required = [name for name in stated.get("required", []) if name in properties]
        schema = {**stated, "type": "object", "properties": properties, "required": required}
        slot = {"name": "inputs", "schema": schema}
        fields = fields_of(slot) if properties else []
        outline = [] if fields or not properties else outline_of(slot)
        spoken = _spoken_of(definition) | (stated.get("properties", {}).keys() & set(OWN_INPUTS))
        return cls(slot, fields, outline, frozenset(spoken))

    @property
    def is_written(self) -> bool:
        """Are they beyond a form, and written as JSON?"""
        return not self.fields and bool(self.slot["schema"]["properties"])


def _spoken_of(definition: PlanDefinition) -> set[str]:
    """The inputs that its templates speak of."""
    found: set[str] = set()
    for step in definition.steps.values():
        for source in graphs.sources(step):
            try:
                found |= source.spoken.inputs
            except TemplateProblem:
                continue
    return found & set(OWN_INPUTS)


@require_safe
@login_required
def plans(request: HttpRequest) -> HttpResponse:
    """All of them, with the reader's newest run of each, and their newest runs of all."""
    principal = principal_of(request)
    newest = runs_of(principal).filter(agent=OuterRef("pk")).order_by("-created_at")
    found = finding.sized(finding.plans(principal)).annotate(
        last_run=Subquery(newest.values("pk")[:1]),
        last_state=Subquery(newest.values("state")[:1]),
        last_at=Subquery(newest.values("created_at")[:1]),
    )
    listed = list(found.order_by("name")[:MOST_PLANS])
    return page(request, "web/plans.html", plans=listed, runs=list(runs_of(principal)[:RECENT]))


@require_safe
@login_required
def plan(request: HttpRequest, slug: str) -> HttpResponse:
    """What a plan does, its picture, where it is started, and the reader's runs of it."""
    principal = principal_of(request)
    found = plan_of(principal, slug)
    definition = finding.definition_of(found)
    about: JSON = {"graph": None, "inputs": None}
    if definition is not None:
        about = {"graph": depicting.of_definition(definition), "inputs": Inputs.of(definition)}
    about |= {
        "plan": found,
        "definition": definition,
        "runs": list(runs_of(principal).filter(agent=found)[:RECENT]),
        "may_change": may_change(cast("User", request.user), found),
    }
    return page(request, "web/plan.html", **about)


@require_safe
@login_required
def written(request: HttpRequest, slug: str) -> HttpResponse:
    """Its definition, as a file."""
    found = plan_of(principal_of(request), slug)
    if found.current_version is None:
        raise Http404
    return HttpResponse(as_yaml(found.current_version.content), content_type="text/plain; charset=utf-8")


@act
async def start(request: HttpRequest, principal: Principal, slug: str) -> HttpResponse:
    """Send the plan what it is started with; the same message starts it once."""
    refuse_too_large(request)
    agent, inputs = await db.run(_startable, principal, slug)
    also = _as_json(request) or ([] if _has_words(request) else [{"data": {}}])
    message = message_from(request, agent, inputs.slot, uploaded=also)
    sent = await send(principal, agent, message, require_task=True)
    address = reverse("web:plan-run", args=[cast("uuid.UUID", sent.task)])
    return JsonResponse({"address": address}, status=HTTPStatus.CREATED)


def plan_of(principal: Principal, slug: str) -> Agent:
    """Raises Http404."""
    found = _named(principal, slug)
    if found is None:
        raise Http404
    return found


def _named(principal: Principal, slug: str) -> Agent | None:
    """No database is asked for what cannot be a slug: PostgreSQL takes no U+0000."""
    return finding.plans(principal).filter(slug=slug).first() if slug.isprintable() else None


def runs_of(principal: Principal) -> QuerySet[Task]:
    """The newest first."""
    return finding.runs(principal).order_by("-created_at", "-pk")


def _startable(principal: Principal, slug: str) -> tuple[Agent, Inputs]:
    agent = _named(principal, slug)
    definition = finding.definition_of(agent) if agent else None
    if agent is None or definition is None:
        raise ContextNotFound("There is no such plan, or you may not use it.")
    if why := checks.why_closed(definition, principal):
        raise UnsupportedOperation(why)
    return agent, Inputs.of(definition)


def _as_json(request: HttpRequest) -> list[JSON]:
    """The inputs that were written as JSON, as a part. Raises InvalidParams."""
    text = request.POST.get("inputs", "").strip()
    if not text:
        return []
    try:
        given = strict_json.storable(strict_json.read(text.encode(errors="replace")))
    except (strict_json.NotStrict, ValueError):
        given = None
    if not isinstance(given, dict):
        raise InvalidParams('Write the inputs as a JSON object, such as {"city": "Lisbon"}.', "inputs")
    return [{"data": given}]


def _has_words(request: HttpRequest) -> bool:
    """Is there anything in the form that makes a message?"""
    filled = (
        one for name, ones in request.POST.lists() if name == "text" or name.startswith("answer-") for one in ones
    )
    return bool(request.FILES) or any(str(one).strip() for one in filled)


urlpatterns = [
    path("plans", plans, name="plans"),
    path("plans/<str:slug>", plan, name="plan"),
    path("plans/<str:slug>/yaml", written, name="plan-yaml"),
    path("plans/<str:slug>/runs", start, name="plan-start"),
]
