"""What LangGraph's SDK for Python does with a Parley. It imports nothing of Parley."""

import base64
import os

import pytest
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

PLACE = {"url": os.environ["PARLEY_URL"], "api_key": os.environ["PARLEY_KEY"]}
MODES = ["values", "messages-tuple", "updates", "custom"]


def said(content):
    return {"messages": [{"role": "user", "content": content}]}


@pytest.fixture
async def client():
    async with get_client(**PLACE) as found:
        yield found


@pytest.fixture
async def thread(client):
    return (await client.threads.create(metadata={"title": "Tried"}))["thread_id"]


async def test_assistants_are_found(client):
    [echo] = await client.assistants.search(graph_id="echo")
    assert await client.assistants.get(echo["assistant_id"]) == echo
    assert await client.assistants.count(graph_id="echo") == 1
    assert (await client.assistants.get_schemas("echo"))["input_schema"]
    assert (await client.assistants.get_graph("echo"))["nodes"]
    page = await client.assistants.search(limit=1, response_format="object")
    assert len(page["assistants"]) == 1


async def test_stream_has_chunks_and_values(client, thread):
    made = []
    parts = [
        part
        async for part in client.runs.stream(
            thread, "countdown", input=said("3"), stream_mode=MODES, on_run_created=made.append
        )
    ]
    assert [parts[0].event, parts[-1].event] == ["metadata", "end"]
    assert made == [{"run_id": parts[0].data["run_id"], "thread_id": thread}]
    values = [part.data for part in parts if part.event == "values"][-1]
    chunks = [part.data[0]["content"] for part in parts if part.event == "messages"]
    assert [one["type"] for one in values["messages"]] == ["human", "ai"]
    assert "".join(chunks) == values["messages"][-1]["content"]
    assert (await client.threads.get_state(thread))["values"] == values
    assert [one["values"] for one in await client.threads.get_history(thread)] == [values]


async def test_second_form_of_streams_is_read(client, thread):
    stream = client.runs.stream(
        thread, "countdown", input=said("99999999"), stream_mode=["values", "messages"], version="v2"
    )
    parts = [part async for part in stream]
    assert {part["type"] for part in parts} >= {"metadata", "values", "messages/partial", "messages/complete"}
    [asked] = [part["interrupts"] for part in parts if part["type"] == "values"][-1]
    assert "number" in asked["value"]["question"]


async def test_interrupt_is_resumed(client, thread):
    values = await client.runs.wait(thread, "countdown", input=said("99999999"))
    [asked] = values["__interrupt__"]
    found = await client.threads.get(thread)
    assert (found["status"], list(found["interrupts"])) == ("interrupted", [asked["id"]])
    values = await client.runs.wait(thread, "countdown", command={"resume": {"start": 2}})
    assert "2" in values["messages"][-1]["content"]
    assert [one["status"] for one in await client.runs.list(thread)] == ["success", "interrupted"]
    with pytest.raises(ConflictError):
        await client.runs.create(thread, "countdown", command={"resume": "again"})


async def test_background_runs_are_joined(client, thread):
    run = await client.runs.create(thread, "echo", input=said("Hello"))
    values = await client.runs.join(thread, run["run_id"])
    assert values["messages"][-1]["content"] == "Hello"
    events = [part.event async for part in client.runs.join_stream(thread, run["run_id"], stream_mode=["values"])]
    assert events == ["metadata", "values", "values", "end"]
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "success"


async def test_run_is_canceled(client, thread):
    run = await client.runs.create(thread, "countdown", input=said("1000"))
    with pytest.raises(ConflictError):
        await client.runs.create(thread, "echo", input=said("a"), multitask_strategy="reject")
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "interrupted"


async def test_files_come_back(client, thread):
    data = base64.b64encode(b"a,b\n1,2\n").decode()
    block = {"type": "file", "source_type": "base64", "mime_type": "text/csv", "data": data, "filename": "t.csv"}
    values = await client.runs.wait(thread, "echo", input=said([{"type": "text", "text": "Look"}, block]))
    assert "[t.csv](http" in values["messages"][-1]["content"]


async def test_threads_are_kept_in_order(client, thread):
    await client.runs.wait(thread, "echo", input=said("Hello"))
    copied = await client.threads.copy(thread)
    named = await client.threads.update(copied["thread_id"], metadata={"title": "Copied"})
    assert named["metadata"]["title"] == "Copied"
    assert await client.threads.count(metadata={"title": "Copied"}) == 1
    [found] = await client.threads.search(metadata={"title": "Copied"}, select=["thread_id", "values"])
    assert found["values"]["messages"][0]["content"] == "Hello"
    await client.threads.delete(copied["thread_id"])
    with pytest.raises(NotFoundError):
        await client.threads.get(copied["thread_id"])


async def test_stateless_runs_and_refusals(client):
    values = await client.runs.wait(None, "echo", input=said("Hello"))
    assert values["messages"][-1]["content"] == "Hello"
    with pytest.raises(NotFoundError):
        await client.runs.create(None, "nobody", input=said("Hello"))
    with pytest.raises(UnprocessableEntityError, match="webhook"):
        await client.runs.create(None, "echo", input=said("Hello"), webhook="https://example.org")


def test_synchronous_client_streams():
    with get_sync_client(**PLACE) as client:
        parts = list(client.runs.stream(None, "echo", input=said("Hello"), stream_mode="updates"))
    assert [part.event for part in parts] == ["metadata", "updates", "end"]
