"""The record in the client API: plain dictionaries (`…_json`), and shapes for the schema.

Everything is derived from the log, so that a session after event N is reproduced byte for byte. Functions take many
rows, with a fixed number of queries.
"""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.conf import settings
from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from apps.agents.models import Agent
from apps.api.framework.serializers import AnyValue, Shape, Struct
from apps.record import lineage, projection, wire
from apps.record.content import rendering
from apps.record.content.parts import declared_media_type, pieces_joined, size_of, words_of
from apps.record.events import PART_HOLDERS, EventType
from apps.record.lineage import Versions, number_versions
from apps.record.models import Artifact, Context, Event, Message, Task, TaskState
from apps.record.projection import Author
from apps.record.reading.lookup import author_names, edit_histories

JSON = dict[str, Any]
Slugs = Mapping[int | None, str]

timestamp = wire.timestamp


def optional_timestamp(at: datetime.datetime | None) -> str | None:
    return timestamp(at) if at else None


def agent_slugs(agents: Iterable[int | None]) -> Slugs:
    """By primary key. At most one query."""
    keys = {key for key in agents if key is not None}
    return dict(Agent.objects.filter(pk__in=keys).values_list("pk", "slug")) if keys else {}


def parts_json(parts: Iterable[JSON], session: uuid.UUID) -> list[JSON]:
    """Links replace stored files."""
    return [_linked_part(part, session) if "stored" in part else part for part in parts]


def _linked_part(stored: JSON, session: uuid.UUID) -> JSON:
    rest = {name: value for name, value in stored.items() if name != "stored"}
    return {"url": settings.PUBLIC_BASE_URL + wire.download_path(stored, session), **rest}


def _nullable_text(**options: Any) -> serializers.CharField:
    return serializers.CharField(allow_null=True, **options)


class SessionMetadata(Shape):
    agent_url = serializers.URLField(help_text="The A2A URL of the session's agent.")
    agent = serializers.CharField(help_text="The slug of the session's agent.")
    context_id = serializers.CharField(help_text="The session's A2A `contextId`.")
    message_count = serializers.IntegerField()
    options = Struct(help_text="The agent's options in this session.")
    forked_at = serializers.IntegerField(
        allow_null=True,
        help_text="If the session is a fork: the index of the last event that it shares with its parent.",
    )
    fork_reason = serializers.CharField(
        help_text="Why the session was forked: `fork`, `edit`, `retry` or `agent`. Empty if the session is not a fork."
    )


@extend_schema_serializer(component_name="Session")
class SessionShape(Shape):
    """A conversation with an agent."""

    id = serializers.UUIDField()
    title = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(
        help_text="When the session's newest event was recorded. An imported session has the times of its conversation."
    )
    parent_id = serializers.UUIDField(allow_null=True, help_text="The session from which this session was forked.")
    root_id = serializers.UUIDField(
        help_text="The session with which the conversation began: itself, or for a fork of your own session that one's."
    )
    revision = serializers.IntegerField(help_text="The index of the session's newest event.")
    project_id = serializers.UUIDField(
        allow_null=True,
        help_text="The session's project. You may see a session without seeing its project.",
    )
    temporary = serializers.BooleanField(help_text="Whether it neither uses nor leaves memory of its person.")
    archived_at = serializers.DateTimeField(allow_null=True)
    sharing = serializers.ChoiceField(
        Context.Sharing.choices, help_text="Who may see the session: only its owner, or all members of its workspace."
    )
    metadata = SessionMetadata()


class MessageAuthor(Shape):
    """A person who wrote a message."""

    id = serializers.IntegerField()
    name = serializers.CharField()


class ToolCall(Shape):
    call_id = serializers.CharField()
    name = serializers.CharField()
    arguments = AnyValue()
    result = AnyValue(allow_null=True)
    is_error = serializers.BooleanField()


class MessageEdit(Shape):
    """Another version of a message: an earlier one, with its `content`, or a later one in a fork."""

    session_id = serializers.UUIDField(help_text="The session that contains the other version.")
    index = serializers.IntegerField(
        help_text="The index of the earlier version. For a later version: of the event that records the edit."
    )
    timestamp = serializers.DateTimeField()
    content = _nullable_text(help_text="The text of the earlier version. Null for a later version.")


class MessageError(Shape):
    """Why an agent did not do what it was asked."""

    code = serializers.CharField(help_text="The agent's own code, or one of Parley's, such as `rejected` or `clarify`.")


class MessageMetadata(Shape):
    agent_run_id = serializers.UUIDField(allow_null=True)
    agent = _nullable_text(help_text="The slug of the agent that wrote the message. Null if you wrote it.")
    agent_version = serializers.IntegerField(
        allow_null=True, help_text="The version of the agent that wrote the message."
    )
    task_id = serializers.UUIDField(allow_null=True)
    message_id = serializers.CharField(
        help_text="The sender's id for the message: the `Idempotency-Key` with which it was sent."
    )
    tool_calls = ToolCall(many=True)
    error = MessageError(allow_null=True, help_text="Of a failure, a refusal, or a question before the work. Or null.")
    is_edited = serializers.BooleanField()
    edit_history = MessageEdit(many=True)


@extend_schema_serializer(component_name="Message")
class MessageShape(Shape):
    """A message in a session, from you or from an agent."""

    id = serializers.UUIDField()
    session_id = serializers.UUIDField()
    index = serializers.IntegerField(help_text="The index of the event that recorded the message.")
    role = serializers.ChoiceField(Message.Role.choices)
    content = serializers.CharField(help_text="The message's text.")
    parts = serializers.ListField(child=Struct(), help_text="The message's parts, as A2A defines them.")
    html = serializers.CharField(
        help_text="The text of an agent's message as HTML. It is safe to insert into a page. Empty for your own "
        "messages."
    )
    timestamp = serializers.DateTimeField()
    author = MessageAuthor(
        allow_null=True,
        help_text="The person who wrote the message. Null for an agent's message, and in a session in which only its "
        "owner writes.",
    )
    metadata = MessageMetadata()


@extend_schema_serializer(component_name="Event")
class EventShape(Shape):
    """An entry of a session's log."""

    id = serializers.CharField(help_text="`<sessionId>:<index>`")
    session_id = serializers.UUIDField()
    index = serializers.IntegerField(
        help_text="The event's number in the session. The first event is 1, and there are no gaps."
    )
    type = serializers.ChoiceField(EventType.choices)
    task_id = serializers.UUIDField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)
    payload = Struct(help_text="The event's data. Its fields depend on `type`.")
    timestamp = serializers.DateTimeField()


class StatusMessage(Shape):
    message_id = serializers.CharField()
    content = serializers.CharField()
    parts = serializers.ListField(child=Struct())
    metadata = Struct()


class TaskStatus(Shape):
    message = StatusMessage(allow_null=True)


@extend_schema_serializer(component_name="Task")
class TaskShape(Shape):
    """A unit of work in a session."""

    id = serializers.UUIDField()
    session_id = serializers.UUIDField()
    state = serializers.ChoiceField(TaskState.choices)
    agent = serializers.CharField(help_text="The slug of the agent that works on the task.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(help_text="When the task's current state was recorded.")
    status = TaskStatus()
    question = Struct(
        allow_null=True,
        help_text="What the task waits for: a name, and possibly a JSON Schema. Null if it waits for nothing.",
    )
    references = serializers.ListField(
        child=serializers.CharField(), help_text="The ids of tasks that this task refines."
    )
    artifacts = serializers.ListField(
        child=serializers.CharField(), help_text="The ids of the artifacts that the task delivered."
    )
    parent_id = serializers.UUIDField(allow_null=True, help_text="The id of the task that started this task.")


@extend_schema_serializer(component_name="Artifact")
class ArtifactShape(Shape):
    """A result that a task delivered, or what it had streamed when it failed or was stopped."""

    id = serializers.CharField(help_text="`<taskId>/<artifactId>`")
    session_id = serializers.UUIDField()
    task_id = serializers.UUIDField()
    artifact_id = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    media_type = serializers.CharField()
    size = serializers.IntegerField(help_text="The size in bytes.")
    digest = serializers.CharField(
        help_text="The SHA-256 digest of the canonical JSON of the artifact's parts. Empty if it is unfinished."
    )
    is_signed = serializers.BooleanField()
    version = serializers.IntegerField(
        help_text="The version among delivered artifacts with the same name in the session, starting at 1. 0 if it is "
        "unfinished."
    )
    unfinished = serializers.BooleanField(
        help_text="Whether the task failed or was stopped while it streamed the artifact. The parts are what it had "
        "streamed by then."
    )
    created_at = serializers.DateTimeField()
    parts = serializers.ListField(child=Struct())
    metadata = Struct()


@extend_schema_serializer(component_name="WholeSession")
class WholeSessionShape(Shape):
    """A session with the sections that `include` selects."""

    session = SessionShape()
    messages = MessageShape(many=True, required=False)
    tasks = TaskShape(many=True, required=False)
    artifacts = ArtifactShape(many=True, required=False)
    events = EventShape(many=True, required=False)
    next_events = serializers.IntegerField(
        allow_null=True,
        required=False,
        help_text="The value of `events_since` for the next events. Null if there are no more events.",
    )


@extend_schema_serializer(component_name="Sent")
class SentShape(Shape):
    """The result of a message: an immediate answer, or a task."""

    session = SessionShape()
    message = MessageShape(allow_null=True)
    answer = MessageShape(allow_null=True, help_text="The agent's answer. Null if the agent has not answered yet.")
    task = TaskShape(allow_null=True)
    artifacts = ArtifactShape(
        many=True, help_text="The artifacts that the task delivered, if the request waited for it."
    )
    repeated = serializers.BooleanField(
        help_text="Whether an earlier request had the same `Idempotency-Key`. If so, nothing ran again."
    )


def session_json(context: Context) -> JSON:
    return sessions_json([context])[0]


def sessions_json(contexts: Sequence[Context]) -> list[JSON]:
    """At most three queries."""
    slugs, counts = agent_slugs(context.agent_id for context in contexts), lineage.message_counts(contexts)
    return [build_session_json(context, slugs, counts[context.pk]) for context in contexts]


def build_session_json(context: Context, slugs: Slugs, message_count: int) -> JSON:
    """No query."""
    slug = slugs[context.agent_id]
    return {
        "id": str(context.pk),
        "title": context.title,
        "createdAt": timestamp(context.created_at),
        "updatedAt": timestamp(context.updated_at),
        "parentId": str(context.parent_id) if context.parent_id else None,
        "rootId": str(context.family_key),
        "revision": context.last_event,
        "projectId": str(context.project) if context.project else None,
        "temporary": context.is_temporary,
        "archivedAt": optional_timestamp(context.archived_at),
        "sharing": context.sharing.value,
        "metadata": {
            "agentUrl": f"{settings.PUBLIC_BASE_URL}/a2a/{slug}",
            "agent": slug,
            "contextId": context.context_id,
            "messageCount": message_count,
            "options": context.options,
            "forkedAt": context.forked_at,
            "forkReason": context.fork_reason,
        },
    }


TOOL_EVENTS = (EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT)


def messages_json(context: Context, rows: Sequence[Message], upto: int | None = None) -> list[JSON]:
    """Messages at event `upto`. At most three queries, besides segments; in a fork, five."""
    if not rows:
        return []
    events = _turn_events(rows)
    wrote = projection.read_authors(event for event in events if event.type in projection.AUTHOR_EVENTS)
    called, edits = _tool_calls(events, rows), _edits(context, upto)
    earlier = edit_histories(context, upto)
    slugs = agent_slugs(author.agent for author in wrote.values())
    names = author_names(context, (row.author_id for row in rows))
    nobody = Author()
    shown = []
    for row in rows:
        author, calls = wrote.get(row.index, nobody), called.get(row.index, [])
        edited = [*map(_earlier_version, earlier.get(row.message_id, ())), *edits.get(str(row.pk), ())]
        said = _message_json(context.pk, row, author, slugs, calls, edited)
        shown.append(said | {"author": author_json(row.author_id, names)})
    return shown


def author_json(author: int | None, names: Mapping[int, str]) -> JSON | None:
    return {"id": author, "name": names[author]} if author is not None and author in names else None


def _message_json(
    session: uuid.UUID, row: Message, author: Author, slugs: Slugs, called: list[JSON], edits: list[JSON]
) -> JSON:
    words, around = words_of(row.parts), rendering.Surroundings(f"m{row.index}")
    return {
        "id": str(row.pk),
        "sessionId": str(session),
        "index": row.index,
        "role": row.role,
        "content": words,
        "parts": parts_json(row.parts, session),
        "html": rendering.render_markdown(words, around) if words and row.role == Message.Role.AGENT else "",
        "timestamp": timestamp(row.created_at),
        "metadata": {
            "agentRunId": str(author.run) if author.run else None,
            "agent": slugs.get(author.agent),
            "agentVersion": author.version,
            "taskId": str(row.task_id) if row.task_id else None,
            "messageId": row.message_id,
            "toolCalls": called,
            "error": _error_json(row),
            "isEdited": bool(edits),
            "editHistory": edits,
        },
    }


def _error_json(row: Message) -> JSON | None:
    error = row.metadata.get("error") if row.role == Message.Role.AGENT else None
    code = error.get("code") if isinstance(error, dict) else None
    return {"code": code} if isinstance(code, str) else None


def _turn_events(rows: Sequence[Message]) -> list[Event]:
    """Events with the messages' authors and tool calls, in order."""
    by_agents = [row for row in rows if row.role == Message.Role.AGENT]
    alone: dict[uuid.UUID, list[int]] = defaultdict(list)
    for row in by_agents:
        if row.task_id is None:
            alone[row.context_id].append(row.index)
    if not by_agents:
        return []
    # Most events are chunks and tokens. They have an artifact: the index of a task's events skips them.
    tasks = {row.task_id for row in by_agents if row.task_id}
    wanted = Q(task__in=tasks, artifact_id="", type__in=(*projection.AUTHOR_EVENTS, *TOOL_EVENTS))
    for source, indexes in alone.items():
        wanted |= Q(context=source, index__in=indexes)
    # A task from before the fork may go on in its own session, with the same indexes.
    place = {row.index: row.context_id for row in rows}
    found = Event.objects.filter(wanted).order_by("index")
    return [event for event in found if place.get(event.index, event.context_id) == event.context_id]


def _tool_calls(events: Iterable[Event], rows: Sequence[Message]) -> dict[int, list[JSON]]:
    """By the agent's message (index): calls of its run since the previous message."""
    said = {row.index for row in rows}
    found: dict[int, list[JSON]] = {}
    open_calls: dict[Any, list[JSON]] = defaultdict(list)
    for event in events:
        if event.type == EventType.AGENT_TOOL_CALL:
            open_calls[event.run].append(_tool_call_json(event))
        elif event.type == EventType.AGENT_TOOL_RESULT:
            _take_result(open_calls[event.run], event)
        elif event.index in said:
            found[event.index] = open_calls.pop(event.run, [])
    return found


def _tool_call_json(event: Event) -> JSON:
    payload = event.payload
    return {
        "callId": payload["callId"],
        "name": payload["name"],
        "arguments": payload["arguments"],
        "result": None,
        "isError": False,
    }


def _take_result(calls: list[JSON], event: Event) -> None:
    for call in reversed(calls):
        if call["callId"] == event.payload["callId"]:
            call["result"], call["isError"] = event.payload["result"], event.payload["isError"]
            return


def _earlier_version(row: Message) -> JSON:
    said = {"sessionId": str(row.context_id), "index": row.index, "timestamp": timestamp(row.created_at)}
    return said | {"content": words_of(row.parts)}


def _edits(context: Context, upto: int | None) -> dict[str, list[JSON]]:
    """Forks by edited message's id."""
    found: dict[str, list[JSON]] = defaultdict(list)
    for event in lineage.events(context, upto=upto).filter(type=EventType.EDIT):
        edit = {"sessionId": event.payload["session"], "index": event.index}
        edit |= {"timestamp": timestamp(event.at), "content": None}
        found[event.payload["messageId"]].append(edit)
    return found


@dataclass(slots=True)
class EventValues:
    """Several times faster to load than a model instance."""

    index: int
    type: str
    task_id: uuid.UUID | None
    run: uuid.UUID | None
    payload: JSON
    at: datetime.datetime

    @classmethod
    def of(cls, events: QuerySet[Event]) -> list[Self]:
        return [cls(*values) for values in events.values_list(*cls.__slots__)]


def events_json(session: uuid.UUID, events: Sequence[Event | EventValues]) -> list[JSON]:
    """At most one query."""
    slugs = slugs_in(events)
    return [event_json(session, event, slugs) for event in events]


def event_json(session: uuid.UUID, event: Event | EventValues, slugs: Slugs) -> JSON:
    """`slugs`: see `slugs_in`."""
    return {
        "id": f"{session}:{event.index}",
        "sessionId": str(session),
        "index": event.index,
        "type": event.type,
        "taskId": str(event.task_id) if event.task_id else None,
        "runId": str(event.run) if event.run else None,
        "payload": _payload_json(event.payload, session, slugs),
        "timestamp": timestamp(event.at),
    }


def slugs_in(events: Iterable[Event | EventValues]) -> Slugs:
    """The slugs of the agents that events name. At most one query."""
    holders = (holder for event in events for holder in (event.payload, *map(event.payload.get, ("opens", "task"))))
    return agent_slugs(key for holder in holders if holder and isinstance(key := holder.get("agent"), int))


def _payload_json(payload: JSON, session: uuid.UUID, slugs: Slugs) -> JSON:
    if "kept" in payload:
        return {}
    shown = dict(payload)
    if "agent" in shown:
        shown["agent"] = slugs.get(shown["agent"])
    if "opens" in shown:
        opens = {name: value for name, value in shown["opens"].items() if name not in ("owner", "workspace")}
        shown["opens"] = {**opens, "agent": slugs.get(opens["agent"])}
    if "task" in shown:
        shown["task"] = {**shown["task"], "agent": slugs.get(shown["task"]["agent"])}
    if "slot" in shown:
        shown["slot"] = question_json(shown["slot"])
    for holder in PART_HOLDERS:
        if holder in shown:
            shown[holder] = {**shown[holder], "parts": parts_json(shown[holder]["parts"], session)}
    if "app" in shown:
        hidden = ("agent", "server", "digest")
        shown["app"] = {name: value for name, value in shown["app"].items() if name not in hidden}
    if "ofApp" in shown:
        shown.pop("by", None)
    if "role" in shown.get("message", ()):
        shown["message"]["role"] = shown["message"]["role"].removeprefix("ROLE_").lower()  # as in messages
    return shown


def question_json(slot: JSON) -> JSON:
    """Without the agent's private value."""
    return {name: value for name, value in slot.items() if name != "value"}


def tasks_json(session: uuid.UUID, rows: Sequence[Task], artifacts: Iterable[Artifact]) -> list[JSON]:
    """With artifacts. One query."""
    slugs = agent_slugs(row.agent_id for row in rows)
    delivered: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        delivered[artifact.task_id].append(artifact)
    return [task_json(session, row, slugs[row.agent_id], delivered[row.pk]) for row in rows]


def task_json(session: uuid.UUID, row: Task, agent: str, artifacts: Iterable[Artifact]) -> JSON:
    return {
        "id": str(row.pk),
        "sessionId": str(session),
        "state": str(row.state),
        "agent": agent,
        "createdAt": timestamp(row.created_at),
        "updatedAt": timestamp(row.status_at),
        "status": {"message": _status_json(session, row.status_message)},
        "question": question_json(row.slot) if row.slot else None,
        "references": row.references,
        "artifacts": [artifact_key(one) for one in sorted(artifacts, key=lambda one: one.first_event)],
        "parentId": str(row.parent_id) if row.parent_id else None,
    }


def _status_json(session: uuid.UUID, message: JSON | None) -> JSON | None:
    if message is None:
        return None
    parts = message["parts"]
    return {
        "messageId": message["messageId"],
        "content": words_of(parts),
        "parts": parts_json(parts, session),
        "metadata": message.get("metadata", {}),
    }


MIXED_TYPE = "multipart/mixed"


def artifacts_json(session: uuid.UUID, rows: Sequence[Artifact], versions: Versions | None = None) -> list[JSON]:
    """Artifacts in order. No query.

    Without `versions`, `rows` must contain all versions.
    """
    ordered = sorted(rows, key=lambda row: row.first_event)
    if versions is None:
        versions = number_versions((row.first_event, row.name, row.artifact_id) for row in ordered)
    return [artifact_json(session, row, 0 if row.until else versions[row.first_event]) for row in ordered]


def artifact_json(session: uuid.UUID, row: Artifact, version: int) -> JSON:
    parts = pieces_joined(row.parts)
    return {
        "id": artifact_key(row),
        "sessionId": str(session),
        "taskId": str(row.task_id),
        "artifactId": row.artifact_id,
        "name": row.name,
        "description": row.description,
        "mediaType": _media_type(parts),
        "size": sum(size_of(part) or 0 for part in parts),
        "digest": row.digest,
        "isSigned": bool(row.signature),
        "version": version,
        "unfinished": row.until is not None,
        "createdAt": timestamp(row.created_at),
        "parts": parts_json(parts, session),
        "metadata": row.metadata,
    }


def artifact_key(row: Artifact) -> str:
    return f"{row.task_id}/{row.artifact_id}"


def _media_type(parts: list[JSON]) -> str:
    types = {declared_media_type(part) for part in parts}
    return types.pop() if len(types) == 1 else MIXED_TYPE
