"""Messages sent during a turn are queued, then sent once, in order."""

import asyncio
import datetime
import uuid

import pytest
from django.utils import timezone

from agentkit import Completed, Failed, InputRequired
from apps.accounts.models import User
from apps.conversations.queue import messages
from apps.conversations.queue.messages import BeingSent, QueuedNotFound
from apps.conversations.queue.models import QueuedMessage
from apps.conversations.sessions import deletion
from apps.engine import accept, cancel
from apps.record import projection
from apps.record.content.composing import compose
from apps.record.errors import KeyUsed
from apps.record.execution import Run
from apps.record.models import Blob, Context, Message
from parley import db
from tests.engine.delegating import until
from tests.work.hand import published_keys
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("senders race in the database")]


@pytest.fixture(autouse=True)
def named(monkeypatch):
    return published_keys(monkeypatch)


@pytest.fixture
async def working(ada, echo, said):
    receipt = await db.run(accept.accept, ada.principal, echo, said("first"))
    return await db.run(begin, receipt.run)


@pytest.fixture
async def talker(agent_at):
    return await agent_at("tests.clients.agents:Talker")


FILE = {"raw": "A" * 400_000, "filename": "much.bin", "mediaType": "application/octet-stream"}


def text(words, key, *files, **fields):
    return compose([{"text": words}, *files], key=key, **fields)


async def put(ada, working, *words):
    context = await Context.objects.select_related("agent").aget(pk=working.task.context_id)
    for one in words:
        assert await db.run(messages.enqueue, ada.principal, context, text(one, f"key-{one}"))
    return context


@pytest.fixture
async def context(ada, working):
    """A session in which "second" waits for work that has ended."""
    context = await put(ada, working, "second")
    await db.run(end, working, Completed("done"))
    return context


async def waiting(context):
    return [row.parts[0]["text"] async for row in QueuedMessage.objects.filter(context=context)]


async def said_in(context):
    said = Message.objects.filter(context=context, role="user").order_by("index")
    return [row.parts[0]["text"] async for row in said]


async def long_ago():
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    await QueuedMessage.objects.aupdate(queued_at=then)


async def claims_end():
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    await QueuedMessage.objects.aupdate(claimed_until=past)


async def test_queued_messages_are_sent_in_order(ada, working, named):
    context = await put(ada, working, "second", "third")
    assert await messages.send_due(context.pk) == 0, "the agent works"
    assert await messages.send_due(uuid.uuid4()) == 0, "there is no such session"
    held = working
    for sent, left in (("second", ["third"]), ("third", [])):
        named.clear()
        await db.run(end, held, Completed("done"))
        await until(lambda: named == [context.pk])  # the end of the work names the session
        assert await messages.send_due(context.pk) == 1
        assert ((await said_in(context))[-1], await waiting(context)) == (sent, left)
        assert await messages.send_due(context.pk) == 0
        held = await db.run(begin, (await Run.objects.aget(state="queued")).pk)
    assert await db.run(projection.differences, context.pk) == []


async def test_nothing_is_sent_for_inactive_people(ada, context, settings):
    settings.SWEEP_SECONDS = 0
    await User.objects.filter(pk=ada.pk).aupdate(is_active=False)
    assert (await messages.send_due(context.pk), await db.run(messages.QUEUES.sweep)) == (0, 0)
    await User.objects.filter(pk=ada.pk).aupdate(is_active=True)
    assert (await db.run(messages.QUEUES.sweep), await messages.send_due(context.pk)) == (1, 1)


@pytest.mark.parametrize("outcome", [Failed("no"), InputRequired("Which?"), None])
async def test_incomplete_work_holds_the_queue(ada, echo, working, outcome, named):
    context = await put(ada, working, "second")
    if outcome is None:
        await db.run(cancel.cancel_by_id, ada.principal, echo, str(working.task.pk))
    else:
        await db.run(end, working, outcome)
    assert await messages.send_due(context.pk) == 0
    assert await db.run(messages.hold_reason, context)
    await long_ago()
    assert await db.run(messages.QUEUES.sweep) == 0
    assert await waiting(context) == ["second"]
    sent = await messages.send_now(ada.principal, context, (await QueuedMessage.objects.aget()).pk)
    answered = isinstance(outcome, InputRequired)
    assert (sent.task == working.task.pk) is answered, "the task that asks is told; otherwise it is the next"
    assert await waiting(context) == []


async def test_sweep_finds_lost_queue_and_sends_once(context, named):
    await long_ago()
    named.clear()
    assert await db.run(messages.QUEUES.sweep) == 1
    assert set(named) == {context.pk}  # the end of the work may name it too
    assert sum(await asyncio.gather(*(messages.send_due(context.pk) for _ in range(4)))) == 1
    assert await said_in(context) == ["first", "second"]
    assert await db.run(messages.QUEUES.sweep) == 0


async def test_dead_sender_is_replaced_after_its_claim(ada, context):
    taken = await db.run(messages.claim_next, context.pk)
    assert await messages.send_due(context.pk) == 0
    for change in ((messages.edit, "something else"), (messages.remove,)):
        with pytest.raises(BeingSent):
            await db.run(change[0], ada.principal, context, taken.row.pk, *change[1:])
    await claims_end()
    assert await messages.send_due(context.pk) == 1
    assert await said_in(context) == ["first", "second"]


class Died(BaseException):
    """Like kill -9."""


async def test_sender_that_died_after_sending_repeats_nothing(ada, talker, context, monkeypatch):
    def die(taken):
        raise Died

    await Context.objects.filter(pk=context.pk).aupdate(agent=talker)
    with monkeypatch.context() as patch:
        patch.setattr(messages, "delete_sent", die)
        with pytest.raises(Died):
            await messages.send_due(context.pk)
    row = await QueuedMessage.objects.aget()
    with pytest.raises(QueuedNotFound):
        await db.run(messages.edit, ada.principal, context, row.pk, "something else")
    await claims_end()
    assert await messages.send_due(context.pk) == 0
    assert (await said_in(context), await waiting(context)) == (["first", "second"], [])


async def test_one_key_queues_once(ada, context):
    for moment in ("before", "after it was sent"):
        if moment != "before":
            assert await messages.send_due(context.pk) == 1
        assert not await db.run(messages.enqueue, ada.principal, context, text("second", "key-second"))
        with pytest.raises(KeyUsed):
            await db.run(messages.enqueue, ada.principal, context, text("another", "key-second"))
    assert await waiting(context) == []


async def forgotten():
    """Deleted messages are gone after the undo period."""
    long_ago = timezone.now() - datetime.timedelta(seconds=messages.REMOVED_SECONDS + 1)
    await QueuedMessage.everything.exclude(removed_at=None).aupdate(removed_at=long_ago)
    await db.run(messages.erase_removed)


async def test_deleted_message_is_restored_in_its_place(ada, working):
    context = await put(ada, working)
    for key in "abc":
        await db.run(messages.enqueue, ada.principal, context, text(key, key, FILE, references=[working.task.pk]))
    before = [row async for row in QueuedMessage.objects.all()]
    await db.run(messages.remove, ada.principal, context, before[1].pk)
    assert await waiting(context) == ["a", "c"]
    with pytest.raises(QueuedNotFound):
        await messages.send_now(ada.principal, context, before[1].pk)
    again = text("b", "b", FILE, references=[working.task.pk])
    assert not await db.run(messages.enqueue, ada.principal, context, again)
    for _ in range(2):
        await db.run(messages.undo_remove, ada.principal, context, before[1].pk)
    after = [row async for row in QueuedMessage.objects.all()]
    assert [(row.pk, row.message) for row in after] == [(row.pk, row.message) for row in before]
    await db.run(messages.remove, ada.principal, context, before[1].pk)
    await db.run(messages.erase_removed)
    assert await QueuedMessage.everything.acount() == 3
    await forgotten()
    with pytest.raises(QueuedNotFound):
        await db.run(messages.undo_remove, ada.principal, context, before[1].pk)


async def test_files_are_kept_while_they_wait(ada, talker, working):
    async def uses():
        return [blob.uses async for blob in Blob.objects.all()]

    context = await put(ada, working)
    for key in "ab":
        await db.run(messages.enqueue, ada.principal, context, text(key, key, FILE))
    assert await uses() == [2]
    rows = [row async for row in QueuedMessage.objects.all()]
    await db.run(messages.edit, ada.principal, context, rows[0].pk, "")
    assert [part.get("filename") for part in (await QueuedMessage.objects.afirst()).parts] == ["much.bin"]
    await db.run(messages.remove, ada.principal, context, rows[1].pk)
    await forgotten()
    assert await uses() == [1]
    await db.run(end, working, Completed("done"))
    await Context.objects.filter(pk=context.pk).aupdate(agent=talker)
    assert await messages.send_due(context.pk) == 0, "the agent takes words alone"
    assert "Remove “much.bin”" in (await QueuedMessage.objects.aget()).problem
    await db.run(deletion.delete_session, ada.principal, context.pk)
    assert await QueuedMessage.objects.acount() == 0
    assert await uses() in ([0], [])
