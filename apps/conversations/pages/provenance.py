"""What led to an artifact: a picture, lists, and JSON.

The picture goes from people's input at the left, through tasks, to the artifact. It omits agents' messages, messages
between tasks, and agent versions. Content that tasks passed on is drawn from its origin.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.urls import reverse

from apps.conversations.pages.artifacts import artifact_or_404
from apps.conversations.provenance.graph import EdgeKind, Node, NodeKind, Provenance
from apps.conversations.provenance.traversal import provenance_of
from apps.record.content import rendering
from apps.web.shell import page, principal_of, reader_view, session_or_404
from apps.web.templatetags.parley import state_look, state_word
from parley.faces.drawing.layout import Edge, Link, Sizes, draw_edges, lay_out

MOST_LINKS = 1_000  # in the list; the JSON has all

CAPTIONS = {
    NodeKind.ARTIFACT: "Artifacts",
    NodeKind.FILE: "Input files",
    NodeKind.TASK: "Tasks",
    NodeKind.AGENT_VERSION: "Agent versions",
    NodeKind.MESSAGE: "Messages",
    NodeKind.UNAVAILABLE: "No longer available",
}
LINK_SENTENCES = {
    EdgeKind.DELIVERED_BY: "was delivered by",
    EdgeKind.CARRIED_OUT_BY: "was carried out by",
    EdgeKind.ASKED_IN: "was asked for in",
    EdgeKind.ANSWERED_IN: "was said in",
    EdgeKind.SAID_BY: "was said by",
    EdgeKind.SENT_BY: "was sent by",
    EdgeKind.GIVEN: "was given",
    EdgeKind.CAME_FROM: "came from",
    EdgeKind.REFERS_TO: "refers to",
    EdgeKind.CONTINUES: "goes on from",
    EdgeKind.CALLED_FOR_BY: "was called for by",
    EdgeKind.RECEIVED: "received",
}


@dataclass(frozen=True, slots=True)
class Row:
    node: Node
    about: str
    href: str


@reader_view
def artifact_provenance(request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str) -> HttpResponse:
    """The page; with `?json` only the JSON."""
    context = session_or_404(request, session)
    row = artifact_or_404(context, task, artifact, is_delivered=True)
    graph = provenance_of(principal_of(request), row)
    text = rendering.json_text(graph.json)
    if "json" in request.GET:
        return HttpResponse(text, content_type="application/json; charset=utf-8")
    about = {
        "context": context,
        "artifact": row,
        "picture": provenance_picture(graph),
        "most_boxes": MOST_BOXES,
        "is_truncated": graph.truncated,
        "lists": _lists(graph),
        "links": _links(graph),
        "links_in_all": len(graph.edges),
        "shown": [("", text)],
        "whole": reverse("web:artifact-provenance", args=[session, task, artifact]) + "?json",
    }
    return page(request, "conversations/provenance.html", **about)


def _lists(graph: Provenance) -> list[tuple[str, list[Row]]]:
    found = {caption: [_row(node) for node in graph.nodes if node.kind == kind] for kind, caption in CAPTIONS.items()}
    return [(caption, rows) for caption, rows in found.items() if rows]


def _links(graph: Provenance) -> list[tuple[Row, str, Row]]:
    rows = {node.id: _row(node) for node in graph.nodes}
    return [(rows[edge.later], LINK_SENTENCES[edge.kind], rows[edge.earlier]) for edge in graph.edges[:MOST_LINKS]]


def _row(node: Node) -> Row:
    return Row(node, node_label(node), node_url(node))


MOST_BOXES = 300

NODE_ICONS = {
    NodeKind.ARTIFACT: "seal",
    NodeKind.FILE: "file",
    NodeKind.MESSAGE: "person",
    NodeKind.UNAVAILABLE: "none",
}
LINK_LABELS = {
    EdgeKind.DELIVERED_BY: "delivered",
    EdgeKind.ASKED_IN: "asked for",
    EdgeKind.GIVEN: "was given to",
    EdgeKind.REFERS_TO: "is referenced by",
    EdgeKind.CONTINUES: "continues in",
    EdgeKind.CALLED_FOR_BY: "started",
    EdgeKind.RECEIVED: "was handed to",
}
"""What one node did to the other, from the earlier one to the later; other links are not drawn."""

PRODUCED_KINDS = (NodeKind.ARTIFACT, NodeKind.TASK, NodeKind.UNAVAILABLE)


@dataclass(slots=True, eq=False)
class Box:
    """A node in the picture: `about` is the second line, `sign` the icon."""

    node: Node
    about: str
    sign: str
    href: str
    is_here: bool = False
    x: int = 0
    y: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    begins: Box
    ends: Box
    kind: EdgeKind

    @property
    def word(self) -> str:
        return LINK_LABELS[self.kind]

    @property
    def is_reference(self) -> bool:
        """Whether nothing was passed on."""
        return self.kind != EdgeKind.DELIVERED_BY and self.begins.node.kind in (NodeKind.TASK, NodeKind.UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class Picture:
    boxes: list[Box]
    lines: list[Line]
    edges: list[Edge]
    width: int
    height: int
    is_cut_off: bool


def provenance_picture(graph: Provenance) -> Picture:
    """At most MOST_BOXES nodes, the nearest to the artifact."""
    sources = _origins({one.later: one.earlier for one in graph.edges if one.kind == EdgeKind.CAME_FROM})
    said_by_people = {one.later for one in graph.edges if one.kind == EdgeKind.SAID_BY}
    shown = [node for node in graph.nodes if _is_shown(node, said_by_people, sources)]
    versions = _versions(graph)
    boxes = {node.id: _box(node, versions[node.id], is_here=node.id == graph.artifact) for node in shown[:MOST_BOXES]}
    lines = _left_to_right(list(_lines(graph, boxes, sources)))
    links = {(line.begins.node.id, line.ends.node.id): Link(line.word, line.is_reference) for line in lines}
    depends_on: dict[str, list[str]] = {key: [] for key in boxes}
    for earlier, later in links:
        depends_on[later].append(earlier)
    layout = lay_out(depends_on, Sizes())
    for key, box in boxes.items():
        box.x, box.y = layout.places[key]
    edges, is_cut_off = list(draw_edges(layout, links)), graph.truncated or len(shown) > MOST_BOXES
    return Picture(list(boxes.values()), lines, edges, layout.width, layout.height, is_cut_off)


def node_url(node: Node) -> str:
    """The node's page; "" without one."""
    about = node.details
    match node.kind:
        case NodeKind.TASK:
            return reverse("web:task", args=[about["taskId"]])
        case NodeKind.ARTIFACT:
            return reverse("web:artifact-provenance", args=[about["sessionId"], about["taskId"], about["artifactId"]])
        case NodeKind.MESSAGE | NodeKind.FILE:
            return f"{reverse('web:session', args=[about['sessionId']])}#m-{about['index']}"
        case _:
            return ""


def node_label(node: Node) -> str:
    about = node.details
    match node.kind:
        case NodeKind.TASK:
            return state_word(about["state"])
        case NodeKind.ARTIFACT:
            return f"Artifact · {filesizeformat(about['size'])}"
        case NodeKind.FILE:
            return " · ".join(filter(None, [about["mediaType"], about["size"] and filesizeformat(about["size"])]))
        case NodeKind.MESSAGE:
            return "Message" if about["role"] == "user" else "Answer"
        case NodeKind.AGENT_VERSION:
            return "Agent"
        case NodeKind.PERSON:
            return "Person"
        case NodeKind.UNAVAILABLE:
            return "Deleted, or not yours"


def _box(node: Node, versions: list[int], *, is_here: bool) -> Box:
    sign = state_look(node.details["state"]) if node.kind == NodeKind.TASK else NODE_ICONS[node.kind]
    by = [f"version {number}" for number in versions[-1:]]
    return Box(node, " · ".join([node_label(node), *by]), sign, "" if is_here else node_url(node), is_here)


def _versions(graph: Provenance) -> dict[str, list[int]]:
    """By task node: versions of its own agent that worked on it."""
    nodes, found = {node.id: node for node in graph.nodes}, defaultdict[str, list[int]](list)
    for edge in graph.edges:
        if edge.kind == EdgeKind.CARRIED_OUT_BY:
            by, task = nodes[edge.earlier].details, nodes[edge.later].details
            if by["version"] and by["agent"] == task["agent"]:
                found[edge.later].append(by["version"])
    return found


def _origins(sources: dict[str, str]) -> dict[str, str]:
    """The first source of each file that has one."""
    ends = {}
    for file, source in sources.items():
        passed = {file}
        while source in sources and source not in passed:
            passed.add(source)
            source = sources[source]
        ends[file] = source
    return ends


def _is_shown(node: Node, said_by_people: set[str], sources: Mapping[str, str]) -> bool:
    if node.kind == NodeKind.MESSAGE:
        return node.id in said_by_people
    return node.kind not in (NodeKind.PERSON, NodeKind.AGENT_VERSION) and node.id not in sources


def _lines(graph: Provenance, boxes: Mapping[str, Box], sources: Mapping[str, str]) -> Iterable[Line]:
    """One line between two boxes; none between tasks if an artifact links them."""
    makers = {one.later: one.earlier for one in graph.edges if one.kind == EdgeKind.DELIVERED_BY and one.later in boxes}
    carried = {(makers[one.earlier], one.later) for one in graph.edges if one.earlier in makers}
    done = set()
    for edge in graph.edges:
        begins = sources.get(edge.earlier, edge.earlier)
        pair = (begins, edge.later)
        if edge.kind not in LINK_LABELS or pair in done or begins not in boxes or edge.later not in boxes:
            continue
        if edge.kind in (EdgeKind.REFERS_TO, EdgeKind.CONTINUES) and pair in carried:
            continue
        done.add(pair)
        yield Line(boxes[begins], boxes[edge.later], edge.kind)


def _left_to_right(lines: list[Line]) -> list[Line]:
    """Omit calls back to the calling task: the picture goes from left to right.

    Also omits calls of tasks that continue others, if their caller has another call.
    """
    calls = [line for line in lines if line.kind == EdgeKind.CALLED_FOR_BY]
    flow = [line for line in lines if line.kind != EdgeKind.CALLED_FOR_BY]
    incoming: dict[Box, list[Box]] = defaultdict(list)
    for line in flow:
        incoming[line.ends].append(line.begins)
    before = {caller: _ancestors(caller, incoming) for caller in {line.begins for line in calls}}
    calls = [line for line in calls if line.ends not in before[line.begins]]
    first = [line for line in calls if not any(one.node.kind in PRODUCED_KINDS for one in incoming[line.ends])]
    named = {line.begins for line in first}
    return flow + first + [line for line in calls if line.begins not in named]


def _ancestors(box: Box, incoming: Mapping[Box, list[Box]]) -> set[Box]:
    found, ahead = {box}, [box]
    while ahead:
        for one in incoming.get(ahead.pop(), ()):
            if one not in found:
                found.add(one)
                ahead.append(one)
    return found
