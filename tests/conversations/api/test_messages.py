"""Messages by the client API, with idempotency keys."""

import uuid

import pytest

from apps.agents.models import Agent
from apps.engine import accept
from apps.record import projection
from apps.record.models import Event
from parley import db
from tests.working import begin

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("who waits is woken by whoever works, and holds no connection meanwhile"),
]


async def begun(caller, agent="works", **fields):
    answer = await caller.post("/sessions", {"agent": agent, **fields})
    assert answer.status == 201, answer.content
    return answer.body["session"]["id"]


async def test_an_answer_at_once_comes_with_the_message(ada_calls, talks):
    session = await begun(ada_calls, "talks")
    sent = await ada_calls.post(f"/sessions/{session}/messages", {"text": "you"}, Idempotency_Key="one")
    assert sent.status == 200, sent.content
    said, answer = sent.body["message"], sent.body["answer"]
    assert (said["role"], said["content"], said["html"]) == ("user", "you", "")
    assert said["metadata"]["messageId"] == "one"
    assert (answer["content"], answer["html"]) == ("**Hello** to you.", "<p><strong>Hello</strong> to you.</p>\n")
    assert (answer["metadata"]["agent"], answer["metadata"]["agentVersion"]) == ("talks", 1)
    assert sent.body["task"] is None
    assert sent.body["session"]["title"] == "you"
    again = await ada_calls.post(f"/sessions/{session}/messages", {"text": "you"}, Idempotency_Key="one")
    assert again.body == {**sent.body, "repeated": True}
    assert sent.body["session"]["metadata"]["messageCount"] == 2


async def test_message_is_accepted_and_can_be_awaited(ada_calls, works, worker):
    session = await begun(ada_calls)
    path, text = f"/sessions/{session}/messages", {"text": "apples"}
    sent = await ada_calls.post(path, text, Idempotency_Key="one")
    assert (sent.status, sent.body["answer"], sent.body["artifacts"]) == (202, None, [])
    waited = await ada_calls.post(path, text | {"wait": True}, Idempotency_Key="one")
    assert (waited.status, waited.body["repeated"]) == (200, True)
    task, told = waited.body["task"], waited.body["answer"]["metadata"]
    assert (waited.body["message"], task["id"]) == (sent.body["message"], sent.body["task"]["id"])
    assert (task["state"], waited.body["answer"]["content"]) == ("completed", "# Done\n\nwith *apples*")
    # The answer names its author, tool calls and artifacts.
    assert (told["agent"], told["agentVersion"], told["taskId"]) == ("works", 1, task["id"])
    assert uuid.UUID(told["agentRunId"])
    call = told["toolCalls"][0]
    assert (call["name"], call["arguments"], call["result"]) == ("look", {"for": "apples"}, {"found": "APPLES"})
    assert (call["isError"], told["isEdited"], told["editHistory"]) == (False, False, [])
    assert {"data", "page"} <= {artifact["name"] for artifact in waited.body["artifacts"]}
    artifact = next(one for one in waited.body["artifacts"] if one["name"] == "page")
    assert (artifact["parts"], artifact["mediaType"]) == ([{"text": "apples 0\napples 1\napples 2\n"}], "text/plain")
    assert (artifact["size"], artifact["version"], artifact["isSigned"]) == (27, 1, False)
    assert artifact["id"] == f"{task['id']}/{artifact['artifactId']}"
    assert artifact["id"] in task["artifacts"]
    # An ended task takes no message, and the error says what to do.
    refused = await ada_calls.post(path, {"text": "And Rome", "task": task["id"]})
    assert (refused.status, refused.code) == (409, "conflict")
    assert "without `task`, and name it in `references`" in refused.body["detail"]
    assert (await ada_calls.post(path, {"text": "And Rome", "references": [task["id"]]})).status == 202


async def test_message_goes_to_the_work_or_waits(ada_calls, ada, works, said):
    receipt = await db.run(accept.accept, ada.principal, works, said("first"))
    await db.run(begin, receipt.run)
    session = f"/sessions/{receipt.context}"
    steer = {"text": "faster", "delivery": "steer"}
    for is_repeated in (False, True):
        sent = await ada_calls.post(f"{session}/messages", steer, Idempotency_Key="steer")
        told = (sent.status, sent.body["task"]["id"], sent.body["repeated"])
        assert told == (202, str(receipt.task), is_repeated), sent.content
    queue = {"text": "later", "delivery": "queue"}
    for is_repeated in (False, True):
        sent = await ada_calls.post(f"{session}/messages", queue, Idempotency_Key="queue")
        told = (sent.status, sent.body["message"], sent.body["task"], sent.body["repeated"])
        assert told == (202, None, None, is_repeated), sent.content
    waiting = (await ada_calls.get(f"{session}/queue")).body["items"]
    assert [one["content"] for one in waiting] == ["later"]
    assert (await ada_calls.post(f"{session}/messages", queue | {"wait": True})).status == 422


async def test_only_agents_that_can_stop_after_a_step(ada_calls, bob_calls, ada, works, said):
    receipt = await db.run(accept.accept, ada.principal, works, said("first"))
    path = f"/tasks/{receipt.task}/stop-after-step"
    assert (await ada_calls.post(path)).status == 409, "it is not one of them"
    await Agent.objects.filter(pk=works.pk).aupdate(capabilities={"steerable": True})
    assert (await ada_calls.post(path)).status == 409, "it has not begun"
    await db.run(begin, receipt.run)
    assert (await bob_calls.post(path)).status == 404
    for _ in range(2):
        assert (await ada_calls.post(path)).body["state"] == "working"
    assert await Event.objects.filter(task=receipt.task, type="stop_requested").acount() == 1


async def test_message_answers_a_question_failure_delivers_nothing(ada_calls, works, worker):
    path = f"/sessions/{await begun(ada_calls)}/messages"
    task = (await ada_calls.post(path, {"text": "ask me", "wait": True})).body["task"]
    assert (task["state"], task["question"]) == ("input-required", {"name": "colour", "schema": {"type": "string"}})
    assert task["status"]["message"]["content"] == "Which **colour**?"
    told = await ada_calls.post(path, {"text": "red", "task": task["id"], "wait": True})
    assert (told.body["task"]["id"], told.body["task"]["state"]) == (task["id"], "completed")
    # Without its task, too: words answer the open question.
    task = (await ada_calls.post(path, {"text": "ask me", "wait": True})).body["task"]
    for is_repeated in (False, True):
        told = await ada_calls.post(path, {"text": "blue", "wait": True}, Idempotency_Key="blue")
        assert (told.body["task"]["id"], told.body["repeated"]) == (task["id"], is_repeated)
    assert told.body["task"]["state"] == "completed"
    failed = (await ada_calls.post(path, {"text": "fail", "wait": True})).body
    assert (failed["task"]["state"], failed["answer"]["content"]) == ("failed", "That was too much.")
    assert failed["answer"]["metadata"]["error"] == {"code": "overfed"}
    assert failed["task"]["status"]["message"]["metadata"]["error"] == {"code": "overfed"}
    assert failed["artifacts"] == failed["task"]["artifacts"] == []


async def test_same_key_begins_one_session_with_message(ada_calls, works, worker):
    body = {"agent": "works", "message": {"text": "A long title of a session"}, "wait": True}
    first = await ada_calls.post("/sessions", body, Idempotency_Key="one")
    assert (first.status, first.body["task"]["state"]) == (201, "completed")
    assert first.body["session"]["title"] == "A long title of a session"
    again = await ada_calls.post("/sessions", body, Idempotency_Key="one")
    assert (again.status, again.body) == (200, {**first.body, "repeated": True})
    assert not await db.run(projection.differences, uuid.UUID(first.body["session"]["id"]))


async def test_repeated_message_finds_its_agent_after_switch(ada_calls, talks, works):
    session = await begun(ada_calls, "talks")
    first = await ada_calls.post(f"/sessions/{session}/messages", {"text": "you"}, Idempotency_Key="one")
    await ada_calls.patch(f"/sessions/{session}", {"agent": "works"})
    again = await ada_calls.post(f"/sessions/{session}/messages", {"text": "you"}, Idempotency_Key="one")
    assert again.body["answer"] == first.body["answer"]
    assert again.body["session"]["metadata"]["messageCount"] == 2
    other = await ada_calls.post(f"/sessions/{session}/messages", {"text": "me"}, Idempotency_Key="one")
    assert (other.status, other.fields) == (422, ["Idempotency-Key"])


WRONG = [
    ({}, "text"),
    ({"text": " "}, "text"),
    ({"text": "\x00"}, "text"),
    ({"text": None}, "text"),
    ({"parts": [{}]}, "parts[0]"),
    ({"parts": [{"text": "a", "raw": "YQ=="}]}, "parts[0]"),
    ({"parts": [{"raw": "YQ==", "filename": "a\nb"}]}, "parts[0].filename"),
    ({"parts": [{"data": {"\x00": 1}}]}, "parts[0].data"),
    ({"text": "a", "parts": [{"text": "a"}] * 100}, "parts"),
    ({"parts": [{"words": "a"}]}, "parts[0].words"),
    ({"text": "a", "task": "one"}, "task"),
    ({"text": "a", "references": ["a\x00"]}, "references[0]"),
    ({"text": "a", "wait": 1}, "wait"),
    ({"text": "a", "sender": "me"}, "sender"),
]


async def test_wrong_messages_are_refused_by_field(ada_calls, talks):
    session = await begun(ada_calls, "talks")
    for body, named in WRONG:
        answer = await ada_calls.post(f"/sessions/{session}/messages", body)
        assert (answer.status, answer.code, answer.fields) == (422, "invalid", [named]), str(body)[:80]
    assert (await ada_calls.get(f"/sessions/{session}/messages")).body["items"] == []


async def test_unknown_task_and_media_type_are_refused(ada_calls, talks):
    session = await begun(ada_calls, "talks")
    path = f"/sessions/{session}/messages"
    stranger = await ada_calls.post(path, {"text": "a", "task": str(uuid.uuid4())})
    assert (stranger.status, stranger.code) == (404, "not_found")
    picture = await ada_calls.post(path, {"parts": [{"raw": "YQ==", "mediaType": "image/png"}]})
    assert (picture.status, picture.code) == (422, "media_type_not_taken")


async def test_messages_are_listed_in_pages_and_order(ada_calls, talks):
    session = await begun(ada_calls, "talks")
    for number in range(3):
        await ada_calls.post(f"/sessions/{session}/messages", {"text": str(number)})
    seen, cursor = [], ""
    while True:
        page = (await ada_calls.get(f"/sessions/{session}/messages?limit=4&cursor={cursor}")).body
        seen, cursor = [*seen, *page["items"]], page["nextCursor"]
        if not cursor:
            break
    assert [one["content"] for one in seen if one["role"] == "user"] == ["0", "1", "2"]
    assert [one["index"] for one in seen] == [2, 3, 4, 5, 6, 7]
    assert seen == (await ada_calls.get(f"/sessions/{session}")).body["messages"]


async def test_events_are_listed_as_the_session_shows_them(ada_calls, works, worker):
    session = await begun(ada_calls)
    await ada_calls.post(f"/sessions/{session}/messages", {"text": "figs", "wait": True})
    page = (await ada_calls.get(f"/sessions/{session}/events?limit=100")).body
    assert page["items"] == (await ada_calls.get(f"/sessions/{session}")).body["events"]
    assert [one["id"] for one in page["items"][:2]] == [f"{session}:1", f"{session}:2"]
    agents = {one["payload"]["agent"] for one in page["items"] if "agent" in one["payload"]}
    assert agents == {"works"}


async def test_one_message_is_found_by_its_event(ada_calls, talks):
    session = await begun(ada_calls, "talks", message={"text": "you"})
    said = (await ada_calls.get(f"/sessions/{session}/messages")).body["items"]
    for one in said:
        found = await ada_calls.get(f"/sessions/{session}/messages?index={one['index']}")
        assert found.body == {"items": [one], "nextCursor": ""}
    assert (await ada_calls.get(f"/sessions/{session}/messages?index=99")).body["items"] == []
    assert (await ada_calls.get(f"/sessions/{session}/messages?index=0")).fields == ["index"]
