"""Calls to the SDK's server, over each binding and version that Parley knows."""

import asyncio
import base64
from contextlib import AbstractAsyncContextManager

import pytest
from a2a.types import StreamResponse
from google.protobuf import json_format

from apps.remote import a2a_client
from apps.remote.a2a_client import Peer
from apps.remote.agent_cards import cards
from apps.remote.errors import BadCard, Refused
from apps.remote.models import RemoteAgent
from apps.remote.wire_shapes import is_exact
from parley import db
from tests.outbound.receiving import server
from tests.remote import peers
from tests.remote.conversing import until
from tests.remote.reaching import JSON, answer, card_at, event, head, said, task
from tests.remote.registered import remote_agent
from tests.remote.scripted import Scripted, events, refusing, serving

pytestmark = pytest.mark.usefixtures("outward")

WAYS = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
each_way = pytest.mark.parametrize("way", WAYS, ids="-".join)


def reached(way: tuple[str, str], **options: bool) -> AbstractAsyncContextManager[Peer]:
    return a2a_client.connect(card_at(peers.peer().url, *way, **options))


async def all_of(peer: Peer, text: str, *configuration: JSON, streaming: bool = True, **fields: object) -> list[JSON]:
    return [event async for event in peer.send({**said(text), **fields}, *configuration, streaming=streaming)]


async def answer_of(peer: Peer, text: str, *configuration: JSON, **fields: object) -> JSON:
    [answer] = await all_of(peer, text, *configuration, streaming=False, **fields)
    return answer["task"]


def texts(events: list[JSON]) -> str:
    updates = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    return "".join(part["text"] for artifact in updates for part in artifact["parts"])


@each_way
async def test_streams_come_as_events_of_1_0(way):
    async with reached(way) as peer:
        events = await all_of(peer, "count 4")
        failed = (await all_of(peer, "fail"))[-1]["statusUpdate"]["status"]
        [message] = await all_of(peer, "message hi")
    assert [list(event) for event in events] == [["task"], *[["artifactUpdate"]] * 4, ["statusUpdate"]]
    assert texts(events) == "1 2 3 4 "
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert failed["state"] == "TASK_STATE_FAILED"
    assert failed["message"]["parts"] == [{"text": "This went wrong, as was asked."}]
    assert message["message"]["parts"] == [{"text": "hi"}]


@each_way
async def test_single_answers_are_tasks_that_go_on(way):
    async with reached(way) as peer:
        done = await answer_of(peer, "hello")
        [message] = await all_of(peer, "message hi", streaming=False)
        asked = await answer_of(peer, "ask")
        events = await all_of(peer, "blue", taskId=asked["id"], contextId=asked["contextId"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [one["parts"] for one in done["artifacts"]] == [[{"text": "hello"}]]
    assert message["message"]["parts"] == [{"text": "hi"}]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert asked["status"]["message"]["parts"] == [{"text": "Which word?"}]
    assert texts(events) == "It was blue."
    async with reached(way, streams=False) as peer:
        [answer] = await all_of(peer, "hello")
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@each_way
async def test_work_is_got_followed_canceled_and_hooked(way):
    config = {"id": "w", "url": "http://127.0.0.1:9/hook", "token": "secret"}
    async with reached(way) as peer:
        sending = peer.send(said("wait"))
        task_id = (await anext(sending))["task"]["id"]
        assert (await peer.get(task_id))["id"] == task_id
        following = peer.subscribe(task_id)
        assert (await anext(following))["task"]["id"] == task_id
        await following.aclose()
        assert (await peer.cancel(task_id))["status"]["state"] == "TASK_STATE_CANCELED"
        *_, last = [event async for event in sending]
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
        other = await answer_of(peer, "wait", {"returnImmediately": True})
        assert other["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
        kept = await peer.set_webhook(other["id"], config)
        await peer.cancel(other["id"])
        assert (kept["taskId"], kept["url"], kept["token"]) == (other["id"], config["url"], "secret")


@each_way
async def test_files_data_and_metadata_arrive_unchanged(way):
    raw = base64.b64encode(b"\x00\xff" * 100).decode()
    file = {"raw": raw, "filename": "bytes.bin", "mediaType": "application/octet-stream"}
    about = {"https://example.org/x": {"n": 1, "deep": [True, None, "ü\u2028"]}}
    async with reached(way) as peer:
        took = await answer_of(peer, "", parts=[file])
        made = await answer_of(peer, "file")
        seen = await answer_of(peer, "look", metadata=about, parts=[{"text": "look"}, {"data": {"n": 2}}])
        data = await answer_of(peer, "data")
        whole = await peer.get(took["id"])
        if way[1] == "1.0":  # for 0.3, 0 means no limit
            assert "history" not in await peer.get(took["id"], history_length=0)
    assert took["artifacts"][0]["parts"] == [{"text": peers.described("bytes.bin", b"\x00\xff" * 100)}]
    [part] = made["artifacts"][0]["parts"]
    assert base64.b64decode(part["raw"]) == peers.FILE
    assert (part["filename"], part["mediaType"]) == ("all.bin", "application/octet-stream")
    [part] = seen["artifacts"][0]["parts"]
    assert (part["data"]["metadata"], part["data"]["parts"][1]["data"]) == (about, {"n": 2})
    assert data["artifacts"][0]["parts"] == [{"data": {"n": 1, "list": [1.5, None, "x"]}}]
    assert isinstance(data["artifacts"][0]["parts"][0]["data"]["n"], int), "though protobuf makes 1.0 of it"
    assert [message["parts"][0]["filename"] for message in whole["history"]] == ["bytes.bin"]


async def test_an_id_cannot_lead_to_another_address():
    async with reached(("HTTP+JSON", "1.0")) as peer:
        for odd in ("../card", "x?y=z", "x:cancel", "%2e%2e"):
            with pytest.raises(Refused) as refused:
                await peer.get(odd)
            assert refused.value.status == 404


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([("GRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "1.0")], ("HTTP+JSON", "1.0")),
        ([("JSONRPC", "0.3"), ("JSONRPC", "1.0")], ("JSONRPC", "0.3")),
        ([("JSONRPC", "2.0"), ("JSONRPC", "1.0.3")], ("JSONRPC", "1.0")),
        ([("JSONRPC", "")], ("JSONRPC", "1.0")),
        ([("GRPC", "1.0")], None),
        ([("JSONRPC", "1.1")], None),
    ],
)
def test_first_interface_that_both_know_is_used(offered, chosen):
    card = card_at("https://a.example/x")
    del card.supported_interfaces[:]
    for binding, version in offered:
        card.supported_interfaces.add(url="https://A.example/x", protocol_binding=binding, protocol_version=version)
    if chosen is None:
        with pytest.raises(BadCard, match="JSONRPC or HTTP\\+JSON"):
            cards.choose_interface(card)
        return
    interface = cards.choose_interface(card)
    assert (interface.binding, interface.version) == chosen
    assert interface.origin == "https://a.example:443"


# An agent that answers in another version than its card says is called in that one

OLD_TASK = {"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "completed"}}


@pytest.fixture
def old():
    """It knows 0.3 only."""
    with serving() as agent:
        agent.sent = refusing(-32601)
        agent.unknown = ("GetTask",)
        agent.others = {"message/send": OLD_TASK, "tasks/get": OLD_TASK}
        yield agent


def methods(agent: Scripted) -> list[str]:
    return [method for method, _ in agent.requests]


async def states(peer: Peer) -> list[str]:
    return [event["task"]["status"]["state"] async for event in peer.send(said("hello"))]


async def test_the_other_version_is_tried_once(old):
    learned: list[str] = []
    async with a2a_client.connect(card_at(old.url, streams=False), on_other_version=learned.append) as peer:
        assert await states(peer) == await states(peer) == ["TASK_STATE_COMPLETED"]
        assert (await peer.get("t1"))["id"] == "t1"
    assert methods(old) == ["SendMessage", "message/send", "message/send", "tasks/get"]
    assert learned == ["0.3"]
    old.sent, old.others = events({"task": task("TASK_STATE_COMPLETED")}), {}
    async with a2a_client.connect(card_at(old.url, version="0.3", streams=False)) as peer:
        assert await states(peer) == ["TASK_STATE_COMPLETED"], "an old card may mean a new version"


@pytest.mark.parametrize(
    ("code", "called"),
    [(-32601, ["SendMessage", "message/send", "SendMessage"]), (-32602, ["SendMessage", "SendMessage"])],
)
async def test_agents_of_neither_version_are_refused(old, code, called):
    """The second call tries no other version; nor does one after a refusal that is not about versions."""
    old.sent, old.others = refusing(code, message="first"), {}
    async with a2a_client.connect(card_at(old.url, streams=False)) as peer:
        for _ in range(2):
            with pytest.raises(Refused, match="first"):
                await states(peer)
    assert methods(old) == called


@pytest.mark.django_db(transaction=True)
async def test_the_version_that_works_is_remembered(old):
    agent = await db.run(remote_agent, "far", old.url)
    async with a2a_client.connect_for(agent, None) as peer:
        await peer.get("t1")
    await until(RemoteAgent.objects.filter(spoken_version="0.3").exists)
    async with a2a_client.connect_for(agent, None) as peer:
        await peer.get("t1")
    assert methods(old) == ["GetTask", "tasks/get", "tasks/get"]


# Connections

ASKED = {"task": task()}


async def test_hung_agents_take_no_connection_from_others(settings):
    settings.REMOTE_CONNECTIONS = 2
    came, may_answer = asyncio.Semaphore(0), asyncio.Event()

    async def hangs(_, writer):
        came.release()
        await may_answer.wait()
        writer.write(answer(task()))

    async def ask(url):
        async with a2a_client.connect(card_at(url)) as peer:
            return await peer.get("t-1")

    async with server(hangs) as hanging, server(answer(task())) as healthy:
        asking = [asyncio.create_task(ask(hanging.url)) for _ in range(3)]
        for _ in range(2):
            await came.acquire()
        assert await ask(healthy.url) == task()
        assert len(hanging.requests) == 2, "the third waits for a connection to its agent"
        may_answer.set()
        assert await asyncio.gather(*asking) == [task()] * 3


async def test_left_streams_give_their_connection_back(settings):
    settings.REMOTE_CONNECTIONS = 1

    async def streaming(_, writer):
        writer.write(head("text/event-stream") + event(ASKED))
        await writer.drain()
        await writer.wait_closed()

    async with server(streaming) as serving:
        for _ in range(3):
            async with a2a_client.connect(card_at(serving.url)) as peer:
                events = peer.send(said("hello"))
                assert await anext(events) == ASKED
                await events.aclose()


EXACT = [
    {"task": {**task(), "artifacts": [{"artifactId": "a", "parts": [{"text": "x"}, {"data": [1.0, None]}]}]}},
    {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"url": "https://a/", "filename": "f"}]}},
    {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": [{"text": ""}]}, "append": True}},
    {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}, "metadata": {"n": 2**60}}},
]
OTHER = [
    {"task": {**task(), "context_id": "c"}},
    {"task": task(state=2)},
    {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"raw": "YQ"}]}},
    {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "a", "url": "https://a/"}]}},
    {"statusUpdate": {"taskId": None, "status": {}}},
]


@pytest.mark.parametrize("event", EXACT)
def test_exact_answers_are_as_protobuf_reads_them(event):
    assert is_exact(event, "event")
    through = a2a_client.to_json(json_format.ParseDict(event, StreamResponse()), event)
    assert a2a_client.read_plain(event, "event") == through


@pytest.mark.parametrize("event", OTHER)
def test_other_answers_go_through_protobuf(event):
    assert not is_exact(event, "event")
