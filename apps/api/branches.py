"""Where sessions went on differently: the tree of their forks, what else was said in a place, and who is where."""

from __future__ import annotations

import uuid

from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.fields import Body, Shape
from apps.api.problems import InvalidFields
from apps.api.schema import documented
from apps.api.sending import session_of
from apps.api.shapes.naming import JSON, timestamp
from apps.api.views import Endpoint
from apps.features.forks import branches, editing
from apps.record.errors import InvalidParams
from apps.record.models import Message
from apps.record.parts import words_of

PREVIEW = 200  # characters of a message


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
    preview = serializers.CharField(help_text=f"The first {PREVIEW} characters of it.")
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
        items = [_node(one) for one in tree.nodes]
        return Response({"rootId": str(tree.root), "leafId": leaf, "items": items})


def _node(node: branches.Node) -> JSON:
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
        context = session_of(self.principal, session)
        row = editing.message_of(context, message)
        found = branches.siblings(context, row.index)
        own = [at for at, one in enumerate(found, start=1) if one.message.pk == row.pk]
        return Response({"position": own[0], "count": len(found), "items": [_sibling(one) for one in found]})


def _sibling(sibling: branches.Sibling) -> JSON:
    message = sibling.message
    return {
        "sessionId": str(sibling.context.pk),
        "messageId": str(message.pk),
        "index": message.index,
        "role": message.role,
        "preview": words_of(message.parts)[:PREVIEW],
        "timestamp": timestamp(message.created_at),
    }


urlpatterns = [
    path("sessions/<uuid:session>/tree", Tree.as_view(), name="session-tree"),
    path("sessions/<uuid:session>/leaf", ChosenLeaf.as_view(), name="session-leaf"),
    path("sessions/<uuid:session>/messages/<uuid:message>/siblings", Siblings.as_view(), name="message-siblings"),
]
