"""By which channels the person is told of their sessions, and of what."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from apps.accounts import quotas
from apps.accounts.models import User
from apps.accounts.people import mail
from apps.accounts.quotas import QuotaExceeded
from apps.agents.models import Agent
from apps.features.notifications import choices, push, sending, wording
from apps.features.notifications.models import Channel, Kind, Notification, WebhookSigning
from apps.record.errors import InvalidFields, UnsupportedOperation
from apps.record.models import Context
from apps.web.settings.account import saved
from apps.web.settings.sections import person_of, private_view, settings_page

MOST_DELIVERIES = 10  # on the page, the newest
KINDS = [(Kind.ENDED, "A task is done"), (Kind.FAILED, "A task fails"), (Kind.ASKS, "An agent asks you something")]


class PagesForm(forms.ModelForm):  # type: ignore[type-arg]
    """What pages and this browser tell while Parley is open."""

    class Meta:
        model = User
        fields = ("notify_ended", "notify_questions")
        labels = {
            "notify_ended": "An agent finishes or fails",
            "notify_questions": "An agent asks you something",
        }


def kinds_field(label: str, initial: list[str] | None = None) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        label=label, choices=KINDS, required=False, initial=initial, widget=forms.CheckboxSelectMultiple
    )


class NewChannelForm(forms.Form):
    """A channel that is an address: a webhook or Slack. E-mail and browsers have a button each."""

    type = forms.ChoiceField(
        label="To",
        choices=[("webhook", "A webhook of mine"), ("slack", "Slack, or what takes Slack's webhooks")],
        initial="webhook",
        widget=forms.RadioSelect,
    )
    name = forms.CharField(
        max_length=120, required=False, help_text="Helps you recognize it in the list.", widget=forms.TextInput
    )
    url = forms.CharField(
        label="Address",
        max_length=2048,
        help_text="An https:// address. Parley stores it encrypted and does not show it again.",
        widget=forms.URLInput({"autocomplete": "off", "spellcheck": "false"}),
    )


class ChannelForm(forms.Form):
    """What one channel is told."""

    is_on = forms.BooleanField(label="On", required=False)
    name = forms.CharField(max_length=120, required=False)
    kinds = kinds_field("Notify me here when")
    digest = forms.ChoiceField(label="Send e-mails", choices=Channel.Digest.choices, widget=forms.RadioSelect)
    questions_at_once = forms.BooleanField(label="Send questions right away", required=False)

    def __init__(self, person: User, channel: Channel, *args: Any, **kwargs: Any) -> None:
        self.person, self.channel = person, channel
        names = ("is_on", "name", "kinds", "digest", "questions_at_once")
        kwargs["initial"] = {name: getattr(channel, name) for name in names}
        super().__init__(*args, **kwargs)
        unfit = ["name"] if channel.type == Channel.Type.MAIL else ["digest", "questions_at_once"]
        for name in unfit:
            del self.fields[name]
        visible = Agent.objects.visible_to(person.principal)
        self.differing = {
            agent.slug: channel.agents[key] for key, agent in choices.agents_of(person.principal, [channel]).items()
        }
        names_of = dict(visible.order_by("name").values_list("slug", "name"))
        for slug, kinds in self.differing.items():
            self.fields[f"agent-{slug}"] = kinds_field(f"With {names_of.get(slug, slug)}", kinds)
            self.fields[f"usual-{slug}"] = forms.BooleanField(label="Same as for all other agents", required=False)
        others = [(slug, name) for slug, name in names_of.items() if slug not in self.differing]
        self.fields["other_agent"] = forms.ChoiceField(label="Agent", choices=[("", "None"), *others], required=False)
        self.fields["other_kinds"] = kinds_field("For this agent, notify me when")

    def save(self) -> None:
        """Raises InvalidFields."""
        cleaned = self.cleaned_data
        agents = [
            {"agent": slug, "kinds": cleaned[f"agent-{slug}"]}
            for slug in self.differing
            if not cleaned[f"usual-{slug}"]
        ]
        if cleaned["other_agent"]:
            agents.append({"agent": cleaned["other_agent"], "kinds": cleaned["other_kinds"]})
        names = ("is_on", "name", "kinds", "digest", "questions_at_once")
        values = {name: cleaned[name] for name in names if name in self.fields}
        choices.change(self.person.principal, self.channel, values | {"agents": agents})


@private_view
def overview(request: HttpRequest) -> HttpResponse:
    """The choices for open pages, and the channels. `save` names what is posted."""
    person = User.objects.get(pk=person_of(request).pk)
    posted = request.POST.get("save", "pages") if request.method == "POST" else ""
    form = PagesForm(request.POST if posted == "pages" else None, instance=person)
    new = NewChannelForm(request.POST if posted == "channel" else None)
    if posted == "pages" and form.is_valid():
        person.save(update_fields=["notify_ended", "notify_questions"])
        return saved(request, "notifications")
    if posted == "mail":
        return _add(request, person, new, {"type": Channel.Type.MAIL})
    if posted == "channel" and new.is_valid():
        return _add(request, person, new, new.cleaned_data)
    return _overview(request, person, form, new)


def _add(request: HttpRequest, person: User, new: NewChannelForm, values: dict[str, Any]) -> HttpResponse:
    try:
        quotas.count_act(person.principal)
        channel, secret = choices.add(person.principal, values)
    except InvalidFields as wrong:
        problem = wrong.violations[0][1]
        if new.is_bound:
            new.add_error("url", problem)
            return _overview(request, person, PagesForm(instance=person), new)
        messages.error(request, problem)
    except (UnsupportedOperation, QuotaExceeded) as refused:
        messages.error(request, str(refused))
    else:
        if secret:
            return _channel_page(request, channel, secret=secret)
        messages.success(request, f"{channel} is added. Send a test to see that it arrives.")
    return redirect("web:settings-notifications")


def _overview(
    request: HttpRequest, person: User, form: PagesForm, new: NewChannelForm, secret: str = ""
) -> HttpResponse:
    principal = person.principal
    channels = list(Channel.objects.visible_to(principal).order_by("created_at", "pk"))
    told = Notification.objects.visible_to(principal).select_related("channel").order_by("-created_at", "-pk")
    deliveries = list(told[:MOST_DELIVERIES])
    titles = dict(
        Context.objects.filter(owner=person, deleted_at=None, pk__in={one.context for one in deliveries}).values_list(
            "pk", "title"
        )
    )
    return settings_page(
        request,
        "notifications",
        form,
        new,
        form=form,
        new=new,
        channels=channels,
        deliveries=[(one, titles.get(one.context)) for one in deliveries],
        has_mail=any(one.type == Channel.Type.MAIL for one in channels),
        can_mail=mail.can_send(),
        push_key=push.push_key().public,
        signing=WebhookSigning.objects.filter(user=person).first(),
        secret=secret,
        wait=int(settings.NOTIFY_WAIT_SECONDS),
    )


def _found(request: HttpRequest, key: uuid.UUID) -> Channel:
    """Raises NotFound."""
    return Channel.objects.select_related("user").find(person_of(request).principal, key)


@private_view
def channel(request: HttpRequest, channel: uuid.UUID) -> HttpResponse:
    """What it is told."""
    found = _found(request, channel)
    form = ChannelForm(found.user, found, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            form.save()
            return saved(request, "notifications")
        except InvalidFields as wrong:
            form.add_error(None, str(wrong))
    return _channel_page(request, found, form)


def _channel_page(
    request: HttpRequest, found: Channel, form: ChannelForm | None = None, secret: str = ""
) -> HttpResponse:
    form = form or ChannelForm(found.user, found)
    about = {"template": "web/settings_channel.html", "channel": found, "form": form, "secret": secret}
    return settings_page(request, "notifications", form, **about)


@private_view
def test(request: HttpRequest, channel: uuid.UUID) -> HttpResponse:
    """Sends a test, and says what happened."""
    found = _found(request, channel)
    if request.method != "POST":
        return redirect("web:settings-notifications")
    try:
        quotas.count_act(found.user.principal)
        result = sending.send_test(found)
    except QuotaExceeded as exceeded:
        messages.error(request, str(exceeded))
    else:
        tell = messages.success if result.is_success else messages.error
        tell(request, f"{found}: {'the test is sent' if result.is_success else 'the test failed'}. {result.words}")
    return redirect("web:settings-notifications")


@private_view
def rotate(request: HttpRequest, channel: uuid.UUID) -> HttpResponse:
    """A webhook's new secret, shown once."""
    found = _found(request, channel)
    if request.method != "POST" or found.type != Channel.Type.WEBHOOK:
        return redirect("web:settings-channel", found.pk)
    return _channel_page(request, found, secret=choices.rotate(found))


@private_view
def remove(request: HttpRequest, channel: uuid.UUID) -> HttpResponse:
    found = _found(request, channel)
    if request.method == "POST":
        choices.remove(found)
        messages.success(request, f"{found} is removed.")
    return redirect("web:settings-notifications")


@private_view
def make_secret(request: HttpRequest) -> HttpResponse:
    """The secret that signs A2A webhooks, shown once."""
    person = User.objects.get(pk=person_of(request).pk)
    if request.method != "POST":
        return redirect("web:settings-notifications")
    secret = choices.rotate_webhook_secret(person.pk)
    return _overview(request, person, PagesForm(instance=person), NewChannelForm(), secret)


@csrf_exempt  # mail programs post without a page (RFC 8058); the signed link says who
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def stop(request: HttpRequest, token: str) -> HttpResponse:
    """What the link in a letter leads to. Only a POST switches it off: programs open links to check them."""
    found = wording.stopped_by(token)
    kind = Kind(found[1]).label if found and found[1] in Kind.values else ""
    is_known = found is not None and Channel.objects.filter(pk=found[0]).exists()
    if not is_known or found is None:
        return render(request, "web/stop_notifications.html", status=404)
    is_stopped = request.method == "POST" and choices.stop(*found)
    return render(request, "web/stop_notifications.html", {"found": found, "kind": kind, "is_stopped": is_stopped})
