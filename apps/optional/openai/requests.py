"""Requests of OpenAI's API, read and turned into A2A parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from apps.a2a.protojson import Integer, Number, ProtoMessage, RequiredLine, Struct, Text, Value
from apps.a2a.requests import checked_message
from apps.agents.models import Agent
from apps.doors.clients import Wishes
from apps.doors.parts import linked_part
from apps.optional.openai import wishes
from apps.record.errors import InvalidParams
from apps.record.events import JSON

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
    image_url: Value = None
    file: Struct | None = None
    input_audio: Struct | None = None
    file_data: Text | None = None
    file_url: Text | None = None
    filename: Text | None = None


def _contents(given: Any) -> Any:
    """A text is a list of one part."""
    if isinstance(given, str):
        return [{"type": "text", "text": given}]
    if given is None or isinstance(given, list):
        return given
    raise ValueError("Must be a text, or a list of parts.")


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


class Function(Body):
    name: Text = ""
    arguments: Text = ""


class Call(Body):
    """A call of a tool of the client, as it was made before."""

    id: Text = ""
    function: Function = Function()


class Message(Body):
    """A message of a thread, or an item of a response's input."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[list[Content] | None, BeforeValidator(_contents)] = None
    type: Text = "message"
    tool_calls: list[Call] | None = None
    tool_call_id: Text = ""
    reference: Text = ""  # the id of an item of an earlier response, for which this stands

    @property
    def contents(self) -> list[Content]:
        return self.content or []

    @property
    def words(self) -> str:
        return "\n".join(one.text or one.refusal or "" for one in self.contents)

    @property
    def is_result(self) -> bool:
        return self.role in ("tool", "function")

    @property
    def shown(self) -> str:
        """The words, and the calls and results of tools in words."""
        calls = [f"[called {one.function.name}: {one.function.arguments}]" for one in self.tool_calls or ()]
        words = f"[the result: {self.words}]" if self.is_result else self.words
        return "\n".join(filter(None, [words, *calls]))


def spoken(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": text})


class StreamOptions(Body):
    include_usage: bool = False


class Common(Body):
    """What both kinds of requests have. Fields of type `Value` are read once it is known what the agent honors."""

    model: RequiredLine
    stream: bool = False
    metadata: Struct | None = None
    user: Text = ""
    tools: Value = None
    tool_choice: Value = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    stop: Annotated[list[Text] | None, BeforeValidator(_listed), Field(max_length=16)] = None
    parallel_tool_calls: bool | None = None

    @property
    def session(self) -> str:
        """The conversation that the client names, by `metadata` or, as `session:NAME`, by `user`; or ""."""
        named = (self.metadata or {}).get(SESSION)
        if named is not None and not (isinstance(named, str) and named):
            raise InvalidParams("Must be a text that names the conversation.", f"metadata.{SESSION}")
        return named or (self.user.removeprefix("session:") if self.user.startswith("session:") else "")

    def wishes(self, body: JSON) -> Wishes:
        """What the client asks besides its messages. Raises InvalidParams."""
        settings = {
            name: (field, value)
            for field, name in wishes.SETTINGS.items()
            if (value := getattr(self, field, None)) is not None
        }
        tools, no_effect = wishes.function_tools(self.tools)
        if tools and self.parallel_tool_calls is False:
            settings["parallel_tool_calls"] = "parallel_tool_calls", False
        field, form = self._form()
        return Wishes(
            tools,
            wishes.choice_of(self.tool_choice),
            wishes.output_of(form, field),
            field,
            settings,
            [*no_effect, *wishes.fields_without_effect(body)],
        )

    def _form(self) -> tuple[str, Any]:
        """The name and value of the field that says the form of the answer."""
        raise NotImplementedError


class ChatRequest(Common):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream_options: StreamOptions = StreamOptions()
    n: Annotated[Integer, Field(ge=1, le=1)] = 1
    max_tokens: Annotated[Integer, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[Integer, Field(ge=1)] | None = None
    seed: Integer | None = None
    presence_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    response_format: Value = None

    def _form(self) -> tuple[str, Any]:
        form = self.response_format
        if isinstance(form, dict) and isinstance(form.get("json_schema"), dict):
            form = {**form["json_schema"], "type": form.get("type")}
        return "response_format", form


def _items(given: Any) -> Any:
    """A response's input as messages. What an agent's own tools did, and what it thought, says nothing here."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise ValueError("Must be a text, or a list of items.")
    return [_as_message(one) if isinstance(one, dict) else one for one in given]


def _as_message(item: JSON) -> JSON:
    kind, call = item.get("type"), item.get("call_id")
    match kind:
        case None | "message":
            return item
        case "item_reference":
            return {"role": "assistant", "type": kind, "reference": item.get("id")}
        case "function_call" | "custom_tool_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments", item.get("input"))}
            return {"role": "assistant", "type": kind, "tool_calls": [{"id": call, "function": function}]}
        case "input_text" | "input_image" | "input_file" | "input_audio":
            return {"role": "user", "content": [item]}
        case "output_text" | "refusal" | "text":
            return {"role": "assistant", "content": [item]}
        case str() if kind.endswith("_output"):
            output = item.get("output")
            content = output if output is None or isinstance(output, str | list) else json.dumps(output)
            return {"role": "tool", "type": kind, "tool_call_id": call, "content": content}
        case str():
            return {"role": "assistant", "type": kind[:40]}
        case _:
            return item


class Conversation(Body):
    id: RequiredLine


def _conversation(given: Any) -> Any:
    return {"id": given} if isinstance(given, str) else given


class ResponseRequest(Common):
    """POST /v1/responses."""

    input: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES), BeforeValidator(_items)]
    instructions: Text | None = None
    previous_response_id: Text = ""
    conversation: Annotated[Conversation | None, BeforeValidator(_conversation)] = None
    background: bool = False
    max_output_tokens: Annotated[Integer, Field(ge=1)] | None = None
    seed: Integer | None = None
    text: Value = None

    @property
    def messages(self) -> list[Message]:
        """The input, and the instructions as a message."""
        return [*self.input, *([spoken("developer", self.instructions)] if self.instructions else [])]

    @property
    def session(self) -> str:
        """The session of the response that it continues, or of the conversation. Raises InvalidParams."""
        if self.conversation is None:
            return super().session
        if self.previous_response_id:
            raise InvalidParams("Give a conversation or a previous_response_id, not both.", "conversation")
        return self.conversation.id

    def _form(self) -> tuple[str, Any]:
        return "text.format", self.text.get("format") if isinstance(self.text, dict) else None


def user_message(agent: Agent, messages: Sequence[Message], message_id: str, **fields: Any) -> JSON:
    """These messages of the user as one checked A2A message. Raises InvalidParams, ContentTypeNotSupported."""
    parts = parts_of(messages)
    if not parts:
        raise InvalidParams("The last message must be the user's, with content.", "messages")
    return checked_message(agent, {"messageId": message_id, "parts": parts, **fields}, named)


def parts_of(messages: Sequence[Message]) -> list[JSON]:
    """Raises InvalidParams."""
    return [part for message in messages for content in message.contents for part in _parts(content)]


def named(path: str) -> str:
    """The client's name for a field of the A2A message."""
    names = {"message.contextId": f"metadata.{SESSION}", "message.messageId": "Idempotency-Key"}
    return names.get(path, path.replace("message.parts", "content"))


def _parts(content: Content) -> Iterator[JSON]:
    match content.type:
        case "text" | "input_text" | "output_text":
            if content.text:
                yield {"text": content.text}
        case "refusal":
            if content.refusal:
                yield {"text": content.refusal}
        case "image_url" | "input_image":
            image = content.image_url
            yield linked_part(image.get("url") if isinstance(image, dict) else image, "image_url")
        case "file" | "input_file":
            yield _file(content.file or content.model_dump())
        case "input_audio":
            yield _audio(content.input_audio or {})
        case _:
            raise InvalidParams(f"Content of the type {content.type[:40]} is not taken.", "content.type")


def _file(file: JSON) -> JSON:
    """`file_data` is a data URL, or base64 alone."""
    name, data = file.get("filename") or "", file.get("file_data") or file.get("file_url")
    if not isinstance(name, str):
        raise InvalidParams("Must be a string.", "filename")
    if isinstance(file.get("file_data"), str) and data and not data.startswith("data:"):
        return {"raw": data, **({"filename": name} if name else {})}
    return linked_part(data, "file_data", name)


def _audio(audio: JSON) -> JSON:
    kind = audio.get("format")
    if kind not in AUDIO_TYPES:
        raise InvalidParams(f"Must be one of {', '.join(AUDIO_TYPES)}.", "input_audio.format")
    return {"raw": audio.get("data"), "mediaType": AUDIO_TYPES[kind], "filename": f"audio.{kind}"}
