"""A language model chooses how to answer, with a fallback."""

import pytest

from agentkit import Clarify, Message, Reject, ResponseType, Skill, SkillHandler, Start, decide, handlers, testing
from agentkit.llm import by_model, scripted, skill_by_model
from agentkit.selecting import ExistingTask
from tests.llm.endpoint import Endpoint, calls, hangs, refuses, says

SMALL = {"complexity": "simple", "duration": "seconds", "needs_tracking": False, "is_certain": True}
SKILLS = [
    Skill("invoices", "Invoices", "Writes invoices.", ["billing"], ["Bill Ada for three hours"]),
    Skill("travel", "Travel", "Books journeys.", ["journey"], ["To Lisbon in May"]),
]


def message(text: str) -> Message:
    return testing.user_message(text)


async def test_what_is_small_for_certain_is_answered_by_a_message(endpoint: Endpoint):
    for effort, chosen in (
        ({}, ResponseType.MESSAGE),
        ({"complexity": "moderate"}, ResponseType.TASK),
        ({"duration": "minutes"}, ResponseType.TASK),
        ({"needs_tracking": True}, ResponseType.TASK),
        ({"is_certain": False}, ResponseType.TASK),
    ):
        endpoint.replies = [calls(("final_result", SMALL | effort))]
        assert await by_model("It knows the time.")(message("What time is it?"), None) is chosen
        assert "It knows the time." in endpoint.said()[0][1]
        assert endpoint.said()[1] == ("user", "What time is it?")


@pytest.mark.parametrize("reply", [refuses(400, "no"), says("Hello!"), hangs()], ids=["fails", "talks", "is slow"])
async def test_where_the_model_does_not_say_it_is_a_task(endpoint: Endpoint, reply):
    endpoint.replies = [reply] * 5
    assert await by_model(seconds=0.5)(message("Hi"), None) is ResponseType.TASK


async def test_without_a_model_it_is_a_task():
    assert await by_model()(message("Hi"), None) is ResponseType.TASK


async def test_while_a_task_is_unfinished_it_is_one_and_a_finished_one_does_not_matter(endpoint: Endpoint):
    assert await by_model()(message("Hi"), ExistingTask("t", "input-required")) is ResponseType.TASK
    assert endpoint.requests == [], "nobody is asked"
    endpoint.replies = [calls(("final_result", SMALL))]
    assert await by_model()(message("Thanks!"), ExistingTask("t", "completed")) is ResponseType.MESSAGE


async def test_a_skill_is_started_or_the_sender_asked_or_told_why_not(endpoint: Endpoint):
    for choice, decision in (
        ({"action": "start", "skill": "travel"}, Start("travel")),
        ({"action": "clarify", "words": "By train?"}, Clarify("By train?")),
        ({"action": "reject", "words": "I sing not."}, Reject("I sing not.")),
    ):
        endpoint.replies = [calls(("final_result", choice))]
        assert await skill_by_model()(message("Go"), SKILLS) == decision
        assert "- travel: Travel. Books journeys." in endpoint.said()[0][1]


@pytest.mark.parametrize(
    "reply",
    [refuses(400, "no"), calls(("final_result", {"action": "start", "skill": "sing"})), hangs()],
    ids=["fails", "names none of them", "is slow"],
)
async def test_where_the_model_does_not_say_words_decide(endpoint: Endpoint, reply):
    endpoint.replies = [reply] * 5
    chooser = skill_by_model(seconds=0.5)
    assert await chooser(message("Write an invoice"), SKILLS) == Start("invoices")


async def test_a_handler_names_it_as_its_chooser():
    class Office(SkillHandler):
        """An office."""

        skills = SKILLS
        choose_skill = skill_by_model(model=scripted(lambda asked: {"action": "start", "skill": "invoices"}))

        async def on_request(self, task):
            return "done"

    assert await decide(handlers.as_handler(Office), message("Anything")) == Start("invoices")
