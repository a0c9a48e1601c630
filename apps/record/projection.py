"""From events to rows: the one place that says what an event does to contexts, tasks, messages and artifacts.

The ledger folds events as they are written, replay folds them again from the log; both give the same rows.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection
from typing import Any, Protocol

from apps.record import lifecycle
from apps.record.digests import digest_of
from apps.record.events import JSON, EventType, Opening, SessionDeleted
from apps.record.lifecycle import TaskState
from apps.record.models import Artifact, Context, Event, Message, Task

NO_PART_OF_REPLAY = {"is_watched", "memory", "cold_file", "cold_at", "cold_messages", "warmed_at"}
"""Columns of a context that no event brings."""


class Rows(Protocol):
    """The rows of one context that events are folded into."""

    context: Context

    def task(self, task_id: uuid.UUID | None) -> Task: ...

    def add_task(self, task: Task) -> None: ...

    def add_message(self, message: Message) -> None: ...

    def add_artifact(self, artifact: Artifact) -> None: ...

    def provisional(self, task: Task) -> list[Artifact]:
        """The task's artifacts that are neither delivered nor discarded, in the order of their first chunk."""

    def chunks(self, artifact: Artifact) -> list[Event]:
        """The events of the artifact's chunks, in order."""

    def clear(self) -> None:
        """Drop all tasks, messages and artifacts."""

    def unended(self, tasks: Collection[str]) -> list[tuple[Task, list[Artifact]]]:
        """Those of a fork's past that had not ended, each with all that it had begun."""


def fold(event: Event, rows: Rows) -> None:
    """Apply one event, whose index is given, to the rows of its context. Raises IllegalTransition."""
    opening: Opening | None = event.payload.get("opens")
    if opening is not None:
        open_context(rows.context, opening, event)
    rows.context.last_event = event.index
    rows.context.updated_at = event.at
    if apply := FOLDS.get(EventType(event.type)):
        apply(event, rows)


def open_context(context: Context, opening: Opening, event: Event) -> None:
    """The context as it begins: of what it goes on from nothing counts but what the opening says."""
    _forget(context)
    context.context_id = opening["contextId"]
    context.owner_id = opening["owner"]
    context.workspace_id = opening["workspace"]
    context.agent_id = opening["agent"]
    context.title = opening["title"]
    context.options = opening.get("options", {})
    context.parent_task = uuid.UUID(opening["parentTask"]) if "parentTask" in opening else None
    context.created_at = event.at


def _forget(context: Context) -> None:
    for field in context._meta.concrete_fields:
        if not field.primary_key and field.name not in NO_PART_OF_REPLAY:
            setattr(context, field.attname, field.get_default())


def _user_message(event: Event, rows: Rows) -> None:
    if (opened := event.payload.get("task")) is not None:
        rows.add_task(
            Task(
                id=event.task_id,
                context=rows.context,
                owner_id=rows.context.owner_id,
                workspace_id=rows.context.workspace_id,
                agent_id=opened["agent"],
                state=TaskState.SUBMITTED,
                references=opened["references"],
                parent_id=uuid.UUID(opened["parent"]) if "parent" in opened else None,
                metadata=opened.get("metadata", {}),
                first_event=event.index,
                status_event=event.index,
                created_at=event.at,
                status_at=event.at,
            )
        )
    _message(event, rows, Message.Role.USER)
    rows.context.archived_at = None
    rows.context.title = event.payload.get("title", rows.context.title)


def _message(event: Event, rows: Rows, role: Message.Role, agent: int | None = None) -> None:
    message: JSON = event.payload["message"]
    rows.add_message(
        Message(
            context=rows.context,
            task_id=event.task_id,
            index=event.index,
            role=role,
            agent_id=agent,
            message_id=message["messageId"],
            parts=message["parts"],
            references=message.get("referenceTaskIds", []),
            extensions=message.get("extensions", []),
            metadata=message.get("metadata", {}),
            created_at=event.at,
        )
    )


def _agent_message(event: Event, rows: Rows) -> None:
    _message(event, rows, Message.Role.AGENT, _author(event, rows))


def _author(event: Event, rows: Rows) -> int:
    """Which agent wrote the message. Older logs do not say it: then it is whose the task is, or the conversation."""
    if (agent := event.payload.get("agent")) is not None:
        return int(agent)
    return rows.task(event.task_id).agent_id if event.task_id else rows.context.agent_id


def _agent_start(event: Event, rows: Rows) -> None:
    """What an earlier attempt of the same turn had begun is begun again."""
    if event.payload["attempt"] > 1 or event.payload.get("again"):
        for artifact in rows.provisional(rows.task(event.task_id)):
            if artifact.run == event.run:
                artifact.state = Artifact.State.DISCARDED


def _agent_status(event: Event, rows: Rows) -> None:
    task, payload = rows.task(event.task_id), event.payload
    lifecycle.check(task.state, payload["state"])
    if "kept" in payload:
        return
    task.state = TaskState(payload["state"])
    task.status_message = payload.get("message")
    task.slot = payload.get("slot")
    if "skill" in payload:
        task.metadata = {**task.metadata, "skill": payload["skill"]}
    task.status_at, task.status_event = event.at, event.index
    if "message" in payload and "progress" not in payload:
        _agent_message(event, rows)


def _token_start(event: Event, rows: Rows) -> None:
    rows.add_artifact(_provisional_artifact(event, rows, {"name": event.payload["name"]}))


def _artifact_update(event: Event, rows: Rows) -> None:
    if not event.payload["append"]:
        rows.add_artifact(_provisional_artifact(event, rows, event.payload["artifact"]))


def _provisional_artifact(event: Event, rows: Rows, described: JSON) -> Artifact:
    return Artifact(
        task=rows.task(event.task_id),
        artifact_id=event.artifact_id,
        run=event.run,
        state=Artifact.State.PROVISIONAL,
        name=described.get("name", "")[:250],
        description=described.get("description", ""),
        extensions=described.get("extensions", []),
        metadata=described.get("metadata", {}),
        first_event=event.index,
        created_at=event.at,
    )


def _agent_complete(event: Event, rows: Rows) -> None:
    signatures: JSON = event.payload.get("signatures", {})
    for artifact in rows.provisional(rows.task(event.task_id)):
        artifact.state = Artifact.State.DELIVERED
        artifact.parts = assemble(rows.chunks(artifact))
        artifact.digest = digest_of(artifact.parts)
        artifact.signature = signatures.get(artifact.artifact_id, {})


def _discard(event: Event, rows: Rows) -> None:
    for artifact in rows.provisional(rows.task(event.task_id)):
        if artifact.artifact_id in event.payload["discarded"]:
            artifact.state = Artifact.State.DISCARDED


def assemble(chunks: list[Event]) -> list[Any]:
    """The parts of a whole artifact: of its chunks in order, or one text of its tokens."""
    if chunks and chunks[0].type == EventType.ARTIFACT_UPDATE:
        return [part for chunk in chunks for part in chunk.payload["artifact"]["parts"]]
    text = "".join(chunk.payload.get("text", "") for chunk in chunks)
    return [{"text": text, "mediaType": "text/plain"}]


def without(artifacts: list[Artifact], begun: Artifact) -> list[Artifact]:
    """The artifacts but for one that is begun anew under the same id."""
    key = begun.task_id, begun.artifact_id
    return [artifact for artifact in artifacts if (artifact.task_id, artifact.artifact_id) != key]


def _renamed(event: Event, rows: Rows) -> None:
    rows.context.title = event.payload["title"]


def _archived(event: Event, rows: Rows) -> None:
    rows.context.archived_at = event.at


def _unarchived(event: Event, rows: Rows) -> None:
    rows.context.archived_at = None


def _agent_switched(event: Event, rows: Rows) -> None:
    rows.context.agent_id = event.payload["agent"]
    rows.context.options = event.payload.get("options", {})


def _fork(event: Event, rows: Rows) -> None:
    rows.context.parent_id = uuid.UUID(event.payload["parent"])
    rows.context.forked_at = event.payload["at"]
    rows.context.fork_reason = event.payload["reason"]
    for task, artifacts in rows.unended(event.payload["left"]):
        leave(task, event)
        for artifact in artifacts:
            artifact.state, artifact.parts = Artifact.State.DISCARDED, []
            artifact.digest, artifact.signature = "", {}


def leave(task: Task, fork: Event) -> None:
    """In a fork, a task that had not ended ends by being left behind, whatever becomes of it elsewhere."""
    task.state, task.status_message, task.slot = TaskState.CANCELED, None, None
    task.metadata = {name: value for name, value in task.metadata.items() if name != "skill"}  # found out elsewhere
    task.status_at, task.status_event = fork.at, fork.index


def _deleted(event: Event, rows: Rows) -> None:
    """What is left is a tombstone, which its event alone describes (see `tombstone_of`): the log before it goes."""
    context, payload = rows.context, event.payload
    context.created_at = datetime.datetime.fromisoformat(payload["createdAt"])
    context.deleted_at = event.at
    if "at" in payload:
        context.parent_id = uuid.UUID(payload["parent"]) if "parent" in payload else None
        context.forked_at, context.fork_reason = payload["at"], payload["reason"]
    rows.clear()


def tombstone_of(context: Context) -> SessionDeleted:
    """What is kept of a context that is deleted: ids and times, and nothing that anybody wrote."""
    opens: Opening = {
        "contextId": str(context.pk),
        "owner": context.owner_id,
        "workspace": context.workspace_id,
        "agent": context.agent_id,
        "title": "",
    }
    if context.parent_task is not None:
        opens["parentTask"] = str(context.parent_task)
    kept: SessionDeleted = {"opens": opens, "createdAt": context.created_at.isoformat()}
    if context.forked_at is not None:
        kept |= {"at": context.forked_at, "reason": context.fork_reason}
        if context.parent_id is not None:
            kept["parent"] = str(context.parent_id)
    return kept


FOLDS: dict[EventType, Callable[[Event, Rows], None]] = {
    EventType.USER_MESSAGE: _user_message,
    EventType.AGENT_START: _agent_start,
    EventType.AGENT_STATUS: _agent_status,
    EventType.AGENT_MESSAGE: _agent_message,
    EventType.AGENT_TOKEN_START: _token_start,
    EventType.ARTIFACT_UPDATE: _artifact_update,
    EventType.AGENT_COMPLETE: _agent_complete,
    EventType.AGENT_FAILED: _discard,
    EventType.AGENT_CANCELLED: _discard,
    EventType.AGENT_SWITCHED: _agent_switched,
    EventType.FORK: _fork,
    EventType.SESSION_RENAMED: _renamed,
    EventType.SESSION_ARCHIVED: _archived,
    EventType.SESSION_UNARCHIVED: _unarchived,
    EventType.SESSION_DELETED: _deleted,
}
"""What the other types do to rows: nothing but being the newest event."""
