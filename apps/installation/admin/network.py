"""Admin pages of private addresses that Parley may call."""

from __future__ import annotations

import datetime
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget

from apps.accounts.models import User
from apps.installation.models import NetworkAllowance
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, column, page_link, time_cell
from parley.faces.cells import Tone

KEEP, NEVER, DEFAULT_DAYS = "keep", "never", "30"
LASTS = [
    ("1", "1 day"),
    ("7", "7 days"),
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "1 year"),
    (NEVER, "No expiry"),
]
WARNING = (
    "Everybody who can register an agent, a webhook or a tool server can make Parley call what you allow here. Allow"
    " one host and port where you can, and only services that check who calls. Cloud metadata addresses, such as"
    " 169.254.169.254, stay closed."
)


class AllowanceForm(forms.ModelForm):  # type: ignore[type-arg]
    lasts = forms.ChoiceField(label="Expires after", initial=DEFAULT_DAYS, widget=UnfoldAdminSelectWidget)

    class Meta:
        model = NetworkAllowance
        fields = ("entry", "reason")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        is_known = self.instance.pk is not None
        choices = [(KEEP, "As it is"), *LASTS] if is_known else LASTS
        self.fields["lasts"].choices = choices  # type: ignore[attr-defined]
        if is_known:
            self.fields["lasts"].initial = KEEP

    def clean_entry(self) -> str:
        return str(self.cleaned_data["entry"]).strip().lower()

    def save(self, commit: bool = True) -> Any:
        lasts = self.cleaned_data["lasts"]
        if lasts == NEVER:
            self.instance.expires_at = None
        elif lasts != KEEP:
            self.instance.expires_at = timezone.now() + datetime.timedelta(days=int(lasts))
        return super().save(commit)


@admin.register(NetworkAllowance)
class NetworkAllowanceAdmin(ConsoleAdmin):
    menu = MenuItem("Installation", 4, "lan")
    form = AllowanceForm
    added = column("added by", lambda row: row.added_by or cells.NOTHING)
    expires = column(
        "expires", lambda row: cells.relative_time(row.expires_at) if row.expires_at else "never", "expires_at"
    )
    created = time_cell("created_at", "added")
    record = (expires, added)
    list_display = (page_link("entry", "host or network"), "reason", "state", expires, added, created)
    list_display_links = None
    search_fields = ("entry", "reason")
    select_related = ("added_by",)
    list_before_template = "admin/installation/environment_addresses.html"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = ("entry", "reason", "lasts")
        return [(None, {"fields": (*fields, *self.record) if obj else fields, "description": WARNING})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.record if obj else ()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"environment": settings.OUTBOUND_ALLOW, **(extra_context or {})})

    def save_model(self, request: HttpRequest, obj: NetworkAllowance, form: Any, change: bool) -> None:
        if not change:
            assert isinstance(request.user, User)
            obj.added_by = request.user
        super().save_model(request, obj, form, change)

    @display(description="state")
    def state(self, row: NetworkAllowance) -> SafeString:
        return cells.state("Allowed", Tone.DONE) if row.is_active else cells.state("Expired", Tone.STOPPED)
