"""Bodies of LangGraph's API. A field that is not named here, and so has no effect here, is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Self

from django.http import HttpRequest
from pydantic import BeforeValidator, ConfigDict, Field

from apps.a2a.protojson import Integer, Line, ProtoMessage, RequiredLine, Struct, Text, Value
from apps.doors.clients import json_or_text
from apps.record.events import JSON

Mode = Literal["values", "updates", "messages", "messages-tuple", "custom", "events"]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
RunStatus = Literal["pending", "running", "error", "success", "timeout", "interrupted"]
Order = Literal["asc", "desc"]
ThreadId = Annotated[RequiredLine, Field(pattern=r"^[^/]*$")]
MOST_ROWS = 1000


def _listed(given: Any) -> Any:
    """What comes singly, or as a JSON array in a query, which is how the SDK for JavaScript sends it."""
    read = json_or_text(given) if isinstance(given, str) else given
    return read if isinstance(read, list) else [given]


def _flag(given: Any) -> bool:
    return str(given).lower() in ("1", "true")


Modes = Annotated[list[Mode], Field(min_length=1, max_length=10), BeforeValidator(_listed)]
Flag = Annotated[bool, BeforeValidator(_flag)]


class Body(ProtoMessage):
    """Names are in snake_case."""

    model_config = ConfigDict(alias_generator=None, extra="forbid")


class Page(Body):
    limit: Annotated[Integer, Field(ge=1, le=MOST_ROWS)] = 10
    offset: Annotated[Integer, Field(ge=0, le=10**9)] = 0
    sort_order: Order = "desc"
    select: list[Text] | None = None


class AssistantFilter(Body):
    graph_id: Line = ""
    name: Line = ""
    metadata: Struct | None = None


class AssistantSearch(Page, AssistantFilter):
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] = "created_at"


class ThreadFilter(Body):
    metadata: Struct | None = None
    status: ThreadStatus | None = None


class ThreadSearch(Page, ThreadFilter):
    ids: Annotated[list[Line], Field(max_length=MOST_ROWS)] | None = None
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = "updated_at"


class NewThread(Body):
    thread_id: ThreadId | None = None
    metadata: Struct | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"


class ThreadChanges(Body):
    metadata: Struct


class HistoryPage(Body):
    """`before`: a checkpoint, its id, or a configuration with it."""

    limit: Annotated[Integer, Field(ge=1, le=MOST_ROWS)] = 10
    before: Value = None
    select: list[Text] | None = None


class Command(Body):
    nullable = frozenset({"resume"})

    resume: Value = None


class NewRun(Body):
    """A run. What follows `if_not_exists` is taken without effect: runs are recorded and can be joined anyway."""

    assistant_id: RequiredLine
    input: Value = None
    command: Command | None = None
    stream_mode: Modes = ["values"]
    metadata: Struct | None = None
    config: Struct | None = None
    context: Value = None
    checkpoint: Struct | None = None
    checkpoint_id: Text = ""
    multitask_strategy: Literal["enqueue", "reject", "interrupt"] = "enqueue"
    on_disconnect: Literal["continue", "cancel"] = "continue"
    on_completion: Literal["keep"] = "keep"
    if_not_exists: Literal["reject", "create"] = "reject"
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    strict_resume: bool = False
    checkpoint_during: bool = False
    durability: Text = ""
    feedback_keys: Value = None
    langsmith_tracer: Value = None


class Query(ProtoMessage):
    """Names are in snake_case. Parameters that are not named here are ignored."""

    model_config = ConfigDict(alias_generator=None)

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        """Raises InvalidFields."""
        return cls.read({name: given if given[1:] else given[0] for name, given in request.GET.lists()})


class RunsQuery(Query):
    limit: Annotated[Integer, Field(ge=0, le=MOST_ROWS)] = 10
    offset: Annotated[Integer, Field(ge=0, le=MOST_ROWS)] = 0
    status: str | None = None
    select: Annotated[list[str], BeforeValidator(_listed)] | None = None


class JoinQuery(Query):
    stream_mode: Modes = ["values"]
    cancel_on_disconnect: Flag = False


class CancelQuery(Query):
    """What is recorded stays, so there is no other action."""

    action: Literal["interrupt"] = "interrupt"
    wait: Flag = False


def picked(rows: Iterable[JSON], select: Sequence[str] | None) -> list[JSON]:
    """The rows with only the selected fields, if any are."""
    return [{name: value for name, value in row.items() if not select or name in select} for row in rows]


def checkpoint_of(given: Any) -> str:
    """The id in a checkpoint, or in a configuration with one; "" without any."""
    if isinstance(given, dict):
        given = given.get("checkpoint_id") or checkpoint_of(given.get("configurable") or "")
    return given if isinstance(given, str) else ""
