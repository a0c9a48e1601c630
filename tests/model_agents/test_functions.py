"""A function backed by a language model, or by a script in its place, returns a typed value or a reason."""

import asyncio
from enum import Enum

import pytest
from pydantic import BaseModel

from agentkit import (
    AgentFailure,
    Clarify,
    Message,
    Reject,
    ResponseType,
    Skill,
    Start,
    SyncTaskContext,
    TaskContext,
    Thread,
    Usage,
    testing,
)
from agentkit.llm import Asked, LlmFunction, LlmWorker, Returned, UseTool, by_model, scripted, skill_by_model
from agentkit.selecting import ExistingTask
from tests.model_agents.agents import double
from tests.model_agents.endpoint import calls, hangs, refuses, says


class Weather(BaseModel):
    city: str
    degrees: int


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


ROME = {"city": "Rome", "degrees": 20}
weather = LlmFunction("Say what the weather is.", Weather)


async def test_the_answer_is_a_value_of_the_type(endpoint):
    endpoint.replies = [calls(("final_result", ROME))]
    assert await weather(None, "How is it in Rome?") == Weather(city="Rome", degrees=20)
    assert endpoint.said() == [("system", "Say what the weather is."), ("user", "How is it in Rome?")]
    for output, answer in ((list[str], ["a", "b"]), (int, 7), (Mood, "bad"), (dict[str, int], {"a": 1})):
        endpoint.replies = [calls(("final_result", {"response": answer}))]
        value = await LlmFunction("Answer.", output)(None, "x")
        assert value == (Mood.BAD if output is Mood else answer), output
    endpoint.replies = [says("It ", "rains.")]
    assert await LlmFunction("Answer.")(None, "x") == "It rains."


async def test_an_unfit_answer_is_asked_for_again(endpoint):
    endpoint.replies = [
        calls(("final_result", {"city": "Rome", "degrees": "warm"})),
        calls(("final_result", "{no json")),
        calls(("final_result", ROME)),
    ]
    assert await weather(None, "x") == Weather(city="Rome", degrees=20)
    role, told = endpoint.said(1)[-1]
    assert (role, "degrees" in told, "valid integer" in told) == ("tool", True, True)
    endpoint.replies, endpoint.requests[:] = [says("I would rather talk.")] * 4, []
    with pytest.raises(AgentFailure) as failed:
        await LlmFunction("Answer.", Weather, retries=1)(None, "x")
    assert failed.value.code == "model_unfit"
    assert "Exceeded maximum output retries (1)" in failed.value.detail
    assert len(endpoint.requests) == 2


async def test_in_a_handler_it_is_about_the_conversation(endpoint):
    async def handler(task: TaskContext) -> dict:
        return (await weather(task)).model_dump()

    endpoint.replies = [calls(("final_result", {"city": "Rome"})), calls(("final_result", ROME))]
    earlier = Message.from_wire({"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": "Where?"}]})
    run = await testing.run(handler, "In Rome", history=[earlier])
    assert run.artifacts[0].parts == [{"data": ROME}]
    assert endpoint.said(0)[1:] == [("assistant", "Where?"), ("user", "In Rome")]
    assert run.emissions == [Usage("test-model", 2, 40, 10)]


def test_handlers_in_threads_and_scripts_call_it_too(endpoint):
    def handler(task: SyncTaskContext) -> dict:
        return weather.sync(task).model_dump()

    endpoint.replies = [calls(("final_result", ROME))] * 2
    run = asyncio.run(testing.run(handler, "x"))
    assert run.artifacts[0].parts == [{"data": ROME}]
    assert run.emissions == [Usage("test-model", 1, 20, 5)]
    assert weather.sync(None, "x").city == "Rome"


async def test_settings_and_another_models_name_are_sent(endpoint):
    endpoint.replies = [says("x")]
    await LlmFunction("Answer.", model="other-model", settings={"temperature": 0.5, "max_tokens": 7})(None, "x")
    (request,) = endpoint.requests
    assert (request["model"], request["temperature"]) == ("other-model", 0.5)
    assert 7 in (request.get("max_tokens"), request.get("max_completion_tokens"))


# Scripted models


async def test_a_script_is_told_what_models_are():
    heard: list[Asked] = []

    async def respond(asked: Asked) -> object:
        heard.append(asked)
        return "5" if asked.results else [UseTool("double", number=2), UseTool("double", number="x")]

    thread = Thread().add("user", "one").add("agent", "two").add("user", "three")
    assert await LlmWorker("Help.", [double], model=scripted(respond)).run(None, thread) == "5"
    first, second = heard
    assert first == Asked("three", [("user", "one"), ("agent", "two")], "Help.", ["double"], [])
    assert second.results[0] == Returned("double", 4)
    assert second.results[1].is_error
    assert (second.text, second.attempt) == ("three", 1)


# A model chooses how to answer, with rules where it does not say

SMALL = {"complexity": "simple", "duration": "seconds", "needs_tracking": False, "is_certain": True}
SKILLS = [
    Skill("invoices", "Invoices", "Writes invoices.", ["billing"], ["Bill Ada for three hours"]),
    Skill("travel", "Travel", "Books journeys.", ["journey"], ["To Lisbon in May"]),
]


async def test_what_is_certainly_small_gets_a_message(endpoint):
    for effort, chosen in (
        ({}, ResponseType.MESSAGE),
        ({"duration": "minutes"}, ResponseType.TASK),
        ({"needs_tracking": True}, ResponseType.TASK),
        ({"is_certain": False}, ResponseType.TASK),
    ):
        endpoint.replies = [calls(("final_result", SMALL | effort))]
        assert await by_model("It knows the time.")(testing.user_message("What time is it?"), None) is chosen
    assert "It knows the time." in endpoint.said()[0][1]
    asked = len(endpoint.requests)
    assert await by_model()(testing.user_message("Hi"), ExistingTask("t", "input-required")) is ResponseType.TASK
    assert len(endpoint.requests) == asked, "nobody is asked about an unfinished task"


FAILURES = {
    "fails": refuses(400, "no"),
    "names nothing there is": calls(("final_result", {"action": "start", "skill": "sing"})),
    "is slow": hangs(),
}


@pytest.mark.parametrize("reply", FAILURES.values(), ids=FAILURES)
async def test_where_the_model_does_not_say_rules_decide(endpoint, reply):
    endpoint.usual = reply
    assert await by_model(seconds=0.5)(testing.user_message("Hi"), None) is ResponseType.TASK
    assert await skill_by_model(seconds=0.2)(testing.user_message("Write an invoice"), SKILLS) == Start("invoices")


async def test_a_skill_is_started_asked_about_or_refused(endpoint):
    for choice, decision in (
        ({"action": "start", "skill": "travel"}, Start("travel")),
        ({"action": "clarify", "words": "By train?"}, Clarify("By train?")),
        ({"action": "reject", "words": "I sing not."}, Reject("I sing not.")),
    ):
        endpoint.replies = [calls(("final_result", choice))]
        assert await skill_by_model()(testing.user_message("Go"), SKILLS) == decision
        assert "- travel: Travel. Books journeys." in endpoint.said()[0][1]


class Box(BaseModel):
    mood: Mood


async def test_a_script_gives_values_of_any_type():
    bad = Box(mood=Mood.BAD)
    for output, given, value in (
        (Box, bad, bad),
        (Box, {"mood": "bad"}, bad),
        (list[Box], [bad], [bad]),
        (bool, True, True),
    ):
        assert await LlmFunction("Give.", output, model=scripted(lambda asked, given=given: given))(None, "x") == value
    moods = scripted(lambda asked: {"mood": "bad" if asked.attempt == 3 else "huge"})
    assert await LlmFunction("Give.", Box, model=moods)(None, "x") == bad
