"""A page that says what led to an artifact: as a picture, as lists, and as JSON."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.features.provenance.graphs import Kind, Link, Node, Provenance
from apps.features.provenance.walking import provenance_of
from apps.record import prose
from apps.web.downloads import artifact_of, context_of
from apps.web.principals import principal_of
from apps.web.provenance_graphs import MOST_BOXES, address_of, drawn, said_of
from apps.web.shell import page

MOST_LINKS = 1_000  # in the list; the JSON has them all
LONGEST_SHOWN = 20_000  # characters of JSON in the page; all of it is a link away

CAPTIONS = {
    Kind.ARTIFACT: "Artifacts",
    Kind.FILE: "What was given",
    Kind.TASK: "Tasks",
    Kind.AGENT_VERSION: "Agents, by version",
    Kind.MESSAGE: "Messages",
    Kind.UNAVAILABLE: "Not available any more",
}
SAID = {
    Link.DELIVERED_BY: "was delivered by",
    Link.CARRIED_OUT_BY: "was carried out by",
    Link.ASKED_IN: "was asked for in",
    Link.ANSWERED_IN: "was said in",
    Link.SAID_BY: "was said by",
    Link.SENT_BY: "was sent by",
    Link.GIVEN: "was given",
    Link.CAME_FROM: "came from",
    Link.REFERS_TO: "refers to",
    Link.CONTINUES: "goes on from",
    Link.CALLED_FOR_BY: "was called for by",
    Link.RECEIVED: "received",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A node in a list."""

    node: Node
    about: str
    href: str


@require_safe
@login_required
def artifact_provenance(request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str) -> HttpResponse:
    """The page; with `?json` the JSON alone. Somebody else's artifact is not found."""
    context = context_of(request, session)
    row = artifact_of(context, task, artifact)
    graph = provenance_of(principal_of(request), row)
    text = prose.json_text(graph.json)
    if "json" in request.GET:
        return HttpResponse(text, content_type="application/json; charset=utf-8")
    is_cut = len(text) > LONGEST_SHOWN
    about = {
        "context": context,
        "artifact": row,
        "picture": drawn(graph),
        "most_boxes": MOST_BOXES,
        "is_truncated": graph.truncated,
        "lists": _lists(graph),
        "links": _links(graph),
        "links_in_all": len(graph.edges),
        "shown": [("", text[:LONGEST_SHOWN] + "\n…" if is_cut else text)],
        "is_cut": is_cut,
        "whole": reverse("web:artifact-provenance", args=[session, task, artifact]) + "?json",
    }
    return page(request, "web/provenance.html", **about)


def _lists(graph: Provenance) -> list[tuple[str, list[Row]]]:
    found = {caption: [_row(node) for node in graph.nodes if node.kind == kind] for kind, caption in CAPTIONS.items()}
    return [(caption, rows) for caption, rows in found.items() if rows]


def _links(graph: Provenance) -> list[tuple[Row, str, Row]]:
    rows = {node.id: _row(node) for node in graph.nodes}
    return [(rows[edge.later], SAID[edge.kind], rows[edge.earlier]) for edge in graph.edges[:MOST_LINKS]]


def _row(node: Node) -> Row:
    return Row(node, said_of(node), address_of(node))
