"""Calls to the SDK's server, over each binding and version that Parley knows."""

import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from a2a.types import AgentCard

from apps.remote import a2a_client, cards
from apps.remote.a2a_client import Peer
from apps.remote.errors import BadCard, Refused
from tests.remote.peers import acting
from tests.remote.peers.starting import running
from tests.remote.reaching import JSON, card_at, said

pytestmark = pytest.mark.usefixtures("outward")

WAYS = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
KINDS = {"task", "message", "statusUpdate", "artifactUpdate"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running("tests.remote.peers.sdk_server") as base:
        yield base


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@asynccontextmanager
async def reached(url: str, way: tuple[str, str] = WAYS[0], **options: bool) -> AsyncIterator[Peer]:
    async with a2a_client.connect(card_at(url, *way, **options)) as peer:
        yield peer


async def all_of(peer: Peer, text: str, **options: bool) -> list[JSON]:
    return [event async for event in peer.send(said(text), **options)]


async def answer_of(peer: Peer, text: str, **fields: object) -> JSON:
    [answer] = [event async for event in peer.send({**said(text), **fields}, streaming=False)]
    return answer["task"]


async def begun(peer: Peer) -> str:
    """The id of a task that is not waited for."""
    [answer] = [event async for event in peer.send(said("wait"), {"returnImmediately": True}, streaming=False)]
    assert answer["task"]["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    return answer["task"]["id"]


def texts(events: list[JSON]) -> str:
    updates = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    return "".join(part["text"] for artifact in updates for part in artifact["parts"])


async def test_a_stream_comes_as_events_of_1_0_whatever_the_agent_speaks(url, way):
    async with reached(url, way) as peer:
        events = await all_of(peer, "count 4")
        failed = (await all_of(peer, "fail"))[-1]["statusUpdate"]["status"]
        [message] = await all_of(peer, "message hi")
    assert [next(iter(event)) for event in events] == ["task", *["artifactUpdate"] * 4, "statusUpdate"]
    assert all(len(event) == 1 and set(event) <= KINDS for event in events)
    assert texts(events) == "1 2 3 4 "
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (failed["state"], failed["message"]["parts"]) == (
        "TASK_STATE_FAILED",
        [{"text": "This went wrong, as was asked."}],
    )
    assert message["message"]["parts"] == [{"text": "hi"}]


async def test_one_answer_is_the_task_as_it_ended_and_a_question_goes_on_in_it(url, way):
    async with reached(url, way) as peer:
        done = await answer_of(peer, "hello")
        [message] = await all_of(peer, "message hi", streaming=False)
        asked = await answer_of(peer, "ask")
        ids = {"taskId": asked["id"], "contextId": asked["contextId"]}
        events = [event async for event in peer.send(said("blue", **ids))]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [one["parts"] for one in done["artifacts"]] == [[{"text": "hello"}]]
    assert message["message"]["parts"] == [{"text": "hi"}]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert asked["status"]["message"]["parts"] == [{"text": "Which word?"}]
    assert texts(events) == "It was blue."
    async with reached(url, way, streams=False) as peer:
        [answer] = await all_of(peer, "hello")
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_work_is_looked_at_followed_canceled_and_told_by_webhook(url, way):
    config = {"id": "w", "url": "http://127.0.0.1:9/hook", "token": "secret"}
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
        other = await begun(peer)
        kept = await peer.set_webhook(other, config)
        await peer.cancel(other)
        assert (kept["taskId"], kept["url"], kept["token"]) == (other, config["url"], "secret")


async def test_what_is_sent_and_what_is_kept_arrive_as_they_were_given(url, way):
    raw = base64.b64encode(b"\x00\xff" * 100).decode()
    file = {"raw": raw, "filename": "bytes.bin", "mediaType": "application/octet-stream"}
    about = {"https://example.org/x": {"n": 1, "deep": [True, None, "ü\u2028"]}}
    async with reached(url, way) as peer:
        took = await answer_of(peer, "", parts=[file])
        made = await answer_of(peer, "file")
        seen = await answer_of(peer, "look", metadata=about, parts=[{"text": "look"}, {"data": {"n": 2}}])
        data = await answer_of(peer, "data")
        whole = await peer.get(took["id"])
        if way[1] == "1.0":  # for 0.3, 0 means no limit
            assert "history" not in await peer.get(took["id"], history_length=0)
    assert took["artifacts"][0]["parts"] == [{"text": acting.described("bytes.bin", b"\x00\xff" * 100)}]
    [part] = made["artifacts"][0]["parts"]
    assert base64.b64decode(part["raw"]) == acting.FILE
    assert (part["filename"], part["mediaType"]) == ("all.bin", "application/octet-stream")
    [part] = seen["artifacts"][0]["parts"]
    assert (part["data"]["metadata"], part["data"]["parts"][1]["data"]) == (about, {"n": 2})
    assert data["artifacts"][0]["parts"] == [{"data": {"n": 1, "list": [1.5, None, "x"]}}]
    assert isinstance(data["artifacts"][0]["parts"][0]["data"]["n"], int), "though protobuf makes 1.0 of it"
    assert [message["parts"][0]["filename"] for message in whole["history"]] == ["bytes.bin"]


async def test_what_the_agent_refuses_has_its_name_and_words(url, way):
    async with reached(url, way) as peer:
        with pytest.raises(Refused, match="refused") as refused:
            await peer.get("nobody-knows")
        assert refused.value.reason == "TASK_NOT_FOUND"
        assert (refused.value.was_sent, refused.value.is_transient) == (True, False)
        ended = await answer_of(peer, "hello")
        with pytest.raises(Refused) as refused:
            await peer.cancel(ended["id"])
        assert refused.value.reason == "TASK_NOT_CANCELABLE"


async def test_an_id_cannot_lead_to_another_address(url):
    async with reached(url, ("HTTP+JSON", "1.0")) as peer:
        for odd in ("../card", "x/../../tasks", "x?y=z", "x:cancel", "%2e%2e"):
            with pytest.raises(Refused) as refused:
                await peer.get(odd)
            assert refused.value.status == 404


def offering(*offered: tuple[str, str]) -> AgentCard:
    card = card_at("https://a.example/x")
    del card.supported_interfaces[:]
    for binding, version in offered:
        card.supported_interfaces.add(url="https://A.example/x", protocol_binding=binding, protocol_version=version)
    return card


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
    interface = cards.choose_interface(offering(*offered))
    assert (interface.binding, interface.version) == chosen
    assert interface.origin == "https://a.example:443"


@pytest.mark.parametrize("offered", [[], [("GRPC", "1.0")], [("JSONRPC", "1.1")], [("JSONRPC", "one")]])
def test_without_one_the_card_is_no_good(offered):
    with pytest.raises(BadCard, match="JSONRPC or HTTP\\+JSON"):
        cards.choose_interface(offering(*offered))
