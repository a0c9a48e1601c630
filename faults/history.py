"""What a run leaves to be judged: what clients saw, and the record, which is read by SQL alone.

Nothing here uses the product's code, so that a defect there cannot hide itself.
"""

from __future__ import annotations

import datetime
import json
import sqlite3
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import psycopg

JSON = dict[str, Any]
TERMINAL = frozenset({"completed", "failed", "rejected", "canceled"})
INTERRUPTED = frozenset({"input-required", "auth-required"})

# What clients saw


@dataclass(frozen=True)
class Acknowledged:
    """A message that Parley has answered. `text`: what its task delivers if it completes, where that is known."""

    tenant: str
    message_id: str
    task: str
    text: str = ""
    must_complete: bool = False


@dataclass(frozen=True)
class Answered:
    """An ended task as some caller got it: its state and the texts of its artifacts."""

    tenant: str
    task: str
    state: str
    texts: tuple[str, ...]


@dataclass
class Streamed:
    """What the A2A streams of one task said, over all its connections. `place`: the id of the newest event."""

    tenant: str
    task: str
    states: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)  # by artifact id
    is_whole: bool = True  # without a break that could not be resumed
    connections: int = 1
    place: str = ""


@dataclass
class Followed:
    """What one follower of all sessions of a tenant was told. `logs`: index and type, by session."""

    tenant: str
    door: str
    logs: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    text: list[str] = field(default_factory=list)
    connections: int = 0
    resets: list[JSON] = field(default_factory=list)


@dataclass(frozen=True)
class Called:
    """A call of a webhook: its address, the event's key (`webhook_key`), and whether the receiver took it."""

    hook: str
    key: tuple[str, str]
    taken: bool


@dataclass(frozen=True)
class Probed:
    """A tenant asked for another's: the address, the status, and whether the answer had anything of the other's."""

    tenant: str
    address: str
    status: int
    told: bool


@dataclass(frozen=True)
class Refused:
    """An answer that no client should get: a server's error without a clear word."""

    address: str
    status: int
    body: str


@dataclass
class Seen:
    """Everything that clients saw. Threads append to its lists."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    later: list[Answered] = field(default_factory=list)  # the same tasks, read when everything had ended
    streamed: list[Streamed] = field(default_factory=list)
    followed: list[Followed] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    hooks: dict[str, str] = field(default_factory=dict)  # tasks by the webhook's address
    strayed: list[str] = field(default_factory=list)  # calls at addresses that only a redirect names
    probed: list[Probed] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    unsafe: list[str] = field(default_factory=list)  # pages with a message's markup as it was sent
    reads: list[tuple[float, float]] = field(default_factory=list)  # answered GETs: begin and seconds
    gave_up: list[str] = field(default_factory=list)  # calls without an answer until the client's patience ended
    marks: dict[str, str] = field(default_factory=dict)  # a word in all that a tenant says, by tenant
    owners: dict[str, int] = field(default_factory=dict)  # users' keys, by tenant
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    abandoned: threading.Event = field(default_factory=threading.Event)  # nothing happens any more: clients give up
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self.counts[what] += number


def webhook_key(body: JSON) -> tuple[str, str]:
    """What tells the events of one task apart in the calls of its webhooks."""
    if (update := body.get("statusUpdate")) is not None:
        return "status", f"{update['status']['state']} {update['status'].get('timestamp', '')}"
    if (update := body.get("artifactUpdate")) is not None:
        return "artifact", str(update["artifact"]["artifactId"])
    return "other", json.dumps(body, sort_keys=True)


# The record


@dataclass(frozen=True)
class Context:
    id: str
    owner: int | None
    last_event: int
    forked_at: int


@dataclass(frozen=True)
class Event:
    context: str
    index: int
    type: str
    task: str
    artifact: str
    payload: JSON
    at: datetime.datetime

    @property
    def state(self) -> str:
        """The state that it brings, or ""."""
        return str(self.payload["state"]) if self.type == "agent_status" and "kept" not in self.payload else ""


@dataclass(frozen=True)
class Task:
    id: str
    context: str
    owner: int | None
    agent: str
    state: str


@dataclass(frozen=True)
class Run:
    task: str
    state: str
    attempt: int


@dataclass(frozen=True)
class Message:
    context: str
    task: str
    role: str
    message_id: str


@dataclass
class Record:
    """The rows that are judged."""

    contexts: dict[str, Context] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)  # by context and index
    tasks: dict[str, Task] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    waiting_deliveries: list[str] = field(default_factory=list)  # tasks
    replay: list[str] = field(default_factory=list)  # what `manage.py verify_record` found

    def logs(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            found[event.context].append(event)
        return found

    def by_task(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.task:
                found[event.task].append(event)
        return found


Query = Callable[[str], list[tuple[Any, ...]]]


def querying(url: str) -> Query:
    """Read-only queries of the database at this URL; `sqlite:///path` or PostgreSQL's."""

    def of_sqlite(query: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(f"file:{url.removeprefix('sqlite:///')}?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def of_postgresql(query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, options="-c default_transaction_read_only=on", connect_timeout=10) as connection:
            return connection.execute(query).fetchall()

    return of_sqlite if url.startswith("sqlite") else of_postgresql


def read_record(query: Query) -> Record:
    return Record(
        contexts={
            key: Context(key, owner, last, forked or 0)
            for key, owner, last, forked in _with_ids(
                query("SELECT id, owner_id, last_event, forked_at FROM record_context")
            )
        },
        events=[
            Event(context, index, type_, task, artifact, _json(payload), _time(at))
            for context, task, index, type_, artifact, payload, at in _with_ids(
                query(
                    'SELECT context_id, task_id, "index", type, artifact_id, payload, at FROM record_event'
                    ' ORDER BY context_id, "index"'
                ),
                ids=2,
            )
        ],
        tasks={
            key: Task(key, context, owner, agent, state)
            for key, context, owner, agent, state in _with_ids(
                query(
                    "SELECT task.id, task.context_id, task.owner_id, agent.slug, task.state FROM record_task task"
                    " JOIN agents_agent agent ON agent.id = task.agent_id"
                ),
                ids=2,
            )
        },
        runs=[Run(*row) for row in _with_ids(query("SELECT task_id, state, attempt FROM record_run"))],
        messages=[
            Message(context, task, role, message_id)
            for context, task, role, message_id in _with_ids(
                query("SELECT context_id, task_id, role, message_id FROM record_message"), ids=2
            )
        ],
        waiting_deliveries=[
            task
            for (task,) in _with_ids(
                query(
                    "SELECT config.task_id FROM a2a_delivery delivery JOIN a2a_pushconfig config"
                    " ON config.id = delivery.config_id WHERE delivery.state = 'waiting'"
                )
            )
        ],
    )


def _with_ids(rows: Iterable[tuple[Any, ...]], ids: int = 1) -> Iterable[tuple[Any, ...]]:
    """Rows whose first columns are UUIDs: SQLite has them as hexadecimal text."""
    for row in rows:
        yield (*(str(uuid.UUID(str(one))) if one is not None else "" for one in row[:ids]), *row[ids:])


def _json(value: Any) -> JSON:
    decoded: JSON = json.loads(value) if isinstance(value, str) else value
    return decoded


def _time(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC)
    return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
