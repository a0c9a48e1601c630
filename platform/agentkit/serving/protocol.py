"""A2A 1.0 over JSON-RPC for one agent: what a request asks, and the answer.

The errors are those of A2A 1.0 §5.4 and of JSON-RPC 2.0.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentkit.content.messages import CONTENT_KEYS, Message
from agentkit.handlers import SkillHandler
from agentkit.runner import NeedsTask, answer, select_response_type
from agentkit.selecting import ResponseType
from agentkit.serving import state, steering, told
from agentkit.serving.tasks import CANCELED, ENDED, WAITING, Conversation, Conversations, Json, ServedTask
from agentkit.serving.told import Told
from agentkit.turns import Session

VERSION = "1.0"
MOST_REMEMBERED = 1000  # messageIds
MOST_IN_PAGE = 100  # tasks
MOST_LEVELS = 64  # of a body

log = logging.getLogger("agentkit")


class Refused(Exception):
    """A request is refused, by an error of JSON-RPC."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    @property
    def wire(self) -> Json:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "a2a-protocol.org"}
        detail = {"data": [{**info, "reason": self.reason}]} if self.reason else {}
        return {"code": self.code, "message": str(self), **detail}


def invalid(message: str) -> Refused:
    return Refused(-32602, message)


def unsupported(message: str) -> Refused:
    return Refused(-32004, message, "UNSUPPORTED_OPERATION")


def card_of(handler: SkillHandler, url: str, *, needs_token: bool = False) -> Json:
    """The agent's card (A2A 1.0 §4.4)."""
    skills = [skill.wire for skill in handler.skills] or [
        {"id": "talk", "name": handler.name, "description": handler.description or handler.name, "tags": []}
    ]
    card: Json = {
        "name": handler.name,
        "description": handler.description or handler.name,
        "version": handler.version,
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": VERSION}],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extendedAgentCard": False,
            "extensions": [
                state.extension(handler),
                *([steering.extension()] if handler.steerable else []),
                *told.extensions(handler),
            ],
        },
        "defaultInputModes": list(handler.input_modes),
        "defaultOutputModes": list(handler.output_modes),
        "skills": skills,
    }
    if needs_token:
        card["securitySchemes"] = {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"token": {"list": []}}}]
    return card


def read_json(body: bytes) -> Any:
    """Raises Refused for what is no strict JSON, such as NaN, doubled names and half surrogates, or too deep."""
    try:
        value = json.loads(body, parse_constant=_no_constant, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refused(-32700, f"The body is no JSON: {error}.") from None
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_LEVELS):
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return value
    raise Refused(-32700, f"The body is nested deeper than {MOST_LEVELS} levels.")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> Json:
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError("an object has a name twice")
    return made


def _camel(value: Any, what: str) -> Json:
    """A request's object by its names in camelCase: ProtoJSON allows snake_case, too."""
    if not isinstance(value, dict):
        raise invalid(f"{what} must be an object.")
    return {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): one for name, one in value.items()}


KINDS: Mapping[type, str] = {str: "a text", list: "a list", dict: "an object"}


def read_message(params: Json) -> Json:
    """The user's message of a send. Raises Refused."""
    message = _camel(params.get("message"), "params.message")
    if not isinstance(message.get("messageId"), str) or not message["messageId"]:
        raise invalid("message.messageId must be a text of your choice, another one for each message.")
    if message.get("role") != "ROLE_USER":
        raise invalid("message.role must be ROLE_USER.")
    if not isinstance(message.get("parts"), list) or not message["parts"]:
        raise invalid("message.parts must have at least one part.")
    message["parts"] = [_part(part, at) for at, part in enumerate(message["parts"])]
    for name, kind in (
        ("contextId", str),
        ("taskId", str),
        ("referenceTaskIds", list),
        ("metadata", dict),
        ("extensions", list),
    ):
        if not isinstance(message.get(name, kind()), kind):
            raise invalid(f"message.{name} must be {KINDS[kind]}.")
    if not all(isinstance(one, str) for one in message.get("referenceTaskIds", ())):
        raise invalid("message.referenceTaskIds must be a list of ids.")
    return message


def _part(given: Any, at: int) -> Json:
    part = _camel(given, f"message.parts[{at}]")
    kinds = part.keys() & (CONTENT_KEYS - {"stored"})
    if len(kinds) != 1 or "stored" in part:
        raise invalid(f"message.parts[{at}] must have exactly one of text, raw, url and data.")
    if "data" not in part and not isinstance(part[next(iter(kinds))], str):
        raise invalid(f"message.parts[{at}].{next(iter(kinds))} must be a text.")
    return part


type Events = AsyncGenerator[Json]
type Result = Json | Events


@dataclass
class Agent:
    """An agent that answers A2A requests."""

    handler: SkillHandler
    conversations: Conversations = field(default_factory=Conversations)
    accepted: OrderedDict[str, tuple[str, asyncio.Future[Json | ServedTask]]] = field(default_factory=OrderedDict)

    async def call(self, method: str, params: Json) -> Result:
        """The result, or the events of a stream. Raises Refused."""
        if method not in METHODS:
            raise Refused(-32601, f"There is no method {method!r}. It has {', '.join(METHODS)}.")
        return await METHODS[method](self, _camel(params, "params"))

    async def send(self, params: Json) -> Json:
        given = _camel(params.get("configuration") or {}, "params.configuration")
        length = _history_length(given)
        done = await self._accept(read_message(params))
        if not isinstance(done, ServedTask):
            return {"message": done}
        if not given.get("returnImmediately"):
            await done.settled()
        return {"task": done.told(length)}

    async def stream(self, params: Json) -> Events:
        done = await self._accept(read_message(params))
        return done.follow(ENDED | WAITING) if isinstance(done, ServedTask) else _only({"message": done})

    async def _accept(self, message: Json) -> Json | ServedTask:
        """The answer or the task of a message: the same one if it comes twice, with whatever state."""
        try:
            given, beside = state.take(message), told.take(self.handler, message)
        except ValueError as error:
            raise invalid(str(error)) from None
        key, digest = message["messageId"], hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()
        if key not in self.accepted:
            # It begins at once, so that a stream misses nothing of its task.
            begun = asyncio.eager_task_factory(asyncio.get_running_loop(), self._take(message, given, beside))
            self.accepted[key] = digest, begun
        known, work = self.accepted[key]
        if known != digest:
            raise invalid("This messageId was used for another message. Choose another one.")
        try:
            done = work.result() if work.done() else await asyncio.shield(work)
        except Refused:
            self.accepted.pop(key, None)
            raise
        while len(self.accepted) > MOST_REMEMBERED:
            self.accepted.popitem(last=False)
        return done

    async def _take(self, message: Json, given: state.Given, beside: Told) -> Json | ServedTask:
        """A message's answer, or its task, which works."""
        if message.get("taskId"):
            if (steered := self._steered_task(message)) is not None:
                return steered
            task = self._asked_task(message, given)
        else:
            conversation = self._conversation(message.get("contextId", ""), given)
            if (said := await self._answered(conversation, message, beside)) is not None:
                kept = {given.uri: state.sendable({"conversation": conversation.state})} if given.uri else {}
                return said | ({"metadata": said.get("metadata", {}) | kept} if kept else {})
            task = self.conversations.new_task(conversation)
        task.state_uri = given.uri
        task.begin(self.handler, message, beside)
        return task

    def _steered_task(self, message: Json) -> ServedTask | None:
        """The task at work that got the message into its inbox; None if the message is not for one."""
        uri, task = steering.uri_in(message), self.conversations.by_task.get(message["taskId"])
        if not uri or task is None or not task.is_working or not self.handler.steerable:
            return None
        task.steer(message, uri)
        return task

    def _conversation(self, named: str, given: state.Given) -> Conversation:
        """The caller's state counts, unless a task here is at work and may have changed it."""
        conversation = self.conversations.named(named)
        if given.conversation is not None and not conversation.is_busy:
            try:
                conversation.restore(given.conversation)
            except ValueError as error:
                raise invalid(str(error)) from None
        return conversation

    def _asked_task(self, message: Json, given: state.Given) -> ServedTask:
        """The task that a message continues, or begins anew after the process that had it ended."""
        named, known = message.get("contextId", ""), self.conversations.by_task.get(message["taskId"])
        if known is not None and named not in ("", known.wire["contextId"]):
            raise invalid("The task belongs to another contextId. Leave contextId out, or give the task's.")
        if given.is_state and (known is None or (given.task is not None and known.state in WAITING)):
            conversation = self._conversation(named or (known.wire["contextId"] if known else ""), given)
            task = known or self.conversations.new_task(conversation, message["taskId"])
            try:
                task.restore(self.handler, given)
            except ValueError as error:
                if known is None:
                    self.conversations.forget(task)
                raise invalid(str(error)) from None
            return task
        task = self._found(message["taskId"])
        if task.state not in WAITING:
            raise unsupported(f"The task is {_in_words(task)}: it asks nothing. Send a message without taskId.")
        return task

    async def _answered(self, conversation: Conversation, wire: Json, beside: Told) -> Json | None:
        """The answer of a handler that answers this one without a task."""
        message = Message({**wire, "contextId": conversation.id})
        try:
            if await select_response_type(self.handler, message, conversation.newest) is ResponseType.TASK:
                return None
            said = await answer(
                self.handler,
                message,
                history=conversation.messages,
                references=conversation.references(message),
                session=Session(conversation.memory),
                project=beside.project,
                user_memory=beside.user_memory,
            )
        except NeedsTask:
            return None
        except Exception as error:
            log.exception("The agent failed")
            raise Refused(-32603, f"The agent failed: its code raised {type(error).__name__}.") from error
        return conversation.answer(message, list(said.parts), said.metadata)

    async def get(self, params: Json) -> Json:
        return self._found(params.get("id")).told(_history_length(params))

    async def subscribe(self, params: Json) -> Events:
        task = self._found(params.get("id"))
        if task.state in ENDED:
            raise unsupported(f"The task is {_in_words(task)}: nothing more happens. Read it by GetTask.")
        return task.follow(ENDED)

    async def cancel(self, params: Json) -> Json:
        task = self._found(params.get("id"))
        if task.state in ENDED - {CANCELED}:
            raise Refused(-32002, f"The task is {_in_words(task)} already.", "TASK_NOT_CANCELABLE")
        if steering.stops_after_step(params):
            if not task.is_working or not self.handler.steerable:
                raise unsupported("The task is at no step that it could stop after. Cancel it without this metadata.")
            task.stop_after_step.set()
            return task.shown()
        await task.cancel()
        return task.shown()

    async def list(self, params: Json) -> Json:
        size, start = params.get("pageSize", 50), params.get("pageToken") or "0"
        if not isinstance(size, int) or not 1 <= size <= MOST_IN_PAGE or not re.fullmatch("[0-9]{1,9}", str(start)):
            raise invalid(f"pageSize is from 1 to {MOST_IN_PAGE}, pageToken the nextPageToken of an answer.")
        wanted = [
            task
            for task in self.conversations.by_task.values()
            if params.get("contextId") in (None, "", task.wire["contextId"])
            and params.get("status") in (None, "", "TASK_STATE_UNSPECIFIED", task.state)
            and task.wire["status"]["timestamp"] >= str(params.get("statusTimestampAfter") or "")
        ]
        wanted.sort(key=lambda task: (task.wire["status"]["timestamp"], task.id), reverse=True)
        page, after = wanted[int(start) : int(start) + size], int(start) + size
        length, artifacts = _history_length(params), params.get("includeArtifacts") is True
        return {
            "tasks": [task.shown(length, artifacts=artifacts) for task in page],
            "nextPageToken": str(after) if after < len(wanted) else "",
            "pageSize": size,
            "totalSize": len(wanted),
        }

    async def no_webhooks(self, params: Json) -> Json:
        raise Refused(-32003, "This server calls no webhooks.", "PUSH_NOTIFICATION_NOT_SUPPORTED")

    async def no_extended_card(self, params: Json) -> Json:
        raise unsupported("This agent has no extended card.")

    def _found(self, task_id: Any) -> ServedTask:
        task = self.conversations.by_task.get(task_id) if isinstance(task_id, str) else None
        if task is None:
            raise Refused(-32001, "There is no such task here. It may be forgotten.", "TASK_NOT_FOUND")
        return task


async def _only(event: Json) -> Events:
    yield event


def _in_words(task: ServedTask) -> str:
    return task.state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def _history_length(params: Mapping[str, Any]) -> int | None:
    length = params.get("historyLength")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 0):
        raise invalid("historyLength must be 0 or a positive whole number.")
    return length


METHODS: Mapping[str, Callable[[Agent, Json], Awaitable[Result]]] = {
    "SendMessage": Agent.send,
    "SendStreamingMessage": Agent.stream,
    "GetTask": Agent.get,
    "ListTasks": Agent.list,
    "CancelTask": Agent.cancel,
    "SubscribeToTask": Agent.subscribe,
    "CreateTaskPushNotificationConfig": Agent.no_webhooks,
    "GetTaskPushNotificationConfig": Agent.no_webhooks,
    "ListTaskPushNotificationConfigs": Agent.no_webhooks,
    "DeleteTaskPushNotificationConfig": Agent.no_webhooks,
    "GetExtendedAgentCard": Agent.no_extended_card,
}
