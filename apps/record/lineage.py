"""What a context has of the record: its own rows, and of a fork those of the logs that it goes on from.

A context that is no fork (`forked_at is None`) costs nothing extra here: no query, no join.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q, QuerySet

from apps.accounts.models import Workspace
from apps.record.events import JSON, EventType
from apps.record.models import (
    AGENT_CHANGES,
    UNFINISHED_STATES,
    Artifact,
    ArtifactQuerySet,
    Context,
    Event,
    Message,
    Segment,
    Task,
    TaskQuerySet,
    TaskState,
)


@dataclass(frozen=True, slots=True)
class LogRange:
    """Events `first` to `last` of a log are stored in context `source`."""

    source: uuid.UUID
    first: int
    last: int


def events(context: Context, after: int = 0, upto: int | None = None) -> QuerySet[Event]:
    """The log of a context by index, from the event after `after` as far as `upto`."""
    found = Event.objects.filter(**row_lookups(context, "index"))
    if after:
        found = found.filter(index__gt=after)
    if upto is not None:
        found = found.filter(index__lte=upto)
    return found.order_by("index")


def messages(context: Context) -> QuerySet[Message]:
    """What was said in a context and in what it goes on from."""
    return Message.objects.filter(**row_lookups(context, "index"))


def tasks(context: Context) -> TaskQuerySet:
    """The tasks of a context and of what it goes on from; those that are `left` go on elsewhere, and not in it."""
    return Task.objects.filter(**row_lookups(context, "first_event"))


def shown_tasks(context: Context) -> list[Task]:
    """The tasks of a context as it shows them, oldest first: those that were left behind ended with that."""
    return as_shown(tasks(context).order_by("first_event"), left_tasks(context))


def as_shown(found: Iterable[Task], left: Mapping[uuid.UUID, Event]) -> list[Task]:
    """Tasks as a context shows them that left these (see `left_tasks`)."""
    shown = list(found)
    for task in shown:
        if task.pk in left and task.context_id != left[task.pk].context_id:
            mark_left(task, left[task.pk])
    return shown


def mark_left(task: Task, fork: Event) -> None:
    """In a fork, a task that had not ended ends by being left behind, whatever becomes of it elsewhere."""
    task.state, task.status_message, task.slot = TaskState.CANCELED, None, None
    task.metadata = {name: value for name, value in task.metadata.items() if name != "skill"}  # found out elsewhere
    task.status_at, task.status_event = fork.at, fork.index


def left_tasks(context: Context) -> dict[uuid.UUID, Event]:
    """The tasks that are `left`, each with the fork that left it."""
    return {task: fork for fork in reversed(fork_events(context)) for task in task_ids_left_by(fork)}


def newest_task(context: Context, **which: Any) -> Task | None:
    """The newest task of a context as it shows it, of those for which the lookups hold."""
    own = Task.objects.filter(context=context, **which).order_by("-created_at", "-pk").first()
    if own is not None or context.forked_at is None:
        return own
    found = tasks(context).filter(**which).order_by("-first_event")[:1]
    return next(iter(as_shown(found, left_tasks(context))), None)


def newest_messages(context: Context, number: int, before: int | None = None) -> list[Message]:
    """The newest messages of a context, oldest first; those before an index, if one is given."""
    so_far = {} if before is None else {"index__lt": before}
    found = list(Message.objects.filter(context=context, **so_far).order_by("-index")[:number])
    if len(found) < number and context.forked_at is not None:
        found = list(messages(context).filter(**so_far).order_by("-index")[:number])
    return found[::-1]


def artifacts(context: Context) -> ArtifactQuerySet:
    """What was delivered in a context, and in what it goes on from by the tasks that had ended there."""
    found = Artifact.objects.delivered().filter(**row_lookups(context, "first_event", of="task__"))
    return found if context.forked_at is None else found.exclude(task__in=left_task_ids(context))


def left_task_ids(context: Context, upto: int | None = None) -> set[uuid.UUID]:
    """The tasks in a context's past that had not ended where it, or what it goes on from, was forked off."""
    return {task for fork in fork_events(context, upto) for task in task_ids_left_by(fork)}


def task_ids_left_by(fork: Event) -> Iterator[uuid.UUID]:
    """The tasks that a `fork` event leaves behind."""
    return (uuid.UUID(task) for task in fork.payload["left"])


def fork_events(context: Context, upto: int | None = None) -> list[Event]:
    """The events by which a log goes on from another, oldest first."""
    if context.forked_at is None:
        return []
    begins = F("context__lent__first")
    found = Event.objects.filter(context__lent__context=context.pk, index=begins, type=EventType.FORK)
    return list((found if upto is None else found.filter(index__lte=upto)).order_by("index"))


def agent_at(context: Context, at: int) -> tuple[int, JSON]:
    """With whom a conversation was at an event of it, and with which options; 0 is its beginning."""
    turned = events(context, upto=at).filter(type__in=AGENT_CHANGES).order_by("-index").first() if at else None
    event = turned or events(context, upto=1).get()
    said = event.payload if event.type == EventType.AGENT_SWITCHED else event.payload["opens"]
    return int(said["agent"]), said.get("options", {})


def lock_shared_logs(workspace: int) -> None:
    """Let nobody else change who shares which logs of a workspace until the transaction ends.

    Comes before every lock on a context. New rows may refer to the workspace meanwhile.
    """
    list(Workspace.objects.select_for_update(no_key=True).filter(pk=workspace).values_list("pk"))


def log_ranges(context: Context, upto: int) -> list[LogRange]:
    """Whose lines a log's are, in its order, as far as event `upto`."""
    if context.forked_at is None:
        return [LogRange(context.pk, 1, upto)] if upto else []
    segments = Segment.objects.filter(context=context, first__lte=upto).order_by("first")
    return [LogRange(one.source_id, one.first, min(one.last, upto)) for one in segments]


def row_lookups(context: Context, index: str, of: str = "") -> dict[str, Any]:
    """Lookups for the rows that a context has, where `index` names the event that brought them, for one `filter` call.

    `of` leads to the row whose `context` and `index` count. There is one join, so that a statement sees what is shared
    as it is at one moment, even while it is moved.
    """
    if context.forked_at is None:
        return {f"{of}context": context.pk}
    lent = f"{of}context__lent"
    return {
        f"{lent}__context": context.pk,
        f"{of}{index}__gte": F(f"{lent}__first"),
        f"{of}{index}__lte": F(f"{lent}__last"),
    }


Versions = Mapping[int, int]
"""By the index of an artifact's first chunk, how many of its name there are in the session up to it."""


def artifact_versions(context: Context) -> Versions:
    """The versions of all that was delivered in a session. One query, beside segments."""
    found = artifacts(context).order_by("first_event")
    return number_versions(found.values_list("first_event", "name", "artifact_id"))


def number_versions(rows: Iterable[tuple[int, str, str]]) -> Versions:
    """The versions of artifacts (first event, name, id) that stand in their order."""
    seen: Counter[str] = Counter()
    versions = {}
    for first_event, name, artifact_id in rows:
        seen[name or artifact_id] += 1
        versions[first_event] = seen[name or artifact_id]
    return versions


def widest_share(context: Context) -> Segment | None:
    """What a fork shares of the context, of the one that shares most; rather one in the tables."""
    shared = Segment.objects.filter(source=context).exclude(context=context)
    return shared.select_related("context").order_by("-last", "context__cold_file", "pk").first()


def unshared_tasks(context: Context) -> list[uuid.UUID]:
    """The context's own tasks that ended in none of its forks."""
    tasks = Task.objects.filter(context=context)
    share = widest_share(context)
    if share is not None:
        tasks = tasks.exclude(ended_by(share.last))
    return list(tasks.values_list("pk", flat=True))


def ended_by(index: int) -> Q:
    """The condition for tasks that had ended at this event of their log."""
    return Q(status_event__lte=index) & ~Q(state__in=UNFINISHED_STATES)
