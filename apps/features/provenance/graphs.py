"""What led to an artifact, as a graph that says it in W3C PROV's terms.

Nodes are entities, activities and agents of the PROV data model, and each link is one of its relations
(https://www.w3.org/TR/prov-dm/, §2.1). As there, a link goes from what came later to what it came of.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from enum import StrEnum

from apps.record import wire
from apps.record.events import JSON


class Kind(StrEnum):
    """What a node is."""

    ARTIFACT = "artifact"
    TASK = "task"
    MESSAGE = "message"
    FILE = "file"
    AGENT_VERSION = "agent_version"
    PERSON = "person"
    UNAVAILABLE = "unavailable"  # a task that was deleted, or is not the reader's


class Link(StrEnum):
    """How one node came of another; the comments name both ends."""

    DELIVERED_BY = "delivered_by"  # artifact, task
    CARRIED_OUT_BY = "carried_out_by"  # task, the version of an agent
    ASKED_IN = "asked_in"  # task, message to it
    ANSWERED_IN = "answered_in"  # message of the agent's, task
    SAID_BY = "said_by"  # message, person
    SENT_BY = "sent_by"  # message, task that called for another one
    GIVEN = "given"  # task, file
    CAME_FROM = "came_from"  # file, artifact or file with the same content
    REFERS_TO = "refers_to"  # task, task or its artifact
    CONTINUES = "continues"  # task, task before it in the same conversation
    CALLED_FOR_BY = "called_for_by"  # task, task
    RECEIVED = "received"  # task, artifact of a task that it called for


TYPES = {
    Kind.ARTIFACT: "entity",
    Kind.MESSAGE: "entity",
    Kind.FILE: "entity",
    Kind.TASK: "activity",
    Kind.UNAVAILABLE: "activity",
    Kind.AGENT_VERSION: "agent",
    Kind.PERSON: "agent",
}
RELATIONS = {
    Link.DELIVERED_BY: "wasGeneratedBy",
    Link.CARRIED_OUT_BY: "wasAssociatedWith",
    Link.ASKED_IN: "used",
    Link.ANSWERED_IN: "wasGeneratedBy",
    Link.SAID_BY: "wasAttributedTo",
    Link.SENT_BY: "wasGeneratedBy",
    Link.GIVEN: "used",
    Link.CAME_FROM: "wasDerivedFrom",
    Link.REFERS_TO: "wasInformedBy",
    Link.CONTINUES: "wasInformedBy",
    Link.CALLED_FOR_BY: "wasInformedBy",
    Link.RECEIVED: "used",
}

LINKS = 5  # for each node that there may be: where every task of many refers to every other of many, there are millions


@dataclass(frozen=True, slots=True)
class Node:
    """Attributes:
    name: what people call it, in one line.
    at: when it was begun, said or made, where that is known.
    details: what more there is, by its kind.
    """

    id: str
    kind: Kind
    name: str
    at: datetime.datetime | None = None
    details: JSON = field(default_factory=dict)

    @property
    def json(self) -> JSON:
        at = wire.timestamp(self.at) if self.at else None
        said = {"id": self.id, "kind": self.kind.value, "prov": TYPES[self.kind], "name": self.name}
        return {**said, "at": at, "details": self.details}


@dataclass(frozen=True, slots=True)
class Edge:
    """From a node to one that it came of, by their ids."""

    later: str
    earlier: str
    kind: Link
    relation: str
    details: JSON = field(default_factory=dict)

    @property
    def json(self) -> JSON:
        ends = {"from": self.later, "to": self.earlier}
        return {**ends, "kind": self.kind.value, "relation": self.relation, "details": self.details}


@dataclass(slots=True)
class Provenance:
    """What led to the node `artifact`: nodes in the order in which they were found, which is the same every time.

    `truncated`: there is more than `most` nodes, or than LINKS times as many links, and what is nearest is here.
    """

    artifact: str
    most: int
    truncated: bool = False
    _nodes: dict[str, Node] = field(default_factory=dict)
    _edges: dict[tuple[str, str, Link], Edge] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    @property
    def edges(self) -> list[Edge]:
        places = {key: place for place, key in enumerate(self._nodes)}
        return sorted(self._edges.values(), key=lambda one: (places[one.later], places[one.earlier], one.kind))

    @property
    def room(self) -> int:
        """How many more nodes there may be."""
        return self.most - len(self._nodes)

    def has(self, node: str) -> bool:
        return node in self._nodes

    def add(self, node: Node) -> bool:
        """Says whether it is there now: not where there is no room for it any more."""
        if node.id not in self._nodes:
            if self.room <= 0:
                self.truncated = True
                return False
            self._nodes[node.id] = node
        return True

    def link(self, later: str, kind: Link, earlier: str, details: JSON | None = None) -> None:
        """Nothing happens where one of both is not there, or no room for it."""
        if later in self._nodes and earlier in self._nodes and later != earlier:
            if len(self._edges) >= LINKS * self.most and (later, earlier, kind) not in self._edges:
                self.truncated = True
                return
            is_use = kind == Link.REFERS_TO and self._nodes[earlier].kind == Kind.ARTIFACT
            relation = "used" if is_use else RELATIONS[kind]
            self._edges.setdefault((later, earlier, kind), Edge(later, earlier, kind, relation, details or {}))

    @property
    def json(self) -> JSON:
        return {
            "artifact": self.artifact,
            "nodes": [node.json for node in self.nodes],
            "edges": [edge.json for edge in self.edges],
            "truncated": self.truncated,
        }
