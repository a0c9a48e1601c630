"""An agent that answers in another version of A2A than its card says is called in that one."""

from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import db
from apps.agents.models import Agent
from apps.remote import a2a_client
from apps.remote.a2a_client import Peer
from apps.remote.errors import Refused
from apps.remote.federation import known
from apps.remote.models import RemoteAgent
from tests.remote.conversing import until
from tests.remote.reaching import card_at, said
from tests.remote.registered import remote_agent
from tests.remote.scripted import Scripted, events, refusing, serving, serving_app, task

pytestmark = [pytest.mark.usefixtures("outward"), pytest.mark.django_db(transaction=True)]

OLD_TASK = {"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "completed"}}


@pytest.fixture
def old() -> Iterator[Scripted]:
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


async def test_old_card_may_mean_new_version(old):
    old.sent, old.others = events({"task": task("COMPLETED")}), {}
    async with a2a_client.connect(card_at(old.url, version="0.3", streams=False)) as peer:
        assert await states(peer) == ["TASK_STATE_COMPLETED"]


async def test_the_paths_of_the_other_version_are_tried():
    async def answer(_: Request) -> Response:
        return JSONResponse({"task": task("COMPLETED")})

    app = Starlette(routes=[Route("/v1/message:send", answer, methods=["POST"])])
    with serving_app(app) as url:
        async with a2a_client.connect(card_at(url.rstrip("/"), "HTTP+JSON", streams=False)) as peer:
            assert await states(peer) == ["TASK_STATE_COMPLETED"]


@pytest.mark.parametrize("code", [-32601, -32600, -32009])
async def test_an_agent_of_neither_version_is_refused(old, code):
    old.sent, old.others = refusing(code, message="first"), {}
    async with a2a_client.connect(card_at(old.url, streams=False)) as peer:
        for _ in range(2):
            with pytest.raises(Refused, match="first"):
                await states(peer)
    assert methods(old) == ["SendMessage", "message/send", "SendMessage"]


async def test_another_refusal_is_not_sent_twice(old):
    old.sent = refusing(-32602)
    async with a2a_client.connect(card_at(old.url, streams=False)) as peer:
        with pytest.raises(Refused):
            await states(peer)
    assert methods(old) == ["SendMessage"]


@pytest.fixture
async def agent(old: Scripted) -> AsyncIterator[Agent]:
    made = await db.run(remote_agent, "far", old.url)
    yield made
    known.forget()


async def test_the_version_that_works_is_remembered(old, agent):
    async with a2a_client.connect_for(agent, None) as peer:
        await peer.get("t1")
    await until(RemoteAgent.objects.filter(spoken_version="0.3").exists)
    async with a2a_client.connect_for(agent, None) as peer:
        await peer.get("t1")
    assert methods(old) == ["GetTask", "tasks/get", "tasks/get"]
