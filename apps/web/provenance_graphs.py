"""What led to an artifact, as a picture: from what people gave, at the left, by tasks, to the artifact at the right.

It leaves out what would only fill it: agents' words, what tasks said to tasks, and the versions of agents, which are in
the list below it. What was passed on from one task to another is drawn as a link from where it came from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.template.defaultfilters import filesizeformat
from django.urls import reverse

from apps.features.provenance.graphs import Kind, Link, Node, Provenance
from apps.web.layered import curve, lay_out
from apps.web.templatetags.parley import state_look, state_word

MOST_BOXES = 300

SIGNS = {Kind.ARTIFACT: "seal", Kind.FILE: "file", Kind.MESSAGE: "person", Kind.UNAVAILABLE: "none"}
WORDS = {
    Link.DELIVERED_BY: "delivered",
    Link.ASKED_IN: "asked for",
    Link.GIVEN: "was given to",
    Link.REFERS_TO: "is referred to by",
    Link.CONTINUES: "goes on in",
    Link.CALLED_FOR_BY: "called for",
    Link.RECEIVED: "was handed to",
}
"""What one node did to the other, from the earlier one to the later; other links are not drawn."""

MADE = (Kind.ARTIFACT, Kind.TASK, Kind.UNAVAILABLE)


@dataclass(slots=True, eq=False)
class Box:
    """A node in the picture: `about` is its second line, `sign` the icon there."""

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
    kind: Link

    @property
    def path(self) -> str:
        return curve(self.begins, self.ends)

    @property
    def word(self) -> str:
        return WORDS[self.kind]

    @property
    def is_reference(self) -> bool:
        """Did nothing go along it?"""
        return self.kind != Link.DELIVERED_BY and self.begins.node.kind in (Kind.TASK, Kind.UNAVAILABLE)


@dataclass(slots=True)
class Picture:
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    width: int = 0
    height: int = 0
    is_cut_off: bool = False


def drawn(graph: Provenance) -> Picture:
    """The picture of at most MOST_BOXES nodes, those that are nearest to the artifact."""
    sources = _followed({one.later: one.earlier for one in graph.edges if one.kind == Link.CAME_FROM})
    said_by_people = {one.later for one in graph.edges if one.kind == Link.SAID_BY}
    shown = [node for node in graph.nodes if _is_shown(node, said_by_people, sources)]
    versions = _versions(graph)
    boxes = {node.id: _box(node, versions[node.id], is_here=node.id == graph.artifact) for node in shown[:MOST_BOXES]}
    lines = _forward(list(_lines(graph, boxes, sources)))
    width, height = lay_out(list(boxes.values()), [(line.begins, line.ends) for line in lines], late=True)
    return Picture(list(boxes.values()), lines, width, height, graph.truncated or len(shown) > MOST_BOXES)


def address_of(node: Node) -> str:
    """Where one sees it; "" where there is nothing to be seen."""
    about = node.details
    match node.kind:
        case Kind.TASK:
            return reverse("web:task", args=[about["taskId"]])
        case Kind.ARTIFACT:
            return reverse("web:artifact-provenance", args=[about["sessionId"], about["taskId"], about["artifactId"]])
        case Kind.MESSAGE | Kind.FILE:
            return f"{reverse('web:session', args=[about['sessionId']])}#m-{about['index']}"
        case _:
            return ""


def said_of(node: Node) -> str:
    """What it is, in a few words."""
    about = node.details
    match node.kind:
        case Kind.TASK:
            return state_word(about["state"])
        case Kind.ARTIFACT:
            return f"Artifact · {filesizeformat(about['size'])}"
        case Kind.FILE:
            return " · ".join(filter(None, [about["mediaType"], about["size"] and filesizeformat(about["size"])]))
        case Kind.MESSAGE:
            return "Message" if about["role"] == "user" else "Answer"
        case Kind.AGENT_VERSION:
            return "Agent"
        case Kind.PERSON:
            return "Person"
        case Kind.UNAVAILABLE:
            return "Deleted, or not yours"


def _box(node: Node, versions: list[int], *, is_here: bool) -> Box:
    sign = state_look(node.details["state"]) if node.kind == Kind.TASK else SIGNS[node.kind]
    by = [f"version {number}" for number in versions[-1:]]
    return Box(node, " · ".join([said_of(node), *by]), sign, "" if is_here else address_of(node), is_here)


def _versions(graph: Provenance) -> dict[str, list[int]]:
    """The versions of its own agent by which each task was carried out, by its node."""
    nodes, found = {node.id: node for node in graph.nodes}, defaultdict[str, list[int]](list)
    for edge in graph.edges:
        if edge.kind == Link.CARRIED_OUT_BY:
            by, task = nodes[edge.earlier].details, nodes[edge.later].details
            if by["version"] and by["agent"] == task["agent"]:
                found[edge.later].append(by["version"])
    return found


def _followed(sources: dict[str, str]) -> dict[str, str]:
    """By each file that came from something, where it came from in the end."""
    ends = {}
    for file, source in sources.items():
        passed = {file}
        while source in sources and source not in passed:
            passed.add(source)
            source = sources[source]
        ends[file] = source
    return ends


def _is_shown(node: Node, said_by_people: set[str], sources: Mapping[str, str]) -> bool:
    if node.kind == Kind.MESSAGE:
        return node.id in said_by_people
    return node.kind not in (Kind.PERSON, Kind.AGENT_VERSION) and node.id not in sources


def _lines(graph: Provenance, boxes: Mapping[str, Box], sources: Mapping[str, str]) -> Iterable[Line]:
    """Once between two boxes, and not from task to task where what the one made goes to the other."""
    makers = {one.later: one.earlier for one in graph.edges if one.kind == Link.DELIVERED_BY and one.later in boxes}
    carried = {(makers[one.earlier], one.later) for one in graph.edges if one.earlier in makers}
    done = set()
    for edge in graph.edges:
        begins = sources.get(edge.earlier, edge.earlier)
        pair = (begins, edge.later)
        if edge.kind not in WORDS or pair in done or begins not in boxes or edge.later not in boxes:
            continue
        if edge.kind in (Link.REFERS_TO, Link.CONTINUES) and pair in carried:
            continue
        done.add(pair)
        yield Line(boxes[begins], boxes[edge.later], edge.kind)


def _forward(lines: list[Line]) -> list[Line]:
    """Without the calls of what leads back to the task that called for it: the picture goes from left to right.

    And without those of tasks that go on from others, as long as there is one that does not to say who called for them.
    """
    calls = [line for line in lines if line.kind == Link.CALLED_FOR_BY]
    flow = [line for line in lines if line.kind != Link.CALLED_FOR_BY]
    incoming: dict[Box, list[Box]] = defaultdict(list)
    for line in flow:
        incoming[line.ends].append(line.begins)
    before = {caller: _leading_to(caller, incoming) for caller in {line.begins for line in calls}}
    calls = [line for line in calls if line.ends not in before[line.begins]]
    first = [line for line in calls if not any(one.node.kind in MADE for one in incoming[line.ends])]
    named = {line.begins for line in first}
    return flow + first + [line for line in calls if line.begins not in named]


def _leading_to(box: Box, incoming: Mapping[Box, list[Box]]) -> set[Box]:
    found, ahead = {box}, [box]
    while ahead:
        for one in incoming.get(ahead.pop(), ()):
            if one not in found:
                found.add(one)
                ahead.append(one)
    return found
