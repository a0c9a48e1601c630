"""A scripted model: a function that replaces a model and says so."""

import asyncio
from enum import Enum

from pydantic import BaseModel

from agentkit import TaskContext, Thread, Token, Usage, testing
from agentkit.llm import Asked, LlmFunction, LlmWorker, Returned, UseTool, scripted
from tests.llm.endpoint import Endpoint, says


class Size(Enum):
    SMALL = "small"


class Box(BaseModel):
    size: Size


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def ran(worker: LlmWorker, message: str = "Hello, world") -> testing.Run:
    async def handler(task: TaskContext) -> str:
        return await worker.run(task)

    return await testing.run(handler, message)


async def test_text_is_streamed_word_by_word_and_named_as_scripted():
    run = await ran(LlmWorker("Help.", model=scripted(lambda asked: f"You said {asked.text}\n", name="parrot")))
    assert run.said == "You said Hello, world\n"
    assert [one.text for one in run.emissions if isinstance(one, Token)] == ["You ", "said ", "Hello, ", "world\n"]
    (usage,) = (one for one in run.emissions if isinstance(one, Usage))
    assert (usage.model, usage.requests) == ("scripted:parrot", 1)


async def test_it_answers_by_its_input_and_may_be_async():
    async def respond(asked: Asked) -> str:
        await asyncio.sleep(0)
        return "at last"

    function = LlmFunction("Count.", model=scripted(lambda asked: f"{len(asked.text)} characters"))
    assert [await function(None, "a"), await function(None, "abc")] == ["1 characters", "3 characters"]
    assert await LlmFunction("Help.", model=scripted(respond))(None, "x") == "at last"


async def test_it_is_told_what_a_model_would_be():
    heard: list[Asked] = []

    def respond(asked: Asked) -> object:
        heard.append(asked)
        return "5" if asked.results else [UseTool("add", a=2, b=3), UseTool("add", a="x", b=1)]

    thread = Thread().add("user", "one").add("agent", "two").add("user", "three")
    assert await LlmWorker("Help.", [add], model=scripted(respond)).run(None, thread) == "5"
    first, second = heard
    assert first == Asked("three", [("user", "one"), ("agent", "two")], "Help.", ["add"], [])
    assert second.results[0] == Returned("add", 5)
    assert second.results[1].is_error
    assert (second.text, second.attempt) == ("three", 1)


async def test_it_gives_values_of_each_type_and_knows_that_it_is_asked_again():
    def value_of(output, value):
        return LlmFunction("Give.", output, model=scripted(lambda asked: value))(None, "x")

    assert await value_of(Box, Box(size=Size.SMALL)) == Box(size=Size.SMALL)
    assert await value_of(Box, {"size": "small"}) == Box(size=Size.SMALL)
    assert await value_of(list[int], [1, 2]) == [1, 2]
    assert await value_of(list[Box], [Box(size=Size.SMALL)]) == [Box(size=Size.SMALL)]
    assert await value_of(bool, True) is True
    sizes = scripted(lambda asked: {"size": "small" if asked.attempt == 3 else "huge"})
    assert await LlmFunction("Give.", Box, model=sizes)(None, "x") == Box(size=Size.SMALL)


async def test_it_can_stand_in_where_no_model_is_configured(endpoint: Endpoint, settings):
    stand_in = LlmFunction("Help.", model=scripted(lambda asked: "scripted", unless_configured=True))
    endpoint.replies = [says("real")]
    assert await stand_in(None, "x") == "real"
    settings.LLM_MODEL = ""
    assert await stand_in(None, "x") == "scripted"
