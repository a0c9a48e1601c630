"""The person's data: export, and deleting the account; importing is in `imports`."""

from __future__ import annotations

import uuid
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

import db
from apps.accounts.models import User
from apps.accounts.quotas import QuotaExceeded, count_act
from apps.agents.search import find_agents
from apps.features.sessions.holds import UnderLegalHold
from apps.record.errors import Refusal
from apps.transfers import exports
from apps.transfers.archive import sessions_of
from apps.transfers.formats import FORMATS
from apps.transfers.jobs import publish_export
from apps.transfers.models import Export
from apps.web.agents import last_used
from apps.web.home import chosen_agent
from apps.web.settings.account import PasswordForm
from apps.web.settings.erasure import LastOperator, erase_account
from apps.web.settings.imports import ImportForm
from apps.web.settings.sections import person_of, private_view, settings_page
from apps.web.shell import principal_of, reader_view


class DeleteForm(PasswordForm):
    email = forms.EmailField(
        label="Type your e-mail address",
        widget=forms.EmailInput({"autocomplete": "off", "autocapitalize": "none"}),
    )

    field_order = ["email", "current_password"]

    def clean_email(self) -> str:
        address = str(self.cleaned_data["email"]).strip().lower()
        if address != self.person.email.lower():
            raise ValidationError("This is not the e-mail address of your account.")
        return address


@private_view
def my_data(request: HttpRequest) -> HttpResponse:
    return _data_page(request, DeleteForm(person_of(request)))


def _data_page(request: HttpRequest, form: DeleteForm) -> HttpResponse:
    own = sessions_of(form.person)
    about: dict[str, Any] = {"session_count": own.count(), "email": form.person.email, **_shown_exports(form.person)}
    principal = principal_of(request)
    used = last_used(principal)
    preset = {"agent": chosen_agent(find_agents(principal, last_used=used), used)}
    about |= {"imports": ImportForm(principal, initial=preset), "formats": FORMATS}
    return settings_page(request, "data", form, form=form, **about)


@private_view
def export(request: HttpRequest) -> HttpResponseBase:
    """Start an archive of the person's data."""
    if request.method == "POST":
        principal = person_of(request).principal
        try:
            count_act(principal)
            exports.start(principal)
            publish_export()
        except (Refusal, QuotaExceeded) as refusal:
            messages.error(request, str(refusal))
    return redirect("web:settings-data")


def _shown_exports(person: User) -> dict[str, Any]:
    rows = list(Export.objects.visible_to(person.principal).order_by("-created_at"))
    return {"exports": rows, "is_exporting": any(not one.is_finished for one in rows)}


@reader_view
def exports_status(request: HttpRequest) -> HttpResponse:
    return render(request, "web/_exports.html", _shown_exports(person_of(request)))


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


@private_view
def delete_export(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    if request.method == "POST":
        exports.delete(exports.find(person_of(request).principal, key))
    return redirect("web:settings-data")


@private_view
def delete_account(request: HttpRequest) -> HttpResponse:
    """Deletes the account; then a page says so. It forgets what this browser keeps, as after signing out."""
    form = DeleteForm(person_of(request), request.POST if request.method == "POST" else None)
    if request.method != "POST":
        return redirect("web:settings-data")
    if not form.is_valid():
        return _data_page(request, form)
    try:
        erase_account(form.person)
    except (LastOperator, UnderLegalHold) as refusal:
        form.add_error(None, str(refusal))
        return _data_page(request, form)
    logout(request)
    return render(request, "web/settings_deleted.html")
