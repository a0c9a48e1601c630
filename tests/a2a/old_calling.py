"""A caller that speaks A2A 0.3: every result and event is read by the SDK's types of 0.3, and must be all they know."""

import uuid
from dataclasses import dataclass
from typing import Any

from a2a.compat.v0_3 import types as old
from pydantic import RootModel, TypeAdapter

from tests.a2a.calling import JSON, Caller

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
    """Says no version, as clients of 0.3 do."""

    version: str = ""

    def check(self, method: str, result: Any) -> None:
        strictly_read(result, RESULTS[method].model_fields["result"].annotation)

    def check_event(self, result: Any) -> None:
        strictly_read(result, old.SendStreamingMessageSuccessResponse.model_fields["result"].annotation)

    async def send(self, message: JSON, **configuration: Any) -> Any:
        return await self.call("message/send", {"message": message, "configuration": configuration})


def strictly_read(value: Any, kind: Any) -> Any:
    """Read a value by a type of 0.3, which must know each field of it and find none missing."""
    read = TypeAdapter(kind).validate_python(value)
    assert TypeAdapter(kind).dump_python(read, mode="json", by_alias=True, exclude_unset=True) == value
    return read.root if isinstance(read, RootModel) else read


def said(text: str = "hello", **fields: Any) -> JSON:
    """A user's message of 0.3."""
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": str(uuid.uuid4()), "role": "user", "parts": parts, **fields}
