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


def choosing(**members):
    return type("Choosing", (Handler,), members)()


async def test_a_constant_needs_no_asking():
    kinds = ((TASK, TASK), (MESSAGE, MESSAGE), ("message", MESSAGE), (always_message, MESSAGE), (always_task, TASK))
    for written, meant in kinds:
        handler = choosing(response_type=written)
        assert constant_response_type(handler) is meant
        assert await select_response_type(handler, user_message("hi")) is meant
        assert handler.select_response_type(user_message("hi")) in (meant, meant.value)


async def test_rules_are_looked_at_in_turn():
    rules = (has_files, "task"), (says("report", "go on"), "task"), (longer_than(100), TASK)
    ruled = choosing(response_type=by_rules(*rules, otherwise="message"))
    assert constant_response_type(ruled) is None
    for text, files, meant in (
        ("hi", {}, MESSAGE),
        ("a REPORT, please", {}, TASK),
        ("reporters", {}, MESSAGE),
        ("hi", {"a.txt": b"a"}, TASK),
        ("long " * 30, {}, TASK),
    ):
        assert await select_response_type(ruled, user_message(text, files)) is meant, text


def greets(message):
    return "message" if message.text == "hi" else "task"


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


async def test_methods_choose_in_threads_unless_async():
    existing = ExistingTask("1", "completed")
    assert await select_response_type(Methods.Plain(), user_message("hi")) is MESSAGE
    assert await select_response_type(Methods.WithTask(), user_message("hi"), existing) is MESSAGE
    assert await select_response_type(Methods.WithTask(), user_message("hi")) is TASK
    assert await select_response_type(Methods.Async(), user_message("hi")) is MESSAGE
    asks = [selector_takes_task(kind()) for kind in (Methods.Plain, Methods.WithTask, Methods.Async, Handler)]
    assert asks == [False, True, True, False]
    for handler in (choosing(response_type=greets), as_handler(agent(response_type=greets)(lambda text: text))):
        assert await select_response_type(handler, user_message("hi")) is MESSAGE
        assert await select_response_type(handler, user_message("a report")) is TASK


async def test_an_unknown_choice_is_the_handlers_error():
    with pytest.raises(HandlerError, match="neither"):
        by_rules((has_files, "letter"))
    with pytest.raises(HandlerError, match="neither"):
        await select_response_type(choosing(select_response_type=lambda self, message: "letter"), user_message("hi"))


async def stream(task):
    await task.progress("unheard")
    await task.token("Say")
    async with task.artifact("notes.md") as notes:
        await notes.append("# A\n")
        await notes.append("B")


DATA = Artifact.json("n", [1])


@pytest.mark.parametrize(
    ("outcome", "parts", "metadata"),
    [
        (Completed("Yes.", metadata={"mood": "good"}), [{"text": "Yes."}], {"mood": "good"}),
        (Failed("No oven.", "oven"), [{"text": "No oven."}], {"error": {"code": "oven"}}),
        (Rejected("Not me."), [{"text": "Not me."}], {"error": {"code": "rejected"}}),
        (Failed(None, "odd"), [{"text": "It could not be done."}], {"error": {"code": "odd"}}),
        (Completed("See it", [DATA]), [{"text": "See it"}, {"data": [1]}], {}),
        (DATA, [{"data": [1]}], {}),
        ("words", [{"text": "words"}], {}),
        (None, [{"text": "Completed without an answer."}], {}),
        (stream, [{"text": "Say"}, {"text": "# A\nB", "filename": "notes.md"}], {}),
    ],
)
async def test_an_outcome_becomes_an_answer(outcome, parts, metadata):
    handler = outcome if callable(outcome) else lambda text: outcome
    assert await answer(as_handler(handler), user_message("hi")) == Answer(parts, metadata)


@pytest.mark.parametrize(("selector", "chosen"), [(by_result, None), (always_message, "task")])
async def test_the_result_may_choose(selector, chosen):
    def handler(kind):
        metadata = {"responseType": kind} if kind else {}
        return as_handler(agent(response_type=selector)(lambda text: Completed(text, (), metadata)))

    assert (await answer(handler("message"), user_message("Ada"))).parts == [{"text": "Ada"}]
    with pytest.raises(NeedsTask):
        await answer(handler(chosen), user_message("Ada"))
