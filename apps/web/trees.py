"""Where a conversation went on differently: the switcher at each message where ways part, and the tree as a picture.

In the picture every session is a line, as long as its log; a fork's line leaves its parent's where the fork begins.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from apps.features.forks import branch_points, branches
from apps.record.errors import ContextNotFound
from apps.record.models import Context, Task
from apps.web.principals import principal_of
from apps.web.shell import page

JSON = dict[str, Any]

ROW, PICTURE, INSET = 56, 96, 12  # pixels: the height of a line's row, the width of the lines, the room beside them
LONGEST = 80  # characters of a title in the picture
REASONS = {
    "edit": "another message",
    "retry": "another answer",
    "agent": "with another agent",
    "fork": "a fork",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A session in the picture; lengths in pixels. `parent` is the row of the line that it leaves, if there is one."""

    node: branches.Node
    state: str | None
    is_here: bool
    row: int
    begins: int
    ends: int
    parent: Line | None

    @property
    def context(self) -> Context:
        return self.node.context

    @property
    def href(self) -> str:
        return "" if self.node.is_gap else reverse("web:session", args=[self.context.pk])

    @property
    def title(self) -> str:
        return "A session that was deleted" if self.node.is_gap else str(self.context)

    @property
    def short_title(self) -> str:
        return self.title if len(self.title) <= LONGEST else self.title[:LONGEST] + "…"

    @property
    def reason(self) -> str:
        return REASONS.get(self.context.fork_reason, "") if self.context.forked_at is not None else "where it began"

    @property
    def top(self) -> int:
        return self.row * ROW

    @property
    def middle(self) -> int:
        return self.top + ROW // 2

    @property
    def edge(self) -> str:
        """The way from the parent's line to the line's beginning."""
        if self.parent is None:
            return ""
        bend = min(8, ROW // 2)
        return f"M{self.begins} {self.parent.middle}V{self.middle - bend}q0 {bend} {bend} {bend}"


@require_safe
@login_required
def tree(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The tree that a session is in: a page, or what a dialog shows of it. Somebody else's session is not found."""
    try:
        found = branches.tree(principal_of(request), session)
    except ContextNotFound:
        raise Http404 from None
    lines = drawn(found, session)
    here = next(line for line in lines if line.is_here)
    known = {"lines": lines, "here": here, "height": len(lines) * ROW, "text_at": PICTURE + 2 * INSET + 24}
    if request.headers.get("HX-Request"):
        response = render(request, "web/_tree.html", known)
    else:
        response = page(request, "web/tree.html", session=here.context, **known)
    patch_vary_headers(response, ["HX-Request"])
    return response


@require_safe
@login_required
def ways(request: HttpRequest, session: uuid.UUID) -> JsonResponse:
    """Where a session's ways part by now: a fork that is made elsewhere says nothing in the session's own log."""
    context = Context.objects.visible_to(principal_of(request)).filter(pk=session).first()
    if context is None:
        raise Http404
    return JsonResponse(branches_json(context))


def branches_json(context: Context) -> JSON:
    """By the index of the message at which ways part: which of them this is, and where they lead."""
    return {
        str(one.index): {
            "place": one.place,
            "ways": [f"{reverse('web:session', args=[way.session])}#m-{way.opening}" for way in one.ways],
        }
        for one in branch_points.of(context)
    }


def drawn(tree: branches.Tree, here: uuid.UUID) -> list[Line]:
    """The lines of a tree, one below the other, all to one scale."""
    newest = Task.objects.filter(context=OuterRef("pk")).order_by("-created_at", "-pk")
    members = Context.objects.filter(pk__in=[node.context.pk for node in tree.nodes])
    states = dict(members.annotate(state=Subquery(newest.values("state")[:1])).values_list("pk", "state"))
    longest = max(node.context.last_event for node in tree.nodes) or 1
    lines: dict[uuid.UUID, Line] = {}
    for row, node in enumerate(tree.nodes):
        context = node.context
        parent = lines.get(context.parent_id) if context.parent_id else None
        begins, ends = (INSET + PICTURE * at // longest for at in (context.forked_at or 0, context.last_event))
        state = None if node.is_gap else states.get(context.pk)
        lines[context.pk] = Line(node, state, context.pk == here, row, begins, max(ends, begins + 16), parent)
    return list(lines.values())
