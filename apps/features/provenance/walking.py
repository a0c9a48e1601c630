"""The way from an artifact back to all that led to it, level by level, as far as the reader may see."""

from __future__ import annotations

import uuid
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field

from apps.accounts.principals import Principal
from apps.features.provenance import levels, nodes
from apps.features.provenance.contents import digests, given_with
from apps.features.provenance.graphs import Link, Provenance
from apps.features.provenance.nodes import task_id
from apps.features.provenance.origins import Origins
from apps.record.events import JSON
from apps.record.models import Artifact, Message, Task

MOST = 2_000  # nodes


def provenance_of(principal: Principal, artifact: Artifact, most: int = MOST) -> Provenance:
    """What led to a delivered artifact: a fixed number of queries for each level of tasks, however many these are.

    From its task it goes to the tasks that this one refers to and called for, and from each on in the same way; and up
    to the tasks that called for them, for what these were given. What was deleted, or is not the caller's, is a node
    that says so. Raises Task.DoesNotExist where the artifact itself is not the caller's.
    """
    Task.objects.visible_to(principal).only("pk").get(pk=artifact.task_id)
    root = nodes.of_artifact(artifact)
    walk = _Walk(principal, Provenance(root.id, max(1, most)), artifact.task_id)
    walk.graph.add(root)
    while walk.ahead or walk.looked_beside():
        walk.go_on()
    walk.graph.link(root.id, Link.DELIVERED_BY, task_id(artifact.task_id))
    walk.link_contents()
    walk.link_tasks()
    return walk.graph


@dataclass(slots=True)
class _Walk:
    """Attributes:
    ahead: tasks of the next level; True where what they made led on, False where they only called for one.
    tasks: those that were looked at.
    opened: those of them whose artifacts and children were looked at too.
    delivered: the nodes of what they made, but for the artifact from which the way begins.
    sent: messages, each with the task that sent it.
    """

    principal: Principal
    graph: Provenance
    root: uuid.UUID
    ahead: dict[uuid.UUID, bool] = field(default_factory=dict)
    tasks: dict[uuid.UUID, Task] = field(default_factory=dict)
    opened: set[uuid.UUID] = field(default_factory=set)
    delivered: dict[uuid.UUID, list[str]] = field(default_factory=lambda: defaultdict(list))
    sent: list[tuple[str, uuid.UUID]] = field(default_factory=list)
    origins: Origins = field(init=False)

    def __post_init__(self) -> None:
        self.origins = Origins(self.tasks)
        self.ahead[self.root] = True

    def go_on(self) -> None:
        """Look at the tasks ahead, and name those that come after them."""
        ahead, self.ahead = self.ahead, {}
        found = self._find([key for key in ahead if key not in self.tasks])
        if found:
            self._tell_runs(found)
        self._open([key for key, is_made in ahead.items() if is_made and key in self.tasks])
        if found:
            self._tell_messages(found)
        for task in found:
            for key in _references(task):
                self._will_go(key, is_made=True)
            if caller := _caller(task):
                self._will_go(caller, is_made=False)

    def looked_beside(self) -> bool:
        """Once nothing is ahead: is there again, as a file may come from what was made beside its task?"""
        callers = self.origins.unknown() if self.graph.room else {}
        parents = {key for calling in callers.values() for key in calling}
        if parents:
            for artifact in levels.beside(self.principal, parents, list(self.tasks), self.graph.room):
                if any(artifact.task.parent_id in callers.get(one, ()) for one in digests(artifact.parts)):
                    self._will_go(artifact.task_id, is_made=True)
        return bool(self.ahead)

    def link_contents(self) -> None:
        """Link what was said and given to where that came from."""
        for message, sender in self.sent:
            self.graph.link(message, Link.SENT_BY, task_id(sender))
        for file, source in self.origins.found():
            self.graph.link(file, Link.CAME_FROM, source)

    def link_tasks(self) -> None:
        """Link the tasks that were found, and what they delivered: of many that refer to many, the nearest first."""
        forks = {task.context_id for task in self.tasks.values() if task.context.forked_at is not None}
        shared = levels.sources(forks) if forks else set()
        for task in self.tasks.values():
            here = task_id(task.pk)
            for artifact in self.delivered[task.pk]:
                self.graph.link(artifact, Link.DELIVERED_BY, here)
            for key in _references(task):
                other = self.tasks.get(key)
                goes_on = other is not None and (
                    other.context_id == task.context_id or (task.context_id, other.context_id) in shared
                )
                self.graph.link(here, Link.CONTINUES if goes_on else Link.REFERS_TO, task_id(key))
                for artifact in self.delivered[key]:
                    self.graph.link(here, Link.REFERS_TO, artifact)
            if caller := _caller(task):
                self.graph.link(here, Link.CALLED_FOR_BY, task_id(caller))
                for artifact in self.delivered[task.pk] if caller in self.opened else ():
                    self.graph.link(task_id(caller), Link.RECEIVED, artifact)

    def _will_go(self, key: uuid.UUID, *, is_made: bool) -> None:
        if not (self.graph.room or self.graph.has(task_id(key))):
            self.graph.truncated = True
        elif key not in (self.opened if is_made else self.tasks):
            self.ahead[key] = self.ahead.get(key, False) or is_made

    def _find(self, keys: list[uuid.UUID]) -> list[Task]:
        """Those that there are; the others are not available, or more than there is room for."""
        wanted = keys[: self.graph.room]
        self.graph.truncated |= len(wanted) < len(keys)
        found = levels.tasks(self.principal, wanted) if wanted else []
        for task in found:
            self.graph.add(nodes.of_task(task))
            self.tasks[task.pk] = task
        for key in wanted:
            if key not in self.tasks:
                self.graph.add(nodes.unavailable(key))
        return found

    def _tell_runs(self, tasks: list[Task]) -> None:
        turns: dict[tuple[str, str], list[JSON]] = defaultdict(list)
        for run in levels.runs([one.pk for one in tasks], self.graph.most):
            version = nodes.of_version(self.tasks[run["task"]], run)
            self.graph.add(version)
            turns[task_id(run["task"]), version.id].append({"turn": run["turn"], "inputHash": run["input_hash"]})
        for (task, version_id), taken in turns.items():
            self.graph.link(task, Link.CARRIED_OUT_BY, version_id, {"turns": taken})

    def _tell_messages(self, tasks: list[Task]) -> None:
        keys = [one.pk for one in tasks]
        senders = levels.senders(keys)
        for said in levels.messages(keys, self.graph.room + 1):
            task, node = self.tasks[said.task_id], nodes.of_message(said)  # type: ignore[index]
            if not self.graph.add(node):
                return
            if said.role == Message.Role.AGENT:
                self.graph.link(node.id, Link.ANSWERED_IN, task_id(task.pk))
                continue
            self.graph.link(task_id(task.pk), Link.ASKED_IN, node.id)
            self._tell_sender(node.id, task, senders.get((task.pk, said.message_id), ""))
            for file in given_with(said):
                if self.graph.add(file):
                    self.graph.link(task_id(task.pk), Link.GIVEN, file.id, {"message": node.id})
                    self.origins.give(file, task.pk, said.created_at)

    def _tell_sender(self, message: str, task: Task, sender: str) -> None:
        """Who sent it, as idempotency remembers: otherwise what called for the task, or else its owner."""
        caller = _caller(task)
        if caller and not sender.startswith("user:"):
            self.sent.append((message, caller))  # its node comes with the next level
        else:
            self.graph.add(nodes.of_person(self.principal))
            self.graph.link(message, Link.SAID_BY, "person:owner")

    def _open(self, keys: list[uuid.UUID]) -> None:
        """What tasks delivered, and which tasks they called for."""
        new = [key for key in keys if key not in self.opened]
        self.opened.update(new)
        if not new:
            return
        for artifact in levels.artifacts([key for key in new if key != self.root], self.graph.room + 1):
            node = nodes.of_artifact(artifact)
            if self.graph.add(node):
                self.delivered[artifact.task_id].append(node.id)
                self.origins.deliver(node.id, artifact)
        for key in levels.children(self.principal, new, self.graph.room + 1):
            self._will_go(key, is_made=True)


def _references(task: Task) -> list[uuid.UUID]:
    """The tasks that one refers to. Not all that was once written there need be ids."""
    keys = []
    for one in task.references:
        with suppress(ValueError):
            keys.append(uuid.UUID(one))
    return keys


def _caller(task: Task) -> uuid.UUID | None:
    """The task that called for this one, also where that was deleted."""
    return task.parent_id or task.context.parent_task
