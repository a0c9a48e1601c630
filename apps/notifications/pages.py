"""By which channels the person is told of their sessions, and of what."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.pages.account import saved
from apps.accounts.people import mail
from apps.accounts.requests.quotas import QuotaExceeded
from apps.accounts.resources import Act
from apps.agents.models import Agent
from apps.notifications import choices, push, wording
from apps.notifications.channel_types import channel_types
from apps.notifications.models import Channel, Kind, Notification, WebhookSigning
from apps.notifications.sending import CHANNELS
from apps.record.errors import Refusal
from apps.record.models import Context
from apps.web.resources import ResourceForm, words_of
from apps.web.settings.resources import SectionPages
from apps.web.settings.sections import person_of, private_view, settings_page
from apps.web.shell import View

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


class NewChannelForm(ResourceForm):
    """A channel that is an address: a webhook, Slack or another service. E-mail and browsers have a button each."""

    type = forms.ChoiceField(
        label="To",
        choices=lambda: [
            ("webhook", "A webhook of mine"),
            *((one.name, one.choice or one.label) for one in channel_types().values()),
        ],
        initial="webhook",
        widget=forms.RadioSelect,
    )
    url = forms.CharField(
        label="Address",
        max_length=2048,
        help_text="An https:// address. Parley stores it encrypted and does not show it again.",
        widget=forms.URLInput({"autocomplete": "off", "spellcheck": "false"}),
    )

    class Meta(ResourceForm.Meta):
        model = Channel
        fields = ("type", "name")
        help_texts = {"name": "Helps you recognize it in the list."}

    def clean(self) -> dict[str, Any]:
        self.instance.url = self.cleaned_data.get("url", "")
        return self.cleaned_data


class ChannelForm(ResourceForm):
    """What one channel is told."""

    kinds = kinds_field("Notify me here when")
    other_agent = forms.ModelChoiceField(
        Agent.objects, label="Agent", required=False, to_field_name="slug", empty_label="None"
    )
    other_kinds = kinds_field("For this agent, notify me when")

    class Meta(ResourceForm.Meta):
        model = Channel
        fields = ("is_on", "name", "kinds", "digest", "questions_at_once")
        labels = {"digest": "Send e-mails", "questions_at_once": "Send questions right away"}
        help_texts = {"digest": "", "questions_at_once": ""}
        widgets = {"digest": forms.RadioSelect}

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(user, *data, **options)
        for name in ("name",) if self.instance.type == Channel.Type.MAIL else ("digest", "questions_at_once"):
            del self.fields[name]
        self.differing = choices.seen_agents(user.principal, self.instance.agents)
        for key, agent in self.differing.items():
            self.fields[f"agent-{agent.slug}"] = kinds_field(f"With {agent.name}", self.instance.agents[key])
            self.fields[f"usual-{agent.slug}"] = forms.BooleanField(
                label="Same as for all other agents", required=False
            )
        others: Any = self.fields["other_agent"]
        others.queryset = others.queryset.exclude(pk__in=self.differing).order_by("name")

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        self.instance.agents = {
            key: given.get(f"agent-{agent.slug}", [])
            for key, agent in self.differing.items()
            if not given.get(f"usual-{agent.slug}")
        }
        if other := given.get("other_agent"):
            self.instance.agents[str(other.pk)] = given.get("other_kinds", [])
        return given


class ChannelPages(SectionPages[Channel]):
    """A new secret is shown once, in the answer that made it."""

    def act_view(self, act: Act[Channel]) -> View:
        usual = super().act_view(act)

        @private_view
        def rotated(request: HttpRequest, **key: Any) -> HttpResponseBase:
            channel, person = self.find(request, **key), person_of(request)
            if request.method != "POST" or not act.is_offered(channel):
                return usual(request, **key)
            form = ChannelForm(person, instance=act.perform(person.principal, channel))
            return self.show_form(request, form, secret=channel.secret)

        return rotated if act is choices.ROTATE else usual

    def added(self, request: HttpRequest, channel: Channel) -> HttpResponse:
        if channel.secret:
            form = ChannelForm(person_of(request), instance=channel)
            return self.show_form(request, form, secret=channel.secret)
        return saved(request, self.section, f"{channel} is added. Send a test to see that it arrives.")


pages = ChannelPages(CHANNELS, ChannelForm, section="notifications")


@private_view
def overview(request: HttpRequest) -> HttpResponse:
    """The choices for open pages, and the channels. `save` names what is posted."""
    person = User.objects.get(pk=person_of(request).pk)
    posted = request.POST.get("save", "pages") if request.method == "POST" else ""
    form = PagesForm(request.POST if posted == "pages" else None, instance=person)
    new = NewChannelForm(person, request.POST if posted == "channel" else None)
    if posted == "pages" and form.is_valid():
        person.save(update_fields=["notify_ended", "notify_questions"])
        return saved(request, "notifications")
    if posted == "mail":
        return _add_mail(request, person)
    if posted == "channel" and new.is_valid() and new.is_saved(CHANNELS):
        return pages.added(request, new.instance)
    return _overview(request, person, form, new)


def _add_mail(request: HttpRequest, person: User) -> HttpResponse:
    try:
        return pages.added(request, CHANNELS.store(person.principal, Channel(type=Channel.Type.MAIL)))
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, words_of(refusal))
        return redirect("web:settings-notifications")


def _overview(
    request: HttpRequest, person: User, form: PagesForm, new: NewChannelForm, secret: str = ""
) -> HttpResponse:
    principal = person.principal
    channels = list(Channel.objects.visible_to(principal).order_by("created_at", "pk"))
    told = Notification.objects.visible_to(principal).select_related("channel").order_by("-created_at", "-pk")
    deliveries = list(told[:MOST_DELIVERIES])
    sessions = Context.objects.filter(owner=person, deleted_at=None, pk__in={one.context for one in deliveries})
    titles = dict(sessions.values_list("pk", "title"))
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


@private_view
def make_secret(request: HttpRequest) -> HttpResponse:
    """The secret that signs A2A webhooks, shown once."""
    person = User.objects.get(pk=person_of(request).pk)
    if request.method != "POST":
        return redirect("web:settings-notifications")
    secret = choices.rotate_webhook_secret(person.pk)
    return _overview(request, person, PagesForm(instance=person), NewChannelForm(person), secret)


@csrf_exempt  # mail programs post without a page (RFC 8058); the signed link says who
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def stop(request: HttpRequest, token: str) -> HttpResponse:
    """What the link in a letter leads to. Only a POST switches it off: programs open links to check them."""
    found = wording.stopped_by(token)
    kind = Kind(found[1]).label if found and found[1] in Kind.values else ""
    is_known = found is not None and Channel.objects.filter(pk=found[0]).exists()
    if not is_known or found is None:
        return render(request, "notifications/stop_notifications.html", status=404)
    is_stopped = request.method == "POST" and choices.stop(*found)
    return render(
        request, "notifications/stop_notifications.html", {"found": found, "kind": kind, "is_stopped": is_stopped}
    )


urlpatterns = [
    path("settings/notifications", overview, name="settings-notifications"),
    path("settings/notifications/secret", make_secret, name="settings-webhook-secret"),
    *pages.row_urls("settings/notifications/channels"),
    path("notifications/stop/<str:token>", stop, name="stop-notifications"),
]
