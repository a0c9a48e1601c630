"""What waits in a session until its agent is done, to be sent then in its order."""

from __future__ import annotations

import uuid

from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.api.fields import Body, Line, Shape, Struct
from apps.api.idempotency import key_of
from apps.api.messages import MOST_REFERENCES
from apps.api.parts import MOST_WORDS, parts_field, parts_of
from apps.api.schema import documented
from apps.api.sending import check_taken, session_of, told
from apps.api.shapes.declared import SentShape
from apps.api.shapes.naming import JSON, parts_json, timestamp
from apps.api.views import Endpoint
from apps.engine.queue import publish_queue
from apps.features.queue import messages
from apps.features.queue.models import QueuedMessage
from apps.features.queue.sending import send_now
from apps.features.sessions import switching
from apps.record.models import Context
from apps.record.parts import words_of


@extend_schema_serializer(component_name="QueuedMessage")
class QueuedShape(Shape):
    """A message that is not sent yet."""

    id = serializers.UUIDField()
    message_id = serializers.CharField(help_text="The Idempotency-Key under which it was queued, and is sent.")
    content = serializers.CharField(help_text="Its words.")
    parts = serializers.ListField(child=Struct(), help_text="Its parts, in A2A's shape.")
    queued_at = serializers.DateTimeField()
    is_being_sent = serializers.BooleanField()
    problem = serializers.CharField(help_text="Why it could not be sent, which holds the queue; empty: nothing.")


@extend_schema_serializer(component_name="Queue")
class QueueShape(Shape):
    """What waits in a session, in the order in which it is sent."""

    items = QueuedShape(many=True)
    held = serializers.CharField(help_text="Why nothing of it is sent by itself; empty: it is, when its turn comes.")


class Queueing(Body):
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MOST_WORDS)
    parts = parts_field()
    references = serializers.ListField(
        child=Line(), required=False, max_length=MOST_REFERENCES, help_text="Tasks of yours that it is about."
    )


class Rewording(Body):
    text = serializers.CharField(
        trim_whitespace=False, max_length=MOST_WORDS, allow_blank=True, help_text="Its words; its files stay."
    )


class Queue(Endpoint):
    @documented("queue_list", "What waits in a session to be sent", answers={200: QueueShape}, refuses=[404])
    def get(self, request: Request, session: uuid.UUID) -> Response:
        return Response(queue_json(session_of(self.principal, session)))

    @documented(
        "queue_add",
        "Say something when the session's agent is done",
        body=Queueing,
        answers={201: QueueShape},
        refuses=[404, 409],
        keyed=True,
    )
    def post(self, request: Request, session: uuid.UUID) -> Response:
        """Where nobody works it is sent soon; after work that failed or was stopped it waits for you.

        The same Idempotency-Key queues nothing again, also once the message was sent.
        """
        asked, key = self.body(Queueing), key_of(request)
        quotas.count_act(self.principal)
        context = session_of(self.principal, session)
        message: JSON = {"parts": parts_of(asked)}
        if asked.get("references"):
            message["referenceTaskIds"] = asked["references"]
        switching.check_open(self.principal, context.agent)
        check_taken(context.agent, message["parts"])
        messages.add(self.principal, context, key, message)
        publish_queue(context.pk)
        return Response(queue_json(context), status=201)


class OneQueued(Endpoint):
    @documented(
        "queue_update",
        "Let a message that waits say something else",
        body=Rewording,
        answers={200: QueueShape},
        refuses=[404, 409],
    )
    def patch(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        context, asked = session_of(self.principal, session), self.body(Rewording)
        messages.change(context, message, asked["text"])
        publish_queue(context.pk)
        return Response(queue_json(context))

    @documented("queue_delete", "Send it never", answers={200: QueueShape}, refuses=[404, 409])
    def delete(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """For a minute it can be restored."""
        context = session_of(self.principal, session)
        messages.remove(context, message)
        publish_queue(context.pk)
        return Response(queue_json(context))


class Restored(Endpoint):
    @documented(
        "queue_restore",
        "Take back that a message was deleted",
        answers={200: QueueShape},
        refuses=[404, 409],
    )
    def post(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """Within a minute. It waits again as it was, in its place."""
        context = session_of(self.principal, session)
        messages.restore(context, message)
        publish_queue(context.pk)
        return Response(queue_json(context))


class SendNow(Endpoint):
    @documented(
        "queue_send",
        "Send a message that waits, now",
        answers={200: SentShape, 202: SentShape},
        refuses=[404, 409],
    )
    async def post(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """It goes to the task that works or asks in the session, or begins one. What is refused stays queued."""
        quotas.count_act(self.principal)
        context = await db.run(session_of, self.principal, session)
        sent = await send_now(context, message)
        return Response(await db.run(told, self.principal, sent), status=202 if sent.task else 200)


def queue_json(context: Context) -> JSON:
    """A session's queue, as `QueueShape`. Two queries."""
    rows = QueuedMessage.objects.filter(context=context)
    items = [
        {
            "id": str(row.pk),
            "messageId": row.message_id,
            "content": words_of(row.parts),
            "parts": parts_json(row.parts, context.pk),
            "queuedAt": timestamp(row.queued_at),
            "isBeingSent": row.is_being_sent,
            "problem": row.problem,
        }
        for row in rows
    ]
    return {"items": items, "held": messages.held(context)}


urlpatterns = [
    path("sessions/<uuid:session>/queue", Queue.as_view(), name="queue"),
    path("sessions/<uuid:session>/queue/<uuid:message>", OneQueued.as_view(), name="queued"),
    path("sessions/<uuid:session>/queue/<uuid:message>/restore", Restored.as_view(), name="queued-restore"),
    path("sessions/<uuid:session>/queue/<uuid:message>/send", SendNow.as_view(), name="queued-send"),
]
