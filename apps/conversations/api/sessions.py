"""Sessions: list, changes, state now or earlier, marks, and search."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.agents.models import Agent
from apps.agents.search import default_agent
from apps.api.framework import pagination
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Query, Shape, Struct, Token, page_of
from apps.api.framework.views import Endpoint, Operations
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
    session_json,
    sessions_json,
    tasks_json,
)
from apps.conversations.api import messages
from apps.conversations.api.messages import read_parts
from apps.conversations.search import queries
from apps.conversations.search.models import SearchEntry
from apps.conversations.search.queries import PageCursor
from apps.conversations.sessions import commands, deletion, families, marks
from apps.record import lineage, projection
from apps.record.content.composing import check_taken, compose
from apps.record.content.rendering import title_of
from apps.record.errors import InvalidFields
from apps.record.models import MAX_TITLE, Artifact, Context, Message, Task
from apps.record.reading import sync
from apps.record.reading.lookup import find_own_session, find_session
from apps.record.reading.sync import PositionTooOld
from parley import db

EXAMPLE_SESSION = {"agent": "echo", "message": {"text": "Hello"}, "wait": True}


class SessionListing(Listing):
    q = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=queries.MAX_QUERY_LENGTH,
        help_text="Only sessions in which this query matches. `/search` describes the syntax.",
    )
    agent = Line(default="", help_text="Only sessions with this agent, by its slug.")
    archived = Choice(
        [("no", "sessions that are not archived"), ("only", "archived sessions"), ("all", "all sessions")], default="no"
    )
    parent = serializers.UUIDField(  # type: ignore[assignment]
        default=None, help_text="Only forks of this session, by its id."
    )
    project = serializers.UUIDField(default=None, help_text="Only sessions in this project, by its id.")
    whose = Choice(
        [("own", "your sessions"), ("shared", "sessions of others that are shared with the workspace")], default="own"
    )
    since = Token(
        max_length=10_000,
        help_text="A `token` from an earlier response. The response then has all sessions that changed "
        "since; other filters are ignored.",
    )


class FirstMessage(messages.Content):
    pass


class NewSession(Body):
    agent = Line(
        default="", allow_blank=True, help_text="The slug of the session's agent. By default the installation's own."
    )
    title = Line(
        default="",
        allow_blank=True,
        max_length=MAX_TITLE,
        trim_whitespace=True,
        help_text="The session's title. By default it is taken from the first message.",
    )
    context_id = Line(
        default="", allow_blank=True, help_text="An A2A `contextId` that you choose. No other session may use it."
    )
    options = Struct(
        required=False,
        help_text="The agent's options in this session. A remote agent takes them if its card declares the extension.",
    )
    project = serializers.UUIDField(
        required=False,
        allow_null=True,
        help_text="The id of the project that it begins in. Without an agent, or with the project's own, the project's "
        "agent and options are used.",
    )
    temporary = serializers.BooleanField(
        default=False, help_text="Whether the session neither uses nor leaves memory of you."
    )
    message = FirstMessage(required=False, help_text="The first message.")
    wait = serializers.BooleanField(
        default=False, help_text="Whether to respond only after the message's task has settled."
    )


class Changes(Body):
    title = Line(required=False, max_length=MAX_TITLE, trim_whitespace=True)
    agent = Line(required=False, help_text="The slug of the agent that receives new messages.")
    options = Struct(required=False, help_text="The agent's options from now on.")
    project = serializers.UUIDField(
        required=False,
        allow_null=True,
        help_text="The id of the project that the session moves into, or null: out of its project. What agents were "
        "told before stays as it was.",
    )
    sharing = Choice(
        Context.Sharing.choices,
        required=False,
        help_text="Who may see the session. Members of its workspace also write in it, unless they are viewers.",
    )


class BranchesQuery(Query):
    branches = Choice(
        [("this", "this session alone"), ("all", "all sessions of yours with its `rootId`")],
        default="this",
    )


class DeletingQuery(BranchesQuery):
    after = serializers.IntegerField(
        default=None,
        min_value=1,
        max_value=2**63 - 1,
        help_text="The index of an event of this session. Your forks that share the event are deleted too.",
    )


SECTIONS = ("messages", "tasks", "artifacts", "events")


class WholeQuery(Query):
    at = serializers.IntegerField(
        default=None,
        min_value=1,
        help_text="The index of an event. The response shows the session as it was after that event.",
    )
    include = serializers.ListField(child=Choice(SECTIONS), default=list(SECTIONS))
    events_since = serializers.IntegerField(
        default=0, min_value=0, help_text="Only events with an index above this number."
    )
    events_limit = serializers.IntegerField(default=1000, min_value=1, max_value=10_000)


@extend_schema_serializer(many=False)
class SessionsPage(Shape):
    """A page of sessions. With `since`: the sessions that changed."""

    items = SessionShape(many=True)
    next_cursor = serializers.CharField(help_text="The `cursor` of the next page. Empty on the last page.")
    token = serializers.CharField(
        help_text="A value for `since`, taken before the page was read, so that no later change is missed. "
        "Empty on all pages but the first."
    )
    created = serializers.ListField(
        child=serializers.UUIDField(), required=False, help_text="With `since`: the ids of items that are new."
    )
    deleted = serializers.ListField(
        child=serializers.UUIDField(),
        required=False,
        help_text="With `since`: the ids of sessions that no longer exist for you.",
    )
    more = serializers.BooleanField(
        required=False,
        help_text="With `since`: whether there are more changes. If so, send another request with the new token.",
    )
    reset = serializers.BooleanField(
        required=False,
        help_text="With `since`: whether the token is too old. If so, list all sessions again without `since`.",
    )


class Sessions(Operations):
    @documented(
        "sessions_list", "List your sessions, most recently updated first", query=SessionListing, answers=SessionsPage
    )
    def list(self, request: Request) -> Response:
        asked = self.query(SessionListing)
        if asked["since"]:
            return Response(changes_json(self.principal, asked["since"], asked["limit"]))
        token = "" if asked["cursor"] else current_token(self.principal)
        listed = self.page(_filtered(self.principal, asked), NEWEST_FIRST, asked, sessions_json)
        return Response({**listed.data, "token": token})

    @documented(
        "sessions_create",
        "Create a session and optionally send its first message",
        body=NewSession,
        answers={200: SentShape, 201: SentShape},
        refuses=[409],
        keyed=True,
        examples=[OpenApiExample("Ask and wait", EXAMPLE_SESSION, request_only=True)],
    )
    async def create(self, request: Request) -> Response:
        """A repeated request with the same `Idempotency-Key` returns the same session with status 200."""
        asked, key = await db.run(self.body, NewSession), self.idempotency_key
        parts = read_parts(asked["message"]) if "message" in asked else []
        if parts:
            await db.run(quotas.count_act, self.principal)
        begun = await db.run(_create, self.principal, asked, key, parts)
        if parts:
            message = compose(parts, key=key)
            outgoing = await db.run(messages.address_message, self.principal, begun.context.pk, message)
            told = await messages.send_message(self, outgoing, wait=asked["wait"])
        else:
            told = {"session": await db.run(session_json, begun.context), **NOTHING_SENT}
        return Response({**told, "repeated": begun.repeated}, status=200 if begun.repeated else 201)

    @documented(
        "sessions_retrieve",
        "Retrieve a session, now or at an earlier event",
        query=WholeQuery,
        answers=WholeSessionShape,
    )
    def retrieve(self, request: Request, session: uuid.UUID) -> Response:
        """With `at`, the response shows the session as it was after that event. The bytes do not depend on later
        events.
        """
        asked = self.query(WholeQuery)
        context = find_session(self.principal, session)
        if asked["at"] is not None and asked["at"] > context.last_event:
            raise InvalidFields([("at", f"There is no event {asked['at']}. The newest is {context.last_event}.")])
        wanted = SessionSelection(frozenset(asked["include"]), asked["events_since"], asked["events_limit"])
        return Response(whole_session(context, wanted, asked["at"]))

    @documented(
        "sessions_update",
        "Rename, share or move a session, or change its agent",
        body=Changes,
        answers=SessionShape,
        refuses=[409],
        examples=[OpenApiExample("Rename", {"title": "Plans for May"}, request_only=True)],
    )
    def update(self, request: Request, session: uuid.UUID) -> Response:
        """Only the session's owner can change it. Running tasks continue with the agent that started them. If you
        change the agent without `options`, the new agent has no options.
        """
        asked, context = self.body(Changes), find_own_session(self.principal, session)
        if "agent" in asked or "options" in asked:
            agent = usable_agent(self.principal, asked["agent"]) if "agent" in asked else context.agent
            commands.switch_agent(self.principal, session, agent, asked.get("options"))
        if "sharing" in asked:
            commands.share_session(self.principal, session, Context.Sharing(asked["sharing"]))
        if "project" in asked:
            commands.move_session(self.principal, session, asked["project"])
        if "title" in asked:
            commands.rename_session(self.principal, session, asked["title"])
        return Response(session_json(find_session(self.principal, session)))

    @documented("sessions_delete", "Delete a session", query=DeletingQuery, answers=None, refuses=[409])
    def remove(self, request: Request, session: uuid.UUID) -> Response:
        """Running tasks in the session are canceled. Forks of the session do not change, unless you ask for that."""
        asked = self.query(DeletingQuery)
        if asked["branches"] == "all":
            families.delete(self.principal, families.members(self.principal, session))
        elif asked["after"] is not None:
            families.delete(self.principal, families.continuing(self.principal, session, asked["after"]))
        else:
            deletion.delete_session(self.principal, session)
        return Response(status=204)

    @documented("sessions_archive", "Archive a session", query=BranchesQuery, answers=SessionShape, refuses=[409])
    def archive(self, request: Request, session: uuid.UUID) -> Response:
        """Lists omit an archived session until somebody sends a message in it."""
        return self._of_branches(session, commands.archive_session)

    @documented("sessions_unarchive", "Unarchive a session", query=BranchesQuery, answers=SessionShape, refuses=[409])
    def unarchive(self, request: Request, session: uuid.UUID) -> Response:
        return self._of_branches(session, commands.unarchive_session)

    def _of_branches(self, session: uuid.UUID, act: Callable[[Principal, uuid.UUID], Context]) -> Response:
        if self.query(BranchesQuery)["branches"] == "all":
            families.each(self.principal, session, act)
            return Response(session_json(find_session(self.principal, session)))
        return Response(session_json(act(self.principal, session)))


NEWEST_FIRST = ("-updated_at", "-id")
NOTHING_SENT: JSON = {"message": None, "answer": None, "task": None, "artifacts": []}


def _filtered(principal: Principal, asked: JSON) -> QuerySet[Context]:
    """The caller's listed, filtered sessions."""
    sessions = Context.objects
    found = (sessions.of(principal) if asked["whose"] == "own" else sessions.shared_with(principal)).listed()
    if asked["agent"]:
        found = found.filter(agent__slug=asked["agent"])
    if asked["archived"] != "all":
        found = found.filter(archived_at__isnull=asked["archived"] == "no")
    if asked["parent"]:
        found = found.filter(parent=asked["parent"])
    if asked["project"]:
        found = found.filter(project=asked["project"])
    if asked["q"]:
        found = found.filter(pk__in=queries.matching_sessions(principal, asked["q"]))
    return found


def _create(principal: Principal, asked: JSON, key: str, parts: list[JSON]) -> commands.CreatedSession:
    """Raises InvalidFields, UnsupportedOperation, ContentTypeNotSupported."""
    project = asked.get("project")

    def chosen() -> Agent:
        agent = usable_agent(principal, asked["agent"] or commands.usual_agent(principal, project))
        check_taken(agent, parts)
        return agent

    title = asked["title"] or (title_of({"parts": parts}) if parts else "")
    known: JSON = {"title": title, "context_id": asked["context_id"], "options": asked.get("options")}
    known |= {"project": project, "temporary": asked["temporary"]}
    return commands.create_session(principal, chosen() if asked["agent"] else chosen, key=key, **known)


def usable_agent(principal: Principal, slug: str) -> Agent:
    """The agent, or without a slug the default one. Raises InvalidFields unless the caller may use it."""
    found = Agent.objects.find_or_none(principal, slug) if slug else default_agent(principal)
    if found is None:
        raise InvalidFields([("agent", "There is no such agent, or you may not use it.")])
    return found


@dataclass(frozen=True, slots=True)
class SessionSelection:
    """Some SECTIONS; at most `most` events after index `since`."""

    sections: Collection[str] = SECTIONS
    since: int = 0
    most: int = 1000

    def of_events(self, context: Context, upto: int) -> list[EventValues]:
        """The events and one more, if any."""
        if "events" not in self.sections:
            return []
        return EventValues.of(lineage.events(context, self.since, upto)[: self.most + 1])


@dataclass(frozen=True, slots=True)
class SessionState:
    """Rows at some time; `reader` is the session now, which finds its log."""

    reader: Context
    context: Context
    messages: Sequence[Message]
    tasks: Sequence[Task]
    artifacts: Sequence[Artifact]


def whole_session(context: Context, wanted: SessionSelection, at: int | None = None) -> JSON:
    """The session after event `at`, by default now. Fixed number of queries. Raises Context.DoesNotExist.

    If it changes meanwhile, it is rebuilt from the log, which is consistent.
    """
    if at is None:
        state, events = _current_state(context), wanted.of_events(context, context.last_event)
        newest = Context.objects.filter(pk=context.pk, deleted_at=None).values_list("last_event", flat=True).first()
        if newest == context.last_event:
            return _session_document(state, events, wanted)
    reached = context.last_event if at is None else at
    state = _past_state(context, reached)
    return _session_document(state, wanted.of_events(context, reached), wanted)


def _current_state(context: Context) -> SessionState:
    artifacts = list(lineage.artifacts(context))
    return SessionState(
        context, context, _messages_until(context, context.last_event), lineage.shown_tasks(context), artifacts
    )


def _past_state(context: Context, at: int) -> SessionState:
    """Messages never change; the rest is replayed."""
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
    """Raises InvalidParams."""
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
    return sync.position_token(principal, sync.current_position(principal))


MAX_INDEX = 2**63 - 1  # in the database


class Marking(Body):
    pinned = serializers.BooleanField(required=False, help_text="Whether the session stays at the top of your list.")
    seen = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_INDEX, help_text="The index of the newest event that you have seen."
    )


@extend_schema_serializer(component_name="SessionMark")
class MarkShape(Shape):
    """Your marks on a session."""

    pinned = serializers.BooleanField()
    seen = serializers.IntegerField(help_text="The index of the newest event that you have seen.")


class Mark(Endpoint):
    permissions = {"PUT": Permission.READ}  # the caller's own marks

    @documented(
        "sessions_mark",
        "Pin a session, or record how far you have read it",
        query=BranchesQuery,
        body=Marking,
        answers=MarkShape,
        examples=[OpenApiExample("Pin", {"pinned": True}, request_only=True)],
    )
    def put(self, request: Request, session: uuid.UUID) -> Response:
        """Fields that you omit do not change. `seen` never decreases. `branches` is for `"pinned": false`."""
        if self.query(BranchesQuery)["branches"] == "all":
            marks.unpin_family(self.principal, session)
        own = marks.update_mark(self.principal, session, **self.body(Marking))
        return Response({"pinned": own.pinned_at is not None, "seen": own.seen})


class Searching(Listing):
    q = serializers.CharField(
        max_length=queries.MAX_QUERY_LENGTH,
        help_text='Words that must all match. Also supports `"a phrase"`, `-excluded` and `prefix*`.',
    )
    kind = serializers.ListField(
        child=Choice(SearchEntry.Kind.values),
        default=list,
        help_text="The kinds of results to return. By default all kinds.",
    )
    session = serializers.UUIDField(
        default=None, help_text="Only results in this session, including the part that it shares with its parents."
    )
    agent = Line(default="", help_text="Only results in sessions with this agent, by its slug.")
    project = serializers.UUIDField(default=None, help_text="Only results in sessions of this project, by its id.")
    before = serializers.DateTimeField(default=None, help_text="Only results before this time.")


class Piece(Shape):
    text = serializers.CharField()
    hit = serializers.BooleanField(help_text="Whether this piece of text matches the query.")


class Hit(Shape):
    kind = serializers.ChoiceField(SearchEntry.Kind.choices)
    id = serializers.CharField(help_text="The id of the message or artifact. For a title: the id of its session.")
    session_id = serializers.UUIDField(source="context.pk", help_text="The id of the session that contains the result.")
    session_title = serializers.CharField(source="context.title")
    agent = serializers.CharField(source="context.agent.slug", help_text="The slug of the session's agent.")
    index = serializers.IntegerField(help_text="The index of the event that recorded the result. 0 for a title.")
    name = serializers.CharField(help_text="The artifact's name, or the message's role.")
    timestamp = serializers.CharField(source="at")
    excerpt = Piece(many=True, help_text="An excerpt of the text. It is plain text, not HTML.")


class Search(Endpoint):
    @documented(
        "search_list", "Search messages, artifacts and titles", query=Searching, answers=page_of(Hit), refuses=[404]
    )
    def get(self, request: Request) -> Response:
        """Results are sorted by relevance, then newest first. New messages can be found immediately. On PostgreSQL, a
        query that more than 10,000 entries match finds the newest 10,000 of them.
        """
        asked = self.query(Searching)
        listed = list(self.list_asked(asked))
        place = pagination.read_cursor(asked["cursor"], self.principal, *listed)
        found = queries.search(
            self.principal,
            asked["q"],
            kinds=asked["kind"],
            session=asked["session"],
            agent=asked["agent"],
            project=asked["project"],
            before=asked["before"],
            limit=asked["limit"],
            after=_read_place(place),
        )
        following = ""
        if found.after:
            following = pagination.write_cursor(_write_place(found.after), self.principal, *listed)
        items = [Hit.json_of(one, id=one.key or str(one.context.pk)) for one in found.results]
        return Response({"items": items, "nextCursor": following})


def _read_place(told: list[Any] | None) -> PageCursor | None:
    if told is None:
        return None
    score, at, key, newest = told
    return PageCursor(score, datetime.datetime.fromisoformat(at), key, newest)


def _write_place(place: PageCursor) -> list[Any]:
    return [place.score, place.at.isoformat(), place.key, place.newest]


SESSION = "sessions/<uuid:session>"

urlpatterns = [
    path("sessions", Sessions.at(get="list", post="create"), name="sessions"),
    path(SESSION, Sessions.at(get="retrieve", patch="update", delete="remove"), name="session"),
    path(f"{SESSION}/archive", Sessions.at(post="archive"), name="session-archive"),
    path(f"{SESSION}/unarchive", Sessions.at(post="unarchive"), name="session-unarchive"),
    path(f"{SESSION}/mark", Mark.as_view(), name="session-mark"),
    path("search", Search.as_view(), name="search"),
]
