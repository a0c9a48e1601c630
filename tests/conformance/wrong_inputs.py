"""Wrong requests and their errors in each binding, as one table.

`asked` makes a row from an operation and its request message, `written` from an unreadable body, `called` from
headers. Names such as BOBS_TASK are filled in by `scene` in test_wrong_inputs.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.conformance.sending import JSON, RPC_ID, Sent, dumped, rest, rpc


@dataclass(frozen=True)
class Error:
    """A row of the protocol's error table: JSON-RPC code, HTTP status, google.rpc name, reason."""

    code: int
    status: int
    name: str
    reason: str = ""

    @property
    def rpc_status(self) -> int:
        """JSON-RPC errors have status 200, HTTP's own do not."""
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
    """A row: the request, its agent, and its error.

    Attributes:
        at: the agent's slug; empty at the front door.
        fields: the fields that the error names.
        rest_error: another error over HTTP+JSON; likewise `rest_fields`.
        rpc_id: the id in JSON-RPC's answer; None if the request was not read.
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
    """An operation with a wrong request message."""
    return WrongInput(name, rpc(method, params), rest(method, params), error, fields, **more)


def said(name: str, *fields: str, **message: Any) -> WrongInput:
    """A message with these fields changed, or removed (...)."""
    return asked(name, "SendMessage", sending(**message), PARAMS, *fields)


def of_parts(name: str, parts: Any, *fields: str, error: Error = PARAMS) -> WrongInput:
    return asked(name, "SendMessage", sending(parts=parts), error, *fields)


def configured(name: str, *fields: str, **configuration: Any) -> WrongInput:
    return asked(name, "SendMessage", sending() | {"configuration": configuration}, PARAMS, *fields)


def listed(name: str, *fields: str, **params: Any) -> WrongInput:
    return asked(name, "ListTasks", params, PARAMS, *fields)


def written(name: str, params: bytes) -> WrongInput:
    """An unreadable request message."""
    envelope = b'{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":%b}' % params
    return WrongInput(name, Sent(body=envelope), Sent(below="/message:send", body=params), PARSE, rpc_id=None)


def encoded(name: str, encode: Callable[[bytes], bytes], error: Error = PARSE) -> WrongInput:
    """A valid request with a wrong encoding."""
    row = asked(name, "SendMessage", sending(), error, rpc_id=None)
    return replace(row, rpc=row.rpc.encoded(encode), rest=row.rest.encoded(encode))


def enveloped(name: str, body: Any, *, rpc_id: int | None = None, rest_fields: Sequence[str] = ()) -> WrongInput:
    sent = Sent(body=dumped(body))
    over_rest = replace(sent, below="/message:send")
    return WrongInput(name, sent, over_rest, REQUEST, rest_error=PARAMS, rest_fields=tuple(rest_fields), rpc_id=rpc_id)


def called(name: str, error: Error, *, rpc_id: int | None = None, **headers: str | None) -> WrongInput:
    """A valid request with wrong headers."""
    row = asked(name, "SendMessage", sending(), error, rpc_id=rpc_id)
    return replace(row, rpc=row.rpc.with_headers(**headers), rest=row.rest.with_headers(**headers))


def addressed(name: str, rpc: Sent, rest: Sent, error: Error, **more: Any) -> WrongInput:
    return WrongInput(name, rpc, rest, error, rpc_id=None, **more)


def sending(**message: Any) -> JSON:
    """A SendMessageRequest; ... removes a field of its message."""
    fields = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]} | message
    return {"message": {name: value for name, value in fields.items() if value is not ...}}


def nested(levels: int) -> bytes:
    data = json.dumps(sending(parts=[{"data": "@"}])).encode()
    return data.replace(b'"@"', b"[" * levels + b"]" * levels)


def rpc_with(**fields: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": RPC_ID, "method": "SendMessage", "params": {}} | fields


NO_TASK = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
ADAS_TASK, ADAS_CONTEXT = "ADAS-TASK", "ADAS-CONTEXT"  # finished, at the called agent
BOBS_TASK, BOBS_CONTEXT, BOBS_TOKEN = "BOBS-TASK", "BOBS-CONTEXT", "BOBS-TOKEN"
ECHOS_TASK, ECHOS_CONTEXT = "ECHOS-TASK", "ECHOS-CONTEXT"  # Ada's, at another agent
ADAS_MESSAGE = "ADAS-MESSAGE"

ENVELOPES = (
    enveloped("a batch", [rpc_with(), rpc_with()]),
    enveloped("null", None),
    enveloped("a fraction as id", rpc_with(id=1.5), rest_fields=["message"]),
    enveloped("an empty object", {}, rest_fields=["message"]),
    enveloped("no id", {"jsonrpc": "2.0", "method": "GetTask", "params": {}}, rest_fields=["message"]),
    enveloped("half a surrogate pair as id", rpc_with(id="\ud800"), rest_fields=["message"]),
    enveloped("another version of JSON-RPC", rpc_with(jsonrpc="1.0"), rpc_id=RPC_ID, rest_fields=["message"]),
    enveloped("no method", {"jsonrpc": "2.0", "id": 7}, rpc_id=RPC_ID, rest_fields=["message"]),
    asked("a list as request", "SendMessage", ["a"], PARAMS, "params", rest_fields=()),
    asked("null as request", "SendMessage", None, PARAMS, "params", rest_fields=()),
)

ENCODINGS = (
    encoded("nothing but space", lambda body: b" "),
    encoded("not UTF-8", lambda body: body.replace(b"hello", b"caf\xe9")),
    encoded("UTF-16", lambda body: body.decode().encode("utf-16")),
    encoded("a raw control character in a string", lambda body: body.replace(b"hello", b"hel\nlo")),
    written("NaN", b'{"x":NaN}'),
    written("a number beyond doubles", b'{"x":1e999}'),
    written("an integer of 401 digits", b'{"x":%b}' % (b"9" * 401)),
    written("a key twice", b'{"tenant":"a","tenant":"b"}'),
    written("65 levels", nested(65)),
    written("100,000 levels of objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    encoded("30 MB", lambda body: body.replace(b"hello", b"x" * 30_000_000), TOO_LARGE),
)

HEADERS = (
    called("plain text", NOT_JSON, Content_Type="text/plain"),
    called("no Content-Type", NOT_JSON, Content_Type=None),
    called("a compressed body", NOT_JSON, Content_Encoding="gzip"),
    called("a version to come", VERSION, rpc_id=RPC_ID, A2A_Version="1.1"),
    called("two versions", VERSION, rpc_id=RPC_ID, A2A_Version="1.0, 0.3"),
    replace(called("the version of others", METHOD, rpc_id=RPC_ID, A2A_Version="0.3"), rest_error=VERSION),
    replace(called("no version", METHOD, rpc_id=RPC_ID, A2A_Version=None), rest_error=VERSION),
    called("no key", WHO, Authorization=None),
    called("a key that is none", WHO, Authorization="Bearer parley_000000000000_wrong"),
    called("a key that may only read", MAY_NOT, rpc_id=RPC_ID, Authorization="Bearer READING-KEY"),
)

ADDRESSES = (
    addressed("GET at the endpoint", Sent("GET", headers={}), Sent("GET", "/message:send", headers={}), VERB),
    addressed("a verb of nobody", Sent("BREW"), Sent("BREW", "/tasks"), VERB),
    addressed("an agent that is not there", Sent(body=b"{}"), Sent("GET", "/tasks"), NO_AGENT, at="nobody"),
    addressed("an agent that is switched off", Sent(body=b"{}"), Sent("GET", "/tasks"), NO_AGENT, at="gone"),
    addressed("an agent for others", Sent(body=b"{}"), Sent("GET", "/tasks"), NO_AGENT, at="club"),
    addressed("an agent of an endless name", Sent(body=b"{}"), Sent("GET", "/tasks"), NO_AGENT, at="x" * 3000),
    addressed("somewhere else", Sent("POST", "/a/b/c/d"), Sent("GET", "/tasks/a/b/c"), NOWHERE),
    addressed("nowhere at the front door", Sent("POST", "/a/b/c/d"), Sent("GET", "/tasks/a/b"), NOWHERE, at=""),
    addressed("PUT at the front door", Sent("PUT", body=b"{}"), Sent("PUT", "/tasks", b"{}"), VERB, at=""),
    addressed("a way up", Sent("POST", "/%2e%2e/%2e%2e/etc/passwd"), Sent("GET", "/tasks/%2e%2e%2fa"), NOWHERE),
    WrongInput("a method of nobody", rpc("Nothing", {}), Sent("POST", "/message:nothing"), METHOD, rest_error=NOWHERE),
    WrongInput(
        "a method in lower case", rpc("sendMessage", {}), Sent("POST", "/Message:Send"), METHOD, rest_error=NOWHERE
    ),
    WrongInput("Python's own name", rpc("__class__", {}), Sent("GET", "/__class__/a"), METHOD, rest_error=NOWHERE),
    asked("no tenant", "GetTask", {"id": ADAS_TASK}, PARAMS, "tenant", at=""),
    asked("a tenant too long", "SendMessage", {"tenant": "x" * 201}, PARAMS, "tenant", at=""),
    asked("a tenant that is not there", "ListTasks", {"tenant": "nobody"}, NO_AGENT, at=""),
    asked("a task at another tenant", "GetTask", {"tenant": "echo", "id": ADAS_TASK}, NO_SUCH_TASK, at=""),
    asked("another agent as tenant", "SendMessage", sending() | {"tenant": "echo"}, PARAMS, "tenant"),
)

MESSAGES = (
    asked("no message", "SendMessage", {}, PARAMS, "message"),
    asked(
        "an empty message", "SendMessage", {"message": {}}, PARAMS, "message.role", "message.messageId", "message.parts"
    ),
    asked("a list as metadata of the request", "SendMessage", sending() | {"metadata": []}, PARAMS, "metadata"),
    said("no messageId", "message.messageId", messageId=...),
    said("a messageId too long", "message.messageId", messageId="x" * 201),
    said("a control character in the messageId", "message.messageId", messageId="a\x07b"),
    said("half a surrogate pair in the messageId", "message.messageId", messageId="\udfff"),
    said("a messageId that was used", "messageId", messageId=ADAS_MESSAGE),
    said("a name in both spellings", "message.messageId", message_id="m"),
    said("U+0000 in the contextId", "message.contextId", contextId="a\0"),
    said("a contextId in use with another agent", "contextId", contextId=ECHOS_CONTEXT),
    said("no role", "message.role", role=...),
    said("the agent's role", "message.role", role="ROLE_AGENT"),
    said("an empty list of parts", "message.parts", parts=[]),
    said("a list as metadata", "message.metadata", metadata=[]),
    said("numbers as referenceTaskIds", "message.referenceTaskIds[0]", referenceTaskIds=[1]),
    said("too many referenceTaskIds", "message.referenceTaskIds", referenceTaskIds=["a"] * 101),
    said("a control character in an extension", "message.extensions[0]", extensions=["a\0"]),
    said("two mistakes at once", "message.messageId", "message.parts[0].raw", messageId=..., parts=[{"raw": "!"}]),
    asked("a message to no task", "SendMessage", sending(taskId=NO_TASK), NO_SUCH_TASK),
    asked("a message to another caller's task", "SendMessage", sending(taskId=BOBS_TASK), NO_SUCH_TASK),
    asked("a message to another agent's task", "SendMessage", sending(taskId=ECHOS_TASK), NO_SUCH_TASK),
    asked("a message to a task that has ended", "SendMessage", sending(taskId=ADAS_TASK), UNSUPPORTED),
    asked("a task of another context", "SendMessage", sending(taskId=ADAS_TASK, contextId="x"), PARAMS, "contextId"),
    asked("another's context", "SendMessage", sending(taskId=BOBS_TASK, contextId=BOBS_CONTEXT), NO_SUCH_TASK),
    configured("a negative historyLength", "configuration.historyLength", historyLength=-1),
    configured("a word as historyLength", "configuration.historyLength", historyLength="all"),
    configured("a string as acceptedOutputModes", "configuration.acceptedOutputModes", acceptedOutputModes="a/b"),
    asked("a list as configuration", "SendMessage", sending() | {"configuration": []}, PARAMS, "configuration"),
    asked("a stream of an agent that has none", "SendStreamingMessage", sending(), UNSUPPORTED, at="quiet"),
)  # fmt: skip

PARTS = (
    of_parts("too many parts", [{"text": "a"}] * 101, "message.parts"),
    of_parts("a part of nothing", [{}], "message.parts[0]"),
    of_parts("a part of text and data", [{"text": "a", "data": 1}], "message.parts[0]"),
    of_parts("a part of 0.3", [{"kind": "file", "file": {"bytes": "aGk="}}], "message.parts[0]"),
    of_parts("the second part is wrong", [{"text": "a"}, {"text": 5}], "message.parts[1].text"),
    of_parts("U+0000 in a text", [{"text": "a\0b"}], "message.parts[0].text"),
    of_parts("half a surrogate pair in a text", [{"text": "a\ud83db"}], "message.parts[0].text"),
    of_parts("no base64", [{"raw": "\u00fc"}], "message.parts[0].raw"),
    of_parts("base64 of a wrong length", [{"raw": "abcde"}], "message.parts[0].raw"),
    of_parts("U+0000 in a key of data", [{"data": {"a\0": 1}}], "message.parts[0].data"),
    of_parts("a newline in a file name", [{"text": "a", "filename": "a\nb"}], "message.parts[0].filename"),
    of_parts("a media type that is not taken", [{"raw": "aGk=", "mediaType": "image/png"}], error=MEDIA_TYPE),
    *(
        of_parts(f"the URL {url}", [{"url": url}], "message.parts[0].url")
        for url in ("", "file:///etc/passwd", "//example.com/a", "https://", "http://2130706433/", "https://[fd00::1]/")
    ),
    of_parts("an endless URL", [{"url": "https://example.com/" + "a" * 2048}], "message.parts[0].url"),
)  # fmt: skip

TASKS = (
    *(
        row
        for method in ("GetTask", "CancelTask", "SubscribeToTask")
        for row in (
            asked(f"{method} without an id", method, {}, PARAMS, "id"),
            asked(f"{method} of an empty id", method, {"id": ""}, PARAMS, "id"),
            asked(f"{method} of a control character", method, {"id": "\x1b"}, PARAMS, "id"),
            asked(f"{method} of an endless id", method, {"id": "x" * 201}, PARAMS, "id"),
            asked(f"{method} of no task", method, {"id": NO_TASK}, NO_SUCH_TASK),
            asked(f"{method} of an id that is none", method, {"id": "nothing"}, NO_SUCH_TASK),
            asked(f"{method} of another caller's task", method, {"id": BOBS_TASK}, NO_SUCH_TASK),
            asked(f"{method} of another agent's task", method, {"id": ECHOS_TASK}, NO_SUCH_TASK),
        )
    ),
    asked("a cancel of a task that has ended", "CancelTask", {"id": ADAS_TASK}, NOT_CANCELABLE),
    asked("a subscription to a task that has ended", "SubscribeToTask", {"id": ADAS_TASK}, UNSUPPORTED),
    *(
        asked(f"{n} messages of a task", "GetTask", {"id": ADAS_TASK, "historyLength": n}, PARAMS, "historyLength")
        for n in (-5, 0.5, "all", 2**31)
    ),
    asked("a list as metadata of a cancel", "CancelTask", {"id": ADAS_TASK, "metadata": []}, PARAMS, "metadata"),
    *(
        replace(row, rpc=row.rpc.with_headers(Last_Event_ID=event), rest=row.rest.with_headers(Last_Event_ID=event))
        for event in ("-1", "abc", "1.5", "\u0663", "9" * 19, "9" * 5000)
        for row in [asked(f"the event {event[:20]}", "SubscribeToTask", {"id": ADAS_TASK}, PARAMS, "Last-Event-ID")]
    ),
    listed("a page too large", "pageSize", pageSize=101),
    listed("a page in both spellings", "pageSize", pageSize=1, page_size=1),
    listed("a page token of another make", "pageToken", pageToken="2"),
    listed("a page token of another caller", "pageToken", pageToken=BOBS_TOKEN),
    listed("a negative historyLength of a list", "historyLength", historyLength=-1),
    listed("a state of 0.3", "status", status="working"),
    listed("a time without a zone", "statusTimestampAfter", statusTimestampAfter="2026-01-01T00:00:00"),
    listed("a time after all times", "statusTimestampAfter", statusTimestampAfter="9999-12-31T23:59:59-14:00"),
    listed("U+0000 in the contextId of a list", "contextId", contextId="a\0"),
)  # fmt: skip

CREATE, GET, LIST, DELETE = (
    f"{word}TaskPushNotificationConfig{'s' * (word == 'List')}" for word in ("Create", "Get", "List", "Delete")
)
WEBHOOK = {"taskId": ADAS_TASK, "id": "c", "url": "https://hooks.invalid/hook"}
TWO_LINES = {"scheme": "Bearer", "credentials": "a\r\nHost: b"}
WITH_WEBHOOK = sending() | {"configuration": {"taskPushNotificationConfig": {"url": WEBHOOK["url"]}}}
INLINE = "configuration.taskPushNotificationConfig"


def hooked(name: str, *fields: str, **config: Any) -> WrongInput:
    """A webhook with these fields changed, or removed (...)."""
    params = {name: value for name, value in (WEBHOOK | config).items() if value is not ...}
    return asked(name, CREATE, params, PARAMS, *fields)


WEBHOOKS = (
    asked("a webhook of who calls none", CREATE, WEBHOOK, NO_WEBHOOKS, at="quiet"),
    asked("an inline webhook for who calls none", "SendMessage", WITH_WEBHOOK, NO_WEBHOOKS, at="quiet"),
    hooked("a webhook of no task", "taskId", taskId=...),
    hooked("a webhook of this machine", "url", url="http://127.0.0.1/"),
    hooked("a webhook of no scheme", "authentication.scheme", authentication={"credentials": "a"}),
    hooked("a webhook of two schemes", "authentication.scheme", authentication={"scheme": "Basic, Bearer"}),
    hooked("a webhook whose credentials are two lines", "authentication.credentials", authentication=TWO_LINES),
    hooked("a webhook whose token is two lines", "token", token="a\nb"),
    hooked("a webhook whose token is too long", "token", token="a" * 4097),
    configured("an inline webhook at home", f"{INLINE}.url", taskPushNotificationConfig={"url": "http://localhost/"}),
    asked("asking for a webhook of no id", GET, {"taskId": ADAS_TASK}, PARAMS, "id"),
    asked("deleting a webhook of no task", DELETE, {"id": "a"}, PARAMS, "taskId"),
    asked("a page of no webhooks", LIST, {"taskId": ADAS_TASK, "pageSize": 0}, PARAMS, "pageSize"),
    asked("a webhook of a task that is not there", CREATE, WEBHOOK | {"taskId": NO_TASK}, NO_SUCH_TASK),
    asked("deleting a webhook of it", DELETE, {"taskId": NO_TASK, "id": "c"}, NO_SUCH_TASK),
    asked("a webhook of somebody else's task", CREATE, WEBHOOK | {"taskId": BOBS_TASK}, NO_SUCH_TASK),
    asked("a webhook of a task of another agent", CREATE, WEBHOOK | {"taskId": ECHOS_TASK}, NO_SUCH_TASK),
    asked("the extended card", "GetExtendedAgentCard", {}, UNSUPPORTED),
)

WRONG_INPUTS = (*ENVELOPES, *ENCODINGS, *HEADERS, *ADDRESSES, *MESSAGES, *PARTS, *TASKS, *WEBHOOKS)
