"""Forks: editing, retrying, forking; the tree with its branch points."""

from __future__ import annotations

import uuid

from django.urls import path, reverse
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.requests import quotas
from apps.api import shapes
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Shape, Struct
from apps.api.framework.views import Endpoint, Operations
from apps.api.shapes import JSON, SentShape
from apps.conversations.api import messages
from apps.conversations.api.messages import Content, read_parts
from apps.conversations.api.sessions import NOTHING_SENT, usable_agent
from apps.conversations.forks import branches, editing, forking
from apps.conversations.sessions import commands
from apps.engine.repeats import Sent
from apps.record.content.parts import words_of
from apps.record.errors import InvalidFields, InvalidParams
from apps.record.models import MAX_TITLE, Message
from apps.record.reading.lookup import find_session
from parley import db

RUNNING = [
    ("cancel", "cancel running tasks"),
    ("finish", "let running tasks finish in this session; forks do not get their results"),
]


class Edited(Content):
    keep_files = serializers.BooleanField(
        default=False, help_text="Whether the edited message keeps the files of the original."
    )
    running = Choice(RUNNING, default="cancel", help_text="What happens to running tasks in the original session.")
    run = serializers.BooleanField(
        default=True,
        help_text="Whether the agent answers the edited message. If not, the fork only contains the message.",
    )


class Forking(Body):
    at = serializers.IntegerField(
        required=False,
        min_value=0,
        help_text="The index of the last event that the fork shares. 0 shares none. By default the newest event.",
    )
    message_id = serializers.UUIDField(
        required=False,
        help_text="The id of the last message that the fork shares. With `retry`: the id of the message to "
        "send again, or of an agent's message that answers it.",
    )
    retry = serializers.BooleanField(
        default=False,
        help_text="Whether to send your newest message again, or the message of `messageId`. The fork "
        "starts just before that message.",
    )
    agent = Line(required=False, help_text="The slug of another agent that continues in the fork.")
    options = Struct(required=False, help_text="The options of `agent` in the fork.")
    running = Choice(
        RUNNING,
        required=False,
        help_text="What happens to running tasks in the original session. By default `cancel` with `retry`, "
        "otherwise `finish`.",
    )
    title = Line(required=False, max_length=MAX_TITLE)

    def validate(self, attrs: JSON) -> JSON:
        if "at" in attrs and ("message_id" in attrs or attrs["retry"]):
            raise serializers.ValidationError({"at": ["Use either `at` or `messageId`, not both."]})
        if "options" in attrs and "agent" not in attrs:
            raise serializers.ValidationError({"options": ["Name the `agent` that these are for."]})
        return attrs


PREVIEW_LENGTH = 200  # characters


class Leaf(Body):
    leaf_id = serializers.UUIDField(help_text="The id of a session in the tree.")


class Chosen(Shape):
    leaf_id = serializers.UUIDField()


@extend_schema_serializer(component_name="TreeNode")
class NodeShape(Shape):
    """A session in a tree of forks. For a deleted session, only its place in the tree is shown."""

    id = serializers.UUIDField(source="context.pk")
    parent_id = serializers.UUIDField(source="context.parent_id", allow_null=True)
    is_deleted = serializers.BooleanField(source="is_gap")
    title = serializers.CharField(source="context.title")
    agent = serializers.CharField(
        allow_null=True, help_text="The slug of the session's agent. Null for a deleted session."
    )
    forked_at = serializers.IntegerField(
        source="context.forked_at",
        allow_null=True,
        help_text="The index of the last event that the session shares with its parent.",
    )
    fork_reason = serializers.CharField(
        source="context.fork_reason",
        help_text="Why the session was forked: `fork`, `edit`, `retry` or `agent`. Empty if the session is not a fork.",
    )
    message_count = serializers.IntegerField(source="messages")
    revision = serializers.IntegerField(
        source="context.last_event", help_text="The index of the session's newest event."
    )
    created_at = serializers.DateTimeField(source="context.created_at")
    updated_at = serializers.DateTimeField(source="context.updated_at")


@extend_schema_serializer(component_name="Tree")
class TreeShape(Shape):
    """A session and all its forks. Parents come before their children. Children are sorted by age."""

    root_id = serializers.UUIDField()
    leaf_id = serializers.UUIDField(
        allow_null=True, help_text="The id of your current session in the tree: the last one that you forked or chose."
    )
    items = NodeShape(many=True)


@extend_schema_serializer(component_name="Sibling")
class SiblingShape(Shape):
    """One of several continuations of a session from the same place, and its first message."""

    session_id = serializers.UUIDField(source="context.pk")
    message_id = serializers.UUIDField(source="message.pk")
    index = serializers.IntegerField(
        source="message.index", help_text="The index of the event that recorded the message."
    )
    role = serializers.ChoiceField(Message.Role.choices, source="message.role")
    preview = serializers.CharField(help_text=f"The first {PREVIEW_LENGTH} characters of the message.")
    timestamp = serializers.DateTimeField(source="message.created_at")


@extend_schema_serializer(component_name="Siblings")
class SiblingsShape(Shape):
    """The versions of a message. `position` is the message's place among `count` versions, such as 2 of 3. The
    original is first.
    """

    position = serializers.IntegerField()
    count = serializers.IntegerField()
    items = SiblingShape(many=True)


class MessageBranches(Operations):
    @documented(
        "messages_edit",
        "Edit one of your messages",
        body=Edited,
        answers={200: SentShape, 201: SentShape},
        refuses=[409],
        keyed=True,
    )
    async def edit(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """An edit creates a fork that starts just before the message. The agent answers the new message in the
        fork. The original session does not change, except for an event that records the edit.

        A repeated request with the same `Idempotency-Key` returns the same fork with status 200. Two edits of the
        same message create two forks.
        """
        asked, key = await db.run(self.body, Edited), self.idempotency_key
        await db.run(quotas.count_fork, self.principal)
        how = {name: asked[name] for name in ("running", "keep_files")} | {"key": key}
        if not asked["run"]:
            return await db.run(self._save, session, message, read_parts(asked), how)
        how["traceparent"] = self.traceparent
        sent = await editing.edit(self.principal, session, message, read_parts(asked), **how)
        return await db.run(_fork_response, self, sent)

    def _save(self, session: uuid.UUID, message: uuid.UUID, parts: list[JSON], how: JSON) -> Response:
        saved = editing.save(self.principal, session, message, parts, **how)
        context = find_session(self.principal, saved.message.context_id)
        [shown] = shapes.messages_json(context, [saved.message])
        return _session_response(self, context.pk, NOTHING_SENT | {"message": shown, "repeated": saved.repeated}, "")

    @documented("messages_siblings", "List the versions of a message", answers=SiblingsShape)
    def siblings(self, request: Request, session: uuid.UUID, message: uuid.UUID) -> Response:
        """The list has all continuations from the same place: the original, followed by the forks, sorted by age."""
        context = find_session(self.principal, session)
        row = editing.find_message(context, message)
        found = branches.siblings(self.principal, context, row.index)
        own = [at for at, one in enumerate(found, start=1) if one.message.pk == row.pk]
        items = [SiblingShape.json_of(one, preview=words_of(one.message.parts)[:PREVIEW_LENGTH]) for one in found]
        return Response({"position": own[0], "count": len(found), "items": items})


class SessionBranches(Operations):
    @documented(
        "sessions_fork",
        "Fork a session at an event",
        body=Forking,
        answers={200: SentShape, 201: SentShape},
        refuses=[409],
        keyed=True,
    )
    async def fork(self, request: Request, session: uuid.UUID) -> Response:
        """The fork shares the earlier events with the session. Nothing is copied. With `retry`, your message is
        sent again in the fork.

        A repeated request with the same `Idempotency-Key` returns the same fork with status 200.
        """
        asked, key = await db.run(self.body, Forking), self.idempotency_key
        await db.run(quotas.count_fork, self.principal)
        if not asked["retry"]:
            return await db.run(self._fork, session, asked, key)
        how = {"running": asked.get("running", "cancel"), "message": asked.get("message_id")}
        how |= await db.run(self._receiver, asked)
        sent = await editing.retry(self.principal, session, key=key, traceparent=self.traceparent, **how)
        return await db.run(_fork_response, self, sent, asked.get("title", ""))

    def _receiver(self, asked: JSON) -> JSON:
        """The agent that continues in the fork, with its options; None for the session's."""
        agent = usable_agent(self.principal, asked["agent"]) if "agent" in asked else None
        options = commands.read_options(agent, asked["options"]) if agent and "options" in asked else None
        return {"agent": agent, "options": options}

    def _fork(self, session: uuid.UUID, asked: JSON, key: str) -> Response:
        context = find_session(self.principal, session)
        made = forking.find_fork(self.principal, context, key)
        newest = context.last_event if made is None or made.forked_at is None else made.forked_at
        at = asked.get("at", newest)
        if "message_id" in asked:
            at = editing.find_message(context, asked["message_id"]).index
        how = {"key": key, "running": asked.get("running", "finish"), **self._receiver(asked)}
        child = forking.fork(self.principal, context, at, reason="agent" if how["agent"] else "fork", **how)
        branches.save_chosen_leaf(self.principal, child)
        return _session_response(self, child.pk, NOTHING_SENT | {"repeated": made is not None}, asked.get("title", ""))

    @documented("sessions_tree", "List all forks of a session as a tree", answers=TreeShape)
    def tree(self, request: Request, session: uuid.UUID) -> Response:
        """The response is the same for every session of the tree."""
        tree = branches.tree(self.principal, session)
        leaf = str(tree.chosen) if tree.chosen else None
        items = [NodeShape.json_of(one, agent=None if one.is_gap else one.context.agent.slug) for one in tree.nodes]
        return Response({"rootId": str(tree.root), "leafId": leaf, "items": items})

    @documented("sessions_choose_leaf", "Choose your current fork", body=Leaf, answers=Chosen)
    def choose_leaf(self, request: Request, session: uuid.UUID) -> Response:
        """The choice is yours alone and applies to the whole tree. When you create a fork, it becomes your current
        fork.
        """
        leaf = self.body(Leaf)["leaf_id"]
        try:
            branches.choose_leaf(self.principal, session, leaf)
        except InvalidParams as refusal:
            raise InvalidFields([("leafId", str(refusal))]) from None
        return Response({"leafId": str(leaf)})


def _fork_response(view: Endpoint, sent: Sent, title: str = "") -> Response:
    return _session_response(view, sent.context, messages.sent_json(view.principal, sent), title)


def _session_response(view: Endpoint, session: uuid.UUID, told: JSON, title: str) -> Response:
    if title and not told["repeated"]:
        commands.rename_session(view.principal, session, title)
    shown = shapes.session_json(find_session(view.principal, session))
    headers = {"Location": reverse("api:session", args=[session])}
    return Response({**told, "session": shown}, status=200 if told["repeated"] else 201, headers=headers)


SESSION = "sessions/<uuid:session>"
MESSAGE = f"{SESSION}/messages/<uuid:message>"

urlpatterns = [
    path(MESSAGE, MessageBranches.at(put="edit"), name="message"),
    path(f"{MESSAGE}/siblings", MessageBranches.at(get="siblings"), name="message-siblings"),
    path(f"{SESSION}/fork", SessionBranches.at(post="fork"), name="session-fork"),
    path(f"{SESSION}/tree", SessionBranches.at(get="tree"), name="session-tree"),
    path(f"{SESSION}/leaf", SessionBranches.at(put="choose_leaf"), name="session-leaf"),
]
