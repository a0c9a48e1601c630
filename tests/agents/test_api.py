"""The client API lists and finds the agents that a caller may use."""

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from apps.agents.models import Agent, AgentStats
from apps.remote.models import RemoteAgent
from parley import db
from tests.remote.registered import remote_agent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def secret(echo):
    agent = Agent.objects.create(
        slug="secret", name="Secret", description="Hidden.", handler=echo.handler, access=Agent.Access.GROUPS,
        workspace=echo.workspace,
    )  # fmt: skip
    agent.groups.add(Group.objects.create(name="few"))
    return agent


async def test_agents_are_listed_with_card_health_and_measurements(ada_calls, echo, countdown, secret):
    await db.run(_measure, echo)
    body = (await ada_calls.get("/agents")).body
    assert [one["slug"] for one in body["items"]] == ["countdown", "echo"]
    assert body["nextCursor"] == ""
    shown = body["items"][1]
    assert shown["cardUrl"].endswith("/a2a/echo/.well-known/agent-card.json")
    assert shown["health"] == {"status": "degraded", "reason": shown["health"]["reason"]}
    assert "gone" not in shown["health"]["reason"], "what ails it is for operators"
    assert (shown["stats"]["latencyMs"], shown["stats"]["successRate"]) == (1500, 0.75)
    assert body["items"][0]["stats"] is None


async def test_a_remote_agent_says_who_signed_its_card(ada_calls, echo):
    trust = {"verified": "verified", "unsigned": "unsigned", "unverified": "not_trusted"}
    for signature in trust:
        agent = await db.run(remote_agent, f"{signature}-agent")
        await db.run(RemoteAgent.objects.filter(agent=agent).update, signature=signature)
    expected = {"echo": None, **{f"{signature}-agent": word for signature, word in trust.items()}}
    for address in ("/agents", "/agents/search?q=agent"):
        items = (await ada_calls.get(address)).body["items"]
        assert {one["slug"]: one["cardTrust"] for one in items}.items() <= expected.items(), address
        assert len(items) >= len(trust), address
    assert (await ada_calls.get("/agents/unverified-agent")).body["cardTrust"] == "not_trusted"


def _measure(agent):
    Agent.objects.filter(pk=agent.pk).update(health="degraded", ailment="The disk is gone.")
    AgentStats.objects.create(agent=agent, runs=4, succeeded=3, took_p50=1.0, waited_p50=0.5, updated_at=timezone.now())


async def test_unlisted_agent_is_listed_on_request_only(ada_calls, echo, countdown):
    await db.run(lambda: Agent.objects.filter(pk=echo.pk).update(listed=False, category="Tests"))
    for asked, found in (("", ["countdown"]), ("?listed=false", ["echo"]), ("?listed=all", ["countdown", "echo"])):
        body = (await ada_calls.get(f"/agents{asked}")).body
        assert [one["slug"] for one in body["items"]] == found, asked
    assert (await ada_calls.get("/agents?listed=maybe")).fields == ["listed"]
    one = (await ada_calls.get("/agents/echo")).body
    assert (one["listed"], one["category"]) == (False, "Tests")
    assert (await ada_calls.get("/agents/search?q=echo")).body == {"items": []}


async def test_search_is_narrowed_and_nonsense_refused(ada_calls, echo, countdown):
    found = (await ada_calls.get("/agents/search?q=countdown")).body["items"]
    assert (found[0]["slug"], found[0]["fit"]["score"] > 0) == ("countdown", True)
    both = ["countdown", "echo"]
    for asked, found in (("kind=hosted", both), ("kind=remote", []), ("mode=text/plain&health=ok", both)):
        body = (await ada_calls.get(f"/agents/search?{asked}")).body
        assert sorted(one["slug"] for one in body["items"]) == found, asked
    for asked in ("kind=none", "health=fine", "word=echo", f"q={'a' * 201}", "q=a%00b"):
        answer = await ada_calls.get(f"/agents/search?{asked}")
        assert (answer.status, answer.code, answer.fields) == (422, "invalid", [asked.partition("=")[0]]), asked
