"""A task's page: its status, timeline, events, A2A documents, and linked tasks."""

from __future__ import annotations

import datetime
import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

from django.db.models import F, Q, TextField
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.text import Truncator

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.pages.agents import choices_of_versions, curl_command, tracebacks
from apps.conversations.pages.session.messages import task_ids
from apps.engine.send import repetitions
from apps.plans.pages import plan_context
from apps.record import lineage, wire
from apps.record.content.parts import words_of
from apps.record.content.rendering import json_text, summarize
from apps.record.events import JSON, EventType
from apps.record.execution import Run
from apps.record.models import Event, Message, Task, TaskState
from apps.record.reading import lookup
from apps.web.shell import page, parse_index, principal_of, reader_view, session_or_404
from apps.web.templatetags.parley import STATES
from parley.faces.cells import page_url
from parley.faces.drawing.axis import TimeAxis, long_duration
from parley.faces.drawing.layout import Edge, Link, Sizes, draw_edges, lay_out

PAGE_SIZE = 50  # events
LONGEST_GIST = 300  # characters
SESSION_PREFIXES = ("fork", "edit", "agent_switched", "session_")
TASK_EVENTS = [one for one in EventType.values if not one.startswith(SESSION_PREFIXES)]  # that a task can have


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of the table of events, and what it is filtered by."""

    rows: list[tuple[Event, str]]
    type: str
    text: str
    more: int | None  # the index after which the next page begins
    after: int = 0

    @property
    def is_filtered(self) -> bool:
        return bool(self.type or self.text)


@reader_view
def task(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    found = _task(request, task)
    about = {
        **_status_context(request, found),
        "events": _event_page(request, found),
        "types": TASK_EVENTS,
        "graph": graph_around(principal_of(request), found),
        "most_nodes": MOST_NODES,
        "place": plan_context(found, principal_of(request)),
        "documents": {name: title for name, (title, _) in DOCUMENTS.items()},
        "title": _title(found),
        "operators_page": page_url(Task, found.pk) if cast("User", request.user).is_operator else "",
    }
    return page(request, "conversations/task.html", **about)


LONGEST_TITLE = 80  # characters


def _title(task: Task) -> str:
    """What was asked for, in its first words; otherwise the agent's name."""
    asked = _first_message(task)
    words = " ".join(words_of(asked.parts).split()) if asked else ""
    return Truncator(words).chars(LONGEST_TITLE) or task.agent.name


@reader_view
def task_status(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """The current status and timeline; 204 if the page already shows them (`?seen=`)."""
    found = _task(request, task)
    about = _status_context(request, found)
    if about["seen"] == request.GET.get("seen") and not about["moves"]:
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    return render(request, "conversations/_task_status.html", about)


@reader_view
def timeline(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """A small timeline of a task, shown beside its session."""
    return HttpResponse(small_timeline(_task(request, task)))


@reader_view
def session_timeline(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The small timeline of a session's newest task; empty if it has none."""
    newest = _newest_task(request, session)
    return HttpResponse(small_timeline(newest) if newest else "")


@reader_view
def session_task(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """Redirect to the page of a session's newest task."""
    newest = _newest_task(request, session)
    if newest is None:
        raise Http404
    return redirect("web:task", task=newest.pk)


@reader_view
def events(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """Rows of the table: the events after index `?after=` that match `?type=` and `?q=`."""
    found = _task(request, task)
    return render(request, "conversations/_task_events.html", {"task": found, "events": _event_page(request, found)})


@reader_view
def payload(request: HttpRequest, task: uuid.UUID, index: int) -> HttpResponse:
    """One event: its recorded payload, and its form in an A2A stream; `?whole` gives the payload as a file."""
    found = _task(request, task)
    event = Event.objects.filter(task=found, index=index).first()
    if event is None:
        raise Http404
    recorded, said = json_text(event.payload), wire.stream_response(event, found.context)
    if "whole" in request.GET:
        return _as_text(recorded, "application/json")
    shown = [("Recorded", recorded), ("As A2A", json_text(said))][: 2 if said else 1]
    whole = reverse("web:task-event", args=[found.pk, index]) + "?whole"
    return render(request, "conversations/_task_json.html", {"shown": shown, "whole": whole})


@reader_view
def document(request: HttpRequest, task: uuid.UUID, name: str) -> HttpResponse:
    """One of the task's A2A documents; with `?shown` as a part of the page, which cuts a long one."""
    if name not in DOCUMENTS:
        raise Http404
    text = document_text(_task(request, task), name)
    language = "text/plain" if name == "curl" else "application/json"
    if "shown" not in request.GET:
        return _as_text(text, language)
    whole = reverse("web:task-document", args=[task, name])
    return render(request, "conversations/_task_json.html", {"shown": [("", text)], "whole": whole})


def _task(request: HttpRequest, key: uuid.UUID) -> Task:
    return lookup.find_task(principal_of(request), key)


def _status_context(request: HttpRequest, task: Task) -> dict[str, Any]:
    shown = timeline_of(task, timezone.now())
    newest = Event.objects.filter(task=task).order_by("-index").values_list("index", flat=True).first() or 0
    principal = principal_of(request)
    earlier, later = repetitions(Task.objects.visible_to(principal), task)
    may_be_sent_to = task.agent.is_open_to(principal)
    is_own = task.is_finished and task.context.agent_id == task.agent_id  # the session's agent gets what is sent again
    return {
        "task": task,
        "timeline": shown,
        "version": shown.version,
        "seen": f"{newest}-{len(shown.runs)}-{task.state}-{len(later)}",
        "newest": newest,
        "moves": any(run.state in ("queued", "running") for run in shown.runs),
        "is_over": task.is_finished,
        "waits": TaskState(task.state).is_interrupted,
        "may_be_sent_to": may_be_sent_to,
        "versions": choices_of_versions(principal, task.agent) if may_be_sent_to and is_own else [],
        "repeats": earlier,
        "repeated_by": later,
        "tracebacks": tracebacks(request, task.agent, shown.runs),
    }


def _newest_task(request: HttpRequest, session: uuid.UUID) -> Task | None:
    return lineage.newest_task(session_or_404(request, session))


def small_timeline(task: Task) -> str:
    """A task's timeline as HTML, for the panel beside its session."""
    about = {"task": task, "timeline": timeline_of(task, timezone.now()), "is_small": True}
    return render_to_string("conversations/_panel_timeline.html", about)


def _event_page(request: HttpRequest, task: Task) -> EventPage:
    type_, text = request.GET.get("type", ""), request.GET.get("q", "").replace("\x00", "").strip()
    after = parse_index(request.GET.get("after", "")) or 0
    found = Event.objects.filter(task=task).order_by("index")
    if type_ in EventType.values:
        found = found.filter(type=type_)
    if text:
        found = found.annotate(words=Cast("payload", TextField())).filter(_payload_contains(text))
    shown = list(found.filter(index__gt=after)[: PAGE_SIZE + 1])
    rows = [(event, str(summarize(event))[:LONGEST_GIST]) for event in shown[:PAGE_SIZE]]
    more = rows[-1][0].index if len(shown) > PAGE_SIZE else None
    return EventPage(rows, type_ if type_ in EventType.values else "", text, more, after)


def _payload_contains(text: str) -> Q:
    """Does a payload contain a text? Databases store the JSON with non-ASCII escaped or unchanged."""
    spellings = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return Q(*(("words__icontains", spelling) for spelling in sorted(spellings)), _connector=Q.OR)


def _as_text(text: str, media_type: str) -> HttpResponse:
    return HttpResponse(text, content_type=f"{media_type}; charset=utf-8")


MOST_CHANGES = 400  # the newest
MOST_RUNS = 200  # the newest

RUN_LABELS = {
    "queued": ("queued", "Waiting for a worker"),
    "running": ("working", "Running"),
    "done": ("done", "Finished"),
    "failed": ("failed", "Failed"),
    "canceled": ("canceled", "Stopped"),
}
"""The sign and the label of each state of a run."""


STATE_LABELS = {**STATES, "submitted": ("queued", STATES["submitted"][1])}
"""The sign and the label of each state of a task. Nobody works on a submitted task, so it is queued."""

RETRIED = ("failed", "Interrupted, then retried")
GIVEN_BACK = ("canceled", "Handed to another worker")

Change = dict[str, Any]


@dataclass(slots=True)
class Bar:
    """A period in the timeline: a state of the task, or a queued or working run. `ends` is None while it lasts."""

    sign: str
    label: str
    begins: datetime.datetime
    ends: datetime.datetime | None
    anchor: str  # the row of the table with the same data
    title: str = ""
    detail: str = ""
    left: float = 0.0
    width: float = 0.0

    @property
    def took(self) -> str:
        return long_duration(self.ends - self.begins) if self.ends else "still running"

    @property
    def description(self) -> str:
        return ", ".join(filter(None, [self.title, self.label, self.took, self.detail]))


@dataclass(slots=True)
class Timeline:
    states: list[Bar] = field(default_factory=list)
    queued: list[Bar] = field(default_factory=list)
    attempts: list[Bar] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    cuts: list[tuple[float, str]] = field(default_factory=list)
    begins: datetime.datetime | None = None
    ends: datetime.datetime | None = None
    is_cut_off: bool = False  # only the newest part is drawn

    @property
    def took(self) -> str:
        return long_duration(self.ends - self.begins) if self.begins and self.ends else ""

    @property
    def description(self) -> str:
        return ", ".join(one.description for one in self.states)

    @property
    def run_rows(self) -> list[tuple[Run, str, str, str]]:
        return [(run, RUN_LABELS[run.state][1], _waiting_time(run), _running_time(run)) for run in self.runs]

    @property
    def version(self) -> int | None:
        """The version of the agent that the newest turn used, if any."""
        return next((run.version for run in reversed(self.runs) if run.version), None)  # type: ignore[attr-defined]

    @property
    def legend(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((one.sign, one.label) for one in [*self.states, *self.queued, *self.attempts]))


def timeline_of(task: Task, now: datetime.datetime) -> Timeline:
    """The timeline of a task, in two queries."""
    changes = _changes(task)
    by_version = Run.objects.filter(task=task).defer("input", "memory").annotate(version=F("input__agent__number"))
    runs = list(by_version.order_by("-turn")[:MOST_RUNS])[::-1]
    is_cut_off = len(changes) == MOST_CHANGES or len(runs) == MOST_RUNS
    begins = changes[0]["at"] if is_cut_off else task.created_at
    ends = max([task.status_at, *(run.finished_at for run in runs if run.finished_at)]) if task.is_finished else now
    span = (begins, max(begins, ends))
    axis = TimeAxis(span, [(run.queued_at, run.finished_at or span[1]) for run in runs])
    timeline = Timeline(
        states=_state_bars(task, changes, begins),
        queued=[_queued_bar(run) for run in runs],
        attempts=_attempt_bars(runs, changes),
        runs=runs,
        cuts=axis.cuts,
        begins=span[0],
        ends=span[1],
        is_cut_off=is_cut_off,
    )
    for bar in (*timeline.states, *timeline.queued, *timeline.attempts):
        bar.left, bar.width = axis.bar(bar.begins, bar.ends or span[1])
    return timeline


def _changes(task: Task) -> list[Change]:
    changed = Q(type=EventType.AGENT_STATUS) & ~Q(payload__has_key="progress") & ~Q(payload__has_key="kept")
    found = Event.objects.filter(changed | Q(type=EventType.AGENT_START), task=task).order_by("-index")
    told = found.values("index", "type", "at", "run", "payload__state", "payload__attempt", "payload__again")
    return cast("list[Change]", list(told[:MOST_CHANGES])[::-1])


def _state_bars(task: Task, changes: list[Change], begins: datetime.datetime) -> list[Bar]:
    states: list[tuple[str, datetime.datetime, int]] = []
    if begins == task.created_at:
        states.append(("submitted", task.created_at, task.first_event))
    for change in changes:
        state = change["payload__state"]
        if change["type"] == EventType.AGENT_STATUS and not (states and states[-1][0] == state):
            states.append((state, change["at"], change["index"]))
    ends = [at for _, at, _ in states[1:]] + ([task.status_at] if task.is_finished else [None])
    return [
        Bar(*STATE_LABELS[state], begins=at, ends=end, anchor=f"state-{index}")
        for (state, at, index), end in zip(states, ends, strict=True)
    ]


def _queued_bar(run: Run) -> Bar:
    ends = run.started_at or run.finished_at
    return Bar(
        *RUN_LABELS["queued"], begins=run.queued_at, ends=ends, anchor=f"turn-{run.turn}", title=f"Turn {run.turn}"
    )


def _attempt_bars(runs: list[Run], changes: list[Change]) -> list[Bar]:
    starts: dict[uuid.UUID, list[Change]] = defaultdict(list)
    for change in changes:
        if change["type"] == EventType.AGENT_START and change["run"]:
            starts[change["run"]].append(change)
    return [bar for run in runs if run.started_at for bar in _attempt_bars_of(run, starts[run.pk][1:])]


def _attempt_bars_of(run: Run, later: list[Change]) -> list[Bar]:
    """The attempts of a run; `later` are the starts after the first. Only the newest worker is known."""
    title, anchor = f"Turn {run.turn}", f"turn-{run.turn}"
    begins, bars = run.started_at or run.queued_at, []
    for number, start in enumerate(later, 1):
        label = GIVEN_BACK if start["payload__again"] else RETRIED
        bars.append(Bar(*label, begins=begins, ends=start["at"], anchor=anchor, title=f"{title}, attempt {number}"))
        begins = start["at"]
    title += f", attempt {len(later) + 1}" if later else ""
    where = f"on {run.worker}" if run.worker else ""
    bars.append(
        Bar(*RUN_LABELS[run.state], begins=begins, ends=run.finished_at, anchor=anchor, title=title, detail=where)
    )
    return bars


def _waiting_time(run: Run) -> str:
    ends = run.started_at or run.finished_at
    return long_duration(ends - run.queued_at) if ends else "still waiting"


def _running_time(run: Run) -> str:
    if run.started_at is None:
        return "–"
    return long_duration(run.finished_at - run.started_at) if run.finished_at else "still running"


MOST_NODES = 100
MOST_STEPS = 6  # the largest distance


@dataclass(frozen=True, slots=True)
class TaskNode:
    task: Task
    is_here: bool
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class TaskEdge:
    """From a task to one that it led to."""

    begins: TaskNode
    ends: TaskNode
    is_reference: bool


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """The picture: `edges` are what the lines mean, `lines` how they are drawn."""

    nodes: list[TaskNode]
    edges: list[TaskEdge]
    lines: list[Edge]
    width: int
    height: int
    is_cut_off: bool


def graph_around(principal: Principal, task: Task) -> TaskGraph:
    """At most three queries for each of MOST_STEPS steps away from the task."""
    found, is_cut_off = _neighborhood(task, principal)
    by_age = sorted(found.values(), key=lambda one: one.created_at)
    layout = lay_out({one.pk: [before for before, _ in _predecessors(one)] for one in by_age}, Sizes())
    nodes = {key: TaskNode(one, key == task.pk, *layout.places[key]) for key, one in found.items()}
    edges = [
        TaskEdge(nodes[before], nodes[key], is_reference)
        for key, one in found.items()
        for before, is_reference in _predecessors(one)
        if before in nodes and before != key
    ]
    links: dict[tuple[uuid.UUID, uuid.UUID], Link] = {}
    for edge in edges:  # parents first: a task may also refer to its parent
        words = "is referred to by" if edge.is_reference else "called for"
        links.setdefault((edge.begins.task.pk, edge.ends.task.pk), Link(words, edge.is_reference))
    lines = list(draw_edges(layout, links))
    return TaskGraph(list(nodes.values()), edges, lines, layout.width, layout.height, is_cut_off)


def _predecessors(task: Task) -> Iterable[tuple[uuid.UUID, bool]]:
    """The tasks that come before one: its parent, and (True) those that it refers to."""
    if task.parent_id:
        yield task.parent_id, False
    for key in task_ids(task.references):
        yield key, True


def _neighborhood(task: Task, principal: Principal) -> tuple[dict[uuid.UUID, Task], bool]:
    found, newest = {task.pk: task}, [task]
    for _ in range(MOST_STEPS):
        beyond = [one for one in _neighbors(newest, principal) if one.pk not in found]
        newest = beyond[: MOST_NODES - len(found)]
        found |= {one.pk: one for one in newest}
        if len(newest) < len(beyond):
            return found, True
        if not newest:
            return found, False
    return found, bool([one for one in _neighbors(newest, principal) if one.pk not in found])


def _neighbors(tasks: list[Task], principal: Principal) -> list[Task]:
    visible = Task.objects.visible_to(principal).select_related("agent").defer("status_message", "slot", "metadata")
    keys = [one.pk for one in tasks]
    before = {key for one in tasks for key, _ in _predecessors(one)}
    near = Q(pk__in=before) | Q(parent__in=keys)
    found = list(visible.filter(near).order_by("created_at")[: MOST_NODES + 1])
    named = Q()
    for key in keys:
        named |= Q(named__contains=str(key))
    beside = Q(context__in={one.context_id for one in tasks}) | Q(parent__in={one.parent_id for one in tasks} - {None})
    referring = visible.annotate(named=Cast("references", TextField())).filter(beside).filter(named)
    found += referring.order_by("created_at")[: MOST_NODES + 1]
    return list({one.pk: one for one in found}.values())


MOST_EVENTS = 1000  # of one document
MOST_EVENT_CHARACTERS = 4_000_000
HEREDOC_END = "REQUEST"  # no line of JSON equals it


def request_document(task: Task) -> JSON | None:
    """The message that opened the task, or None."""
    first = _first_message(task)
    return wire.message(first, task.context) if first else None


def events_document(task: Task) -> list[JSON]:
    """The events of the task's A2A stream, up to the limits of a document."""
    told, length = [], 0
    for event in Event.objects.filter(task=task).order_by("index")[:MOST_EVENTS].iterator(chunk_size=100):
        said = wire.stream_response(event, task.context)
        if said is None:
            continue
        length += len(json.dumps(said))
        if length > MOST_EVENT_CHARACTERS:
            break
        told.append(said)
    return told


def curl_document(task: Task) -> str:
    """A command that sends the same message again as a new one, with a placeholder for the key.

    Its JSON is a here-document with a quoted end, so that the shell changes nothing.
    """
    first = _first_message(task)
    if first is None:
        return ""
    # The platform chose the id of the task, and the id of the session if this message opened it.
    dropped = {"taskId", *(("contextId",) if first.index == 1 else ())}
    said = {name: value for name, value in wire.message(first, task.context).items() if name not in dropped}
    params = {"message": {**said, "messageId": str(uuid.uuid4())}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    command = curl_command(task.agent, f"--data-binary @- <<'{HEREDOC_END}'")
    return f"{command}\n{json_text(request)}\n{HEREDOC_END}\n"


def _first_message(task: Task) -> Message | None:
    return Message.objects.filter(task=task, role=Message.Role.USER).order_by("index").first()


DOCUMENTS: dict[str, tuple[str, Callable[[Task], JSON | list[JSON] | str | None]]] = {
    "request": ("The request", request_document),
    "task": ("The task (GetTask)", wire.load_task),
    "events": (f"The events of its stream (at most {MOST_EVENTS:,})", events_document),
    "curl": ("A curl command that sends the request again", curl_document),
}
"""The title of each document, and the function that makes it."""


def document_text(task: Task, name: str) -> str:
    document = DOCUMENTS[name][1](task)
    return document if isinstance(document, str) else json_text(document)
