"""A slow import of a handler's module delays nobody else."""

import asyncio

import pytest

import db
from apps.agents.models import Agent
from apps.agents.registration import house_workspace
from apps.engine import loading
from tests.engine import gates

pytestmark = pytest.mark.django_db(transaction=True)


def registered():
    return Agent.objects.create(
        slug="slow", name="Slow", handler="tests.engine.slow_to_import:handler", workspace=house_workspace()
    )


async def test_the_loop_goes_on_while_a_handler_is_imported():
    agent = await db.run(registered)
    importing = asyncio.create_task(loading.handler_of(agent))
    await asyncio.to_thread(gates.IMPORTING.wait, 10)
    gates.GO_ON.set()
    handler = await importing
    assert handler.name == "Handler"
    assert await loading.handler_of(agent) is handler
