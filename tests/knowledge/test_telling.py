"""Agents search what they were given, for who asks: by `task.search`, or by their model's tool."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from apps.agents.definitions import Definition
from apps.agents.registration import register_hosted, register_model
from apps.conversations.sessions import commands
from apps.engine import accept
from apps.engine.send import send
from apps.engine.turns.assignment import current_assignment, searcher_in
from apps.optional.knowledge import telling
from apps.optional.knowledge.models import AgentCollection, Collection, Passage
from apps.optional.projects import projects
from apps.optional.projects.models import Project
from apps.record.models import Event, Message, Task
from parley import db
from tests.engine.delegating import done, ended, words
from tests.knowledge.conftest import put
from tests.members import member
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
    sent = await send(ada.principal, agent, said(QUESTION))
    assert leave in str(sent.answer)
    in_passing = await send(ada.principal, agent, said(QUESTION), temporary=True)
    again = await send(ada.principal, agent, said(QUESTION, contextId=in_passing.answer["contextId"]))
    assert leave not in f"{in_passing.answer}{again.answer}"


async def test_temporary_sessions_find_what_all_callers_find(ada, handbook, leave, finder, said, worker):
    gift = await db.run(given, finder, handbook)
    sent = await send(ada.principal, finder, said(QUESTION), temporary=True)
    assert words(await ended(sent)) == "nothing"
    await db.run(lambda: AgentCollection.objects.filter(pk=gift.pk).update(is_for_callers=True))
    sent = await send(ada.principal, finder, said(QUESTION), temporary=True)
    assert leave in words(await ended(sent))


def turn_of(principal, agent, message, **fields):
    """What a turn knows of who asks."""
    receipt = accept.accept(principal, agent, message, **fields)
    task = Task.objects.select_related("context", "owner").get(pk=receipt.task)
    return SimpleNamespace(agent=agent, task=task, message=Message.objects.get(task=task))


def test_author_of_the_message_asks(ada, bob, finder, said):
    colleague = member(bob, ada)
    turn = turn_of(ada.principal, finder, said())
    assert searcher_in(turn) == ada.principal
    turn.message.author_id = bob.pk
    assert searcher_in(turn) == colleague
    child = turn_of(ada.principal, finder, said(), sender="task", parent=turn.task.pk)
    Message.objects.filter(task=turn.task).update(author=bob.pk)
    assert searcher_in(child) == colleague


def test_key_for_some_agents_finds_through_them_alone(ada, finder, echo, said):
    narrow = replace(ada.principal, agents=frozenset({finder.slug, echo.slug}))
    turn = turn_of(narrow, finder, said())
    child = turn_of(ada.principal, echo, said(), sender="task", parent=turn.task.pk)
    assert searcher_in(turn).agents == searcher_in(child).agents == {finder.slug}


def test_turns_cost_nothing_without_knowledge(ada, finder, said, django_assert_num_queries):
    token = current_assignment.set(turn_of(ada.principal, finder, said()))
    try:
        with django_assert_num_queries(1):
            assert telling.tools_for(None) == []
    finally:
        current_assignment.reset(token)


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
