"""Admin pages of model connections. They never show a key."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain, count
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.forms import Media, Script
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import slugify
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
    UnfoldBooleanWidget,
)

import outbound
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.features.model_agents import checks
from apps.features.model_agents.checks import Checked
from apps.installation.current import Endpoint, environment_endpoint
from apps.installation.models import ModelConnection, NetworkAllowance, Provider, check_base_url, check_key
from console import cells
from console.admin import ConsoleAdmin, column, page_link, time_cell
from console.cells import Tone
from console.fields import RowsField, SuggestionsWidget
from outbound import targets

NEEDS_KEY = {Provider.OPENAI, Provider.ANTHROPIC, Provider.GOOGLE}
PRIVATE = "This address is in a private network. To use it, switch on “Allow calls to this private address”, and save."
KNOWN_MODELS = "known-models"  # id of the list of suggestions
EXAMPLES = {
    Provider.OPENAI: "gpt-5-mini",
    Provider.ANTHROPIC: "claude-sonnet-4-5",
    Provider.GOOGLE: "gemini-2.5-flash",
    Provider.OLLAMA: "qwen3:8b",
    Provider.VLLM: "Qwen/Qwen3-8B",
}
SUMMARIES = {
    Provider.OPENAI: "GPT models, with an API key",
    Provider.ANTHROPIC: "Claude models, with an API key",
    Provider.GOOGLE: "Gemini models, with an API key",
    Provider.OLLAMA: "Models on your own machine",
    Provider.VLLM: "Models on your own servers",
    Provider.OTHER: "OpenRouter, Mistral, Groq, LM Studio, a proxy, …",
}


class OfferRow(forms.Form):
    name = forms.CharField(
        label="Model", max_length=200, widget=UnfoldAdminTextInputWidget(attrs={"list": KNOWN_MODELS})
    )
    input_price = forms.FloatField(
        label="Price of a million input tokens",
        required=False,
        min_value=0,
        max_value=1_000_000,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
    )
    output_price = forms.FloatField(
        label="Price of a million output tokens",
        required=False,
        min_value=0,
        max_value=1_000_000,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
    )
    is_choice = forms.BooleanField(
        label="People may choose it for a conversation", required=False, widget=UnfoldBooleanWidget
    )


class ConnectionForm(forms.ModelForm):  # type: ignore[type-arg]
    """`refusal` is what `outbound` says about the address, asked before the request's transaction."""

    refusal: outbound.Forbidden | None = None

    slug = forms.CharField(
        label="Short name",
        required=False,
        max_length=40,
        widget=UnfoldAdminTextInputWidget,
        help_text="Agents name a model of this connection as MODEL@SHORT-NAME. Empty: made from the name.",
    )
    key = forms.CharField(
        label="API key",
        required=False,
        max_length=1000,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted and never shown again.",
        validators=[check_key],
    )
    forget_key = forms.BooleanField(label="Remove the stored key", required=False, widget=UnfoldBooleanWidget)
    model = forms.CharField(
        label="Default model",
        max_length=200,
        help_text="For agents that name no model. Test the connection to see the models that it has.",
    )
    offers = RowsField(
        OfferRow,
        noun="a model",
        label="Models",
        help_text="Prices give the cost of each run, in your currency. Models without a row can be used too.",
    )
    allow_private = forms.BooleanField(
        label="Allow calls to this private address",
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Only for this machine and private networks. Agents, webhooks and tools can then call this host and"
        " port too. You can take it back under Private addresses.",
    )

    class Meta:
        model = ModelConnection
        fields = ("provider", "name", "slug", "base_url", "model", "offers", "is_default")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.private_entry = ""  # to allow when it is saved
        known = self.instance
        provider = known.provider if known.pk else self.initial.get("provider", Provider.OTHER)
        self.fields["model"].widget = SuggestionsWidget(KNOWN_MODELS, known.found)
        self.fields["model"].widget.attrs["placeholder"] = EXAMPLES.get(provider, "")
        if known.pk:
            self.fields.pop("slug", None)  # agents name it
        if known.api_key:
            self.fields["key"].widget.attrs["placeholder"] = "Stored. Type a new key to replace it."
        else:
            del self.fields["forget_key"]

    @property
    def media(self) -> Media:
        return super().media + Media(js=[Script("console/connection.js", type="module")])  # type: ignore[list-item]

    def clean_slug(self) -> str:
        taken = set(ModelConnection.objects.values_list("slug", flat=True))
        if slug := str(self.cleaned_data["slug"]):
            if slug in taken:
                raise ValidationError(f"Another connection has the short name {slug}. Choose another.")
            return slug
        made = slugify(self.cleaned_data.get("name", "")).lstrip("-_0123456789").replace("_", "-")[:36] or "models"
        return next(one for one in chain([made], (f"{made}-{number}" for number in count(2))) if one not in taken)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if base_url := str(cleaned.get("base_url", "")).rstrip("/"):
            cleaned["base_url"] = base_url
            self._check_key(cleaned)
            self._check_address(base_url, is_allowed=cleaned.get("allow_private", False))
        return cleaned

    def _check_key(self, cleaned: dict[str, Any]) -> None:
        """A stored key goes nowhere but to the host that it was given for."""
        if cleaned.get("key") or cleaned.get("forget_key") or "key" in self.errors:
            return
        if key_is_for_another_host(self.instance, cleaned["base_url"]):
            self.add_error("key", f"The stored key is for {self.initial['base_url']}. Type the key for this address.")
        if cleaned.get("provider") in NEEDS_KEY and not self.instance.api_key:
            self.add_error("key", "This provider requires an API key.")

    def _check_address(self, base_url: str, *, is_allowed: bool) -> None:
        if self.refusal is None:
            return
        if not isinstance(self.refusal, outbound.Private):
            self.add_error("base_url", str(self.refusal))
        elif is_allowed:
            self.private_entry = targets.allowed_hosts(base_url)[0]
        else:
            self.add_error("base_url", PRIVATE)

    def save(self, commit: bool = True) -> Any:
        row = self.instance
        if self.cleaned_data.get("forget_key"):
            row.api_key = ""
        row.api_key = self.cleaned_data["key"] or row.api_key
        if "slug" in self.cleaned_data:
            row.slug = self.cleaned_data["slug"]
        return super().save(commit)


def key_is_for_another_host(known: ModelConnection, base_url: str) -> bool:
    if not known.pk or not known.api_key:
        return False
    stored = ModelConnection.objects.values_list("base_url", flat=True).get(pk=known.pk)
    return urlsplit(stored)[:2] != urlsplit(base_url)[:2]


@admin.register(ModelConnection)
class ModelConnectionAdmin(ConsoleAdmin):
    form = ConnectionForm
    checked = time_cell("checked_at", "tested")
    added = column("added by", lambda row: row.added_by or cells.NOTHING)
    list_display = (page_link("name"), "provider", "base_url", "model", "default", "state", checked)
    list_display_links = None
    search_fields = ("name", "base_url")
    record = ("agents", added)
    readonly_fields: ClassVar[Any] = ("slug", *record)
    change_form_after_template = "admin/installation/test_connection.html"
    list_before_template = "admin/installation/environment_model.html"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        key = ("key", "forget_key") if obj and obj.api_key else ("key",)
        endpoint = ("provider", "name", "slug", "base_url", "allow_private", *key, "model", "is_default")
        record = [("Use", {"fields": self.record})] if obj else []
        return [(None, {"fields": endpoint}), ("Models and prices", {"fields": ("offers",)}), *record]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.readonly_fields if obj else self.readonly_fields[1:]

    def get_urls(self) -> list[Any]:
        test = self.admin_site.admin_view(self.test)
        return [path("test/", test, name="installation_modelconnection_test"), *super().get_urls()]

    @method_decorator(sensitive_post_parameters("key"))
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if request.method == "POST" or request.GET.get("provider") in Provider.values:
            return super().add_view(request, form_url, extra_context)
        if not self.has_add_permission(request):
            raise PermissionDenied
        presets = [(provider, SUMMARIES[provider]) for provider in Provider]
        page = {**self.admin_site.each_context(request), "title": "Connect a language model", "opts": self.opts}
        return TemplateResponse(request, "admin/installation/providers.html", {**page, "presets": presets})

    @method_decorator(sensitive_post_parameters("key"))
    def change_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().change_view(request, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        endpoint, is_used = environment_endpoint(), not ModelConnection.objects.exists()
        about = {"environment": endpoint, "is_used": is_used, **(extra_context or {})}
        return super().changelist_view(request, about)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        request.refusal = _refusal(request.POST.get("base_url", "").strip())  # type: ignore[attr-defined]
        return super().changeform_view(request, *args, **kwargs)

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        form.refusal = getattr(request, "refusal", None)
        return form

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        provider = Provider(request.GET.get("provider", Provider.OTHER))
        name = "" if provider == Provider.OTHER else provider.label
        if ModelConnection.objects.filter(name=name).exists():
            name = ""
        return {"provider": provider, "name": name, "base_url": provider.base_url}

    def save_model(self, request: HttpRequest, obj: ModelConnection, form: Any, change: bool) -> None:
        assert isinstance(request.user, User)
        if form.private_entry:
            self._allow(request, form.private_entry, obj)
        if not change:
            obj.added_by = request.user
        super().save_model(request, obj, form, change)
        transaction.on_commit(partial(self._test_saved, request, obj))  # the test takes seconds, and reads allowances

    def _test_saved(self, request: HttpRequest, row: ModelConnection) -> None:
        found = asyncio.run(checks.check(_endpoint(row), row.provider))
        said: dict[str, Any] = {"checked_at": timezone.now(), "problem": "" if found.is_ok else found.sentence}
        said |= {"found": found.models} if found.models else {}
        ModelConnection.objects.filter(pk=row.pk).update(**said)  # others may have changed or removed it meanwhile
        if found.is_ok:
            messages.success(request, f"The test succeeded. {found.sentence}")
        else:
            messages.warning(request, f"Saved, but the test failed. {found.sentence}")

    def _allow(self, request: HttpRequest, entry: str, connection: ModelConnection) -> None:
        if not request.user.has_perm("installation.add_networkallowance"):
            raise PermissionDenied
        fields = {"reason": f"Model connection {connection.name}"[:200], "added_by": request.user, "expires_at": None}
        row, _ = NetworkAllowance.objects.update_or_create(entry=entry, defaults=fields)
        self.log_addition(request, row, f"Allowed for the model connection {connection.name}.")
        messages.warning(request, f"Parley may now call {entry}. You can take this back under Private addresses.")

    @method_decorator((require_POST, sensitive_post_parameters("key")))
    def test(self, request: HttpRequest) -> HttpResponse:
        """Test the values of a form, saved or not: {"ok", "sentence", "models"} as JSON."""
        number = request.POST.get("id", "")
        known = self.get_object(request, number) if number else None
        if not (self.has_change_permission(request, known) if known else self.has_add_permission(request)):
            raise PermissionDenied
        tested = ConnectionTest(request.POST)
        if not tested.is_valid():
            return _as_json(Checked(False, " ".join(str(said) for one in tested.errors.values() for said in one)))
        base_url, key = tested.cleaned_data["base_url"].rstrip("/"), tested.cleaned_data["key"]
        if not key and known and known.api_key:
            if key_is_for_another_host(known, base_url):
                return _as_json(Checked(False, f"Type the key for {base_url}: the stored one is for another address."))
            key = known.api_key
        endpoint = Endpoint("", "test", base_url, key, tested.cleaned_data["model"], {})
        found = asyncio.run(checks.check(endpoint, tested.cleaned_data["provider"]))
        if known and found.models:
            ModelConnection.objects.filter(pk=known.pk).update(found=found.models)
        return _as_json(found)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ModelConnection]) -> None:
        for row in queryset:
            row.delete()

    @display(description="default", boolean=True)
    def default(self, row: ModelConnection) -> bool:
        return row.is_default

    @display(description="state")
    def state(self, row: ModelConnection) -> SafeString:
        if row.checked_at is None:
            return cells.state("Not tested", Tone.QUEUED)
        return cells.state("Fails", Tone.FAILED) if row.problem else cells.state("Works", Tone.DONE)

    @display(description="agents that name it")
    def agents(self, row: ModelConnection) -> SafeString | str:
        found = Agent.objects.filter(current_version__content__model__endswith=f"@{row.slug}").order_by("name")
        links = [(cells.link(one.name, cells.page_url(Agent, one.pk)),) for one in found]
        names = format_html_join(", ", "{}", links) if links else "none"
        return format_html("{}. All agents that name no model use it.", names) if row.is_default else names


class ConnectionTest(forms.Form):
    """The part of `ConnectionForm` that a test needs."""

    provider = forms.ChoiceField(choices=Provider.choices)
    base_url = forms.CharField(
        max_length=500, validators=[check_base_url], error_messages={"required": "Type the base URL."}
    )
    key = forms.CharField(required=False, max_length=1000, validators=[check_key])
    model = forms.CharField(required=False, max_length=200)


def _refusal(base_url: str) -> outbound.Forbidden | None:
    """Why the address may not be called; other problems show in the test."""
    try:
        check_base_url(base_url)
        outbound.guard().vet_now(base_url)
    except outbound.Forbidden as refusal:
        return refusal
    except (ValidationError, outbound.OutboundError):
        return None
    return None


def _endpoint(row: ModelConnection) -> Endpoint:
    return Endpoint(row.name, row.slug, row.base_url, row.api_key, row.model, {})


def _as_json(found: Checked) -> JsonResponse:
    sentence = PRIVATE if found.is_private else found.sentence
    told = {"ok": found.is_ok, "sentence": sentence, "models": found.models, "private": found.is_private}
    return JsonResponse(told, headers={"Cache-Control": "no-store"})
