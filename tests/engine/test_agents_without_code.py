"""Agents without code follow their version, which each run names."""

import pytest

import db as database
import outbound
from apps.agents import definitions
from apps.agents.models import Agent, ToolPolicy, ToolSecret
from apps.engine import accept
from apps.record.content.strict_json import digest_of
from apps.record.execution import Run
from apps.record.models import Event, Task
from tests.agents.definitions import clerk, definition
from tests.engine.delegating import done, ended, sent
from tests.llm import tool_servers
from tests.llm.conftest import endpoint
from tests.llm.endpoint import calls, says
from tests.working import begin, carry_out, let_the_lease_run_out, state_of, types_of

__all__ = ["endpoint"]
pytestmark = pytest.mark.django_db(transaction=True)


async def told(ada, agent, message):
    receipt = await database.run(accept.accept, ada.principal, agent, message)
    await carry_out(receipt.run)
    return await database.run(Task.objects.select_related("context").get, pk=receipt.task)


def words(task) -> str:
    return task.status_message["parts"][0]["text"]


def offered(endpoint, request=-1) -> set[str]:
    return {tool["function"]["name"] for tool in endpoint.requests[request].get("tools", [])}


async def test_the_model_is_told_what_the_agent_is_made_of(ada, said, endpoint):
    agent = await database.run(
        clerk, model="another-model", temperature=0.5, max_tokens=77, tools=["calculate", "current_time"]
    )
    endpoint.replies = [says("Gladly", ".")]
    task = await told(ada, agent, said("Will you?"))
    assert (task.state, words(task)) == ("completed", "Gladly.")
    [asked] = endpoint.requests
    assert (asked["model"], asked["temperature"], asked["stream"]) == ("another-model", 0.5, True)
    assert 77 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))
    assert offered(endpoint) == {"calculate", "current_time"}
    assert endpoint.said() == [("system", "Answer in one sentence."), ("user", "Will you?")]


async def test_without_a_model_of_its_own_it_has_the_platforms_and_streams_unless_told_otherwise(ada, said, endpoint):
    endpoint.replies = [says("Yes."), says("Yes.")]
    for streaming, first in ((True, "agent_token_start"), (False, "artifact_update")):
        task = await told(ada, await database.run(clerk, streaming=streaming), said())
        assert endpoint.requests[-1]["model"] == "test-model"
        kinds = [kind for kind in await database.run(types_of, task.pk) if kind.startswith(("agent_token", "artifact"))]
        assert kinds[0] == first


async def test_what_was_said_before_is_what_the_model_remembers(ada, said, endpoint):
    endpoint.replies = [says("Hello Ada."), says("Ada.")]
    agent = await database.run(clerk)
    first = await told(ada, agent, said("I am Ada."))
    await told(ada, agent, said("Who am I?", contextId=first.context.context_id))
    assert endpoint.said()[1:] == [("user", "I am Ada."), ("assistant", "Hello Ada."), ("user", "Who am I?")]


async def test_a_tool_is_used_and_the_record_says_so(ada, said, endpoint):
    endpoint.replies = [calls(("calculate", {"expression": "17 * 3"})), says("51.")]
    task = await told(ada, await database.run(clerk, tools=["calculate"]), said("17 times 3?"))
    assert words(task) == "51."
    events = await database.run(lambda: list(Event.objects.filter(task=task.pk, type__startswith="agent_tool")))
    assert [event.type for event in events] == ["agent_tool_call", "agent_tool_result"]
    assert events[0].payload["arguments"] == {"expression": "17 * 3"}
    assert events[1].payload["result"] == "51"
    run = await database.run(Run.objects.get, task=task.pk)
    assert run.usage["requests"] == 2


async def test_another_agent_is_a_tool_while_it_is_there(ada, said, endpoint, echo):
    agent = await database.run(clerk, agents=["echo"])
    endpoint.replies = [says("Yes."), says("Yes.")]
    await told(ada, agent, said())
    assert offered(endpoint) == {"ask_echo"}
    await database.run(Agent.objects.filter(pk=echo.pk).update, is_enabled=False)
    await told(ada, agent, said())
    assert offered(endpoint) == set()


async def test_its_limit_of_steps_ends_a_turn_with_a_sentence(ada, said, endpoint):
    endpoint.replies = [calls(("current_time", {})) for _ in range(5)]
    task = await told(ada, await database.run(clerk, tools=["current_time"], max_steps=2), said())
    assert (task.state, len(endpoint.requests)) == ("failed", 2)
    assert "within its limit of 2 steps" in words(task)


async def test_a_tool_that_is_not_installed_any_more_is_named_to_operators(ada, said, endpoint, settings):
    agent = await database.run(clerk, tools=["calculate"])
    settings.AGENT_TOOLS = ["tests.agents.another_clock"]
    task = await told(ada, agent, said())
    run = await database.run(Run.objects.get, task=task.pk)
    assert (task.state, run.error["code"]) == ("failed", "agent_unavailable")
    assert "There is no tool calculate here: name its module in AGENT_TOOLS." in run.error["message"]
    assert "calculate" not in words(task)


def test_a_run_names_the_version_that_it_goes_by(ada, said, echo):
    for agent in (clerk(), echo):
        version = agent.current_version
        run = Run.objects.get(pk=begin(accept.accept(ada.principal, agent, said()).run).lease.run_id)
        assert run.input["agent"] == {"version": str(version.pk), "number": 1, "sha256": version.sha256}
        assert run.input_hash == digest_of(run.input)


async def test_the_next_message_goes_by_the_newest_version(ada, said, endpoint):
    endpoint.replies = [says("One."), says("Two.")]
    agent = await database.run(clerk)
    first = await told(ada, agent, said())
    await database.run(clerk, instructions="Answer in two sentences.")
    await told(ada, agent, said(contextId=first.context.context_id))
    assert [endpoint.said(request)[0][1] for request in (0, 1)] == [
        "Answer in one sentence.",
        "Answer in two sentences.",
    ]
    inputs = await database.run(lambda: list(Run.objects.order_by("queued_at").values_list("input", flat=True)))
    assert [one["agent"]["number"] for one in inputs] == [1, 2]


async def test_a_turn_that_a_crash_cut_off_stays_with_its_version(ada, said, endpoint):
    agent = await database.run(clerk)
    await database.run(Agent.objects.filter(pk=agent.pk).update, retry_safe=True)
    receipt = await database.run(accept.accept, ada.principal, agent, said())
    lost = await database.run(begin, receipt.run)
    await database.run(let_the_lease_run_out, lost.lease)
    await database.run(clerk, instructions="Answer in two sentences.")
    endpoint.replies = [says("One.")]
    await carry_out(receipt.run)
    assert await database.run(state_of, receipt.task) == "completed"
    assert endpoint.said()[0] == ("system", "Answer in one sentence.")
    run = await database.run(Run.objects.get, pk=receipt.run)
    assert (run.attempt, run.input["agent"]["number"]) == (2, 1)


def test_what_lets_an_agent_in_is_sent_to_its_own_server_alone(db):
    urls = ["https://a.example.org/mcp", "https://b.example.org/mcp"]
    made = definition(mcp_servers=[{"url": urls[0], "header": "X-Key"}, {"url": urls[1]}])
    agent = clerk()
    ToolSecret.objects.create(agent=agent, url=urls[0], secret="sesame")
    ToolSecret.objects.create(agent=clerk("other"), url=urls[1], secret="not ours")
    assert definitions.tool_server_headers(agent, made) == {urls[0]: {"X-Key": "sesame"}, urls[1]: {}}


async def test_the_tools_of_a_server_are_used_with_what_lets_the_agent_in(ada, said, endpoint, settings):
    outbound.configure(["127.0.0.1"])
    try:
        with tool_servers.running("sesame") as server:
            agent = await database.run(clerk, mcp_servers=[{"url": server.url}])
            await database.run(ToolPolicy.objects.all().delete)
            closed = await told(ada, agent, said("2 and 3?"))
            await database.run(ToolSecret.objects.create, agent=agent, url=server.url, secret="Bearer sesame")
            endpoint.replies = [calls(("add", {"a": 2, "b": 3})), says("5")]
            task = await told(ada, agent, said("2 and 3?"))
    finally:
        outbound.configure(settings.OUTBOUND_ALLOW)
    assert (closed.state, "cannot be used" in words(closed)) == ("failed", True)
    assert words(task) == "5"
    assert [content for role, content in endpoint.said() if role == "tool"] == ["5"]
    run = await database.run(Run.objects.get, task=task.pk)
    assert "sesame" not in str([run.input, run.error, run.usage])


@pytest.mark.usefixtures("worker")
async def test_an_agent_that_its_caller_may_not_use_is_not_told_of_to_the_model(ada, cast, said, endpoint):
    await database.run(Agent.objects.filter(slug="shouting").update, access=Agent.Access.GROUPS)
    agent = await database.run(clerk, agents=["shouting", "asking"])
    endpoint.replies = [says("Nobody shouts.")]
    await done(ada.principal, agent, said("Ask it."))
    assert [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]] == ["ask_asking"]


@pytest.mark.usefixtures("worker")
async def test_a_turn_that_waits_for_another_agent_stays_with_its_version(ada, cast, said, endpoint):
    agent = await database.run(clerk, agents=["asking"])
    endpoint.replies = [calls(("ask_asking", {"message": "the wall"}))]
    parent = await done(ada.principal, agent, said("Have it painted."))
    assert (parent.state, words(parent)) == ("input-required", "Which colour for the wall?")
    await database.run(clerk, agents=["asking"], instructions="Answer in two sentences.")
    endpoint.replies = [says("Green it is.")]
    receipt = await sent(ada.principal, agent, said("green", taskId=str(parent.pk)))
    parent = await ended(receipt)
    assert (parent.state, words(parent)) == ("completed", "Green it is.")
    assert endpoint.said()[0] == ("system", "Answer in one sentence.")
    assert ("tool", "the wall: green") in endpoint.said()
    inputs = await database.run(lambda: list(Run.objects.filter(task=parent.pk).values_list("input", flat=True)))
    assert {given["agent"]["number"] for given in inputs} == {1}
