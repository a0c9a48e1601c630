"""Between what was said here and the messages of the model library, which this module imports: import it late."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

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
    images = [_image(file) for file in message.files if _is_image(file)] if with_images else []
    words = words_of(message, without_images=bool(images))
    return [words, *images] if images else words


def from_model_messages(messages: Iterable[ModelMessage]) -> list[Message]:
    """The words of a model's conversation, as messages; calls of tools and their results are left out."""
    found = []
    for message in messages:
        if isinstance(message, ModelResponse):
            found.append(("ROLE_AGENT", message.text or ""))
            continue
        prompts = [part.content for part in message.parts if isinstance(part, UserPromptPart)]
        pieces = [piece for content in prompts for piece in ([content] if isinstance(content, str) else content)]
        found.append(("ROLE_USER", "\n".join(piece for piece in pieces if isinstance(piece, str))))
    wires = [
        {"messageId": str(index), "role": role, "parts": [{"text": text}]}
        for index, (role, text) in enumerate(found)
        if text
    ]
    return [Message.from_wire(wire) for wire in wires]


def words_of(message: Message, *, without_images: bool = False) -> str:
    """All that a message says, in words: its text, its data as JSON, its files."""
    files = [file for file in message.files if not (without_images and _is_image(file))]
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


def _is_image(file: File) -> bool:
    return file.media_type in IMAGES and file.url is None and (file.size or 0) <= IMAGE_BYTES


def _image(file: File) -> UserContent:
    return BinaryContent(file.read(), media_type=file.media_type)
