"""A person's tasks, newest first, with filters."""

from __future__ import annotations

import datetime
import uuid
from typing import Any, cast

from django import forms
from django.db.models import OuterRef, Q, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations.search.queries import matching_sessions
from apps.record.content.rendering import title_of
from apps.record.errors import InvalidParams
from apps.record.models import INTERRUPTED_STATES, Message, Task, TaskQuerySet, TaskState
from apps.web.shell import page_or_fragment, principal_of, reader_view

PAGE_SIZE = 50  # tasks
STATES = {
    "working": ("Working", (TaskState.SUBMITTED, TaskState.WORKING)),
    "waiting": ("Waiting for you", tuple(INTERRUPTED_STATES)),
    "done": ("Done", (TaskState.COMPLETED,)),
    "failed": ("Failed", (TaskState.FAILED,)),
    "declined": ("Not accepted", (TaskState.REJECTED,)),
    "stopped": ("Stopped", (TaskState.CANCELED,)),
}
"""What a filter is called, and the states that it finds."""
DAYS = {"1": "The last day", "7": "The last week", "30": "The last month", "365": "The last year"}


class TaskFilter(forms.Form):
    """Which of the person's tasks are shown. A wrong value filters nothing."""

    q = forms.CharField(label="Words", required=False, max_length=200, strip=True)
    state = forms.ChoiceField(
        label="State", required=False, choices=[("", "Any"), *((name, label) for name, (label, _) in STATES.items())]
    )
    agent = forms.ModelChoiceField(Agent.objects.none(), required=False, to_field_name="slug", empty_label="Any")
    days = forms.ChoiceField(label="Changed in", required=False, choices=[("", "Any time"), *DAYS.items()])

    def __init__(self, principal: Principal, data: Any) -> None:
        super().__init__(data, label_suffix="")
        self._principal = principal
        usable = Agent.objects.visible_to(principal).listed().order_by("name")
        cast("forms.ModelChoiceField[Agent]", self.fields["agent"]).queryset = usable

    def apply(self, tasks: TaskQuerySet) -> TaskQuerySet:
        """The tasks that match. At most one query, for the words."""
        self.full_clean()
        wanted = self.cleaned_data
        if words := wanted.get("q"):
            try:
                tasks = tasks.filter(context__in=matching_sessions(self._principal, words))
            except InvalidParams as refused:
                self.add_error("q", str(refused))
        if state := wanted.get("state"):
            tasks = tasks.filter(state__in=STATES[state][1])
        if agent := wanted.get("agent"):
            tasks = tasks.filter(agent=agent)
        if days := wanted.get("days"):
            tasks = tasks.filter(status_at__gte=timezone.now() - datetime.timedelta(days=int(days)))
        return tasks

    @property
    def is_used(self) -> bool:
        return any(self.cleaned_data.values()) or bool(self.errors)


@reader_view
def tasks(request: HttpRequest) -> HttpResponse:
    """A page of tasks that the person began: `?before` is where it begins. For htmx only the list."""
    principal = principal_of(request)
    form = TaskFilter(principal, request.GET)
    rows: list[Any] = list(after(form.apply(begun_by(principal)), request.GET.get("before", ""))[: PAGE_SIZE + 1])
    shown, query = rows[:PAGE_SIZE], request.GET.copy()
    for one in shown:  # what was asked; the session's title where it had no words
        one.title = title_of({"parts": one.opening or []}) or str(one.context)
    query["before"] = f"{shown[-1].status_at.isoformat()} {shown[-1].pk}" if len(rows) > PAGE_SIZE else ""
    about: dict[str, Any] = {"form": form, "tasks": shown, "older": query.urlencode() if query["before"] else ""}
    about["moves"] = any(one.state in STATES["working"][1] for one in shown)
    return page_or_fragment(request, "conversations/tasks.html", "conversations/_tasks.html", **about)


def begun_by(principal: Principal) -> TaskQuerySet:
    """The person's own tasks, not those that agents gave to agents; each with the parts of its first message."""
    own = Task.objects.of(principal).filter(parent=None).select_related("agent", "context")
    return with_opening(own).order_by("-status_at", "-pk")


def with_opening(tasks: TaskQuerySet) -> TaskQuerySet:
    first = Message.objects.filter(task=OuterRef("pk"), role=Message.Role.USER).order_by("index")
    return tasks.annotate(opening=Subquery(first.values("parts")[:1]))


def after(tasks: TaskQuerySet, place: str) -> TaskQuerySet:
    """Those that come after a place in the order; all of them after a wrong one."""
    at, _, key = place.partition(" ")
    try:
        when, last = parse_datetime(at), uuid.UUID(key)
    except ValueError:
        return tasks
    if when is None or timezone.is_naive(when):
        return tasks
    return tasks.filter(Q(status_at__lt=when) | Q(status_at=when, pk__lt=last))
