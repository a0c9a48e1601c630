"""HTTP+JSON has every operation, with JSON-RPC's answers and errors."""

import json

import pytest

import db
from apps.a2a.bindings import ADDRESSES
from apps.record.models import Task
from tests.a2a.calling import message, text_of

pytestmark = pytest.mark.django_db(transaction=True)

NO_TASK = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


@pytest.fixture
async def done(worker, ada_rests, echo):
    return (await ada_rests("echo").ask("POST", "message:send", {"message": message("hi")})).body["task"]


@pytest.mark.parametrize("below", ["", "echo/"])
async def test_a_message_is_sent_or_streamed_and_its_task_is_there_to_get(worker, ada_at, ada_rests, echo, below):
    calls = ada_rests("echo")
    sent = await calls.ask("POST", f"{below}message:send", {"message": message("hi")})
    assert sent.status == 200
    assert (sent.headers["Content-Type"], sent.headers["Cache-Control"]) == (OWN, "no-store")
    task = sent.body["task"]
    assert text_of(task["artifacts"][0]) == "hi"
    for slash in ("", "/"):
        assert (await calls.ask("GET", f"{below}tasks/{task['id']}{slash}")).body == task
    assert (await calls.ask("HEAD", f"{below}tasks/{task['id']}")).status == 200
    assert (await calls.ask("HEAD", f"{below}tasks/{NO_TASK}")).status == 404
    assert (await ada_at("echo").call("GetTask", {"id": task["id"]})).result == task
    events = [one async for one in calls.stream("POST", f"{below}message:stream", {"message": message("hi")})]
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


async def test_tasks_are_listed_as_the_query_says(ada_rests, done, subtests):
    calls = ada_rests("echo")
    plain = (await calls.ask("GET", "tasks")).body["tasks"]
    assert [task["id"] for task in plain] == [done["id"]]
    assert "artifacts" not in plain[0]
    filters = {
        "contextId=elsewhere": 0,
        f"context_id={done['contextId']}": 1,
        "status=TASK_STATE_COMPLETED": 1,
        "status=3": 1,
        "status=TASK_STATE_WORKING": 0,
        "status=2": 0,
        "status=": 1,
        "statusTimestampAfter=2020-01-01T00:00:00Z": 1,
        "status_timestamp_after=2120-01-01T00%3A00%3A00%2B01%3A00": 0,
        "pageSize=1&page_token=": 1,
        "of-no-request=1": 1,
    }
    for query, count in filters.items():
        with subtests.test(query):
            answer = await calls.ask("GET", f"tasks?{query}")
            assert (answer.status, len(answer.body["tasks"])) == (200, count)
    for name in ("includeArtifacts", "include_artifacts"):
        shown = (await calls.ask("GET", f"tasks?{name}=true&historyLength=0")).body["tasks"][0]
        assert shown["artifacts"] == done["artifacts"]
        assert "history" not in shown
        assert "artifacts" not in (await calls.ask("GET", f"tasks?{name}=false")).body["tasks"][0]
    for name in ("historyLength", "history_length"):
        assert len((await calls.ask("GET", f"tasks/{done['id']}?{name}=1")).body["history"]) == 1


async def test_a_parameter_that_cannot_be_used_is_named(ada_rests, echo, subtests):
    for query, fields in {
        "includeArtifacts=yes": ["includeArtifacts"],
        "includeArtifacts=TRUE": ["includeArtifacts"],
        "pageSize=0": ["pageSize"],
        "pageSize=1.5": ["pageSize"],
        "pageSize=ten": ["pageSize"],
        "pageSize=1&pageSize=2": ["pageSize"],
        "pageSize=1&page_size=2": ["pageSize"],
        "unknown=1&unknown=2": ["unknown"],
        "historyLength=-1": ["historyLength"],
        "status=99": ["status"],
        "status=working": ["status"],
        "status=%D9%A3": ["status"],
        "statusTimestampAfter=yesterday": ["statusTimestampAfter"],
        "pageToken=mine": ["pageToken"],
        "contextId=a%00b": ["contextId"],
        "tenant=hello": ["tenant"],
        "contextId=%ff": [],
        "&".join(f"p{n}=1" for n in range(101)): [],
    }.items():
        with subtests.test(query[:40]):
            answer = await ada_rests("echo").ask("GET", f"tasks?{query}")
            assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")
            assert answer.fields == fields


async def test_the_path_the_tenant_and_the_body_agree(ada_rests, done, hello, subtests):
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
    for address in (f"hello/tasks/{done['id']}", "hello/tasks", "hello/extendedAgentCard"):
        answer = await calls.ask("GET", address)
        assert (answer.status, answer.fields) == (400, ["tenant"])
    assert (await ada_rests("hello").ask("GET", f"tasks/{done['id']}")).reason == "TASK_NOT_FOUND"


PLAIN, OWN = "application/json", "application/a2a+json"


@pytest.mark.parametrize(
    ("accept", "sent", "answered"),
    [
        (None, PLAIN, OWN),
        (None, OWN, OWN),
        ("*/*", PLAIN, OWN),
        ("application/*", PLAIN, OWN),
        (f"{PLAIN}, */*", PLAIN, PLAIN),
        ("*/*", f"{OWN}; charset=utf-8", OWN),
        (OWN, PLAIN, OWN),
        (PLAIN, OWN, PLAIN),
        (f"{PLAIN};q=0.5, {OWN}", PLAIN, OWN),
        (f"{OWN};q=0.9, {PLAIN};q=0.8", PLAIN, OWN),
        (f"{OWN}; charset=utf-8", PLAIN, OWN),
        ("text/html", PLAIN, PLAIN),
        ("a/b;" * 5000, PLAIN, PLAIN),
        (";;q=x,,", PLAIN, PLAIN),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_an_answer_has_the_type_that_the_caller_prefers(ada_rests, echo, accept, sent, answered):
    how = {"headers": {"Accept": accept} if accept else {}, "content_type": sent}
    answer = await ada_rests("echo").ask("POST", f"tasks/{NO_TASK}:cancel", {}, **how)
    assert (answer.status, answer.headers["Content-Type"]) == (404, answered)


async def test_a_body_that_is_no_json_or_no_object_is_refused_and_nothing_is_stored(ada_rests, echo, subtests):
    calls, body = ada_rests("echo"), {"message": message()}
    for how in (
        {"content_type": "text/plain"},
        {"content_type": "multipart/form-data"},
        {"content_type": ""},
        {"headers": {"Content-Encoding": "gzip"}},
    ):
        with subtests.test(str(how)):
            answer = await calls.ask("POST", "message:send", body, **how)
            assert (answer.status, answer.reason) == (415, "CONTENT_TYPE_NOT_SUPPORTED")
    for other in ([], "a", None, 5):
        with subtests.test(str(other)):
            answer = await calls.ask("POST", "message:send", json.dumps(other).encode())
            assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")
    assert (await calls.ask("POST", "message:send", {"message": message(parts=[{}])})).fields == ["message.parts[0]"]
    assert not await db.run(Task.objects.exists)


async def test_every_address_is_there_with_and_without_a_slash_for_its_methods_alone(ada_rests, echo, subtests):
    for address, operations in ADDRESSES.items():
        named = address.format(id=NO_TASK, taskId=NO_TASK)
        for path in (named, f"{named}/", f"echo/{named}", f"echo/{named}/"):
            for verb in operations:
                with subtests.test(f"{verb} {path}"):
                    unserved = await ada_rests("echo", version="9.9").ask(verb, path)
                    assert unserved.reason == "VERSION_NOT_SUPPORTED"
        with subtests.test(f"PUT {named}"):
            refused = await ada_rests("echo").ask("PUT", named)
            assert (refused.status, refused.reason) == (405, "METHOD_NOT_ALLOWED")
            assert refused.headers["Allow"] == ", ".join(sorted(operations))


async def test_the_version_must_be_named(ada_rests, echo, subtests):
    for version in ("", "0.3", "1.1", "abc"):
        with subtests.test(version):
            answer = await ada_rests("echo", version=version).ask("GET", "tasks")
            assert (answer.status, answer.reason) == (400, "VERSION_NOT_SUPPORTED")
            assert "A2A-Version: 1.0" in answer.error["message"]
    assert (await ada_rests("echo", version="").ask("GET", "tasks?A2A-Version=1.0")).status == 200
    many = "&".join(f"p{n}=1" for n in range(2000))
    assert (await ada_rests("echo", version="").ask("GET", f"tasks?{many}")).status == 400


async def test_a_stream_that_breaks_says_so_in_an_event_of_its_own(worker, ada_rests, echo, monkeypatch):
    def fails(*args):
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("apps.record.wire.stream_response", fails)
    response = await ada_rests("echo").send("POST", "message:stream", {"message": message("hi")})
    last = b"".join([chunk async for chunk in response.streaming_content]).strip().split(b"\n\n")[-1]
    name, data = last.split(b"\n")
    assert name == b"event: error"
    error = json.loads(data.removeprefix(b"data: "))["error"]
    assert (error["code"], error["status"]) == (500, "INTERNAL")
    assert b"secret" not in data
