"""The person's data: export, import, and deleting the account."""

from __future__ import annotations

from typing import Any, cast

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
from apps.accounts.principals import Principal
from apps.accounts.quotas import QuotaExceeded, count_act
from apps.agents.models import Agent
from apps.features.imports.formats import MAX_FILE_BYTES
from apps.features.imports.importing import Import, import_file
from apps.features.sessions.holds import UnderLegalHold
from apps.record.errors import Refusal
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


class ImportForm(forms.Form):
    file = forms.FileField(
        label="File", help_text="conversations.json or the ZIP of ChatGPT, chats of Open WebUI, or a session as JSON."
    )
    agent = forms.ModelChoiceField(
        Agent.objects.none(), to_field_name="slug", label="Agent", help_text="Answers when you go on."
    )

    def __init__(self, principal: Principal, *data: Any) -> None:
        super().__init__(*data)
        cast("forms.ModelChoiceField[Agent]", self.fields["agent"]).queryset = Agent.objects.visible_to(
            principal
        ).order_by("name")

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file.size > MAX_FILE_BYTES:
            raise ValidationError(f"The file may have {MAX_FILE_BYTES // 1024**2} MB. Split it.")
        return file


@private_view
def my_data(request: HttpRequest) -> HttpResponse:
    return _data_page(request, DeleteForm(person_of(request)))


def _data_page(
    request: HttpRequest, form: DeleteForm, imports: ImportForm | None = None, imported: Import | None = None
) -> HttpResponse:
    own = Context.objects.filter(owner=form.person, deleted_at=None).listed()  # of all workspaces
    imports = imports or ImportForm(principal_of(request))
    about = {"session_count": own.count(), "email": form.person.email, "imports": imports, "imported": imported}
    return settings_page(request, "data", form, imports, form=form, **about)


@private_view
def import_conversations(request: HttpRequest) -> HttpResponse:
    """Imports a file, and lists what became of its conversations."""
    if request.method != "POST":
        return redirect("web:settings-data")
    principal = principal_of(request)
    form, imported = ImportForm(principal, request.POST, request.FILES), None
    if form.is_valid():
        try:
            count_act(principal)
            imported = import_file(principal, form.cleaned_data["agent"], form.cleaned_data["file"].read())
        except (Refusal, QuotaExceeded) as refusal:
            form.add_error("file", str(refusal))
    return _data_page(request, DeleteForm(person_of(request)), form, imported)


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
