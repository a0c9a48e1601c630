"""Going on differently: editing, retrying and forking; and the tree of a session's forks, with its branch points."""

from __future__ import annotations

import uuid

from django.urls import path, reverse
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.api import messages, shapes
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Shape
from apps.api.framework.views import Endpoint
from apps.api.messages import MAX_TEXT, find_session, parts_field, read_parts
from apps.api.sessions import MAX_TITLE, NOTHING_SENT, usable_agent
from apps.api.shapes import JSON, SentShape, timestamp
from apps.engine.send import Sent
from apps.features.forks import branches, editing, forking
from apps.features.sessions import commands
from apps.record.content.parts import words_of
from apps.record.errors import InvalidFields, InvalidParams
from apps.record.models import Message

RUNNING = [("cancel", "is canceled"), ("finish", "ends there, and reaches no fork")]


class Edited(Body):
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MAX_TEXT)
    parts = parts_field()
    keep_files = serializers.BooleanField(default=False, help_text="Do the files of the message stay with it?")
    running = Choice(RUNNING, default="cancel", help_text="What becomes of what agents work at in the session itself.")


class Forking(Body):
    at = serializers.IntegerField(
        required=False, min_value=0, help_text="Index of the last event to share; 0: none. By default the newest."
    )
    message_id = serializers.UUIDField(
        required=False, help_text="The last message to share; or with `retry` the one to have answered again."
    )
    retry = serializers.BooleanField(
        default=False, help_text="Say your newest message again, or that of `messageId`, before it was answered."
    )
    agent = Line(required=False, help_text="The slug of another agent, which goes on.")
    running = Choice(
        RUNNING, required=False, help_text="As with an edit. By default `cancel` with `retry`, else `finish`."
    )
    title = Line(required=False, max_length=MAX_TITLE)

    def validate(self, attrs: JSON) -> JSON:
        if "at" in attrs and ("message_id" in attrs or attrs["retry"]):
            raise serializers.ValidationError({"at": ["Say either where to fork, or which message it is about."]})
        return attrs


class OneMessage(Endpoint):
    @documented(
        "messages_edit",
        "Say something else in the place of a message of yours",
        body=Edited,
        answers={200: SentShape, 201: SentShape},
        refuses=[404, 409],
        keyed=True,
    )
    async def put(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """In a fork that begins just before it, and is answered there; the session keeps what it has, and tells of it.

        The same Idempotency-Key gives the same fork again, with status 200. Two who edit the same message make two.
        """
        asked, key = await db.run(self.body, Edited), self.idempotency_key
        quotas.count_act(self.principal)
        how = {name: asked[name] for name in ("running", "keep_files")} | {"key": key, "traceparent": self.traceparent}
        with messages.idempotency_key_errors():
            sent = await editing.edit(self.principal, session, message, read_parts(asked), **how)
        return await db.run(_fork_response, self, sent)


class Forks(Endpoint):
    @documented(
        "sessions_fork",
        "Go on from a place in a session, in another session",
        body=Forking,
        answers={200: SentShape, 201: SentShape},
        refuses=[404, 409],
        keyed=True,
    )
    async def post(self, request: Request, session: uuid.UUID) -> Response:
        """It shares what came before, of which nothing is copied. With `retry` what you said is said in it again.

        The same Idempotency-Key gives the same fork again, with status 200.
        """
        asked, key = await db.run(self.body, Forking), self.idempotency_key
        quotas.count_act(self.principal)
        if not asked["retry"]:
            return await db.run(self._fork, session, asked, key)
        agent = await db.run(usable_agent, self.principal, asked["agent"]) if "agent" in asked else None
        how = {"running": asked.get("running", "cancel"), "message": asked.get("message_id"), "agent": agent}
        with messages.idempotency_key_errors():
            sent = await editing.retry(self.principal, session, key=key, traceparent=self.traceparent, **how)
        return await db.run(_fork_response, self, sent, asked.get("title", ""))

    def _fork(self, session: uuid.UUID, asked: JSON, key: str) -> Response:
        context = find_session(self.principal, session)
        made = forking.find_fork(context, key)
        newest = context.last_event if made is None or made.forked_at is None else made.forked_at
        at = asked.get("at", newest)
        if "message_id" in asked:
            at = editing.find_message(context, asked["message_id"]).index
        agent = usable_agent(self.principal, asked["agent"]) if "agent" in asked else None
        how = {"agent": agent, "key": key, "running": asked.get("running", "finish")}
        with messages.idempotency_key_errors():
            child = forking.fork(self.principal, context, at, reason="agent" if agent else "fork", **how)
        branches.save_chosen_leaf(self.principal, child)
        return _session_response(self, child.pk, NOTHING_SENT | {"repeated": made is not None}, asked.get("title", ""))


def _fork_response(view: Endpoint, sent: Sent, title: str = "") -> Response:
    """What was made of a message in a fork."""
    return _session_response(view, sent.context, messages.sent_json(view.principal, sent), title)


def _session_response(view: Endpoint, session: uuid.UUID, told: JSON, title: str) -> Response:
    if title and not told["repeated"]:
        commands.rename_session(view.principal, session, title)
    shown = shapes.session_json(find_session(view.principal, session))
    headers = {"Location": reverse("api:session", args=[session])}
    return Response({**told, "session": shown}, status=200 if told["repeated"] else 201, headers=headers)


PREVIEW_LENGTH = 200  # characters of a message


class Leaf(Body):
    leaf_id = serializers.UUIDField(help_text="A session of the tree.")


class Chosen(Shape):
    leaf_id = serializers.UUIDField()


@extend_schema_serializer(component_name="TreeNode")
class NodeShape(Shape):
    """A session in its tree. Of one that was deleted nothing is said but where it was."""

    id = serializers.UUIDField()
    parent_id = serializers.UUIDField(allow_null=True)
    is_deleted = serializers.BooleanField()
    title = serializers.CharField()
    agent = serializers.CharField(allow_null=True, help_text="The slug of the agent that it is with.")
    forked_at = serializers.IntegerField(allow_null=True, help_text="The last event that it shares.")
    fork_reason = serializers.CharField(help_text="fork, edit, retry or agent; empty where it is no fork.")
    message_count = serializers.IntegerField()
    revision = serializers.IntegerField(help_text="The index of its newest event.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="Tree")
class TreeShape(Shape):
    """A session and all its forks: parents before their children, those by age."""

    root_id = serializers.UUIDField()
    leaf_id = serializers.UUIDField(allow_null=True, help_text="Where you are: what you forked last, or chose since.")
    items = NodeShape(many=True)


@extend_schema_serializer(component_name="Sibling")
class SiblingShape(Shape):
    """A way in which a session goes on from a place, and the message that begins it."""

    session_id = serializers.UUIDField()
    message_id = serializers.UUIDField()
    index = serializers.IntegerField(help_text="Of the event that brought the message.")
    role = serializers.ChoiceField(Message.Role.choices)
    preview = serializers.CharField(help_text=f"The first {PREVIEW_LENGTH} characters of it.")
    timestamp = serializers.DateTimeField()


@extend_schema_serializer(component_name="Siblings")
class SiblingsShape(Shape):
    """“2 of 3”: `position` of `count`; the original is first."""

    position = serializers.IntegerField()
    count = serializers.IntegerField()
    items = SiblingShape(many=True)


class Tree(Endpoint):
    @documented(
        "sessions_tree",
        "All forks of a session, from the first session to the last fork",
        answers={200: TreeShape},
        refuses=[404],
    )
    def get(self, request: Request, session: uuid.UUID) -> Response:
        """The same whichever session of the tree is asked for."""
        tree = branches.tree(self.principal, session)
        leaf = str(tree.chosen) if tree.chosen else None
        items = [_node_json(one) for one in tree.nodes]
        return Response({"rootId": str(tree.root), "leafId": leaf, "items": items})


def _node_json(node: branches.Node) -> JSON:
    context = node.context
    return {
        "id": str(context.pk),
        "parentId": str(context.parent_id) if context.parent_id else None,
        "isDeleted": node.is_gap,
        "title": context.title,
        "agent": None if node.is_gap else context.agent.slug,
        "forkedAt": context.forked_at,
        "forkReason": context.fork_reason,
        "messageCount": node.messages,
        "revision": context.last_event,
        "createdAt": timestamp(context.created_at),
        "updatedAt": timestamp(context.updated_at),
    }


class ChosenLeaf(Endpoint):
    @documented(
        "sessions_choose_leaf",
        "Say in which fork you are",
        body=Leaf,
        answers={200: Chosen},
        refuses=[404],
    )
    def put(self, request: Request, session: uuid.UUID) -> Response:
        """It is kept for you and for the whole tree; who forks is in the fork."""
        leaf = self.body(Leaf)["leaf_id"]
        try:
            branches.choose_leaf(self.principal, session, leaf)
        except InvalidParams as refusal:
            raise InvalidFields([("leafId", str(refusal))]) from None
        return Response({"leafId": str(leaf)})


class Siblings(Endpoint):
    @documented(
        "messages_siblings",
        "What else was said in the place of a message",
        answers={200: SiblingsShape},
        refuses=[404],
    )
    def get(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """All that begin at the same place: the original, and the forks by age."""
        context = find_session(self.principal, session)
        row = editing.find_message(context, message)
        found = branches.siblings(context, row.index)
        own = [at for at, one in enumerate(found, start=1) if one.message.pk == row.pk]
        return Response({"position": own[0], "count": len(found), "items": [_sibling_json(one) for one in found]})


def _sibling_json(sibling: branches.Sibling) -> JSON:
    message = sibling.message
    return {
        "sessionId": str(sibling.context.pk),
        "messageId": str(message.pk),
        "index": message.index,
        "role": message.role,
        "preview": words_of(message.parts)[:PREVIEW_LENGTH],
        "timestamp": timestamp(message.created_at),
    }


urlpatterns = [
    path("sessions/<uuid:session>/messages/<uuid:message>", OneMessage.as_view(), name="message"),
    path("sessions/<uuid:session>/fork", Forks.as_view(), name="session-fork"),
    path("sessions/<uuid:session>/tree", Tree.as_view(), name="session-tree"),
    path("sessions/<uuid:session>/leaf", ChosenLeaf.as_view(), name="session-leaf"),
    path("sessions/<uuid:session>/messages/<uuid:message>/siblings", Siblings.as_view(), name="message-siblings"),
]
