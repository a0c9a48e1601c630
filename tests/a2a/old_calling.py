"""Callers of A2A 0.3; the SDK's types of 0.3 check all results."""

import uuid
from dataclasses import dataclass
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_proto
from a2a.compat.v0_3 import proto_utils
from a2a.compat.v0_3 import types as old
from pydantic import RootModel, TypeAdapter

from tests.a2a import resting
from tests.a2a.calling import JSON, Caller, strictly_parsed

RESULTS: dict[str, Any] = {
    "message/send": old.SendMessageSuccessResponse,
    "tasks/get": old.GetTaskSuccessResponse,
    "tasks/cancel": old.CancelTaskSuccessResponse,
    "tasks/pushNotificationConfig/set": old.SetTaskPushNotificationConfigSuccessResponse,
    "tasks/pushNotificationConfig/get": old.GetTaskPushNotificationConfigSuccessResponse,
    "tasks/pushNotificationConfig/list": old.ListTaskPushNotificationConfigSuccessResponse,
    "tasks/pushNotificationConfig/delete": old.DeleteTaskPushNotificationConfigSuccessResponse,
    "agent/getAuthenticatedExtendedCard": old.GetAuthenticatedExtendedCardSuccessResponse,
}


@dataclass
class OldCaller(Caller):
    """Sends no version, as clients of 0.3 do."""

    version: str = ""

    def check(self, method: str, result: Any) -> None:
        strictly_read(result, RESULTS[method].model_fields["result"].annotation)

    def check_event(self, result: Any) -> None:
        strictly_read(result, old.SendStreamingMessageSuccessResponse.model_fields["result"].annotation)

    async def send(self, message: JSON, **configuration: Any) -> Any:
        return await self.call("message/send", {"message": message, "configuration": configuration})


@dataclass
class OldResource(resting.Resource):
    """The same over HTTP+JSON. The SDK must also convert the answers to its own objects."""

    version: str = ""

    def check_event(self, sent: Any) -> None:
        proto_utils.FromProto.stream_response(strictly_parsed(sent, old_proto.StreamResponse))

    async def task(self, verb: str, address: str, body: Any = None, **options: Any) -> JSON:
        answer = await self.ask(verb, address, body, **options)
        assert answer.status == 200, answer.body
        proto_utils.FromProto.task(strictly_parsed(answer.body, old_proto.Task))
        return answer.body

    async def sent(self, message: JSON, **options: Any) -> JSON:
        answer = await self.ask("POST", "v1/message:send", {"message": message} | options)
        assert answer.status == 200, answer.body
        proto_utils.FromProto.task_or_message(strictly_parsed(answer.body, old_proto.SendMessageResponse))
        [shown] = answer.body.values()
        return shown


def strictly_read(value: Any, kind: Any) -> Any:
    """Read a value by a type of 0.3; unknown and missing fields are errors."""
    read = TypeAdapter(kind).validate_python(value)
    assert TypeAdapter(kind).dump_python(read, mode="json", by_alias=True, exclude_unset=True) == value
    return read.root if isinstance(read, RootModel) else read


def said(text: str = "hello", **fields: Any) -> JSON:
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": str(uuid.uuid4()), "role": "user", "parts": parts, **fields}


def told(text: str = "hello", **fields: Any) -> JSON:
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "content": [{"text": text}], **fields}
