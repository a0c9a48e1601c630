"""What was said in a session, and saying more: at once, or when the session's agent is done (its queue).

A message is of parts: words, files, values and links, in A2A's shape. It is addressed to the session's agent, or to the
task that it answers, sent by `engine.send`, and answered with what it led to.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

import db
import outbound
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.api import shapes
from apps.api.framework import pagination
from apps.api.framework.problems import Conflict
from apps.api.framework.schema import documented
from apps.api.framework.serializers import AnyValue, Body, Line, Listing, Shape, Struct, page_of
from apps.api.framework.views import IDEMPOTENCY_HEADER, Endpoint
from apps.api.shapes import JSON, EventShape, MessageShape, SentShape, parts_json, timestamp
from apps.engine import accept, send
from apps.engine.queue import publish_queue
from apps.engine.send import Sent
from apps.features.queue import messages
from apps.features.queue.messages import send_now
from apps.features.queue.models import QueuedMessage
from apps.features.uploads import resumable
from apps.record import lineage
from apps.record.content import parts
from apps.record.content.parts import words_of
from apps.record.content.strict_json import digest_of
from apps.record.errors import ContentTypeNotSupported, ContextNotFound, InvalidParams, Refusal, TaskNotFound
from apps.record.events import EventType
from apps.record.lineage import artifact_versions
from apps.record.lookup import check_may_use, restored
from apps.record.models import AGENT_CHANGES, Context, Event, Message, Task

MAX_TEXT = 1_000_000  # characters of a text
PART_KINDS = ("text", "raw", "url", "data")
DESCRIPTION_FIELDS = {"filename": "filename", "media_type": "mediaType", "metadata": "metadata"}


@extend_schema_serializer(component_name="Part")
class PartBody(Body):
    """One part: exactly one of text, raw, url, data and uploadId."""

    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MAX_TEXT, allow_blank=True)
    raw = serializers.CharField(required=False, help_text="A file's bytes in base64.")
    url = serializers.CharField(required=False, max_length=8000, help_text="Of a file that is elsewhere.")
    data = AnyValue(required=False, allow_null=True, help_text="Any JSON value.")  # type: ignore[assignment]
    upload_id = serializers.UUIDField(required=False, help_text="Of a whole upload of yours, whose type it has.")
    filename = Line(required=False, allow_blank=True)
    media_type = Line(required=False, allow_blank=True)
    metadata = Struct(required=False)

    def validate_raw(self, value: str) -> str:
        padded = value.replace("-", "+").replace("_", "/").rstrip("=")
        padded += "=" * (-len(padded) % 4)
        try:
            base64.b64decode(padded, validate=True)
        except (binascii.Error, ValueError):
            raise ValidationError("Is not base64.") from None
        return padded

    def validate_url(self, value: str) -> str:
        try:
            outbound.guard().check(value)
        except outbound.Forbidden as refusal:
            raise ValidationError(str(refusal)) from None
        return value

    def validate_filename(self, value: str) -> str:
        """The last component of a path; whatever stands before it is the sender's business."""
        name = re.split(r"[/\\]", value)[-1]
        return name if name.strip(". ") else ""

    def validate(self, attrs: JSON) -> JSON:
        """The part as it is stored; a file is of the type that its content does not contradict."""
        kinds = [kind for kind in (*PART_KINDS, "upload_id") if kind in attrs]
        if len(kinds) != 1:
            raise ValidationError("Must have exactly one of text, raw, url, data and uploadId.")
        described = {said: attrs[name] for name, said in DESCRIPTION_FIELDS.items() if attrs.get(name)}
        if kinds == ["upload_id"]:
            return self._uploaded(attrs["upload_id"], described)
        return parts.with_verified_type({kinds[0]: attrs[kinds[0]], **described})

    def _uploaded(self, upload: uuid.UUID, described: JSON) -> JSON:
        if "mediaType" in described:
            raise ValidationError({"mediaType": ["Is that of the upload. Leave it out."]})
        try:
            part = resumable.message_part(self.context["caller"], upload)
        except Refusal as refusal:
            raise ValidationError({"uploadId": [str(refusal)]}) from None
        metadata = {**described.pop("metadata", {}), **part.pop("metadata", {})}
        return {**part, **described, **({"metadata": metadata} if metadata else {})}


def parts_field() -> serializers.BaseSerializer[Any]:
    """The field of a list of parts."""
    bounds: JSON = {"allow_empty": False, "max_length": settings.MAX_PARTS}
    return PartBody(many=True, required=False, **bounds)


def read_parts(body: JSON) -> list[JSON]:
    """The parts that a body with `text`, `parts` or both says. Raises ValidationError where there is none."""
    words = [{"text": body["text"]}] if body.get("text", "").strip() else []
    parts = [*words, *body.get("parts", [])]
    if not parts:
        raise ValidationError({"text": ["Say something, by text or by parts."]})
    if len(parts) > settings.MAX_PARTS:
        raise ValidationError({"parts": [f"At most {settings.MAX_PARTS}, with the text."]})
    return parts


MAX_REFERENCES = 100
EXAMPLE_FILE = {"raw": "YSxiCjEsMgo=", "filename": "table.csv", "mediaType": "text/csv"}


class MessagesQuery(Listing):
    index = serializers.IntegerField(
        required=False, min_value=1, help_text="Of the event that brought a message: that one alone."
    )


class NewMessage(Body):
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MAX_TEXT)
    parts = parts_field()
    task = serializers.UUIDField(required=False, help_text="The task that it answers, or goes on with.")
    references = serializers.ListField(
        child=Line(), required=False, max_length=MAX_REFERENCES, help_text="Tasks of yours that it is about."
    )
    metadata = Struct(required=False)
    wait = serializers.BooleanField(default=False, help_text="Answer when the task has settled.")


class Messages(Endpoint):
    @documented(
        "messages_list",
        "What was said in a session, the first first",
        query=MessagesQuery,
        answers={200: page_of(MessageShape)},
        refuses=[404],
    )
    def get(self, request: Request, session: uuid.UUID) -> Response:
        asked, context = self.query(MessagesQuery), find_session(self.principal, session)
        rows = lineage.messages(context)
        if "index" in asked:
            rows = rows.filter(index=asked["index"])
        found, following = pagination.paginate(rows, ("index",), asked, self.principal, "messages", session)
        return Response({"items": shapes.messages_json(context, found), "nextCursor": following})

    @documented(
        "messages_create",
        "Say something in a session",
        body=NewMessage,
        answers={200: SentShape, 202: SentShape},
        refuses=[404, 409],
        keyed=True,
        examples=[
            OpenApiExample("Words", {"text": "And now in Portuguese", "wait": True}, request_only=True),
            OpenApiExample("A file", {"text": "Make a report", "parts": [EXAMPLE_FILE]}, request_only=True),
        ],
    )
    async def post(self, request: Request, session: uuid.UUID) -> Response:
        """Status 202: an agent works on it; follow the session's events. Status 200: it was answered, or waited for.

        The same Idempotency-Key leads to the same message, task and answer, and to nothing new.
        """
        asked, key = await db.run(self.body, NewMessage), self.idempotency_key
        quotas.count_act(self.principal)
        message = {"messageId": key, "parts": read_parts(asked)}
        optional = {"referenceTaskIds": asked.get("references"), "metadata": asked.get("metadata")}
        message |= {name: value for name, value in optional.items() if value}
        outgoing = await db.run(address_message, self.principal, session, message, asked.get("task"))
        known = {"address": self.address, "traceparent": self.traceparent}
        told = await send_message(self.principal, outgoing, wait=asked["wait"], **known)
        return Response(told, status=200 if told["answer"] or asked["wait"] else 202)


class Events(Endpoint):
    @documented(
        "events_list",
        "A session's log, the first event first",
        query=Listing,
        answers={200: page_of(EventShape)},
        refuses=[404],
    )
    def get(self, request: Request, session: uuid.UUID) -> Response:
        asked, context = self.query(Listing), find_session(self.principal, session)
        rows = lineage.events(context)
        found, following = pagination.paginate(rows, ("index",), asked, self.principal, "events", session)
        return Response({"items": shapes.events_json(session, found), "nextCursor": following})


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
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MAX_TEXT)
    parts = parts_field()
    references = serializers.ListField(
        child=Line(), required=False, max_length=MAX_REFERENCES, help_text="Tasks of yours that it is about."
    )


class Rewording(Body):
    text = serializers.CharField(
        trim_whitespace=False, max_length=MAX_TEXT, allow_blank=True, help_text="Its words; its files stay."
    )


class Queue(Endpoint):
    @documented("queue_list", "What waits in a session to be sent", answers={200: QueueShape}, refuses=[404])
    def get(self, request: Request, session: uuid.UUID) -> Response:
        return Response(queue_json(find_session(self.principal, session)))

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
        asked, key = self.body(Queueing), self.idempotency_key
        quotas.count_act(self.principal)
        context = find_session(self.principal, session)
        message: JSON = {"parts": read_parts(asked)}
        if asked.get("references"):
            message["referenceTaskIds"] = asked["references"]
        check_may_use(self.principal, context.agent)
        check_media_types(context.agent, message["parts"])
        messages.enqueue(self.principal, context, key, message)
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
        context, asked = find_session(self.principal, session), self.body(Rewording)
        messages.edit(context, message, asked["text"])
        publish_queue(context.pk)
        return Response(queue_json(context))

    @documented("queue_delete", "Send it never", answers={200: QueueShape}, refuses=[404, 409])
    def delete(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """For a minute it can be restored."""
        context = find_session(self.principal, session)
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
        context = find_session(self.principal, session)
        messages.undo_remove(context, message)
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
        context = await db.run(find_session, self.principal, session)
        sent = await send_now(context, message)
        return Response(await db.run(sent_json, self.principal, sent), status=202 if sent.task else 200)


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
    return {"items": items, "held": messages.hold_reason(context)}


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message on its way to an agent, within the session that it continues; `earlier` is what it led to already."""

    agent: Agent
    message: JSON
    earlier: Sent | None = None
    question_index: int | None = None  # of the question that it answers


def find_session(principal: Principal, session: uuid.UUID) -> Context:
    """The caller's session, with its agent. Raises ContextNotFound for anybody else's, and for a deleted one."""
    found = Context.objects.visible_to(principal).select_related("agent").filter(pk=session).first()
    if found is None or not principal.is_known:
        raise ContextNotFound
    return restored(found)


def address_message(
    principal: Principal, session: uuid.UUID, message: JSON, task: uuid.UUID | None = None
) -> OutgoingMessage:
    """A message (parts, messageId) for the session's agent, or for its task that waits or works.

    Raises ContextNotFound, TaskNotFound, Conflict, UnsupportedOperation, ContentTypeNotSupported.
    """
    context = find_session(principal, session)
    said: JSON = {"role": "ROLE_USER", **message, "contextId": context.context_id}
    agent = context.agent
    if task is not None:
        found = _find_task(context, task)
        agent, said["taskId"] = found.agent, str(found.pk)
    if earlier := _sent_before_switch(principal, context, said):
        return OutgoingMessage(agent, said, earlier)
    check_may_use(principal, agent)
    check_media_types(agent, said["parts"])
    return OutgoingMessage(agent, said)


def _find_task(context: Context, task: uuid.UUID) -> Task:
    found = lineage.tasks(context).select_related("agent").filter(pk=task).first()
    if found is None:
        raise TaskNotFound
    if found.context_id != context.pk:  # it ended there, or was left
        raise Conflict("The task belongs to what the session was forked from. Send the message without it.")
    return found


def _sent_before_switch(principal: Principal, context: Context, message: JSON) -> Sent | None:
    """What the message led to, if it was sent before the session was switched; otherwise its agent knows it.

    Raises InvalidParams where its key was used for another message.
    """
    switched = Event.objects.filter(context=context, type__in=AGENT_CHANGES).filter(type=EventType.AGENT_SWITCHED)
    if not switched.exists():
        return None
    said = Message.objects.filter(context=context, message_id=message["messageId"], role=Message.Role.USER)
    row = said.select_related("task__agent").first()
    if row is None:
        return None
    agent = row.task.agent if row.task else Agent.objects.get(pk=lineage.agent_at(context, row.index)[0])
    with idempotency_key_errors():
        accept.find_accepted(principal.sender, agent, row.message_id, digest_of(message))
    return Sent(context.pk, row.index if row.task_id else row.index + 1, row.task_id, repeated=True)


def check_media_types(agent: Agent, parts: list[JSON]) -> None:
    """Raises ContentTypeNotSupported for a part of a media type that the agent does not take."""
    if refused := agent.refused_type(parts):
        taken = ", ".join(agent.input_modes)
        raise ContentTypeNotSupported(f"{agent.name} does not take {refused}. It takes {taken}.")


async def send_message(
    principal: Principal, outgoing: OutgoingMessage, *, wait: bool, address: str = "", traceparent: str = ""
) -> JSON:
    """Send the message; what it led to, as `SentShape`. With `wait`, once its task has settled.

    Waiting holds no thread and no connection. Raises errors.Refusal, QuotaExceeded; then nothing was stored.
    """
    with ExitStack() as meanwhile:
        if wait:
            meanwhile.callback(quotas.open_stream(principal, address))
        sent = outgoing.earlier or await _send_new(principal, outgoing, traceparent)
        if wait and sent.task is not None:
            settled = await send.wait_until_settled(
                sent.context, sent.task, sent.index, lambda task: task.pk, sent.since
            )
            return await db.run(sent_json, principal, sent, settled)
        return await db.run(sent_json, principal, sent)


async def _send_new(principal: Principal, outgoing: OutgoingMessage, traceparent: str) -> Sent:
    with idempotency_key_errors():
        return await send.send(
            principal,
            outgoing.agent,
            outgoing.message,
            question_index=outgoing.question_index,
            traceparent=traceparent,
        )


@contextmanager
def idempotency_key_errors() -> Iterator[None]:
    """What is said of a messageId is said of the Idempotency-Key, which became it."""
    try:
        yield
    except InvalidParams as refusal:
        if refusal.field not in ("messageId", "key"):
            raise
        raise InvalidParams(str(refusal).replace("messageId", IDEMPOTENCY_HEADER), IDEMPOTENCY_HEADER) from None


def sent_json(principal: Principal, sent: Sent, settled: uuid.UUID | None = None) -> JSON:
    """What a message led to; where its task has `settled`, with what that brought."""
    context = find_session(principal, sent.context)
    rows = _sent_messages(sent, with_outcome=settled is not None)
    shown = dict(zip((row.role for row in rows), shapes.messages_json(context, rows), strict=True))
    task, artifacts = None, []
    if sent.task is not None:
        artifacts = list(lineage.artifacts(context).filter(task=sent.task))
        task = shapes.tasks_json(context.pk, list(Task.objects.filter(pk=sent.task)), artifacts)[0]
    return {
        "session": shapes.session_json(context),
        "message": shown.get(Message.Role.USER),
        "answer": shown.get(Message.Role.AGENT),
        "task": task,
        "artifacts": shapes.artifacts_json(context.pk, artifacts, artifact_versions(context)) if settled else [],
        "repeated": sent.repeated,
    }


def _sent_messages(sent: Sent, *, with_outcome: bool) -> list[Message]:
    """The message, and the answer where there is one: an answer at once follows its question in the log."""
    said = Message.objects.filter(context=sent.context).order_by("index")
    if sent.task is None:
        return list(said.filter(index__in=(sent.index - 1, sent.index)))
    rows = list(said.filter(index=sent.index))
    if with_outcome:
        rows += said.filter(task=sent.task, role=Message.Role.AGENT, index__gt=sent.index).order_by("-index")[:1]
    return rows


urlpatterns = [
    path("sessions/<uuid:session>/messages", Messages.as_view(), name="messages"),
    path("sessions/<uuid:session>/events", Events.as_view(), name="events"),
    path("sessions/<uuid:session>/queue", Queue.as_view(), name="queue"),
    path("sessions/<uuid:session>/queue/<uuid:message>", OneQueued.as_view(), name="queued"),
    path("sessions/<uuid:session>/queue/<uuid:message>/restore", Restored.as_view(), name="queued-restore"),
    path("sessions/<uuid:session>/queue/<uuid:message>/send", SendNow.as_view(), name="queued-send"),
]
