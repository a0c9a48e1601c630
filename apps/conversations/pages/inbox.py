"""The inbox: the questions of all sessions that wait for the person, with forms to answer them."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.principals import Principal
from apps.conversations.pages.approvals import card_of
from apps.conversations.pages.session import messages
from apps.conversations.pages.session.entries import wanted_credential
from apps.conversations.pages.session.pictures import surroundings_in
from apps.engine.turns import payments
from apps.engine.turns.questions import calls_of_others
from apps.payments.paying import note_of
from apps.plans.graphs import plan_at
from apps.plans.models import Step
from apps.plans.person import steps_asking_by, waiting_for
from apps.record.content.schema_forms import Field, fields_of, outline_of
from apps.record.events import JSON
from apps.record.models import Task, TaskQuerySet
from apps.web.shell import page, principal_of, reader_view

MOST_ITEMS = 100  # questions on the page


@dataclass(frozen=True, slots=True)
class InboxItem:
    """A question of a task, and the form that answers it."""

    task: Task
    said: list[JSON]  # parts, as pages show them
    wanted: JSON | None  # the credential, if the question asks for one
    fields: list[Field]
    outline: list[str]
    step: Step | None = None  # the step of a plan that asks by this task
    is_of_others: bool = False  # a tool call in somebody else's session that needs another person
    card: JSON | None = None  # the context of `conversations/_approval.html`, if the question is about a tool call

    @property
    def payment(self) -> JSON | None:
        """What the question asks to be paid, if it asks for a payment."""
        return payments.price_in(self.task.slot, self.task.status_message)

    @property
    def payment_note(self) -> str:
        """What budgets say to that."""
        return note_of(self.task.pk, self.task.status_event, self.task.slot)

    @property
    def may_decline(self) -> bool:
        """Whoever declines ends the task, so it must be their own."""
        return not self.is_of_others

    @property
    def step_title(self) -> str:
        return plan_at(self.step.run.version_id).numbered_title(self.step) if self.step else ""

    @property
    def key(self) -> str:
        """Changes when the task asks something else."""
        return f"{self.task.pk}-{self.task.status_event}"


@reader_view
def inbox(request: HttpRequest) -> HttpResponse:
    return page(request, "conversations/inbox.html", **_own_inbox(request))


@reader_view
def inbox_items(request: HttpRequest) -> HttpResponse:
    return render(request, "conversations/_inbox.html", _own_inbox(request))


def _own_inbox(request: HttpRequest) -> JSON:
    principal = principal_of(request)
    context = inbox_context(principal, waiting_for(principal)) | {"address": reverse("web:inbox-items")}
    of_others = calls_of_others(principal, MOST_ITEMS)
    context["items"] = [*(inbox_item(task, is_of_others=True) for task in of_others), *context["items"]]
    return context


def inbox_context(principal: Principal, waiting: TaskQuerySet) -> JSON:
    """The context of `conversations/_inbox.html` for waiting tasks. A few queries, however many tasks."""
    newest = list(waiting.select_related("context", "agent").order_by("-status_at", "-pk")[: MOST_ITEMS + 1])
    steps = steps_asking_by(principal, newest[:MOST_ITEMS])
    return {
        "items": [inbox_item(task, steps.get(task.pk)) for task in newest[:MOST_ITEMS]],
        "has_more": len(newest) > MOST_ITEMS,
    }


def inbox_item(task: Task, step: Step | None = None, *, is_of_others: bool = False) -> InboxItem:
    message, slot = task.status_message or {"parts": []}, task.slot or {}
    wanted = wanted_credential({"state": task.state, "slot": slot, "message": message})
    said = message["parts"][:-1] if wanted else message["parts"]
    shown = [
        messages.shown_part(
            part,
            reverse("web:message-file", args=[task.context_id, task.status_event, n]),
            marked_up=True,
            around=surroundings_in(task.context_id, f"{task.pk.hex}-{n}", task.pk),
        )
        for n, part in enumerate(said)
    ]
    if card := card_of(task.context_id, task.pk, task.status_event, slot, task.status_at):
        return InboxItem(task, shown, None, [], [], step, is_of_others, card)
    fields = fields_of(slot)
    return InboxItem(task, shown, wanted, fields, [] if fields else outline_of(slot), step, is_of_others)
