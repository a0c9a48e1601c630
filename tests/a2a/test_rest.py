"""The HTTP+JSON binding: every operation at its address, with the same answers and errors as over JSON-RPC."""

import asyncio
import json

import pytest
from a2a.types import a2a_pb2 as a2a

import bridge
from apps.a2a.rest import ADDRESSES
from apps.conversations.models import Task
from tests.a2a.calling import message, strictly_parsed, text_of
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

NO_TASK = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
EXTENSION = "https://example.com/ext/timestamps/v1"


@pytest.fixture
def ada_rests(ada_key):
    return lambda slug, **options: Resource(slug, ada_key, **options)


@pytest.fixture
async def done(worker, ada_rests, echo):
    """A task of Ada's that has ended."""
    return (await ada_rests("echo").ask("POST", "message:send", {"message": message("hi")})).body["task"]


@pytest.mark.parametrize("below", ["", "echo/"])
async def test_a_message_is_sent_and_its_task_is_there_to_get(worker, ada_rests, echo, below):
    calls = ada_rests("echo")
    sent = await calls.ask("POST", f"{below}message:send", {"message": message("hi")})
    assert sent.status == 200
    assert sent.headers["Content-Type"] == "application/json"
    assert sent.headers["Cache-Control"] == "no-store"
    task = strictly_parsed(sent.body, a2a.SendMessageResponse).task
    assert text_of(sent.body["task"]["artifacts"][0]) == "hi"
    for slash in ("", "/"):
        assert (await calls.ask("GET", f"{below}tasks/{task.id}{slash}")).body == sent.body["task"]


async def test_an_answer_that_is_a_message_comes_as_one(ada_rests, greeting):
    answer = await ada_rests("greeting").ask("POST", "message:send", {"message": message("hi")})
    assert strictly_parsed(answer.body, a2a.SendMessageResponse).HasField("message")


@pytest.mark.parametrize("below", ["", "echo/"])
async def test_a_streaming_send_brings_bare_responses_with_their_index(worker, ada_rests, echo, below):
    stream = ada_rests("echo").stream("POST", f"{below}message:stream", {"message": message("hi")})
    events = [event async for event in stream]
    assert "task" in events[0][1]
    assert events[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [index for index, _ in events] == sorted({index for index, _ in events})


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_what_was_missed_of_a_stream_is_sent_again(ada_rests, done, verb):
    address = f"tasks/{done['id']}:subscribe"
    missed = ada_rests("echo").stream(verb, address, headers={"Last-Event-ID": "2"})
    events = [event async for event in missed]
    assert events[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    refused = await ada_rests("echo").ask(verb, address)
    assert (refused.status, refused.reason) == (400, "UNSUPPORTED_OPERATION")


async def test_a_task_is_canceled_and_its_subscriber_told(worker, ada_rests, stepping):
    calls = ada_rests("stepping")
    body = {"message": message("3"), "configuration": {"returnImmediately": True}}
    task = (await calls.ask("POST", "message:send", body)).body["task"]
    stream = calls.stream("GET", f"tasks/{task['id']}:subscribe")
    assert (await anext(stream))[1]["task"]["id"] == task["id"]
    canceled = await calls.ask("POST", f"tasks/{task['id']}:cancel")
    assert canceled.body["status"]["state"] == "TASK_STATE_CANCELED"
    async with asyncio.timeout(10):
        rest = [event async for event in stream]
    assert rest[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_tasks_are_listed_as_the_query_says(ada_rests, done, subtests):
    calls = ada_rests("echo")
    plain = await calls.ask("GET", "tasks")
    strictly_parsed(plain.body, a2a.ListTasksResponse)
    assert [task["id"] for task in plain.body["tasks"]] == [done["id"]]
    assert "artifacts" not in plain.body["tasks"][0]
    filters = {
        "contextId=elsewhere": 0,
        f"contextId={done['contextId']}": 1,
        f"context_id={done['contextId']}": 1,
        "status=TASK_STATE_COMPLETED": 1,
        "status=3": 1,
        "status=TASK_STATE_WORKING": 0,
        "status=2": 0,
        "status=": 1,
        "statusTimestampAfter=2020-01-01T00:00:00Z": 1,
        "status_timestamp_after=2120-01-01T00%3A00%3A00%2B01%3A00": 0,
        "pageSize=1&page_token=": 1,
        "unknown=1&unknown=2": None,
        "of-no-request=1": 1,
    }
    for query, count in filters.items():
        with subtests.test(query):
            answer = await calls.ask("GET", f"tasks?{query}")
            assert answer.status == (400 if count is None else 200)
            assert count is None or len(answer.body["tasks"]) == count


async def test_flags_and_numbers_of_a_query_are_text(ada_rests, done, subtests):
    calls = ada_rests("echo")
    for name in ("includeArtifacts", "include_artifacts"):
        with subtests.test(name):
            shown = (await calls.ask("GET", f"tasks?{name}=true&historyLength=0")).body["tasks"][0]
            assert shown["artifacts"] == done["artifacts"]
            assert "history" not in shown
            assert "artifacts" not in (await calls.ask("GET", f"tasks?{name}=false")).body["tasks"][0]
    assert len((await calls.ask("GET", f"tasks/{done['id']}?historyLength=1")).body["history"]) == 1
    assert len((await calls.ask("GET", f"tasks/{done['id']}?history_length=1")).body["history"]) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("includeArtifacts=yes", "includeArtifacts"),
        ("includeArtifacts=TRUE", "includeArtifacts"),
        ("pageSize=0", "pageSize"),
        ("pageSize=1.5", "pageSize"),
        ("pageSize=ten", "pageSize"),
        ("pageSize=1&pageSize=2", "pageSize"),
        ("pageSize=1&page_size=2", "pageSize"),
        ("historyLength=-1", "historyLength"),
        ("status=99", "status"),
        ("status=working", "status"),
        ("status=%D9%A3", "status"),
        ("statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ("pageToken=mine", "pageToken"),
        ("contextId=a%00b", "contextId"),
        ("tenant=hello", "tenant"),
    ],
)
async def test_a_parameter_that_cannot_be_used_is_named(ada_rests, echo, query, field):
    answer = await ada_rests("echo").ask("GET", f"tasks?{query}")
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")
    assert answer.fields == [field]


@pytest.mark.parametrize("query", ["contextId=%ff", "&".join(f"p{n}=1" for n in range(101))])
async def test_a_query_that_cannot_be_read_is_refused(ada_rests, echo, query):
    answer = await ada_rests("echo").ask("GET", f"tasks?{query}")
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")


async def test_the_path_and_the_body_agree(ada_rests, done, subtests):
    calls = ada_rests("echo")
    address = f"tasks/{done['id']}:cancel"
    for body in ({"id": done["id"]}, {"id": ""}, {"tenant": "echo"}, {}, None):
        with subtests.test(str(body)):
            assert (await calls.ask("POST", address, body)).reason == "TASK_NOT_CANCELABLE"
    for body in ({"id": NO_TASK}, {"id": 5}, {"tenant": "hello"}):
        with subtests.test(str(body)):
            assert (await calls.ask("POST", address, body)).fields == list(body)
    assert (await calls.ask("GET", f"tasks/{done['id']}?id={NO_TASK}")).fields == ["id"]
    assert (await calls.ask("POST", f"echo/{address}", {"tenant": "hello"})).fields == ["tenant"]


async def test_a_tenant_in_the_path_is_the_agent(ada_rests, done, hello):
    for address in (f"hello/tasks/{done['id']}", "hello/tasks", "hello/extendedAgentCard"):
        answer = await ada_rests("echo").ask("GET", address)
        assert (answer.status, answer.fields) == (400, ["tenant"])
    assert (await ada_rests("hello").ask("GET", f"tasks/{done['id']}")).reason == "TASK_NOT_FOUND"


@pytest.mark.parametrize(
    ("verb", "address"),
    [
        ("POST", f"tasks/{NO_TASK}/pushNotificationConfigs"),
        ("GET", f"tasks/{NO_TASK}/pushNotificationConfigs"),
        ("GET", f"tasks/{NO_TASK}/pushNotificationConfigs/a"),
        ("DELETE", f"tasks/{NO_TASK}/pushNotificationConfigs/a"),
    ],
)
async def test_webhooks_have_their_addresses(ada_rests, echo, verb, address):
    body = b'{"url": "https://hooks.invalid/hook"}' if verb == "POST" else None
    answer = await ada_rests("echo").ask(verb, address, body)
    assert (answer.status, answer.reason) == (404, "TASK_NOT_FOUND")


async def test_the_extended_card_has_its_address(ada_rests, echo):
    answer = await ada_rests("echo").ask("GET", "extendedAgentCard")
    assert (answer.status, answer.reason) == (400, "UNSUPPORTED_OPERATION")


async def test_an_error_is_a_google_rpc_status(ada_rests, echo):
    answer = await ada_rests("echo").ask("GET", f"tasks/{NO_TASK}")
    assert answer.status == 404
    assert answer.body == {
        "error": {
            "code": 404,
            "status": "NOT_FOUND",
            "message": answer.error["message"],
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {},
                }
            ],
        }
    }


@pytest.mark.parametrize(
    ("headers", "sent", "answered"),
    [
        ({}, "application/json", "application/json"),
        ({}, "application/a2a+json", "application/a2a+json"),
        ({"Accept": "*/*"}, "application/a2a+json; charset=utf-8", "application/a2a+json"),
        ({"Accept": "application/a2a+json"}, "application/json", "application/a2a+json"),
        ({"Accept": "application/json"}, "application/a2a+json", "application/json"),
        ({"Accept": "application/json;q=0.5, application/a2a+json"}, "application/json", "application/a2a+json"),
        ({"Accept": "application/a2a+json; charset=utf-8"}, "application/json", "application/a2a+json"),
        ({"Accept": "application/a2a+json;q=0.9, application/json;q=0.8"}, "application/json", "application/a2a+json"),
        ({"Accept": "text/html"}, "application/json", "application/json"),
        ({"Accept": "a/b;" * 5000}, "application/json", "application/json"),
        ({"Accept": "application/*"}, "application/json", "application/json"),
        ({"Accept": ";;q=x,,"}, "application/json", "application/json"),
    ],
)
async def test_an_answer_has_the_type_that_the_caller_prefers(ada_rests, echo, headers, sent, answered):
    answer = await ada_rests("echo").ask("POST", f"tasks/{NO_TASK}:cancel", {}, headers=headers, content_type=sent)
    assert answer.status == 404
    assert answer.headers["Content-Type"] == answered


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_that_does_not_say_that_it_is_json_is_unsupported(ada_rests, echo, content_type):
    answer = await ada_rests("echo").ask("POST", "message:send", {"message": message()}, content_type=content_type)
    assert (answer.status, answer.reason) == (415, "CONTENT_TYPE_NOT_SUPPORTED")
    compressed = await ada_rests("echo").ask("POST", "message:send", b"\x1f", headers={"Content-Encoding": "gzip"})
    assert (compressed.status, compressed.reason) == (415, "CONTENT_TYPE_NOT_SUPPORTED")


@pytest.mark.parametrize("body", [[], "a", None, 5])
async def test_a_body_that_is_no_object_is_refused(ada_rests, echo, body):
    answer = await ada_rests("echo").ask("POST", "message:send", json.dumps(body).encode())
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("verb", "address", "allowed"),
    [
        ("GET", "message:send", "POST"),
        ("PUT", "message:stream", "POST"),
        ("POST", "tasks", "GET"),
        ("DELETE", "tasks/a", "GET"),
        ("GET", "tasks/a:cancel", "POST"),
        ("PATCH", "echo/tasks/a:subscribe", "GET, POST"),
        ("PUT", "tasks/a/pushNotificationConfigs", "GET, POST"),
        ("POST", "tasks/a/pushNotificationConfigs/b", "DELETE, GET"),
        ("OPTIONS", "extendedAgentCard", "GET"),
    ],
)
async def test_another_http_method_is_refused_and_the_right_ones_named(ada_rests, echo, verb, address, allowed):
    answer = await ada_rests("echo").ask(verb, address)
    assert (answer.status, answer.reason) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["Allow"] == allowed


async def test_head_asks_for_what_get_would_answer(ada_rests, done):
    assert (await ada_rests("echo").ask("HEAD", f"tasks/{done['id']}")).status == 200
    assert (await ada_rests("echo").ask("HEAD", f"tasks/{NO_TASK}")).status == 404


async def test_the_version_must_be_named(ada_rests, echo, subtests):
    for version in ("", "0.3", "1.1", "abc"):
        with subtests.test(version):
            answer = await ada_rests("echo", version=version).ask("GET", "tasks")
            assert (answer.status, answer.reason) == (400, "VERSION_NOT_SUPPORTED")
            assert "A2A-Version: 1.0" in answer.error["message"]
    assert (await ada_rests("echo", version="").ask("GET", "tasks?A2A-Version=1.0")).status == 200
    many = "&".join(f"p{n}=1" for n in range(2000))
    assert (await ada_rests("echo", version="").ask("GET", f"tasks?{many}")).status == 400


async def test_an_extension_is_activated_or_required(ada_rests, echo):
    echo.capabilities = {"streaming": True, "extensions": [{"uri": EXTENSION, "required": True}]}
    await bridge.run(echo.save)
    named = await ada_rests("echo").ask("GET", "tasks", headers={"A2A-Extensions": EXTENSION})
    assert (named.status, named.headers["A2A-Extensions"]) == (200, EXTENSION)
    answer = await ada_rests("echo").ask("GET", "tasks")
    assert (answer.status, answer.reason) == (400, "EXTENSION_SUPPORT_REQUIRED")


@pytest.mark.parametrize("below", ["", "echo/"])
async def test_every_address_is_there_with_and_without_a_slash(ada_rests, echo, below, subtests):
    for address, operations in ADDRESSES.items():
        named = f"{below}{address.format(id=NO_TASK, taskId=NO_TASK)}"
        for path, verb in ((f"{named}{slash}", verb) for slash in ("", "/") for verb in operations):
            with subtests.test(f"{verb} {path}"):
                unserved = await ada_rests("echo", version="9.9").ask(verb, path)
                assert unserved.reason == "VERSION_NOT_SUPPORTED"


async def test_who_may_not_call_is_told_so(echo, ada_rests, bob_key, done):
    unknown = await Resource("echo").ask("GET", "tasks")
    assert (unknown.status, unknown.reason) == (401, "UNAUTHENTICATED")
    assert unknown.headers["WWW-Authenticate"].startswith("Bearer")
    assert (await ada_rests("nobody").ask("GET", "tasks")).reason == "AGENT_NOT_FOUND"
    bob = Resource("echo", bob_key)
    theirs, nothing = [await bob.ask("GET", f"tasks/{one}") for one in (done["id"], NO_TASK)]
    assert theirs.status == nothing.status == 404
    assert theirs.body == nothing.body


async def test_nothing_is_stored_of_a_message_that_is_refused(ada_rests, echo):
    answer = await ada_rests("echo").ask("POST", "message:send", {"message": message() | {"parts": [{}]}})
    assert answer.fields == ["message.parts[0]"]
    assert not await bridge.run(Task.objects.exists)


async def test_a_stream_that_breaks_says_so_in_an_event_of_its_own(worker, ada_rests, echo, monkeypatch):
    def fails(*args):
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("apps.a2a.streams._closes", fails)
    response = await ada_rests("echo").send("POST", "message:stream", {"message": message("hi")})
    last = b"".join([chunk async for chunk in response.streaming_content]).strip().split(b"\n\n")[-1]
    name, data = last.split(b"\n")
    assert name == b"event: error"
    error = json.loads(data.removeprefix(b"data: "))["error"]
    assert (error["code"], error["status"]) == (500, "INTERNAL")
    assert b"secret" not in data


async def test_a_task_of_one_binding_is_there_in_the_other(ada_at, ada_rests, done):
    assert (await ada_at("echo").call("GetTask", {"id": done["id"]})).result == done
