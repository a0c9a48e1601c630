"""A model asks other agents: each is a child task, a question of theirs is its own, no version changes meanwhile."""

import pytest

import bridge
from apps.agents.models import Agent
from apps.conversations.models import Run, Task
from tests.agents.definitions import clerk
from tests.llm.conftest import endpoint
from tests.llm.endpoint import calls, says
from tests.runtime.delegating import done, ended, sent, words

__all__ = ["endpoint"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


async def test_asking_another_agent_is_a_task_of_its_own(ada, cast, said, endpoint):
    agent = await bridge.run(clerk, agents=["shouting"])
    endpoint.replies = [calls(("ask_shouting", {"message": "hear"})), says("It says HEAR.")]
    parent = await done(ada.principal, agent, said("Ask it."))
    assert (parent.state, words(parent)) == ("completed", "It says HEAR.")
    [child] = await bridge.run(lambda: list(Task.objects.filter(parent=parent.pk).select_related("agent")))
    assert (child.agent.slug, child.owner_id) == ("shouting", ada.pk)
    assert ("tool", "HEAR") in endpoint.said()


async def test_an_agent_that_its_caller_may_not_use_is_not_told_of_to_the_model(ada, cast, said, endpoint):
    await bridge.run(Agent.objects.filter(slug="shouting").update, access=Agent.Access.GROUPS)
    agent = await bridge.run(clerk, agents=["shouting", "asking"])
    endpoint.replies = [says("Nobody shouts.")]
    await done(ada.principal, agent, said("Ask it."))
    assert [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]] == ["ask_asking"]


async def test_a_turn_that_waits_for_another_agent_stays_with_its_version(ada, cast, said, endpoint):
    agent = await bridge.run(clerk, agents=["asking"])
    endpoint.replies = [calls(("ask_asking", {"message": "the wall"}))]
    parent = await done(ada.principal, agent, said("Have it painted."))
    assert (parent.state, words(parent)) == ("input-required", "Which colour for the wall?")
    await bridge.run(clerk, agents=["asking"], instructions="Answer in two sentences.")
    endpoint.replies = [says("Green it is.")]
    receipt = await sent(ada.principal, agent, said("green", taskId=str(parent.pk)))
    parent = await ended(receipt)
    assert (parent.state, words(parent)) == ("completed", "Green it is.")
    assert endpoint.said()[0] == ("system", "Answer in one sentence.")
    assert ("tool", "the wall: green") in endpoint.said()
    inputs = await bridge.run(lambda: list(Run.objects.filter(task=parent.pk).values_list("input", flat=True)))
    assert {given["agent"]["number"] for given in inputs} == {1}
