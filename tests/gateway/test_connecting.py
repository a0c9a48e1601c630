"""Speaking with the SDK's own server, by each of the bindings and versions that Parley knows."""

import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from apps.gateway import connecting
from apps.gateway.connecting import Peer
from apps.gateway.errors import BadCard, Refused
from tests.gateway.peers import sdk_server
from tests.gateway.peers.starting import running
from tests.gateway.reaching import JSON, card_at, said, this_machine_open

WAYS = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
KINDS = {"task", "message", "statusUpdate", "artifactUpdate"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running("tests.gateway.peers.sdk_server") as base:
        yield base


@pytest.fixture(autouse=True)
def _open() -> Iterator[None]:
    with this_machine_open():
        yield


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@asynccontextmanager
async def reached(url: str, way: tuple[str, str] = WAYS[0], **options: bool) -> AsyncIterator[Peer]:
    async with connecting.peer(card_at(url, *way, **options)) as peer:
        yield peer


async def all_of(peer: Peer, text: str, **options: bool) -> list[JSON]:
    return [event async for event in peer.send(said(text), **options)]


def texts(events: list[JSON]) -> str:
    updates = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    return "".join(part["text"] for artifact in updates for part in artifact["parts"])


async def test_a_stream_comes_as_events_of_1_0_whatever_the_agent_speaks(url, way):
    async with reached(url, way) as peer:
        events = await all_of(peer, "count 4")
    assert [next(iter(event)) for event in events] == ["task", *["artifactUpdate"] * 4, "statusUpdate"]
    assert all(len(event) == 1 and set(event) <= KINDS for event in events)
    assert texts(events) == "1 2 3 4 "
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_one_answer_is_the_task_as_it_ended(url, way):
    async with reached(url, way) as peer:
        [answer] = await all_of(peer, "hello", streaming=False)
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    [artifact] = answer["task"]["artifacts"]
    assert artifact["parts"] == [{"text": "You said: hello"}]


async def test_an_agent_that_cannot_stream_is_not_asked_to(url, way):
    async with reached(url, way, streams=False) as peer:
        [answer] = await all_of(peer, "hello")
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_agent_need_not_be_waited_for(url, way):
    async with reached(url, way) as peer:
        sending = peer.send(said("wait"), {"returnImmediately": True}, streaming=False)
        [answer] = [event async for event in sending]
        assert answer["task"]["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
        await peer.cancel(answer["task"]["id"])


async def test_a_message_may_be_the_whole_answer(url, way):
    async with reached(url, way) as peer:
        for streaming in (True, False):
            [answer] = await all_of(peer, "message hi", streaming=streaming)
            assert answer["message"]["parts"] == [{"text": "hi"}]


async def test_a_question_is_answered_on_the_same_task(url, way):
    async with reached(url, way) as peer:
        [asked] = await all_of(peer, "ask", streaming=False)
        assert asked["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert asked["task"]["status"]["message"]["parts"] == [{"text": "Which colour?"}]
        ids = {"taskId": asked["task"]["id"], "contextId": asked["task"]["contextId"]}
        events = [event async for event in peer.send(said("blue", **ids))]
    assert texts(events) == "You said: blue"


async def test_a_failure_comes_with_its_words(url, way):
    async with reached(url, way) as peer:
        events = await all_of(peer, "fail")
    status = events[-1]["statusUpdate"]["status"]
    assert status["state"] == "TASK_STATE_FAILED"
    assert status["message"]["parts"] == [{"text": "It broke."}]


async def test_work_is_looked_at_followed_and_canceled(url, way):
    async with reached(url, way) as peer:
        sending = peer.send(said("wait"))
        task_id = (await anext(sending))["task"]["id"]
        assert (await peer.get(task_id))["id"] == task_id
        following = peer.subscribe(task_id)
        assert (await anext(following))["task"]["id"] == task_id
        await following.aclose()
        assert (await peer.cancel(task_id))["status"]["state"] == "TASK_STATE_CANCELED"
        *_, last = [event async for event in sending]
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_history_is_given_as_long_as_asked_for(url, way):
    async with reached(url, way) as peer:
        [answer] = await all_of(peer, "hello", streaming=False)
        whole = await peer.get(answer["task"]["id"])
        assert [message["parts"] for message in whole["history"]] == [[{"text": "hello"}]]
        if way[1] == "1.0":  # for 0.3, 0 is no limit
            assert "history" not in await peer.get(answer["task"]["id"], history_length=0)


async def test_files_go_both_ways(url, way):
    raw = base64.b64encode(b"\x00\xff" * 100).decode()
    file = {"raw": raw, "filename": "bytes.bin", "mediaType": "application/octet-stream"}
    async with reached(url, way) as peer:
        sent = {"messageId": "m", "role": "ROLE_USER", "parts": [file]}
        [answer] = [event async for event in peer.send(sent, streaming=False)]
        assert answer["task"]["artifacts"][0]["parts"] == [{"text": "Got bytes.bin of 200 bytes"}]
        [answer] = await all_of(peer, "file", streaming=False)
    [part] = answer["task"]["artifacts"][0]["parts"]
    assert base64.b64decode(part["raw"]) == sdk_server.FILE
    assert (part["filename"], part["mediaType"]) == ("table.csv", "text/csv")


async def test_data_and_metadata_arrive_as_they_were_given(url, way):
    about = {"https://example.org/x": {"n": 1, "deep": [True, None, "ü\u2028"]}}
    message = said("look", metadata=about) | {"parts": [{"text": "look"}, {"data": {"n": 2}}]}
    async with reached(url, way) as peer:
        [answer] = [event async for event in peer.send(message, streaming=False)]
        [data] = await all_of(peer, "data", streaming=False)
    [part] = answer["task"]["artifacts"][0]["parts"]
    assert part["data"]["metadata"] == about
    assert part["data"]["parts"][1]["data"] == {"n": 2}
    assert data["task"]["artifacts"][0]["parts"] == [{"data": {"n": 1, "list": [1.5, None, "x"]}}]


async def test_a_webhook_is_set(url, way):
    config = {"id": "w", "url": "http://127.0.0.1:9/hook", "token": "secret"}
    async with reached(url, way) as peer:
        sending = peer.send(said("wait"), {"returnImmediately": True}, streaming=False)
        task_id = (await anext(sending))["task"]["id"]
        await sending.aclose()
        kept = await peer.set_webhook(task_id, config)
        await peer.cancel(task_id)
    assert (kept["taskId"], kept["url"], kept["token"]) == (task_id, config["url"], "secret")


async def test_what_the_agent_refuses_has_its_name_and_words(url, way):
    async with reached(url, way) as peer:
        with pytest.raises(Refused, match="refused") as refused:
            await peer.get("nobody-knows")
        assert refused.value.reason == "TASK_NOT_FOUND"
        assert (refused.value.was_sent, refused.value.is_transient) == (True, False)
        [ended] = await all_of(peer, "hello", streaming=False)
        with pytest.raises(Refused) as refused:
            await peer.cancel(ended["task"]["id"])
        assert refused.value.reason == "TASK_NOT_CANCELABLE"


async def test_an_id_cannot_lead_to_another_address(url):
    async with reached(url, ("HTTP+JSON", "1.0")) as peer:
        for odd in ("../card", "x/../../tasks", "x?y=z", "x:cancel", "%2e%2e"):
            with pytest.raises(Refused) as refused:
                await peer.get(odd)
            assert refused.value.status == 404


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([("GRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "1.0")], ("HTTP+JSON", "1.0")),
        ([("JSONRPC", "0.3"), ("JSONRPC", "1.0")], ("JSONRPC", "0.3")),
        ([("JSONRPC", "2.0"), ("JSONRPC", "1.0.3")], ("JSONRPC", "1.0")),
        ([("JSONRPC", "0.3.0")], ("JSONRPC", "0.3")),
        ([("JSONRPC", "")], ("JSONRPC", "1.0")),
    ],
)
def test_the_first_interface_that_both_know_is_used(offered, chosen):
    card = card_at("https://a.example/x")
    del card.supported_interfaces[:]
    for binding, version in offered:
        card.supported_interfaces.add(url="https://A.example/x", protocol_binding=binding, protocol_version=version)
    interface = connecting.choose(card)
    assert (interface.binding, interface.version) == chosen
    assert interface.origin == "https://a.example:443"


@pytest.mark.parametrize(
    "offered", [[], [("GRPC", "1.0")], [("JSONRPC", "1.1")], [("JSONRPC", "one")], [("SOAP", "1.0")]]
)
def test_without_one_the_card_is_no_good(offered):
    card = card_at("https://a.example/x")
    del card.supported_interfaces[:]
    for binding, version in offered:
        card.supported_interfaces.add(url="https://a.example/x", protocol_binding=binding, protocol_version=version)
    with pytest.raises(BadCard, match="JSONRPC or HTTP\\+JSON"):
        connecting.choose(card)
