"""Sessions: the caller's conversations, each with what was said and done in it."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import QuerySet
from django.urls import path
from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.api import idempotency, pages, sending, shapes, syncing
from apps.api.fields import Body, Choice, Line, Listing, Query, Struct, Token
from apps.api.parts import parts_field, parts_of
from apps.api.problems import InvalidFields
from apps.api.schema import documented
from apps.api.sending import session_of
from apps.api.shapes.declared import SentShape, SessionShape, WholeSessionShape
from apps.api.shapes.whole import SECTIONS, Wanted
from apps.api.syncing import SessionsPage
from apps.api.views import Endpoint
from apps.features.search import finding, queries
from apps.features.sessions import creation, deletion, naming, switching
from apps.record.models import Context
from apps.record.titles import title_of

JSON = dict[str, Any]
TITLE = 200  # characters

ASKING = {"agent": "echo", "message": {"text": "Hello"}, "wait": True}


class SessionListing(Listing):
    q = serializers.CharField(
        default="", allow_blank=True, max_length=queries.LONGEST, help_text="Those in which this is found: see /search."
    )
    agent = Line(default="", help_text="The slug of an agent: sessions that are with it.")
    archived = Choice([("no", "those in use"), ("only", "those that were put away"), ("all", "both")], default="no")
    parent = serializers.UUIDField(  # type: ignore[assignment]
        default=None, help_text="A session: those that were forked from it."
    )
    since = Token(
        max_length=10_000,
        help_text="A `token`: all sessions that changed since, whatever the other filters say.",
    )


class FirstMessage(Body):
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=1_000_000)
    parts = parts_field()


class NewSession(Body):
    agent = Line(help_text="The slug of the agent to talk to.")
    title = Line(
        default="",
        allow_blank=True,
        max_length=TITLE,
        trim_whitespace=True,
        help_text="Without one, the first message names it.",
    )
    context_id = Line(default="", allow_blank=True, help_text="An A2A contextId of your own, which is in use nowhere.")
    options = Struct(required=False, help_text="How the agent is set up here.")
    message = FirstMessage(required=False, help_text="What to say first.")
    wait = serializers.BooleanField(default=False, help_text="Answer when the message's task has settled.")


class Changes(Body):
    title = Line(required=False, max_length=TITLE, trim_whitespace=True)
    agent = Line(required=False, help_text="The slug of the agent with which it goes on.")
    options = Struct(required=False, help_text="How the agent is set up from now on.")


class WholeQuery(Query):
    at = serializers.IntegerField(default=None, min_value=1, help_text="As it was after this event.")
    include = serializers.ListField(child=Choice(SECTIONS), default=list(SECTIONS))
    events_since = serializers.IntegerField(default=0, min_value=0, help_text="Events after this index.")
    events_limit = serializers.IntegerField(default=1000, min_value=1, max_value=10_000)


class Sessions(Endpoint):
    @documented(
        "sessions_list",
        "Your sessions, the one in which something happened last first",
        query=SessionListing,
        answers={200: SessionsPage},
    )
    def get(self, request: Request) -> Response:
        asked = self.query(SessionListing)
        if asked["since"]:
            return Response(syncing.changes_json(self.principal, asked["since"], asked["limit"]))
        token = "" if asked["cursor"] else syncing.begun(self.principal)
        bound = ("sessions", asked["q"], asked["agent"], asked["archived"], str(asked["parent"]))
        found, following = pages.page(_listed(self.principal, asked), NEWEST_FIRST, asked, self.principal, *bound)
        return Response({"items": shapes.sessions_json(found), "nextCursor": following, "token": token})

    @documented(
        "sessions_create",
        "Begin a session, and say something in it",
        body=NewSession,
        answers={200: SentShape, 201: SentShape},
        refuses=[409],
        keyed=True,
        examples=[OpenApiExample("Ask and wait", ASKING, request_only=True)],
    )
    async def post(self, request: Request) -> Response:
        """The same Idempotency-Key gives the same session again; status 200 says that it was there."""
        asked, key = await db.run(self.body, NewSession), idempotency.key_of(request)
        parts = parts_of(asked["message"]) if "message" in asked else []
        if parts:
            quotas.count_act(self.principal)
        begun = await db.run(_begin, self.principal, asked, key, parts)
        if parts:
            told = await self.say(begun.context.pk, {"messageId": key, "parts": parts}, wait=asked["wait"])
        else:
            told = {"session": await db.run(shapes.session_json, begun.context), **NOTHING_SAID}
        return Response({**told, "repeated": begun.repeated}, status=200 if begun.repeated else 201)

    async def say(self, session: uuid.UUID, message: JSON, *, wait: bool) -> JSON:
        outgoing = await db.run(sending.addressed, self.principal, session, message)
        return await sending.send(self.principal, outgoing, wait=wait, address=self.address, span=self.span)


NEWEST_FIRST = ("-updated_at", "-id")
NOTHING_SAID: JSON = {"message": None, "answer": None, "task": None, "artifacts": []}


def _listed(principal: Principal, asked: JSON) -> QuerySet[Context]:
    """The caller's own sessions that were begun from outside, narrowed down."""
    found = Context.objects.visible_to(principal).listed()
    if asked["agent"]:
        found = found.filter(agent__slug=asked["agent"])
    if asked["archived"] != "all":
        found = found.filter(archived_at__isnull=asked["archived"] == "no")
    if asked["parent"]:
        found = found.filter(parent=asked["parent"])
    if asked["q"]:
        found = found.filter(pk__in=finding.sessions(principal, asked["q"]))
    return found


def _begin(principal: Principal, asked: JSON, key: str, parts: list[JSON]) -> creation.Begun:
    """Raises InvalidFields, UnsupportedOperation, ContentTypeNotSupported."""
    agent = agent_of(principal, asked["agent"])
    sending.check_taken(agent, parts)
    title = asked["title"] or (title_of({"parts": parts}) if parts else "")
    known: JSON = {"title": title, "context_id": asked["context_id"], "options": asked.get("options")}
    return creation.begin(principal, agent, key=key, **known)


def agent_of(principal: Principal, slug: str) -> Agent:
    """An agent that the caller may use. Raises InvalidFields."""
    found = Agent.objects.visible_to(principal).filter(slug=slug).first()
    if found is None:
        raise InvalidFields([("agent", "There is no such agent, or you may not use it.")])
    return found


class OneSession(Endpoint):
    @documented(
        "sessions_retrieve",
        "A session, as it is or as it was",
        query=WholeQuery,
        answers={200: WholeSessionShape},
        refuses=[404],
    )
    def get(self, request: Request, session: uuid.UUID) -> Response:
        """With `at` it is byte for byte what it was after that event, whatever came later."""
        asked = self.query(WholeQuery)
        context = session_of(self.principal, session)
        if asked["at"] is not None and asked["at"] > context.last_event:
            raise InvalidFields([("at", f"There is no event {asked['at']}. The newest is {context.last_event}.")])
        wanted = Wanted(frozenset(asked["include"]), asked["events_since"], asked["events_limit"])
        return Response(shapes.whole_session(context, wanted, asked["at"]))

    @documented(
        "sessions_update",
        "Rename a session, or let it go on with another agent",
        body=Changes,
        answers={200: SessionShape},
        refuses=[404, 409],
        examples=[OpenApiExample("Rename", {"title": "Plans for May"}, request_only=True)],
    )
    def patch(self, request: Request, session: uuid.UUID) -> Response:
        """What runs goes on with whom it was begun. Without `options` another agent has none."""
        asked, context = self.body(Changes), session_of(self.principal, session)
        if "agent" in asked or "options" in asked:
            agent = agent_of(self.principal, asked["agent"]) if "agent" in asked else context.agent
            switching.switch(self.principal, session, agent, asked.get("options"))
        if "title" in asked:
            naming.rename(self.principal, session, asked["title"])
        return Response(shapes.session_json(session_of(self.principal, session)))

    @documented("sessions_delete", "Delete a session", answers={204: None}, refuses=[404])
    def delete(self, request: Request, session: uuid.UUID) -> Response:
        """What runs in it is canceled. Forks of it stay as they are."""
        deletion.clear_session(self.principal, session)
        return Response(status=204)


class Archived(Endpoint):
    @documented("sessions_archive", "Put a session away", answers={200: SessionShape}, refuses=[404])
    def post(self, request: Request, session: uuid.UUID) -> Response:
        """Lists leave it out until somebody says something in it."""
        return Response(shapes.session_json(naming.archive(self.principal, session)))


class Unarchived(Endpoint):
    @documented("sessions_unarchive", "Bring a session back", answers={200: SessionShape}, refuses=[404])
    def post(self, request: Request, session: uuid.UUID) -> Response:
        return Response(shapes.session_json(naming.unarchive(self.principal, session)))


urlpatterns = [
    path("sessions", Sessions.as_view(), name="sessions"),
    path("sessions/<uuid:session>", OneSession.as_view(), name="session"),
    path("sessions/<uuid:session>/archive", Archived.as_view(), name="session-archive"),
    path("sessions/<uuid:session>/unarchive", Unarchived.as_view(), name="session-unarchive"),
]
