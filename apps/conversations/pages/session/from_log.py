"""Reads a conversation from its log: a page of it, or what is needed to follow it from an event on.

Tasks whose events lie on both sides of an end are read whole, so that an item is the same on whatever page it is. The
pieces of what is complete are not read: the event that completes it has all of it.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Collection

from django.db.models import Q

from apps.conversations.pages.session.conversation import LONGEST_SO_FAR, ORDER, Conversation
from apps.conversations.pages.session.entries import agent_label, artifact_chunk, entries_of
from apps.record import lineage
from apps.record.events import JSON, EventType
from apps.record.models import UNFINISHED_STATES, Artifact, Context, Event, Task

PIECES = (EventType.ARTIFACT_UPDATE, EventType.AGENT_TOKEN_START, EventType.AGENT_TOKEN)


def page_between(context: Context, first: int, before: int, upto: int) -> JSON:
    """What is shown of the events from `first` and before `before`, as it is after event `upto`: a patch of nothing."""
    told = _conversation(context, first, before, upto)
    shown = {key for key, item in told.items.items() if first <= item["place"] // ORDER < before}
    patch = told.patch()
    put = [one for one in patch.pop("put", []) if (one["of"] if "of" in one else one["key"]) in shown]
    return {**patch, "index": upto, "put": put}


def conversation_at(context: Context, index: int) -> Conversation:
    """The conversation after an event, with what later entries can change, to follow it from there."""
    told = _conversation(context, index + 1, index + 1, index)
    told.patch()
    told.forget_ended()
    return told


def _conversation(context: Context, first: int, before: int, upto: int) -> Conversation:
    """The entries of these events, and those of unfinished tasks across both ends, up to `upto`."""
    across, unfinished = _tasks_across(context, {first - 1, before - 1}, upto)
    begun = _in_progress(context, unfinished, upto)
    told = Conversation(agent_label(context.agent))
    for entry in entries_of(context, _events(context, first, before, upto, across, begun.keys())):
        told.take(entry | begun.get(entry["index"], {}))
    return told


def _events(
    context: Context, first: int, before: int, upto: int, across: Collection[uuid.UUID], begun: Collection[int]
) -> list[Event]:
    """Two queries instead of one condition, so that a long log is not read whole."""
    whole = ~Q(type__in=PIECES) | Q(index__in=begun) if begun else ~Q(type__in=PIECES)
    found = list(lineage.events(context, first - 1, min(before - 1, upto)).filter(whole)) if first < before else []
    if across:
        others = lineage.events(context, upto=upto).filter(whole, task__in=across)
        others = others.exclude(index__gte=first, index__lt=before)
        found = sorted([*found, *others], key=lambda event: event.index)
    return found


def _tasks_across(context: Context, ends: set[int], upto: int) -> tuple[list[uuid.UUID], list[uuid.UUID]]:
    """The tasks that were unfinished after one of these events, and those that were after `upto`."""
    every = {end for end in {*ends, upto} if end > 0}
    if not every:
        return [], []
    wanted = Q(pk__in=[])
    for end in every:
        wanted |= Q(first_event__lte=end) & ~lineage.ended_by(end)
    left = lineage.left_tasks(context)
    tasks = [(one, left.get(one.pk)) for one in lineage.tasks(context).filter(wanted).order_by("first_event")]
    across = [one.pk for one, fork in tasks if any(_is_unfinished(one, fork, end) for end in ends)]
    return across, [one.pk for one, fork in tasks if _is_unfinished(one, fork, upto)]


def _is_unfinished(task: Task, fork: Event | None, index: int) -> bool:
    if task.first_event > index or (fork is not None and fork.index <= index):
        return False
    return task.state in UNFINISHED_STATES or task.status_event > index or fork is not None


def _in_progress(context: Context, tasks: Collection[uuid.UUID], upto: int) -> dict[int, JSON]:
    """What these unfinished tasks are making: by the index of its first piece, what the pieces up to `upto` have
    together. At most two queries.
    """
    rows = Artifact.objects.filter(task__in=tasks, first_event__lte=upto) if tasks else Artifact.objects.none()
    begun = {(task, own): first for task, own, first in rows.values_list("task", "artifact_id", "first_event")}
    if not begun:
        return {}
    ids = {own for _, own in begun}
    pieces = lineage.events(context, upto=upto).filter(task__in={task for task, _ in begun}, artifact_id__in=ids)
    found: dict[tuple[uuid.UUID | None, str], _InProgress] = {}
    for piece in pieces.iterator():
        key = piece.task_id, piece.artifact_id
        if key in begun and piece.index >= begun[key]:
            found.setdefault(key, _InProgress(piece)).add(piece)
    return {one.first.index: one.entry for one in found.values()}


class _InProgress:
    """An artifact that is being made, or the streamed text of an answer."""

    def __init__(self, first: Event) -> None:
        self.first, self.until, self.size = first, first.index, 0
        self.is_text, self.has_name = True, False
        self.texts: deque[str] = deque()
        self.length = 0  # of the texts

    def add(self, piece: Event) -> None:
        self.until = piece.index
        is_chunk = piece.type == EventType.ARTIFACT_UPDATE
        if is_chunk:
            chunk = artifact_chunk(piece)
            self.size += chunk["size"]
            self.is_text, self.has_name = self.is_text and chunk["isText"], self.has_name or chunk["hasName"]
        text = chunk["text"] if is_chunk else piece.payload.get("text", "")
        self.texts.append(text)
        self.length += len(text)
        while is_chunk and self.length - len(self.texts[0]) >= LONGEST_SO_FAR:
            self.length -= len(self.texts.popleft())

    @property
    def entry(self) -> JSON:
        """What differs from the entry of the first piece. `until`: the index of the newest piece."""
        so_far = {"text": "".join(self.texts), "until": self.until}
        if self.first.type != EventType.ARTIFACT_UPDATE:
            return so_far
        return {**so_far, "size": self.size, "isText": self.is_text, "hasName": self.has_name}
