"""How a message is answered: constants, rules, functions and methods, async or not."""

import asyncio
import threading

import pytest

from agentkit import (
    Answer,
    Artifact,
    Completed,
    ExistingTask,
    Failed,
    HandlerError,
    Rejected,
    ResponseType,
    SkillHandler,
    agent,
    always_message,
    always_task,
    answer,
    as_handler,
    by_rules,
)
from agentkit.runner import NeedsTask, constant_response_type, select_response_type, selector_takes_task
from agentkit.selecting import by_result, has_files, longer_than, says
from agentkit.testing import user_message

MESSAGE, TASK = ResponseType.MESSAGE, ResponseType.TASK


class Handler(SkillHandler):
    async def on_request(self, task):
        return "done"


async def test_a_constant_needs_no_asking():
    kinds = ((TASK, TASK), (MESSAGE, MESSAGE), ("message", MESSAGE), (always_message, MESSAGE), (always_task, TASK))
    for written, meant in kinds:

        class Constant(Handler):
            response_type = written

        assert constant_response_type(Constant()) is meant
        assert await select_response_type(Constant(), user_message("hi")) is meant
        assert Constant().select_response_type(user_message("hi")) in (meant, meant.value)


async def test_rules_are_looked_at_in_turn():
    class Ruled(Handler):
        response_type = by_rules(
            (has_files, "task"), (says("report", "go on"), "task"), (longer_than(100), TASK), otherwise="message"
        )

    assert constant_response_type(Ruled()) is None
    for text, files, meant in (
        ("hi", {}, MESSAGE),
        ("a REPORT, please", {}, TASK),
        ("reporters", {}, MESSAGE),
        ("hi", {"a.txt": b"a"}, TASK),
        ("long " * 30, {}, TASK),
    ):
        assert await select_response_type(Ruled(), user_message(text, files)) is meant, text


def test_a_rule_with_an_unknown_choice_is_refused_where_it_is_written():
    with pytest.raises(HandlerError, match="neither"):
        by_rules((has_files, "letter"))


class Methods:
    class Plain(Handler):
        def select_response_type(self, message):
            return "message" if threading.current_thread() is not threading.main_thread() else "task"

    class WithTask(Handler):
        def select_response_type(self, message, task):
            return "message" if task and task.state == "completed" else "task"

    class Async(Handler):
        async def select_response_type(self, message, task=None):
            await asyncio.sleep(0)
            return ResponseType.MESSAGE


async def test_a_method_is_asked_with_or_without_the_task_in_a_thread_unless_it_is_async():
    existing = ExistingTask("1", "completed")
    assert await select_response_type(Methods.Plain(), user_message("hi")) is MESSAGE
    assert await select_response_type(Methods.WithTask(), user_message("hi"), existing) is MESSAGE
    assert await select_response_type(Methods.WithTask(), user_message("hi")) is TASK
    assert await select_response_type(Methods.Async(), user_message("hi")) is MESSAGE
    asks = [selector_takes_task(kind()) for kind in (Methods.Plain, Methods.WithTask, Methods.Async, Handler)]
    assert asks == [False, True, True, False]


async def test_a_function_in_the_place_of_the_constant_is_asked():
    def greets(message):
        return "message" if message.text == "hi" else "task"

    class Own(Handler):
        response_type = greets

    @agent(response_type=greets)
    def function(text: str) -> str:
        return text

    for handler in (Own(), as_handler(function)):
        assert await select_response_type(handler, user_message("hi")) is MESSAGE
        assert await select_response_type(handler, user_message("a report")) is TASK


async def test_a_choice_that_is_none_is_the_handlers_error():
    class Wrong(Handler):
        def select_response_type(self, message):
            return "letter"

    with pytest.raises(HandlerError, match="neither"):
        await select_response_type(Wrong(), user_message("hi"))


async def test_an_answer_says_whether_it_is_an_error():
    for outcome, said, metadata in (
        (Completed("Yes."), "Yes.", {}),
        (Completed("Yes.", metadata={"mood": "good"}), "Yes.", {"mood": "good"}),
        (Failed("No oven.", "oven"), "No oven.", {"error": {"code": "oven"}}),
        (Rejected("Not me."), "Not me.", {"error": {"code": "rejected"}}),
        (Failed(None, "odd"), "It could not be done.", {"error": {"code": "odd"}}),
    ):
        given = await answer(as_handler(lambda text, outcome=outcome: outcome), user_message("hi"))
        assert given == Answer([{"text": said}], metadata), outcome


async def test_an_answer_is_made_of_artifacts_where_there_are_no_words_and_progress_goes_unheard():
    async def greet(task):
        await task.progress("unheard")
        return Completed(f"Hello, {task.message.text}")

    async def stream(task):
        await task.token("Say")
        async with task.artifact("notes.md") as notes:
            await notes.append("# A\n")
            await notes.append("B")

    artifact = Artifact.json("n", [1])
    streamed = {"text": "# A\nB", "filename": "notes.md"}
    for handler, parts in (
        (stream, [{"text": "Say"}, streamed]),
        (lambda text: Completed("See it", [artifact]), [{"text": "See it"}, {"data": [1]}]),
        (lambda text: "words", [{"text": "words"}]),
        (greet, [{"text": "Hello, Ada"}]),
        (lambda text: artifact, [{"data": [1]}]),
        (lambda text: None, [{"text": "Completed without an answer."}]),
    ):
        assert await answer(as_handler(handler), user_message("Ada")) == Answer(parts)


async def test_the_result_may_choose():
    for selector, chosen, needs_task in (
        (by_result, {"responseType": "message"}, False),
        (by_result, {}, True),
        (always_message, {"responseType": "task"}, True),
    ):
        handler = as_handler(agent(response_type=selector)(lambda text, chosen=chosen: Completed(text, (), chosen)))
        if needs_task:
            with pytest.raises(NeedsTask):
                await answer(handler, user_message("Ada"))
        else:
            assert (await answer(handler, user_message("Ada"))).parts == [{"text": "Ada"}]
