"""Exports of the person's data; importing is in `imports`."""

from __future__ import annotations

import uuid
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import path
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.accounts.requests.quotas import QuotaExceeded, count_act
from apps.agents.pages.agents import last_used
from apps.agents.search import find_agents
from apps.conversations.pages.home import chosen_agent
from apps.optional.transfers import exports
from apps.optional.transfers.archive import sessions_of
from apps.optional.transfers.exports import DELETE, EXPORTS
from apps.optional.transfers.formats import FORMATS
from apps.optional.transfers.pages.imports import ImportForm
from apps.record.errors import Refusal
from apps.web.settings.sections import act_view, person_of, private_view
from apps.web.shell import principal_of, reader_view
from parley import db


def part(request: HttpRequest) -> str:
    """Exports and imports, on the page of the person's data, as HTML."""
    person, principal = person_of(request), principal_of(request)
    used = last_used(principal)
    preset = {"agent": chosen_agent(find_agents(principal, last_used=used), used)}
    about = {"imports": ImportForm(principal, initial=preset), "formats": FORMATS, **_shown_exports(person)}
    return render_to_string("transfers/_data.html", {"session_count": sessions_of(person).count(), **about}, request)


@private_view
def export(request: HttpRequest) -> HttpResponseBase:
    """Start an archive of the person's data."""
    if request.method == "POST":
        principal = person_of(request).principal
        try:
            count_act(principal)
            exports.EXPORTS_TO_MAKE.publish(exports.start(principal).pk)
        except (Refusal, QuotaExceeded) as refusal:
            messages.error(request, str(refusal))
    return redirect("web:settings-data")


def _shown_exports(person: User) -> dict[str, Any]:
    rows = list(EXPORTS.visible_to(person.principal))
    return {"exports": rows, "is_exporting": any(not one.is_finished for one in rows)}


@reader_view
def exports_status(request: HttpRequest) -> HttpResponse:
    return render(request, "transfers/_exports.html", _shown_exports(person_of(request)))


@require_safe
@login_required
async def export_file(request: HttpRequest, key: uuid.UUID) -> HttpResponseBase:
    """The archive. A download that was cut off can go on."""
    person = cast("User", await request.auser())

    def opened() -> HttpResponseBase:
        principal = person.principal
        return exports.download(principal, exports.find(principal, key), request)

    try:
        return await db.run(opened)
    except exports.NotReady:
        raise Http404 from None


urlpatterns = [
    path("settings/data/export", export, name="settings-export"),
    path("settings/data/exports", exports_status, name="settings-exports"),
    path("settings/data/exports/<uuid:key>/file", export_file, name="settings-export-file"),
    path("settings/data/exports/<uuid:key>/delete", act_view("data", EXPORTS, DELETE), name="settings-export-delete"),
]
