"""Parley talks with an agent that `agentkit serve` serves."""

import httpx
import pytest

from agentkit.serving import application
from parley import db
from tests.agentkit.test_serving import Travel
from tests.remote.conversing import Talk, delivered, is_whole, remote_agent, words
from tests.remote.scripted import serving_app


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker", "outward")
async def test_parley_talks_with_served_agent(ada):
    with serving_app(application(Travel)) as url:
        async with httpx.AsyncClient() as http:
            card = (await http.get(f"{url}.well-known/agent-card.json")).json()
        card["supportedInterfaces"][0]["url"] = url
        talk = Talk(ada, await db.run(remote_agent, card))
        asked = await talk.ask("A trip")
        assert (asked.state, asked.slot["schema"]["properties"].keys()) == ("input-required", {"to"})
        done = await talk.ask("Rome", task=asked)
        assert (done.state, words(done)) == ("completed", "Booked: Rome.")
        assert (await db.run(delivered, done))["ticket.txt"] == "To Rome"
        assert await db.run(is_whole, done)
