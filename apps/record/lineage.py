"""The rows of a context: its own, and for a fork also those it shares with its parents.

A context that is not a fork (`forked_at is None`) needs no extra query or join.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery

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
from parley.db.sql import Keys


@dataclass(frozen=True, slots=True)
class LogRange:
    """Events `first` to `last` of a log are stored in context `source`."""

    source: uuid.UUID
    first: int
    last: int


def events(context: Context, after: int = 0, upto: int | None = None) -> QuerySet[Event]:
    """The context's log, in order, after event `after` up to event `upto`."""
    found = Event.objects.filter(**row_lookups(context, "index"))
    if after:
        found = found.filter(index__gt=after)
    if upto is not None:
        found = found.filter(index__lte=upto)
    return found.order_by("index")


def messages(context: Context) -> QuerySet[Message]:
    """The context's messages, with its parents' messages before the fork."""
    return Message.objects.filter(**row_lookups(context, "index"))


def message_counts(contexts: Sequence[Context]) -> dict[uuid.UUID, int]:
    """The number of messages of each context, with its parents' before the fork. At most two queries."""
    cold = {one.pk: one.cold_messages for one in contexts if one.cold_file}
    warm = [one for one in contexts if one.pk not in cold]
    counts = dict.fromkeys((one.pk for one in warm), 0) | cold
    if roots := [one.pk for one in warm if one.forked_at is None]:
        counts |= dict(
            Message.objects.filter(context__in=roots).values_list("context").annotate(Count("pk")).order_by()
        )
    if forks := [one.pk for one in warm if one.forked_at is not None]:  # their own messages are in a segment, too
        within = {"context": OuterRef("source"), "index__gte": OuterRef("first"), "index__lte": OuterRef("last")}
        said = Message.objects.filter(**within).order_by().values("context").annotate(number=Count("pk"))
        segments = Segment.objects.filter(context__in=forks).annotate(number=Subquery(said.values("number"))).order_by()
        for fork, number in segments.values_list("context_id", "number"):
            counts[fork] += number or 0
    return counts


def tasks(context: Context) -> TaskQuerySet:
    """The context's tasks, with its parents' from before the fork; `left_tasks` of these do not continue here."""
    return Task.objects.filter(**row_lookups(context, "first_event"))


def shown_tasks(context: Context) -> list[Task]:
    """The context's tasks, oldest first; those left behind show as canceled."""
    return as_shown(tasks(context).order_by("first_event"), left_tasks(context))


def as_shown(found: Iterable[Task], left: Mapping[uuid.UUID, Event]) -> list[Task]:
    """The tasks as a context shows them whose `left_tasks` are given."""
    shown = list(found)
    for task in shown:
        if task.pk in left and task.context_id != left[task.pk].context_id:
            mark_left(task, left[task.pk])
    return shown


def mark_left(task: Task, fork: Event) -> None:
    """In a fork, an unfinished task of the parent is canceled, whatever happens to it there."""
    task.state, task.status_message, task.slot = TaskState.CANCELED, None, None
    task.metadata = {name: value for name, value in task.metadata.items() if name != "skill"}  # set elsewhere
    task.status_at, task.status_event = fork.at, fork.index


def left_tasks(context: Context) -> dict[uuid.UUID, Event]:
    """The tasks left behind, each with its `fork` event."""
    return {task: fork for fork in reversed(fork_events(context)) for task in task_ids_left_by(fork)}


def newest_task(context: Context, **which: Any) -> Task | None:
    """The context's newest task that matches the lookups, as the context shows it."""
    own = Task.objects.filter(context=context, **which).order_by("-created_at", "-pk").first()
    if own is not None or context.forked_at is None:
        return own
    found = tasks(context).filter(**which).order_by("-first_event")[:1]
    return next(iter(as_shown(found, left_tasks(context))), None)


def newest_messages(context: Context, number: int, before: int | None = None) -> list[Message]:
    """The context's newest messages, or the newest before an index; oldest first."""
    so_far = {} if before is None else {"index__lt": before}
    found = list(Message.objects.filter(context=context, **so_far).order_by("-index")[:number])
    if len(found) < number and context.forked_at is not None:
        found = list(messages(context).filter(**so_far).order_by("-index")[:number])
    return found[::-1]


def artifacts(context: Context) -> ArtifactQuerySet:
    """The context's delivered artifacts, with those of its parents' tasks that had ended at the fork."""
    found = Artifact.objects.delivered().filter(**row_lookups(context, "first_event", of="task__"))
    return found if context.forked_at is None else found.exclude(task__in=left_task_ids(context))


def left_task_ids(context: Context) -> set[uuid.UUID]:
    """The ids of all tasks that forks in the context's past left behind."""
    return {task for fork in fork_events(context) for task in task_ids_left_by(fork)}


def task_ids_left_by(fork: Event) -> Iterator[uuid.UUID]:
    """The task ids that a `fork` event leaves behind."""
    return (uuid.UUID(task) for task in fork.payload["left"])


def fork_events(context: Context, upto: int | None = None) -> list[Event]:
    """The log's `fork` events, oldest first: a fork of a fork has several."""
    if context.forked_at is None:
        return []
    begins = F("context__lent__first")
    found = Event.objects.filter(context__lent__context=context.pk, index=begins, type=EventType.FORK)
    return list((found if upto is None else found.filter(index__lte=upto)).order_by("index"))


def agent_at(context: Context, at: int) -> tuple[int, JSON, int | None]:
    """The agent, its options, and its version there (see `Context.agent_version`) at event `at`; 0 is the beginning."""
    turned = events(context, upto=at).filter(type__in=AGENT_CHANGES).order_by("-index").first() if at else None
    event = turned or events(context, upto=1).get()
    said = event.payload if event.type == EventType.AGENT_SWITCHED else event.payload["opens"]
    return int(said["agent"]), said.get("options", {}), said.get("version")


def lock_shared_logs(workspace: int) -> None:
    """Let no other transaction change which contexts of a workspace share logs.

    Take it before every lock on a context. New rows may still refer to the workspace.
    """
    list(Workspace.objects.select_for_update(no_key=True).filter(pk=workspace).values_list("pk"))


def log_ranges(context: Context, upto: int) -> list[LogRange]:
    """Where the log's events up to `upto` are stored, in order."""
    if context.forked_at is None:
        return [LogRange(context.pk, 1, upto)] if upto else []
    segments = Segment.objects.filter(context=context, first__lte=upto).order_by("first")
    return [LogRange(one.source_id, one.first, min(one.last, upto)) for one in segments]


def row_lookups(context: Context, index: str, of: str = "") -> dict[str, Any]:
    """Lookups for a context's rows, for one `filter` call; the field `index` is the event that made a row.

    `of`: prefix to the row with these fields. One join sees segments at one moment, even while a hand-over moves them.
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
"""By the index of an artifact's first chunk: its number among the session's artifacts of the same name."""


def artifact_versions(context: Context) -> Versions:
    """The versions of a session's delivered artifacts. One query, beside segments."""
    found = artifacts(context).order_by("first_event")
    return number_versions(found.values_list("first_event", "name", "artifact_id"))


def number_versions(rows: Iterable[tuple[int, str, str]]) -> Versions:
    """The versions of artifacts (first event, name, id), given in order."""
    seen: Counter[str] = Counter()
    versions = {}
    for first_event, name, artifact_id in rows:
        seen[name or artifact_id] += 1
        versions[first_event] = seen[name or artifact_id]
    return versions


def widest_shares(contexts: Keys) -> list[Segment]:
    """Of each context that another fork shares: the longest segment; preferably of a fork that is not in cold storage.

    "Another" is none of these contexts.
    """
    shared = Segment.objects.filter(source__in=contexts).exclude(context__in=contexts)
    found: dict[uuid.UUID, Segment] = {}
    for one in shared.select_related("context", "source").order_by("-last", "context__cold_file", "pk"):
        found.setdefault(one.source_id, one)
    return list(found.values())


def unshared_tasks(contexts: Keys) -> list[uuid.UUID]:
    """The contexts' own tasks that had not ended before any other fork of them."""
    tasks = Task.objects.filter(context__in=contexts)
    for share in widest_shares(contexts):
        tasks = tasks.exclude(ended_by(share.last), context=share.source_id)
    return list(tasks.values_list("pk", flat=True))


def ended_by(index: int) -> Q:
    """The condition for tasks that had ended by this event."""
    return Q(status_event__lte=index) & ~Q(state__in=UNFINISHED_STATES)
