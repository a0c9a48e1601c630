"""Rows of a table of wrong inputs: what is sent over each binding, and the error that is due."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.conformance.sending import JSON, RPC_ID, Sent, dumped, rest, rpc


@dataclass(frozen=True)
class Error:
    """A line of the protocol's table of errors: JSON-RPC's code, HTTP's status, google.rpc's name, the reason."""

    code: int
    status: int
    name: str
    reason: str = ""

    @property
    def rpc_status(self) -> int:
        """JSON-RPC's errors travel with 200, those of HTTP itself do not."""
        return self.status if self.code > 0 or self.status == 415 else 200


PARSE = Error(-32700, 400, "INVALID_ARGUMENT")
REQUEST = Error(-32600, 400, "INVALID_ARGUMENT")
METHOD = Error(-32601, 404, "NOT_FOUND")
PARAMS = Error(-32602, 400, "INVALID_ARGUMENT")
NO_SUCH_TASK = Error(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND")
NOT_CANCELABLE = Error(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
NO_WEBHOOKS = Error(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED")
UNSUPPORTED = Error(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
MEDIA_TYPE = Error(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")
NOT_JSON = Error(-32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")
VERSION = Error(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED")
WHO = Error(401, 401, "UNAUTHENTICATED", "UNAUTHENTICATED")
MAY_NOT = Error(403, 403, "PERMISSION_DENIED", "PERMISSION_DENIED")
NO_AGENT = Error(404, 404, "NOT_FOUND", "AGENT_NOT_FOUND")
NOWHERE = Error(404, 404, "NOT_FOUND", "NOT_FOUND")
VERB = Error(405, 405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED")
TOO_LARGE = Error(413, 413, "INVALID_ARGUMENT", "REQUEST_TOO_LARGE")


@dataclass(frozen=True)
class WrongInput:
    """A row: what is sent, to which agent, and the error that is due.

    Attributes:
        at: the agent's slug; empty at the front door.
        fields: those that are named as wrong.
        rest_error: where HTTP+JSON cannot say the same thing, what is due instead; likewise `rest_fields`.
        rpc_id: the id of JSON-RPC's answer; None where the request was not read so far.
    """

    name: str
    rpc: Sent
    rest: Sent
    error: Error
    fields: tuple[str, ...] = ()
    at: str = "countdown"
    rest_error: Error | None = None
    rest_fields: tuple[str, ...] | None = None
    rpc_id: int | None = RPC_ID

    @property
    def due_of_rest(self) -> tuple[Error, tuple[str, ...]]:
        return self.rest_error or self.error, self.fields if self.rest_fields is None else self.rest_fields


def asked(name: str, method: str, params: Any, error: Error, *fields: str, **more: Any) -> WrongInput:
    """An operation with a request message that will not do."""
    return WrongInput(name, rpc(method, params), rest(method, params), error, fields, **more)


def said(name: str, *fields: str, **message: Any) -> WrongInput:
    """A message that will not do: these of its fields are another's than they should be, or missing (...)."""
    return asked(name, "SendMessage", sending(**message), PARAMS, *fields)


def of_parts(name: str, parts: Any, *fields: str, error: Error = PARAMS) -> WrongInput:
    return asked(name, "SendMessage", sending(parts=parts), error, *fields)


def configured(name: str, *fields: str, **configuration: Any) -> WrongInput:
    return asked(name, "SendMessage", sending() | {"configuration": configuration}, PARAMS, *fields)


def listed(name: str, *fields: str, **params: Any) -> WrongInput:
    return asked(name, "ListTasks", params, PARAMS, *fields)


def written(name: str, params: bytes) -> WrongInput:
    """A request message that cannot be read."""
    envelope = b'{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":%b}' % params
    return WrongInput(name, Sent(body=envelope), Sent(below="/message:send", body=params), PARSE, rpc_id=None)


def encoded(name: str, encode: Callable[[bytes], bytes], error: Error = PARSE) -> WrongInput:
    """A request that would do, if it were not for how its bytes are."""
    row = asked(name, "SendMessage", sending(), error, rpc_id=None)
    return replace(row, rpc=row.rpc.encoded(encode), rest=row.rest.encoded(encode))


def enveloped(name: str, body: Any, *, rpc_id: int | None = None, rest_fields: Sequence[str] = ()) -> WrongInput:
    """What is no JSON-RPC request; nor is it a message to be sent."""
    sent = Sent(body=dumped(body))
    over_rest = replace(sent, below="/message:send")
    return WrongInput(name, sent, over_rest, REQUEST, rest_error=PARAMS, rest_fields=tuple(rest_fields), rpc_id=rpc_id)


def called(name: str, error: Error, *, rpc_id: int | None = None, **headers: str | None) -> WrongInput:
    """A request that would do, if it were not for its headers."""
    row = asked(name, "SendMessage", sending(), error, rpc_id=rpc_id)
    return replace(row, rpc=row.rpc.with_headers(**headers), rest=row.rest.with_headers(**headers))


def addressed(name: str, rpc: Sent, rest: Sent, error: Error, **more: Any) -> WrongInput:
    """A request to an address that will not do."""
    return WrongInput(name, rpc, rest, error, rpc_id=None, **more)


def sending(**message: Any) -> JSON:
    """A SendMessageRequest; a field that is ... is left out of its message."""
    fields = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]} | message
    return {"message": {name: value for name, value in fields.items() if value is not ...}}


def nested(levels: int) -> bytes:
    """A SendMessageRequest with data that deep."""
    data = json.dumps(sending(parts=[{"data": "@"}])).encode()
    return data.replace(b'"@"', b"[" * levels + b"]" * levels)


def rpc_with(**fields: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": RPC_ID, "method": "SendMessage", "params": {}} | fields
