"""What was said in a session, line by line; and saying more."""

from __future__ import annotations

import uuid

from django.urls import path
from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.api import idempotency, pages, sending, shapes
from apps.api.fields import Body, Line, Listing, Struct, page_of
from apps.api.parts import parts_field, parts_of
from apps.api.schema import documented
from apps.api.sending import session_of
from apps.api.shapes.declared import EventShape, MessageShape, SentShape
from apps.api.views import Endpoint
from apps.record import lineage

MOST_REFERENCES = 100
TABLE = {"raw": "YSxiCjEsMgo=", "filename": "table.csv", "mediaType": "text/csv"}


class MessagesQuery(Listing):
    index = serializers.IntegerField(
        required=False, min_value=1, help_text="Of the event that brought a message: that one alone."
    )


class NewMessage(Body):
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=1_000_000)
    parts = parts_field()
    task = serializers.UUIDField(required=False, help_text="The task that it answers, or goes on with.")
    references = serializers.ListField(
        child=Line(), required=False, max_length=MOST_REFERENCES, help_text="Tasks of yours that it is about."
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
        asked, context = self.query(MessagesQuery), session_of(self.principal, session)
        rows = lineage.messages(context)
        if "index" in asked:
            rows = rows.filter(index=asked["index"])
        found, following = pages.page(rows, ("index",), asked, self.principal, "messages", session)
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
            OpenApiExample("A file", {"text": "Make a report", "parts": [TABLE]}, request_only=True),
        ],
    )
    async def post(self, request: Request, session: uuid.UUID) -> Response:
        """Status 202: an agent works on it; follow the session's events. Status 200: it was answered, or waited for.

        The same Idempotency-Key leads to the same message, task and answer, and to nothing new.
        """
        asked, key = await db.run(self.body, NewMessage), idempotency.key_of(request)
        quotas.count_act(self.principal)
        message = {"messageId": key, "parts": parts_of(asked)}
        optional = {"referenceTaskIds": asked.get("references"), "metadata": asked.get("metadata")}
        message |= {name: value for name, value in optional.items() if value}
        outgoing = await db.run(sending.addressed, self.principal, session, message, asked.get("task"))
        known = {"address": self.address, "span": self.span}
        told = await sending.send(self.principal, outgoing, wait=asked["wait"], **known)
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
        asked, context = self.query(Listing), session_of(self.principal, session)
        rows = lineage.events(context)
        found, following = pages.page(rows, ("index",), asked, self.principal, "events", session)
        return Response({"items": shapes.events_json(session, found), "nextCursor": following})


urlpatterns = [
    path("sessions/<uuid:session>/messages", Messages.as_view(), name="messages"),
    path("sessions/<uuid:session>/events", Events.as_view(), name="events"),
]
