"""An agent that goes away is left alone after a few messages, and works again by itself when it is back."""

import httpx
import pytest

import bridge
from apps.agents.models import Agent
from apps.gateway import breaker
from apps.gateway.models import Breaker
from tests.gateway.conversing import Talk, remote_agent, until, words
from tests.gateway.peers.starting import running
from tests.stack import free_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]


def peer(port):
    return running("tests.gateway.peers.sdk_server", "--port", str(port))


def health_of(agent):
    return Agent.objects.get(pk=agent.pk).health


async def test_an_agent_that_goes_away_is_left_alone_and_taken_up_again_when_it_is_back(ada, settings):
    settings.REMOTE_RETRY_SECONDS = 0.1
    settings.REMOTE_BREAKER_FAILURES = 3
    settings.REMOTE_BREAKER_SECONDS = (600.0, 600.0)
    port = free_port()
    with peer(port) as url:
        async with httpx.AsyncClient() as client:
            card = (await client.get(f"{url}.well-known/agent-card.json")).json()
        talk = Talk(ada, await bridge.run(remote_agent, card))
        assert (await talk.ask("hello")).state == "completed"
    for _ in range(3):
        failed = await talk.ask("hello")
        assert failed.state == "failed"
        assert "cannot be reached" in words(failed)
    await until(lambda: health_of(talk.agent) == "unavailable")
    with peer(port):
        refused = await talk.ask("hello")
        assert refused.state == "failed"
        assert words(refused).startswith("Cast failed again and again and is left alone for now. Try again in ")
        await bridge.run(Breaker.objects.filter(agent=talk.agent).update, retry_at="2020-01-01T00:00:00Z")
        breaker.forget()
        assert (await talk.ask("hello")).state == "completed"
        await until(lambda: health_of(talk.agent) == "ok")
        assert (await talk.ask("hello")).state == "completed"
