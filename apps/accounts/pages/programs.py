"""Programs that act for people by OAuth: whom the person allowed, and those that they registered."""

from __future__ import annotations

from typing import Any

from allauth.idp.oidc.models import Client, Token
from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.utils.text import capfirst

from apps.accounts.clients.oauth import AGENT_SCOPE, IDENTITY_SCOPES, scope_words
from apps.accounts.clients.open_clients import is_redirect_address
from apps.accounts.clients.programs import ALLOWED, DELETE, END, KINDS, OWN, register
from apps.accounts.models import User
from apps.accounts.pages.account import PasswordForm
from apps.accounts.principals import READ, TASK_SCOPES
from apps.agents.models import Agent
from apps.web.settings.sections import act_view, person_of, private_view, settings_page


class ProgramForm(PasswordForm):
    name = forms.CharField(max_length=100, widget=forms.TextInput({"autocomplete": "off"}))
    kind = forms.ChoiceField(
        label="Type", choices=[(kind, said[0]) for kind, said in KINDS.items()], widget=forms.RadioSelect
    )
    redirect_uris = forms.CharField(
        label="Redirect URIs",
        required=False,
        widget=forms.Textarea({"rows": 2}),
        help_text="For websites and apps: where people return after they sign in. Full addresses, one per line.",
    )
    scopes = forms.MultipleChoiceField(
        label="Permissions it can request",
        choices=[(scope, capfirst(scope_words(scope))) for scope in (*TASK_SCOPES, *IDENTITY_SCOPES)],
        initial=[READ],
        widget=forms.CheckboxSelectMultiple,
    )

    field_order = ["name", "kind", "redirect_uris", "scopes", "current_password"]

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"]).strip()
        if "<" in name or ">" in name:
            raise ValidationError("Remove < and > from the name.")
        return name

    def clean_redirect_uris(self) -> list[str]:
        addresses: list[str] = str(self.cleaned_data["redirect_uris"]).split()
        for address in addresses:
            if not is_redirect_address(address):
                raise ValidationError(
                    "Write full https:// addresses without # and *. For this machine, http:// works too."
                )
        return addresses

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        needs_address = cleaned.get("kind") in ("site", "app")
        if needs_address and not cleaned.get("redirect_uris") and "redirect_uris" not in self.errors:
            self.add_error("redirect_uris", "Write at least one address.")
        return cleaned

    def make(self) -> tuple[Client, str] | None:
        """The program and its secret; None, with the form's error, if it is refused."""
        cleaned, principal = self.cleaned_data, self.person.principal
        slugs = Agent.objects.visible_to(principal).order_by("slug").values_list("slug", flat=True)
        about = cleaned["name"], cleaned["kind"], cleaned["scopes"], [f"{AGENT_SCOPE}{slug}" for slug in slugs]
        return self.attempt(register, principal, *about, cleaned["redirect_uris"])


@private_view
def programs(request: HttpRequest) -> HttpResponse:
    """The lists and the form. A secret is shown once, as the form's own response."""
    if not settings.OAUTH_ENABLED:
        raise Http404
    person = person_of(request)
    form = ProgramForm(person, request.POST or None)
    made = form.make() if form.is_valid() else None
    about = {"made": made, "allowed": allowed_by(person), "own": OWN.visible_to(person.principal)}
    return settings_page(request, "programs", form, form=ProgramForm(person) if made else form, **about)


def allowed_by(person: User) -> list[dict[str, Any]]:
    """The programs that can act for the person now, each with its scopes and its newest token's time."""
    tokens = Token.objects.valid().filter(user=person, type__in=(Token.Type.ACCESS_TOKEN, Token.Type.REFRESH_TOKEN))
    found: dict[str, dict[str, Any]] = {}
    for token in tokens.select_related("client").order_by("client__name", "created_at"):
        about = found.setdefault(str(token.client_id), {"client": token.client, "words": set()})
        about["newest"] = token.created_at
        about["words"].update(map(scope_words, token.get_scopes()))
    return [{**about, "words": sorted(about["words"])} for about in found.values()]


urlpatterns = [
    path("settings/programs", programs, name="settings-programs"),
    path("settings/programs/<path:program>/end", act_view("programs", ALLOWED, END), name="settings-end-access"),
    path("settings/programs/<path:program>/delete", act_view("programs", OWN, DELETE), name="settings-delete-program"),
]
