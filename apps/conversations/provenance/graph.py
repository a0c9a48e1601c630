"""The graph of what led to an artifact, in the terms of W3C PROV (https://www.w3.org/TR/prov-dm/, §2.1).

An edge goes from a later node to an earlier one that contributed to it.
"""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from apps.accounts.principals import Principal
from apps.record import wire
from apps.record.content import blobs
from apps.record.content.parts import declared_media_type, is_file, pieces_joined, size_of, words_of
from apps.record.content.strict_json import digest_of
from apps.record.events import JSON
from apps.record.models import Artifact, Message, Task

EDGES_PER_NODE = 5
MAX_TEXT_LENGTH = 300  # characters
FILE_TEXT_BYTES = 1_000  # longer texts count as files


class NodeKind(StrEnum):
    ARTIFACT = "artifact"
    TASK = "task"
    MESSAGE = "message"
    FILE = "file"
    AGENT_VERSION = "agent_version"
    PERSON = "person"
    UNAVAILABLE = "unavailable"  # a task that was deleted, or that the reader may not see


class EdgeKind(StrEnum):
    """How one node contributed to another; the comments name both ends, the later one first."""

    DELIVERED_BY = "delivered_by"  # artifact, task
    CARRIED_OUT_BY = "carried_out_by"  # task, the version of an agent
    ASKED_IN = "asked_in"  # task, message to it
    ANSWERED_IN = "answered_in"  # message from the agent, task
    SAID_BY = "said_by"  # message, person
    SENT_BY = "sent_by"  # message, task that called another one
    GIVEN = "given"  # task, file
    CAME_FROM = "came_from"  # file, artifact or file with the same content
    REFERS_TO = "refers_to"  # task, task or its artifact
    CONTINUES = "continues"  # task, previous task in the same session
    CALLED_FOR_BY = "called_for_by"  # task, task
    RECEIVED = "received"  # task, artifact of a task that it called


PROV_TYPES = {
    NodeKind.ARTIFACT: "entity",
    NodeKind.MESSAGE: "entity",
    NodeKind.FILE: "entity",
    NodeKind.TASK: "activity",
    NodeKind.UNAVAILABLE: "activity",
    NodeKind.AGENT_VERSION: "agent",
    NodeKind.PERSON: "agent",
}
PROV_RELATIONS = {
    EdgeKind.DELIVERED_BY: "wasGeneratedBy",
    EdgeKind.CARRIED_OUT_BY: "wasAssociatedWith",
    EdgeKind.ASKED_IN: "used",
    EdgeKind.ANSWERED_IN: "wasGeneratedBy",
    EdgeKind.SAID_BY: "wasAttributedTo",
    EdgeKind.SENT_BY: "wasGeneratedBy",
    EdgeKind.GIVEN: "used",
    EdgeKind.CAME_FROM: "wasDerivedFrom",
    EdgeKind.REFERS_TO: "wasInformedBy",
    EdgeKind.CONTINUES: "wasInformedBy",
    EdgeKind.CALLED_FOR_BY: "wasInformedBy",
    EdgeKind.RECEIVED: "used",
}


@dataclass(frozen=True, slots=True)
class Node:
    """Attributes:
    name: what people call it, in one line.
    at: when it began, was sent or was made, if known.
    details: further data, depending on its kind.
    """

    id: str
    kind: NodeKind
    name: str
    at: datetime.datetime | None = None
    details: JSON = field(default_factory=dict)

    @property
    def json(self) -> JSON:
        at = wire.timestamp(self.at) if self.at else None
        said = {"id": self.id, "kind": self.kind.value, "prov": PROV_TYPES[self.kind], "name": self.name}
        return {**said, "at": at, "details": self.details}


@dataclass(frozen=True, slots=True)
class Edge:
    later: str
    earlier: str
    kind: EdgeKind
    relation: str
    details: JSON = field(default_factory=dict)

    @property
    def json(self) -> JSON:
        ends = {"from": self.later, "to": self.earlier}
        return {**ends, "kind": self.kind.value, "relation": self.relation, "details": self.details}


@dataclass(slots=True)
class Provenance:
    """What led to the node `artifact`; the order of nodes is always the same.

    `truncated`: there are more than `most` nodes, or EDGES_PER_NODE times as many edges. The nearest are here.
    """

    artifact: str
    most: int
    truncated: bool = False
    _nodes: dict[str, Node] = field(default_factory=dict)
    _edges: dict[tuple[str, str, EdgeKind], Edge] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    @property
    def edges(self) -> list[Edge]:
        places = {key: place for place, key in enumerate(self._nodes)}
        return sorted(self._edges.values(), key=lambda one: (places[one.later], places[one.earlier], one.kind))

    @property
    def remaining(self) -> int:
        return self.most - len(self._nodes)

    def has(self, node: str) -> bool:
        return node in self._nodes

    def add(self, node: Node) -> bool:
        """Add a node, up to `most`; returns whether it is in the graph."""
        if node.id not in self._nodes:
            if self.remaining <= 0:
                self.truncated = True
                return False
            self._nodes[node.id] = node
        return True

    def link(self, later: str, kind: EdgeKind, earlier: str, details: JSON | None = None) -> None:
        """Link two nodes once. Does nothing if one is missing, or there are too many edges."""
        key = (later, earlier, kind)
        if key in self._edges or later == earlier or not (self.has(later) and self.has(earlier)):
            return
        if len(self._edges) >= EDGES_PER_NODE * self.most:
            self.truncated = True
            return
        is_use = kind == EdgeKind.REFERS_TO and self._nodes[earlier].kind == NodeKind.ARTIFACT
        relation = "used" if is_use else PROV_RELATIONS[kind]
        self._edges[key] = Edge(later, earlier, kind, relation, details or {})

    @property
    def json(self) -> JSON:
        return {
            "artifact": self.artifact,
            "nodes": [node.json for node in self.nodes],
            "edges": [edge.json for edge in self.edges],
            "truncated": self.truncated,
        }


def task_node_id(key: object) -> str:
    return f"task:{key}"


def task_node(task: Task) -> Node:
    about = {"taskId": str(task.pk), "sessionId": str(task.context_id), "agent": task.agent.slug}
    return Node(task_node_id(task.pk), NodeKind.TASK, task.agent.name, task.created_at, {**about, "state": task.state})


def unavailable_node(key: uuid.UUID) -> Node:
    """A task that was deleted or that the reader may not see; the node does not say which."""
    return Node(task_node_id(key), NodeKind.UNAVAILABLE, "Not available", details={"taskId": str(key)})


def artifact_node(artifact: Artifact) -> Node:
    parts = pieces_joined(artifact.parts)
    types = {declared_media_type(part) for part in parts}
    details = {
        "taskId": str(artifact.task_id),
        "sessionId": str(artifact.task.context_id),
        "artifactId": artifact.artifact_id,
        "name": artifact.name,
        "mediaTypes": sorted(types),
        "size": sum(size_of(part) or 0 for part in parts),
        "digest": artifact.digest,
        "isSigned": bool(artifact.signature),
    }
    key = f"artifact:{artifact.task_id}/{artifact.artifact_id}"
    return Node(key, NodeKind.ARTIFACT, str(artifact), artifact.created_at, details)


def message_node(message: Message) -> Node:
    words = " ".join(words_of(message.parts).split())[:MAX_TEXT_LENGTH]
    details = {
        "messageId": message.message_id,
        "sessionId": str(message.context_id),
        "index": message.index,
        "role": message.role,
        "text": words,
    }
    return Node(f"message:{message.pk}", NodeKind.MESSAGE, words or "Without words", message.created_at, details)


def agent_version_node(task: Task, run: JSON) -> Node:
    """The agent version that took a turn of a task: of the task's agent, or of a fallback."""
    slug, name = run["agent__slug"] or task.agent.slug, run["agent__name"] or task.agent.name
    kept = run["input__agent"] or {}
    number = kept.get("number")
    details = {"agent": slug, "name": name, "version": number, "sha256": kept.get("sha256")}
    key, called = (f"agent:{slug}@{number}", f"{name}, version {number}") if number else (f"agent:{slug}", name)
    return Node(key, NodeKind.AGENT_VERSION, called, details=details)


def person_node(principal: Principal) -> Node:
    name = principal.name or "Somebody"
    return Node("person:owner", NodeKind.PERSON, name, details={"name": name})


def content_digest(part: JSON) -> str:
    """SHA-256 of a part's content; of JSON, of its canonical form (RFC 8785); "" for a link."""
    if "url" in part:
        return ""
    if "stored" in part:
        return str(part["stored"]["sha256"])
    return digest_of(part["data"]) if "data" in part else hashlib.sha256(blobs.content_of(part)).hexdigest()


def content_digests(parts: list[JSON]) -> set[str]:
    return {content_digest(part) for part in pieces_joined(parts)} - {""}


def file_nodes(message: Message) -> Iterator[Node]:
    for number, part in enumerate(message.parts):
        if not (is_file(part) or "data" in part or (size_of(part) or 0) > FILE_TEXT_BYTES):
            continue
        media_type = declared_media_type(part)
        about: JSON = {
            "sha256": content_digest(part) or None,
            "name": part.get("filename", ""),
            "mediaType": media_type,
            "size": size_of(part),
            "messageId": str(message.pk),
            "sessionId": str(message.context_id),
            "index": message.index,
        }
        if "url" in part:
            about["url"] = part["url"]
        called = about["name"] or media_type or "A link"
        yield Node(f"file:{message.pk}/{number}", NodeKind.FILE, called, message.created_at, about)
