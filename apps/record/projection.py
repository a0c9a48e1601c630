"""Projection: what each event does to contexts, tasks, messages and artifacts.

The ledger folds events as it writes them. `rebuild` folds a log again, and `differences` compares the result with the
stored rows.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, models
from django.db.models import F, QuerySet

from apps.record import lineage
from apps.record.chain import Chain, problem_of_own_events
from apps.record.content.strict_json import digest_of
from apps.record.events import DATED, JSON, EventType, Opening, SessionDeleted
from apps.record.lineage import mark_left
from apps.record.models import TRANSITIONS, Artifact, Context, Event, IllegalTransition, Message, Task, TaskState
from parley.db.sql import Keys

NO_PART_OF_REPLAY = {
    *("is_watched", "memory", "approved_tools", "cold_file", "cold_at", "cold_messages", "warmed_at", "head_hash")
}
"""Columns of a context that no event sets."""
SHORT_LOG = 200
"""Events of a log that is compared together with others'."""
EVENTS_AT_ONCE = 2_000  # of several logs in memory


@dataclass
class Rows:
    """The rows of one context that events are folded into: all, or those touched.

    Attributes:
        messages: by index.
        artifacts_by_task: by task and artifact id, in the order of first chunks.
    """

    context: Context
    tasks: dict[uuid.UUID, Task] = field(default_factory=dict)
    messages: dict[int, Message] = field(default_factory=dict)
    artifacts_by_task: dict[uuid.UUID, dict[str, Artifact]] = field(default_factory=dict)

    def task(self, task_id: uuid.UUID | None) -> Task:
        """The task of this id. Raises Task.DoesNotExist."""
        raise NotImplementedError

    def provisional_artifacts(self, task_id: uuid.UUID | None) -> list[Artifact]:
        """The task's provisional artifacts, by first chunk. Raises Task.DoesNotExist."""
        raise NotImplementedError

    def chunks(self, artifact: Artifact) -> list[Event]:
        """The events of the artifact's chunks, in order."""
        raise NotImplementedError

    def clear(self) -> None:
        """Drop all tasks, messages and artifacts."""
        self.tasks, self.messages, self.artifacts_by_task = {}, {}, {}


def fold(event: Event, rows: Rows) -> None:
    """Apply an event, with its index, to its context's rows. Raises IllegalTransition, Task.DoesNotExist."""
    payload: JSON = event.payload
    happened_at = event.happened_at if DATED in payload else event.at
    if "opens" in payload:
        _open_context(rows.context, payload["opens"], event)
        rows.context.created_at = happened_at
    rows.context.last_event = event.index
    rows.context.updated_at = happened_at
    if apply := FOLDS.get(EventType(event.type)):
        apply(event, rows)
    if "message" not in payload or "progress" in payload or "kept" in payload:
        return
    author = None
    is_from_here = event.type != EventType.USER_MESSAGE and "imported" not in payload
    if is_from_here and (author := payload.get("agent")) is None:  # as in older logs
        author = rows.task(event.task_id).agent_id if event.task_id else rows.context.agent_id
    message: JSON = payload["message"]
    is_user = event.type == EventType.USER_MESSAGE
    rows.messages[event.index] = Message(
        context=rows.context,
        task_id=event.task_id,
        index=event.index,
        role=Message.Role.USER if is_user else Message.Role.AGENT,
        agent_id=author,
        author_id=payload.get("by", rows.context.owner_id) if is_user else None,
        message_id=message["messageId"],
        parts=message["parts"],
        references=message.get("referenceTaskIds", []),
        extensions=message.get("extensions", []),
        metadata=message.get("metadata", {}),
        created_at=happened_at,
    )


def _open_context(context: Context, opening: Opening, event: Event) -> None:
    """Initialize the context. A fork's opening replaces what its parents' events set."""
    for column in context._meta.concrete_fields:
        if not column.primary_key and column.name not in NO_PART_OF_REPLAY:
            setattr(context, column.attname, column.get_default())
    context.context_id = opening["contextId"]
    context.owner_id = opening["owner"]
    context.workspace_id = opening["workspace"]
    context.agent_id = opening["agent"]
    context.title = opening["title"]
    context.options = opening.get("options", {})
    context.agent_version = opening.get("version")
    context.parent_task = uuid.UUID(opening["parentTask"]) if "parentTask" in opening else None
    context.project = uuid.UUID(opening["project"]) if "project" in opening else None
    context.is_temporary = opening.get("temporary", False)
    context.imported_at = event.at if DATED in event.payload else None


def _user_message(event: Event, rows: Rows) -> None:
    context = rows.context
    if event.task_id is not None and (opened := event.payload.get("task")) is not None:
        rows.tasks[event.task_id] = Task(
            id=event.task_id,
            context=context,
            owner_id=event.payload.get("by", context.owner_id),
            workspace_id=context.workspace_id,
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
    elif event.task_id is not None and event.payload.get("someAgents"):
        task = rows.task(event.task_id)
        task.metadata = {**task.metadata, "someAgents": True}
    context.archived_at = None
    context.title = event.payload.get("title", context.title)


def _agent_start(event: Event, rows: Rows) -> None:
    """Another attempt discards the artifacts of earlier attempts."""
    if event.payload["attempt"] > 1 or event.payload.get("again"):
        for artifact in rows.provisional_artifacts(event.task_id):
            if artifact.run == event.run:
                artifact.state = Artifact.State.DISCARDED


def _agent_status(event: Event, rows: Rows) -> None:
    task, payload = (
        rows.tasks[event.task_id] if event.task_id in rows.tasks else rows.task(event.task_id),
        event.payload,
    )
    state = TaskState(payload["state"])
    if state not in TRANSITIONS[TaskState(task.state)]:
        raise IllegalTransition(task.state, state)
    if "kept" in payload:
        return
    task.state = state
    task.status_message = payload.get("message")
    task.slot = payload.get("slot")
    if "skill" in payload:
        task.metadata = {**task.metadata, "skill": payload["skill"]}
    task.status_at, task.status_event = event.at, event.index


def _artifact_chunk(event: Event, rows: Rows) -> None:
    """The first chunk or the start of tokens makes a provisional artifact; later chunks change no row."""
    if event.payload.get("append"):
        return
    described: JSON = event.payload.get("artifact", event.payload)
    task = rows.tasks[event.task_id] if event.task_id in rows.tasks else rows.task(event.task_id)
    made = rows.artifacts_by_task.setdefault(task.pk, {})
    made.pop(event.artifact_id, None)  # a restarted artifact goes last
    made[event.artifact_id] = Artifact(
        task=task,
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
    for artifact in rows.provisional_artifacts(event.task_id):
        artifact.state = Artifact.State.DELIVERED
        artifact.parts = assemble_parts(rows.chunks(artifact))
        artifact.digest = digest_of(artifact.parts)
        artifact.signature = signatures.get(artifact.artifact_id, {})


def _discard(event: Event, rows: Rows) -> None:
    for artifact in rows.provisional_artifacts(event.task_id):
        if artifact.artifact_id in event.payload["discarded"]:
            artifact.state = Artifact.State.DISCARDED


def assemble_parts(chunks: list[Event]) -> list[Any]:
    """The whole artifact's parts: those of its chunks, or its tokens as one text."""
    if chunks and chunks[0].type == EventType.ARTIFACT_UPDATE:
        return _joined_parts(chunks) if len(chunks) > 1 else list(chunks[0].payload["artifact"]["parts"])
    text = "".join(chunk.payload.get("text", "") for chunk in chunks)
    return [{"text": text, "mediaType": "text/plain"}]


def _joined_parts(chunks: list[Event]) -> list[Any]:
    """The parts of chunks; texts of a remote agent's stream are one, as its task has them."""
    parts: list[JSON] = []
    texts: list[list[str]] = []  # of each part
    for chunk in chunks:
        is_joined = chunk.payload.get("joined", False)
        for part in chunk.payload["artifact"]["parts"]:
            if is_joined and parts and _continues(parts[-1], part):
                texts[-1].append(part["text"])
            else:
                parts.append(part)
                texts.append([part["text"]] if "text" in part else [])
            is_joined = False
    return [{**part, "text": "".join(said)} if len(said) > 1 else part for part, said in zip(parts, texts, strict=True)]


def _continues(before: JSON, part: JSON) -> bool:
    """Whether both are texts of the same name, type and metadata."""
    return "text" in before and {**before, "text": ""} == {**part, "text": ""}


def _renamed(event: Event, rows: Rows) -> None:
    rows.context.title = event.payload["title"]


def _archived(event: Event, rows: Rows) -> None:
    rows.context.archived_at = event.at if event.type == EventType.SESSION_ARCHIVED else None


def _shared(event: Event, rows: Rows) -> None:
    rows.context.is_shared = event.payload["sharing"] == Context.Sharing.WORKSPACE


def _moved(event: Event, rows: Rows) -> None:
    project = event.payload["project"]
    rows.context.project = uuid.UUID(project) if project else None


def _agent_switched(event: Event, rows: Rows) -> None:
    rows.context.agent_id = event.payload["agent"]
    rows.context.options = event.payload.get("options", {})
    rows.context.agent_version = event.payload.get("version")


def _fork(event: Event, rows: Rows) -> None:
    rows.context.parent_id = uuid.UUID(event.payload["parent"])
    rows.context.forked_at = event.payload["at"]
    rows.context.fork_reason = event.payload["reason"]
    rows.context.root = _root(event)
    for key in map(uuid.UUID, event.payload["left"]):
        if key not in rows.tasks:  # the ledger does not have them: they belong to another context
            continue
        mark_left(rows.tasks[key], event)
        for artifact in rows.artifacts_by_task.get(key, {}).values():
            artifact.state, artifact.parts = Artifact.State.DISCARDED, []
            artifact.digest, artifact.signature = "", {}


def _root(event: Event) -> uuid.UUID | None:
    """The family of a fork. Older logs do not say it: then it is what the row has, or the parent's, with one owner."""
    payload: JSON = event.payload
    if "root" in payload:
        return uuid.UUID(payload["root"])
    owner = payload["opens"]["owner"]
    if known := list(Context.objects.filter(pk=event.context_id).values_list("root", flat=True)):
        return known[0]
    parent = Context.objects.filter(pk=payload["parent"], owner=owner).first() if "parent" in payload else None
    return parent.family_key if parent else event.context_id


def _deleted(event: Event, rows: Rows) -> None:
    """A tombstone remains, described by this event alone (`tombstone_of`): the earlier log is deleted."""
    context, payload = rows.context, event.payload
    context.created_at = datetime.datetime.fromisoformat(payload["createdAt"])
    context.deleted_at = event.at
    if "at" in payload:
        context.parent_id = uuid.UUID(payload["parent"]) if "parent" in payload else None
        context.forked_at, context.fork_reason = payload["at"], payload["reason"]
        context.root = _root(event)
    rows.clear()


def tombstone_of(context: Context) -> SessionDeleted:
    """The payload that remains of a deleted context: ids and times, no content."""
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
        if context.root is not None:
            kept["root"] = str(context.root)
    return kept


FOLDS: dict[EventType, Callable[[Event, Rows], None]] = {
    EventType.USER_MESSAGE: _user_message,
    EventType.AGENT_START: _agent_start,
    EventType.AGENT_STATUS: _agent_status,
    EventType.AGENT_TOKEN_START: _artifact_chunk,
    EventType.ARTIFACT_UPDATE: _artifact_chunk,
    EventType.AGENT_COMPLETE: _agent_complete,
    EventType.AGENT_FAILED: _discard,
    EventType.AGENT_CANCELLED: _discard,
    EventType.AGENT_SWITCHED: _agent_switched,
    EventType.FORK: _fork,
    EventType.SESSION_RENAMED: _renamed,
    EventType.SESSION_ARCHIVED: _archived,
    EventType.SESSION_UNARCHIVED: _archived,
    EventType.SESSION_DELETED: _deleted,
    EventType.SESSION_SHARED: _shared,
    EventType.SESSION_MOVED: _moved,
}
"""What single types do, beside what `fold` does for all."""


AUTHOR_KEY = "agent"
"""The name of a message's author in its metadata."""

AUTHOR_EVENTS = (EventType.AGENT_START, EventType.AGENT_STATUS, EventType.AGENT_MESSAGE)
"""The events that name a turn's agent, or have an agent's message."""


@dataclass(frozen=True, slots=True)
class Author:
    """The author of an agent's message: agent's key, run, version number; None if the log does not say."""

    agent: int | None = None
    run: uuid.UUID | None = None
    version: int | None = None


def read_authors(events: Iterable[Event]) -> dict[int, Author]:
    """The authors of the messages in events of one log, by index. Needs the AUTHOR_EVENTS, in order."""
    found: dict[int, Author] = {}
    versions: dict[uuid.UUID | None, int | None] = {}
    for event in events:
        payload = event.payload
        if event.type == EventType.AGENT_START or (event.type == EventType.AGENT_STATUS and "version" in payload):
            versions[event.run] = payload.get("version")
        if event.type in AUTHOR_EVENTS and "message" in payload and "progress" not in payload:
            version = payload.get("version", versions.get(event.run) if event.run else None)
            found[event.index] = Author(payload.get("agent"), event.run, version)
    return found


ROW_KEYS = {Context: "pk", Task: "pk", Message: "index", Artifact: "artifact_id"}
"""The field that identifies a row within its context. Keys that the database makes are not compared."""


@dataclass
class Rebuilt(Rows):
    """All rows of a context, in memory."""

    _chunks: dict[tuple[uuid.UUID | None, str], list[Event]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Fold the log's next event."""
        self.context.head_hash = event.hash or self.context.head_hash
        if event.artifact_id:
            self._chunks.setdefault((event.task_id, event.artifact_id), []).append(event)
        fold(event, self)

    def task(self, task_id: uuid.UUID | None) -> Task:
        if task_id not in self.tasks:
            raise Task.DoesNotExist
        return self.tasks[task_id]

    @property
    def artifacts(self) -> list[Artifact]:
        """In the order of first chunks."""
        made = (artifact for of_task in self.artifacts_by_task.values() for artifact in of_task.values())
        return sorted(made, key=lambda artifact: artifact.first_event)

    def provisional_artifacts(self, task_id: uuid.UUID | None) -> list[Artifact]:
        made = self.artifacts_by_task.get(self.task(task_id).pk, {})
        return [artifact for artifact in made.values() if artifact.state == Artifact.State.PROVISIONAL]

    def chunks(self, artifact: Artifact) -> list[Event]:
        chunks = self._chunks.get((artifact.task_id, artifact.artifact_id), [])
        return [event for event in chunks if event.index >= artifact.first_event]

    def rows(self) -> list[models.Model]:
        return [self.context, *self.tasks.values(), *self.messages.values(), *self.artifacts]


def rebuild(context_id: uuid.UUID, upto: int | None = None, chain: Chain | None = None) -> Rebuilt:
    """A context's rows by its log, up to event `upto`; a fork includes its past. The `chain` follows the log.

    Raises Context.DoesNotExist if there is no log.
    """
    tombstone = _tombstone(context_id)
    log = log_of(context_id, upto).iterator(chunk_size=500)
    return _folded(context_id, [tombstone] if tombstone else chain.follow(log) if chain else log)


def _folded(context_id: uuid.UUID, log: Iterable[Event]) -> Rebuilt:
    rebuilt = Rebuilt(Context(pk=context_id))
    for event in log:
        rebuilt.apply(event)
    if not rebuilt.context.last_event:
        raise Context.DoesNotExist(f"There is no context {context_id}.")
    # Deleting a parent sets stored references to it to NULL.
    if (parent := rebuilt.context.parent_id) and not Context.objects.filter(pk=parent).exists():
        rebuilt.context.parent_id = None
    called = {task.parent_id for task in rebuilt.tasks.values() if task.parent_id}
    gone = called - set(Task.objects.filter(pk__in=called).values_list("pk", flat=True)) if called else set()
    for task in rebuilt.tasks.values():
        if task.parent_id in gone:
            task.parent_id = None
    return rebuilt


def _tombstone(context_id: uuid.UUID) -> Event | None:
    """The only event that remains of a deleted context."""
    newest = Event.objects.filter(context_id=context_id).order_by("-index").first()
    return newest if newest is not None and newest.type == EventType.SESSION_DELETED else None


def log_of(context_id: uuid.UUID, upto: int | None = None) -> QuerySet[Event]:
    """A context's whole log, even if the context's row is lost."""
    context = Context.objects.only("forked_at").filter(pk=context_id).first() or Context(pk=context_id)
    return lineage.events(context, upto=upto)


def differences(context_id: uuid.UUID) -> list[str]:
    """The differences between log and rows, one line each, after the first event that does not fit the log's hashes.

    A fork includes its past. Raises Context.DoesNotExist.
    """
    chain = Chain()
    try:
        rebuilt = rebuild(context_id, chain=chain)
    except (Context.DoesNotExist, DatabaseError):
        raise
    except Exception as error:  # whatever a changed log may lead to
        return [chain.problem or f"the log cannot be replayed: {type(error).__name__}: {error}"]
    return _compared(rebuilt, _problem_of_log(context_id, chain), _stored(context_id))


def differences_of(context_ids: Collection[uuid.UUID]) -> Iterator[tuple[uuid.UUID, list[str]]]:
    """The `differences` of each context that exists, with four queries for many short ones that are no forks.

    What differs is read again by itself, since others may write meanwhile.
    """
    some: dict[uuid.UUID, Context] = {}
    events = 0
    for key, context in Context.objects.in_bulk(context_ids).items():
        some[key] = context
        events += min(context.last_event, SHORT_LOG)
        if events >= EVENTS_AT_ONCE:
            yield from _differences_of(some)
            some, events = {}, 0
    yield from _differences_of(some)


def _differences_of(contexts: Mapping[uuid.UUID, Context]) -> Iterator[tuple[uuid.UUID, list[str]]]:
    if not contexts:
        return
    plain = [key for key, one in contexts.items() if one.forked_at is None and one.last_event <= SHORT_LOG]
    logs = _by_context(Event.objects.filter(context__in=Keys(plain)).order_by("index"))
    stored = [
        _by_context(model.objects.filter(**{f"{path}__in": Keys(plain)}), path)
        for model, path in ((Task, "context"), (Message, "context"), (Artifact, "task__context"))
    ]
    for key, context in contexts.items():
        rows = [context, *(row for by_context in stored for row in by_context.get(key, []))]
        if key not in logs or not _is_as_logged(context, logs[key], rows):
            with suppress(Context.DoesNotExist):  # deleted meanwhile
                yield key, differences(key)
        else:
            yield key, []


def _by_context(rows: QuerySet[Any], path: str = "context") -> dict[uuid.UUID, list[Any]]:
    found: dict[uuid.UUID, list[Any]] = {}
    for row in rows.annotate(of_context=F(f"{path}_id")):
        found.setdefault(row.of_context, []).append(row)
    return found


def _is_as_logged(context: Context, log: list[Event], stored: list[models.Model]) -> bool:
    chain = Chain()
    try:
        rebuilt = _folded(context.pk, chain.follow(log))
    except DatabaseError:
        raise
    except Exception:  # `differences` says which
        return False
    return not _compared(rebuilt, chain.end(context), stored)


def _compared(rebuilt: Rebuilt, problem: str, stored: list[models.Model]) -> list[str]:
    """The lines of `differences`."""
    found = [problem] if problem else []
    expected, actual = _by_identity(_shown(rebuilt)), _by_identity(stored)
    for identity in sorted(expected.keys() | actual.keys()):
        if identity not in actual:
            found.append(f"{_name(identity)} is missing")
        elif identity not in expected:
            found.append(f"{_name(identity)} has no events")
        else:
            found += _changes(identity, expected[identity], actual[identity])
    return found


def _shown(rebuilt: Rebuilt) -> list[models.Model]:
    """The rows, each with the context that stores it.

    Undelivered artifacts of a fork's past are omitted: the parent may have delivered them later.
    """
    began = rebuilt.context.forked_at or 0
    for stretch in lineage.log_ranges(rebuilt.context, rebuilt.context.last_event):
        for task in rebuilt.tasks.values():
            if stretch.first <= task.first_event <= stretch.last:
                task.context_id = stretch.source
        for message in rebuilt.messages.values():
            if stretch.first <= message.index <= stretch.last:
                message.context_id = stretch.source
    return [
        row
        for row in rebuilt.rows()
        if not (isinstance(row, Artifact) and row.first_event <= began and row.state != Artifact.State.DELIVERED)
    ]


def _stored(context_id: uuid.UUID) -> list[models.Model]:
    context = Context.objects.filter(pk=context_id).first()
    if context is None:
        return []
    artifacts = Artifact.objects.filter(task__context=context, first_event__gt=context.forked_at or 0)
    past = lineage.artifacts(context).filter(first_event__lte=context.forked_at or 0)
    return [context, *lineage.shown_tasks(context), *lineage.messages(context), *artifacts, *past]


def _problem_of_log(context_id: uuid.UUID, followed: Chain) -> str:
    """Of a deleted context only the events since the deletion remain."""
    context = Context.objects.filter(pk=context_id).first()
    if context is None:
        return followed.problem
    return followed.end(context) if context.deleted_at is None else problem_of_own_events(context)


def _by_identity(rows: list[models.Model]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {_identity(row): row_values(row) for row in rows}


def _identity(row: models.Model) -> tuple[str, str, str]:
    task = str(getattr(row, "task_id", "")) if isinstance(row, Artifact) else ""
    return type(row).__name__, str(getattr(row, ROW_KEYS[type(row)])), task


def row_values(row: models.Model) -> dict[str, Any]:
    """The fields of a row that replay reproduces."""
    skipped = {"id"} if isinstance(row, Message | Artifact) else NO_PART_OF_REPLAY
    return {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if f.attname not in skipped}


def _name(identity: tuple[str, str, str]) -> str:
    return " ".join(identity).strip()


def _changes(identity: tuple[str, str, str], expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    return [
        f"{_name(identity)}: {name} is {actual[name]!r}, the log says {expected[name]!r}"
        for name in expected
        if expected[name] != actual[name]
    ]
