"""The Assistant uses tools, some of which are agents."""

from agentkit import ToolCall, ToolResult, testing
from examples.agents.assistant import Assistant
from tests.examples.saying import NOTE, empty, handlers
from tests.llm.endpoint import Endpoint, calls, says


def used(run):
    made = {one.call_id: (one.name, one.arguments) for one in run.emissions if isinstance(one, ToolCall)}
    given = {one.call_id: one.result for one in run.emissions if isinstance(one, ToolResult)}
    return [(*made[call], given[call]) for call in made]


async def test_it_calculates_or_tells_why_not():
    for text, expression, result in (
        ("What is (17 + 4) * 2?", "(17 + 4) * 2", 42),
        ("10 / 4", "10 / 4", 2.5),
    ):
        run = await testing.run(Assistant, text)
        assert used(run) == [("calculate", {"expression": expression}, result)]
        assert run.text == run.said == f"calculate: {result}\n\n{NOTE}"
    assert "ZeroDivisionError" in (await testing.run(Assistant, "What is 1/0?")).said


async def test_it_tells_the_time_of_a_place_and_uses_several_tools_at_once():
    run = await testing.run(Assistant, "What time is it in Asia/Tokyo?")
    ((name, arguments, result),) = used(run)
    assert (name, arguments) == ("current_time", {"time_zone": "Asia/Tokyo"})
    assert "(Asia/Tokyo)" in result
    run = await testing.run(Assistant, "What time is it, and what is 6 * 7?")
    assert {name for name, _, _ in used(run)} == {"calculate", "current_time"}


async def test_it_asks_other_agents():
    run = await testing.run(Assistant, "Review: The the cat.", agents=handlers())
    assert used(run)[0][0] == "ask_reviewer"
    assert "Ready." in run.said


async def test_without_a_request_it_asks_for_one():
    asked = await testing.run(Assistant, empty())
    assert asked.said == "How can I help you?"
    assert "42" in (await testing.run(Assistant, "6 * 7", slot=asked.outcome.slot)).said


async def test_with_a_model_it_works_in_steps(endpoint: Endpoint):
    endpoint.replies = [calls(("calculate", {"expression": "6*7"})), says("It is ", "42.")]
    run = await testing.run(Assistant, "Six times seven?")
    assert used(run) == [("calculate", {"expression": "6*7"}, 42)]
    assert run.said == "It is 42."
