"""Callers of one agent for each binding and version, in the words of A2A 1.0.

For 0.3, the SDK converts requests and answers.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_proto
from a2a.compat.v0_3 import conversions, proto_utils
from a2a.compat.v0_3 import types as old
from a2a.types import a2a_pb2 as a2a
from google.protobuf import json_format

from apps.a2a.versions.v0_3 import METHODS
from tests.a2a.calling import JSON, Caller, strictly_parsed
from tests.a2a.old_calling import OldCaller, OldResource
from tests.a2a.resting import Resource
from tests.conformance.sending import rest

Begun = Callable[[], None]
UNKNOWN = "unknown"  # the reason for an unknown operation


@dataclass(frozen=True)
class Told:
    """An operation's result, or the reason of its error."""

    result: JSON
    reason: str = ""


async def heard(stream: AsyncGenerator[tuple[int, Any]], begun: Begun) -> list[Any]:
    """The events of a stream; `begun` is called after the first."""
    first = await anext(stream)
    begun()
    return [first[1]] + [event async for _, event in stream]


class Speaker(Protocol):
    def __init__(self, slug: str, key: str) -> None: ...

    async def ask(self, operation: str, params: JSON) -> Told: ...

    async def follow(self, operation: str, params: JSON, begun: Begun = lambda: None) -> list[JSON]:
        """All StreamResponses; `begun` is called after the first."""


class JsonRpc:
    def __init__(self, slug: str, key: str) -> None:
        self.caller = Caller(slug, key)

    async def ask(self, operation: str, params: JSON) -> Told:
        answer = await self.caller.call(operation, params)
        return Told(answer.body["result"]) if "result" in answer.body else Told({}, answer.reason)

    async def follow(self, operation: str, params: JSON, begun: Begun = lambda: None) -> list[JSON]:
        return await heard(self.caller.stream(operation, params), begun)


class HttpJson:
    def __init__(self, slug: str, key: str) -> None:
        self.resource = Resource(slug, key)

    async def ask(self, operation: str, params: JSON) -> Told:
        sent = rest(operation, params)
        answer = await self.resource.ask(sent.verb, sent.below[1:], sent.body or None)
        return Told(answer.body) if answer.status == 200 else Told({}, answer.reason)

    async def follow(self, operation: str, params: JSON, begun: Begun = lambda: None) -> list[JSON]:
        sent = rest(operation, params)
        return await heard(self.resource.stream(sent.verb, sent.below[1:], sent.body or None), begun)


METHOD_NOT_FOUND = -32601
OLD_NAMES = {method.operation: name for name, method in METHODS.items()}
WEBHOOK = "task_push_notification_config"
REQUESTS: dict[str, tuple[Any, Callable[..., Any]]] = {
    operation: (kind, getattr(conversions, f"to_compat_{word}_request"))
    for operation, kind, word in (
        ("SendMessage", a2a.SendMessageRequest, "send_message"),
        ("SendStreamingMessage", a2a.SendMessageRequest, "send_message"),
        ("GetTask", a2a.GetTaskRequest, "get_task"),
        ("CancelTask", a2a.CancelTaskRequest, "cancel_task"),
        ("SubscribeToTask", a2a.SubscribeToTaskRequest, "subscribe_to_task"),
        ("CreateTaskPushNotificationConfig", a2a.TaskPushNotificationConfig, f"create_{WEBHOOK}"),
        ("GetTaskPushNotificationConfig", a2a.GetTaskPushNotificationConfigRequest, f"get_{WEBHOOK}"),
        ("ListTaskPushNotificationConfigs", a2a.ListTaskPushNotificationConfigsRequest, f"list_{WEBHOOK}"),
        ("DeleteTaskPushNotificationConfig", a2a.DeleteTaskPushNotificationConfigRequest, f"delete_{WEBHOOK}"),
    )
}
"""The request of each operation, and how the SDK makes one of 0.3 of it."""


def old_params(operation: str, params: JSON) -> Any:
    kind, convert = REQUESTS[operation]
    return convert(json_format.ParseDict(params, kind(), ignore_unknown_fields=True), "1").params


def new_response(said: Any) -> JSON:
    """A 0.3 message, task or update as a 1.0 StreamResponse."""
    wrapped = old.SendStreamingMessageSuccessResponse(result=said)
    return json_format.MessageToDict(conversions.to_core_stream_response(wrapped))


def new_webhook(said: Any) -> JSON:
    config = old.TaskPushNotificationConfig.model_validate(said)
    return json_format.MessageToDict(conversions.to_core_task_push_notification_config(config))


class OldJsonRpc:
    def __init__(self, slug: str, key: str) -> None:
        self.caller = OldCaller(slug, key)

    async def ask(self, operation: str, params: JSON) -> Told:
        answer = await self.caller.call(OLD_NAMES.get(operation, operation), self._given(operation, params))
        if "result" not in answer.body:
            return Told({}, UNKNOWN if answer.code == METHOD_NOT_FOUND else answer.reason)
        result: Any = answer.body["result"]
        match operation:
            case "SendMessage":
                return Told(new_response(result))
            case "GetTask" | "CancelTask":
                return Told(new_response(result)["task"])
            case "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig":
                return Told(new_webhook(result))
            case "ListTaskPushNotificationConfigs":
                return Told({"configs": [new_webhook(one) for one in result]})
            case _:
                return Told(result or {})

    async def follow(self, operation: str, params: JSON, begun: Begun = lambda: None) -> list[JSON]:
        stream = self.caller.stream(OLD_NAMES[operation], self._given(operation, params))
        return [new_response(event) for event in await heard(stream, begun)]

    def _given(self, operation: str, params: JSON) -> JSON:
        if operation not in REQUESTS:
            return params
        given: JSON = old_params(operation, params).model_dump(mode="json", by_alias=True, exclude_none=True)
        return given


class OldHttpJson:
    def __init__(self, slug: str, key: str) -> None:
        self.resource = OldResource(slug, key)

    async def ask(self, operation: str, params: JSON) -> Told:
        request = self._request(operation, params)
        if operation not in REQUESTS and (await self.resource.send(*request)).status_code == 404:
            return Told({}, UNKNOWN)
        answer = await self.resource.ask(*request)
        if answer.status != 200:
            return Told({}, answer.reason)
        read = proto_utils.FromProto
        match operation:
            case "SendMessage":
                told = strictly_parsed(answer.body, old_proto.SendMessageResponse)
                return Told(new_response(read.task_or_message(told)))
            case "GetTask" | "CancelTask":
                return Told(new_response(read.task(strictly_parsed(answer.body, old_proto.Task)))["task"])
            case "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig":
                return Told(self._webhook(strictly_parsed(answer.body, old_proto.TaskPushNotificationConfig)))
            case "ListTaskPushNotificationConfigs":
                listed = strictly_parsed(answer.body, old_proto.ListTaskPushNotificationConfigResponse)
                return Told({"configs": [self._webhook(one) for one in listed.configs]})
            case _:
                return Told(answer.body)

    async def follow(self, operation: str, params: JSON, begun: Begun = lambda: None) -> list[JSON]:
        events = await heard(self.resource.stream(*self._request(operation, params)), begun)
        parsed = [strictly_parsed(event, old_proto.StreamResponse) for event in events]
        return [new_response(proto_utils.FromProto.stream_response(event)) for event in parsed]

    def _webhook(self, said: Any) -> JSON:
        return new_webhook(proto_utils.FromProto.task_push_notification_config(said))

    def _request(self, operation: str, params: JSON) -> tuple[str, str, Any]:
        """Method, path and body, as the SDK's 0.3 client writes them."""
        given = old_params(operation, params) if operation in REQUESTS else None
        match operation:
            case "SendMessage" | "SendStreamingMessage":
                sent = old_proto.SendMessageRequest(
                    request=proto_utils.ToProto.message(given.message),
                    configuration=given.configuration
                    and proto_utils.ToProto.message_send_configuration(given.configuration),
                )
                action = "send" if operation == "SendMessage" else "stream"
                return "POST", f"v1/message:{action}", json_format.MessageToDict(sent)
            case "GetTask":
                query = f"?historyLength={given.history_length}" if given.history_length else ""
                return "GET", f"v1/tasks/{given.id}{query}", None
            case "CancelTask":
                return "POST", f"v1/tasks/{given.id}:cancel", {"name": f"tasks/{given.id}"}
            case "SubscribeToTask":
                return "GET", f"v1/tasks/{given.id}:subscribe", None
            case "CreateTaskPushNotificationConfig":
                config = old_proto.CreateTaskPushNotificationConfigRequest(
                    parent=f"tasks/{given.task_id}",
                    config_id=given.push_notification_config.id,
                    config=proto_utils.ToProto.task_push_notification_config(given),
                )
                return "POST", f"v1/{config.parent}/pushNotificationConfigs", json_format.MessageToDict(config)
            case "ListTaskPushNotificationConfigs":
                return "GET", f"v1/tasks/{given.id}/pushNotificationConfigs", None
            case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
                verb = "GET" if operation.startswith("Get") else "DELETE"
                return verb, f"v1/tasks/{given.id}/pushNotificationConfigs/{given.push_notification_config_id}", None
            case "GetExtendedAgentCard":
                return "GET", "v1/card", None
            case _:
                return "GET", "v1/tasks", None


SPEAKERS: dict[str, type[Speaker]] = {
    "JSON-RPC 1.0": JsonRpc,
    "HTTP+JSON 1.0": HttpJson,
    "JSON-RPC 0.3": OldJsonRpc,
    "HTTP+JSON 0.3": OldHttpJson,
}
"""By the headings of the table in the README."""
