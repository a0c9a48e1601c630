"""Admin pages of the OAuth services to which people may connect. They never show a secret."""

from __future__ import annotations

import asyncio
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from apps.credentials import oauth
from apps.credentials.models import OAuthService
from apps.credentials.oauth import OAuthProblem
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, column, page_link
from parley.faces.fields import RowsField

OF_THE_FLOW = {
    "client_id", "client_secret", "code_challenge", "code_challenge_method", "redirect_uri", "response_type", "scope",
    "state",
}  # fmt: skip
ADDRESSES = ("issuer", "authorization_url", "token_url", "revocation_url")


class ParameterRow(forms.Form):
    name = forms.CharField(max_length=100, widget=UnfoldAdminTextInputWidget)
    value = forms.CharField(max_length=1000, widget=UnfoldAdminTextInputWidget)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name in OF_THE_FLOW:
            raise ValidationError("Parley sets this itself. Remove the row.")
        return name


class OAuthServiceForm(forms.ModelForm):  # type: ignore[type-arg]
    secret = forms.CharField(
        label="Client secret",
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        validators=[RegexValidator(r"^[\x20-\x7e]+\Z", "Use visible ASCII characters. Copy the secret again.")],
        help_text="It is stored encrypted, sent only to this service, and never shown. Leave it empty to keep the saved"
        " one, or for a public client.",
    )
    parameters = RowsField(
        ParameterRow,
        noun="a parameter",
        label="More parameters",
        help_text="Of the authorization, such as access_type = offline. A resource (RFC 8707) is named for each token.",
    )

    class Meta:
        model = OAuthService
        fields = ("name", *ADDRESSES, "client_id", "secret_in_body", "scopes", "hosts", "parameters")

    def clean(self) -> dict[str, Any]:
        """Finds the addresses of an issuer, so that a wrong one shows here and not to people."""
        told: dict[str, Any] = super().clean() or self.cleaned_data
        self.instance.metadata = {}
        if self.errors:
            return told
        if issuer := told["issuer"]:
            try:
                self.instance.metadata = asyncio.run(oauth.discover(issuer))
            except OAuthProblem as problem:
                raise ValidationError({"issuer": str(problem)}) from None
        elif not (told["authorization_url"] and told["token_url"]):
            raise ValidationError("Give an issuer, or an authorization URL and a token URL.")
        return told

    def save(self, commit: bool = True) -> Any:
        """A saved secret goes to no other server."""
        kept = "" if set(self.changed_data) & set(ADDRESSES) else self.instance.client_secret
        self.instance.client_secret = self.cleaned_data["secret"] or kept
        return super().save(commit)


@admin.register(OAuthService)
class OAuthServiceAdmin(ConsoleAdmin):
    menu = MenuItem("Credentials", 3, "linked_services")
    form = OAuthServiceForm
    has_secret = column("client secret", lambda row: "saved" if row.client_secret else cells.NOTHING)
    redirect_uri = column("redirect URI", lambda row: oauth.redirect_uri())
    found = column(
        "found", lambda row: ", ".join(filter(None, map(row.endpoint, ("authorization", "token", "revocation"))))
    )
    list_display = (page_link("name", "name"), "issuer", "client_id", has_secret, "scopes", "hosts")
    list_display_links = None
    search_fields = ("name", "issuer", "client_id")
    readonly_fields = (redirect_uri, found)
    fields = (
        "name", redirect_uri, *ADDRESSES, found, "client_id", "secret", "secret_in_body", "scopes", "hosts",
        "parameters",
    )  # fmt: skip
