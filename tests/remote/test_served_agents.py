"""Parley talks with an agent that `agentkit serve` serves."""

import httpx
import pytest

from agentkit.serving import application
from apps.engine import cancel
from apps.record.models import Event
from parley import db
from tests.agentkit.test_serving import Listener, Travel
from tests.remote.conversing import Talk, delivered, is_whole, remote_agent, until, words
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


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker", "outward")
async def test_served_agent_reads_and_stops_in_its_turn(ada):
    with serving_app(application(Listener)) as url:
        async with httpx.AsyncClient() as http:
            card = (await http.get(f"{url}.well-known/agent-card.json")).json()
        card["supportedInterfaces"][0]["url"] = url
        talk = Talk(ada, await db.run(remote_agent, card))
        task = await talk.say("one")
        for number, text in enumerate(("two", "three"), 1):
            await talk.say(text, task=task)
            await until(lambda n=number: _read(task) == n)
        assert await db.run(cancel.stop_after_step, task, ada.pk)
        done = await talk.settled(task)
        assert (done.state, words(done)) == ("completed", "one two three")
        assert await db.run(lambda: done.runs.count()) == 1
        assert await db.run(is_whole, done)


def _read(task):
    return Event.objects.filter(task=task.pk, type="agent_read").count()
