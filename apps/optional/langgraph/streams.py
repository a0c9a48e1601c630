"""The events of a run's stream, by the modes that the client chose (https://docs.langchain.com/langsmith/streaming)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.api.framework.problems import problem
from apps.doors.turns import End, Piece, Progress, ToolCall, ToolResult
from apps.optional.langgraph.assistants import NODE, id_of
from apps.optional.langgraph.messages import Answer, Change
from apps.optional.langgraph.requests import Mode
from apps.optional.langgraph.threads import RUN_STATUS, Run, interrupt
from apps.record import wire
from apps.record.events import JSON
from apps.record.models import TaskState

TOOLS = "tools"
"""The node of tools' results."""
FAILED = (TaskState.FAILED, TaskState.REJECTED)
Event = tuple[str, Any]


@dataclass(slots=True)
class Events:
    """A run's events, made of its pieces; those up to event `after` of the record were sent before.

    `earlier`: the thread's messages up to the run's own, which is included.
    """

    run: Run
    thread: str
    graph: str
    earlier: list[JSON]
    answer: Answer
    modes: Sequence[Mode] = ("values",)
    after: int = 0
    end: End | None = None
    _seen: set[str] = field(default_factory=set)  # the ids of messages whose metadata was told
    _has_begun: bool = False

    @property
    def values(self) -> JSON:
        return {"messages": [*self.earlier, *self.answer.messages]}

    @property
    def result(self) -> JSON:
        """What a client that waits gets: the values, with what the run asks, or why it failed."""
        if self.end is not None and self.end.state in FAILED:
            return {"__error__": _failure(self.end)}
        return self.values | ({"__interrupt__": asked} if (asked := self._interrupts()) else {})

    def frames(self, pieces: list[tuple[int, Piece]]) -> Iterator[bytes]:
        """Server-sent events. An id comes with the last event of each event of the record."""
        if not self._has_begun:
            self._has_begun = True
            if self.after <= 0:
                yield from (_frame(one) for one in self._begin())
        for place, (index, piece) in enumerate(pieces):
            made = list(self.read(piece))
            if index <= self.after and not isinstance(piece, End):
                continue
            is_last = place + 1 == len(pieces) or pieces[place + 1][0] != index
            yield from (_frame(one) for one in made[:-1])
            yield from (_frame(one, index if is_last and index else None) for one in made[-1:])

    def error(self, error: Exception) -> bytes:
        refused = problem(error).document
        return _frame(("error", {"error": refused["code"], "message": refused["detail"]}))

    def read(self, piece: Piece) -> Iterator[Event]:
        for change in self.answer.take(piece):
            yield from self._changed(change)
        match piece:
            case Progress(text, done, total) if "custom" in self.modes:
                yield "custom", {"type": "progress", "text": text, "done": done, "total": total}
            case ToolCall() if "events" in self.modes:
                yield self._event("on_tool_start", piece.name, input=piece.arguments)
            case ToolResult() if "events" in self.modes:
                yield self._event("on_tool_end", piece.name, output=piece.result)
            case End():
                self.end = piece
                yield from self._ended(piece)

    def _begin(self) -> Iterator[Event]:
        yield "metadata", {"run_id": self.run.id, "thread_id": self.thread, "attempt": 1}
        if "values" in self.modes:
            yield "values", self.values
        if "events" in self.modes:
            yield self._event("on_chain_start", self.graph, input={"messages": self.earlier[-1:]})

    def _changed(self, change: Change) -> Iterator[Event]:
        message, chunk = change.message, change.chunk
        is_tool = message["type"] == "tool"
        if chunk is not None and "messages-tuple" in self.modes:
            yield "messages", [chunk, self._metadata(is_tool)]
        if chunk is not None and "events" in self.modes and not is_tool:
            yield self._event("on_chat_model_stream", self.graph, chunk=chunk)
        if "messages" in self.modes:
            if message["id"] not in self._seen:
                self._seen.add(message["id"])
                yield "messages/metadata", {message["id"]: {"metadata": self._metadata(is_tool)}}
            yield f"messages/{'complete' if change.is_whole else 'partial'}", [message]
        if change.is_whole and "updates" in self.modes:
            yield "updates", {TOOLS if is_tool else NODE: {"messages": [message]}}
        if change.is_whole and "values" in self.modes:
            yield "values", self.values

    def _ended(self, end: End) -> Iterator[Event]:
        if asked := self._interrupts():
            if "values" in self.modes:
                yield "values", self.values | {"__interrupt__": asked}
            if "updates" in self.modes:
                yield "updates", {"__interrupt__": asked}
        if "events" in self.modes:
            yield self._event("on_chain_end", self.graph, output=self.values)
        if end.state in FAILED:
            yield "error", _failure(end)
        yield "end", {"run_id": self.run.id, "status": RUN_STATUS.get(end.state, "interrupted")}

    def _interrupts(self) -> list[JSON]:
        if self.end is None or self.run.task is None or not self.end.state.is_interrupted:
            return []
        return [interrupt(self.run.task.pk, self.end.state, self.end.message, self.end.slot)]

    def _metadata(self, is_tool: bool = False) -> JSON:
        ids = {"run_id": self.run.id, "thread_id": self.thread, "assistant_id": id_of(self.graph)}
        return {**ids, "graph_id": self.graph, "langgraph_node": TOOLS if is_tool else NODE, "tags": []}

    def _event(self, kind: str, name: str, **data: Any) -> Event:
        about = {"run_id": self.run.id, "metadata": self._metadata(), "tags": [], "parent_ids": []}
        return "events", {"event": kind, "name": name, "data": data, **about}


def _failure(end: End) -> JSON:
    return {"error": end.code or str(end.state), "message": end.words or "The agent failed."}


def _frame(event: Event, index: int | None = None) -> bytes:
    kind, data = event
    return wire.sse_frame(data, id_=index, event=kind)
