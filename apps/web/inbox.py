"""The inbox: everything that waits for the person, over all sessions, to be answered right there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from apps.accounts.principals import Principal
from apps.plans.models import Step
from apps.plans.plans import plan_at
from apps.plans.waiting import steps_of, waiting_for
from apps.record.models import Task
from apps.record.models.record import TaskQuerySet
from apps.web import parts
from apps.web.entries import wanted_credential
from apps.web.outlines import outline_of
from apps.web.principals import principal_of
from apps.web.questions import Field, fields_of
from apps.web.shell import page, zone_of

JSON = dict[str, Any]
MOST = 100  # questions on the page


@dataclass(frozen=True, slots=True)
class Item:
    """A question: whose it is, what it says, and how it is answered."""

    task: Task
    said: list[JSON]  # parts, as pages show them
    wanted: JSON | None  # the credential, where it is one
    fields: list[Field]
    outline: list[str]
    step: Step | None = None  # of a run of a plan, with that; it asks by the task

    @property
    def step_title(self) -> str:
        """How people know the step that asks."""
        if self.step is None:
            return ""
        number = f" {self.step.item + 1}" if self.step.item >= 0 else ""
        return f"{plan_at(self.step.run.version_id).title_of(self.step.key)}{number}"

    @property
    def key(self) -> str:
        """The same as long as it is the same question."""
        return f"{self.task.pk}-{self.task.status_event}"


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    """The page."""
    return page(request, "web/inbox.html", **_waiting(request))


@require_safe
@login_required
def items(request: HttpRequest) -> HttpResponse:
    """The list alone, as it is now."""
    return render(request, "web/_inbox.html", {**_waiting(request), "zone": zone_of(request)})


def _waiting(request: HttpRequest) -> JSON:
    principal = principal_of(request)
    return questions(principal, waiting_for(principal)) | {"address": reverse("web:inbox-items")}


def questions(principal: Principal, waiting: TaskQuerySet) -> JSON:
    """What these tasks ask, as `web/_inbox.html` shows it: a few queries, however many there are."""
    newest = list(waiting.select_related("context", "agent").order_by("-status_at", "-pk")[: MOST + 1])
    steps = steps_of(principal, newest[:MOST])
    return {"items": [item_of(task, steps.get(task.pk)) for task in newest[:MOST]], "has_more": len(newest) > MOST}


def item_of(task: Task, step: Step | None = None) -> Item:
    """What a task asks."""
    message, slot = task.status_message or {"parts": []}, task.slot or {}
    wanted = wanted_credential({"state": task.state, "slot": slot, "message": message})
    said = message["parts"][:-1] if wanted else message["parts"]
    shown = [
        parts.shown(part, reverse("web:message-file", args=[task.context_id, task.status_event, n]), marked_up=True)
        for n, part in enumerate(said)
    ]
    fields = fields_of(slot)
    return Item(task, shown, wanted, fields, [] if fields else outline_of(slot), step)


urlpatterns = [
    path("inbox", inbox, name="inbox"),
    path("inbox/items", items, name="inbox-items"),
]
