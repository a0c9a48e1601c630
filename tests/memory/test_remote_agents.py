"""Remote agents are told what a person allows, if their card asks for it."""

import pytest

from apps.conversations.sessions import commands
from apps.optional.memory import rights
from apps.optional.memory.models import AgentMemory
from apps.record.execution import Run
from parley import db
from tests.remote.conftest import outward  # noqa: F401 fixture
from tests.remote.conversing import Talk, remote_agent
from tests.remote.scripted import serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def near(outward, worker):  # noqa: F811
    with serving() as scripted:
        yield scripted


async def test_card_and_person_allow_telling(ada, known, near):
    await db.run(known, "Eats no meat.")
    uri = "https://other.example/ext/memory/v1"
    near.tells("COMPLETED", "Green it is.")
    agents = [
        await db.run(lambda: remote_agent(near.card(extensions=[{"uri": uri}]), "asks")),
        await db.run(lambda: remote_agent(near.card(), "silent")),
    ]
    for agent, uses in ((agents[0], None), (agents[1], "read"), (agents[0], "read")):
        if uses:
            await db.run(rights.choose, ada.principal, agent, AgentMemory.Uses(uses))
        context = await db.run(lambda: commands.create_session(ada.principal, agent).context)  # noqa: B023
        await Talk(ada, agent, context.context_id).ask("hello")
    *untold, told = near.sends
    assert "meat" not in str(untold)
    assert [one["text"] for one in told["metadata"][uri]["entries"]] == ["Eats no meat."]
    assert "meat" not in await db.run(lambda: str(list(Run.objects.values_list("input", flat=True))))
