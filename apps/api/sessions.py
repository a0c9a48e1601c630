"""Sessions: the caller's conversations; each as it is or was, what changed in them, the caller's marks, and search."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.api import messages, shapes
from apps.api.framework import pagination
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Query, Shape, Struct, Token, page_of
from apps.api.framework.views import Endpoint
from apps.api.messages import find_session, parts_field, read_parts
from apps.api.shapes import (
    JSON,
    EventValues,
    SentShape,
    SessionShape,
    WholeSessionShape,
    agent_slugs,
    artifacts_json,
    build_session_json,
    events_json,
    messages_json,
    sessions_json,
    tasks_json,
)
from apps.features.search import queries
from apps.features.search.models import SearchEntry
from apps.features.search.queries import PageCursor, SearchResult
from apps.features.sessions import commands, deletion, marks
from apps.record import lineage, projection, sync, wire
from apps.record.content.parts import title_of
from apps.record.errors import ContextNotFound, InvalidFields
from apps.record.models import Artifact, Context, Message, Task
from apps.record.sync import PositionTooOld

MAX_TITLE = 200  # characters

EXAMPLE_SESSION = {"agent": "echo", "message": {"text": "Hello"}, "wait": True}


class SessionListing(Listing):
    q = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=queries.MAX_QUERY_LENGTH,
        help_text="Those in which this is found: see /search.",
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
    text = serializers.CharField(required=False, trim_whitespace=False, max_length=messages.MAX_TEXT)
    parts = parts_field()


class NewSession(Body):
    agent = Line(help_text="The slug of the agent to talk to.")
    title = Line(
        default="",
        allow_blank=True,
        max_length=MAX_TITLE,
        trim_whitespace=True,
        help_text="Without one, the first message names it.",
    )
    context_id = Line(default="", allow_blank=True, help_text="An A2A contextId of your own, which is in use nowhere.")
    options = Struct(required=False, help_text="How the agent is set up here.")
    message = FirstMessage(required=False, help_text="What to say first.")
    wait = serializers.BooleanField(default=False, help_text="Answer when the message's task has settled.")


class Changes(Body):
    title = Line(required=False, max_length=MAX_TITLE, trim_whitespace=True)
    agent = Line(required=False, help_text="The slug of the agent with which it goes on.")
    options = Struct(required=False, help_text="How the agent is set up from now on.")


SECTIONS = ("messages", "tasks", "artifacts", "events")


class WholeQuery(Query):
    at = serializers.IntegerField(default=None, min_value=1, help_text="As it was after this event.")
    include = serializers.ListField(child=Choice(SECTIONS), default=list(SECTIONS))
    events_since = serializers.IntegerField(default=0, min_value=0, help_text="Events after this index.")
    events_limit = serializers.IntegerField(default=1000, min_value=1, max_value=10_000)


class SessionsPage(Shape):
    """A page of sessions; or, after `since`, what changed."""

    items = SessionShape(many=True)
    next_cursor = serializers.CharField(help_text="For the next page; empty on the last one.")
    token = serializers.CharField(
        help_text="For `since`: what changes from before this page was read on; empty but on the first page."
    )
    created = serializers.ListField(
        child=serializers.UUIDField(), required=False, help_text="After `since`: which of the items are new."
    )
    deleted = serializers.ListField(
        child=serializers.UUIDField(), required=False, help_text="After `since`: sessions that are gone."
    )
    more = serializers.BooleanField(required=False, help_text="After `since`: ask again with the new token at once.")
    reset = serializers.BooleanField(
        required=False, help_text="After `since`: that is too long ago. List everything anew, without it."
    )


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
            return Response(changes_json(self.principal, asked["since"], asked["limit"]))
        token = "" if asked["cursor"] else current_token(self.principal)
        bound = ("sessions", asked["q"], asked["agent"], asked["archived"], str(asked["parent"]))
        found, following = pagination.paginate(
            _filtered(self.principal, asked), NEWEST_FIRST, asked, self.principal, *bound
        )
        return Response({"items": shapes.sessions_json(found), "nextCursor": following, "token": token})

    @documented(
        "sessions_create",
        "Begin a session, and say something in it",
        body=NewSession,
        answers={200: SentShape, 201: SentShape},
        refuses=[409],
        keyed=True,
        examples=[OpenApiExample("Ask and wait", EXAMPLE_SESSION, request_only=True)],
    )
    async def post(self, request: Request) -> Response:
        """The same Idempotency-Key gives the same session again; status 200 says that it was there."""
        asked, key = await db.run(self.body, NewSession), self.idempotency_key
        parts = read_parts(asked["message"]) if "message" in asked else []
        if parts:
            quotas.count_act(self.principal)
        begun = await db.run(_create, self.principal, asked, key, parts)
        if parts:
            told = await self.say(begun.context.pk, {"messageId": key, "parts": parts}, wait=asked["wait"])
        else:
            told = {"session": await db.run(shapes.session_json, begun.context), **NOTHING_SENT}
        return Response({**told, "repeated": begun.repeated}, status=200 if begun.repeated else 201)

    async def say(self, session: uuid.UUID, message: JSON, *, wait: bool) -> JSON:
        outgoing = await db.run(messages.address_message, self.principal, session, message)
        return await messages.send_message(
            self.principal, outgoing, wait=wait, address=self.address, traceparent=self.traceparent
        )


NEWEST_FIRST = ("-updated_at", "-id")
NOTHING_SENT: JSON = {"message": None, "answer": None, "task": None, "artifacts": []}


def _filtered(principal: Principal, asked: JSON) -> QuerySet[Context]:
    """The caller's own sessions that were begun from outside, narrowed down."""
    found = Context.objects.visible_to(principal).listed()
    if asked["agent"]:
        found = found.filter(agent__slug=asked["agent"])
    if asked["archived"] != "all":
        found = found.filter(archived_at__isnull=asked["archived"] == "no")
    if asked["parent"]:
        found = found.filter(parent=asked["parent"])
    if asked["q"]:
        found = found.filter(pk__in=queries.matching_sessions(principal, asked["q"]))
    return found


def _create(principal: Principal, asked: JSON, key: str, parts: list[JSON]) -> commands.CreatedSession:
    """Raises InvalidFields, UnsupportedOperation, ContentTypeNotSupported."""
    agent = usable_agent(principal, asked["agent"])
    messages.check_media_types(agent, parts)
    title = asked["title"] or (title_of({"parts": parts}) if parts else "")
    known: JSON = {"title": title, "context_id": asked["context_id"], "options": asked.get("options")}
    return commands.create_session(principal, agent, key=key, **known)


def usable_agent(principal: Principal, slug: str) -> Agent:
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
        context = find_session(self.principal, session)
        if asked["at"] is not None and asked["at"] > context.last_event:
            raise InvalidFields([("at", f"There is no event {asked['at']}. The newest is {context.last_event}.")])
        wanted = SessionSelection(frozenset(asked["include"]), asked["events_since"], asked["events_limit"])
        return Response(whole_session(context, wanted, asked["at"]))

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
        asked, context = self.body(Changes), find_session(self.principal, session)
        if "agent" in asked or "options" in asked:
            agent = usable_agent(self.principal, asked["agent"]) if "agent" in asked else context.agent
            commands.switch_agent(self.principal, session, agent, asked.get("options"))
        if "title" in asked:
            commands.rename_session(self.principal, session, asked["title"])
        return Response(shapes.session_json(find_session(self.principal, session)))

    @documented("sessions_delete", "Delete a session", answers={204: None}, refuses=[404])
    def delete(self, request: Request, session: uuid.UUID) -> Response:
        """What runs in it is canceled. Forks of it stay as they are."""
        deletion.delete_session(self.principal, session)
        return Response(status=204)


class Archived(Endpoint):
    @documented("sessions_archive", "Put a session away", answers={200: SessionShape}, refuses=[404])
    def post(self, request: Request, session: uuid.UUID) -> Response:
        """Lists leave it out until somebody says something in it."""
        return Response(shapes.session_json(commands.archive_session(self.principal, session)))


class Unarchived(Endpoint):
    @documented("sessions_unarchive", "Bring a session back", answers={200: SessionShape}, refuses=[404])
    def post(self, request: Request, session: uuid.UUID) -> Response:
        return Response(shapes.session_json(commands.unarchive_session(self.principal, session)))


@dataclass(frozen=True, slots=True)
class SessionSelection:
    """What is to be shown: some of SECTIONS; of the events up to `most` after index `since`."""

    sections: Collection[str] = SECTIONS
    since: int = 0
    most: int = 1000

    def of_events(self, context: Context, upto: int) -> list[EventValues]:
        """The events, and one more where there is one."""
        if "events" not in self.sections:
            return []
        return EventValues.of(lineage.events(context, self.since, upto)[: self.most + 1])


@dataclass(frozen=True, slots=True)
class SessionState:
    """The rows of a session as they are, or were; `reader` is the session itself, by which its log is found."""

    reader: Context
    context: Context
    messages: Sequence[Message]
    tasks: Sequence[Task]
    artifacts: Sequence[Artifact]


def whole_session(context: Context, wanted: SessionSelection, at: int | None = None) -> JSON:
    """The session after event `at`, by default as it is. A fixed number of queries. Raises ContextNotFound.

    While it changes, rows are those of different moments: then it is made from the log, which holds still.
    """
    if at is None:
        state, events = _current_state(context), wanted.of_events(context, context.last_event)
        newest = Context.objects.filter(pk=context.pk, deleted_at=None).values_list("last_event", flat=True).first()
        if newest == context.last_event:
            return _session_document(state, events, wanted)
    reached = context.last_event if at is None else at
    try:
        state = _past_state(context, reached)
    except Context.DoesNotExist:
        raise ContextNotFound from None
    return _session_document(state, wanted.of_events(context, reached), wanted)


def _current_state(context: Context) -> SessionState:
    artifacts = list(lineage.artifacts(context))
    return SessionState(
        context, context, _messages_until(context, context.last_event), lineage.shown_tasks(context), artifacts
    )


def _past_state(context: Context, at: int) -> SessionState:
    """Messages do not change once they are said; everything else is folded anew."""
    rebuilt = projection.rebuild(context.pk, upto=at)
    tasks = sorted(rebuilt.tasks.values(), key=lambda task: task.first_event)
    delivered = [artifact for artifact in rebuilt.artifacts if artifact.state == Artifact.State.DELIVERED]
    return SessionState(context, rebuilt.context, _messages_until(context, at), tasks, delivered)


def _messages_until(context: Context, upto: int) -> list[Message]:
    return list(lineage.messages(context).filter(index__lte=upto).order_by("index"))


def _session_document(state: SessionState, events: list[EventValues], wanted: SessionSelection) -> JSON:
    session, context = state.reader.pk, state.context
    said: JSON = {"session": build_session_json(context, agent_slugs([context.agent_id]), len(state.messages))}
    if "messages" in wanted.sections:
        said["messages"] = messages_json(state.reader, state.messages, context.last_event)
    if "tasks" in wanted.sections:
        said["tasks"] = tasks_json(session, state.tasks, state.artifacts)
    if "artifacts" in wanted.sections:
        said["artifacts"] = artifacts_json(session, state.artifacts)
    if "events" in wanted.sections:
        shown = events[: wanted.most]
        said["events"] = events_json(session, shown)
        said["nextEvents"] = shown[-1].index if len(events) > len(shown) else None
    return said


def changes_json(principal: Principal, since: str, limit: int) -> JSON:
    """Raises InvalidParams for a token that is not the caller's."""
    try:
        found = sync.changes_since(principal, sync.parse_position(principal, since), limit)
    except PositionTooOld:
        return {"items": [], "nextCursor": "", "token": "", "created": [], "deleted": [], "more": False, "reset": True}
    return {
        "items": sessions_json(found.sessions),
        "nextCursor": "",
        "token": sync.position_token(principal, found.position),
        "created": [str(key) for key in found.created],
        "deleted": [str(key) for key in found.deleted],
        "more": found.more,
        "reset": False,
    }


def current_token(principal: Principal) -> str:
    """The token of who begins to read everything."""
    return sync.position_token(principal, sync.current_position(principal))


MAX_INDEX = 2**63 - 1  # what a database keeps


class Marking(Body):
    pinned = serializers.BooleanField(required=False, help_text="Does it stay on top of your list?")
    seen = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_INDEX, help_text="Index of the newest event that you have seen."
    )


@extend_schema_serializer(component_name="SessionMark")
class MarkShape(Shape):
    """What you noted of a session."""

    pinned = serializers.BooleanField()
    seen = serializers.IntegerField(help_text="Index of the newest event that you have seen.")


class Mark(Endpoint):
    @documented(
        "sessions_mark",
        "Pin a session, or say how far you saw it",
        body=Marking,
        answers={200: MarkShape},
        refuses=[404],
        examples=[OpenApiExample("Pin", {"pinned": True}, request_only=True)],
    )
    def put(self, request: Request, session: uuid.UUID) -> Response:
        """Each of them stays as it is where it is not named; what was seen stays seen."""
        own = marks.update_mark(self.principal, session, **self.body(Marking))
        return Response({"pinned": own.pinned_at is not None, "seen": own.seen})


class Searching(Listing):
    q = serializers.CharField(
        max_length=queries.MAX_QUERY_LENGTH,
        help_text='Words, all of which are to be found; `"a phrase"`, `-without`, `begin*`.',
    )
    kind = serializers.ListField(child=Choice(SearchEntry.Kind.values), default=list, help_text="What is looked for.")
    session = serializers.UUIDField(default=None, help_text="In this session alone, with what it was forked from.")
    agent = Line(default="", help_text="In sessions with the agent of this slug alone.")
    before = serializers.DateTimeField(default=None, help_text="Older than this alone.")


class Piece(Shape):
    text = serializers.CharField()
    hit = serializers.BooleanField(help_text="Is it what was looked for?")


class Hit(Shape):
    kind = serializers.ChoiceField(SearchEntry.Kind.choices)
    id = serializers.CharField(help_text="Of the message or the artifact; of a title that of its session.")
    session_id = serializers.UUIDField(help_text="The session in which it was said.")
    session_title = serializers.CharField()
    agent = serializers.CharField(help_text="Slug of the session's agent.")
    index = serializers.IntegerField(help_text="Of the event that brought it; 0 for a title.")
    name = serializers.CharField(help_text="Of an artifact; of a message its role.")
    timestamp = serializers.CharField()
    excerpt = Piece(many=True, help_text="Of its text, as data: to be shown as text.")


class Search(Endpoint):
    @documented(
        "search_list",
        "Search messages, artifacts and titles",
        query=Searching,
        answers={200: page_of(Hit)},
        refuses=[404],
    )
    def get(self, request: Request) -> Response:
        """The best first; of those that are alike the newest. What was said a moment ago is found."""
        asked = self.query(Searching)
        narrowed = [asked["q"], sorted(asked["kind"]), str(asked["session"]), asked["agent"], str(asked["before"])]
        found = queries.search(
            self.principal,
            asked["q"],
            kinds=asked["kind"],
            session=asked["session"],
            agent=asked["agent"],
            before=asked["before"],
            limit=asked["limit"],
            after=_read_place(pagination.read_cursor(asked["cursor"], self.principal, "search", *narrowed)),
        )
        after = found.after
        cursor = pagination.write_cursor(_write_place(after), self.principal, "search", *narrowed) if after else ""
        return Response({"items": [hit_json(one) for one in found.results], "nextCursor": cursor})


def hit_json(found: SearchResult) -> JSON:
    return {
        "kind": found.kind,
        "id": found.key or str(found.context.pk),
        "sessionId": str(found.context.pk),
        "sessionTitle": found.context.title,
        "agent": found.context.agent.slug,
        "index": found.index,
        "name": found.name,
        "timestamp": wire.timestamp(found.at),
        "excerpt": found.excerpt,
    }


def _read_place(told: list[Any] | None) -> PageCursor | None:
    if told is None:
        return None
    score, at, key, newest = told
    return PageCursor(score, datetime.datetime.fromisoformat(at), key, newest)


def _write_place(place: PageCursor) -> list[Any]:
    return [place.score, place.at.isoformat(), place.key, place.newest]


urlpatterns = [
    path("sessions", Sessions.as_view(), name="sessions"),
    path("sessions/<uuid:session>", OneSession.as_view(), name="session"),
    path("sessions/<uuid:session>/archive", Archived.as_view(), name="session-archive"),
    path("sessions/<uuid:session>/unarchive", Unarchived.as_view(), name="session-unarchive"),
    path("sessions/<uuid:session>/mark", Mark.as_view(), name="session-mark"),
    path("search", Search.as_view(), name="search"),
]
