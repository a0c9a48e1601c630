"""A message to a running turn is read there, once, or is the next turn; a turn can end after its step."""

import asyncio

import pytest

from agentkit import Completed, InputRequired, SkillHandler, TaskContext
from apps.engine import accept, cancel
from apps.engine.claim import claim
from apps.engine.turns import turn
from apps.engine.worker import WorkerProcess
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Event, Message, Task
from apps.record.runs import LeaseLost
from parley import db
from tests.engine.delegating import until
from tests.working import begin, carry_out, end, let_the_lease_run_out, state_of, types_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("published"),
    pytest.mark.services("the ledger writes each database's own SQL, and the wish to stop comes by the channel layer"),
]
SOON = 10


class Reading(SkillHandler):
    """Reads what there is at its step, if it may."""

    steerable = True
    retry_safe = True
    begun, go_on = asyncio.Event(), asyncio.Event()
    reads = True

    async def on_request(self, task: TaskContext):
        self.begun.set()
        await self.go_on.wait()
        words = [one.text for one in await task.inbox.unread()] if self.reads else []
        return Completed(" ".join([task.message.text, *words]))


class Listening(SkillHandler):
    """Answers with all messages that come until it is asked to stop."""

    steerable = True

    async def on_request(self, task: TaskContext):
        heard = []
        async for message in task.inbox:
            heard.append(message.text)
            await task.progress(f"heard {len(heard)}")
        return Completed(" ".join(heard))


class AsksChild(SkillHandler):
    """Reads, and then calls an agent that asks."""

    async def on_request(self, task: TaskContext):
        words = [one.text for one in await task.inbox.unread()]
        child = await task.call("asking", "please")
        return Completed(" ".join([*words, child.text]))


class Asking(SkillHandler):
    async def on_request(self, task: TaskContext):
        return InputRequired("Which?", slot="which")

    async def on_input_received(self, task: TaskContext):
        return Completed(task.message.text)


@pytest.fixture
async def reading(agent):
    for name, value in {"begun": asyncio.Event(), "go_on": asyncio.Event(), "reads": True}.items():
        setattr(Reading, name, value)
    return await agent(Reading)


async def steer(ada, agent, said, sent, text="faster"):
    return await db.run(accept.accept, ada.principal, agent, said(text, taskId=str(sent.task)))


async def begun(ada, agent, said):
    """A turn at its step, of which a message has come."""
    sent = await db.run(accept.accept, ada.principal, agent, said("first"))
    work = asyncio.create_task(carry_out(sent.run))
    await asyncio.wait_for(Reading.begun.wait(), SOON)
    return sent, work, await steer(ada, agent, said, sent)


async def go_on(work):
    Reading.go_on.set()
    await asyncio.wait_for(work, SOON)


def answers(sent):
    return [row.parts[0]["text"] for row in Message.objects.filter(task=sent.task, role="agent").order_by("index")]


def queued(sent):
    return Run.objects.select_related("message").filter(task=sent.task, state=Run.State.QUEUED).first()


def checked(sent):
    assert projection.differences(sent.context) == []
    return state_of(sent.task), answers(sent)


async def test_read_message_is_no_turn(ada, reading, said):
    sent, work, steered = await begun(ada, reading, said)
    await go_on(work)
    assert await db.run(checked, sent) == ("completed", ["first faster"])
    read = await Event.objects.aget(task=sent.task, type="agent_read")
    message = await Message.objects.aget(task=sent.task, index=steered.index)
    assert (read.payload, read.run) == ({"messages": [message.message_id], "until": steered.index}, sent.run)
    assert await Run.objects.filter(task=sent.task).acount() == 1


async def test_unread_message_is_next_turn(ada, reading, said):
    Reading.reads = False
    sent, work, steered = await begun(ada, reading, said)
    await go_on(work)
    waiting = await db.run(queued, sent)
    assert waiting.message.index == steered.index
    await carry_out(waiting.pk)
    assert await db.run(checked, sent) == ("completed", ["first", "faster"])
    assert "agent_read" not in await db.run(types_of, sent.task)


async def test_only_what_came_later_is_next_turn(ada, reading, said):
    sent, work, _ = await begun(ada, reading, said)
    held = asyncio.Event()
    real = turn.finish.finish

    def late(task, message, ending):
        accept.accept(ada.principal, reading, said("late", taskId=str(sent.task)))
        held.set()
        return real(task, message, ending)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn.finish, "finish", late)
        await go_on(work)
    assert held.is_set()
    await carry_out((await db.run(queued, sent)).pk)
    assert await db.run(checked, sent) == ("completed", ["first faster", "late"])


@pytest.mark.parametrize("reads_again", [True, False])
async def test_killed_turn_loses_and_repeats_nothing(ada, reading, said, reads_again):
    """The worker dies after it has read, before its end."""

    def die(*_):
        raise LeaseLost

    sent, work, _ = await begun(ada, reading, said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn.finish, "finish", die)
        await go_on(work)
    first = await Run.objects.aget(pk=sent.run)
    assert (first.state, first.read_until > 0) == (Run.State.RUNNING, True)
    await Run.objects.filter(pk=sent.run).aupdate(lease_until=first.queued_at)
    Reading.reads = reads_again
    await carry_out(sent.run)
    if not reads_again:
        await carry_out((await db.run(queued, sent)).pk)
    assert await db.run(checked, sent) == ("completed", ["first faster"] if reads_again else ["first", "faster"])


def test_message_of_turn_lost_for_good_is_next(ada, echo, said):
    echo.retry_safe = False
    echo.save()
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    steered = accept.accept(ada.principal, echo, said("faster", taskId=str(sent.task)))
    Run.objects.filter(pk=sent.run).update(read_until=steered.index)
    let_the_lease_run_out(held.lease)
    assert claim(sent.run, "another") is None
    assert queued(sent).message.index == steered.index
    end(begin(queued(sent).pk), Completed("second"))
    assert checked(sent)[0] == "completed"


def test_interrupted_turn_gives_back_what_it_read(ada, echo, said):
    echo.on_busy = "interrupt"
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    steered = accept.accept(ada.principal, echo, said("faster", taskId=str(sent.task)))
    end(held, None, read_until=steered.index)
    assert queued(sent).message.index == steered.index


async def test_lost_lease_reads_nothing(ada, reading, said):
    sent, work, _ = await begun(ada, reading, said)
    await Run.objects.filter(pk=sent.run).aupdate(fence=9)
    await go_on(work)
    assert "agent_read" not in await db.run(types_of, sent.task)
    assert (await Run.objects.aget(pk=sent.run)).read_until == 0


async def test_repeated_turn_reads_the_same(ada, agent, said):
    """A turn that a child's question suspends begins again after the answer."""
    await agent(Asking)
    asks = await agent(AsksChild)
    sent = await db.run(accept.accept, ada.principal, asks, said("first"))
    held = await db.run(begin, sent.run)
    await steer(ada, asks, said, sent)
    work = asyncio.create_task(turn.execute_turn(held, lambda: False))
    child = await _run_of_child(sent)
    await carry_out(child.pk)
    await asyncio.wait_for(work, SOON)
    assert await db.run(state_of, sent.task) == "input-required"
    answer = await steer(ada, asks, said, sent, "blue")
    work = asyncio.create_task(carry_out(answer.run))
    await carry_out((await _run_of_child(sent)).pk)
    await asyncio.wait_for(work, SOON)
    assert (await db.run(checked, sent))[1][-1] == "faster blue"
    assert (await db.run(types_of, sent.task)).count("agent_read") == 1


async def _run_of_child(sent):
    return await until(lambda: Run.objects.filter(task__parent=sent.task, state="queued").first())


# Stopping after a step


@pytest.fixture
def carrier(transactional_db):
    made = WorkerProcess()
    yield made
    made.close(0)


async def test_listener_hears_until_it_is_asked_to_stop(ada, agent, said, carrier):
    listening = await agent(Listening)
    sent = await db.run(accept.accept, ada.principal, listening, said("listen"))
    assert await asyncio.to_thread(carrier.claim_and_wait, sent.run)
    for number, text in enumerate(("one", "two"), 1):
        await steer(ada, listening, said, sent, text)
        await until(lambda n=number: types_of(sent.task).count("agent_read") == n)
    task = await Task.objects.select_related("agent", "context").aget(pk=sent.task)
    assert await db.run(cancel.stop_after_step, task, ada.pk)
    await until(lambda: state_of(sent.task) == "completed")
    assert await db.run(checked, sent) == ("completed", ["one two"])
    with pytest.raises(cancel.NotRunning):
        await db.run(cancel.stop_after_step, task, ada.pk)


def test_wish_to_stop_outlives_the_worker(ada, reading_agent, said):
    sent = accept.accept(ada.principal, reading_agent, said("first"))
    held = begin(sent.run)
    task = Task.objects.select_related("agent", "context").get(pk=sent.task)
    assert [cancel.stop_after_step(task, ada.pk) for _ in range(2)] == [True, False]
    assert types_of(sent.task).count("stop_requested") == 1
    let_the_lease_run_out(held.lease)
    assert begin(sent.run).stop_after_step.is_set()
    assert projection.differences(sent.context) == []


@pytest.fixture
def reading_agent(echo):
    echo.capabilities, echo.retry_safe = {"steerable": True}, True
    echo.save()
    return echo


def test_agent_without_steps_is_not_asked(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("first"))
    begin(sent.run)
    with pytest.raises(cancel.NoSteps):
        cancel.stop_after_step(Task.objects.select_related("agent", "context").get(pk=sent.task), ada.pk)
    assert "stop_requested" not in types_of(sent.task)
