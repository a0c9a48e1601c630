"""LangGraph's API: runs, their streams, questions and ends."""

import base64
import json
import uuid

import pytest
from django.test import AsyncClient

from apps.record.models import Context, Message, Task
from parley import db
from tests.clients.calling import followed
from tests.doors import agents
from tests.engine.delegating import until
from tests.langgraph.conftest import run, words
from tests.model_agents.endpoint import calls, says
from tests.security.knocking import post

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("speaking", "worker")]
ALL = ["values", "updates", "messages", "messages-tuple", "custom", "events"]


@pytest.fixture
async def thread(client):
    """The path of a new thread."""
    return f"/threads/{await client.thread()}"


def named(events, name):
    return [data for kind, data, _ in events if kind == name]


async def test_values_grow_until_the_end(client, thread):
    events = await client.stream(f"{thread}/runs/stream", run("stream"))
    assert [kind for kind, _, _ in events] == ["metadata", "values", "values", "end"]
    first, last = named(events, "values")
    assert words(first) == [("human", "stream")]
    assert words(last) == [("human", "stream"), ("ai", "One two three.")]
    assert last["messages"][1]["usage_metadata"]["total_tokens"] == 10
    assert named(events, "end")[0]["status"] == "success"
    assert (await client.get(f"{thread}/state")).json()["values"] == last


async def test_tokens_come_as_chunks(client, thread):
    body = run("stream", stream_mode=["messages-tuple", "messages", "updates"])
    events = await client.stream(f"{thread}/runs/stream", body)
    chunks = named(events, "messages")
    assert "".join(chunk["content"] for chunk, _ in chunks) == "One two three."
    assert {chunk["type"] for chunk, _ in chunks} == {"AIMessageChunk"}
    assert chunks[0][1]["langgraph_node"] == "agent"
    partial, [whole] = named(events, "messages/partial"), named(events, "messages/complete")
    assert partial[-1][0]["content"] == whole[0]["content"] == "One two three."
    assert named(events, "messages/metadata")[0].keys() == {whole[0]["id"]}
    assert named(events, "updates") == [{"agent": {"messages": whole}}]


async def test_tools_are_messages_of_their_own(client, thread):
    events = await client.stream(f"{thread}/runs/stream", run("tool", stream_mode=ALL))
    _, asks, result, last = named(events, "values")[-1]["messages"]
    [call] = asks["tool_calls"]
    assert (call["name"], call["args"], last["content"]) == ("weather", {"city": "Oslo"}, "It is cold.")
    assert (result["tool_call_id"], json.loads(result["content"])) == (call["id"], {"degrees": 3})
    assert [list(one) for one in named(events, "updates")] == [["agent"], ["tools"], ["agent"]]
    kinds = [one["event"] for one in named(events, "events")]
    assert kinds == ["on_chain_start", "on_chat_model_stream", "on_tool_start", "on_tool_end", *kinds[4:]]
    [told] = [one[0] for one in named(events, "messages") if one[0].get("tool_call_chunks")]
    assert told["tool_call_chunks"][0]["args"] == '{"city":"Oslo"}'


async def test_progress_is_a_custom_event(client, thread):
    events = await client.stream(f"{thread}/runs/stream", run("steps", stream_mode="custom"))
    assert [(one["text"], one["done"]) for one in named(events, "custom")] == [("half", 1), ("half, too", None)]


async def test_resume_answers_the_interrupt(client, thread):
    events = await client.stream(f"{thread}/runs/stream", run("ask"))
    [asked] = named(events, "values")[-1]["__interrupt__"]
    assert (asked["value"]["question"], named(events, "end")[0]["status"]) == ("Which word?", "interrupted")
    found = (await client.get(thread)).json()
    assert (found["status"], found["interrupts"]) == ("interrupted", {asked["id"]: [asked]})
    values = await client.wait(thread, None, command={"resume": "blue"})
    assert words(values)[2:] == [("human", "blue"), ("ai", "It was blue.")]
    assert await db.run(Task.objects.count) == 1
    refused = await client.post(f"{thread}/runs/wait", run(command={"resume": "red"}))
    assert refused.status_code == 409
    statuses = [one["status"] for one in (await client.get(f"{thread}/runs")).json()]
    assert statuses == ["success", "interrupted"]


async def test_interrupts_are_answered_by_their_id(client, thread):
    [asked] = (await client.wait(thread, "ask"))["__interrupt__"]
    values = await client.wait(thread, None, command={"resume": {asked["id"]: "green"}})
    assert words(values)[-1] == ("ai", "It was green.")


async def test_failures_are_errors(client, thread):
    events = await client.stream(f"{thread}/runs/stream", run("fail"))
    assert named(events, "error") == [{"error": "cannot", "message": "The agent cannot do this."}]
    assert (await client.wait(thread, "decline"))["__error__"]["message"] == "Not that."
    state = (await client.get(f"{thread}/state")).json()
    assert (state["tasks"][0]["error"], (await client.get(thread)).json()["status"]) == ("Not that.", "error")


async def test_run_goes_on_in_the_background(client, thread):
    begun = await client.post(f"{thread}/runs", run("hello"))
    path = f"{thread}/runs/{begun.json()['run_id']}"
    assert begun.headers["Content-Location"] == path
    values = (await client.get(f"{path}/join")).json()
    assert words(values) == [("human", "hello"), ("ai", "hello")]
    shown = (await client.get(path)).json()
    assert (shown["status"], shown["assistant_id"]) == ("success", begun.json()["assistant_id"])
    assert (await client.get(f"{thread}/runs?status=success")).json() == [shown]
    assert (await client.get(f"{thread}/runs?status=error")).json() == []


async def test_cut_stream_goes_on_after_its_last_id(client, thread):
    body = run("stream", stream_mode=["messages-tuple", "values"])
    whole = await client.stream(f"{thread}/runs/stream", body)
    path = f"{thread}/runs/{whole[0][1]['run_id']}/stream?stream_mode=messages-tuple&stream_mode=values"
    assert await client.stream(path) == whole
    assert await client.stream(f'{path.partition("?")[0]}?stream_mode=["messages-tuple","values"]') == whole
    cut = next(at for at, (_, _, index) in enumerate(whole) if index)
    rest = await client.stream(path, **{"Last-Event-ID": str(whole[cut][2])})
    assert rest == whole[cut + 1 :]


async def test_canceled_runs_are_interrupted(client, thread):
    begun = (await client.post(f"{thread}/runs", run("wait"))).json()
    await until(agents.STARTED.is_set)
    path = f"{thread}/runs/{begun['run_id']}"
    assert (await client.get(thread)).json()["status"] == "busy"
    assert (await client.post(f"{path}/cancel?action=rollback")).status_code == 422
    assert (await client.post(f"{path}/cancel?wait=1")).status_code == 204
    assert (await client.get(path)).json()["status"] == "interrupted"
    assert (await client.stream(f"{path}/stream"))[-1][1]["status"] == "interrupted"
    assert (await client.get(thread)).json()["status"] == "idle"


async def test_who_leaves_cancels_if_asked(client, thread):
    response = await client.post(f"{thread}/runs/stream", run("wait", on_disconnect="cancel"))
    async with followed(response) as chunks:
        await anext(chunks)
        await until(agents.STARTED.is_set)
    await until(agents.STOPPED.is_set)
    assert (await Task.objects.aget()).state == "canceled"


@pytest.mark.parametrize(("strategy", "status", "states"), [
    ("reject", 409, ["working"]), ("interrupt", 200, ["canceled", "completed"]),
])  # fmt: skip
async def test_busy_threads_refuse_or_interrupt(client, thread, strategy, status, states):
    await client.post(f"{thread}/runs", run("wait"))
    await until(agents.STARTED.is_set)
    second = await client.post(f"{thread}/runs/wait", run("hello", multitask_strategy=strategy))
    assert second.status_code == status
    assert [task.state async for task in Task.objects.order_by("first_event")] == states


async def test_busy_threads_queue(client, thread):
    first = (await client.post(f"{thread}/runs", run("stream"))).json()
    second = (await client.post(f"{thread}/runs", run("again"))).json()
    values = (await client.get(f"{thread}/runs/{second['run_id']}/join")).json()
    assert [text for kind, text in words(values) if kind == "human"] == ["stream", "again"]
    assert (await client.get(f"{thread}/runs/{first['run_id']}")).json()["status"] == "success"


async def test_run_without_a_thread_makes_one(client):
    values = (await client.post("/runs/wait", run("hello"))).json()
    assert words(values) == [("human", "hello"), ("ai", "hello")]
    events = await client.stream("/runs/stream", run("hello"))
    assert (await client.get(f"/threads/{events[0][1]['thread_id']}")).status_code == 200
    assert (await client.post("/threads/new/runs/wait", run("hello"))).status_code == 404
    assert (await client.post("/threads/new/runs/wait", run("a", if_not_exists="create"))).status_code == 200
    assert (await client.get("/threads/new")).json()["status"] == "idle"


async def test_another_assistant_takes_over(client, thread, greeting):
    await client.wait(thread, "hello")
    values = await client.wait(thread, "you", agent="greeting")
    assert words(values)[2:] == [("human", "you"), ("ai", "Hello, you.")]
    [newest, _] = (await client.get(f"{thread}/runs")).json()
    joined = (await client.get(f"{thread}/runs/{newest['run_id']}/join")).json()
    assert joined == values
    assert (await client.get(thread)).json()["metadata"]["graph_id"] == "greeting"


async def test_tool_messages_answer_an_agents_calls(client, ada_key, modeled, endpoint):
    endpoint.replies = [calls(("pick", {"of": 3})), says("Red it is.")]
    key, tool = str(uuid.uuid4()), {"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}
    said = [{"id": "1", "role": "user", "content": "A color?"}]
    await post("/agui/modeled", {"threadId": key, "runId": "1", "messages": said, "tools": [tool]}, ada_key)
    found = (await client.get(f"/threads/{key}")).json()
    [call] = found["values"]["messages"][-1]["tool_calls"]
    assert (found["status"], call["args"]) == ("interrupted", {"of": 3})
    result = {"type": "tool", "tool_call_id": call["id"], "content": '"red"'}
    body = run(agent="modeled", input={"messages": [result]})
    values = (await client.post(f"/threads/{key}/runs/wait", body)).json()
    assert words(values)[-1] == ("ai", "Red it is.")


async def test_files_go_in_and_come_out(client, thread):
    data = base64.b64encode(b"12345").decode()
    blocks = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "file", "source_type": "base64", "mime_type": "text/csv", "data": data, "metadata": {"name": "a.csv"}},
        {"type": "image", "mimeType": "image/gif", "data": data},
    ]
    said = {"messages": [{"type": "human", "content": blocks, "id": "mine"}]}
    values = (await client.post(f"{thread}/runs/wait", run(input=said))).json()
    first, answer = values["messages"]
    assert (first["id"], first["content"]) == ("mine", "look\n[image/png]\n[a.csv]\n[image/gif]")
    for seen in ("image/png 5", "a.csv text/csv 5", "image/gif 5"):
        assert seen in answer["content"]
    values = await client.wait(thread, "file")
    assert "[table.csv](http" in values["messages"][-1]["content"]


async def test_only_what_is_new_is_sent(client, thread):
    said = [
        {"role": "system", "content": "Be brief."},
        {"type": "human", "content": "old"},
        {"type": "ai", "content": "older"},
        {"type": "human", "content": "new"},
    ]
    body = run(input={"messages": said, "mood": "good"}, config={"configurable": {"a": 1}}, metadata={"b": 2})
    values = (await client.post(f"{thread}/runs/wait", body)).json()
    assert words(values)[-1] == ("ai", "new | told: Be brief.")
    told = (await Message.objects.aget(role="user")).metadata["langgraph"]
    assert told == {"input": {"mood": "good"}, "config": {"configurable": {"a": 1}}, "metadata": {"b": 2}}


@pytest.mark.parametrize(("fields", "field"), [
    ({"interrupt_before": "*"}, "interrupt_before"), ({"webhook": "https://example.org"}, "webhook"),
    ({"stream_mode": "debug"}, "stream_mode"), ({"multitask_strategy": "rollback"}, "multitask_strategy"),
    ({"command": {"goto": "a"}}, "command.goto"), ({"on_completion": "delete"}, "on_completion"),
    ({"input": None}, "input.messages"), ({"input": {"messages": [{"type": "remove"}]}}, "input.messages"),
    ({"input": {"messages": [{"type": "human", "content": [{"type": "x"}]}]}}, "input.messages.content.type"),
])  # fmt: skip
async def test_what_has_no_effect_is_refused(client, thread, fields, field):
    refused = await client.post(f"{thread}/runs/wait", run("hello") | fields)
    assert refused.status_code == 422
    assert any(one["field"].startswith(field) for one in refused.json()["errors"])
    assert not await Task.objects.aexists()


async def test_runs_go_on_from_the_newest_checkpoint(client, thread):
    await client.wait(thread, "hello")
    old = (await client.get(f"{thread}/state")).json()["checkpoint"]
    await client.wait(thread, "again", checkpoint=old)
    refused = await client.post(f"{thread}/runs/wait", run("third", checkpoint=old))
    assert refused.status_code == 409


async def test_threads_and_runs_are_their_owners(client, others, thread):
    begun = (await client.post(f"{thread}/runs", run("hello"))).json()
    path = f"{thread}/runs/{begun['run_id']}"
    paths = (path, f"{path}/join", f"{path}/stream", f"{thread}/runs")
    asked = [*map(others.get, paths), others.post(f"{path}/cancel"), others.post(f"{thread}/runs/wait", run("hello"))]
    for call in asked:
        assert (await call).status_code == 404


async def test_public_agents_need_no_key(nobody, speaking):
    assert (await nobody.post("/runs/wait", run("hello"))).status_code == 401
    speaking.access = speaking.Access.PUBLIC
    await speaking.asave()
    assert (await nobody.post("/threads", {})).status_code == 200
    begun = await nobody.post("/runs", run("hello"))
    key = begun.json()["thread_id"]
    assert words(await nobody.wait(f"/threads/{key}", "again"))[0] == ("human", "hello")
    assert (await nobody.post("/threads/search", {})).json() == []
    assert [one["thread_id"] for one in (await nobody.post("/threads/search", {"ids": [key]})).json()] == [key]
    assert await Context.objects.acount() == 2


async def test_both_headers_take_a_key(client, ada_key):
    for headers in ({"x-api-key": ada_key}, {"Authorization": f"Bearer {ada_key}", "x-api-key": "lsv2_another"}):
        assert (await AsyncClient().get("/langgraph/info", headers=headers)).status_code == 200
    assert (await AsyncClient().get("/langgraph/info", headers={"x-api-key": "wrong"})).status_code == 401


async def test_pages_of_named_origins_may_call(client, settings):
    settings.LANGGRAPH_ORIGINS = ["https://chat.example"]
    asked = await client.ask("OPTIONS", "/threads", Origin="https://chat.example")
    assert (asked.status_code, "X-Api-Key" in asked["Access-Control-Allow-Headers"]) == (204, True)
    answer = await client.get("/info", Origin="https://chat.example")
    assert answer["Access-Control-Allow-Origin"] == "https://chat.example"
    assert "Content-Location" in answer["Access-Control-Expose-Headers"]
    assert "Access-Control-Allow-Origin" not in (await client.get("/info", Origin="https://other.example")).headers


async def test_unknown_parts_are_said_to_be(client):
    for path in ("/store/items", "/crons"):
        assert "not served here" in (await client.get(path)).json()["detail"]
    assert (await client.get("/threads/search/more")).status_code == 404
    assert (await client.ask("PUT", "/threads/a")).status_code == 405
