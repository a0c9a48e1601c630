"""Admin pages of tool servers that people may give to their agents. They never show a secret."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.validators import RegexValidator
from unfold.widgets import UnfoldAdminPasswordWidget

from apps.agents.admin.forms import HEADER_VALUE
from apps.installation.models import SharedToolServer
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, column, page_link


class ToolServerForm(forms.ModelForm):  # type: ignore[type-arg]
    header_value = forms.CharField(
        label="Header value",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        validators=[RegexValidator(HEADER_VALUE, "Use visible ASCII characters, without spaces at the start or end.")],
        help_text="Such as “Bearer …”. It is stored encrypted, sent only to this URL, and never shown. All agents with"
        " this server use it. Leave it empty to keep the saved value.",
    )

    class Meta:
        model = SharedToolServer
        fields = ("name", "description", "url", "header")

    def save(self, commit: bool = True) -> Any:
        """A saved value goes to no other server."""
        kept = "" if "url" in self.changed_data else self.instance.secret
        self.instance.secret = self.cleaned_data["header_value"] or kept
        return super().save(commit)


@admin.register(SharedToolServer)
class ToolServerAdmin(ConsoleAdmin):
    menu = MenuItem("Installation", 5, "handyman")
    form = ToolServerForm
    has_secret = column("secret", lambda row: "saved" if row.secret else cells.NOTHING)
    list_display = (page_link("name", "name"), "url", "description", has_secret)
    list_display_links = None
    search_fields = ("name", "url")
    fields = ("name", "description", "url", "header", "header_value")
