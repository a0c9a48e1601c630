"""Notifications: by which channels the caller is told of their sessions, of what, and what was sent."""

from __future__ import annotations

import json
import uuid
from typing import Any, cast

from django.conf import settings
from django.db import transaction
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.people import mail
from apps.accounts.permissions import Permission
from apps.api.framework.resources import ModelShape, PartialShape, RequestShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Shape, page_of
from apps.api.framework.views import Endpoint
from apps.notifications import choices, push, sending
from apps.notifications.models import Channel, Kind, Notification
from apps.record.errors import InvalidFields
from parley import db

EXAMPLE = {"type": "mail", "kinds": ["failed", "asks"], "digest": "hour"}
CHOICES_EXAMPLE = {
    "choices": [
        {
            "channel": "5f3c3f1e-7d3b-4a9e-9f35-0b9f5a4d2c11",
            "kinds": ["failed", "asks"],
            "agents": [{"agent": "echo", "kinds": []}],
        }
    ]
}


def _kinds(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=Choice(Kind.choices), max_length=len(Kind), **options)


class ByAgent(serializers.ListSerializer[Any]):
    """The kinds of some agents: a list of {agent, kinds} to callers, a map by key in the model."""

    def to_internal_value(self, data: Any) -> Any:
        return choices.kinds_by_agent(self.context["caller"], super().to_internal_value(data))

    def to_representation(self, agents: Any) -> Any:
        seen = self.context.get("seen_agents")
        if seen is None:
            seen = choices.seen_agents(self.context["caller"], agents)
        return [{"agent": seen[key].slug, "kinds": kinds} for key, kinds in agents.items() if key in seen]


class AgentKinds(Body):
    agent = Line(max_length=63, help_text="The slug of the agent.")
    kinds = _kinds(default=list, help_text="Of what of this agent's work the channel is told. By default of nothing.")

    class Meta:
        list_serializer_class = ByAgent


class Chosen(RequestShape):
    kinds = _kinds(required=False, help_text="Of what the channel is told. By default of everything.")
    agents = AgentKinds(many=True, required=False, help_text="Agents for which it differs.")

    class Meta:
        model = Channel
        fields: tuple[str, ...] = ("kinds", "agents", "digest", "questions_at_once")


class ChannelKeys(Body):
    p256dh = Line(max_length=200)
    auth = Line(max_length=100)

    def to_internal_value(self, data: Any) -> str:
        return json.dumps(super().to_internal_value(data))


class NewChannel(Chosen):
    url = Line(
        max_length=2048,
        required=False,
        allow_blank=True,
        help_text="Of a webhook, of Slack, or the `endpoint` of a browser's subscription. None for mail.",
    )
    keys = ChannelKeys(source="push_keys", required=False, help_text="Of a browser's subscription.")

    class Meta(Chosen.Meta):
        fields = (*Chosen.Meta.fields, "type", "name", "url", "keys")


class ChangedChannel(PartialShape, Chosen):
    """Only the fields to change."""

    class Meta(Chosen.Meta):
        fields = (*Chosen.Meta.fields, "name", "is_on")


class ChannelChoices(Chosen):
    channel = serializers.UUIDField()

    class Meta(Chosen.Meta):
        fields = (*Chosen.Meta.fields, "channel")


class AllChoices(Body):
    choices = ChannelChoices(many=True)


class AgentKindsShape(Shape):
    agent = serializers.CharField()
    kinds = _kinds()

    class Meta:
        list_serializer_class = ByAgent


class SeveralChannels(serializers.ListSerializer[Any]):
    """Reads the agents of all channels at once."""

    def to_representation(self, data: Any) -> Any:
        channels = list(data)
        keys = {key for channel in channels for key in channel.agents}
        cast("dict[str, Any]", self.context)["seen_agents"] = choices.seen_agents(self.context["caller"], keys)
        return super().to_representation(channels)


@extend_schema_serializer(component_name="NotificationChannel")
class ChannelShape(ModelShape):
    """Where you are told. Its address is a secret, which is not shown again."""

    kinds = _kinds()
    agents = AgentKindsShape(many=True)

    class Meta:
        model = Channel
        list_serializer_class = SeveralChannels
        fields: tuple[str, ...] = (
            "id", "type", "name", "is_on", "problem", "kinds", "agents", "digest", "questions_at_once", "created_at",
        )  # fmt: skip


@extend_schema_serializer(component_name="NewNotificationChannel")
class MadeChannelShape(ChannelShape):
    secret = serializers.CharField(help_text="Signs a webhook's calls, and is shown only now. Empty for others.")

    class Meta(ChannelShape.Meta):
        fields = (*ChannelShape.Meta.fields, "secret")


@extend_schema_serializer(component_name="WebhookSecret")
class SecretShape(Shape):
    secret = serializers.CharField(help_text="Shown only now.")


@extend_schema_serializer(component_name="NotificationTest")
class TestShape(Shape):
    is_sent = serializers.BooleanField()
    status = serializers.IntegerField(allow_null=True, help_text="The HTTP status of the receiver's answer.")
    detail = serializers.CharField(help_text="What happened, for people.")


@extend_schema_serializer(component_name="Notifications")
class NotificationsShape(Shape):
    """By which channels you are told, and of what."""

    channels = ChannelShape(many=True)
    wait_seconds = serializers.FloatField(help_text="The wait before people are told. Webhooks are called at once.")
    can_mail = serializers.BooleanField(help_text="Whether this installation sends e-mail.")
    push_key = serializers.CharField(help_text="The `applicationServerKey` for browsers' subscriptions.")


@extend_schema_serializer(component_name="NotificationDelivery")
class DeliveryShape(ModelShape):
    channel_id = serializers.UUIDField()
    session_id = serializers.UUIDField(source="context")
    task_id = serializers.UUIDField(source="task")
    attempts = serializers.IntegerField()
    status = serializers.IntegerField(
        source="last_status", allow_null=True, help_text="The HTTP status of the last answer."
    )

    class Meta:
        model = Notification
        fields = (
            "id", "channel_id", "session_id", "task_id", "kind", "state", "reason", "attempts", "status", "due_at",
            "created_at", "finished_at",
        )  # fmt: skip


class Notifications(Endpoint):
    permissions = {"PUT": Permission.READ}  # the person's own channels

    @documented("notifications_retrieve", "Retrieve your choices", answers={200: NotificationsShape})
    def get(self, request: Request) -> Response:
        return self._overview()

    def _overview(self) -> Response:
        rows = Channel.objects.visible_to(self.principal).order_by("created_at", "pk")
        return Response(
            {
                "channels": ChannelShape(rows, many=True, context={"caller": self.principal}).data,
                "waitSeconds": settings.NOTIFY_WAIT_SECONDS,
                "canMail": mail.can_send(),
                "pushKey": push.push_key().public,
            }
        )

    @documented(
        "notifications_choose",
        "Choose of what your channels are told",
        body=AllChoices,
        answers={200: NotificationsShape},
        examples=[OpenApiExample("Only what needs you", CHOICES_EXAMPLE, request_only=True)],
    )
    def put(self, request: Request) -> Response:
        """Channels that are not named stay as they are. All changes are made, or none."""
        choices.check_reach(self.principal)
        with transaction.atomic():
            for asked in self.body(AllChoices)["choices"]:
                channel = self._named(asked.pop("channel"))
                for name, value in asked.items():
                    setattr(channel, name, value)
                sending.CHANNELS.store(self.principal, channel)
        return self._overview()

    def _named(self, key: uuid.UUID) -> Channel:
        """Raises InvalidFields."""
        found = Channel.objects.find_or_none(self.principal, key)
        if found is None:
            raise InvalidFields([("choices.channel", "There is no such channel.")])
        return found


class Channels(ResourceViewSet):
    resource = sending.CHANNELS
    operations, place = "notification_channels", "notifications/"
    shape, created = ChannelShape, MadeChannelShape
    new, changed = NewChannel, ChangedChannel
    answers = {sending.TEST.name: TestShape, choices.ROTATE.name: SecretShape}
    notes = {"create": "A channel that a key adds is told only of sessions in the key's workspace."}
    refuses = {"create": [409]}
    examples = (OpenApiExample("One letter an hour, and questions at once", EXAMPLE, request_only=True),)

    async def act_test(self, request: Request, **key: Any) -> Response:
        """On the event loop: while it waits for the receiver, it holds no thread."""
        found = await db.run(self.find, **key)
        await db.run(sending.TEST.admit, self.principal, found)
        result = await sending.sent_once(await db.run(sending.test_message, found))
        return Response({"isSent": result.is_success, "status": result.status, "detail": result.words})


class WebhookSecret(Endpoint):
    permissions = {"POST": Permission.READ}

    @documented("notifications_rotate_secret", "Make the secret of your A2A webhooks", answers={200: SecretShape})
    def post(self, request: Request) -> Response:
        """It signs all calls to webhooks of your tasks. The one before signs for a day beside it."""
        choices.check_reach(self.principal)
        assert self.principal.user_id is not None
        return Response({"secret": choices.rotate_webhook_secret(self.principal.user_id)})


class Deliveries(Endpoint):
    @documented(
        "notification_deliveries_list",
        "List what was sent to your channels, newest first",
        query=Listing,
        answers={200: page_of(DeliveryShape)},
    )
    def get(self, request: Request) -> Response:
        rows = Notification.objects.visible_to(self.principal)
        show = lambda found: DeliveryShape(found, many=True).data  # noqa: E731
        return self.page(rows, ("-created_at", "-id"), self.query(Listing), show)


urlpatterns = [
    path("notifications", Notifications.as_view(), name="notifications"),
    path("notifications/secret", WebhookSecret.as_view(), name="webhook-signing"),
    path("notifications/deliveries", Deliveries.as_view(), name="notification-deliveries"),
    *Channels.urls(),
]
