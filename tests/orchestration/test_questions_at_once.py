"""What several steps ask at once waits side by side: each is answered where it is asked, once, in any order."""

import asyncio
import datetime

import pytest

import bridge
from apps.conversations.errors import AlreadyAnswered
from apps.conversations.models import Event, Message, Suspension, Task
from apps.orchestration.models import PlanRun, Step
from apps.orchestration.waiting import asked_by, steps_of, waiting_for
from apps.runtime.sending import send
from tests.orchestration.plan_agents import DONE
from tests.orchestration.test_plans_run import the_record_holds
from tests.orchestration.test_questions import answered, data
from tests.runtime.delegating import sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

ONE_MORE = "1 more question waits beside this one"
READING = {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}
MEASURED = {
    "left": {"title": "Left well", "person": {"ask": "Read the left well.", "schema": READING}},
    "right": {"title": "Right well", "person": {"ask": "Read the right well.", "schema": READING}},
    "paint": {"agent": "curious", "message": "the plate"},
    "sum": {"agent": "loud", "message": "{{ steps.left.data.value + steps.right.data.value }} {{ steps.paint.text }}"},
}


def waiting(principal):
    """By step, the tasks that wait for somebody."""
    tasks = list(waiting_for(principal).select_related("agent", "context"))
    steps = steps_of(principal, tasks)
    return {steps[task.pk].key if task.pk in steps else task.agent.slug: task for task in tasks}


async def asking(ada, agent, said, number):
    """A run of which so many steps ask; gives its task, and what waits."""
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: Step.objects.asking().filter(run=receipt.task).count() == number)
    await until(lambda: Task.objects.get(pk=receipt.task).state == "input-required")
    return receipt, await bridge.run(waiting, ada.principal)


async def completed(receipt):
    await until(lambda: Task.objects.get(pk=receipt.task).state == "completed")


async def answer(ada, said, child, asked=None, **fields):
    asked = child.status_event if asked is None else asked
    return await send(ada.principal, child.agent, said(**fields, taskId=str(child.pk)), asked=asked)


async def test_all_that_steps_ask_waits_at_once_and_is_answered_in_any_order(ada, bob, plan, said):
    agent = await bridge.run(lambda: plan(MEASURED))
    receipt, found = await asking(ada, agent, said, 3)
    assert set(found) == {"left", "right", "paint"}  # and not the plan itself, which asks the same as one of them
    assert not await bridge.run(waiting, bob.principal)
    run = await bridge.run(PlanRun.objects.get, pk=receipt.task)
    assert await bridge.run(lambda: asked_by(ada.principal, run).count()) == 3
    assert await bridge.run(lambda: asked_by(bob.principal, run).count()) == 0
    for left, (key, given) in enumerate({"paint": data({"colour": "red"}), "right": data({"value": 2})}.items()):
        await answer(ada, said, found[key], **given)
        await until(lambda left=left: Step.objects.filter(run=receipt.task, state="done").count() == left + 1)
        # The plan, which had asked the same, goes on a moment after its step.
        await until(lambda key=key: set(waiting(ada.principal)) == {"left", "right"} - {key})
        still = await bridge.run(waiting, ada.principal)
        assert all(still[one].status_event == found[one].status_event for one in still)
    await answer(ada, said, found["left"], **data({"value": 1}))
    await completed(receipt)
    assert DONE["loud:3 It is red."] == 1
    await until(lambda: not waiting(ada.principal))
    await the_record_holds()


async def test_the_plan_asks_one_says_how_many_wait_and_then_asks_the_next(ada, plan, said):
    steps = {key: step for key, step in MEASURED.items() if key in ("left", "right")}
    agent = await bridge.run(lambda: plan(steps))
    receipt, found = await asking(ada, agent, said, 2)

    def told():
        messages = Message.objects.filter(task=receipt.task, role="agent").order_by("index")
        return " ".join(part["text"] for message in messages for part in message.parts)

    await until(lambda: ONE_MORE in told())
    task = await bridge.run(Task.objects.get, pk=receipt.task)
    first = next(key for key, child in found.items() if str(child.pk) == task.slot["child"])
    assert f"Read the {first} well." in words(task)
    task = await answered(ada, agent, said, task, **data({"value": 1}))
    (second,) = {"left", "right"} - {first}
    assert (task.state, words(task)) == ("input-required", f"Read the {second} well.")
    await until(lambda: Step.objects.get(run=task.pk, key=first).state == "done")
    task = await answered(ada, agent, said, task, **data({"value": 2}))
    assert task.state == "completed"
    await the_record_holds()


async def test_of_two_who_answer_the_first_counts_and_the_other_is_told(ada, plan, said):
    agent = await bridge.run(lambda: plan({"left": MEASURED["left"]}))
    receipt, found = await asking(ada, agent, said, 1)
    both = [answer(ada, said, found["left"], **data({"value": value})) for value in (1, 2)]
    given = await asyncio.gather(*both, return_exceptions=True)
    (refused,) = [one for one in given if isinstance(one, Exception)]
    assert isinstance(refused, AlreadyAnswered)
    assert "answered meanwhile" in str(refused)
    await completed(receipt)
    assert await bridge.run(Message.objects.filter(task=found["left"].pk, role="user").count) == 2  # what was asked
    with pytest.raises(AlreadyAnswered):
        await answer(ada, said, found["left"], **data({"value": 3}))
    await the_record_holds()


async def test_an_answer_that_is_sent_again_is_taken_once(ada, plan, said):
    agent = await bridge.run(lambda: plan({"left": MEASURED["left"]}))
    receipt, found = await asking(ada, agent, said, 1)
    message = said(**data({"value": 1}), taskId=str(found["left"].pk))
    asked = {"asked": found["left"].status_event}
    first = await send(ada.principal, found["left"].agent, message, **asked)
    await completed(receipt)
    again = await send(ada.principal, found["left"].agent, message, **asked)
    assert (again.repeated, again.index) == (True, first.index)


async def test_an_answer_of_the_wrong_shape_is_another_question(ada, plan, said):
    agent = await bridge.run(lambda: plan(MEASURED))
    _, found = await asking(ada, agent, said, 3)
    await answer(ada, said, found["right"], **data({"value": "much"}))
    await until(lambda: waiting(ada.principal).get("right", found["right"]).status_event > found["right"].status_event)
    with pytest.raises(AlreadyAnswered):
        await answer(ada, said, found["right"], **data({"value": 2}))
    again = (await bridge.run(waiting, ada.principal))["right"]
    assert "Please answer again." in words(again)
    await answer(ada, said, again, **data({"value": 2}))
    await until(lambda: Step.objects.get(key="right").state == "done")


async def test_a_reply_to_the_plan_that_comes_too_late_is_told_so(ada, plan, said):
    agent = await bridge.run(lambda: plan({"left": MEASURED["left"]}))
    receipt, found = await asking(ada, agent, said, 1)
    task = await bridge.run(Task.objects.get, pk=receipt.task)
    # What its step asks is another question by now, of which the plan has not heard yet.
    earlier = found["left"].status_at - datetime.timedelta(seconds=1)
    await bridge.run(lambda: Suspension.objects.filter(task=task.pk).update(asked_at=earlier))
    task = await answered(ada, agent, said, task, **data({"value": 1}))
    assert (task.state, words(task)) == ("input-required", "Read the left well.")
    said_by_it = Event.objects.filter(task=task.pk, type="agent_status").order_by("index")
    payloads = await bridge.run(lambda: list(said_by_it.values_list("payload", flat=True)))
    assert "This was answered meanwhile" in str([payload for payload in payloads if "progress" in payload])
    task = await answered(ada, agent, said, task, **data({"value": 2}))
    assert task.state == "completed"
    await the_record_holds()


async def test_questions_of_plans_within_plans_are_there_once(ada, plan, said):
    await bridge.run(lambda: plan({key: MEASURED[key] for key in ("left", "right")}, slug="inner"))
    agent = await bridge.run(lambda: plan({"both": {"agent": "inner", "message": "go"}, "paint": MEASURED["paint"]}))
    receipt = await sent(ada.principal, agent, said())
    wanted = {"left", "right", "paint"}
    await until(lambda: set(waiting(ada.principal)) == wanted)
    await until(lambda: Step.objects.get(run=receipt.task, key="both").state == "asking")
    assert set(await bridge.run(waiting, ada.principal)) == wanted
    run = await bridge.run(PlanRun.objects.get, pk=receipt.task)
    assert await bridge.run(lambda: asked_by(ada.principal, run).count()) == 3
    for key, given in {"right": {"value": 2}, "left": {"value": 1}, "paint": {"colour": "red"}}.items():
        await answer(ada, said, (await bridge.run(waiting, ada.principal))[key], **data(given))
    await completed(receipt)
    await the_record_holds()


async def test_what_an_agent_answers_nobody_else_is_asked(ada, plan, said):
    from tests.orchestration.plan_agents import GATE

    steps = {"ask": MEASURED["paint"], "left": MEASURED["left"]}
    agent = await bridge.run(lambda: plan(steps, answering="patient"))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: Step.objects.filter(run=receipt.task, phase="answering", state="running").exists())
    await until(lambda: set(waiting(ada.principal)) == {"left"})
    GATE.set()
    await until(lambda: Step.objects.get(run=receipt.task, key="ask").state == "done")


async def test_what_is_put_away_does_not_wait(ada, plan, said):
    from apps.conversations import marking

    agent = await bridge.run(lambda: plan({"left": MEASURED["left"]}))
    receipt, found = await asking(ada, agent, said, 1)
    assert set(found) == {"left"}
    await bridge.run(marking.archive, ada.principal, receipt.context)
    assert not await bridge.run(waiting, ada.principal)


async def test_what_is_asked_costs_as_many_queries_however_much_it_is(ada, plan, said):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def counted():
        with CaptureQueriesContext(connection) as made:
            tasks = list(waiting_for(ada.principal))
            steps_of(ada.principal, tasks)
        return len(tasks), len(made)

    each = {"ask": {"agent": "curious", "message": "{{ item }}", "for_each": "inputs.text | list"}}
    agent = await bridge.run(lambda: plan(each))
    costs = []
    for text in ("a", "abcde"):
        receipt = await sent(ada.principal, agent, said(text))
        await until(
            lambda receipt=receipt, text=text: Step.objects.asking().filter(run=receipt.task).count() == len(text)
        )
        await until(lambda receipt=receipt: Task.objects.get(pk=receipt.task).state == "input-required")
        costs.append(await bridge.run(counted))
    (first, few), (all_, many) = costs
    assert (first, all_, few) == (1, 6, many)
