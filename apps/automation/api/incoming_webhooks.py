"""Incoming webhooks: events of other systems that start agents and plans."""

from __future__ import annotations

from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.requests import quotas
from apps.accounts.secrets import webhook_signatures
from apps.api.framework.resources import ModelShape, PartialShape, RequestShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import AnyValue, Body, Choice, Line, Shape, Struct, camel
from apps.api.framework.views import Endpoint
from apps.automation import incoming
from apps.automation.api.targets import Target
from apps.automation.models import IncomingEvent, IncomingWebhook
from parley import db

EXAMPLE = {
    "name": "Pull requests",
    "agent": "reviewer",
    "scheme": "github",
    "onlyIf": "event.type == 'pull_request' and body.action == 'opened'",
    "text": "Review {{ body.pull_request.html_url }}",
}


@extend_schema_serializer(component_name="WebhookSignature")
class Signature(Body):
    header = Line(max_length=100, help_text="The header with the signature, such as `X-Signature`.")
    algorithm = Choice(webhook_signatures.ALGORITHMS, required=False, help_text="By default sha256.")
    encoding = Choice(webhook_signatures.ENCODINGS, required=False, help_text="By default hex.")
    prefix = Line(required=False, max_length=50, allow_blank=True, help_text="Before the signature: `sha256=`.")
    timestamp_header = Line(
        required=False, max_length=100, allow_blank=True,
        help_text="The header with the time, in seconds or milliseconds since 1970, which may be five minutes off.",
    )  # fmt: skip
    signed = Line(
        required=False, max_length=100, allow_blank=True,
        help_text="What is signed. By default `{body}`, or with a time, `{timestamp}.{body}`.",
    )  # fmt: skip


class StoredSignature(Struct):
    def to_representation(self, value: Any) -> Any:
        return {camel(name): option for name, option in value.items()} or None


class Address(serializers.URLField):
    def get_attribute(self, instance: IncomingWebhook) -> str:
        return incoming.address_of(instance)


@extend_schema_serializer(component_name="IncomingWebhook")
class IncomingWebhookShape(ModelShape):
    """An address at which events of another system start an agent or a plan, as you."""

    address = Address(read_only=True, help_text="Where the sender posts its events.")
    agent = Target()
    signature = StoredSignature(allow_null=True, read_only=True, help_text="Only of the scheme `hmac`.")

    class Meta:
        model = IncomingWebhook
        fields: tuple[str, ...] = (
            "id", "name", "address", "agent", "scheme", "signature", "text", "inputs", "only_if", "paused_at",
            "last_event_at", "old_secret_until", "created_at", "updated_at",
        )  # fmt: skip


@extend_schema_serializer(component_name="IncomingWebhookWithSecret")
class WebhookWithSecretShape(IncomingWebhookShape):
    secret = serializers.CharField(read_only=True, help_text="Shown only now.")

    class Meta(IncomingWebhookShape.Meta):
        fields = (*IncomingWebhookShape.Meta.fields, "secret")


def _secret() -> Line:
    words = "The sender's own. By default one is made."
    return Line(required=False, max_length=500, allow_blank=True, help_text=words)


class Templates(RequestShape):
    agent = Target()
    signature = Signature(required=False, help_text="How the sender signs; only of the scheme `hmac`.")

    class Meta:
        model = IncomingWebhook
        fields: tuple[str, ...] = ("agent", "text", "inputs", "signature", "only_if")


class NewWebhook(Templates):
    secret = _secret()

    class Meta(Templates.Meta):
        fields = (*Templates.Meta.fields, "name", "scheme", "secret")


class ChangedWebhook(PartialShape, Templates):
    """Only the fields to change."""

    class Meta(Templates.Meta):
        fields = (*Templates.Meta.fields, "name")


class NewSecret(Body):
    secret = _secret()


class Sample(Templates):
    body = AnyValue(help_text="The event's body.")
    headers = Struct(required=False, help_text="The event's headers.")
    type = Line(required=False, allow_blank=True, max_length=200, help_text="What happened, as the sender names it.")

    class Meta(Templates.Meta):
        fields = (*Templates.Meta.fields, "body", "headers", "type")


@extend_schema_serializer(component_name="IncomingEvent")
class IncomingEventShape(ModelShape):
    """An event that came in."""

    type = serializers.CharField(source="kind", help_text="What happened, as the sender names it.")
    body = serializers.JSONField()
    repeats = serializers.UUIDField(source="repeats_id", allow_null=True, help_text="The event that was sent again.")
    task_id = serializers.UUIDField(
        allow_null=True, help_text="The task that it started. A plan's run has the same id."
    )
    session_id = serializers.UUIDField(source="task.context_id", allow_null=True)

    class Meta:
        model = IncomingEvent
        fields = (
            "id", "event_id", "type", "state", "reason", "body", "headers", "repeats", "task_id", "session_id",
            "received_at",
        )  # fmt: skip


@extend_schema_serializer(component_name="IncomingPreview")
class FilledShape(Shape):
    starts = serializers.BooleanField()
    reason = serializers.CharField(help_text="Why nothing would start.")
    text = serializers.CharField()
    inputs = Struct()


class Webhooks(ResourceViewSet):
    resource = incoming.WEBHOOKS
    operations = "incoming_webhooks"
    title = "an incoming webhook"
    shape, created = IncomingWebhookShape, WebhookWithSecretShape
    new, changed = NewWebhook, ChangedWebhook
    lists = {"events": (incoming.EVENTS, IncomingEventShape, "List the events that came in, newest first")}
    notes = {
        "create": "What its events start is yours, and your budgets and limits apply.",
        "update": "Its address and secret stay.",
    }
    refuses = {"create": [409]}
    examples = (OpenApiExample("GitHub's pull requests", EXAMPLE, request_only=True),)

    @documented("incoming_webhooks_secret", "Replace the secret", body=NewSecret, answers={200: WebhookWithSecretShape})
    def secret(self, request: Request, **key: Any) -> Response:
        """The secret before counts for another 24 hours."""
        webhook, asked = self.find(**key), self.body(NewSecret)
        quotas.count_key_change(self.principal)
        return Response(WebhookWithSecretShape(incoming.replace_secret(webhook, asked.get("secret", ""))).data)

    @documented("incoming_webhooks_again", "Send an event again", answers={200: IncomingEventShape})
    def again(self, request: Request, **key: Any) -> Response:
        """The work starts again, by the templates as they are now."""
        found = (
            IncomingEvent.objects.select_related("task")
            .filter(webhook=self.find(**key))
            .find(self.principal, key["event"])
        )
        return Response(IncomingEventShape(incoming.SEND_AGAIN.perform(self.principal, found)).data)


class Preview(Endpoint):
    @documented(
        "incoming_webhooks_preview", "Preview what an event would start", body=Sample, answers={200: FilledShape}
    )
    async def post(self, request: Request) -> Response:
        """Nothing is saved, and nothing starts."""
        asked = await db.run(self.body, Sample)
        await db.run(quotas.count_act, self.principal)
        body, headers, kind = asked.pop("body"), asked.pop("headers", {}), asked.pop("type", "")
        filled = await incoming.preview(IncomingWebhook(**asked), body, headers, kind)
        answer = {"starts": not filled.ignored, "reason": filled.ignored}
        return Response(answer | {"text": filled.text, "inputs": filled.inputs})


urlpatterns = [
    path("webhooks/preview", Preview.as_view(), name="webhook-preview"),
    *Webhooks.urls(),
    path("webhooks/<uuid:webhook>/secret", Webhooks.at(post="secret"), name="webhook-secret"),
    path("webhooks/<uuid:webhook>/events/<uuid:event>/again", Webhooks.at(post="again"), name="webhook-event-again"),
]
