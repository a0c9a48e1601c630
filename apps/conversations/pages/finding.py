"""What the search of people's pages (Ctrl K) finds on the server: agents, whatever has an id, tasks, and people.

Titles of sessions are found in the browser, and words in messages and files by the client API's search.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.agents.pages.agents import query_text, suggested_agents
from apps.conversations.pages.task_list import begun_by, with_opening
from apps.conversations.search.queries import matching_sessions
from apps.record.content.rendering import title_of
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Task
from apps.web.shell import principal_of, reader_view
from apps.web.templatetags.parley import state_word
from parley.faces.cells import page_url

MOST = 5  # of each kind
MOST_AGENTS = 4
BEGINNING = 8  # characters of an id that are enough
HEX_DIGITS = 32  # of an id


@dataclass(frozen=True, slots=True)
class Found:
    """A row of the list. `icon`: a name in `static/icons.svg`. `more`: what it is, in muted type."""

    address: str
    icon: str
    name: str
    more: str


@reader_view
def palette(request: HttpRequest) -> HttpResponse:
    """The agents that match `?q=`; without it all agents, the last used first. With `?all`, other things, too."""
    agents = suggested_agents(principal_of(request), request.GET)
    text = query_text(request.GET)
    if "all" not in request.GET or not text:
        return render(request, "web/_agent_options.html", {"agents": agents})
    user, principal = cast("User", request.user), principal_of(request)
    found = {"Tasks": tasks_about(principal, text), "People": people_named(user, text)}
    shown = {"named": list(with_id(principal, text)), "agents": agents[:MOST_AGENTS], "found": found}
    return render(request, "web/_found.html", shown)


def with_id(principal: Principal, text: str) -> Iterator[Found]:
    """What the caller may see whose id is the text, or begins so. Four queries; none for a text that begins no id."""
    digits = text.replace("-", "").lower()
    if not BEGINNING <= len(digits) <= HEX_DIGITS or not re.fullmatch("[0-9a-f]+", digits):
        return
    ends = [uuid.UUID(digits.ljust(HEX_DIGITS, digit)) for digit in "0f"]
    seen = Task.objects.visible_to(principal)
    for task in with_opening(seen.filter(pk__range=ends)).select_related("agent").order_by("pk")[:MOST]:
        yield _task(principal, task)
    for context in Context.objects.visible_to(principal).filter(pk__range=ends).order_by("pk")[:MOST]:
        yield Found(reverse("web:session", args=[context.pk]), "sessions", context.title or "New session", "Session")
    for run in Run.objects.filter(pk__range=ends, task__in=seen).select_related("task__agent").order_by("pk")[:MOST]:
        address = f"{reverse('web:task', args=[run.task_id])}#turn-{run.turn}"
        yield Found(address, "queue", f"Run of {run.task.agent}", f"Turn {run.turn}")
    named = Artifact.objects.delivered().filter(artifact_id__begins=text.lower(), task__in=seen)
    for one in named.select_related("task__context").defer("parts")[:MOST]:
        address = f"{reverse('web:session', args=[one.task.context_id])}#m-{one.first_event}"
        yield Found(address, "file", str(one), f"File of {one.task.context}")


def tasks_about(principal: Principal, text: str) -> list[Found]:
    """The caller's newest tasks in sessions with these words, of which the last may be a beginning."""
    sessions = matching_sessions(principal, f"{text}*" if text[-1].isalnum() else text)
    return [_task(principal, task) for task in begun_by(principal).filter(context__in=sessions)[:MOST]]


def _task(principal: Principal, task: Any) -> Found:
    is_run = task.agent.kind == Agent.Kind.PLAN and task.owner_id == principal.user_id
    address = reverse("web:plan-run" if is_run else "web:task", args=[task.pk])
    name = title_of({"parts": task.opening or []}) or task.agent.name
    what = "Plan run" if is_run else "Task"
    return Found(address, "plans" if is_run else "done", name, f"{what} · {task.agent} · {state_word(task.state)}")


def people_named(user: User, text: str) -> list[Found]:
    """Members of the reader's workspaces. Operators who may see accounts find all people, in admin."""
    if user.may_operate("accounts.view_user"):
        people: QuerySet[User] = _named(User.objects.filter(erased_at=None), text)
        return [_person(one, page_url(User, one.pk), "Account") for one in people.order_by("email")[:MOST]]
    members = _named(Membership.objects.visible_to(user.principal).exclude(user=user), text, "user__")
    shown: dict[int, Found] = {}
    for one in members.select_related("user", "workspace").order_by("user__email", "workspace__name")[: MOST * MOST]:
        address = reverse("web:settings-workspace", args=[one.workspace_id])
        shown.setdefault(one.user_id, _person(one.user, address, str(one.workspace)))
    return list(shown.values())[:MOST]


def _named[S: QuerySet[Any]](rows: S, text: str, path: str = "") -> S:
    found = Q()
    for word in text.split():
        found &= Q(**{f"{path}name__icontains": word}) | Q(**{f"{path}email__icontains": word})
    return rows.filter(found)


def _person(person: User, address: str, where: str) -> Found:
    return Found(address, "person", person.short_name, f"{person.email} · {where}")
