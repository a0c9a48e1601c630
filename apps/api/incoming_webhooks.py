"""Incoming webhooks: events of other systems that start agents and plans."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas, webhook_signatures
from apps.api.framework.schema import documented
from apps.api.framework.serializers import AnyValue, Body, Choice, Line, Listing, Shape, Struct, camel, page_of
from apps.api.framework.views import Endpoint
from apps.api.messages import MAX_TEXT
from apps.api.shapes import JSON, optional_timestamp, timestamp
from apps.automation import incoming, targets
from apps.automation.models import IncomingEvent, IncomingWebhook

EXAMPLE = {
    "name": "Pull requests",
    "agent": "reviewer",
    "scheme": "github",
    "onlyIf": "event.type == 'pull_request' and body.action == 'opened'",
    "text": "Review {{ body.pull_request.html_url }}",
}
NAMES = "It may use `body`, `headers` (by lower-case names), `event.id` and `event.type`."


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


class Templates(Body):
    agent = Line(max_length=63, help_text="The slug of the agent or the plan.")
    text = serializers.CharField(
        required=False, max_length=MAX_TEXT, allow_blank=True, trim_whitespace=False,
        help_text=f"The template (Jinja) of the message. {NAMES}",
    )  # fmt: skip
    inputs = Struct(
        required=False,
        help_text="A plan's inputs, or data that an agent gets with the text. Its texts are templates, too.",
    )
    signature = Signature(required=False, help_text="How the sender signs; only of the scheme `hmac`.")
    only_if = Line(
        required=False, max_length=1000, allow_blank=True,
        help_text=f"An expression: events for which it does not hold start nothing. {NAMES}",
    )  # fmt: skip


class NewWebhook(Templates):
    name = Line()
    scheme = Choice(webhook_signatures.CHOICES, help_text="How the sender shows that it knows the secret.")
    secret = Line(
        required=False, max_length=500, allow_blank=True, help_text="The sender's own. By default one is made."
    )


class ChangedWebhook(Templates):
    """Only the fields to change."""

    name = Line()

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "partial": True})


class NewSecret(Body):
    secret = Line(
        required=False, max_length=500, allow_blank=True, help_text="The sender's own. By default one is made."
    )


class Sample(Templates):
    body = AnyValue(help_text="The event's body.")
    headers = Struct(required=False, help_text="The event's headers.")
    type = Line(required=False, allow_blank=True, max_length=200, help_text="What happened, as the sender names it.")


@extend_schema_serializer(component_name="IncomingWebhook")
class IncomingWebhookShape(Shape):
    """An address at which events of another system start an agent or a plan, as you."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    address = serializers.URLField(help_text="Where the sender posts its events.")
    agent = serializers.CharField(allow_null=True, help_text="The slug. Null if the agent was deleted.")
    scheme = serializers.ChoiceField(webhook_signatures.CHOICES)
    signature = Struct(allow_null=True, help_text="Only of the scheme `hmac`.")
    text = serializers.CharField()
    inputs = Struct()
    only_if = serializers.CharField()
    paused_at = serializers.DateTimeField(allow_null=True)
    last_event_at = serializers.DateTimeField(allow_null=True)
    old_secret_until = serializers.DateTimeField(
        allow_null=True, help_text="Until when the secret before counts as well."
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="IncomingWebhookWithSecret")
class IncomingWebhookWithSecretShape(IncomingWebhookShape):
    secret = serializers.CharField(help_text="Shown only now.")


@extend_schema_serializer(component_name="IncomingEvent")
class IncomingEventShape(Shape):
    """An event that came in."""

    id = serializers.UUIDField()
    event_id = serializers.CharField(help_text="The sender's id.")
    type = serializers.CharField(help_text="What happened, as the sender names it.")
    state = serializers.ChoiceField(IncomingEvent.State.choices)
    reason = serializers.CharField(help_text="Why it was ignored or could not start.")
    body = serializers.JSONField()
    headers = Struct()
    repeats = serializers.UUIDField(allow_null=True, help_text="The event that was sent again.")
    task_id = serializers.UUIDField(
        allow_null=True, help_text="The task that it started. A plan's run has the same id."
    )
    session_id = serializers.UUIDField(allow_null=True)
    received_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="IncomingPreview")
class FilledShape(Shape):
    starts = serializers.BooleanField()
    reason = serializers.CharField(help_text="Why nothing would start.")
    text = serializers.CharField()
    inputs = Struct()


class WebhookEndpoint(Endpoint):
    def fill(self, webhook: IncomingWebhook, asked: JSON) -> IncomingWebhook:
        """Raises InvalidFields."""
        if (slug := asked.pop("agent", None)) is not None:
            webhook.agent = targets.find_target(self.principal, slug)
        for name, value in asked.items():
            setattr(webhook, name, value)
        return webhook

    def find(self, key: uuid.UUID) -> IncomingWebhook:
        """Raises NotFound."""
        return IncomingWebhook.objects.select_related("agent").find(self.principal, key)


class Webhooks(WebhookEndpoint):
    @documented(
        "incoming_webhooks_list",
        "List your incoming webhooks, newest first",
        query=Listing,
        answers={200: page_of(IncomingWebhookShape)},
    )
    def get(self, request: Request) -> Response:
        rows = IncomingWebhook.objects.visible_to(self.principal).select_related("agent")
        return self.page(rows, ("-created_at", "-id"), self.query(Listing), webhooks_json, "incoming-webhooks")

    @documented(
        "incoming_webhooks_create",
        "Create an incoming webhook",
        body=NewWebhook,
        answers={201: IncomingWebhookWithSecretShape},
        refuses=[409],
        examples=[OpenApiExample("GitHub's pull requests", EXAMPLE, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """What its events start is yours, and your budgets and limits apply."""
        asked = self.body(NewWebhook)
        quotas.count_act(self.principal)
        secret = asked.pop("secret", "")
        made = incoming.save(self.principal, self.fill(IncomingWebhook(), asked), secret)
        return Response(webhook_json(made) | {"secret": made.secret}, status=201)


class OneWebhook(WebhookEndpoint):
    @documented("incoming_webhooks_retrieve", "Retrieve an incoming webhook", answers={200: IncomingWebhookShape})
    def get(self, request: Request, webhook: uuid.UUID) -> Response:
        return Response(webhook_json(self.find(webhook)))

    @documented(
        "incoming_webhooks_update",
        "Change an incoming webhook",
        body=ChangedWebhook,
        answers={200: IncomingWebhookShape},
    )
    def patch(self, request: Request, webhook: uuid.UUID) -> Response:
        """Its address and secret stay."""
        found, asked = self.find(webhook), self.body(ChangedWebhook)
        return Response(webhook_json(incoming.save(self.principal, self.fill(found, asked))))

    @documented("incoming_webhooks_delete", "Delete an incoming webhook and its events", answers={204: None})
    def delete(self, request: Request, webhook: uuid.UUID) -> Response:
        """The tasks that it started stay."""
        self.find(webhook).delete()
        return Response(status=204)


class Pause(WebhookEndpoint):
    @documented("incoming_webhooks_pause", "Pause an incoming webhook", answers={200: IncomingWebhookShape})
    def post(self, request: Request, webhook: uuid.UUID) -> Response:
        """Events are still accepted and listed, but start nothing."""
        incoming.pause(self.find(webhook))
        return Response(webhook_json(self.find(webhook)))


class Resume(WebhookEndpoint):
    @documented("incoming_webhooks_resume", "Resume a paused incoming webhook", answers={200: IncomingWebhookShape})
    def post(self, request: Request, webhook: uuid.UUID) -> Response:
        incoming.resume(self.find(webhook))
        return Response(webhook_json(self.find(webhook)))


class Secret(WebhookEndpoint):
    @documented(
        "incoming_webhooks_secret", "Replace the secret", body=NewSecret, answers={200: IncomingWebhookWithSecretShape}
    )
    def post(self, request: Request, webhook: uuid.UUID) -> Response:
        """The secret before counts for another 24 hours."""
        found, asked = self.find(webhook), self.body(NewSecret)
        quotas.count_key_change(self.principal)
        changed = incoming.replace_secret(found, asked.get("secret", ""))
        return Response(webhook_json(changed) | {"secret": changed.secret})


class Events(WebhookEndpoint):
    @documented(
        "incoming_webhooks_events",
        "List the events that came in, newest first",
        query=Listing,
        answers={200: page_of(IncomingEventShape)},
    )
    def get(self, request: Request, webhook: uuid.UUID) -> Response:
        found = self.find(webhook)
        rows = IncomingEvent.objects.visible_to(self.principal).filter(webhook=found).select_related("task")
        return self.page(rows, ("-received_at", "-id"), self.query(Listing), events_json, "events", str(found.pk))


class SendAgain(WebhookEndpoint):
    @documented("incoming_webhooks_again", "Send an event again", answers={200: IncomingEventShape})
    def post(self, request: Request, webhook: uuid.UUID, event: uuid.UUID) -> Response:
        """The work starts again, by the templates as they are now."""
        found = IncomingEvent.objects.filter(webhook=self.find(webhook)).find(self.principal, event)
        quotas.count_act(self.principal)
        return Response(events_json([incoming.send_again(found)])[0])


class Preview(WebhookEndpoint):
    @documented(
        "incoming_webhooks_preview", "Preview what an event would start", body=Sample, answers={200: FilledShape}
    )
    async def post(self, request: Request) -> Response:
        """Nothing is saved, and nothing starts."""
        asked = await db.run(self.body, Sample)
        await db.run(quotas.count_act, self.principal)
        body, headers, kind = asked.pop("body"), asked.pop("headers", {}), asked.pop("type", "")
        webhook = await db.run(self.fill, IncomingWebhook(), asked)
        filled = await incoming.preview(webhook, body, headers, kind)
        answer = {"starts": not filled.ignored, "reason": filled.ignored}
        return Response(answer | {"text": filled.text, "inputs": filled.inputs})


def webhooks_json(rows: Sequence[IncomingWebhook]) -> list[JSON]:
    return [webhook_json(row) for row in rows]


def webhook_json(row: IncomingWebhook) -> JSON:
    """With its agent loaded; without its secret."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "address": incoming.address_of(row),
        "agent": row.agent.slug if row.agent else None,
        "scheme": row.scheme,
        "signature": {camel(name): value for name, value in (row.signature or {}).items()} or None,
        "text": row.text,
        "inputs": row.inputs,
        "onlyIf": row.only_if,
        "pausedAt": optional_timestamp(row.paused_at),
        "lastEventAt": optional_timestamp(row.last_event_at),
        "oldSecretUntil": optional_timestamp(row.old_secret_until),
        "createdAt": timestamp(row.created_at),
        "updatedAt": timestamp(row.updated_at),
    }


def events_json(rows: Sequence[IncomingEvent]) -> list[JSON]:
    return [
        {
            "id": str(row.pk),
            "eventId": row.event_id,
            "type": row.kind,
            "state": row.state,
            "reason": row.reason,
            "body": row.body,
            "headers": row.headers,
            "repeats": str(row.repeats_id) if row.repeats_id else None,
            "taskId": str(row.task_id) if row.task_id else None,
            "sessionId": str(row.task.context_id) if row.task else None,
            "receivedAt": timestamp(row.received_at),
        }
        for row in rows
    ]


urlpatterns = [
    path("webhooks", Webhooks.as_view(), name="webhooks"),
    path("webhooks/preview", Preview.as_view(), name="webhook-preview"),
    path("webhooks/<uuid:webhook>", OneWebhook.as_view(), name="webhook"),
    path("webhooks/<uuid:webhook>/pause", Pause.as_view(), name="webhook-pause"),
    path("webhooks/<uuid:webhook>/resume", Resume.as_view(), name="webhook-resume"),
    path("webhooks/<uuid:webhook>/secret", Secret.as_view(), name="webhook-secret"),
    path("webhooks/<uuid:webhook>/events", Events.as_view(), name="webhook-events"),
    path("webhooks/<uuid:webhook>/events/<uuid:event>/again", SendAgain.as_view(), name="webhook-event-again"),
]
