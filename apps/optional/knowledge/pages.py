"""People's pages of collections, and the page of a passage, where citations lead."""

from __future__ import annotations

import base64
import re
import uuid
from typing import Any
from urllib.parse import quote

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import path
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.agents.models import Agent
from apps.conversations.pages.artifacts import part_response
from apps.conversations.pages.session.sending import guessed_media_type, refuse_too_large
from apps.optional.knowledge import collections, finding, sources
from apps.optional.knowledge.collections import COLLECTIONS
from apps.optional.knowledge.finding import Asking
from apps.optional.knowledge.models import AgentCollection, Collection, Passage, Source
from apps.record.content import parts
from apps.record.errors import Refusal
from apps.record.projects import find_project
from apps.web.resources import Pages, ResourceForm, do, words_of
from apps.web.shell import agent_or_404, page, principal_of, reader_view
from parley import db

MOST_SOURCES_SHOWN = 1_000
MOST_CHOICES = 200
MOST_FOUND = 10
AROUND = 3  # passages before and after the one that is shown
REF = re.compile(r"[0-9a-f]{10}")
DAYS = (("", "Never"), ("24", "Every day"), ("168", "Every week"))


class CollectionForm(ResourceForm):
    class Meta(ResourceForm.Meta):
        model = Collection
        fields = ("name", "description", "project")
        widgets = {"description": forms.Textarea({"rows": 3})}

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(user, *data, **options)
        found = find_project(user.principal, self.instance.project) if self.instance.project else None
        if found is None:  # a project's page leads here for one
            del self.fields["project"]
        else:
            help_text = self.fields["project"].help_text
            choices = [(str(found.key), found.name), ("", "No project")]
            self.fields["project"] = forms.TypedChoiceField(
                choices=choices, coerce=uuid.UUID, empty_value=None, required=False, help_text=help_text
            )


def _new(request: HttpRequest) -> Collection:
    try:
        return Collection(project=uuid.UUID(request.GET.get("project", "")))
    except ValueError:
        return Collection()


def _context(request: HttpRequest, collection: Collection) -> dict[str, Any]:
    principal = principal_of(request)
    given = AgentCollection.objects.filter(collection=collection, agent__in=Agent.objects.visible_to(principal))
    return {
        "acts": [act for act in COLLECTIONS.acts if act.is_offered(collection) and collection.is_run_by(principal)],
        "is_own": collection.owner_id == principal.user_id,
        "project": find_project(principal, collection.project) if collection.project else None,
        "given": list(given.select_related("agent").order_by("agent__name")),
        **_sources(principal, collection),
    }


def _sources(principal: Principal, collection: Collection) -> dict[str, Any]:
    may_write = principal.can(Permission.SEND) and collection.is_edited_by(principal)
    rows = list(sources.SOURCES.visible_to(principal).filter(collection=collection)[:MOST_SOURCES_SHOWN])
    return {
        "sources": rows,
        "is_reading": any(one.state == Source.State.WAITING for one in rows),
        "is_edited": may_write and not collection.has_project_files,
        "may_read_again": may_write,
        "days": DAYS,
    }


PAGES = Pages(COLLECTIONS, CollectionForm, new=_new, context=_context, place="knowledge")


@require_safe
@login_required
async def search(request: HttpRequest, collection: uuid.UUID) -> HttpResponse:
    """What `?q=` finds in a collection: its page, or for htmx the passages alone."""
    await request.auser()
    row = await db.run(lambda: COLLECTIONS.find(principal_of(request), collection))
    words = request.GET.get("q", "").replace("\x00", "").strip()
    about: dict[str, Any] = {"words": words[: finding.MAX_QUERY_LENGTH]}
    try:
        asking = await db.run(lambda: Asking(principal_of(request), collections=(row.pk,)))
        about["found"] = await finding.search(asking, words, MOST_FOUND) if words else None
    except Refusal as refusal:
        about["problem"] = words_of(refusal)
    return await db.run(_found, request, row, about)


def _found(request: HttpRequest, row: Collection, about: dict[str, Any]) -> HttpResponse:
    if "HX-Request" in request.headers:
        return render(request, "knowledge/_found.html", about)
    return PAGES.show(request, row, **about)


@reader_view
def read_sources(request: HttpRequest, collection: uuid.UUID) -> HttpResponse:
    """The list of sources, while some are being read."""
    row, principal = COLLECTIONS.find(principal_of(request), collection), principal_of(request)
    return render(request, "knowledge/_sources.html", {"row": row, **_sources(principal, row)})


@require_POST
@login_required
def add_files(request: HttpRequest, collection: uuid.UUID) -> HttpResponse:
    principal = principal_of(request)
    row = COLLECTIONS.find(principal, collection)
    try:
        refuse_too_large(request)
        chosen = request.FILES.getlist("files")
        for upload in chosen:
            content, name = upload.read(), parts.safe_file_name(upload.name or "")
            labels = parts.media_type_fields(guessed_media_type(name, upload.content_type), content[: parts.HEAD_BYTES])
            raw = base64.b64encode(content).decode()
            sources.add_file(principal, row, {"raw": raw, "filename": name, **labels})
        said = "Choose a file first." if not chosen else f"{len(chosen)} files were added."
        messages.info(request, f"{chosen[0].name} was added." if len(chosen) == 1 else said)
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, words_of(refusal))
    return redirect("web:collection", collection)


@require_POST
@login_required
def add_page(request: HttpRequest, collection: uuid.UUID) -> HttpResponse:
    principal = principal_of(request)
    hours = request.POST.get("watch", "")
    try:
        url = request.POST.get("url", "").strip()[:2000]
        watch = int(hours) if hours in dict(DAYS) and hours else None
        sources.add_page(principal, COLLECTIONS.find(principal, collection), url, watch_hours=watch)
        messages.info(request, "The page is fetched now.")
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, words_of(refusal))
    return redirect("web:collection", collection)


@require_POST
@login_required
def act_on_source(request: HttpRequest, collection: uuid.UUID, source: uuid.UUID) -> HttpResponse:
    act = sources.SOURCES.act(request.POST.get("do", ""))
    if act is None:
        raise Http404
    do(request, act, _source_or_404(request, collection, source))
    return redirect("web:collection", collection)


def _source_or_404(request: HttpRequest, collection: uuid.UUID, source: uuid.UUID) -> Source:
    found = sources.SOURCES.find(principal_of(request), source)
    if found.collection_id != collection:
        raise Http404
    return found


@reader_view
def file(request: HttpRequest, collection: uuid.UUID, source: uuid.UUID) -> HttpResponseBase:
    """What was read. `?look` shows what browsers can show."""
    found = _source_or_404(request, collection, source)
    if not found.part:
        raise Http404
    try:
        return part_response(request, found.part, found.name)
    except FileNotFoundError:
        raise Http404 from None


# Passages


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


# On other pages


def agent_part(request: HttpRequest, agent: Agent) -> SafeString:
    """On the page of an agent: the collections that it searches, of those that the reader sees."""
    if agent.kind == Agent.Kind.PLAN:
        return SafeString()
    principal = principal_of(request)
    given = AgentCollection.objects.visible_to(principal).filter(agent=agent).select_related("collection")
    rows = list(given.order_by("collection__name"))
    choices = _choices(principal, [one.collection_id for one in rows]) if principal.can(Permission.SEND) else []
    if not rows and not choices:
        return SafeString()
    may_change = bool(choices or rows) and collections.may_change(principal, agent)
    edited = {one.pk for one in rows if may_change or one.collection.is_edited_by(principal)}
    about = {"agent": agent, "given": rows, "edited": edited, "choices": choices, "may_change": may_change}
    return render_to_string("knowledge/_agent.html", about, request)


def _choices(principal: Principal, given: list[uuid.UUID]) -> list[Collection]:
    """What the reader can give the agent."""
    others = COLLECTIONS.visible_to(principal).exclude(pk__in=given).order_by("name")[:MOST_CHOICES]
    return [one for one in others if one.is_edited_by(principal)]


@require_POST
@login_required
def give(request: HttpRequest, slug: str) -> HttpResponse:
    """Let an agent search a collection, or with `take` no more."""
    agent, principal = agent_or_404(request, slug), principal_of(request)
    try:
        collection = COLLECTIONS.find(principal, request.POST.get("collection", ""))
        if "take" in request.POST:
            collections.take_back(principal, collection, agent)
        else:
            collections.give(principal, agent, collection, is_for_callers="is_for_callers" in request.POST)
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, words_of(refusal))
    return redirect("web:agent", slug)


def project_part(principal: Principal, project: uuid.UUID) -> SafeString:
    """On the page of a project: whether agents search its files, and what else they search."""
    counted = {
        state: Count("sources", filter=Q(sources__state=state)) for state in (Source.State.WAITING, Source.State.FAILED)
    }
    rows = COLLECTIONS.visible_to(principal).filter(project=project).annotate(**counted).order_by("name")
    about = {"rows": list(rows), "project": project, "may_write": principal.can(Permission.SEND)}
    return render_to_string("knowledge/_project.html", about)


PLACE = "knowledge/<uuid:collection>"
urlpatterns = [
    path("knowledge/passages/<str:ref>", passage, name="passage"),
    path(f"{PLACE}/files", add_files, name="collection-add-files"),
    path(f"{PLACE}/page", add_page, name="collection-add-page"),
    path(f"{PLACE}/search", search, name="collection-search"),
    path(f"{PLACE}/sources", read_sources, name="collection-sources"),
    path(f"{PLACE}/sources/<uuid:source>/act", act_on_source, name="source-act"),
    path(f"{PLACE}/sources/<uuid:source>/file", file, name="source-file"),
    path("agents/<slug:slug>/knowledge", give, name="agent-knowledge"),
    *PAGES.urls(),
]
