"""The person's data: the export, and deleting the account."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_POST

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.quotas import QuotaExceeded, count_act
from apps.features.sessions.holds import UnderLegalHold
from apps.record.models import Context
from apps.web.settings.account import PasswordForm
from apps.web.settings.erasure import LastOperator, erase_account
from apps.web.settings.export import exported
from apps.web.settings.sections import person_of, private_view, settings_page
from apps.web.shell import principal_of


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
    own = Context.objects.filter(owner=form.person, deleted_at=None).listed()  # of all workspaces
    return settings_page(request, "data", form, form=form, session_count=own.count(), email=form.person.email)


@require_POST
@login_required
def export(request: HttpRequest) -> HttpResponseBase:
    """The ZIP, as a stream."""
    person, principal = person_of(request), principal_of(request)
    try:
        count_act(principal)
    except QuotaExceeded as exceeded:
        messages.error(request, str(exceeded))
        return redirect("web:settings-data")
    audit.record(AuditAction.DATA_EXPORTED, actor=person, object=person, request=request)
    response = StreamingHttpResponse(exported(person), content_type="application/zip")
    name = f"parley-{timezone.localdate():%Y-%m-%d}.zip"
    response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=name) or ""
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


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
