"""The smart router answers small talk with a message, and has work done by the agent for it."""

from agentkit import InputRequired, ResponseType, testing
from agentkit.responding import select
from examples.agents.smart_router import ROUTES, SmartRouter
from tests.examples.saying import NOTE, empty, handlers
from tests.llm.endpoint import Endpoint, calls, says

HANDLER = SmartRouter()


def texts_of(run):
    return [artifact.parts[0]["text"] for artifact in run.artifacts]


async def test_small_talk_is_answered_with_a_message():
    for text in ("hello", "What can you do?", "🎉", "thanks a lot"):
        assert await select(HANDLER, testing.user_message(text)) is ResponseType.MESSAGE, text
        run = await testing.run(SmartRouter, text)
        assert run.skill == "talk"
        assert text in run.said
        assert all(route.agent in run.said for route in ROUTES)
        assert run.said.endswith(NOTE)
    message = testing.user_message(empty())
    assert await select(HANDLER, message) is ResponseType.MESSAGE
    assert (await testing.run(SmartRouter, message)).said.startswith("Hello! I pass work on:")


async def test_work_is_a_task_of_the_agent_for_it():
    for text, agent in (
        ("Translate to German: the cat", "translator"),
        ("Review this: The the cat.", "reviewer"),
        ("Write about bees", "writer"),
        ("Build a website about bees", "builder"),
        ("A trip to Lisbon", "travel"),
    ):
        assert await select(HANDLER, testing.user_message(text)) is ResponseType.TASK, text
        run = await testing.run(SmartRouter, text, agents=handlers())
        assert run.skill == agent
        assert run.recorder.progress[0].startswith(f"Passing this on to {agent}")
    assert await select(HANDLER, testing.user_message("", {"a.csv": b"a,b\n1,2\n"})) is ResponseType.TASK


async def test_what_the_other_agent_made_is_passed_on():
    run = await testing.run(SmartRouter, "Translate to German: the cat", agents=handlers())
    assert texts_of(run) == ["die Katze"]
    assert run.said.startswith("This is the work of translator, which translates")
    named = testing.user_message("to German: the cat").wire | {"metadata": {"skillId": "translator"}}
    assert texts_of(await testing.run(SmartRouter, named, agents=handlers())) == ["die Katze"]


async def test_it_asks_where_words_name_several_agents_or_the_other_agent_asks():
    run = await testing.run(SmartRouter, "translate my draft", agents=handlers())
    assert isinstance(run.outcome, InputRequired)
    assert "translator" in run.said
    run = await testing.run(SmartRouter, "Translate: the cat", agents=handlers())
    assert isinstance(run.outcome, InputRequired)
    assert run.said == "Into which language: German, French or Spanish?"


async def test_with_a_model_the_model_tells_small_talk_from_work(endpoint: Endpoint):
    for effort, chosen in (("simple", ResponseType.MESSAGE), ("complex", ResponseType.TASK)):
        judged = {"complexity": effort, "duration": "seconds", "needs_tracking": False, "is_certain": True}
        endpoint.replies = [calls(("final_result", judged))]
        assert await select(HANDLER, testing.user_message("Write me: who are you?")) is chosen


async def test_with_a_model_the_model_chooses_the_agent_or_declines(endpoint: Endpoint):
    chosen = calls(("final_result", {"action": "start", "skill": "translator"}))
    translated, judged = says("Die Katze."), calls(("final_result", {"score": 1, "remarks": []}))
    endpoint.replies = [chosen, translated, judged]
    run = await testing.run(SmartRouter, "in German: the cat", agents=handlers())
    assert run.skill == "translator"
    assert texts_of(run) == ["Die Katze."]
    endpoint.replies = [calls(("final_result", {"action": "reject", "words": "Nobody here cooks."}))]
    run = await testing.run(SmartRouter, "Cook me dinner", agents=handlers())
    assert (type(run.outcome).__name__, run.said) == ("Rejected", "Nobody here cooks.")
