"""Admin's page of programs that get access by OAuth."""

from __future__ import annotations

from typing import Any

from allauth.idp.oidc.models import Client
from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import HttpRequest

from apps.accounts.admin.people import SecretAdmin, is_superuser
from apps.accounts.clients.oauth import AGENT_SCOPE, IDENTITY_SCOPES, new_secret
from apps.accounts.principals import TASK_SCOPES
from parley.faces.admin import MenuItem, column, related_cell, time_cell

SCOPES = (*TASK_SCOPES, *IDENTITY_SCOPES)


class ProgramForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Client
        fields = ("name", "owner", "type", "grant_types", "redirect_uris", "scopes", "skip_consent")

    def __init__(self, *args: Any, **given: Any) -> None:
        given["instance"] = given.get("instance") or Client(secret="")  # not a random one, with a slow hash
        super().__init__(*args, **given)

    def clean_scopes(self) -> str:
        wanted = str(self.cleaned_data["scopes"]).split()
        if unknown := [one for one in wanted if one not in SCOPES and not one.startswith(AGENT_SCOPE)]:
            known = ", ".join((*SCOPES, f"{AGENT_SCOPE}<slug>"))
            raise ValidationError(f"Unknown scope: {', '.join(unknown)}. Available scopes: {known}.")
        return "\n".join(wanted)

    def clean_grant_types(self) -> str:
        wanted = str(self.cleaned_data["grant_types"]).split()
        if unknown := [one for one in wanted if one not in Client.GrantType.values]:
            raise ValidationError(
                f"Unknown grant: {', '.join(unknown)}. There are: {', '.join(Client.GrantType.values)}."
            )
        return "\n".join(wanted)


@admin.register(Client)
class ProgramAdmin(SecretAdmin):
    """A program's secret is shown once. Deleting a program ends its tokens."""

    menu = MenuItem("People and access", 5, "apps", "Programs")
    form = ProgramForm
    identifier = column("client ID", lambda client: client.pk, "id")
    person = related_cell("owner", ordering="owner__email")
    created = time_cell("created_at")
    list_display = ("name", identifier, "type", person, "skip_consent", created)
    list_filter = ("type", "skip_consent")
    list_select_related = ("owner",)
    search_fields = ("id", "name", "owner__email")
    ordering = ("-created_at",)
    autocomplete_fields = ("owner",)
    fields = (identifier, "name", "owner", "type", "grant_types", "redirect_uris", "scopes", "skip_consent", created)
    readonly_fields = (identifier, created)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Only superusers choose whom a service acts for, and let a program in without asking people."""
        return self.readonly_fields if is_superuser(request) else (*self.readonly_fields, "owner", "skip_consent")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.shown_secret = new_secret(obj)
        super().save_model(request, obj, form, change)

    def secret_of(self, row: Any) -> tuple[str, str]:
        return row.shown_secret, f"The client ID is {row.pk}."
