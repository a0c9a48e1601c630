"""The traversal from an artifact to everything that led to it and that the reader may see, level by level.

Files are traced by the digests of their content, to an artifact or to a parent task's file.
"""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from apps.accounts.principals import Principal
from apps.conversations.provenance import queries
from apps.conversations.provenance.graph import (
    EdgeKind,
    Node,
    NodeKind,
    Provenance,
    agent_version_node,
    artifact_node,
    content_digests,
    file_nodes,
    message_node,
    person_node,
    task_node,
    task_node_id,
    unavailable_node,
)
from apps.record.events import JSON
from apps.record.models import Artifact, Message, Task
from parley.registry import added

MAX_NODES = 2_000  # nodes


def provenance_of(principal: Principal, artifact: Artifact, most: int = MAX_NODES) -> Provenance:
    """What led to a delivered artifact: a fixed number of queries for each level of tasks.

    The traversal goes from a task to the tasks that it refers to and to its child tasks, and so on; and up to parent
    tasks, for the files that these were given. Deleted tasks and other people's are unavailable nodes. Raises
    Task.DoesNotExist if the artifact is not the caller's.
    """
    Task.objects.visible_to(principal).only("pk").get(pk=artifact.task_id)
    root = artifact_node(artifact)
    traversal = _Traversal(principal, Provenance(root.id, max(1, most)), artifact.task_id)
    traversal.graph.add(root)
    while traversal.frontier or traversal.find_siblings():
        traversal.visit_level()
    traversal.graph.link(root.id, EdgeKind.DELIVERED_BY, task_node_id(artifact.task_id))
    traversal.link_contents()
    traversal.link_tasks()
    traversal.add_verdicts()
    return traversal.graph


@dataclass(slots=True)
class _Traversal:
    """Attributes:
    frontier: tasks of the next level; True to expand them too, False for mere parents.
    tasks: the visited tasks.
    expanded: tasks whose artifacts and children were visited too.
    delivered: the nodes of their artifacts, except the root.
    sent_by_task: messages, each with the task that sent it.
    """

    principal: Principal
    graph: Provenance
    root: uuid.UUID
    frontier: dict[uuid.UUID, bool] = field(default_factory=dict)
    tasks: dict[uuid.UUID, Task] = field(default_factory=dict)
    expanded: set[uuid.UUID] = field(default_factory=set)
    delivered: dict[uuid.UUID, list[str]] = field(default_factory=lambda: defaultdict(list))
    sent_by_task: list[tuple[str, uuid.UUID]] = field(default_factory=list)
    origins: Origins = field(init=False)

    def __post_init__(self) -> None:
        self.origins = Origins(self.tasks)
        self.frontier[self.root] = True

    def visit_level(self) -> None:
        frontier, self.frontier = self.frontier, {}
        found = self._find([key for key in frontier if key not in self.tasks])
        self._add_runs(found)
        self._expand([key for key, expand in frontier.items() if expand and key in self.tasks])
        self._add_messages(found)
        for task in found:
            for key in _references(task):
                self._enqueue(key, expand=True)
            if caller := _caller(task):
                self._enqueue(caller, expand=False)

    def find_siblings(self) -> bool:
        """Enqueue child tasks of the same parents whose artifacts a file may come from; returns whether there are
        any.
        """
        callers = self.origins.unmatched() if self.graph.remaining else {}
        parents = {key for calling in callers.values() for key in calling}
        if parents:
            for artifact in queries.sibling_artifacts(self.principal, parents, list(self.tasks), self.graph.remaining):
                if any(artifact.task.parent_id in callers.get(one, ()) for one in content_digests(artifact.parts)):
                    self._enqueue(artifact.task_id, expand=True)
        return bool(self.frontier)

    def link_contents(self) -> None:
        for message, sender in self.sent_by_task:
            self.graph.link(message, EdgeKind.SENT_BY, task_node_id(sender))
        for file, source in self.origins.matches():
            self.graph.link(file, EdgeKind.CAME_FROM, source)

    def link_tasks(self) -> None:
        """Link tasks and their artifacts. If there are too many edges, the nearest tasks come first."""
        forks = {task.context_id for task in self.tasks.values() if task.context.forked_at is not None}
        shared = queries.fork_sources(forks) if forks else set()
        for task in self.tasks.values():
            here = task_node_id(task.pk)
            for artifact in self.delivered[task.pk]:
                self.graph.link(artifact, EdgeKind.DELIVERED_BY, here)
            for key in _references(task):
                other = self.tasks.get(key)
                goes_on = other is not None and (
                    other.context_id == task.context_id or (task.context_id, other.context_id) in shared
                )
                self.graph.link(here, EdgeKind.CONTINUES if goes_on else EdgeKind.REFERS_TO, task_node_id(key))
                for artifact in self.delivered[key]:
                    self.graph.link(here, EdgeKind.REFERS_TO, artifact)
            if caller := _caller(task):
                self.graph.link(here, EdgeKind.CALLED_FOR_BY, task_node_id(caller))
                for artifact in self.delivered[task.pk] if caller in self.expanded else ():
                    self.graph.link(task_node_id(caller), EdgeKind.RECEIVED, artifact)

    def _enqueue(self, key: uuid.UUID, *, expand: bool) -> None:
        if not (self.graph.remaining or self.graph.has(task_node_id(key))):
            self.graph.truncated = True
        elif key not in (self.expanded if expand else self.tasks):
            self.frontier[key] = self.frontier.get(key, False) or expand

    def _find(self, keys: list[uuid.UUID]) -> list[Task]:
        """The caller's tasks with these keys, up to the limit. The others become unavailable nodes."""
        wanted = keys[: self.graph.remaining]
        self.graph.truncated |= len(wanted) < len(keys)
        found = queries.tasks(self.principal, wanted)
        for task in found:
            self.graph.add(task_node(task))
            self.tasks[task.pk] = task
        for key in wanted:
            if key not in self.tasks:
                self.graph.add(unavailable_node(key))
        return found

    def _add_runs(self, tasks: list[Task]) -> None:
        turns: dict[tuple[str, str], list[JSON]] = defaultdict(list)
        for run in queries.runs([one.pk for one in tasks], self.graph.most):
            version = agent_version_node(self.tasks[run["task"]], run)
            self.graph.add(version)
            turns[task_node_id(run["task"]), version.id].append({"turn": run["turn"], "inputHash": run["input_hash"]})
        for (task, version_id), taken in turns.items():
            self.graph.link(task, EdgeKind.CARRIED_OUT_BY, version_id, {"turns": taken})

    def _add_messages(self, tasks: list[Task]) -> None:
        keys = [one.pk for one in tasks]
        senders = queries.senders(keys)
        for said in queries.messages(keys, self.graph.remaining + 1):
            task, node = self.tasks[said.task_id], message_node(said)  # type: ignore[index]
            if not self.graph.add(node):
                return
            if said.role == Message.Role.AGENT:
                self.graph.link(node.id, EdgeKind.ANSWERED_IN, task_node_id(task.pk))
                continue
            self.graph.link(task_node_id(task.pk), EdgeKind.ASKED_IN, node.id)
            self._add_sender(node.id, task, senders.get((task.pk, said.message_id), ""))
            for file in file_nodes(said):
                if self.graph.add(file):
                    self.graph.link(task_node_id(task.pk), EdgeKind.GIVEN, file.id, {"message": node.id})
                    self.origins.add_given(file, task.pk, said.created_at)

    def _add_sender(self, message: str, task: Task, sender: str) -> None:
        caller = _caller(task)
        if caller and not sender.startswith("user:"):
            self.sent_by_task.append((message, caller))
        else:
            self.graph.add(person_node(self.principal))
            self.graph.link(message, EdgeKind.SAID_BY, "person:owner")

    def add_verdicts(self) -> None:
        """The verdicts on signatures of remote agents. One query."""
        nodes = [one for one in self.graph.nodes if one.kind == NodeKind.ARTIFACT]
        places = [(uuid.UUID(one.details["taskId"]), one.details["artifactId"]) for one in nodes]
        for find_verdicts in added["signature_verdicts"]:
            verdicts = find_verdicts(task for task, _ in places)
            for node, place in zip(nodes, places, strict=True):
                if verdict := verdicts.get(place):
                    node.details.update(isSigned=True, signature=str(verdict))

    def _expand(self, keys: list[uuid.UUID]) -> None:
        new = [key for key in keys if key not in self.expanded]
        self.expanded.update(new)
        if not new:
            return
        for artifact in queries.artifacts([key for key in new if key != self.root], self.graph.remaining + 1):
            node = artifact_node(artifact)
            if self.graph.add(node):
                self.delivered[artifact.task_id].append(node.id)
                self.origins.add_delivered(node.id, artifact)
        for key in queries.children(self.principal, new, self.graph.remaining + 1):
            self._enqueue(key, expand=True)


def _references(task: Task) -> list[uuid.UUID]:
    """The tasks that one refers to. In old rows, references may not be task ids."""
    keys = []
    for one in task.references:
        with suppress(ValueError):
            keys.append(uuid.UUID(one))
    return keys


def _caller(task: Task) -> uuid.UUID | None:
    return task.parent_id or task.context.parent_task


@dataclass(frozen=True, slots=True)
class ContentUse:
    node: str
    task: uuid.UUID
    at: datetime.datetime


@dataclass(slots=True)
class Origins:
    """All content of a graph, by its digest."""

    tasks: dict[uuid.UUID, Task]
    _delivered: dict[str, list[ContentUse]] = field(default_factory=lambda: defaultdict(list))
    _given: dict[str, list[ContentUse]] = field(default_factory=lambda: defaultdict(list))

    def add_delivered(self, node: str, artifact: Artifact) -> None:
        for one in content_digests(artifact.parts):
            self._delivered[one].append(ContentUse(node, artifact.task_id, artifact.created_at))

    def add_given(self, file: Node, task: uuid.UUID, at: datetime.datetime) -> None:
        if file.details["sha256"]:
            self._given[file.details["sha256"]].append(ContentUse(file.id, task, at))

    def matches(self) -> Iterator[tuple[str, str]]:
        for digest, files in self._given.items():
            for file in files:
                if source := self._source(digest, file):
                    yield file.node, source.node

    def unmatched(self) -> dict[str, set[uuid.UUID]]:
        """Digests of files without a known origin, each with the parent tasks that gave them."""
        callers: dict[str, set[uuid.UUID]] = defaultdict(set)
        for digest, files in self._given.items():
            for file in files:
                parent = self.tasks[file.task].parent_id
                if parent and not self._source(digest, file):
                    callers[digest].add(parent)
        return callers

    def _source(self, digest: str, file: ContentUse) -> ContentUse | None:
        """The earlier content: of a referenced task, else a file of the parent task, else any."""
        task = self.tasks[file.task]
        earlier = [one for one in self._delivered[digest] if one.task != file.task and one.at <= file.at]
        named = [one for one in earlier if str(one.task) in task.references]
        above = [one for one in self._given[digest] if one.task == task.parent_id and one.at <= file.at]
        return max(named or above or earlier, key=lambda one: (one.at, one.node), default=None)
