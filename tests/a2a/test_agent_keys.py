"""For a key that is limited to agents, there are no others, at any door."""

import pytest

import db
from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from tests.a2a.calling import Caller, message
from tests.api.calling import Caller as Client

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def key(ada, echo, hello) -> str:
    return (await db.run(ApiKey.issue, ada, "for echo", agents=["echo"]))[1]


def seen(answer):
    return answer.status, getattr(answer, "content", None) or {**answer.body, "id": None}


async def test_another_agent_is_refused_as_one_that_there_is_not(worker, key, hello, public_echo):
    assert (await Caller("echo", key).send(message("hi"))).result["task"]
    unknown = await Caller("nobody", key).send(message("hi"))
    for slug in ("hello", "open-echo"):
        assert seen(await Caller(slug, key).send(message("hi"))) == seen(unknown)
    asked = {"message": message("hi"), "tenant": "hello"}
    nobody = await Caller("", key).call("SendMessage", asked | {"tenant": "nobody"})
    assert seen(await Caller("", key).call("SendMessage", asked)) == seen(nobody)


async def test_the_client_api_shows_only_its_agents_sessions_and_tasks(worker, ada_key, key, echo, hello):
    for slug in ("echo", "hello"):
        assert (await Caller(slug, ada_key).send(message("hi"))).result
    everything, limited = Client(ada_key), Client(key)
    sessions = (await everything.get("/sessions")).body["items"]
    shown = (await limited.get("/sessions")).body["items"]
    assert (len(sessions), len(shown)) == (2, 1)
    [hidden] = {one["id"] for one in sessions} - {one["id"] for one in shown}
    unknown = await limited.get("/sessions/00000000-0000-4000-8000-000000000000")
    assert seen(await limited.get(f"/sessions/{hidden}")) == seen(unknown)
    assert [one["slug"] for one in (await limited.get("/agents")).body["items"]] == ["echo"]
    assert (await limited.get("/agents/hello")).status == 404
    begun = await limited.post("/sessions", {"agent": "hello"})
    missing = await limited.post("/sessions", {"agent": "nobody"})
    assert (begun.status, begun.code) == (missing.status, missing.code)


async def test_a_key_whose_agent_is_gone_reaches_nothing(key, echo):
    await Agent.objects.filter(pk=echo.pk).aupdate(slug="renamed")
    assert (await Client(key).get("/agents")).body["items"] == []
