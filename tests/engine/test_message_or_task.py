"""Agents choose for each message between a direct answer and a task."""

import threading
from typing import ClassVar

import pytest
from django.test import override_settings

import db
from agentkit import Completed, InputRequired, SkillHandler, by_rules
from agentkit.selecting import says
from apps.agents.registration import register_hosted
from apps.engine.send import send
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Event, Task
from tests.working import begin, carry_out, end, state_of

pytestmark = pytest.mark.django_db(transaction=True)


class Choosing(SkillHandler):
    """Answers questions at once and does work in tasks."""

    response_type = by_rules((says("work"), "task"), (says("ask"), "task"), otherwise="message")

    async def on_request(self, task):
        if "ask" in task.message.text:
            return InputRequired("What?")
        return Completed(f"answer to {task.message.text}")


class Following(SkillHandler):
    """Answers at once what follows a finished task."""

    def select_response_type(self, message, task):
        return "message" if task and task.state == "completed" else "task"

    async def on_request(self, task):
        return "done"


class Fickle(SkillHandler):
    """Chooses otherwise each time it is asked."""

    asked = 0

    async def select_response_type(self, message):
        Fickle.asked += 1
        return "message" if Fickle.asked % 2 else "task"

    async def on_request(self, task):
        return "done"


class Late(SkillHandler):
    """Something happens while it chooses."""

    meanwhile: ClassVar = bool

    def select_response_type(self, message):
        Late.meanwhile()
        return "task"

    async def on_request(self, task):
        return "done"


class Failing(SkillHandler):
    """Cannot choose."""

    let_go: ClassVar = threading.Event()

    def select_response_type(self, message):
        if message.text == "wait":
            Failing.let_go.wait(10)
        if message.text == "nonsense":
            return "letter"
        raise RuntimeError("no idea")

    async def on_request(self, task):
        return "done"


class AskingAtOnce(SkillHandler):
    """Answers at once, and asks."""

    response_type = "message"

    async def on_request(self, task):
        return InputRequired("What?") if "ask" in task.message.text else {"n": 1}


class Calling(SkillHandler):
    """Answers at once, and would call others."""

    response_type = "message"

    async def on_request(self, task):
        await task.progress("unheard")
        await task.artifact("half").append("half")
        if task.message.text == "call":
            await task.call("choosing", "hi")
        return "done"


def registered(kind):
    return register_hosted(kind.__name__.lower(), f"{__name__}:{kind.__name__}")


async def test_each_message_is_answered_as_the_rules_say_unless_a_task_is_required(ada, said):
    choosing = await db.run(registered, Choosing)
    at_once = await send(ada.principal, choosing, said("a question"))
    assert (at_once.task, at_once.answer["parts"]) == (None, [{"text": "answer to a question"}])
    assert not await db.run(Task.objects.exists)
    assert not await db.run(Run.objects.exists)
    assert await db.run(lambda: list(Event.objects.values_list("type", flat=True))) == [
        "user_message",
        "agent_message",
    ]
    assert await db.run(projection.differences, at_once.context) == []
    assert (await send(ada.principal, choosing, said("some work"))).task is not None
    assert (await send(ada.principal, choosing, said("a question"), require_task=True)).task is not None


async def test_a_question_makes_a_task(ada, said):
    asking, message = await db.run(registered, AskingAtOnce), said("ask me")
    assert (await send(ada.principal, asking, said())).answer["parts"] == [{"data": {"n": 1}}]
    sent = await send(ada.principal, asking, message)
    await carry_out(await db.run(lambda: Run.objects.get().pk))
    assert await db.run(state_of, sent.task) == "input-required"
    assert (await send(ada.principal, asking, message)).task == sent.task


async def test_a_continuing_task_stays_a_task(ada, said):
    choosing = await db.run(registered, Choosing)
    sent = await send(ada.principal, choosing, said("ask me"))
    await carry_out(await db.run(lambda: Run.objects.get().pk))
    again = await send(ada.principal, choosing, said("a question", taskId=str(sent.task)))
    assert (again.task, again.answer) == (sent.task, None)


async def test_a_message_of_a_session_answers_its_question_and_what_was_answered_before_stays_so(ada, said):
    choosing = await db.run(registered, Choosing)

    async def talk(message):
        return await send(ada.principal, choosing, message, finds_question=True)

    first, answer = said("a question", contextId="c"), said("another question", contextId="c")
    answered = await talk(first)
    sent = await talk(said("ask me", contextId="c"))
    await carry_out(await db.run(lambda: Run.objects.get().pk))
    assert (await talk(first)).answer == answered.answer, "repeated while the task asks"
    assert (await talk(answer)).task == sent.task
    await carry_out(await db.run(lambda: Run.objects.get(state=Run.State.QUEUED).pk))
    again = await talk(answer)
    assert (again.task, again.repeated) == (sent.task, True)
    assert (await talk(said("a third question", contextId="c"))).task is None


async def test_a_message_answers_no_question_that_came_after_it(ada, said, monkeypatch):
    late = await db.run(registered, Late)
    sent = await send(ada.principal, late, said(contextId="c"))
    held = await db.run(lambda: begin(Run.objects.get().pk))
    monkeypatch.setattr(Late, "meanwhile", lambda: end(held, InputRequired("May I?")))
    new = await send(ada.principal, late, said("yes", contextId="c"), finds_question=True)
    assert new.task not in (None, sent.task)
    assert await db.run(state_of, sent.task) == "input-required"


async def test_the_newest_task_of_the_conversation_counts(ada, said):
    following = await db.run(registered, Following)
    first = await send(ada.principal, following, said(contextId="c"))
    assert first.task is not None
    await carry_out(await db.run(lambda: Run.objects.get().pk))
    assert (await send(ada.principal, following, said(contextId="c"))).task is None
    assert (await send(ada.principal, following, said(contextId="d"))).task is not None


async def test_a_message_that_is_repeated_is_answered_as_before(ada, said):
    fickle, Fickle.asked = await db.run(registered, Fickle), 0
    for expected in ("message", "task"):
        message = said()
        first, again = [await send(ada.principal, fickle, message) for _ in range(2)]
        assert (first.task, first.answer) == (again.task, again.answer)
        assert ("task" if first.task else "message") == expected
    assert Fickle.asked == 2


async def test_a_handler_that_cannot_choose_gets_a_task_and_a_line_in_the_log(ada, said, caplog):
    failing = await db.run(registered, Failing)
    with override_settings(SELECT_SECONDS=0.2):
        for text in ("error", "nonsense", "wait"):
            caplog.clear()
            assert (await send(ada.principal, failing, said(text))).task is not None
            assert "agent failing chose no response type" in caplog.text
            assert ('A response type is "task" or "message"' in caplog.text) is (text == "nonsense")
    Failing.let_go.set()


async def test_nothing_streams_on_the_way_to_a_message_and_nobody_is_called(ada, said):
    calling = await db.run(registered, Calling)
    answered = [{"text": "done"}, {"text": "half"}]
    assert (await send(ada.principal, calling, said())).answer["parts"] == answered
    refused = (await send(ada.principal, calling, said("call"))).answer
    assert refused["metadata"]["error"] == {"code": "agent_unavailable"}
    assert await db.run(Event.objects.exclude(type__in=("user_message", "agent_message")).count) == 0
