"""Incoming webhooks: a person's list, the form of one with a trial, and the events that came in."""

from __future__ import annotations

import json
import uuid
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

import db
from apps.accounts import webhook_signatures
from apps.accounts.models import User
from apps.accounts.quotas import QuotaExceeded, count_act, count_key_change
from apps.agents.models import Agent
from apps.automation import incoming
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.record.content import strict_json
from apps.record.errors import InvalidFields, Refusal
from apps.web.roles import refuse
from apps.web.schedules import InputsField, is_saved, startable
from apps.web.shell import as_reader, page, principal_of, reader_view

MOST_SHOWN = 200  # webhooks
EVENTS_SHOWN = 50
SHOWN_CHARACTERS = 4_000  # of an event's body
FORM_FIELDS = {"onlyIf": "only_if"}
"""The form's fields whose names differ from those of refusals."""
CODE = {"class": "code", "spellcheck": "false", "autocapitalize": "none", "autocomplete": "off"}
SAMPLE = {"action": "opened", "title": "An example"}


def _option() -> forms.TextInput:
    return forms.TextInput({**CODE, "data-schemes": "hmac"})


class WebhookForm(forms.Form):
    """What a webhook starts, and for which events."""

    name = forms.CharField(max_length=200, widget=forms.TextInput({"autocomplete": "off"}))
    agent = forms.ModelChoiceField(Agent.objects.none(), to_field_name="slug", label="Agent or plan")
    scheme = forms.ChoiceField(
        label="Who sends",
        choices=webhook_signatures.CHOICES,
        initial="bearer",
        widget=forms.RadioSelect,
    )
    header = forms.CharField(label="Header with the signature", required=False, max_length=100, widget=_option())
    algorithm = forms.ChoiceField(
        required=False,
        choices=[(name, name) for name in webhook_signatures.ALGORITHMS],
        widget=forms.Select({"data-schemes": "hmac"}),
    )
    encoding = forms.ChoiceField(
        required=False,
        choices=[(name, name) for name in webhook_signatures.ENCODINGS],
        widget=forms.Select({"data-schemes": "hmac"}),
    )
    prefix = forms.CharField(label="Before the signature", required=False, max_length=50, widget=_option())  # type: ignore[assignment]
    timestamp_header = forms.CharField(
        label="Header with the time",
        required=False,
        max_length=100,
        help_text="If the sender signs one: seconds or milliseconds since 1970.",
        widget=_option(),
    )
    signed = forms.CharField(
        label="What is signed",
        required=False,
        max_length=100,
        help_text="Usually {body}, or with a time, {timestamp}.{body}.",
        widget=_option(),
    )
    text = forms.CharField(
        label="Message",
        required=False,
        max_length=100_000,
        strip=False,
        help_text="Such as: Review {{ body.pull_request.html_url }}. Without it, the agent gets the event as data.",
        widget=forms.Textarea({"rows": 3, **CODE}),
    )
    inputs = InputsField(
        label="Inputs (JSON)",
        required=False,
        help_text='A plan’s inputs, such as {"topic": "{{ body.title }}"}. An agent gets them beside the message.',
        widget=forms.Textarea({"rows": 3, **CODE}),
    )
    only_if = forms.CharField(
        label="Only if",
        required=False,
        max_length=1000,
        help_text="Such as: event.type == 'pull_request' and body.action == 'opened'. Without it, every event counts.",
        widget=forms.TextInput(CODE),
    )

    def __init__(self, user: User, webhook: IncomingWebhook, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        usable = startable(user.principal, self.initial.get("agent"))
        cast("forms.ModelChoiceField[Agent]", self.fields["agent"]).queryset = usable
        if not webhook._state.adding:
            for name in ("scheme", *(() if webhook.scheme == webhook_signatures.HMAC else webhook_signatures.OPTIONS)):
                del self.fields[name]

    def fill(self, webhook: IncomingWebhook) -> IncomingWebhook:
        """Set what the valid form says."""
        given = self.cleaned_data
        for name in given.keys() - set(webhook_signatures.OPTIONS):
            setattr(webhook, name, given[name])
        webhook.inputs = given["inputs"] or {}
        if webhook.scheme == webhook_signatures.HMAC:
            webhook.signature = {name: given[name] for name in webhook_signatures.OPTIONS if given.get(name)}
        return webhook

    def refused(self, refusal: Exception) -> None:
        violations = refusal.violations if isinstance(refusal, InvalidFields) else [("", str(refusal))]
        for path, sentence in violations:
            name = FORM_FIELDS.get(path, path.removeprefix("signature.").partition(".")[0])
            self.add_error(name if name in self.fields else None, sentence)


@reader_view
def webhook_list(request: HttpRequest) -> HttpResponse:
    rows = IncomingWebhook.objects.visible_to(principal_of(request)).select_related("agent")
    return page(request, "web/webhooks.html", rows=list(rows.order_by("-created_at", "-id")[:MOST_SHOWN]))


@reader_view
def one_webhook(request: HttpRequest, webhook: uuid.UUID) -> HttpResponse:
    return _webhook_page(request, _find(request, webhook))


def _webhook_page(request: HttpRequest, webhook: IncomingWebhook, secret: str = "") -> HttpResponse:
    """`secret`: shown now, and never again."""
    events = IncomingEvent.objects.visible_to(principal_of(request)).filter(webhook=webhook)
    newest = list(events.select_related("task__agent").order_by("-received_at", "-id")[:EVENTS_SHOWN])
    shown = [(event, _as_text(event.body)) for event in newest]
    about = {"webhook": webhook, "address": incoming.address_of(webhook), "events": shown, "secret": secret}
    about["setup"] = webhook_signatures.SCHEMES[webhook.scheme].setup
    return page(request, "web/webhook.html", **about)


def _as_text(body: Any, *, cut: bool = True) -> str:
    """Indented if it is short: indenting makes deep JSON many times longer."""
    text = json.dumps(body, ensure_ascii=False)
    if len(text) <= SHOWN_CHARACTERS:
        return json.dumps(body, ensure_ascii=False, indent=2)
    return f"{text[:SHOWN_CHARACTERS]}…" if cut else text


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def edit_webhook(request: HttpRequest, webhook: uuid.UUID | None = None) -> HttpResponse:
    """The form. A new webhook's secret is shown once, in the form's own response."""
    user = cast("User", request.user)
    refuse(user, request.resolver_match)  # before the form is filled in
    with as_reader(request):
        found = _find(request, webhook) if webhook else IncomingWebhook()
        form = WebhookForm(user, found, request.POST or None, initial=_initial(request, found))
        if request.method == "POST" and form.is_valid() and is_saved(user, form, incoming.save, found):
            return redirect("web:webhook", found.pk) if webhook else _webhook_page(request, found, found.secret)
        newest = found.events.order_by("-received_at").first() if webhook else None
        sample = _as_text(newest.body, cut=False) if newest else _as_text(SAMPLE)
        about = {"form": form, "webhook": found if webhook else None, "sample": sample}
        return page(request, "web/webhook_edit.html", **about | {"sample_type": newest.kind if newest else ""})


def _initial(request: HttpRequest, webhook: IncomingWebhook) -> dict[str, Any]:
    if webhook._state.adding:
        return {"agent": request.GET.get("agent")}
    given = {name: getattr(webhook, name) for name in ("name", "text", "only_if")}
    agent = webhook.agent.slug if webhook.agent else None
    return given | (webhook.signature or {}) | {"agent": agent, "inputs": webhook.inputs or None}


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
    form = WebhookForm(user, IncomingWebhook(), request.POST)
    form.full_clean()
    wrong = [(name, str(said)) for name in ("agent", "inputs", "text", "only_if") for said in form.errors.get(name, [])]
    if wrong:
        raise InvalidFields(wrong)
    count_act(user.principal)
    try:
        body = strict_json.read(request.POST.get("sample", ""))
    except ValueError as error:
        raise InvalidFields([("sample", f"The sample cannot be read. {error}")]) from None
    form.cleaned_data = {"name": "", "scheme": "bearer", **form.cleaned_data}
    return form.fill(IncomingWebhook()), body


def _trial(request: HttpRequest, about: dict[str, Any]) -> HttpResponse:
    with as_reader(request):
        return render(request, "web/_webhook_trial.html", about)


@require_POST
@never_cache
@login_required
@sensitive_post_parameters()
def act_on_webhook(request: HttpRequest, webhook: uuid.UUID) -> HttpResponse:
    """Pause, resume, replace the secret, or delete, as `do` says. A new secret is shown once, in this response."""
    found, do = _find(request, webhook), request.POST.get("do", "")
    try:
        match do:
            case "pause":
                incoming.pause(found)
            case "resume":
                incoming.resume(found)
            case "secret":
                count_key_change(principal_of(request))
                incoming.replace_secret(found, request.POST.get("secret", "").strip())
                with as_reader(request):
                    return _webhook_page(request, found, found.secret)
            case "delete":
                found.delete()
                messages.info(request, "The webhook was deleted. What it started stays.")
                return redirect("web:webhooks")
            case _:
                raise Http404
    except InvalidFields as refused:
        messages.error(request, " ".join(sentence for _, sentence in refused.violations))
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, str(refusal))
    return redirect("web:webhook", found.pk)


@require_POST
@login_required
def send_event_again(request: HttpRequest, webhook: uuid.UUID, event: uuid.UUID) -> HttpResponse:
    found = IncomingEvent.objects.filter(webhook=_find(request, webhook)).find(principal_of(request), event)
    try:
        count_act(principal_of(request))
        incoming.send_again(found)
        messages.info(request, "It was sent again.")
    except QuotaExceeded as refusal:
        messages.error(request, str(refusal))
    return redirect("web:webhook", webhook)


def _find(request: HttpRequest, key: uuid.UUID) -> IncomingWebhook:
    return IncomingWebhook.objects.select_related("agent").find(principal_of(request), key)
