"""Converts between a task and the model library's messages: prompts, the model's work, suspended turns.

It imports the model library: import it late.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pydantic_core
from pydantic_ai import RunContext, capture_run_messages
from pydantic_ai.messages import (
    AgentStreamEvent,
    BinaryContent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    UserContent,
    UserPromptPart,
)

from agentkit.context import BOOKMARK, Suspended, TaskContext
from agentkit.errors import UnreadableContent
from agentkit.messages import File, Message
from agentkit.turns import Thread

FILE_CHARACTERS = 100_000
IMAGE_BYTES = 10 * 1024 * 1024
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
READABLE = ("application/json", "application/xml", "application/yaml", "application/x-ndjson")


def to_model_messages(messages: Iterable[Message]) -> list[ModelMessage]:
    """The conversation as a model's messages, with text files, and the images of the newest message."""
    said = list(messages)
    newest = len(said) - 1
    return [_model_message(message, with_images=index == newest) for index, message in enumerate(said)]


def _model_message(message: Message, *, with_images: bool) -> ModelMessage:
    if message.role == "agent":
        return ModelResponse(parts=[TextPart(words_of(message))])
    return ModelRequest(parts=[UserPromptPart(prompt_of(message, with_images=with_images))])


def prompt_of(message: Message, *, with_images: bool = True) -> str | Sequence[UserContent]:
    """A user's message as a prompt."""
    seen = {at: _image(file) for at, file in enumerate(message.files)} if with_images else {}
    images = {at: image for at, image in seen.items() if image is not None}
    words = words_of(message, without=images)
    return [words, *images.values()] if images else words


def from_model_messages(messages: Iterable[ModelMessage]) -> Thread:
    """The messages as a thread, without tool calls."""
    thread = Thread()
    for message in messages:
        role, text = ("agent", message.text) if isinstance(message, ModelResponse) else ("user", asked_in(message))
        thread = thread.add(role, text) if text else thread
    return thread


def asked_in(request: ModelRequest) -> str:
    """The user's words in a request."""
    contents = [part.content for part in request.parts if isinstance(part, UserPromptPart)]
    pieces = [piece for content in contents for piece in ([content] if isinstance(content, str) else content)]
    return "\n".join(piece for piece in pieces if isinstance(piece, str))


def words_of(message: Message, *, without: Container[int] = ()) -> str:
    """A message in words: text, data as JSON, and files except those at the places `without`."""
    files = [file for at, file in enumerate(message.files) if at not in without]
    data = [json.dumps(value, ensure_ascii=False) for value in message.data]
    return "\n\n".join(filter(None, [message.text, *data, *map(_file_as_text, files)])) or "(nothing)"


def _file_as_text(file: File) -> str:
    name = file.name or "without a name"
    if file.url is not None:
        return f"[A link to a file: {file.url}]"
    if not (file.media_type.startswith("text/") or file.media_type in READABLE):
        return f"[A file: {name}, {file.media_type}, {file.size} bytes]"
    try:
        text = file.read().decode(errors="replace")
    except UnreadableContent as unreadable:
        return f"[A file: {name}. {unreadable}]"
    cut = f"\n[the first {FILE_CHARACTERS} of {len(text)} characters]" if len(text) > FILE_CHARACTERS else ""
    return f"[A file: {name}, {file.media_type}]\n{text[:FILE_CHARACTERS]}{cut}"


def _image(file: File) -> BinaryContent | None:
    if file.media_type not in IMAGES or file.url is not None or (file.size or 0) > IMAGE_BYTES:
        return None
    try:
        return BinaryContent(file.read(), media_type=file.media_type)
    except UnreadableContent:
        return None


@contextmanager
def bookmarked(task: TaskContext, instructions: str, messages: Sequence[Message]) -> Iterator[list[ModelMessage]]:
    """Returns an earlier turn's messages of this conversation; keeps them for the next turn if this one suspends."""
    page = _bookmark_name(instructions, messages)
    before = ModelMessagesTypeAdapter.validate_python(task.memory.pop(page, []))
    with capture_run_messages() as said:
        try:
            yield before
        except Suspended:
            new = [message for message in said if message.run_id is not None]
            while new and not isinstance(new[-1], ModelResponse):
                new.pop()  # the last step's results; the tools are called again
            task.memory[page] = ModelMessagesTypeAdapter.dump_python(new, mode="json")
            raise


def _bookmark_name(instructions: str, messages: Sequence[Message]) -> str:
    told: list[Any] = [instructions, *(message.parts for message in messages)]
    return BOOKMARK + hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


PARAGRAPH = "\n\n"


class EventReporter:
    """Reports to the task; `text` is the streamed text, a paragraph per step."""

    def __init__(self, task: TaskContext, *, stream: bool) -> None:
        self.text = ""
        self._task = task
        self._stream = stream
        self._calls: dict[str, str] = {}  # the model's call ids, and the record's

    async def follow(self, _: RunContext[TaskContext], events: AsyncIterable[AgentStreamEvent]) -> None:
        """Called by the model library for each step: a model's answer, or its tool calls."""
        is_new = True
        async for event in events:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=words))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=words))
                ):
                    is_new = await self._stream_text(words, is_new=is_new)
                case PartEndEvent(part=ThinkingPart(content=thought)) if thought:
                    await self._task.thought(thought)
                case FunctionToolCallEvent(part=call):
                    # Some endpoints count calls anew in each step.
                    is_repeated = call.tool_call_id in self._calls
                    own_id = None if is_repeated else call.tool_call_id
                    self._calls[call.tool_call_id] = await self._task.tool_call(
                        call.tool_name, call.args_as_dict(), own_id
                    )
                case FunctionToolResultEvent(part=result):
                    call_id, failed = self._calls[result.tool_call_id], result.outcome != "success"
                    content = recordable(result.content)
                    await self._task.tool_result(call_id, result.tool_name, content, is_error=failed)

    async def _stream_text(self, words: str, *, is_new: bool) -> bool:
        if not words or not self._stream:
            return is_new
        piece = PARAGRAPH + words if is_new and self.text else words
        self.text += piece
        await self._task.token(piece)
        return False


def recordable(content: Any) -> Any:
    """A tool's result as JSON values; files appear by name only."""
    return pydantic_core.to_jsonable_python(_without_files(content), fallback=str)


def _without_files(content: Any) -> Any:
    if isinstance(content, BinaryContent):
        return f"[{content.media_type}, {len(content.data)} bytes]"
    return [_without_files(one) for one in content] if isinstance(content, list) else content
