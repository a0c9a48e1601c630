"""Editing and retrying a message creates forks, once for each key."""

import asyncio
import uuid

import pytest

from agentkit import Artifact, Completed, InputRequired
from apps.agents.models import Agent
from apps.conversations.forks import branches, editing, forking
from apps.conversations.sessions import deletion
from apps.engine import accept, cancel
from apps.engine.send import send
from apps.record import errors, lineage, projection
from apps.record.execution import Run
from apps.record.models import Context, Event, Message, Task
from parley import db
from tests.engine import branching_agents
from tests.engine.delegating import SOON, carried_on, ended, task_of, until, words
from tests.working import begin, carry_out, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("forks at once, each once")]


@pytest.fixture
async def patient(agent_at):
    branching_agents.GATE.clear()
    branching_agents.BEGUN.clear()
    yield await agent_at("tests.engine.branching_agents:Patient")
    branching_agents.GATE.set()


@pytest.fixture
async def at_once(agent_at):
    return await agent_at("tests.engine.branching_agents:AtOnce")


async def seen(task):
    """Delivers what the agent is shown."""
    references = [[one.state, [said.text for said in one.messages], len(one.artifacts)] for one in task.references]
    return {"history": [one.text for one in task.history], "references": references}


@pytest.fixture
async def seeing(agent):
    return await agent(seen)


async def shown(task):
    return (await task.artifacts.aget()).parts[0]["data"]


def text(words):
    return [{"text": words}]


def key():
    return uuid.uuid4().hex


async def said_in(context):
    rows = lineage.messages(await Context.objects.aget(pk=context)).order_by("index")
    return [row.parts[0].get("text", row.parts[0].get("data")) async for row in rows]


async def message(context, words):
    rows = lineage.messages(await Context.objects.aget(pk=context)).order_by("index")
    return await anext(row.pk async for row in rows if row.parts[0].get("text") == words)


async def talk(ada, agent, said, *texts, **fields):
    for one in texts:
        sent = await send(ada.principal, agent, said(one, contextId="talk", **fields))
        if sent.task:
            await carried_on(sent.task)
    return sent.context


async def edited(ada, context, old, new, **options):
    options = {"key": key()} | options
    return await editing.edit(ada.principal, context, await message(context, old), text(new), **options)


async def retried(ada, context, **options):
    sent = await editing.retry(ada.principal, context, **{"key": key()} | options)
    if sent.task:
        await carried_on(sent.task)
    return sent


async def is_whole(*contexts):
    return [await db.run(projection.differences, context) for context in contexts] == [[]] * len(contexts)


async def test_edit_is_answered_in_a_fork(ada, echo, said):
    context = await talk(ada, echo, said, "one", "two")
    sent = await edited(ada, context, "two", "zwei")
    task = await carried_on(sent.task)
    assert (task.state, task.context_id, sent.context != context) == ("completed", sent.context, True)
    assert await said_in(sent.context) == ["one", "one", "zwei", "zwei"]
    assert await said_in(context) == ["one", "one", "two", "two"]
    event = await Event.objects.aget(context=context, type="edit")
    assert event.payload == {"messageId": str(await message(context, "two")), "session": str(sent.context)}
    assert (await db.run(branches.tree, ada.principal, context)).chosen == sent.context
    assert await is_whole(context, sent.context)


@pytest.mark.parametrize("running", ["cancel", "finish"])
async def test_running_turn_stays_out_of_the_fork(ada, patient, said, worker, running):
    context = (await ended(await send(ada.principal, patient, said("first", contextId="talk")))).context_id
    at_work = await send(ada.principal, patient, said("wait", contextId="talk"))
    assert await asyncio.to_thread(branching_agents.BEGUN.wait, SOON)
    await until(lambda: Event.objects.filter(task=at_work.task, type="artifact_update").exists())
    sent = await edited(ada, context, "wait", "go", running=running)
    assert words(await ended(sent)) == "went on with go"
    branching_agents.GATE.set()
    assert (await ended(at_work)).state == ("canceled" if running == "cancel" else "completed")
    fork = await Context.objects.aget(pk=sent.context)
    assert not await lineage.events(fork).filter(task=at_work.task).aexists()
    assert ((await said_in(context))[-1] == "late") == (running == "finish")
    assert await is_whole(context, sent.context)


async def test_one_key_makes_one_fork(ada, echo, said):
    context, once = await talk(ada, echo, said, "one", "two"), key()
    sent = await asyncio.gather(*(edited(ada, context, "two", "zwei", key=once) for _ in range(4)))
    again = await edited(ada, context, "two", "zwei", key=once)
    assert {(one.context, one.task) for one in sent} == {(again.context, again.task)}
    assert again.repeated
    assert words(await carried_on(again.task)) == "zwei"
    assert (await Context.objects.acount(), await Event.objects.filter(type="edit").acount()) == (2, 1)


async def test_key_of_something_else_is_refused(ada, echo, said):
    context, once = await talk(ada, echo, said, "one", "two"), key()
    await carried_on((await edited(ada, context, "two", "zwei", key=once)).task)
    before = await Context.objects.acount()
    for attempt in (
        lambda: edited(ada, context, "two", "deux", key=once),
        lambda: edited(ada, context, "one", "zwei", key=once),
        lambda: editing.retry(ada.principal, context, key=once),
    ):
        with pytest.raises(errors.InvalidParams, match="Use a new"):
            await attempt()
    assert await Context.objects.acount() == before


async def test_only_own_words_are_edited(ada, echo, said):
    context = await talk(ada, echo, said, "one")
    answer, own = await Message.objects.aget(context=context, role="agent"), await message(context, "one")
    child = await db.run(lambda: forking.fork(ada.principal, context, 0, reason="fork"))
    attempts = [(context, answer.pk, errors.UnsupportedOperation), (child.pk, own, errors.MessageNotFound)]
    for where, what, refusal in [*attempts, (uuid.uuid4(), own, errors.ContextNotFound)]:
        with pytest.raises(refusal):
            await editing.edit(ada.principal, where, what, text("else"), key=key())
    with pytest.raises(errors.UnsupportedOperation, match="no message to try again"):
        await retried(ada, child.pk)
    await Agent.objects.filter(pk=echo.pk).aupdate(is_enabled=False)
    with pytest.raises(errors.UnsupportedOperation, match="Choose another"):
        await edited(ada, context, "one", "eins")
    await db.run(deletion.delete_context, ada.principal, echo, "talk")
    with pytest.raises(errors.ContextNotFound):
        await editing.edit(ada.principal, context, own, text("else"), key=key())
    assert await Context.objects.acount() == 2


async def test_retry_repeats_the_newest_message(ada, seeing, said):
    context = await talk(ada, seeing, said, "one", "two", metadata={"tone": "dry"}, extensions=["https://e.org/x"])
    sent = await retried(ada, context)
    again = await Message.objects.aget(context=sent.context, role="user")
    assert (again.parts, again.metadata, again.extensions) == (text("two"), {"tone": "dry"}, ["https://e.org/x"])
    given = await shown(await task_of(sent.task))
    assert (given["history"][0], len(given["history"]), len(given["references"])) == ("one", 2, 1)
    assert (await Context.objects.aget(pk=sent.context)).fork_reason == "retry"
    assert not await Event.objects.filter(type="edit").aexists()


# Another answer to a question


def asked(ada, agent, said, *answers):
    sent = accept.accept(ada.principal, agent, said("first", contextId="talk"))
    end(begin(sent.run), InputRequired("More?", slot="more"), memory={"seen": ["first"]})
    for number, answer in enumerate(answers):
        next_ = accept.accept(ada.principal, agent, said(answer, taskId=str(sent.task)))
        end(begin(next_.run), InputRequired("More?", slot="more"), memory={"seen": ["first", *answers[: number + 1]]})
    return sent


async def test_another_answer_takes_up_the_question_once(ada, echo, said):
    task, once = await db.run(asked, ada, echo, said, "a", "b"), key()
    sent = await asyncio.gather(*(edited(ada, task.context, "a", "A", key=once) for _ in range(3)))
    assert len({(one.context, one.task) for one in sent}) == 1
    made = await Task.objects.aget(pk=sent[0].task)
    held = await db.run(lambda: begin(made.runs.get().pk))
    assert (made.references, made.context_id) == ([str(task.task)], sent[0].context)
    assert (held.slot, held.memory) == ({"name": "more"}, {"seen": ["first"]})
    assert [one.text for one in held.history] == ["first", "More?"]
    assert (await Task.objects.aget(pk=task.task)).state == "input-required", "it waits there still"
    assert await is_whole(task.context, sent[0].context)


@pytest.mark.parametrize("how", ["completed", "canceled"])
async def test_another_answer_after_the_end_is_a_request(ada, seeing, said, how):
    def over():
        task = asked(ada, seeing, said)
        last = accept.accept(ada.principal, seeing, said("a", taskId=str(task.task)))
        if how == "canceled":
            cancel.cancel_by_id(ada.principal, seeing, str(task.task))
        else:
            end(begin(last.run), Completed("done", [Artifact.text("made", "x")]))
        return task

    task = await db.run(over)
    sent = await edited(ada, task.context, "a", "A")
    run = await Run.objects.aget(task=sent.task)
    await carry_out(run.pk)
    given = await shown(await task_of(sent.task))
    assert given["history"] == ["first", "More?"]
    assert given["references"] == [["canceled", ["first", "More?"], 0]], "nothing of what came after"
    assert run.slot is None
