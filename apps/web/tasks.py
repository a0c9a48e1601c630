"""A task's page: how it stands, what happened when, what crossed the A2A border, and which tasks belong to it."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.record import cold, lineage, prose, wire
from apps.record.events import EventType
from apps.record.gist import gist
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Event, Task
from apps.web.plan_runs import place_of
from apps.web.principals import principal_of
from apps.web.shell import page, zone_of
from apps.web.task_documents import DOCUMENTS, written
from apps.web.task_graphs import MOST_NODES, graph_around
from apps.web.timelines import timeline_of
from console.cells import page_url

A_PAGE = 50  # events
LONGEST_GIST = 300  # characters of what an event says, in a row
LONGEST_SHOWN = 20_000  # characters of a document or a payload in the page; whole ones are a link away
OF_SESSIONS = ("fork", "edit", "agent_switched", "session_")
OF_TASKS = [one for one in EventType.values if not one.startswith(OF_SESSIONS)]  # that a task can have
UNCHANGED = 204  # htmx leaves the page as it is


@dataclass(frozen=True, slots=True)
class Events:
    """A page of the table of events, and what it is filtered by."""

    rows: list[tuple[Event, str]]
    type: str
    text: str
    more: int | None  # the index after which the next page begins
    after: int = 0

    @property
    def is_filtered(self) -> bool:
        return bool(self.type or self.text)


@require_safe
@login_required
def task(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """The page. Somebody else's task is not found."""
    found = _task(request, task)
    about = {
        **_standing(request, found),
        "events": _events(request, found),
        "types": OF_TASKS,
        "graph": graph_around(found),
        "most_nodes": MOST_NODES,
        "place": place_of(found, principal_of(request)),
        "documents": {name: title for name, (title, _) in DOCUMENTS.items()},
        "operators_page": page_url(Task, found.pk) if request.user.is_staff else "",
    }
    return page(request, "web/task.html", **about)


@require_safe
@login_required
def standing(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """How it stands, and its timeline; nothing where it is still as the page (`?seen=`) has it."""
    found = _task(request, task)
    about = _standing(request, found)
    if about["seen"] == request.GET.get("seen") and not about["moves"]:
        return HttpResponse(status=UNCHANGED)
    with timezone.override(zone_of(request)):
        return render(request, "web/_task_standing.html", about)


@require_safe
@login_required
def timeline(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """A small picture of a task in time, for beside its session."""
    return _small_timeline(request, _task(request, task))


@require_safe
@login_required
def session_timeline(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The same of a session's newest task; nothing where it has none."""
    newest = _newest_task(request, session)
    return _small_timeline(request, newest) if newest else HttpResponse()


@require_safe
@login_required
def session_task(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """Leads to the page of a session's newest task."""
    newest = _newest_task(request, session)
    if newest is None:
        raise Http404
    return redirect("web:task", task=newest.pk)


@require_safe
@login_required
def events(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """Rows of the table: those that fit `?type=` and `?q=`, after index `?after=`."""
    found = _task(request, task)
    with timezone.override(zone_of(request)):
        return render(request, "web/_task_events.html", {"task": found, "events": _events(request, found)})


@require_safe
@login_required
def payload(request: HttpRequest, task: uuid.UUID, index: int) -> HttpResponse:
    """One event: its payload as it is recorded, and what an A2A stream says of it; `?whole` as a file of JSON."""
    found = _task(request, task)
    event = Event.objects.filter(task=found, index=index).first()
    if event is None:
        raise Http404
    recorded, said = prose.json_text(event.payload), wire.stream_response(event, found.context)
    if "whole" in request.GET:
        return _as_text(recorded, "application/json")
    shown = [("Recorded", _cut(recorded)), ("As A2A says it", _cut(prose.json_text(said)))][: 2 if said else 1]
    whole = reverse("web:task-event", args=[found.pk, index]) + "?whole"
    return render(request, "web/_task_json.html", {"shown": shown, "whole": whole, "is_cut": _is_cut(recorded)})


@require_safe
@login_required
def document(request: HttpRequest, task: uuid.UUID, name: str) -> HttpResponse:
    """What crossed the border, as a document; with `?shown` for the page, with a long one's beginning alone."""
    if name not in DOCUMENTS:
        raise Http404
    text = written(_task(request, task), name)
    language = "text/plain" if name == "curl" else "application/json"
    if "shown" not in request.GET:
        return _as_text(text, language)
    whole = reverse("web:task-document", args=[task, name])
    return render(
        request, "web/_task_json.html", {"shown": [("", _cut(text))], "whole": whole, "is_cut": _is_cut(text)}
    )


def _task(request: HttpRequest, key: uuid.UUID) -> Task:
    found = cold.find_task(principal_of(request), key, "agent", "context")
    if found is None:
        raise Http404
    return found


def _standing(request: HttpRequest, task: Task) -> dict[str, Any]:
    """What changes while a task goes on."""
    shown = timeline_of(task, timezone.now())
    newest = Event.objects.filter(task=task).order_by("-index").values_list("index", flat=True).first() or 0
    return {
        "task": task,
        "timeline": shown,
        "version": shown.version,
        "seen": f"{newest}-{len(shown.runs)}-{task.state}",
        "newest": newest,
        "moves": any(run.state in ("queued", "running") for run in shown.runs),
        "is_over": task.is_finished,
        "waits": TaskState(task.state).is_interrupted,
        "may_be_sent_to": task.agent.is_open_to(principal_of(request)),
    }


def _newest_task(request: HttpRequest, session: uuid.UUID) -> Task | None:
    """None where the session has no task. Raises Http404 where there is no such session to see."""
    context = cold.restored_or_none(Context.objects.visible_to(principal_of(request)).filter(pk=session).first())
    if context is None:
        raise Http404
    return lineage.newest_task(context)


def _small_timeline(request: HttpRequest, task: Task) -> HttpResponse:
    about = {"task": task, "timeline": timeline_of(task, timezone.now()), "is_small": True}
    with timezone.override(zone_of(request)):
        return render(request, "web/_panel_timeline.html", about)


def _events(request: HttpRequest, task: Task) -> Events:
    type_, text = request.GET.get("type", ""), request.GET.get("q", "").replace("\x00", "").strip()
    named = request.GET.get("after", "")
    after = int(named) if named.isascii() and named.isdigit() and len(named) < 19 else 0
    found = Event.objects.filter(task=task).order_by("index")
    if type_ in EventType.values:
        found = found.filter(type=type_)
    if text:
        found = found.annotate(words=Cast("payload", TextField())).filter(_holds(text))
    shown = list(found.filter(index__gt=after)[: A_PAGE + 1])
    rows = [(event, str(gist(event))[:LONGEST_GIST]) for event in shown[:A_PAGE]]
    more = rows[-1][0].index if len(shown) > A_PAGE else None
    return Events(rows, type_ if type_ in EventType.values else "", text, more, after)


def _holds(text: str) -> Q:
    """Is a text in the words of a payload? They are JSON, which databases write with non-ASCII escaped, or as it is."""
    spellings = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return Q(*(("words__icontains", spelling) for spelling in sorted(spellings)), _connector=Q.OR)


def _as_text(text: str, media_type: str) -> HttpResponse:
    return HttpResponse(text, content_type=f"{media_type}; charset=utf-8")


def _is_cut(text: str) -> bool:
    return len(text) > LONGEST_SHOWN


def _cut(text: str) -> str:
    return text[:LONGEST_SHOWN] + "\n…" if _is_cut(text) else text


urlpatterns = [
    path("tasks/<uuid:task>", task, name="task"),
    path("tasks/<uuid:task>/standing", standing, name="task-standing"),
    path("tasks/<uuid:task>/timeline", timeline, name="task-timeline"),
    path("tasks/<uuid:task>/events", events, name="task-events"),
    path("tasks/<uuid:task>/events/<int:index>", payload, name="task-event"),
    path("tasks/<uuid:task>/documents/<str:name>", document, name="task-document"),
    path("sessions/<uuid:session>/timeline", session_timeline, name="session-timeline"),
    path("sessions/<uuid:session>/task", session_task, name="session-task"),
]
