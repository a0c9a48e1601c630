"""The smart router answers small talk itself, and delegates work."""

from agentkit import InputRequired, ResponseType, testing
from agentkit.runner import select_response_type
from examples.agents.smart_router import ROUTES, SmartRouter
from tests.examples.saying import NOTE, empty, handlers
from tests.llm.endpoint import Endpoint, calls, says

HANDLER = SmartRouter()


def texts_of(run):
    return [artifact.parts[0]["text"] for artifact in run.artifacts]


async def test_small_talk_is_answered_with_a_message():
    for text in ("hello", "What can you do?", "🎉", "thanks a lot"):
        assert await select_response_type(HANDLER, testing.user_message(text)) is ResponseType.MESSAGE, text
        run = await testing.run(SmartRouter, text)
        assert run.skill == "talk"
        assert all(route.name in run.said for route in ROUTES)
        assert run.said.endswith(NOTE)
    message = testing.user_message(empty())
    assert await select_response_type(HANDLER, message) is ResponseType.MESSAGE
    assert (await testing.run(SmartRouter, message)).said.startswith("Hello!")


async def test_work_is_a_task_of_the_agent_for_it():
    for text, agent in (
        ("Review this: The the cat.", "reviewer"),
        ("Write about bees", "writer"),
        ("Build a website about bees", "builder"),
        ("A trip to Lisbon", "travel"),
    ):
        assert await select_response_type(HANDLER, testing.user_message(text)) is ResponseType.TASK, text
        run = await testing.run(SmartRouter, text, agents=handlers())
        assert run.skill == agent
        assert run.recorder.progress[0] == f"{agent.capitalize()} is working on this…"
    assert await select_response_type(HANDLER, testing.user_message("", {"a.csv": b"a,b\n1,2\n"})) is ResponseType.TASK


async def test_what_the_other_agent_made_is_passed_on():
    run = await testing.run(SmartRouter, "Write about bees", agents=handlers())
    assert texts_of(run)[0].startswith("# Bees")
    assert run.said.startswith("Here is “Bees”")
    assert run.outcome.by
    named = testing.user_message("bees").wire | {"metadata": {"skillId": "writer"}}
    assert texts_of(await testing.run(SmartRouter, named, agents=handlers()))[0].startswith("# Bees")


async def test_the_word_that_is_said_first_decides_and_the_other_agent_may_ask():
    run = await testing.run(SmartRouter, "review my draft", agents=handlers())
    assert run.skill == "reviewer"
    run = await testing.run(SmartRouter, "A trip", agents=handlers())
    assert isinstance(run.outcome, InputRequired)
    assert run.said == "Where would you like to go?"


async def test_with_a_model_the_model_tells_small_talk_from_work(endpoint: Endpoint):
    for effort, chosen in (("simple", ResponseType.MESSAGE), ("complex", ResponseType.TASK)):
        judged = {"complexity": effort, "duration": "seconds", "needs_tracking": False, "is_certain": True}
        endpoint.replies = [calls(("final_result", judged))]
        assert await select_response_type(HANDLER, testing.user_message("Write me: who are you?")) is chosen


async def test_with_a_model_the_model_chooses_the_agent_or_answers(endpoint: Endpoint):
    endpoint.replies = [calls(("final_result", {"action": "start", "skill": "travel"}))]
    run = await testing.run(SmartRouter, "Take me away", agents=handlers())
    assert (run.skill, run.said) == ("travel", "Where would you like to go?")
    endpoint.replies = [calls(("final_result", {"action": "reject", "words": "Nobody here cooks."})), says("Pasta?")]
    run = await testing.run(SmartRouter, "Cook me dinner", agents=handlers())
    assert (type(run.outcome).__name__, run.said) == ("Completed", "Pasta?")
