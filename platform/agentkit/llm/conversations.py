"""Between what was said here and the messages of the model library, which this module imports: import it late."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserContent,
    UserPromptPart,
)

from agentkit.messages import File, Message
from agentkit.parts import UnreadableContent
from agentkit.threads import Thread

FILE_CHARACTERS = 100_000  # of one text file that a model is shown
IMAGE_BYTES = 10 * 1024 * 1024
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
READABLE = ("application/json", "application/xml", "application/yaml", "application/x-ndjson")


def to_model_messages(messages: Iterable[Message]) -> list[ModelMessage]:
    """The conversation as a model is given it. Of files, texts are included, and images of the newest message."""
    said = list(messages)
    newest = len(said) - 1
    return [_model_message(message, with_images=index == newest) for index, message in enumerate(said)]


def _model_message(message: Message, *, with_images: bool) -> ModelMessage:
    if message.role == "agent":
        return ModelResponse(parts=[TextPart(words_of(message))])
    return ModelRequest(parts=[UserPromptPart(prompt_of(message, with_images=with_images))])


def prompt_of(message: Message, *, with_images: bool = True) -> str | Sequence[UserContent]:
    """What a user's message says to a model."""
    seen = {at: _image(file) for at, file in enumerate(message.files)} if with_images else {}
    images = {at: image for at, image in seen.items() if image is not None}
    words = words_of(message, without=images)
    return [words, *images.values()] if images else words


def from_model_messages(messages: Iterable[ModelMessage]) -> Thread:
    """What was said, as a thread; calls of tools and their results are left out."""
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
    """All that a message says, in words: its text, its data as JSON, its files but those at the places of `without`."""
    files = [file for at, file in enumerate(message.files) if at not in without]
    data = [json.dumps(value, ensure_ascii=False) for value in message.data]
    return "\n\n".join(filter(None, [message.text, *data, *map(_described, files)])) or "(nothing)"


def _described(file: File) -> str:
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
    """An image that a model can be shown."""
    if file.media_type not in IMAGES or file.url is not None or (file.size or 0) > IMAGE_BYTES:
        return None
    try:
        return BinaryContent(file.read(), media_type=file.media_type)
    except UnreadableContent:
        return None
