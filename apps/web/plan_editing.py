"""Writing a plan: its YAML with the picture beside it, checked while it is written, and saved as a new version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.plans import checks, depicting
from apps.plans.definitions import PlanDefinition, as_yaml
from apps.plans.pictures.graph import Graph
from apps.plans.registration import may_change, register_plan
from apps.web import plans
from apps.web.principals import principal_of
from apps.web.remote_agents import CHOICES
from apps.web.shell import page

MOST_PROBLEMS = 100
EXAMPLE = """\
name: Short story
description: Writes a short story, and has a person read it before it is done.
inputs:
  type: object
  required: [topic]
  properties:
    topic: {type: string, title: "What is it about?"}
steps:
  draft:
    title: First draft
    agent: AGENT  # the short name of an agent that you may use
    message: Write a short story about {{ inputs.topic }}.

  reading:
    title: Your opinion
    person:
      ask: Read the draft. What should be different?
    attach: [steps.draft.artifacts]

  story:
    title: The story
    agent: AGENT
    message: "Write it again. The reader says: {{ steps.reading.text }}"
    attach: [steps.draft.artifacts]
"""


@dataclass(slots=True)
class Writing:
    """What is written, what is wrong with it by path, and its picture as far as it can be read."""

    text: str
    slug: str = ""
    access: str = ""
    base: str = ""  # the number of the version that was changed
    problems: list[tuple[str, str]] = field(default_factory=list)
    definition: PlanDefinition | None = None

    @classmethod
    def read(cls, request: HttpRequest) -> Writing:
        given = (request.POST.get(name, "").replace("\x00", "") for name in ("definition", "slug", "access", "base"))
        text, slug, access, base = given
        return cls(text.replace("\r\n", "\n"), slug.strip(), access, base)

    def look(self, user: User, slug: str) -> None:
        """Read and check it."""
        try:
            self.definition = PlanDefinition.from_yaml(self.text)
            checks.check(self.definition, slug, user.principal)
        except ValidationError as error:
            self.complain(error)

    def complain(self, error: ValidationError) -> None:
        told = error.message_dict if hasattr(error, "error_dict") else {"file": error.messages}
        self.problems += [(name, sentence) for name, sentences in told.items() for sentence in sentences]

    @property
    def graph(self) -> Graph | None:
        return depicting.of_definition(self.definition) if self.definition else None

    @property
    def shown_problems(self) -> list[tuple[str, str]]:
        return self.problems[:MOST_PROBLEMS]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new(request: HttpRequest) -> HttpResponse:
    """A plan of the person's own, which nobody else sees at first."""
    user = cast("User", request.user)
    writing = Writing.read(request) if request.method == "POST" else Writing(EXAMPLE)
    writing.look(user, writing.slug)
    if request.method == "POST" and Agent.objects.filter(slug=writing.slug).exists():
        writing.problems.append(("slug", _taken(writing.slug)))
    if request.method == "POST" and _saved(user, writing, writing.slug, None):
        return redirect("web:plan", writing.slug)
    return page(request, "web/plan_edit.html", writing=writing, plan=None, choices=_choices(user, None))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def edit(request: HttpRequest, slug: str) -> HttpResponse:
    """A new version of a plan that is theirs."""
    user = cast("User", request.user)
    plan = plans.plan_of(principal_of(request), slug)
    if not may_change(user, plan):
        raise PermissionDenied
    version = plan.current_version
    number = str(version.number) if version else ""
    if request.method == "POST":
        writing = Writing.read(request)
        writing.look(user, slug)
        if writing.base != number:
            said = f"Version {number} was saved while you wrote. Compare yours with it, then save again."
            writing.problems.append(("file", said))
            writing.base = number
        elif _saved(user, writing, slug, plan):
            return redirect("web:plan", slug)
    else:
        writing = Writing(as_yaml(version.content) if version else EXAMPLE, slug, plan.access, number)
        writing.look(user, slug)
    return page(request, "web/plan_edit.html", writing=writing, plan=plan, choices=_choices(user, plan))


@require_POST
@login_required
def check(request: HttpRequest) -> HttpResponse:
    """What is wrong with what is written, and its picture; that stays as it was where nothing can be read."""
    writing = Writing.read(request)
    writing.look(cast("User", request.user), writing.slug)
    return render(request, "web/_plan_checked.html", {"writing": writing})


def _saved(user: User, writing: Writing, slug: str, plan: Agent | None) -> bool:
    if writing.problems or writing.definition is None:
        return False
    policies = {}
    if writing.access and writing.access != (plan.access if plan else Agent.Access.WORKSPACE):
        if writing.access not in _choices(user, plan):
            writing.problems.append(("access", "Choose one of those that are listed."))
            return False
        policies["access"] = writing.access
    try:
        register_plan(slug, writing.definition, author=user, **policies)
    except ValidationError as error:
        writing.complain(error)
        return False
    except IntegrityError:  # somebody took it just now
        writing.problems.append(("slug", _taken(slug)))
        return False
    return True


def _taken(slug: str) -> str:
    return f"There is an agent {slug} already. Choose another short name."


def _choices(user: User, plan: Agent | None) -> dict[str, str]:
    """Who may use it, where the person decides that: publishing is for operators of agents."""
    if not user.has_perm("agents.change_agent"):
        return {}
    now = {plan.access: plan.get_access_display()} if plan and plan.access not in CHOICES else {}
    return {**CHOICES, **now}


urlpatterns = [
    path("plans/new", new, name="new-plan"),
    path("plans/check", check, name="plan-check"),
    path("plans/<str:slug>/edit", edit, name="plan-edit"),
]
