"""The page of a passage, where citations lead."""

from __future__ import annotations

import re
from urllib.parse import quote

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.optional.knowledge.models import AgentCollection, Passage, Source
from apps.web.shell import page, principal_of, reader_view

AROUND = 3  # passages before and after the one that is shown
REF = re.compile(r"[0-9a-f]{10}")


@reader_view
def passage(request: HttpRequest, ref: str) -> HttpResponse:
    """A passage in its source's text; alone for those whom an agent may tell it, but who do not see its collection.

    Models change links a little: what is around the reference does not matter.
    """
    principal = principal_of(request)
    named = REF.search(ref.lower())
    rows = Passage.objects.select_related("source", "collection").filter(ref=named[0] if named else "")
    seen = rows.visible_to(principal).first()
    told = seen or rows.filter(_told_by_agents(principal)).first()
    if told is None:
        return HttpResponse(page(request, "knowledge/gone.html").content, status=404)
    if seen is None:
        return page(request, "knowledge/passage.html", passage=told)
    near = Passage.objects.filter(source=seen.source, index__range=(seen.index - AROUND, seen.index + AROUND))
    about = {"source": seen.source, "near": list(near.order_by("index")), "link": _link(seen)}
    return page(request, "knowledge/passage.html", passage=seen, **about)


def _told_by_agents(principal: Principal) -> Q:
    given = AgentCollection.objects.filter(is_for_callers=True, agent__in=Agent.objects.visible_to(principal))
    return Q(collection__in=given.values("collection"))


def _link(passage: Passage) -> str:
    """The end of the source's address that opens the passage: a page of a PDF, or a text fragment of a web page."""
    if passage.source.kind == Source.Kind.FILE:
        return f"#page={passage.page}" if passage.page else ""
    words = passage.text.split()
    ends = [" ".join(words[:6])] + ([" ".join(words[-6:])] if len(words) > 12 else [])
    return "#:~:text=" + ",".join(quote(one, safe="").replace("-", "%2D") for one in ends)
