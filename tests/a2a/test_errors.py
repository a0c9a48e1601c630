"""What is wrong with a request is said in the protocol's own terms, and nothing of it is stored."""

import json
from typing import Any

import pytest
from django.conf import settings

from apps.conversations.models import Event, Task
from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)

DOMAIN = "a2a-protocol.org"


def rpc(method: str = "SendMessage", params: Any = None, **fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {} if params is None else params, **fields}


NO_TASK = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
WEBHOOK = {"taskId": NO_TASK, "id": "c", "url": "https://8.8.8.8/hook"}


def sending(**fields: Any) -> dict[str, Any]:
    """A send whose message has these fields; None takes one away."""
    built = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]} | fields
    return rpc(params={"message": {name: value for name, value in built.items() if value is not ...}})


def parts(*parts: Any) -> dict[str, Any]:
    return sending(parts=list(parts))


def configured(**fields: Any) -> dict[str, Any]:
    return rpc(params={"message": message(), "configuration": fields})


def webhook(**fields: Any) -> dict[str, Any]:
    """A webhook that has these fields; `...` takes one away."""
    built = {name: value for name, value in (WEBHOOK | fields).items() if value is not ...}
    return rpc("CreateTaskPushNotificationConfig", built)


def nested(levels: int) -> bytes:
    """A request whose deepest value is at this level of nesting."""
    data = "[" * (levels - 5) + "]" * (levels - 5)  # request, params, message, parts and part are five
    return json.dumps(parts({"data": "@"})).replace('"@"', data).encode()


UNREADABLE = {
    "nothing but space": b" ",
    "no JSON": b"{'jsonrpc': 2}",
    "not UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"caf\xe9"}',
    "UTF-16": json.dumps(rpc()).encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + json.dumps(rpc()).encode(),
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"x":NaN}}',
    "Infinity": b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"x":-Infinity}}',
    "a number beyond doubles": b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"x":1e999}}',
    "a key twice": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}',
    "a key twice, deep inside": b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"a","x":[{"b":1,"b":2}]}}',
    "an integer of 401 digits": b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"x":%b}}' % (b"9" * 401),
    "a fraction of 401 digits": b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"x":0.%b}}' % (b"1" * 400),
    "65 levels": nested(65),
    "a million levels": b"[" * 1_000_000,
    "a raw control character in a string": b'{"jsonrpc":"2.0","id":1,"method":"Get\nTask"}',
    "two values": b"{} {}",
}

INVALID_REQUESTS = {
    "a batch": ([rpc(), rpc()], None),
    "an empty batch": ([], None),
    "a string": ("SendMessage", None),
    "null": (None, None),
    "no id": ({"jsonrpc": "2.0", "method": "GetTask", "params": {}}, None),
    "a fraction as id": (rpc(id=1.5), None),
    "true as id": (rpc(id=True), None),
    "an object as id": (rpc(id={}), None),
    "a list as id": (rpc(id=[1]), None),
    "half a surrogate pair in the id": (rpc(id="\ud800"), None),
    "another version of JSON-RPC": (rpc(jsonrpc="1.0"), 7),
    "no version of JSON-RPC": ({"id": 7, "method": "GetTask"}, 7),
    "no method": ({"jsonrpc": "2.0", "id": 7}, 7),
    "a number as method": (rpc(method=5), 7),
}

UNKNOWN_METHODS = ["sendMessage", "Send", "", "tasks/feedback", "message/send", "__class__", "GetTask "]

INVALID_PARAMS = {
    "a list as params": (rpc(params=["a"]), ["params"]),
    "a string as params": (rpc(params="a"), ["params"]),
    "null as params": (rpc() | {"params": None}, ["params"]),
    "no message": (rpc(params={}), ["message"]),
    "a list as message": (rpc(params={"message": []}), ["message"]),
    "an empty message": (rpc(params={"message": {}}), ["message.role", "message.messageId", "message.parts"]),
    "no messageId": (sending(messageId=...), ["message.messageId"]),
    "an empty messageId": (sending(messageId=""), ["message.messageId"]),
    "a number as messageId": (sending(messageId=5), ["message.messageId"]),
    "a messageId too long": (sending(messageId="x" * 201), ["message.messageId"]),
    "a control character in the messageId": (sending(messageId="a\x07b"), ["message.messageId"]),
    "a newline in the contextId": (sending(contextId="a\nb"), ["message.contextId"]),
    "a contextId too long": (sending(contextId="c" * 201), ["message.contextId"]),
    "U+0000 in the contextId": (sending(contextId="a\0"), ["message.contextId"]),
    "a list as taskId": (sending(taskId=[]), ["message.taskId"]),
    "no role": (sending(role=...), ["message.role"]),
    "the agent's role": (sending(role="ROLE_AGENT"), ["message.role"]),
    "no role in particular": (sending(role="ROLE_UNSPECIFIED"), ["message.role"]),
    "a role of 0.3": (sending(role="user"), ["message.role"]),
    "no parts": (sending(parts=...), ["message.parts"]),
    "an empty list of parts": (sending(parts=[]), ["message.parts"]),
    "an object as parts": (sending(parts={}), ["message.parts"]),
    "a string as part": (parts("hello"), ["message.parts[0]"]),
    "too many parts": (sending(parts=[{"text": "a"}] * 101), ["message.parts"]),
    "a part of nothing": (parts({}), ["message.parts[0]"]),
    "a part of metadata alone": (parts({"metadata": {}}), ["message.parts[0]"]),
    "a part of text and data": (parts({"text": "a", "data": 1}), ["message.parts[0]"]),
    "a part of text and null data": (parts({"text": "a", "data": None}), ["message.parts[0]"]),
    "a part of null text": (parts({"text": None}), ["message.parts[0]"]),
    "a part of 0.3": (parts({"kind": "file", "file": {"bytes": "aGk="}}), ["message.parts[0]"]),
    "the second part is wrong": (parts({"text": "a"}, {"text": 5}), ["message.parts[1].text"]),
    "U+0000 in a text": (parts({"text": "a\0b"}), ["message.parts[0].text"]),
    "half a surrogate pair in a text": (parts({"text": "a\ud83db"}), ["message.parts[0].text"]),
    "no base64": (parts({"raw": "ü"}), ["message.parts[0].raw"]),
    "base64 of a wrong length": (parts({"raw": "abcde"}), ["message.parts[0].raw"]),
    "base64 with a line break": (parts({"raw": "aGVs\nbG8="}), ["message.parts[0].raw"]),
    "a number as raw": (parts({"raw": 5}), ["message.parts[0].raw"]),
    "a file URL": (parts({"url": "file:///etc/passwd"}), ["message.parts[0].url"]),
    "a relative URL": (parts({"url": "//example.com/a"}), ["message.parts[0].url"]),
    "a javascript URL": (parts({"url": "javascript:alert(1)"}), ["message.parts[0].url"]),
    "a URL with a space": (parts({"url": "https://example.com/a b"}), ["message.parts[0].url"]),
    "a URL with a port that is none": (parts({"url": "https://example.com:x/"}), ["message.parts[0].url"]),
    "a URL of this machine": (parts({"url": "http://localhost:8000/"}), ["message.parts[0].url"]),
    "a URL of the loopback network": (parts({"url": "http://127.0.0.1/"}), ["message.parts[0].url"]),
    "a URL of the loopback network, as a number": (parts({"url": "http://2130706433/"}), ["message.parts[0].url"]),
    "a URL of the metadata service": (parts({"url": "http://169.254.169.254/"}), ["message.parts[0].url"]),
    "a URL of a private network": (parts({"url": "https://[fd00::1]/"}), ["message.parts[0].url"]),
    "U+0000 in data": (parts({"data": {"a": ["b\0"]}}), ["message.parts[0].data"]),
    "U+0000 in a key of data": (parts({"data": {"a\0": 1}}), ["message.parts[0].data"]),
    "a number in data that no double comes near": (parts({"data": 10**350}), ["message.parts[0].data"]),
    "a list as metadata": (sending(metadata=[]), ["message.metadata"]),
    "U+0000 in metadata": (sending(metadata={"a": "\0"}), ["message.metadata"]),
    "a list as the part's metadata": (parts({"text": "a", "metadata": []}), ["message.parts[0].metadata"]),
    "a newline in a file name": (parts({"text": "a", "filename": "a\nb"}), ["message.parts[0].filename"]),
    "a control character in a media type": (
        parts({"text": "a", "mediaType": "text/\x01"}),
        ["message.parts[0].mediaType"],
    ),
    "numbers as referenceTaskIds": (sending(referenceTaskIds=[1]), ["message.referenceTaskIds[0]"]),
    "a string as extensions": (sending(extensions="a"), ["message.extensions"]),
    "a name in both spellings": (sending(message_id="m"), ["message.messageId"]),
    "a negative historyLength": (configured(historyLength=-1), ["configuration.historyLength"]),
    "half a historyLength": (configured(historyLength=1.5), ["configuration.historyLength"]),
    "a word as historyLength": (configured(historyLength="all"), ["configuration.historyLength"]),
    "true as historyLength": (configured(historyLength=True), ["configuration.historyLength"]),
    "a huge historyLength": (configured(historyLength=2**31), ["configuration.historyLength"]),
    "a word as returnImmediately": (configured(returnImmediately="yes"), ["configuration.returnImmediately"]),
    "a string as acceptedOutputModes": (configured(acceptedOutputModes="a/b"), ["configuration.acceptedOutputModes"]),
    "a list as configuration": (rpc(params={"message": message(), "configuration": []}), ["configuration"]),
    "another agent as tenant": (rpc(params={"message": message(), "tenant": "other"}), ["tenant"]),
    "a task of no id": (rpc("GetTask", {}), ["id"]),
    "a task of a number": (rpc("GetTask", {"id": 5}), ["id"]),
    "a task of a control character": (rpc("GetTask", {"id": "\x1b"}), ["id"]),
    "a negative historyLength of a task": (rpc("GetTask", {"id": "a", "historyLength": -5}), ["historyLength"]),
    "a cancel of no id": (rpc("CancelTask", {}), ["id"]),
    "a subscription to no id": (rpc("SubscribeToTask", {}), ["id"]),
    "another agent as tenant of a task": (rpc("GetTask", {"id": "a", "tenant": "b"}), ["tenant"]),
    "a page of nothing": (rpc("ListTasks", {"pageSize": 0}), ["pageSize"]),
    "a page too large": (rpc("ListTasks", {"pageSize": 101}), ["pageSize"]),
    "a page token of another make": (rpc("ListTasks", {"pageToken": "2"}), ["pageToken"]),
    "a state of 0.3": (rpc("ListTasks", {"status": "working"}), ["status"]),
    "a list as state": (rpc("ListTasks", {"status": []}), ["status"]),
    "a number of no state": (rpc("ListTasks", {"status": 9}), ["status"]),
    "a time without a zone": (
        rpc("ListTasks", {"statusTimestampAfter": "2026-01-01T00:00:00"}),
        ["statusTimestampAfter"],
    ),
    "a day as time": (rpc("ListTasks", {"statusTimestampAfter": "2026-01-01"}), ["statusTimestampAfter"]),
    "a time that never was": (
        rpc("ListTasks", {"statusTimestampAfter": "2026-02-31T00:00:00Z"}),
        ["statusTimestampAfter"],
    ),
    "a webhook of no task": (webhook(taskId=...), ["taskId"]),
    "a webhook of no URL": (webhook(url=...), ["url"]),
    "a webhook of this machine": (webhook(url="http://127.0.0.1/"), ["url"]),
    "a webhook of a scheme that is none": (webhook(authentication={"scheme": "a b"}), ["authentication.scheme"]),
    "a webhook of no scheme": (webhook(authentication={"credentials": "a"}), ["authentication.scheme"]),
    "a webhook whose credentials are two lines": (
        webhook(authentication={"scheme": "Bearer", "credentials": "a\r\nHost: b"}),
        ["authentication.credentials"],
    ),
    "a webhook whose token is two lines": (webhook(token="a\nb"), ["token"]),
    "a webhook whose token is not ASCII": (webhook(token="ü"), ["token"]),
    "a webhook whose token is too long": (webhook(token="a" * 4097), ["token"]),
    "a webhook whose id is too long": (webhook(id="a" * 201), ["id"]),
    "an inline webhook of this machine": (
        configured(taskPushNotificationConfig={"url": "http://localhost/"}),
        ["configuration.taskPushNotificationConfig.url"],
    ),
    "asking for a webhook of no id": (rpc("GetTaskPushNotificationConfig", {"taskId": "a"}), ["id"]),
    "deleting a webhook of no task": (rpc("DeleteTaskPushNotificationConfig", {"id": "a"}), ["taskId"]),
    "a page of no webhooks": (rpc("ListTaskPushNotificationConfigs", {"taskId": "a", "pageSize": 0}), ["pageSize"]),
    "two mistakes at once": (
        sending(messageId=..., parts=[{"raw": "!"}]),
        ["message.messageId", "message.parts[0].raw"],
    ),
}

REFUSED = {
    "a task that is not there": (rpc("GetTask", {"id": NO_TASK}), -32001, "TASK_NOT_FOUND"),
    "a task of an id that is none": (rpc("GetTask", {"id": "nothing"}), -32001, "TASK_NOT_FOUND"),
    "a cancel of a task that is not there": (rpc("CancelTask", {"id": NO_TASK}), -32001, "TASK_NOT_FOUND"),
    "a subscription to a task that is not there": (rpc("SubscribeToTask", {"id": NO_TASK}), -32001, "TASK_NOT_FOUND"),
    "a message to a task that is not there": (sending(taskId=NO_TASK), -32001, "TASK_NOT_FOUND"),
    "a message to a task of an id that is none": (sending(taskId="../x"), -32001, "TASK_NOT_FOUND"),
    "a webhook of a task that is not there": (
        rpc("CreateTaskPushNotificationConfig", WEBHOOK),
        -32001,
        "TASK_NOT_FOUND",
    ),
    "asking for it": (rpc("GetTaskPushNotificationConfig", WEBHOOK), -32001, "TASK_NOT_FOUND"),
    "listing them": (rpc("ListTaskPushNotificationConfigs", WEBHOOK), -32001, "TASK_NOT_FOUND"),
    "deleting it": (rpc("DeleteTaskPushNotificationConfig", WEBHOOK), -32001, "TASK_NOT_FOUND"),
    "the extended card": (rpc("GetExtendedAgentCard"), -32004, "UNSUPPORTED_OPERATION"),
    "a media type that the agent does not take": (
        parts({"raw": "aGk=", "mediaType": "image/png"}),
        -32005,
        "CONTENT_TYPE_NOT_SUPPORTED",
    ),
    "a second part that the agent does not take": (
        parts({"text": "a"}, {"data": 1, "mediaType": "application/xml"}),
        -32005,
        "CONTENT_TYPE_NOT_SUPPORTED",
    ),
}


@pytest.fixture
def calls(ada_at, countdown):
    """Ada at an agent that takes plain text."""
    return ada_at("countdown")


@pytest.fixture(autouse=True)
def nothing_is_stored(db):
    yield
    assert not Task.objects.exists()
    assert not Event.objects.exists()


def check_error(answer: Any, code: int, request_id: Any = 7, status: int = 200) -> None:
    assert answer.code == code, answer.body
    assert answer.status == status
    assert answer.body["jsonrpc"] == "2.0"
    assert answer.body["id"] == request_id
    assert set(answer.body) == {"jsonrpc", "id", "error"}
    assert answer.error["message"]
    assert "Traceback" not in json.dumps(answer.body)
    for detail in answer.error.get("data", []):
        if detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo":
            assert detail["domain"] == DOMAIN


async def test_a_body_that_cannot_be_read_is_a_parse_error(calls, subtests):
    for name, body in UNREADABLE.items():
        with subtests.test(name):
            check_error(await calls.post(body), -32700, request_id=None)


async def test_what_is_no_request_object_is_an_invalid_request(calls, subtests):
    for name, (body, request_id) in INVALID_REQUESTS.items():
        with subtests.test(name):
            check_error(await calls.post(body), -32600, request_id)


async def test_an_unknown_method_is_not_found(calls, subtests):
    for method in UNKNOWN_METHODS:
        with subtests.test(method):
            check_error(await calls.post(rpc(method)), -32601)


async def test_a_value_that_cannot_be_used_is_named(calls, subtests):
    for name, (body, fields) in INVALID_PARAMS.items():
        with subtests.test(name):
            answer = await calls.post(body)
            check_error(answer, -32602)
            assert answer.fields == fields


async def test_what_cannot_be_done_is_refused_with_its_reason(calls, subtests):
    for name, (body, code, reason) in REFUSED.items():
        with subtests.test(name):
            answer = await calls.post(body)
            check_error(answer, code)
            assert answer.reason == reason


async def test_a_stream_that_cannot_begin_is_a_plain_error(calls, subtests):
    for method in ("SendStreamingMessage", "SubscribeToTask"):
        with subtests.test(method):
            check_error(await calls.post(rpc(method, {"message": {}, "id": NO_TASK, "tenant": "x"})), -32602)


async def test_an_agent_that_does_not_stream_refuses_every_stream(ada_at, quiet, subtests):
    for method in ("SendStreamingMessage", "SubscribeToTask"):
        with subtests.test(method):
            answer = await ada_at("quiet").post(rpc(method, {"message": message(), "id": NO_TASK}))
            check_error(answer, -32004)
            assert answer.reason == "UNSUPPORTED_OPERATION"


async def test_an_id_comes_back_as_it_was(calls, subtests):
    for request_id in ("", "a", "ü", 0, -5, 2**70, None):
        with subtests.test(repr(request_id)):
            answer = await calls.post(rpc("GetTask", {"id": NO_TASK}, id=request_id))
            assert answer.body["id"] == request_id
            assert type(answer.body["id"]) is type(request_id)


async def test_sixty_four_levels_are_read(calls):
    assert (await calls.post(nested(64).replace(b"ROLE_USER", b"ROLE_AGENT"))).fields == ["message.role"]


async def test_a_body_that_does_not_say_that_it_is_json_is_unsupported(calls, subtests):
    for content_type in ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/jsonp", ""]:
        with subtests.test(content_type):
            answer = await calls.post(rpc(), content_type=content_type)
            check_error(answer, -32005, request_id=None, status=415)
            assert answer.reason == "CONTENT_TYPE_NOT_SUPPORTED"


async def test_every_way_to_say_json_is_taken(calls, subtests):
    for content_type in ("application/json; charset=utf-8", "application/a2a+json", "APPLICATION/JSON"):
        with subtests.test(content_type):
            check_error(await calls.post(rpc("GetTask", {"id": NO_TASK}), content_type=content_type), -32001)


async def test_a_compressed_body_is_unsupported(calls):
    check_error(await calls.post(b"\x1f\x8b", {"Content-Encoding": "gzip"}), -32005, request_id=None, status=415)


async def test_a_body_that_is_too_large_is_refused(calls, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    answer = await calls.post(parts({"text": "x" * 1000}))
    check_error(answer, 413, request_id=None, status=413)
    assert answer.reason == "REQUEST_TOO_LARGE"


async def test_only_post_is_allowed(calls, subtests):
    for method in ("get", "put", "patch", "delete", "head", "options"):
        with subtests.test(method):
            response = await getattr(calls.client, method)("/a2a/countdown")
            assert response.status_code == 405
            assert response["Allow"] == "POST"


async def test_the_endpoint_answers_with_a_trailing_slash_too(calls):
    check_error(await calls.post(rpc("GetTask", {"id": NO_TASK}), path="/a2a/countdown/"), -32001)


async def test_an_unforeseen_error_shows_nothing_of_what_is_inside(calls, monkeypatch, caplog):
    def fails(*args: Any) -> Any:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("apps.conversations.intake.find_task", fails)
    answer = await calls.post(rpc("GetTask", {"id": NO_TASK}))
    check_error(answer, -32603)
    assert "secret" not in json.dumps(answer.body)
    assert "secret of the house" in caplog.text


async def test_many_mistakes_are_listed_only_so_far(calls):
    answer = await calls.post(parts(*[{"text": 5}] * settings.MAX_PARTS))
    check_error(answer, -32602)
    assert len(answer.fields) == 20
