"""Agents search what they were given, for who asks: by `task.search`, or by their model's tool."""

import pytest

from apps.agents.definitions import Definition
from apps.agents.registration import register_hosted, register_model
from apps.conversations.sessions import commands
from apps.engine.send import BY_MESSAGE, answer_with_message
from apps.optional.knowledge.models import AgentCollection, Collection, Passage
from apps.optional.projects import projects
from apps.optional.projects.models import Project
from apps.record.models import Event
from parley import db
from tests.engine.delegating import done, words
from tests.knowledge.conftest import put
from tests.model_agents.conftest import endpoint  # noqa: F401 fixture
from tests.model_agents.endpoint import calls, says

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = "Leave is thirty days."
QUESTION = "How many days of leave are there?"


@pytest.fixture
def leave(handbook):
    put(handbook, "leave.md", TEXT)
    return f'[1](/knowledge/passages/{Passage.objects.get().ref} "leave.md")'


@pytest.fixture
def finder(db):
    return register_hosted("finder", "tests.knowledge.agents:Finder")


def given(agent, collection, **fields):
    return AgentCollection.objects.create(agent=agent, collection=collection, **fields)


async def test_handler_finds_for_who_sees_the_collection(ada, bob, handbook, leave, finder, said, worker):
    assert words(await done(ada.principal, finder, said(QUESTION))) == "nothing"
    gift = await db.run(given, finder, handbook)
    task = await done(ada.principal, finder, said(QUESTION))
    assert words(task) == f"{TEXT} {leave}"
    [result] = await db.run(lambda: list(Event.objects.filter(task=task, type="agent_tool_result")))
    assert TEXT in str(result.payload)
    assert words(await done(bob.principal, finder, said(QUESTION))) == "nothing"
    await db.run(lambda: AgentCollection.objects.filter(pk=gift.pk).update(is_for_callers=True))
    assert words(await done(bob.principal, finder, said(QUESTION))) == f"{TEXT} {leave}"


async def test_answer_without_a_task_finds_too(ada, handbook, leave, said):
    agent = await db.run(register_hosted, "answerer", "tests.knowledge.agents:Answerer")
    await db.run(given, agent, handbook)
    sent = await answer_with_message(ada.principal, agent, said(QUESTION), BY_MESSAGE)
    assert leave in str(sent.answer)


async def test_sessions_of_a_project_search_its_collections(ada, handbook, leave, finder, said, worker):
    trip = await db.run(projects.save, ada.principal, Project(name="Trip"))
    await db.run(lambda: Collection.objects.filter(pk=handbook.pk).update(project=trip.pk))
    session = (await db.run(lambda: commands.create_session(ada.principal, finder, project=trip.pk))).context
    assert leave in words(await done(ada.principal, finder, said(QUESTION, contextId=session.context_id)))
    assert words(await done(ada.principal, finder, said(QUESTION))) == "nothing"


class TestModels:
    @pytest.fixture
    def helper(self, db):
        about = {"name": "Helper", "description": "Helps.", "instructions": "Help the user."}
        return register_model("helper", Definition(**about))

    async def test_model_searches_and_gets_links_to_cite(self, endpoint, ada, handbook, leave, helper, said, worker):  # noqa: F811
        await db.run(given, helper, handbook)
        endpoint.replies = [calls(("search_knowledge", {"query": QUESTION})), says(f"Thirty {leave}.")]
        assert words(await done(ada.principal, helper, said(QUESTION))) == f"Thirty {leave}."
        first, second = (str(one) for one in endpoint.requests)
        assert "Handbook" in first
        assert TEXT in second.partition("<outside ")[2]
        assert leave in second.replace('\\"', '"')

    async def test_model_has_no_tool_without_knowledge(self, endpoint, bob, handbook, leave, helper, said, worker):  # noqa: F811
        await db.run(given, helper, handbook)
        endpoint.replies = [says("Hello.")]
        await done(bob.principal, helper, said("hello"))
        assert "search_knowledge" not in str(endpoint.requests[-1].get("tools"))

    async def test_number_stays_a_passages_own(self, endpoint, ada, handbook, leave, helper, said, worker):  # noqa: F811
        await db.run(put, handbook, "bicycles.md", "Bicycles stand in the yard.")
        await db.run(given, helper, handbook)
        asked = [calls(("search_knowledge", {"query": one})) for one in ("bicycles", "leave")]
        endpoint.replies = [*asked, says("Done.")]
        await done(ada.principal, helper, said(QUESTION))
        assert leave.replace("[1]", "[2]") in str(endpoint.requests[-1]).replace('\\"', '"')
