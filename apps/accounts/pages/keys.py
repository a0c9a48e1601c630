"""API keys: their list, new ones, and the samples of an agent's page with a key in them."""

from __future__ import annotations

import datetime
import shlex
from typing import Any

from django import forms
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path

from apps.accounts.keys import KEYS_OF_PEOPLE, REVOKE, make_key, rotate_key
from apps.accounts.models import ApiKey
from apps.accounts.pages.account import PasswordForm
from apps.accounts.principals import PRESETS, READ, SCOPES, WRITE
from apps.accounts.secrets.request_signatures import read_public_key
from apps.agents.models import Agent
from apps.agents.pages import agents
from apps.web.settings.sections import act_view, person_of, private_view, settings_page
from apps.web.shell import agent_or_404, page

CHOSEN = "chosen"
LIFETIMES = {7: "7 days", 30: "30 days", 90: "90 days", 365: "1 year"}
NEVER = 0
MOST_SHOWN = 200  # keys on the page, the newest first
SAMPLE_DAYS = 30  # that the key of a sample is good for


def lifetime_choices() -> list[tuple[int, str]]:
    """With the installation's usual lifetime among them."""
    usual = {settings.API_KEY_DAYS: f"{settings.API_KEY_DAYS} days"} if settings.API_KEY_DAYS else {}
    return [*sorted((usual | LIFETIMES).items()), (NEVER, "Never")]


class KeyForm(PasswordForm):
    name = forms.CharField(
        max_length=120,
        help_text="Helps you recognize the key, such as “laptop”.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    preset = forms.ChoiceField(
        label="Permissions",
        choices=[
            ("read", "Read only"),
            ("call", "Call one agent"),
            ("full", "Everything that you can do"),
            (CHOSEN, "Choose permissions"),
        ],
        initial="read",
        required=False,
        widget=forms.RadioSelect,
    )
    scopes = forms.MultipleChoiceField(
        label="Allow the key to",
        choices=[(scope, words[:1].upper() + words[1:]) for scope, words in SCOPES.items()],
        initial=[READ],
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    agent = forms.ChoiceField(
        label="Agent", required=False, help_text="The key can use only this agent and its sessions."
    )
    days = forms.TypedChoiceField(
        label="Expires after",
        choices=lifetime_choices,
        coerce=int,
        initial=lambda: settings.API_KEY_DAYS,
        widget=forms.RadioSelect,
    )

    public_key = forms.CharField(
        label="Public key",
        required=False,
        max_length=1000,
        help_text="An Ed25519 or P-256 key as PEM or JWK. Requests must be signed with its private key (RFC 9421).",
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocomplete": "off"}),
    )

    field_order = ["name", "preset", "scopes", "agent", "days", "public_key", "current_password"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        usable = Agent.objects.visible_to(self.person.principal).order_by("name").values_list("slug", "name")
        self.fields["agent"].choices = [("", "All agents that you can use"), *usable]  # type: ignore[attr-defined]

    def clean_public_key(self) -> str:
        try:
            return read_public_key(pem) if (pem := self.cleaned_data["public_key"]) else ""
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("preset") == "call" and not cleaned.get("agent") and "agent" not in self.errors:
            self.add_error("agent", "Choose the agent.")
        return cleaned

    def make(self) -> ApiKey | None:
        """The key; None, with the form's error, if it is refused."""
        cleaned, person = self.cleaned_data, self.person
        lifetime = datetime.timedelta(days=cleaned["days"]) if cleaned["days"] != NEVER else None
        scopes = PRESETS.get(cleaned["preset"], cleaned["scopes"])
        agents = [cleaned["agent"]] if cleaned["agent"] else []
        reach = scopes, lifetime, agents, cleaned["public_key"]
        made = self.attempt(make_key, person.principal, person, cleaned["name"], *reach)
        return made and made[0]


class RotationForm(PasswordForm):
    hours = forms.TypedChoiceField(
        label="Keep the old key working for",
        choices=[(1, "1 hour"), (24, "1 day"), (168, "7 days"), (0, "Not at all")],
        coerce=int,
        initial=24,
        widget=forms.RadioSelect,
    )

    field_order = ["hours", "current_password"]

    def rotate(self, key: ApiKey) -> ApiKey | None:
        """The key with its new text; None, with the form's error, if it is refused."""
        grace = datetime.timedelta(hours=self.cleaned_data["hours"])
        rotated = self.attempt(rotate_key, self.person.principal, key.pk, grace)
        return rotated and rotated[0]


@private_view
def api_keys(request: HttpRequest) -> HttpResponse:
    """The list and the form. A new key is shown once, as the form's own response: its text is stored nowhere."""
    form = KeyForm(person_of(request), request.POST or None)
    return keys_page(request, form, form.make() if form.is_valid() else None)


def keys_page(request: HttpRequest, form: KeyForm, made: ApiKey | None) -> HttpResponse:
    """`made`: a key that is shown now, with its text."""
    person = person_of(request)
    about = {
        "form": KeyForm(person) if made else form,
        "keys": KEYS_OF_PEOPLE.visible_to(person.principal)[:MOST_SHOWN],
        "made": made,
        "check": check_command(made.text) if made and (READ in made.scopes or not made.scopes) else "",
        "scopes": SCOPES,
    }
    return settings_page(request, "keys", form, **about)


def check_command(key_text: str) -> str:
    """A command that shows whether a key works: the agents that its person may use."""
    address = shlex.quote(f"{settings.PUBLIC_BASE_URL}/api/v1/agents")
    return f"curl -s {address} -H {shlex.quote(f'Authorization: Bearer {key_text}')}"


@private_view
def rotate(request: HttpRequest, number: int) -> HttpResponse:
    """Asks for the password; then the key has a new text, which is shown once."""
    person = person_of(request)
    key = KEYS_OF_PEOPLE.find(person.principal, number)
    if not key.is_usable:
        raise Http404
    form = RotationForm(person, request.POST or None)
    if form.is_valid() and (rotated := form.rotate(key)):
        return keys_page(request, KeyForm(person), rotated)
    return settings_page(request, "keys", form, rotating=key, form=form)


class SampleKeyForm(PasswordForm):
    """Makes a key for an agent's samples: it may only send messages to it, and expires soon."""

    def make(self, agent: Agent) -> str:
        """The key's text; "", with the form's error, if it is refused."""
        lifetime, person = datetime.timedelta(days=SAMPLE_DAYS), self.person
        made = self.attempt(make_key, person.principal, person, agent.name, [WRITE], lifetime, [agent.slug])
        return made[1] if made else ""


@private_view
def sample_key(request: HttpRequest, slug: str) -> HttpResponse:
    """The samples of an agent with a new key in them, shown once; for htmx only the samples."""
    agent = agent_or_404(request, slug)
    form = SampleKeyForm(person_of(request), request.POST or None)
    text = form.make(agent) if form.is_valid() else ""
    about = {"agent": agent, "samples": agents.samples(agent, text or agents.KEY_PLACEHOLDER), "key_form": form}
    about |= {"key_made": bool(text), "sample_days": SAMPLE_DAYS}
    if "HX-Request" in request.headers:
        return render(request, "accounts/_curl_sample.html", about)
    return page(request, "accounts/settings_sample.html", **about)


urlpatterns = [
    path("settings/keys", api_keys, name="settings-keys"),
    path("settings/keys/<int:number>/revoke", act_view("keys", KEYS_OF_PEOPLE, REVOKE), name="settings-revoke-key"),
    path("settings/keys/<int:number>/rotate", rotate, name="settings-rotate-key"),
    path("agents/<slug:slug>/key", sample_key, name="sample-key"),
]
