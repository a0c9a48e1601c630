"""Requests of OpenAI's API, read and turned into A2A parts. Sampling settings are left to the agent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from apps.a2a.protojson import Integer, ProtoMessage, RequiredLine, Struct, Text
from apps.a2a.requests import SendMessageRequest, check_modes
from apps.agents.models import Agent
from apps.record.errors import InvalidFields, InvalidParams
from apps.record.events import JSON

DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(;[\w.=+-]+)*?;base64,(?P<content>.*)", re.DOTALL)
AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
MAX_MESSAGES = 1000
SESSION = "session"  # the key of `metadata` that names a conversation


class Body(ProtoMessage):
    """Names are in snake_case; unknown fields are ignored."""

    model_config = ConfigDict(alias_generator=None)


class Content(Body):
    """A part of a message's content, in the shapes of chat completions and of responses."""

    type: str
    text: Text | None = None
    refusal: Text | None = None
    image_url: Text | Struct | None = None
    file: Struct | None = None
    input_audio: Struct | None = None
    file_data: Text | None = None
    file_url: Text | None = None
    filename: Text | None = None


class Message(Body):
    """A message of a thread. `type` is given by responses alone."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Text | list[Content] | None = None
    type: Literal["message"] = "message"

    @property
    def contents(self) -> list[Content]:
        if isinstance(self.content, str):
            return [Content(type="text", text=self.content)]
        return self.content or []

    @property
    def words(self) -> str:
        return "\n".join(one.text or one.refusal or "" for one in self.contents)


class StreamOptions(Body):
    include_usage: bool = False


def _no_call(choice: Any) -> Any:
    if choice not in (None, "auto", "none"):
        raise ValueError("Must be auto or none: agents call tools of their own, and never the client's.")
    return choice


class Common(Body):
    """What both kinds of requests have. `tools` are ignored: agents call their own, and never the client's."""

    model: RequiredLine
    stream: bool = False
    metadata: Struct | None = None
    user: Text = ""
    tool_choice: Annotated[Any, AfterValidator(_no_call)] = None

    @property
    def session(self) -> str:
        """The conversation that the client names, by `metadata` or, as `session:NAME`, by `user`; or ""."""
        named = (self.metadata or {}).get(SESSION)
        if named is not None and not (isinstance(named, str) and named):
            raise InvalidParams("Must be a text that names the conversation.", f"metadata.{SESSION}")
        return named or (self.user.removeprefix("session:") if self.user.startswith("session:") else "")


class ChatRequest(Common):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream_options: StreamOptions = StreamOptions()
    n: Annotated[Integer, Field(ge=1, le=1)] = 1


class ResponseRequest(Common):
    """POST /v1/responses."""

    input: Text | Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    instructions: Text | None = None
    previous_response_id: Text = ""
    background: bool = False

    @property
    def messages(self) -> list[Message]:
        """The input, and the instructions as a message."""
        said = [Message(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        return [*said, *([Message(role="developer", content=self.instructions)] if self.instructions else [])]


def user_message(agent: Agent, messages: Sequence[Message], message_id: str, **fields: Any) -> JSON:
    """These messages of the user as one checked A2A message. Raises InvalidParams, ContentTypeNotSupported."""
    parts = [part for message in messages for content in message.contents for part in _parts(content)]
    if not parts:
        raise InvalidParams("The last message must be the user's, with content.", "messages")
    said = {"messageId": message_id, "role": "ROLE_USER", "parts": parts, **fields}
    try:
        stored = SendMessageRequest.read({"message": said}, agent).message.stored()
    except InvalidFields as refused:
        raise InvalidFields([(_named(path), sentence) for path, sentence in refused.violations]) from None
    check_modes(agent, stored["parts"], [])
    return stored


def _named(path: str) -> str:
    """The client's name for a field of the A2A message."""
    names = {"message.contextId": f"metadata.{SESSION}", "message.messageId": "Idempotency-Key"}
    return names.get(path, path.replace("message.parts", "content"))


def _parts(content: Content) -> Iterator[JSON]:
    match content.type:
        case "text" | "input_text" | "output_text":
            if content.text:
                yield {"text": content.text}
        case "image_url" | "input_image":
            image = content.image_url
            yield _linked(image.get("url") if isinstance(image, dict) else image, "image_url")
        case "file" | "input_file":
            yield _file(content.file or content.model_dump())
        case "input_audio":
            yield _audio(content.input_audio or {})
        case _:
            raise InvalidParams(f"Content of the type {content.type[:40]} is not taken.", "content.type")


def _linked(url: Any, field: str, filename: str = "") -> JSON:
    """A part of a data URL or of a web address."""
    if not isinstance(url, str) or not url:
        raise InvalidParams("Must be a data URL or a web address. Files by file_id are not kept here.", field)
    name = {"filename": filename} if filename else {}
    if found := DATA_URL.fullmatch(url):
        media_type = {"mediaType": found["type"]} if found["type"] else {}
        return {"raw": found["content"], **media_type, **name}
    return {"url": url, **name}


def _file(file: JSON) -> JSON:
    """`file_data` is a data URL, or base64 alone."""
    name, data = file.get("filename") or "", file.get("file_data") or file.get("file_url")
    if not isinstance(name, str):
        raise InvalidParams("Must be a string.", "filename")
    if isinstance(file.get("file_data"), str) and data and not data.startswith("data:"):
        return {"raw": data, **({"filename": name} if name else {})}
    return _linked(data, "file_data", name)


def _audio(audio: JSON) -> JSON:
    kind = audio.get("format")
    if kind not in AUDIO_TYPES:
        raise InvalidParams(f"Must be one of {', '.join(AUDIO_TYPES)}.", "input_audio.format")
    return {"raw": audio.get("data"), "mediaType": AUDIO_TYPES[kind], "filename": f"audio.{kind}"}
