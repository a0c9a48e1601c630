"""LangGraph's API: assistants, and threads with their states."""

import uuid

import pytest

from tests.langgraph.conftest import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("speaking", "worker")]


async def test_agents_are_assistants(client, nobody):
    assert (await client.get("/ok")).json() == {"ok": True}
    assert (await client.get("/info")).json()["version"]
    [found] = (await client.post("/assistants/search", {"graph_id": "speaking"})).json()
    assert (found["graph_id"], found["name"]) == ("speaking", "Speaking")
    assert (await client.post("/assistants/count", {"graph_id": "speaking"})).json() == 1
    for name in ("speaking", found["assistant_id"]):
        assert (await client.get(f"/assistants/{name}")).json() == found
    schema = (await client.get("/assistants/speaking/schemas")).json()["input_schema"]
    assert schema["required"] == ["messages"]
    nodes = (await client.get("/assistants/speaking/graph")).json()["nodes"]
    assert [one["id"] for one in nodes] == ["__start__", "agent", "__end__"]
    assert (await nobody.post("/assistants/search", {"graph_id": "speaking"})).json() == []
    assert (await nobody.get(f"/assistants/{found['assistant_id']}")).status_code == 404


async def test_thread_is_made_once(client):
    key, metadata = str(uuid.uuid4()), {"graph_id": "speaking", "title": "Words"}
    made = (await client.post("/threads", {"thread_id": key, "metadata": metadata})).json()
    assert (made["thread_id"], made["status"], made["values"]) == (key, "idle", {"messages": []})
    assert made["metadata"].items() >= metadata.items()
    again = await client.post("/threads", {"thread_id": key})
    assert (again.status_code, "thread with this id" in again.json()["detail"]) == (409, True)
    assert (await client.post("/threads", {"thread_id": key, "if_exists": "do_nothing"})).json() == made


async def test_thread_changes_and_ends(client):
    thread = f"/threads/{await client.thread()}"
    changed = (await client.ask("PATCH", thread, {"metadata": {"title": "Better", "graph_id": "speaking"}})).json()
    assert (changed["metadata"]["title"], changed["metadata"]["graph_id"]) == ("Better", "speaking")
    assert (await client.ask("DELETE", thread)).status_code == 204
    assert (await client.get(thread)).status_code == 404


async def test_threads_of_others_are_unknown(client, others):
    thread = await client.thread()
    for path in (f"/threads/{thread}", f"/threads/{uuid.uuid4()}"):
        for call in (others.get(path), others.get(f"{path}/state"), others.post(f"{path}/history", {})):
            assert (await call).status_code == 404
    assert (await others.post("/threads/search", {})).json() == []
    assert (await others.post("/threads/search", {"ids": [thread]})).json() == []


async def test_threads_are_found(client):
    named = {"graph_id": "speaking"}
    waits, done = await client.thread(metadata=named), await client.thread(metadata={**named, "title": "Done"})
    await client.wait(f"/threads/{waits}", "ask")
    await client.wait(f"/threads/{done}", "hello")

    async def ids(**fields):
        return [one["thread_id"] for one in (await client.post("/threads/search", fields)).json()]

    assert await ids() == [done, waits]
    assert await ids(sort_order="asc", limit=1) == [waits]
    assert await ids(metadata={"title": "Done"}) == await ids(status="idle") == [done]
    assert await ids(status="interrupted") == await ids(ids=[waits]) == [waits]
    assert (await client.post("/threads/count", {"status": "interrupted"})).json() == 1
    [found] = (await client.post("/threads/search", {"status": "interrupted"})).json()
    assert words(found["values"]) == [("human", "ask")]
    [[asked]] = found["interrupts"].values()
    assert asked["value"]["question"] == "Which word?"
    refused = await client.post("/threads/search", {"metadata": {"user_id": "x"}})
    assert (refused.status_code, "user_id" in refused.text) == (422, True)


async def test_states_follow_runs(client):
    thread = f"/threads/{await client.thread()}"
    assert (await client.get(f"{thread}/state")).json()["checkpoint"] is None
    await client.wait(thread, "hello")
    await client.wait(thread, "ask")
    state = (await client.get(f"{thread}/state")).json()
    assert (state["next"], state["interrupts"][0]["value"]["question"]) == (["agent"], "Which word?")
    newest, first = (await client.post(f"{thread}/history", {})).json()
    assert newest == state
    assert newest["parent_checkpoint"] == first["checkpoint"]
    assert words(first["values"]) == [("human", "hello"), ("ai", "hello")]
    earlier = (await client.post(f"{thread}/history", {"before": newest["checkpoint"]})).json()
    assert earlier == [first]


async def test_copy_goes_on_alone(client):
    thread = f"/threads/{await client.thread()}"
    await client.wait(thread, "hello")
    copied = (await client.post(f"{thread}/copy")).json()
    await client.wait(f"/threads/{copied['thread_id']}", "again")
    assert len((await client.get(thread)).json()["values"]["messages"]) == 2
    values = (await client.get(f"/threads/{copied['thread_id']}")).json()["values"]
    assert [text for kind, text in words(values) if kind == "human"] == ["hello", "again"]


async def test_threads_without_a_key(nobody):
    assert (await nobody.post("/threads/search", {})).json() == []
    assert (await nobody.post("/threads", {"thread_id": str(uuid.uuid4())})).status_code in (404, 422)
