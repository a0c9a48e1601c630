"""Notifications: by which channels the caller is told of their sessions, of what, and what was sent."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.accounts.people import mail
from apps.accounts.principals import READ
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Shape, page_of
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON
from apps.features.notifications import choices, push, sending
from apps.features.notifications.models import Channel, Kind, Notification
from apps.record.errors import InvalidFields

NEEDS_READ = "A channel tells what sessions say, so this key also needs the scope tasks:read."
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


class AgentKinds(Body):
    agent = Line(max_length=63, help_text="The slug of the agent.")
    kinds = _kinds(default=list, help_text="Of what of this agent's work the channel is told. By default of nothing.")


class Chosen(Body):
    kinds = _kinds(required=False, help_text="Of what the channel is told. By default of everything.")
    agents = AgentKinds(many=True, required=False, help_text="Agents for which it differs.")
    digest = Choice(Channel.Digest.choices, required=False, help_text="When letters are sent.")
    questions_at_once = serializers.BooleanField(
        required=False, help_text="Whether questions do not wait for the next letter."
    )


class ChannelKeys(Body):
    p256dh = Line(max_length=200)
    auth = Line(max_length=100)


class NewChannel(Chosen):
    type = Choice(Channel.Type.choices)
    name = Line(max_length=120, required=False, allow_blank=True)
    url = Line(
        max_length=2048,
        required=False,
        allow_blank=True,
        help_text="Of a webhook, of Slack, or the `endpoint` of a browser's subscription. None for mail.",
    )
    keys = ChannelKeys(required=False, help_text="Of a browser's subscription.")


class ChangedChannel(Chosen):
    """Only the fields to change."""

    name = Line(max_length=120, required=False, allow_blank=True)
    is_on = serializers.BooleanField(required=False)


class ChannelChoices(Chosen):
    channel = serializers.UUIDField()


class AllChoices(Body):
    choices = ChannelChoices(many=True)


class AgentKindsShape(Shape):
    agent = serializers.CharField()
    kinds = _kinds()


@extend_schema_serializer(component_name="NotificationChannel")
class ChannelShape(Shape):
    """Where you are told. Its address is a secret, which is not shown again."""

    id = serializers.UUIDField()
    type = serializers.ChoiceField(Channel.Type.choices)
    name = serializers.CharField()
    is_on = serializers.BooleanField()
    problem = serializers.CharField(help_text="Why Parley switched it off. Empty if it did not.")
    kinds = _kinds()
    agents = AgentKindsShape(many=True)
    digest = serializers.ChoiceField(Channel.Digest.choices)
    questions_at_once = serializers.BooleanField()
    created_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="NewNotificationChannel")
class MadeChannelShape(ChannelShape):
    secret = serializers.CharField(help_text="Signs a webhook's calls, and is shown only now. Empty for others.")


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
class DeliveryShape(Shape):
    id = serializers.UUIDField()
    channel_id = serializers.UUIDField()
    session_id = serializers.UUIDField(source="context")
    task_id = serializers.UUIDField(source="task")
    kind = serializers.ChoiceField(Kind.choices)
    state = serializers.ChoiceField(Notification.State.choices)
    reason = serializers.CharField(help_text="Why it was skipped, or not sent yet.")
    attempts = serializers.IntegerField()
    status = serializers.IntegerField(
        source="last_status", allow_null=True, help_text="The HTTP status of the last answer."
    )
    due_at = serializers.DateTimeField()
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class ChannelEndpoint(Endpoint):
    def check_reach(self) -> None:
        """A channel tells what the caller may read. Raises PermissionDenied."""
        if not self.principal.may(READ):
            raise PermissionDenied(NEEDS_READ)
        if self.principal.agents is not None:
            raise PermissionDenied("This key is for some agents alone. A channel is told of all.")

    def find(self, key: uuid.UUID) -> Channel:
        """Raises NotFound."""
        return Channel.objects.select_related("user").find(self.principal, key)

    def shown(self, rows: Sequence[Channel]) -> list[JSON]:
        """With the agents for which they differ, as far as the caller sees them."""
        seen = choices.agents_of(self.principal, rows)
        return [
            ChannelShape.json_of(
                row,
                agents=[{"agent": seen[key].slug, "kinds": kinds} for key, kinds in row.agents.items() if key in seen],
            )
            for row in rows
        ]


class Notifications(ChannelEndpoint):
    @documented("notifications_retrieve", "Retrieve your choices", answers={200: NotificationsShape})
    def get(self, request: Request) -> Response:
        return self._overview()

    def _overview(self) -> Response:
        rows = list(Channel.objects.visible_to(self.principal).order_by("created_at", "pk"))
        return Response(
            {
                "channels": self.shown(rows),
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
        self.check_reach()
        asked = self.body(AllChoices)["choices"]
        with transaction.atomic():
            for one in asked:
                choices.change(self.principal, self._named(one.pop("channel")), one)
        return self._overview()

    def _named(self, key: uuid.UUID) -> Channel:
        """Raises InvalidFields."""
        found = Channel.objects.find_or_none(self.principal, key)
        if found is None:
            raise InvalidFields([("choices.channel", "There is no such channel.")])
        return found


class Channels(ChannelEndpoint):
    @documented("notification_channels_list", "List your channels", query=Listing, answers={200: page_of(ChannelShape)})
    def get(self, request: Request) -> Response:
        rows = Channel.objects.visible_to(self.principal)
        return self.page(rows, ("-created_at", "-id"), self.query(Listing), self.shown, "channels")

    @documented(
        "notification_channels_create",
        "Add a channel",
        body=NewChannel,
        answers={201: MadeChannelShape},
        refuses=[409],
        examples=[OpenApiExample("One letter an hour, and questions at once", EXAMPLE, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """A channel that a key adds is told only of sessions in the key's workspace."""
        self.check_reach()
        asked = self.body(NewChannel)
        quotas.count_act(self.principal)
        made, secret = choices.add(self.principal, asked)
        return Response({**self.shown([made])[0], "secret": secret}, status=201)


class OneChannel(ChannelEndpoint):
    @documented("notification_channels_retrieve", "Retrieve a channel", answers={200: ChannelShape})
    def get(self, request: Request, channel: uuid.UUID) -> Response:
        return Response(self.shown([self.find(channel)])[0])

    @documented("notification_channels_update", "Change a channel", body=ChangedChannel, answers={200: ChannelShape})
    def patch(self, request: Request, channel: uuid.UUID) -> Response:
        found, asked = self.find(channel), self.body(ChangedChannel)
        self.check_reach()
        return Response(self.shown([choices.change(self.principal, found, asked)])[0])

    @documented("notification_channels_delete", "Remove a channel", answers={204: None})
    def delete(self, request: Request, channel: uuid.UUID) -> Response:
        """What waits for it is not sent."""
        choices.remove(self.find(channel))
        return Response(status=204)


class TestChannel(ChannelEndpoint):
    @documented("notification_channels_test", "Send a test", answers={200: TestShape})
    async def post(self, request: Request, channel: uuid.UUID) -> Response:
        """It is sent at once, and not tried again."""
        found = await db.run(self.find, channel)
        await db.run(quotas.count_act, self.principal)
        result = await sending.sent_once(await db.run(sending.test_message, found))
        return Response({"isSent": result.is_success, "status": result.status, "detail": result.words})


class RotateChannel(ChannelEndpoint):
    @documented("notification_channels_rotate", "Give a webhook a new secret", answers={200: SecretShape})
    def post(self, request: Request, channel: uuid.UUID) -> Response:
        """The old secret signs for a day beside the new one."""
        found = self.find(channel)
        self.check_reach()
        return Response({"secret": choices.rotate(found)})


class WebhookSecret(ChannelEndpoint):
    @documented("notifications_rotate_secret", "Make the secret of your A2A webhooks", answers={200: SecretShape})
    def post(self, request: Request) -> Response:
        """It signs all calls to webhooks of your tasks. The one before signs for a day beside it."""
        self.check_reach()
        assert self.principal.user_id is not None
        return Response({"secret": choices.rotate_webhook_secret(self.principal.user_id)})


class Deliveries(ChannelEndpoint):
    @documented(
        "notification_deliveries_list",
        "List what was sent to your channels, newest first",
        query=Listing,
        answers={200: page_of(DeliveryShape)},
    )
    def get(self, request: Request) -> Response:
        rows = Notification.objects.visible_to(self.principal)
        return self.page(rows, ("-created_at", "-id"), self.query(Listing), DeliveryShape.list_of, "notifications")


urlpatterns = [
    path("notifications", Notifications.as_view(), name="notifications"),
    path("notifications/secret", WebhookSecret.as_view(), name="webhook-secret"),
    path("notifications/deliveries", Deliveries.as_view(), name="notification-deliveries"),
    path("notifications/channels", Channels.as_view(), name="notification-channels"),
    path("notifications/channels/<uuid:channel>", OneChannel.as_view(), name="notification-channel"),
    path("notifications/channels/<uuid:channel>/test", TestChannel.as_view(), name="test-notification-channel"),
    path("notifications/channels/<uuid:channel>/rotate", RotateChannel.as_view(), name="rotate-notification-channel"),
]
