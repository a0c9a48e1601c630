"""Going on differently: editing what was said, having it answered again, forking a session."""

from __future__ import annotations

import uuid

from django.urls import path, reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.api import sending, shapes
from apps.api.fields import Body, Choice, Line
from apps.api.idempotency import key_of
from apps.api.parts import MOST_WORDS, parts_field, parts_of
from apps.api.schema import documented
from apps.api.sending import session_of
from apps.api.sessions import NOTHING_SAID, TITLE, agent_of
from apps.api.shapes.declared import SentShape
from apps.api.shapes.naming import JSON
from apps.api.views import Endpoint
from apps.engine.send import Sent
from apps.features.forks import branches, editing, forking
from apps.features.sessions import naming

RUNNING = [("cancel", "is canceled"), ("finish", "ends there, and reaches no fork")]


class Edited(Body):
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MOST_WORDS)
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
    title = Line(required=False, max_length=TITLE)

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
        asked, key = await db.run(self.body, Edited), key_of(request)
        quotas.count_act(self.principal)
        how = {name: asked[name] for name in ("running", "keep_files")} | {"key": key, "traceparent": self.span}
        with sending.called_by_its_key():
            sent = await editing.edit(self.principal, session, message, parts_of(asked), **how)
        return await db.run(_made, self, sent)


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
        asked, key = await db.run(self.body, Forking), key_of(request)
        quotas.count_act(self.principal)
        if not asked["retry"]:
            return await db.run(self._fork, session, asked, key)
        agent = await db.run(agent_of, self.principal, asked["agent"]) if "agent" in asked else None
        how = {"running": asked.get("running", "cancel"), "message": asked.get("message_id"), "agent": agent}
        with sending.called_by_its_key():
            sent = await editing.retry(self.principal, session, key=key, traceparent=self.span, **how)
        return await db.run(_made, self, sent, asked.get("title", ""))

    def _fork(self, session: uuid.UUID, asked: JSON, key: str) -> Response:
        context = session_of(self.principal, session)
        made = forking.made_of(context, key)
        newest = context.last_event if made is None or made.forked_at is None else made.forked_at
        at = asked.get("at", newest)
        if "message_id" in asked:
            at = editing.message_of(context, asked["message_id"]).index
        agent = agent_of(self.principal, asked["agent"]) if "agent" in asked else None
        how = {"agent": agent, "key": key, "running": asked.get("running", "finish")}
        with sending.called_by_its_key():
            child = forking.fork(self.principal, context, at, reason="agent" if agent else "fork", **how)
        branches.choose(self.principal, child)
        return _shown(self, child.pk, NOTHING_SAID | {"repeated": made is not None}, asked.get("title", ""))


def _made(view: Endpoint, sent: Sent, title: str = "") -> Response:
    """What was made of a message in a fork."""
    return _shown(view, sent.context, sending.told(view.principal, sent), title)


def _shown(view: Endpoint, session: uuid.UUID, told: JSON, title: str) -> Response:
    if title and not told["repeated"]:
        naming.rename(view.principal, session, title)
    shown = shapes.session_json(session_of(view.principal, session))
    headers = {"Location": reverse("api:session", args=[session])}
    return Response({**told, "session": shown}, status=200 if told["repeated"] else 201, headers=headers)


urlpatterns = [
    path("sessions/<uuid:session>/messages/<uuid:message>", OneMessage.as_view(), name="message"),
    path("sessions/<uuid:session>/fork", Forks.as_view(), name="session-fork"),
]
