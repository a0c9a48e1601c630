"""Unfinished artifacts: what a task had streamed when it failed, was stopped, or was left behind by a fork.

They have no parts of their own; their chunks in the log are read instead. Another attempt at a turn voids the artifacts
of the attempt before.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import batched

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from apps.accounts.principals import Principal
from apps.record import lineage
from apps.record.errors import ArtifactNotFound
from apps.record.events import EventType
from apps.record.models import Artifact, Context, Event
from apps.record.projection import assemble_parts
from apps.record.reading import lookup

ENDINGS = (EventType.AGENT_FAILED, EventType.AGENT_CANCELLED)
RETAKEN = "suspended"  # the code of a turn that is taken again
ROWS_AT_ONCE = 100  # in one query for chunks


def find(context: Context, upto: int | None = None) -> list[Artifact]:
    """The context's unfinished artifacts by event `upto`, oldest first, each with `until` and without parts.

    Two queries, and one more in a fork.
    """
    left = lineage.left_tasks(context)
    candidates = Q(state=Artifact.State.DISCARDED) | Q(task__in=left.keys())
    rows = Artifact.objects.filter(candidates, **lineage.row_lookups(context, "first_event", of="task__"))
    return _ended(rows.select_related("task").order_by("first_event"), {task: left[task].index for task in left}, upto)


def with_delivered(
    context: Context, *, after: int = 0, upto: int | None = None, most: int | None = None
) -> list[Artifact]:
    """All that a context has made from event `after` to event `upto`: delivered and unfinished artifacts, by their
    first chunk, with their tasks. `most` is the number of chunks that are read of an unfinished one.
    """
    delivered = lineage.artifacts(context).filter(first_event__gt=after)
    if upto is not None:  # an artifact counts from its task's completion
        delivered = delivered.filter(first_event__lte=upto, task__status_event__lte=upto)
    left = [row for row in find(context, upto) if row.first_event > after]
    whole = delivered.select_related("task").defer(
        "extensions", "metadata", "task__slot", "task__references", "task__metadata"
    )
    return sorted([*whole, *with_parts(left, most)], key=lambda row: row.first_event)


def find_artifact(principal: Principal, task: uuid.UUID | str, artifact: str, *, delivered: bool = False) -> Artifact:
    """An artifact of a task that the caller may see, with its parts; `delivered`: not an unfinished one.

    Raises TaskNotFound, ArtifactNotFound.
    """
    found = lookup.find_task(principal, task)
    row = Artifact.objects.filter(task=found, artifact_id=artifact).first() if "\0" not in artifact else None
    if row is None:
        raise ArtifactNotFound
    row.task = found
    if row.state == Artifact.State.DELIVERED:
        return row
    ended = [] if delivered else [one for one in find(found.context) if one.pk == row.pk]
    if not ended:
        raise ArtifactNotFound
    row.until = ended[0].until
    return with_parts([row])[0]


def ended_by(events: Iterable[Event]) -> dict[int, list[Artifact]]:
    """By index, the artifacts that events of one log leave unfinished. No query if there are none, at most two."""
    endings = {event.index: event for event in events if _discards(event)}
    left = {task: event.index for event in endings.values() for task in _left_by(event)}
    named = Q(pk__in=[])
    for event in endings.values():
        if event.type in ENDINGS:
            named |= Q(task=event.task_id, artifact_id__in=event.payload["discarded"])
    found: dict[int, list[Artifact]] = defaultdict(list)
    if not endings:
        return found
    rows = Artifact.objects.filter(named | Q(task__in=left.keys())).select_related("task").order_by("first_event")
    for row in _ended(rows, left, None):
        if row.until in endings:
            found[row.until].append(row)
    return found


def _discards(event: Event) -> bool:
    if event.type == EventType.FORK:
        return bool(event.payload["left"])
    return event.type in ENDINGS and bool(event.payload["discarded"])


def _left_by(event: Event) -> Collection[uuid.UUID]:
    return list(lineage.task_ids_left_by(event)) if event.type == EventType.FORK else ()


def _ended(rows: Iterable[Artifact], left: dict[uuid.UUID, int], upto: int | None) -> list[Artifact]:
    """Those that were left unfinished. `left`: where a fork left their tasks."""
    candidates = list(rows)
    turns: dict[uuid.UUID | None, list[Event]] = defaultdict(list)
    if candidates:
        tasks, types = {row.task_id for row in candidates}, (*ENDINGS, EventType.AGENT_START)
        for event in Event.objects.filter(task__in=tasks, artifact_id="", type__in=types).order_by("index"):
            turns[event.task_id].append(event)
    for row in candidates:
        row.until = _end_of(row, turns[row.task_id], left.get(row.task_id))
    return [row for row in candidates if row.until is not None and (upto is None or row.until <= upto)]


def _end_of(row: Artifact, turns: Sequence[Event], left_at: int | None) -> int | None:
    """The index of the event that ended it; None if it is void, or not ended."""
    if left_at is not None and row.first_event >= left_at:
        return None
    for event in turns:
        if left_at is not None and event.index > left_at:
            break
        if event.index < row.first_event:
            continue
        if event.type == EventType.AGENT_START:
            if event.run == row.run and (event.payload["attempt"] > 1 or event.payload.get("again")):
                return None
        elif row.artifact_id in event.payload["discarded"]:
            return None if event.payload.get("code") == RETAKEN else event.index
    return left_at


def with_parts(rows: Sequence[Artifact], most: int | None = None) -> Sequence[Artifact]:
    """The artifacts with the parts of their chunks, of the first `most` each. One query for ROWS_AT_ONCE artifacts."""
    for some in batched(rows, ROWS_AT_ONCE):
        chunks = _chunks(some, most)
        for row in some:
            own = chunks[row.task_id, row.artifact_id]
            row.parts, row.is_cut = assemble_parts(own[:most]), most is not None and len(own) > most
            row.is_answer = bool(own) and own[0].type != EventType.ARTIFACT_UPDATE
    return rows


def _chunks(rows: Iterable[Artifact], most: int | None) -> dict[tuple[uuid.UUID | None, str], list[Event]]:
    named = Q(pk__in=[])
    for row in rows:
        place = {"index__gte": row.first_event, "index__lt": row.until}
        named |= Q(task=row.task_id, artifact_id=row.artifact_id, **place)
    events = Event.objects.filter(named).order_by("index").only("index", "type", "task", "artifact_id", "payload")
    if most is not None:
        places = Window(RowNumber(), partition_by=[F("task"), F("artifact_id")], order_by="index")
        events = events.annotate(place=places).filter(place__lte=most + 1)  # one more tells whether it is cut
    found: dict[tuple[uuid.UUID | None, str], list[Event]] = defaultdict(list)
    for event in events:
        found[event.task_id, event.artifact_id].append(event)
    return found
