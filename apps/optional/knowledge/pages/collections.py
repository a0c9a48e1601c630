"""Pages of collections: their list, one with its files and pages, its form, and searching it."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.agents.models import Agent
from apps.conversations.pages.artifacts import part_response
from apps.conversations.pages.session.sending import add_uploads
from apps.optional.knowledge import finding, sources
from apps.optional.knowledge.collections import COLLECTIONS
from apps.optional.knowledge.finding import Asking
from apps.optional.knowledge.models import AgentCollection, Collection, Source
from apps.record.errors import Refusal
from apps.record.projects import find_project
from apps.web.resources import Pages, ResourceForm, do, words_of
from apps.web.shell import principal_of, reader_view
from parley import db
from parley.db.sql import database_time

MOST_SOURCES_SHOWN = 1_000
MOST_FOUND = 10
DAYS = (("", "Never"), ("24", "Every day"), ("168", "Every week"))


class CollectionForm(ResourceForm):
    class Meta(ResourceForm.Meta):
        model = Collection
        fields = ("name", "description", "project")
        widgets = {"description": forms.Textarea({"rows": 3})}

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(user, *data, **options)
        project, is_new = self.instance.project, self.instance._state.adding
        found = find_project(user.principal, project) if project else None
        if project is None or (found is None and is_new):  # a project's page leads here for one
            del self.fields["project"]
        else:
            help_text = self.fields["project"].help_text
            choices = [(str(project), found.name if found else "A project that you do not see"), ("", "No project")]
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
    found = sources.SOURCES.visible_to(principal).filter(collection=collection).defer("part")
    rows, now = list(found[:MOST_SOURCES_SHOWN]), database_time()
    return {
        "sources": rows,
        "is_reading": any(one.is_read_soon(now) for one in rows),
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
        messages.info(request, add_uploads(request, partial(sources.add_file, principal, row)))
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, words_of(refusal))
    return redirect("web:collection", collection)


@require_POST
@login_required
def add_page(request: HttpRequest, collection: uuid.UUID) -> HttpResponse:
    principal = principal_of(request)
    hours, row = request.POST.get("watch", ""), COLLECTIONS.find(principal, collection)
    try:
        url = request.POST.get("url", "").strip()[:2000]
        watch = int(hours) if hours in dict(DAYS) and hours else None
        sources.add_page(principal, row, url, watch_hours=watch)
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
