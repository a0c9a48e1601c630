"""The columns of operators' tables: the same in lists, on pages and in what is live."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import display
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.record.content.rendering import summarize, summarize_parts
from apps.record.models import Artifact, Context, Event, Feedback, Message, Run, Task, TaskState
from console import cells
from console.admin import time_cell
from console.cells import Tone

TASK_TONES = {
    TaskState.SUBMITTED: Tone.QUEUED,
    TaskState.WORKING: Tone.WORKING,
    TaskState.INPUT_REQUIRED: Tone.WAITING,
    TaskState.AUTH_REQUIRED: Tone.WAITING,
    TaskState.COMPLETED: Tone.DONE,
    TaskState.FAILED: Tone.FAILED,
    TaskState.REJECTED: Tone.FAILED,
    TaskState.CANCELED: Tone.STOPPED,
}
RUN_TONES = {
    Run.State.QUEUED: Tone.QUEUED,
    Run.State.RUNNING: Tone.WORKING,
    Run.State.DONE: Tone.DONE,
    Run.State.FAILED: Tone.FAILED,
    Run.State.CANCELED: Tone.STOPPED,
}
ARTIFACT_TONES = {
    Artifact.State.PROVISIONAL: Tone.WORKING,
    Artifact.State.DELIVERED: Tone.DONE,
    Artifact.State.DISCARDED: Tone.STOPPED,
}

STARS = 5  # that there are to give

created = time_cell("created_at")
updated = time_cell("updated_at")
queued = time_cell("queued_at")
since = time_cell("status_at", "since")
at = time_cell("at")


@display(description="stars")
def stars(row: Feedback) -> SafeString:
    filled = row.rating
    return format_html('<span title="{} of {}">{}{}</span>', filled, STARS, "★" * filled, "☆" * (STARS - filled))


@display(description="says")
def comment(row: Feedback) -> SafeString:
    return cells.link(cells.shortened(row.text) or "(no words)", cells.page_url(Feedback, row.pk))


@display(description="id")
def id_(row: Any) -> SafeString:
    return cells.row_link(type(row), row.pk)


@display(description="context")
def context(row: Task | Event | Message) -> SafeString:
    return cells.row_link(Context, row.context_id)


@display(description="task")
def task(row: Event | Message | Artifact | Run) -> SafeString:
    return cells.row_link(Task, row.task_id)


@display(description="run")
def run(row: Event | Artifact) -> SafeString:
    return cells.row_link(Run, row.run)


@display(description="agent")
def agent(row: Context | Task | Message | Run) -> SafeString:
    return cells.link(row.agent.name, cells.page_url(Agent, row.agent_id)) if row.agent else cells.NOTHING


@display(description="owner")
def owner(row: Context | Task) -> SafeString:
    return cells.link(row.owner, cells.page_url(User, row.owner_id)) if row.owner else cells.NOTHING


@display(description="state", ordering="state")
def task_state(row: Task) -> SafeString:
    return task_state_of(row.state)


def task_state_of(state: str) -> SafeString:
    return cells.state(state, TASK_TONES[TaskState(state)])


@display(description="state", ordering="state")
def run_state(row: Run) -> SafeString:
    return cells.state(row.state, RUN_TONES[Run.State(row.state)])


@display(description="state", ordering="state")
def artifact_state(row: Artifact) -> SafeString:
    return cells.state(row.state, ARTIFACT_TONES[Artifact.State(row.state)])


@display(description="title")
def title(row: Context) -> SafeString:
    words = "(deleted)" if row.deleted_at else row.title or "(untitled)"
    return cells.link(words, cells.page_url(Context, row.pk))


@display(description="events", ordering="last_event")
def events_of_context(row: Context) -> SafeString:
    return cells.count_link(row.last_event, Event, context__id__exact=row.pk)


@display(description="goes on from", ordering="parent")
def fork_of(row: Context) -> SafeString:
    """The context that it is a fork of, which may have been cleared."""
    return cells.row_link(Context, row.parent_id)


@display(description="turn", ordering="turn")
def turn(row: Run) -> int:
    return row.turn


@display(description="attempt", ordering="attempt")
def attempt(row: Run) -> int:
    return row.attempt


@display(description="from", ordering="role")
def role(row: Message) -> str:
    return row.role


@display(description="took")
def took(row: Run) -> str:
    """From its first start to its end."""
    return cells.duration(seconds_taken(row))


def seconds_taken(row: Run) -> float | None:
    if row.started_at is None or row.finished_at is None:
        return None
    return (row.finished_at - row.started_at).total_seconds()


@display(description="lease ends")
def lease(row: Run) -> SafeString:
    return cells.relative_time(row.lease_until if row.state == Run.State.RUNNING else None)


@display(description="worker", ordering="worker")
def worker(row: Run) -> SafeString:
    return cells.identifier(row.worker)


@display(description="problem")
def problem(row: Run) -> str:
    return cells.shortened(str((row.error or {}).get("message", ""))) or "–"


@display(description="#", ordering="index")
def index(row: Event | Message) -> SafeString:
    return cells.link(row.index, cells.page_url(type(row), row.pk))


@display(description="event", ordering="type")
def type_(row: Event) -> SafeString:
    return cells.link(row.type, cells.page_url(Event, row.pk))


@display(description="what")
def event_gist(row: Event) -> str:
    return cells.shortened(summarize(row)) or "–"


@display(description="text")
def message_gist(row: Message) -> SafeString:
    return cells.link(cells.shortened(summarize_parts(row.parts)) or "(nothing)", cells.page_url(Message, row.pk))


@display(description="content")
def artifact_gist(row: Artifact) -> str:
    return cells.shortened(summarize_parts(row.parts), 60) or "–"


@display(description="name", ordering="name")
def artifact_name(row: Artifact) -> SafeString:
    return cells.link(row.name or row.artifact_id, cells.page_url(Artifact, row.pk))


@display(description="message id", ordering="message_id")
def message_id(row: Any) -> SafeString:
    return cells.identifier(row.message_id)
