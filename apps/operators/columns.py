"""Columns shared by lists, pages and live panels. Which a CSV has: `export_fields` of a list's own admin class."""

from __future__ import annotations

import re

from django.contrib.admin import display
from django.db.models import Model
from django.utils.safestring import SafeString

from apps.record.content.rendering import RATINGS, summarize, summarize_parts
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Feedback, Message, Task, TaskState
from parley.faces import cells
from parley.faces.admin import Column, column, count_cell, id_cell, key_cell, related_cell, state_cell, time_cell
from parley.faces.cells import Tone

TASK_TONES = {
    TaskState.SUBMITTED: Tone.QUEUED,
    TaskState.WORKING: Tone.WORKING,
    TaskState.INPUT_REQUIRED: Tone.WAITING,
    TaskState.AUTH_REQUIRED: Tone.WAITING,
    TaskState.COMPLETED: Tone.DONE,
    TaskState.FAILED: Tone.FAILED,
    TaskState.REJECTED: Tone.STOPPED,
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


CREDENTIAL_LINK = re.compile(r"(/credentials/)[\w-]{16,}")  # whoever has the link may answer the request


def without_secrets(text: str) -> str:
    """Links that would let their reader give a credential lose their token."""
    return CREDENTIAL_LINK.sub(r"\1…", text)


def gist(text: str, length: int = 80) -> str:
    """One line of a text, without secrets; "" for an empty one."""
    return cells.shortened(without_secrets(text), length)


def content_cell(field: str) -> Column:
    """JSON that people and agents wrote, without secrets."""
    show = lambda row: SafeString(without_secrets(cells.json_block(getattr(row, field))))  # noqa: E731
    return column(field.replace("_", " "), show, field=field)


def outcome_cell(title: str, why: str) -> Column:
    """The beginning of the field `why`, or the HTTP status of the last answer."""
    show = lambda row: cells.shortened(getattr(row, why), 60) or str(row.last_status or "–")  # noqa: E731
    return column(title, show, "last_status")


def list_link(title: str, model: type[Model], lookup: str) -> Column:
    """A link to the list of rows that belong to this one."""
    return column(title, lambda row: cells.link(title, cells.list_url(model, **{lookup: row.pk})))


created = time_cell("created_at")
updated = time_cell("updated_at")
queued = time_cell("queued_at")
since = time_cell("status_at", "since")
at = time_cell("at")

id_ = column("id", lambda row: cells.row_link(type(row), row.pk))
message_id = id_cell("message_id", "message id", ordering="message_id", field="message_id")
context = key_cell(Context, "context_id", "session", field="context")
task = key_cell(Task, "task_id", "task", field="task")
run = key_cell(Run, "run", "run", field="run")
agent = related_cell("agent", field="agent")
owner = related_cell("owner", field="owner")
fork_of = key_cell(Context, "parent_id", "forked from")
task_state = state_cell("state", TASK_TONES)
run_state = state_cell("state", RUN_TONES)
artifact_state = state_cell("state", ARTIFACT_TONES)
events_of_context = count_cell(
    "events", Event, "context__id__exact", lambda context: context.last_event, ordering="last_event"
)
turn = column("turn", lambda run: run.turn, "turn")
attempt = column("attempt", lambda run: run.attempt, "attempt")
role = column("from", lambda message: message.role, "role")
took = column("took", lambda run: cells.duration(seconds_taken(run)))
worker = id_cell("worker", "worker", ordering="worker")
index = column("#", lambda row: cells.link(row.index, cells.page_url(type(row), row.pk)), "index")
type_ = column("event", lambda event: cells.link(event.type, cells.page_url(Event, event.pk)), "type")
event_gist = column("summary", lambda event: gist(summarize(event)) or "–")
artifact_gist = column("content", lambda artifact: gist(summarize_parts(artifact.parts), 60) or "–")


def seconds_taken(run: Run) -> float | None:
    """From the first start to the end."""
    if run.started_at is None or run.finished_at is None:
        return None
    return (run.finished_at - run.started_at).total_seconds()


@display(description="rating")
def rating(row: Feedback) -> str:
    return RATINGS.get(row.rating, f"{row.rating} of 5")


@display(description="comment")
def comment(row: Feedback) -> SafeString:
    return cells.link(cells.shortened(row.text) or "(no comment)", cells.page_url(Feedback, row.pk))


@display(description="title")
def title(row: Context) -> SafeString:
    words = "(deleted)" if row.deleted_at else row.title or "(untitled)"
    return cells.link(words, cells.page_url(Context, row.pk))


@display(description="lease ends")
def lease(row: Run) -> SafeString:
    return cells.relative_time(row.lease_until if row.state == Run.State.RUNNING else None)


@display(description="problem")
def problem(row: Run) -> str:
    return cells.shortened(str((row.error or {}).get("message", ""))) or "–"


@display(description="text")
def message_gist(row: Message) -> SafeString:
    return cells.link(gist(summarize_parts(row.parts)) or "(empty)", cells.page_url(Message, row.pk))


@display(description="name", ordering="name")
def artifact_name(row: Artifact) -> SafeString:
    return cells.link(row.name or row.artifact_id, cells.page_url(Artifact, row.pk))
