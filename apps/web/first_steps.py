"""The first steps of a new installation, for its operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.installation import current
from apps.installation.models import DismissedSteps

SHOWCASE_PEOPLE = "@parley.local"
HOUSE_HANDLERS = Q(handler__startswith="examples.") | Q(handler__startswith="apps.")


@dataclass(frozen=True, slots=True)
class FirstStep:
    title: str
    summary: str
    url: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class FirstSteps:
    steps: Sequence[FirstStep]

    @property
    def done(self) -> int:
        return sum(step.is_done for step in self.steps)


def first_steps(request: HttpRequest) -> FirstSteps | None:
    """The steps that the reader may take; None for members, when all are done, or after they were dismissed.

    At most four queries, for operators only.
    """
    reader = cast("User", request.user)
    if not reader.is_operator or DismissedSteps.objects.filter(person=reader).exists():
        return None
    offered = (
        (MAY_CONNECT, _connect_a_model),
        ("agents.add_agent", _add_an_agent),
        ("accounts.add_user", _invite_somebody),
    )
    steps = [step(reader) for permission, step in offered if reader.has_perm(permission)]
    return FirstSteps(steps) if any(not step.is_done for step in steps) else None


MAY_CONNECT = "installation.add_modelconnection"


def may_connect_model(request: HttpRequest) -> bool:
    """Is a language model missing that the reader can connect?"""
    reader = cast("User", request.user)
    return lacks_model() and reader.may_operate(MAY_CONNECT)


def lacks_model() -> bool:
    """Is no language model connected?"""
    return not current.snapshot().default.is_usable


def model_form_url() -> str:
    """Where operators connect a language model."""
    return reverse("web:settings-connect-model")


def _connect_a_model(_: User) -> FirstStep:
    summary = "Agents then answer by it. Without one, the examples follow scripts."
    return FirstStep("Connect a language model", summary, model_form_url(), not lacks_model())


def _add_an_agent(_: User) -> FirstStep:
    """Is there one that neither Parley nor its showcase brought?"""
    own = Q(kind__in=(Agent.Kind.MODEL, Agent.Kind.REMOTE)) | Q(Q(kind=Agent.Kind.HOSTED) & ~HOUSE_HANDLERS)
    own |= Q(kind=Agent.Kind.PLAN, current_version__author__isnull=False)
    summary = "Say what it is for, and a language model does the work."
    url = reverse("web:new-agent")
    return FirstStep("Make an agent", summary, url, Agent.objects.filter(own).exists())


def _invite_somebody(reader: User) -> FirstStep:
    others = User.objects.filter(is_active=True).exclude(pk=reader.pk).exclude(email__endswith=SHOWCASE_PEOPLE)
    summary = "Make an account, and send its link. The person sets the password."
    return FirstStep("Invite somebody", summary, reverse("admin:accounts_user_invite"), others.exists())


@require_POST
@login_required
def dismiss_first_steps(request: HttpRequest) -> HttpResponse:
    DismissedSteps.objects.get_or_create(person=cast("User", request.user))
    return redirect("web:home")
