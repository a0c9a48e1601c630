"""Incoming webhooks: the form of one with a trial, and the events that came in."""

from __future__ import annotations

import json
import uuid
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.accounts.requests.quotas import QuotaExceeded, count_act, count_key_change
from apps.accounts.secrets import webhook_signatures
from apps.automation import incoming
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.automation.pages.targets import AgentForm
from apps.record.content import strict_json
from apps.record.errors import InvalidFields
from apps.web.resources import CODE, Pages, ResourceForm, do, words_of
from apps.web.shell import as_reader, principal_of
from parley import db

EVENTS_SHOWN = 50
SHOWN_CHARACTERS = 4_000  # of an event's body
SAMPLE = {"action": "opened", "title": "An example"}
TRIED = ("agent", "inputs", "text", "only_if")


def _text(label: str, most: int, help_text: str = "") -> forms.CharField:
    widget = forms.TextInput({**CODE, "data-schemes": webhook_signatures.HMAC})
    return forms.CharField(label=label, required=False, max_length=most, help_text=help_text, widget=widget)


def _choice(names: tuple[str, ...]) -> forms.ChoiceField:
    widget = forms.Select({"data-schemes": webhook_signatures.HMAC})
    return forms.ChoiceField(required=False, choices=[(name, name) for name in names], widget=widget)


class WebhookForm(AgentForm):
    """What a webhook starts, and for which events."""

    header = _text("Header with the signature", 100)
    algorithm = _choice(webhook_signatures.ALGORITHMS)
    encoding = _choice(webhook_signatures.ENCODINGS)
    prefix = _text("Before the signature", 50)  # type: ignore[assignment]
    timestamp_header = _text(
        "Header with the time", 100, "If the sender signs one: seconds or milliseconds since 1970."
    )
    signed = _text("What is signed", 100, "Usually {body}, or with a time, {timestamp}.{body}.")
    field_order = ("name", "agent", "scheme", *webhook_signatures.OPTIONS, "text", "inputs", "only_if")

    class Meta(ResourceForm.Meta):
        model = IncomingWebhook
        fields = ("name", "agent", "scheme", "text", "inputs", "only_if")
        widgets = {
            "scheme": forms.RadioSelect,
            "text": forms.Textarea({"rows": 3, **CODE}),
            "only_if": forms.TextInput(CODE),
        }

    def __init__(self, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        self.initial = {**(self.instance.signature or {}), **self.initial}
        if not self.instance._state.adding:  # its scheme stays
            is_hmac = self.instance.scheme == webhook_signatures.HMAC
            for name in ("scheme", *(() if is_hmac else webhook_signatures.OPTIONS)):
                del self.fields[name]

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if given.get("scheme", self.instance.scheme) == webhook_signatures.HMAC:
            self.instance.signature = {name: given[name] for name in webhook_signatures.OPTIONS if given.get(name)}
        return given

    def field_at(self, name: str, *inner: str) -> str | None:
        return super().field_at(*(inner or [name]) if name == "signature" else [name])


class WebhookPages(Pages[IncomingWebhook]):
    """A new secret is shown once, in the answer to the form that made it."""

    def saved(self, request: HttpRequest, row: IncomingWebhook, *, is_new: bool) -> HttpResponse:
        return self.show(request, row, secret=row.secret) if is_new else super().saved(request, row, is_new=False)

    def act(self, request: HttpRequest, **key: uuid.UUID) -> HttpResponse:
        if request.POST.get("do") != "secret":
            return super().act(request, **key)
        webhook = self.find(request, **key)
        try:
            count_key_change(principal_of(request))
            incoming.replace_secret(webhook, request.POST.get("secret", "").strip())
            with as_reader(request):
                return self.show(request, webhook, secret=webhook.secret)
        except (InvalidFields, QuotaExceeded) as refusal:
            messages.error(request, words_of(refusal))
        return redirect(self.names["one"], webhook.pk)


def _context(request: HttpRequest, webhook: IncomingWebhook) -> dict[str, Any]:
    events = IncomingEvent.objects.visible_to(principal_of(request)).filter(webhook=webhook)
    newest = events.select_related("task__agent").order_by("-received_at", "-id")[:EVENTS_SHOWN]
    return {
        "address": incoming.address_of(webhook),
        "events": [(event, _as_text(event.body)) for event in newest],
        "setup": webhook_signatures.SCHEMES[webhook.scheme].setup,
    }


def _form_context(webhook: IncomingWebhook) -> dict[str, Any]:
    """A sample to try: the newest event, or an example."""
    newest = webhook.events.order_by("-received_at").first()
    return {
        "sample": _as_text(newest.body, cut=False) if newest else _as_text(SAMPLE),
        "sample_type": newest.kind if newest else "",
    }


def _as_text(body: Any, *, cut: bool = True) -> str:
    """Indented if it is short: indenting makes deep JSON many times longer."""
    text = json.dumps(body, ensure_ascii=False)
    if len(text) <= SHOWN_CHARACTERS:
        return json.dumps(body, ensure_ascii=False, indent=2)
    return f"{text[:SHOWN_CHARACTERS]}…" if cut else text


@require_POST
@login_required
async def try_webhook(request: HttpRequest) -> HttpResponse:
    """What the form would make of the sample, or what is wrong with it. Nothing starts."""
    user = cast("User", await request.auser())
    try:
        webhook, body = await db.run(_sample, request, user)
        filled = await incoming.preview(webhook, body, {}, request.POST.get("sample_type", "")[:200])
        inputs = json.dumps(filled.inputs, ensure_ascii=False, indent=2) if filled.inputs else ""
        about: dict[str, Any] = {"filled": filled, "inputs": inputs}
    except InvalidFields as refused:
        about = {"problems": [sentence for _, sentence in refused.violations]}
    except QuotaExceeded as exceeded:
        about = {"problems": [str(exceeded)]}
    return await db.run(_trial, request, about)


def _sample(request: HttpRequest, user: User) -> tuple[IncomingWebhook, Any]:
    """The webhook that the form describes, and the sample's body. Raises InvalidFields, QuotaExceeded."""
    form = WebhookForm(user, request.POST)
    if wrong := [(name, str(said)) for name in TRIED for said in form.errors.get(name, [])]:
        raise InvalidFields(wrong)
    count_act(user.principal)
    try:
        return form.instance, strict_json.read(request.POST.get("sample", ""))
    except ValueError as error:
        raise InvalidFields([("sample", f"The sample cannot be read. {error}")]) from None


def _trial(request: HttpRequest, about: dict[str, Any]) -> HttpResponse:
    with as_reader(request):
        return render(request, "automation/_webhook_trial.html", about)


@require_POST
@login_required
def send_event_again(request: HttpRequest, webhook: uuid.UUID, event: uuid.UUID) -> HttpResponse:
    events = IncomingEvent.objects.filter(webhook=pages.find(request, webhook=webhook))
    found = events.find(principal_of(request), event)
    do(request, incoming.SEND_AGAIN, found)
    return redirect(pages.names["one"], webhook)


pages = WebhookPages(incoming.WEBHOOKS, WebhookForm, context=_context, form_context=_form_context)
urlpatterns = [
    path("webhooks/trial", try_webhook, name="webhook-trial"),
    *pages.urls(),
    path("webhooks/<uuid:webhook>/events/<uuid:event>", send_event_again, name="webhook-event-again"),
]
