"""Programs that act for people by OAuth: whom the person allowed, and those that they registered."""

from __future__ import annotations

from typing import Any

from allauth.idp.oidc.models import Client, Token
from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.text import capfirst

from apps.accounts import audit, quotas
from apps.accounts.audit import Subject
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.oauth import AGENT_SCOPE, IDENTITY_SCOPES, new_secret, scope_words
from apps.accounts.open_clients import is_redirect_address
from apps.accounts.principals import READ, TASK_SCOPES
from apps.agents.models import Agent
from apps.web.settings.account import PasswordForm
from apps.web.settings.sections import person_of, private_view, settings_page
from db.sql import write_transaction

MOST_PROGRAMS = 50  # of one person
GRANT = Client.GrantType
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "site": ("A web site with a server", Client.Type.CONFIDENTIAL, (GRANT.AUTHORIZATION_CODE, GRANT.REFRESH_TOKEN)),
    "app": ("An app or a page without a server", Client.Type.PUBLIC, (GRANT.AUTHORIZATION_CODE, GRANT.REFRESH_TOKEN)),
    "device": ("A device or a command line", Client.Type.PUBLIC, (GRANT.DEVICE_CODE, GRANT.REFRESH_TOKEN)),
    "service": ("A service that acts as you, without asking", Client.Type.CONFIDENTIAL, (GRANT.CLIENT_CREDENTIALS,)),
}
"""What people choose, the client's type, and its grants."""


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
        if not self.errors and Client.objects.filter(owner=self.person).count() >= MOST_PROGRAMS:
            self.add_error(None, f"You have {MOST_PROGRAMS} programs. Delete one that you no longer use.")
        return cleaned

    def make(self) -> tuple[Client, str] | None:
        """The program and its secret, "" for one without; None, with the form's error, if it is refused."""
        cleaned = self.cleaned_data
        try:
            quotas.count_key_change(self.person.principal)
        except quotas.QuotaExceeded as exceeded:
            self.add_error(None, str(exceeded))
            return None
        _, kind, grants = KINDS[cleaned["kind"]]
        client = Client(name=cleaned["name"], type=kind, owner=self.person, secret="")
        agents = Agent.objects.visible_to(self.person.principal).order_by("slug").values_list("slug", flat=True)
        client.set_scopes([*cleaned["scopes"], *(f"{AGENT_SCOPE}{slug}" for slug in agents)])
        client.set_grant_types(list(grants))
        client.set_redirect_uris(cleaned["redirect_uris"])
        secret = new_secret(client)
        with write_transaction():
            client.save(force_insert=True)
            audit.record(AuditAction.PROGRAM_CREATED, object=subject_of(client), details={"scopes": cleaned["scopes"]})
        return client, secret if kind == Client.Type.CONFIDENTIAL else ""


def subject_of(client: Client) -> Subject:
    return Subject("allauth_idp_oidc.client", client.pk, client.name)


@private_view
def programs(request: HttpRequest) -> HttpResponse:
    """The lists and the form. A secret is shown once, as the form's own response."""
    if not settings.OAUTH_ENABLED:
        raise Http404
    person = person_of(request)
    form = ProgramForm(person, request.POST if request.method == "POST" else None)
    made = form.make() if request.method == "POST" and form.is_valid() else None
    return settings_page(
        request,
        "programs",
        form,
        form=ProgramForm(person) if made else form,
        made=made,
        allowed=allowed_by(person),
        own=Client.objects.filter(owner=person).order_by("-created_at"),
    )


def allowed_by(person: User) -> list[dict[str, Any]]:
    """The programs that can act for the person now, each with its scopes and its newest token's time."""
    tokens = Token.objects.valid().filter(user=person, type__in=(Token.Type.ACCESS_TOKEN, Token.Type.REFRESH_TOKEN))
    found: dict[str, dict[str, Any]] = {}
    for token in tokens.select_related("client").order_by("client__name", "created_at"):
        about = found.setdefault(str(token.client_id), {"client": token.client, "words": set()})
        about["newest"] = token.created_at
        about["words"].update(map(scope_words, token.get_scopes()))
    return [{**about, "words": sorted(about["words"])} for about in found.values()]


@private_view
def end_access(request: HttpRequest, program: str) -> HttpResponse:
    """End what the person allowed: the program's tokens for them, also those that could be renewed."""
    person = person_of(request)
    client = Client.objects.filter(pk=program, token__user=person).first() if program.isprintable() else None
    if client is None or request.method != "POST":
        raise Http404
    with write_transaction():
        Token.objects.filter(client=client, user=person).delete()
        audit.record(AuditAction.PROGRAM_ENDED, object=subject_of(client))
    messages.success(request, f"“{client.name}” no longer acts for you.")
    return redirect("web:settings-programs")


@private_view
def delete(request: HttpRequest, program: str) -> HttpResponse:
    """Asks first; then the program and all its tokens are gone."""
    own = Client.objects.filter(owner=person_of(request), pk=program)
    client = own.first() if program.isprintable() else None
    if client is None:
        raise Http404
    if request.method != "POST":
        return settings_page(request, "programs", deleting=client)
    with write_transaction():
        subject = subject_of(client)
        client.delete()
        audit.record(AuditAction.PROGRAM_DELETED, object=subject)
    messages.success(request, f"“{client.name}” is deleted. Its tokens are refused from now on.")
    return redirect("web:settings-programs")
