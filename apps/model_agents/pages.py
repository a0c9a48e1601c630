"""Connecting language models: one form that tests, saves and tries a connection, for operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain, count
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.accounts.pages.account import saved
from apps.accounts.people.sign_in import needs_second_factor
from apps.installation.current import Endpoint, endpoint_of
from apps.installation.model_providers import PRESETS, Provider
from apps.installation.models import ModelConnection, check_base_url, check_key
from apps.model_agents import checks
from apps.model_agents.checks import Checked
from apps.web import allowances
from apps.web.resources import CODE
from apps.web.settings.sections import person_of, private_view, settings_page
from parley import db, outbound
from parley.db.sql import write_transaction
from parley.outbound import targets

ADD, CHANGE = "installation.add_modelconnection", "installation.change_modelconnection"
VIEW = "installation.view_modelconnection"
BASE_URLS = {preset.base_url for preset in PRESETS.values()}
PRIVATE = "This address is in a private network. Tick “Allow calls to this private address”, and test again."
HELLO = "Hello! What can you do?"


def operator_view(permission: str) -> Callable[[Any], Any]:
    """An async page of the settings that takes secrets, for operators with this permission of admin."""

    def decorate(view: Any) -> Any:
        @private_view
        @wraps(view)
        async def shown(request: HttpRequest, *args: Any, **address: Any) -> Any:
            elsewhere = await db.run(_elsewhere, person_of(request), permission)
            return elsewhere or await view(request, *args, **address)

        return shown

    return decorate


def _elsewhere(person: User, permission: str) -> HttpResponse | None:
    """Where the person proves who they are first; None if they may go on. Raises PermissionDenied."""
    if person.may_operate(permission):
        return None
    if needs_second_factor(person):
        return redirect("web:settings-security")
    raise PermissionDenied("Only operators of this installation connect language models. Ask one of them.")


class ConnectionForm(forms.ModelForm):  # type: ignore[type-arg]
    """`private_entry` is to be allowed when the connection is saved. A stored key is never shown."""

    key = forms.CharField(
        label="API key",
        required=False,
        max_length=1000,
        validators=[check_key],
        widget=forms.PasswordInput({"autocomplete": "off"}, render_value=True),  # what was typed, not what is stored
    )
    forget_key = forms.BooleanField(label="Remove the stored key", required=False)
    allow_private = forms.BooleanField(
        label="Allow calls to this private address",
        required=False,
        help_text="Only for this machine and private networks. Agents, webhooks and tools may then call this host and"
        " port too. You can take it back in admin, under Private addresses.",
    )

    # `store` sets it: Django would refuse a second default, which takes the place of the first
    is_default = ModelConnection._meta.get_field("is_default").formfield()

    class Meta:
        model = ModelConnection
        fields = ("provider", "base_url", "model", "name", "slug", "names_sessions")
        labels = {"base_url": "Address"}
        help_texts = {
            "name": "If you leave it empty: the provider or the host.",
            "slug": "Agents name a model of this connection as MODEL@SHORT-NAME. Parley can make it from the name.",
        }
        widgets = {
            "provider": forms.RadioSelect,
            "base_url": forms.TextInput({"inputmode": "url", **CODE}),
        }

    OPTIONAL = ("base_url", "model", "name", "slug")  # Parley finds a value, or says what is missing

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request
        self.private_entry = ""
        for name in self.OPTIONAL:
            self.fields[name].required = False
        self.stored_url = self.instance.base_url if self.instance.pk else ""
        self.stored_key = self.instance.api_key
        if self.stored_key:
            self.fields["key"].help_text = "One is stored. Type another to replace it."
        else:
            del self.fields["forget_key"]
        if self.instance.pk:
            del self.fields["slug"]  # agents name it
        if not ModelConnection.objects.exclude(pk=self.instance.pk).exists() or self.instance.is_default:
            del self.fields["is_default"]
        if not allowances.may_allow(person_of(request)):
            del self.fields["allow_private"]
        self.fields["provider"].choices = Provider.choices  # type: ignore[attr-defined]

    @property
    def provider(self) -> str:
        return str(self["provider"].value() or Provider.OPENAI)

    @property
    def needs_key(self) -> bool:
        return self.provider in Provider and Provider(self.provider).preset.needs_key

    @property
    def asks_for_allowance(self) -> bool:
        return "allow_private" in self.fields and not self.needs_key

    def offer(self, models: list[str]) -> None:
        """Let one of these be chosen as the default model."""
        chosen = self["model"].value() or ""
        if not models:
            return
        usual = Provider(self.provider).preset.model
        self.initial["model"] = chosen or (usual if usual in models else models[0])
        if self.is_bound and not chosen:
            self.data = {**self.data.dict(), "model": self.initial["model"]}  # type: ignore[attr-defined]
        names = models if not chosen or chosen in models else [chosen, *models]
        self.fields["model"].widget = forms.Select(choices=[(name, name) for name in names])

    def clean_base_url(self) -> str:
        """The preset's address where there is none, or one of another preset."""
        typed = str(self.cleaned_data["base_url"]).strip().rstrip("/")
        chosen = self.cleaned_data.get("provider", "")
        preset = Provider(chosen).preset.base_url if chosen else ""
        if preset and (not typed or typed in BASE_URLS):
            typed = preset
        if not typed:
            raise ValidationError("Type the address, such as http://127.0.0.1:8000/v1.")
        url = typed if "://" in typed else f"{_scheme_of(typed)}://{typed}"
        check_base_url(url)
        return url

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if base_url := cleaned.get("base_url", ""):
            self._check_key(cleaned, base_url)
            self._check_address(base_url, is_allowed=cleaned.get("allow_private", False))
            cleaned["name"] = cleaned.get("name") or self._free_name(cleaned.get("provider", ""), base_url)
        if "slug" in self.fields and not self.errors:
            cleaned["slug"] = cleaned.get("slug") or _free_slug(cleaned["name"])
        return cleaned

    def _check_key(self, cleaned: dict[str, Any], base_url: str) -> None:
        """A stored key goes nowhere but to the host that it was given for."""
        if cleaned.get("key") or cleaned.get("forget_key") or "key" in self.errors:
            return
        if self.stored_key and urlsplit(self.stored_url)[:2] != urlsplit(base_url)[:2]:
            self.add_error("key", f"The stored key is for {self.stored_url}. Type the key for this address.")
        elif self.needs_key and not self.stored_key:
            self.add_error("key", "This provider requires an API key. Make one in your account there.")

    def _check_address(self, base_url: str, *, is_allowed: bool) -> None:
        refusal = _refusal(base_url)
        if not isinstance(refusal, outbound.Private):
            if refusal is not None:
                self.add_error("base_url", str(refusal))
        elif "allow_private" not in self.fields:
            self.add_error("base_url", allowances.ASK_AN_OPERATOR)
        elif is_allowed and allowances.is_entry(entry := targets.allowed_hosts(base_url)[0]):
            self.private_entry = entry
        else:
            self.add_error("base_url", PRIVATE)

    def _free_name(self, provider: str, base_url: str) -> str:
        others = ModelConnection.objects.exclude(pk=self.instance.pk)
        host = urlsplit(base_url).hostname or base_url
        base = host if provider == Provider.OTHER or not provider else str(Provider(provider).label)
        return _first_free(base[:70], set(others.values_list("name", flat=True)), " ")

    @property
    def endpoint(self) -> Endpoint:
        """Of a valid form."""
        cleaned = self.cleaned_data
        key = cleaned["key"] or ("" if cleaned.get("forget_key") else self.stored_key)
        return Endpoint("", "test", cleaned["base_url"], key, cleaned["model"], {})

    async def test(self) -> Checked:
        """Call the endpoint of a valid form; what fails becomes an error of its field."""
        also = [self.private_entry] if self.private_entry else []
        found = await checks.check(self.endpoint, self.cleaned_data["provider"], also)
        if not found.is_ok:
            self.add_error(found.field or None, PRIVATE if found.is_private else found.sentence)
        return found

    def store(self, found: Checked) -> ModelConnection:
        """Save the connection, and with it the allowance that it needs."""
        row: ModelConnection = self.instance
        is_new, person = not row.pk, person_of(self.request)
        row.api_key, row.base_url = self.endpoint.api_key, found.base_url
        row.is_default = row.is_default or self.cleaned_data.get("is_default", False)
        row.found, row.checked_at, row.problem = list(found.models), timezone.now(), ""
        if is_new:
            row.added_by = person
        noted = admin.site.get_model_admin(ModelConnection)
        with write_transaction():
            row.save()
            if self.private_entry:
                allowances.allow(self.request, self.private_entry, f"Model connection {row.name}")
            if is_new:
                noted.log_addition(self.request, row, [{"added": {}}])
            else:
                noted.log_change(self.request, row, [{"changed": {"fields": self.changed_data}}])
        return row


def _scheme_of(address: str) -> str:
    """Servers of private networks seldom have certificates."""
    try:
        return "http" if outbound.is_private(f"http://{address}") else "https"
    except outbound.Forbidden:
        return "https"


def _refusal(base_url: str) -> outbound.Forbidden | None:
    """Why the address may not be called; other problems show in the test."""
    try:
        outbound.guard().vet_now(base_url)
    except outbound.Forbidden as refusal:
        return refusal
    except outbound.OutboundError:
        return None
    return None


def _first_free(base: str, taken: set[str], separator: str) -> str:
    return next(one for one in chain([base], (f"{base}{separator}{n}" for n in count(2))) if one not in taken)


def _free_slug(name: str) -> str:
    base = slugify(name).lstrip("-_0123456789").replace("_", "-")[:36] or "models"
    return _first_free(base, set(ModelConnection.objects.values_list("slug", flat=True)), "-")


@operator_view(VIEW)
async def models(request: HttpRequest) -> HttpResponse:
    """The connections. Without one, the form for the first."""
    return await db.run(_models_page, request)


def _models_page(
    request: HttpRequest, tried: ModelConnection | None = None, reply: Checked | None = None
) -> HttpResponse:
    rows = list(ModelConnection.objects.all())
    if not rows and person_of(request).may_operate(ADD):
        return redirect("web:settings-connect-model")
    about = {"connections": rows, "tried": tried, "reply": reply, "hello": HELLO}
    return settings_page(request, "models", **about)


@operator_view(ADD)
async def connect(request: HttpRequest) -> HttpResponse:
    return await _connection_page(request, ModelConnection())


@operator_view(CHANGE)
async def change(request: HttpRequest, number: int) -> HttpResponse:
    return await _connection_page(request, await db.run(get_object_or_404, ModelConnection, pk=number))


async def _connection_page(request: HttpRequest, row: ModelConnection) -> HttpResponse:
    """Posted by *Test*, *Save*, or (`act=preset`) the choice of a provider, which keeps what was typed."""
    if request.method != "POST" or request.POST.get("act") == "preset":
        return await db.run(lambda: _form_page(request, _unbound(request, row)))
    form = await db.run(ConnectionForm, request, request.POST, instance=row)
    found = await form.test() if await db.run(form.is_valid) else None
    return await db.run(_tested_page, request, form, found)


def _tested_page(request: HttpRequest, form: ConnectionForm, found: Checked | None) -> HttpResponse:
    is_to_save = request.POST.get("act") == "save"
    if found and found.is_ok and is_to_save and form.cleaned_data["model"]:
        row = form.store(found)
        return saved(request, "models", f"{row.name} is connected. {found.sentence}")
    return _form_page(request, form, found)


def _unbound(request: HttpRequest, row: ModelConnection) -> ConnectionForm:
    """The form as it begins, or as it was typed, with the address of the chosen provider."""
    names = ("base_url", "key", "name", "slug", "allow_private", "provider", "is_default")
    typed = {name: request.POST[name] for name in names if name in request.POST}
    if request.method == "POST":
        typed["names_sessions"] = request.POST.get("names_sessions", "")
    if not row.pk or typed:
        provider = typed.get("provider") or request.GET.get("provider", "")
        provider = provider if provider in Provider.values else Provider.OPENAI
        known = typed.get("base_url", "").rstrip("/")
        preset = Provider(provider).preset
        base_url = preset.base_url if not known or known in BASE_URLS else known
        typed |= {"provider": provider, "base_url": base_url}
        is_own = base_url == known and "allow_private" in typed  # an allowance for a preset is for no other address
        typed["allow_private"] = "on" if preset.is_private or is_own else ""
    return ConnectionForm(request, instance=row, initial=typed)


def _form_page(request: HttpRequest, form: ConnectionForm, found: Checked | None = None) -> HttpResponse:
    row = form.instance
    form.offer(list(found.models) if found else [] if form.is_bound else list(row.found))
    _focus(form, found)
    has_model = bool(form["model"].value()) or bool(found and not found.models and found.field == "base_url")
    title = f"Change {row.name}" if row.pk else "Connect a language model"
    about = {"form": form, "found": found, "has_model": has_model, "section_title": title}
    refused = () if "HX-Request" in request.headers else (form,)  # htmx shows no page of another status
    return settings_page(request, "models", *refused, template="model_agents/settings_model.html", **about)


def _focus(form: ConnectionForm, found: Checked | None) -> None:
    """Lead the keyboard to what is to be done next."""
    wrong = next(iter(form.errors), "") if form.is_bound else ""
    if PRIVATE in form.errors.get("base_url", []):
        wrong = "allow_private"
    field = wrong or ("model" if found else "")
    if field in form.fields:
        form.fields[field].widget.attrs["autofocus"] = True


@operator_view(VIEW)
@require_POST
async def try_model(request: HttpRequest, number: int) -> HttpResponse:
    """Say something to the default model of a connection, and show its answer."""
    row = await db.run(get_object_or_404, ModelConnection, pk=number)
    reply = await checks.say(endpoint_of(row), HELLO)
    return await db.run(_models_page, request, row, reply)


urlpatterns = [
    path("settings/models", models, name="settings-models"),
    path("settings/models/connect", connect, name="settings-connect-model"),
    path("settings/models/<int:number>", change, name="settings-model"),
    path("settings/models/<int:number>/try", try_model, name="settings-try-model"),
]
