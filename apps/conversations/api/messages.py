"""Messages of a session: list, sending, and the queue.

A message consists of A2A parts. It goes to the session's agent, or to the task that it answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from agentkit.llm.approvals import APPROVE, DECISION
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.agents.models import Agent
from apps.api import shapes
from apps.api.framework.problems import Conflict
from apps.api.framework.schema import documented
from apps.api.framework.serializers import AnyValue, Body, Line, Listing, Shape, Struct, page_of
from apps.api.framework.views import Endpoint, Operations
from apps.api.shapes import JSON, EventShape, MessageShape, SentShape, parts_json
from apps.conversations.queue import messages
from apps.conversations.queue.messages import QUEUES, send_now
from apps.conversations.queue.models import QueuedMessage
from apps.conversations.uploads import resumable
from apps.engine import repeats, send
from apps.engine.repeats import Sent
from apps.engine.turns import approvals, questions
from apps.limits import current as limits
from apps.record import lineage
from apps.record.content import parts
from apps.record.content.composing import (
    PART_KINDS,
    callable_url,
    check_taken,
    compose,
    last_component,
    parts_of,
    standard_base64,
)
from apps.record.content.parts import MAX_TEXT, words_of
from apps.record.errors import Refusal, TaskNotFound
from apps.record.events import EventType
from apps.record.lineage import artifact_versions
from apps.record.models import AGENT_CHANGES, Context, Event, Message, Task
from apps.record.reading import lookup
from apps.record.reading.lookup import check_may_use, check_may_write, find_session
from parley import db

DESCRIPTION_FIELDS = {"filename": "filename", "media_type": "mediaType", "metadata": "metadata"}


@extend_schema_serializer(component_name="Part")
class PartBody(Body):
    """A part of a message. It has exactly one of `text`, `raw`, `url`, `data` and `uploadId`."""

    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MAX_TEXT, allow_blank=True)
    raw = serializers.CharField(required=False, help_text="The bytes of a file, in base64.")
    url = serializers.CharField(
        required=False, max_length=8000, help_text="The URL of a file that is stored elsewhere."
    )
    data = AnyValue(required=False, allow_null=True, help_text="Any JSON value.")  # type: ignore[assignment]
    upload_id = serializers.UUIDField(
        required=False, help_text="The id of one of your complete uploads. The part has the upload's media type."
    )
    filename = Line(required=False, allow_blank=True)
    media_type = Line(required=False, allow_blank=True)
    metadata = Struct(required=False)

    def validate_raw(self, value: str) -> str:
        return _valid(standard_base64, value)

    def validate_url(self, value: str) -> str:
        return _valid(callable_url, value)

    def validate_filename(self, value: str) -> str:
        return last_component(value)

    def validate(self, attrs: JSON) -> JSON:
        """The stored part; its content confirms the media type."""
        kinds = [kind for kind in (*PART_KINDS, "upload_id") if kind in attrs]
        if len(kinds) != 1:
            raise ValidationError("Must have exactly one of text, raw, url, data and uploadId.")
        described = {said: attrs[name] for name, said in DESCRIPTION_FIELDS.items() if attrs.get(name)}
        if kinds == ["upload_id"]:
            return self._uploaded(attrs["upload_id"], described)
        return parts.with_verified_type({kinds[0]: attrs[kinds[0]], **described})

    def _uploaded(self, upload: uuid.UUID, described: JSON) -> JSON:
        if "mediaType" in described:
            raise ValidationError({"mediaType": ["Leave this out: the upload has its own media type."]})
        try:
            part = resumable.message_part(self.context["caller"], upload)
        except Refusal as refusal:
            raise ValidationError({"uploadId": [str(refusal)]}) from None
        metadata = {**described.pop("metadata", {}), **part.pop("metadata", {})}
        return {**part, **described, **({"metadata": metadata} if metadata else {})}


def _valid(check: Callable[[str], str], value: str) -> str:
    try:
        return check(value)
    except ValueError as problem:
        raise ValidationError(str(problem)) from None


def parts_field() -> serializers.BaseSerializer[Any]:
    bounds: JSON = {"allow_empty": False, "max_length": settings.MAX_PARTS}
    return PartBody(many=True, required=False, **bounds)


def read_parts(body: JSON) -> list[JSON]:
    """From `text`, `parts` or both. Raises InvalidParams."""
    return parts_of(body.get("text", ""), body.get("parts", []))


class Content(Body):  # a docstring would be in the schema
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MAX_TEXT)
    parts = parts_field()


MAX_REFERENCES = 100
EXAMPLE_FILE = {"raw": "YSxiCjEsMgo=", "filename": "table.csv", "mediaType": "text/csv"}


class MessagesQuery(Listing):
    index = serializers.IntegerField(
        required=False, min_value=1, help_text="Only the message that the event with this index recorded."
    )


class Queueing(Content):
    references = serializers.ListField(
        child=Line(),
        required=False,
        max_length=MAX_REFERENCES,
        help_text="The ids of your tasks to which the message refers.",
    )


STEER, QUEUE = "steer", "queue"
DELIVERY = (STEER, QUEUE)


class NewMessage(Queueing):
    task = serializers.UUIDField(required=False, help_text="The id of the task that the message answers or continues.")
    metadata = Struct(required=False)
    delivery = serializers.ChoiceField(
        DELIVERY,
        required=False,
        help_text="What happens while an agent works in the session. `steer`: the message goes to your task at work, "
        "whose agent may read it at its next step; otherwise it is the next turn. `queue`: it waits until the agent "
        "has finished. By default, a message without `task` starts a task of its own.",
    )
    wait = serializers.BooleanField(
        default=False, help_text="Whether to respond only after the message's task has settled."
    )

    def validate(self, attrs: JSON) -> JSON:
        unfit = [name for name in ("task", "metadata", "wait") if attrs.get(name)]
        if attrs.get("delivery") == QUEUE and unfit:
            raise ValidationError({unfit[0]: ["Leave this out: a queued message has none."]})
        return attrs


class Messages(Operations):
    @documented(
        "messages_list",
        "List the messages of a session, oldest first",
        query=MessagesQuery,
        answers=page_of(MessageShape),
    )
    def list(self, request: Request, session: uuid.UUID) -> Response:
        asked, context = self.query(MessagesQuery), find_session(self.principal, session)
        rows = lineage.messages(context)
        if "index" in asked:
            rows = rows.filter(index=asked["index"])
        return self.page(rows, ("index",), asked, partial(shapes.messages_json, context))

    @documented(
        "messages_create",
        "Send a message in a session",
        body=NewMessage,
        answers={200: SentShape, 202: SentShape},
        refuses=[409],
        keyed=True,
        examples=[
            OpenApiExample("Words", {"text": "And now in Portuguese", "wait": True}, request_only=True),
            OpenApiExample("A file", {"text": "Make a report", "parts": [EXAMPLE_FILE]}, request_only=True),
        ],
    )
    async def create(self, request: Request, session: uuid.UUID) -> Response:
        """Status 202 means that an agent is working on the message. Follow the session's events to get its answer.
        Status 200 means that the agent has answered, or that the request waited for the task.

        If one of your tasks of the session's agent waits for an answer, a message without `task` and `references`
        answers the newest such task, as on the session's page.

        A queued message has no answer and no task yet, and `message` is null.

        A repeated request with the same `Idempotency-Key` returns the same message, task and answer. Nothing runs
        again.
        """
        asked, key = await db.run(self.body, NewMessage), self.idempotency_key
        await db.run(quotas.count_act, self.principal)
        more = {"references": asked.get("references", ()), "metadata": asked.get("metadata")}
        message = compose(read_parts(asked), key=key, **more)
        if asked.get("delivery") == QUEUE:
            return Response(await db.run(queue_message, self.principal, session, message), status=202)
        steers = asked.get("delivery") == STEER
        outgoing = await db.run(
            lambda: address_message(self.principal, session, message, asked.get("task"), steers=steers)
        )
        told = await send_message(self, outgoing, wait=asked["wait"])
        return Response(told, status=200 if told["answer"] or asked["wait"] else 202)

    @documented("events_list", "List the events of a session, oldest first", query=Listing, answers=page_of(EventShape))
    def list_events(self, request: Request, session: uuid.UUID) -> Response:
        asked, rows = self.query(Listing), lineage.events(find_session(self.principal, session))
        return self.page(rows, ("index",), asked, partial(shapes.events_json, session))


@extend_schema_serializer(component_name="QueuedMessage")
class QueuedShape(Shape):
    """A message that waits to be sent."""

    id = serializers.UUIDField()
    message_id = serializers.CharField(
        help_text="The `Idempotency-Key` of the request that queued the message. The message is sent with the same key."
    )
    content = serializers.CharField(help_text="The message's text.")
    parts = serializers.ListField(child=Struct(), help_text="The message's parts, as A2A defines them.")
    queued_at = serializers.DateTimeField()
    is_being_sent = serializers.BooleanField()
    problem = serializers.CharField(
        help_text="Why the message could not be sent. While this is set, the queue is held. Empty if there is "
        "no problem."
    )


@extend_schema_serializer(component_name="Queue", many=False)
class QueueShape(Shape):
    """The queued messages of a session, in the order in which they are sent."""

    items = QueuedShape(many=True)
    held = serializers.CharField(help_text="Why messages are not sent automatically. Empty if they are.")


class Rewording(Body):
    text = serializers.CharField(
        trim_whitespace=False,
        max_length=MAX_TEXT,
        allow_blank=True,
        help_text="The message's new text. Its files do not change.",
    )


class Queue(Operations):
    @documented("queue_list", "List the queued messages of a session", answers=QueueShape)
    def list(self, request: Request, session: uuid.UUID) -> Response:
        return Response(queue_json(find_session(self.principal, session)))

    @documented(
        "queue_add",
        "Queue a message until the session's agent has finished",
        body=Queueing,
        answers={201: QueueShape},
        refuses=[409],
        keyed=True,
    )
    def add(self, request: Request, session: uuid.UUID) -> Response:
        """If no agent is working in the session, the message is sent soon. If the newest task failed or was stopped,
        the queue is held until you act.

        A repeated request with the same `Idempotency-Key` does not queue the message again, even after it was sent.
        """
        asked, key = self.body(Queueing), self.idempotency_key
        quotas.count_act(self.principal)
        message = compose(read_parts(asked), key=key, references=asked.get("references", ()))
        context, _ = enqueue(self.principal, session, message)
        return Response(queue_json(context), 201)

    @documented("queue_update", "Edit a queued message", body=Rewording, answers=QueueShape, refuses=[409])
    def update(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        context, asked = find_session(self.principal, session), self.body(Rewording)
        return self._changed(context, messages.edit, message, asked["text"])

    @documented("queue_delete", "Delete a queued message", answers=QueueShape, refuses=[409])
    def remove(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """You can restore the message within one minute."""
        return self._changed(find_session(self.principal, session), messages.remove, message)

    @documented("queue_restore", "Restore a deleted queued message", answers=QueueShape, refuses=[409])
    def restore(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """You can restore a message within one minute of its deletion. It keeps its content and its place."""
        return self._changed(find_session(self.principal, session), messages.undo_remove, message)

    def _changed(self, context: Context, change: Callable[..., object], *given: Any) -> Response:
        change(self.principal, context, *given)
        QUEUES.publish(context.pk)
        return Response(queue_json(context))

    @documented("queue_send", "Send a queued message now", answers={200: SentShape, 202: SentShape}, refuses=[409])
    async def send(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """The message goes to the task that is working or waiting for input in the session. If there is none, it
        starts a new task. A message that is refused stays in the queue.
        """
        await db.run(quotas.count_act, self.principal)
        context = await db.run(find_session, self.principal, session)
        sent = await send_now(self.principal, context, message)
        return Response(await db.run(sent_json, self.principal, sent), status=202 if sent.task else 200)


def enqueue(principal: Principal, session: uuid.UUID, message: JSON) -> tuple[Context, bool]:
    """Queue a message for the session; False if it was queued or sent before. Raises what `messages.enqueue` does."""
    context = find_session(principal, session)
    check_may_use(principal, context.agent)
    check_taken(context.agent, message["parts"])
    is_new = messages.enqueue(principal, context, message)
    QUEUES.publish(context.pk)
    return context, is_new


def queue_message(principal: Principal, session: uuid.UUID, message: JSON) -> JSON:
    """A `SentShape` of a message that waits."""
    context, is_new = enqueue(principal, session, message)
    nothing: JSON = {"message": None, "answer": None, "task": None, "artifacts": []}
    return {"session": shapes.session_json(context), **nothing, "repeated": not is_new}


def queue_json(context: Context) -> JSON:
    """Two queries."""
    rows = QueuedMessage.objects.filter(context=context)
    items = [
        QueuedShape.json_of(row, content=words_of(row.parts), parts=parts_json(row.parts, context.pk)) for row in rows
    ]
    return {"items": items, "held": messages.hold_reason(context)}


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message with its agent.

    Attributes:
        earlier: the result if it was sent before.
        question_index: of the question that it answers.
        asking: the task that asks, if the message does not name it.
    """

    agent: Agent
    message: JSON
    earlier: Sent | None = None
    question_index: int | None = None
    asking: uuid.UUID | None = None


APPROVE_BY_TASK = "The agent asks about a tool call. To approve it, name its `task`, or use POST /tasks/{id}/answer."


def address_message(
    principal: Principal, session: uuid.UUID, message: JSON, task: uuid.UUID | None = None, *, steers: bool = False
) -> OutgoingMessage:
    """Address a message (see `composing`) to the session's agent, its open task or its open question.

    `steers`: to the caller's newest task at work, if there is one and no other is named.
    Raises ContextNotFound, TaskNotFound, Conflict, UnsupportedOperation, ContentTypeNotSupported.
    """
    context = find_session(principal, session)
    check_may_write(principal, context)
    said = {**message, "contextId": context.name_for(principal)}
    agent = context.agent
    if steers and task is None:
        if earlier := repeats.sent_before(principal, context, said):
            return OutgoingMessage(agent, said, earlier)
        at_work = lookup.find_at_work(principal, agent, context)
        task = at_work.pk if at_work else None
    if task is not None:
        found = _find_task(context, task)
        agent, said["taskId"] = found.agent, str(found.pk)
    switched = Event.objects.filter(context=context, type__in=AGENT_CHANGES).filter(type=EventType.AGENT_SWITCHED)
    if switched.exists() and (earlier := repeats.sent_before(principal, context, said)):  # otherwise the agent knows it
        return OutgoingMessage(agent, said, earlier)
    check_may_use(principal, agent)
    check_taken(agent, said["parts"])
    is_addressed = task is not None or "referenceTaskIds" in message
    asking = None if is_addressed else lookup.find_asking(principal, agent, context)
    if asking is None:
        return OutgoingMessage(agent, said)
    asks = principal.key and questions.asks_approval(questions.asking_slot(asking.slot))
    if asks and questions.answer_of(said)[DECISION] == APPROVE:
        raise Conflict(APPROVE_BY_TASK)  # the words may be for something that was asked before
    return OutgoingMessage(agent, said, question_index=asking.status_event, asking=asking.pk)


def _find_task(context: Context, task: uuid.UUID) -> Task:
    found = lineage.tasks(context).select_related("agent").filter(pk=task).first()
    if found is None:
        raise TaskNotFound
    if found.context_id != context.pk:  # ended there, or left
        raise Conflict(
            "The task belongs to the session that this one was forked from. Send the message without `task`."
        )
    return found


async def send_message(endpoint: Endpoint, outgoing: OutgoingMessage, *, wait: bool) -> JSON:
    """Send the message; returns a `SentShape`, with `wait` once its task has settled.

    Waiting holds no thread and no connection. Raises Refusal, QuotaExceeded; then nothing was stored.
    """
    principal, settled = endpoint.principal, None
    with ExitStack() as stack:
        if wait:
            stack.callback(limits.open_stream(principal, endpoint.address))
        if not (sent := outgoing.earlier):
            if not principal.key:
                asking = {"taskId": str(outgoing.asking)} if outgoing.asking else {}
                await db.run(approvals.check_message, principal, outgoing.message | asking)
            more: JSON = {"question_index": outgoing.question_index, "traceparent": endpoint.traceparent}
            more["finds_question"] = outgoing.asking is not None
            sent = await send.send(principal, outgoing.agent, outgoing.message, **more)
        if wait and sent.task is not None:
            settled = await send.wait_until_settled(
                sent.context, sent.task, sent.index, lambda task: task.pk, sent.since
            )
        return await db.run(sent_json, principal, sent, settled)


def sent_json(principal: Principal, sent: Sent, settled: uuid.UUID | None = None) -> JSON:
    """With the task's outcome once it has `settled`."""
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
    """The message and its answer, if any. A direct answer is the next event."""
    said = Message.objects.filter(context=sent.context).order_by("index")
    if sent.task is None:
        return list(said.filter(index__in=(sent.index - 1, sent.index)))
    rows = list(said.filter(index=sent.index))
    if with_outcome:
        rows += said.filter(task=sent.task, role=Message.Role.AGENT, index__gt=sent.index).order_by("-index")[:1]
    return rows


QUEUED = "sessions/<uuid:session>/queue/<uuid:message>"

urlpatterns = [
    path("sessions/<uuid:session>/messages", Messages.at(get="list", post="create"), name="messages"),
    path("sessions/<uuid:session>/events", Messages.at(get="list_events"), name="events"),
    path("sessions/<uuid:session>/queue", Queue.at(get="list", post="add"), name="queue"),
    path(QUEUED, Queue.at(patch="update", delete="remove"), name="queued"),
    path(f"{QUEUED}/restore", Queue.at(post="restore"), name="queued-restore"),
    path(f"{QUEUED}/send", Queue.at(post="send"), name="queued-send"),
]
