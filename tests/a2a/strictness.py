"""Every A2A 1.0 answer in the tests is checked strictly by the SDK's types.

In the test's process this happens at the operations, for all bindings; for servers in other processes, in the SDK's
clients. Unknown fields, missing required fields, and a `oneof` with no or several values fail the test.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from a2a.client.transports import jsonrpc, rest
from a2a.types import a2a_pb2 as a2a
from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf import empty_pb2, json_format, struct_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from apps.a2a.operations import EXTENSION_METHODS, OPERATIONS, Call, Operation

JSON = dict[str, Any]
ANSWERS: dict[str, type[Message]] = {
    "SendMessage": a2a.SendMessageResponse,
    "SendStreamingMessage": a2a.StreamResponse,
    "GetTask": a2a.Task,
    "ListTasks": a2a.ListTasksResponse,
    "CancelTask": a2a.Task,
    "SubscribeToTask": a2a.StreamResponse,
    "CreateTaskPushNotificationConfig": a2a.TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": a2a.TaskPushNotificationConfig,
    "ListTaskPushNotificationConfigs": a2a.ListTaskPushNotificationConfigsResponse,
    "DeleteTaskPushNotificationConfig": empty_pb2.Empty,
    "GetExtendedAgentCard": a2a.AgentCard,
    "tasks/feedback": empty_pb2.Empty,
    "contexts/list": struct_pb2.Struct,  # our own: see docs/extensions
    "contexts/clear": empty_pb2.Empty,
}
"""What each operation answers with, or streams."""
CHOICES = (a2a.SendMessageResponse, a2a.StreamResponse, a2a.Part)
"""Of these, exactly one of the alternatives is there."""


def read_strictly[M: Message](value: Any, kind: type[M]) -> M:
    """The value as the SDK reads it. Raises AssertionError for unknown or missing fields."""
    try:
        parsed = json_format.ParseDict(value, kind(), ignore_unknown_fields=False)
    except json_format.ParseError as error:
        raise AssertionError(f"{kind.__name__}: {error}") from None
    lacking = [*_missing(parsed, value, kind.__name__)]
    assert not lacking, f"missing: {', '.join(lacking)}"
    return parsed


def _missing(parsed: Message, value: JSON, path: str) -> Iterator[str]:
    """Missing required fields and empty choices."""
    if isinstance(parsed, struct_pb2.Struct | struct_pb2.Value) or not isinstance(value, dict):
        return
    if isinstance(parsed, CHOICES) and len(parsed.ListFields()) < 1:
        yield f"{path}: one of its alternatives"
    for field in parsed.DESCRIPTOR.fields:
        if FieldBehavior.REQUIRED in field.GetOptions().Extensions[field_behavior] and field.json_name not in value:
            yield f"{path}.{field.json_name}"
        if field.message_type is not None and field.json_name in value:
            yield from _missing_within(field, parsed, value, path)


def _missing_within(field: FieldDescriptor, parsed: Message, value: JSON, path: str) -> Iterator[str]:
    """The same for a field's values: message, list or map. Data is free."""
    inner, given = getattr(parsed, field.name), value[field.json_name]
    if isinstance(inner, struct_pb2.Struct | struct_pb2.Value):
        return
    where = f"{path}.{field.json_name}"
    if field.message_type.GetOptions().map_entry:
        pairs = [(inner[key], given[key]) for key in given if isinstance(inner[key], Message)]
    elif isinstance(given, list):
        pairs = list(zip(inner, given, strict=True))
    else:
        pairs = [(inner, given)]
    for one, one_given in pairs:
        yield from _missing(one, one_given, where)


@contextmanager
def strict_operations() -> Iterator[None]:
    """Check all answers in this process; problems fail the test at its end."""
    wrong: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for table in (OPERATIONS, EXTENSION_METHODS):
            for name, operation in table.items():
                patch.setitem(table, name, _checked(operation, ANSWERS[name], wrong.append))
        yield
    assert not wrong, wrong


def _checked(operation: Operation, kind: type[Message], tell: Callable[[str], None]) -> Operation:
    def check(value: Any) -> None:
        try:
            read_strictly(value, kind)
        except AssertionError as error:
            tell(f"{error}: {value}")

    async def checked(call: Call) -> Any:
        answer = await operation(call)
        if isinstance(answer, dict | str):
            check(json.loads(answer) if isinstance(answer, str) else answer)
            return answer
        return _followed(answer, check)

    return checked


async def _followed(updates: AsyncGenerator[Any], check: Callable[[Any], None]) -> AsyncGenerator[Any]:
    try:
        async for batch in updates:
            for _, response in batch:
                check(response.value)
            yield batch
    finally:
        await updates.aclose()


@contextmanager
def strict_clients() -> Iterator[None]:
    def strictly(data: Any, message: Message) -> Message:
        value = json.loads(data) if isinstance(data, str | bytes) else data
        message.CopyFrom(read_strictly(value, type(message)))
        return message

    with pytest.MonkeyPatch.context() as patch:
        for transport in (jsonrpc, rest):
            patch.setattr(transport, "parse_lenient", strictly)
        yield
