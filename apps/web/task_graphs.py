"""The tasks around a task, as a picture: who called for it, what it called for, what it refines and what refines it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from apps.record.models import Task
from apps.web.layered import curve, lay_out
from apps.web.messages import ids_of

MOST_NODES = 100
STEPS = 6  # how far away a task may be that is still shown


@dataclass(slots=True)
class Node:
    task: Task
    is_here: bool
    x: int = 0
    y: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """From a task to one that came of it."""

    begins: Node
    ends: Node
    is_reference: bool

    @property
    def path(self) -> str:
        return curve(self.begins, self.ends)


@dataclass(slots=True)
class Graph:
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    width: int = 0
    height: int = 0
    is_cut_off: bool = False  # there are more tasks than are shown


def graph_around(task: Task) -> Graph:
    """At most three queries for each of STEPS steps away from the task, however many tasks there are."""
    found, is_cut_off = _around(task)
    nodes = {key: Node(one, is_here=key == task.pk) for key, one in found.items()}
    edges = [
        Edge(nodes[before], nodes[key], is_reference)
        for key, one in found.items()
        for before, is_reference in _came_of(one)
        if before in nodes and before != key
    ]
    boxes = sorted(nodes.values(), key=lambda node: node.task.created_at)
    width, height = lay_out(boxes, [(edge.begins, edge.ends) for edge in edges])
    return Graph(list(nodes.values()), edges, width, height, is_cut_off)


def _came_of(task: Task) -> Iterable[tuple[uuid.UUID, bool]]:
    """The tasks that come before one: the one that called for it, and (True) those that it refers to."""
    if task.parent_id:
        yield task.parent_id, False
    for key in ids_of(task.references):
        yield key, True


def _around(task: Task) -> tuple[dict[uuid.UUID, Task], bool]:
    """The tasks that are linked with one, nearest first, and whether there are more. All are its owner's."""
    found, newest = {task.pk: task}, [task]
    for _ in range(STEPS):
        beyond = [one for one in _next_to(newest, task.owner_id) if one.pk not in found]
        newest = beyond[: MOST_NODES - len(found)]
        found |= {one.pk: one for one in newest}
        if len(newest) < len(beyond):
            return found, True
        if not newest:
            return found, False
    return found, bool([one for one in _next_to(newest, task.owner_id) if one.pk not in found])


def _next_to(tasks: list[Task], owner: int | None) -> list[Task]:
    """What the tasks came of, what came of them, and what refers to them: in their sessions, or called for alike."""
    visible = Task.objects.filter(owner=owner).select_related("agent").defer("status_message", "slot", "metadata")
    keys = [one.pk for one in tasks]
    before = {key for one in tasks for key, _ in _came_of(one)}
    near = Q(pk__in=before) | Q(parent__in=keys)
    found = list(visible.filter(near).order_by("created_at")[: MOST_NODES + 1])
    named = Q()
    for key in keys:
        named |= Q(named__contains=str(key))
    beside = Q(context__in={one.context_id for one in tasks}) | Q(parent__in={one.parent_id for one in tasks} - {None})
    referring = visible.annotate(named=Cast("references", TextField())).filter(beside).filter(named)
    found += referring.order_by("created_at")[: MOST_NODES + 1]
    return list({one.pk: one for one in found}.values())
