"""A model reads what comes while it works before its next request, and stops after a step with what it has."""

import asyncio

from agentkit import InputRequired, TaskContext, testing
from agentkit.content.inbox import Mailbox
from agentkit.llm import AgentTool, LlmWorker
from tests.model_agents.agents import handler_of
from tests.model_agents.endpoint import calls, says


async def weather(city: str) -> str:
    """The weather to come."""
    return f"20° in {city}"


ASKS = calls(("weather", {"city": "Rome"}), text="Let me see.")


def worker(*tools):
    return handler_of(LlmWorker("Help.", [weather, *tools]))


async def test_model_is_told_after_the_tools(endpoint):
    endpoint.replies = [ASKS, says("68°F.")]
    run = await testing.run(worker(), "Weather in Rome?", inbox=["In Fahrenheit, please."])
    assert run.outcome.message == "Let me see.\n\n68°F."
    assert [role for role, _ in endpoint.said(0)] == ["system", "user"], "the first request is the turn's own"
    assert endpoint.said(1)[-2:] == [("tool", "20° in Rome"), ("user", "In Fahrenheit, please.")]


async def test_turn_of_one_request_reads_nothing(endpoint):
    endpoint.replies = [says("20°")]
    inbox = Mailbox.of([testing.user_message("And tomorrow?")])
    await testing.run(worker(), "Weather?", inbox=inbox)
    assert [one.text for one in inbox.waiting] == ["And tomorrow?"]


async def test_model_stops_after_its_step(endpoint):
    stop = asyncio.Event()

    async def slow() -> str:
        """Takes long."""
        stop.set()
        return "done"

    endpoint.replies = [calls(("slow", {}), text="First the slow part.")]
    run = await testing.run(worker(slow), "Go", stop_after_step=stop)
    assert run.outcome.message == run.text == "First the slow part.\n\nStopped here, as you asked."
    assert [(one.name, one.result) for one in run.emissions if hasattr(one, "result")] == [("slow", "done")]
    assert len(endpoint.requests) == 1


async def test_suspended_turn_reads_a_message_once(endpoint):
    heard = []

    async def painter(task: TaskContext) -> str | InputRequired:
        heard.append(task.message.text)
        return "It is blue." if len(heard) > 1 else InputRequired("Which colour?", slot="colour")

    painting = {"agents": {"painter": painter}}
    agent = worker(AgentTool("painter", "Paints."))
    endpoint.replies = [ASKS, calls(("ask_painter", {"message": "Paint"})), says("Blue.")]
    told = testing.user_message({"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Quickly!"}]})
    asked = await testing.run(agent, "Paint!", inbox=[told], **painting)
    assert asked.outcome == InputRequired("Which colour?", slot="colour")
    run = await testing.run(agent, asked.task.message, memory=asked.memory, inbox=[told], **painting)
    assert run.outcome.message.endswith("Blue.")
    assert [content for role, content in endpoint.said(2) if role == "user"] == ["Paint!", "Quickly!"]
    assert run.memory == {}
