"""POST /v1/chat/completions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.http.response import HttpResponseBase

from apps.a2a.http import AuthenticatedRequest, json_response
from apps.doors.callers import called_agent
from apps.doors.links import markdown_link
from apps.doors.turns import ClientCall, End, File, Piece, Progress, Text, ToolCall
from apps.optional.openai import serving
from apps.optional.openai.errors import AgentFailed, error_json
from apps.optional.openai.requests import ChatRequest
from apps.optional.openai.serving import DONE, Turn
from apps.record import wire
from apps.record.events import JSON
from apps.record.models import TaskState

SESSION_HEADERS = ("X-Parley-Session", "X-OpenWebUI-Chat-Id")
"""Headers that name the conversation."""
SHOW_TOOLS = "tool_calls"  # the key of `metadata` by which a client asks for the agent's tool calls
ANSWERED = (TaskState.COMPLETED, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)


async def complete(incoming: AuthenticatedRequest, body: Any) -> HttpResponseBase:
    """The agent's answer to the thread, at once or as a stream. Raises Refusal."""
    request = await incoming.work_on_body(ChatRequest.read, body)
    headers = incoming.request.headers
    agent = called_agent(incoming)
    session = request.session or next((headers[name] for name in SESSION_HEADERS if headers.get(name)), "")
    with serving.open_stream(incoming, agent) as stack:
        turn = await serving.begin(incoming, agent, request.messages, session, request.wishes(body))
        completion = Completion.of(turn, request)
        if not request.stream:
            return json_response(completion.whole(await serving.collect(turn.pieces())), headers=completion.headers)
        close = stack.pop_all().close
        return serving.event_stream(
            incoming.request, agent, turn.pieces(), completion.frames, close, completion.headers
        )


@dataclass(slots=True)
class Completion:
    """A chat completion in the making. `with_tools`: show the agent's tool calls, which clients take for their own."""

    turn: Turn
    model: str
    with_usage: bool
    with_tools: bool
    id: str
    created: int = field(default_factory=lambda: int(time.time()))
    has_begun: bool = False
    calls: int = 0
    waits: bool = False  # for tools of the client

    @classmethod
    def of(cls, turn: Turn, request: ChatRequest) -> Completion:
        with_tools = (request.metadata or {}).get(SHOW_TOOLS) in (True, "true")
        key = turn.sent.task or turn.sent.context
        return cls(turn, request.model, request.stream_options.include_usage, with_tools, f"chatcmpl-{key.hex}")

    @property
    def headers(self) -> dict[str, str]:
        task = {"X-Parley-Task": str(self.turn.sent.task)} if self.turn.sent.task else {}
        return self.turn.headers | task

    def whole(self, pieces: list[tuple[int, Piece]]) -> JSON:
        """Raises AgentFailed."""
        deltas = [delta for _, piece in pieces if (delta := self._delta(piece)) is not None]
        end = pieces[-1][1]
        if not isinstance(end, End) or end.state not in ANSWERED:
            raise AgentFailed(end if isinstance(end, End) else End(TaskState.CANCELED))
        message: JSON = {"role": "assistant", "content": "".join(one.get("content", "") for one in deltas)}
        message |= {"refusal": None, "annotations": []}
        if calls := [call for delta in deltas for call in delta.get("tool_calls", ())]:
            message["tool_calls"] = calls
            message["content"] = message["content"] or None
        choice = {"index": 0, "message": message, "finish_reason": self._reason(end), "logprobs": None}
        return self._object("chat.completion", [choice]) | {"usage": _usage(end)}

    def frames(self, pieces: list[tuple[int, Piece]]) -> Iterator[bytes]:
        """The chunks of these pieces as server-sent events."""
        if not self.has_begun:
            self.has_begun = True
            yield self._chunk({"role": "assistant", "content": ""})
        for _, piece in pieces:
            if isinstance(piece, End):
                yield from self._last(piece)
            elif (delta := self._delta(piece)) is not None:
                yield self._chunk(delta)

    def _last(self, end: End) -> list[bytes]:
        if end.state not in ANSWERED:
            return [wire.sse_frame(error_json(AgentFailed(end))), DONE]
        frames = [self._chunk({}, self._reason(end))]
        if self.with_usage:
            frames.append(wire.sse_frame(self._object("chat.completion.chunk", []) | {"usage": _usage(end)}))
        return [*frames, DONE]

    def _chunk(self, delta: JSON, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return wire.sse_frame(self._object("chat.completion.chunk", [choice]))

    def _delta(self, piece: Piece) -> JSON | None:
        match piece:
            case Text(text):
                return {"content": text}
            case Progress(text):
                return {"reasoning_content": f"{text}\n"}  # as clients know it from other servers
            case File():
                return {"content": markdown_link(piece, self.turn.sent.context)}
            case ClientCall():
                self.waits = True
                return self._called(piece)
            case ToolCall() if self.with_tools:
                return self._called(piece)
            case _:
                return None

    def _called(self, call: ToolCall | ClientCall) -> JSON:
        function = {"name": call.name, "arguments": wire.json_text(call.arguments)}
        self.calls += 1
        return {"tool_calls": [{"index": self.calls - 1, "id": call.id, "type": "function", "function": function}]}

    def _reason(self, end: End) -> str:
        return "tool_calls" if self.waits else "length" if end.is_cut_off else "stop"

    def _object(self, kind: str, choices: list[JSON]) -> JSON:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


def _usage(end: End) -> JSON:
    """In the tokens of the agent's models; 0 for an agent that calls none."""
    read, written = end.usage.get("inputTokens", 0), end.usage.get("outputTokens", 0)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
