"""Where what was given came from: the artifact, or the file of a calling task, that holds the same content."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from apps.features.provenance.contents import digests
from apps.features.provenance.graphs import Node
from apps.record.models import Artifact, Task


@dataclass(frozen=True, slots=True)
class Held:
    """Content that a node holds: of which task, since when."""

    node: str
    task: uuid.UUID
    at: datetime.datetime


@dataclass(slots=True)
class Origins:
    """All content of a graph, by its digest."""

    tasks: dict[uuid.UUID, Task]
    _delivered: dict[str, list[Held]] = field(default_factory=lambda: defaultdict(list))
    _given: dict[str, list[Held]] = field(default_factory=lambda: defaultdict(list))

    def deliver(self, node: str, artifact: Artifact) -> None:
        for one in digests(artifact.parts):
            self._delivered[one].append(Held(node, artifact.task_id, artifact.created_at))

    def give(self, file: Node, task: uuid.UUID, at: datetime.datetime) -> None:
        if file.details["sha256"]:
            self._given[file.details["sha256"]].append(Held(file.id, task, at))

    def found(self) -> Iterator[tuple[str, str]]:
        """Each file with what it came from."""
        for digest, files in self._given.items():
            for file in files:
                if source := self._source(digest, file):
                    yield file.node, source.node

    def unknown(self) -> dict[str, set[uuid.UUID]]:
        """Digests that came from nothing that is known so far, each with the tasks whose calls gave it."""
        callers: dict[str, set[uuid.UUID]] = defaultdict(set)
        for digest, files in self._given.items():
            for file in files:
                parent = self.tasks[file.task].parent_id
                if parent and not self._source(digest, file):
                    callers[digest].add(parent)
        return callers

    def _source(self, digest: str, file: Held) -> Held | None:
        """What was there before it: of a task that is referred to, then a file of the calling task, then any other."""
        task = self.tasks[file.task]
        earlier = [one for one in self._delivered[digest] if one.task != file.task and one.at <= file.at]
        named = [one for one in earlier if str(one.task) in task.references]
        above = [one for one in self._given[digest] if one.task == task.parent_id and one.at <= file.at]
        return max(named or above or earlier, key=lambda one: (one.at, one.node), default=None)
