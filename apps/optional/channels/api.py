"""Chat channels in the client API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.framework.resources import ModelShape, PartialShape, RequestShape, ResourceViewSet
from apps.api.framework.serializers import Shape, Struct
from apps.automation.api.targets import Target
from apps.optional.channels import channels
from apps.optional.channels.models import ChatChannel
from parley import db

LETTERS = {
    "name": "Letters",
    "platform": "mail",
    "agent": "echo",
    "credentials": {"address": "agent@example.org", "secret": "0123456789abcdef", "checked_by": "mx.example.org"},
}
SLACK = {
    "name": "Help desk",
    "platform": "slack",
    "agent": "echo",
    "credentials": {"bot_token": "xoxb-1-a", "signing_secret": "0123456789abcdef"},
}


class Address(serializers.URLField):
    def get_attribute(self, instance: ChatChannel) -> str:
        return channels.address_of(instance)


class Settings(Struct):
    def get_attribute(self, instance: ChatChannel) -> Any:
        return channels.shown_settings(instance)


class Credentials(serializers.DictField):
    child = serializers.CharField(max_length=channels.MOST_SETTING, allow_blank=True)


@extend_schema_serializer(component_name="ChatChannel")
class ChatChannelShape(ModelShape):
    """An agent at a platform, where people talk to it."""

    address = Address(read_only=True, help_text="What the platform is given as the address of its events.")
    agent = Target()
    settings = Settings(read_only=True, help_text="The platform's settings; of secrets, whether they are saved.")

    class Meta:
        model = ChatChannel
        fields: tuple[str, ...] = (
            "id", "name", "platform", "agent", "takes_guests", "address", "settings", "identity", "problem",
            "last_event_at", "paused_at", "created_at", "updated_at",
        )  # fmt: skip


class ChangedFields(RequestShape):
    agent = Target()
    credentials = Credentials(
        required=False,
        help_text="The platform's settings by name. Secrets are never shown; a blank one stays as it is. Another blank "
        "setting is removed. With another address, its secret is needed again.",
    )

    class Meta:
        model = ChatChannel
        fields: tuple[str, ...] = ("name", "agent", "takes_guests", "credentials")


class NewChatChannel(ChangedFields):
    class Meta(ChangedFields.Meta):
        fields = ("platform", *ChangedFields.Meta.fields)


class ChangedChatChannel(PartialShape, ChangedFields):
    """Only the fields to change."""

    class Meta(ChangedFields.Meta):
        pass


@extend_schema_serializer(component_name="ChatChannelTested")
class TestedShape(Shape):
    works = serializers.BooleanField()
    detail = serializers.CharField(help_text="Who the agent is there, or what is wrong.")


class Channels(ResourceViewSet):
    resource = channels.CHANNELS
    operations = "chat_channels"
    title = "a chat channel"
    shape = ChatChannelShape
    new, changed = NewChatChannel, ChangedChatChannel
    answers = {channels.TEST.name: TestedShape}
    examples = (
        OpenApiExample("An e-mail address", LETTERS, request_only=True),
        OpenApiExample("A Slack app", SLACK, request_only=True),
    )

    async def act_test(self, request: Request, **key: Any) -> Response:
        """On the event loop: while it waits for the platform, it holds no thread."""
        found = await db.run(self.find, **key)
        await db.run(channels.TEST.admit, self.principal, found)
        checked = await channels.check(found)
        await db.run(channels.note, found, checked)
        return Response({"works": not checked.problem, "detail": checked.words})


urlpatterns = Channels.urls()
