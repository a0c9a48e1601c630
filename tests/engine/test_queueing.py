"""Messages sent during a turn are queued, then sent once, in order."""

import asyncio
import datetime
import threading
import uuid

import pytest
from django.utils import timezone

import db
from agentkit import Completed, Failed, InputRequired, Rejected
from apps.accounts.models import ApiKey, User
from apps.engine import accept, cancel
from apps.engine.queue import Lane
from apps.features.queue import messages
from apps.features.queue.messages import BeingSent, QueuedNotFound, QueueFull
from apps.features.queue.models import QueuedMessage
from apps.features.sessions import deletion
from apps.record import projection
from apps.record.content import blobs
from apps.record.content.composing import compose
from apps.record.errors import KeyUsed
from apps.record.execution import Run
from apps.record.models import Blob, Context, Message, Task
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("senders race in the database")]


class Named(list):
    """Session ids sent to workers; each sets the event."""

    def __init__(self):
        super().__init__()
        self.came = threading.Event()

    def append(self, session):
        super().append(session)
        self.came.set()

    def clear(self):
        super().clear()
        self.came.clear()


@pytest.fixture(autouse=True)
def named(monkeypatch):
    sessions = Named()
    monkeypatch.setattr(messages, "publish_queue", sessions.append)
    return sessions


@pytest.fixture
async def working(ada, echo, said):
    receipt = await db.run(accept.accept, ada.principal, echo, said("first"))
    return await db.run(begin, receipt.run)


def text(words, key):
    return compose([{"text": words}], key=key)


async def put(ada, working, *words):
    context = await Context.objects.select_related("agent").aget(pk=working.task.context_id)
    for one in words:
        assert await db.run(messages.enqueue, ada.principal, context, text(one, f"key-{one}"))
    return context


async def waiting(context):
    return [row.parts[0]["text"] async for row in QueuedMessage.objects.filter(context=context)]


async def said_in(context):
    said = Message.objects.filter(context=context, role="user").order_by("index")
    return [row.parts[0]["text"] async for row in said]


async def newest_run(context):
    task = await Task.objects.filter(context=context).order_by("-created_at").afirst()
    return (await task.runs.alatest("turn")).pk


async def test_it_is_sent_in_order_one_when_the_other_is_done(ada, working, named):
    context = await put(ada, working, "second", "third")
    assert await messages.send_due(context.pk) == 0, "the agent works"
    assert await messages.send_due(uuid.uuid4()) == 0, "there is no such session"
    held = working
    for sent, left in (("second", ["third"]), ("third", [])):
        named.clear()
        await db.run(end, held, Completed("done"))
        assert await asyncio.to_thread(named.came.wait, 5), "the end of the work names the session"
        assert named == [context.pk]
        assert await messages.send_due(context.pk) == 1
        assert (await said_in(context))[-1] == sent
        assert await waiting(context) == left
        assert await messages.send_due(context.pk) == 0
        held = await db.run(begin, await newest_run(context))
    assert await db.run(projection.differences, context.pk) == []


async def test_nothing_is_sent_for_who_was_switched_off(ada, working, settings):
    settings.SWEEP_SECONDS = 0
    context = await put(ada, working, "second")
    await db.run(end, working, Completed("done"))
    await User.objects.filter(pk=ada.pk).aupdate(is_active=False)
    assert await messages.send_due(context.pk) == 0
    assert await db.run(messages.sweep_queues) == 0
    await User.objects.filter(pk=ada.pk).aupdate(is_active=True)
    assert await db.run(messages.sweep_queues) == 1
    assert await messages.send_due(context.pk) == 1


async def test_what_an_agent_answers_at_once_lets_all_go(ada, agent_at, said, working):
    talker = await agent_at("tests.api.agents:Talker")
    context = await put(ada, working, "second", "third")
    await db.run(end, working, Completed("done"))
    await Context.objects.filter(pk=context.pk).aupdate(agent=talker)
    assert await messages.send_due(context.pk) == 2
    assert await said_in(context) == ["first", "second", "third"]


@pytest.mark.parametrize("outcome", [Failed("no"), Rejected("no"), InputRequired("Which?"), None])
async def test_work_that_did_not_complete_holds_it(ada, echo, working, outcome, named):
    context = await put(ada, working, "second")
    if outcome is None:
        await db.run(cancel.cancel_by_id, ada.principal, echo, str(working.task.pk))
    else:
        await db.run(end, working, outcome)
    assert await messages.send_due(context.pk) == 0
    assert await db.run(messages.hold_reason, context)
    await long_ago()
    named.clear()
    assert await db.run(messages.sweep_queues) == 0
    assert await waiting(context) == ["second"]
    row = await QueuedMessage.objects.aget()
    sent = await messages.send_now(ada.principal, context, row.pk)
    answered = isinstance(outcome, InputRequired)
    assert (sent.task == working.task.pk) is answered, "the task that asks is told; otherwise it is the next"
    assert await waiting(context) == []


async def long_ago():
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    await QueuedMessage.objects.aupdate(queued_at=then)


async def test_what_the_queue_lost_the_sweep_finds_and_sends_once(ada, working, named):
    context = await put(ada, working, "second")
    await db.run(end, working, Completed("done"))
    await long_ago()
    named.clear()
    assert await db.run(messages.sweep_queues) == 1
    assert set(named) == {context.pk}  # the end of the work may name it too
    assert sum(await asyncio.gather(*(messages.send_due(context.pk) for _ in range(4)))) == 1
    assert await said_in(context) == ["first", "second"]
    assert await db.run(messages.sweep_queues) == 0


async def test_a_sender_that_dies_before_it_has_sent_is_replaced_when_its_claim_ends(ada, working):
    context = await put(ada, working, "second")
    await db.run(end, working, Completed("done"))
    taken = await db.run(messages.claim_next, context.pk)
    assert taken is not None
    assert await messages.send_due(context.pk) == 0
    with pytest.raises(BeingSent):
        await db.run(messages.edit, ada.principal, context, taken.row.pk, "something else")
    with pytest.raises(BeingSent):
        await db.run(messages.remove, ada.principal, context, taken.row.pk)
    await claims_end()
    assert await messages.send_due(context.pk) == 1
    assert await said_in(context) == ["first", "second"]


async def test_a_message_that_a_key_queued_counts_for_the_key(ada, working):
    context = await Context.objects.select_related("agent").aget(pk=working.task.context_id)
    key = await db.run(lambda: ApiKey.issue(ada, "one")[0])
    await db.run(lambda: messages.enqueue(key.principal, context, text("second", "a key")))
    await db.run(end, working, Completed("done"))
    assert await messages.send_due(context.pk) == 1
    sent = await Run.objects.exclude(pk=working.lease.run_id).aget()
    assert Lane.read(sent.lane).key == str(key)


async def claims_end():
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    await QueuedMessage.objects.aupdate(claimed_until=past)


async def test_a_sender_that_dies_after_it_has_sent_is_not_repeated(ada, agent_at, working, monkeypatch):
    talker = await agent_at("tests.api.agents:Talker")
    context = await put(ada, working, "second")
    await db.run(end, working, Completed("done"))
    await Context.objects.filter(pk=context.pk).aupdate(agent=talker)
    monkeypatch.setattr(messages, "delete_sent", dies := _Dying())
    with pytest.raises(_Died):
        await messages.send_due(context.pk)
    assert dies.called
    monkeypatch.undo()
    row = await QueuedMessage.objects.aget()
    with pytest.raises(QueuedNotFound):
        await db.run(messages.edit, ada.principal, context, row.pk, "something else")
    await claims_end()
    assert await messages.send_due(context.pk) == 0
    assert await said_in(context) == ["first", "second"]
    assert await waiting(context) == []


class _Died(BaseException):
    """Like kill -9."""


class _Dying:
    called = False

    def __call__(self, taken):
        self.called = True
        raise _Died


async def test_sending_now_tells_the_task_that_works(ada, working):
    context = await put(ada, working, "second", "third")
    third = await QueuedMessage.objects.aget(message_id="key-third")
    sent = await messages.send_now(ada.principal, context, third.pk)
    assert sent.task == working.task.pk
    assert await waiting(context) == ["second"]
    assert await db.run(end, working, Completed("done")) is not None, "it is the task's next turn"
    with pytest.raises(QueuedNotFound):
        await messages.send_now(ada.principal, context, third.pk)


async def test_who_begins_work_at_the_same_moment_comes_first(ada, echo, said, working, monkeypatch):
    context = await put(ada, working, "second")
    await db.run(end, working, Completed("done"))
    taken = await db.run(messages.claim_next, context.pk)
    monkeypatch.setattr(messages, "claim_next", lambda _: taken)
    await db.run(accept.accept, ada.principal, echo, said("meanwhile", contextId=context.context_id))
    assert await messages.send_due(context.pk) == 0
    assert await said_in(context) == ["first", "meanwhile"]
    assert await waiting(context) == ["second"]


async def test_what_cannot_be_sent_says_why_and_what_follows_waits_for_it(ada, echo, working):
    context = await put(ada, working, "second", "third")
    await db.run(end, working, Completed("done"))
    echo.access = "groups"
    await echo.asave()
    assert await messages.send_due(context.pk) == 0
    row = await QueuedMessage.objects.afirst()
    assert "may not use it" in row.problem
    echo.access = "authenticated"
    await echo.asave()
    assert await messages.send_due(context.pk) == 0
    await db.run(messages.edit, ada.principal, context, row.pk, "second, said again")
    assert await messages.send_due(context.pk) == 1
    assert (await said_in(context))[-1] == "second, said again"


async def test_the_same_key_queues_once_also_after_it_was_sent(ada, working):
    context = await put(ada, working, "second")
    add = messages.enqueue
    assert not await db.run(add, ada.principal, context, text("second", "key-second"))
    with pytest.raises(KeyUsed):
        await db.run(add, ada.principal, context, text("another", "key-second"))
    await db.run(end, working, Completed("done"))
    assert await messages.send_due(context.pk) == 1
    assert not await db.run(add, ada.principal, context, text("second", "key-second"))
    with pytest.raises(KeyUsed):
        await db.run(add, ada.principal, context, text("another", "key-second"))
    assert await waiting(context) == []


async def test_a_queue_is_not_endless_and_what_was_deleted_comes_back_only_where_there_is_room(ada, working):
    context = await put(ada, working, *map(str, range(messages.MAX_QUEUED)))
    with pytest.raises(QueueFull):
        await db.run(messages.enqueue, ada.principal, context, text("no", "one too many"))
    assert await QueuedMessage.objects.acount() == messages.MAX_QUEUED
    row = await QueuedMessage.objects.afirst()
    await db.run(messages.remove, ada.principal, context, row.pk)
    await db.run(messages.enqueue, ada.principal, context, text("no", "in its place"))
    with pytest.raises(QueueFull):
        await db.run(messages.undo_remove, ada.principal, context, row.pk)


FILE = {"raw": "A" * 400_000, "filename": "much.bin", "mediaType": "application/octet-stream"}


async def uses():
    return [blob.uses async for blob in Blob.objects.all()]


async def forgotten():
    """Deleted messages are gone after the undo period."""
    long_ago = timezone.now() - datetime.timedelta(seconds=messages.REMOVED_SECONDS + 1)
    await QueuedMessage.everything.exclude(removed_at=None).aupdate(removed_at=long_ago)
    await db.run(messages.sweep_queues)


async def test_what_was_deleted_is_had_back_whole_and_in_its_place(ada, working):
    context = await put(ada, working)
    for key in "abc":
        said = compose([{"text": key}, FILE], key=key, references=[working.task.pk])
        await db.run(messages.enqueue, ada.principal, context, said)
    before = [row async for row in QueuedMessage.objects.all()]
    await db.run(messages.remove, ada.principal, context, before[1].pk)
    assert [row.message_id async for row in QueuedMessage.objects.all()] == ["a", "c"]
    again = said | {"messageId": "b", "parts": [{"text": "b"}, FILE]}
    assert not await db.run(messages.enqueue, ada.principal, context, again)
    for _ in range(2):
        await db.run(messages.undo_remove, ada.principal, context, before[1].pk)
    after = [row async for row in QueuedMessage.objects.all()]
    assert [(row.pk, row.message) for row in after] == [(row.pk, row.message) for row in before]


async def test_what_was_deleted_is_never_sent_and_gone_after_a_while(ada, working):
    context = await put(ada, working, "one")
    row = await QueuedMessage.objects.aget()
    await db.run(messages.remove, ada.principal, context, row.pk)
    await db.run(end, working, Completed("done"))
    assert await messages.send_due(context.pk) == 0
    with pytest.raises(QueuedNotFound):
        await messages.send_now(ada.principal, context, row.pk)
    await db.run(messages.sweep_queues)
    assert await QueuedMessage.everything.acount() == 1
    await forgotten()
    assert await QueuedMessage.everything.acount() == 0
    with pytest.raises(QueuedNotFound):
        await db.run(messages.undo_remove, ada.principal, context, row.pk)


async def test_files_are_kept_for_as_long_as_they_wait(ada, agent_at, working):
    context = await put(ada, working)
    for key in "ab":
        await db.run(messages.enqueue, ada.principal, context, compose([{"text": key}, FILE], key=key))
    assert await uses() == [2]
    rows = [row async for row in QueuedMessage.objects.all()]
    await db.run(messages.edit, ada.principal, context, rows[0].pk, "")
    assert [part.get("filename") for part in (await QueuedMessage.objects.afirst()).parts] == ["much.bin"]
    await db.run(messages.remove, ada.principal, context, rows[1].pk)
    await forgotten()
    assert await uses() == [1]
    await db.run(end, working, Completed("done"))
    talker = await agent_at("tests.api.agents:Talker")
    await Context.objects.filter(pk=context.pk).aupdate(agent=talker)
    assert await messages.send_due(context.pk) == 0, "the agent takes words alone"
    assert "Remove “much.bin”" in (await QueuedMessage.objects.aget()).problem
    await db.run(deletion.delete_session, ada.principal, context.pk)
    assert await QueuedMessage.objects.acount() == 0
    assert await uses() in ([0], [])


async def test_a_long_text_that_is_kept_in_a_file_is_edited_and_its_file_goes(ada, working, settings):
    settings.INLINE_PART_BYTES, settings.UNUSED_FILE_SECONDS = 100, -1
    context = await put(ada, working)
    file = {"raw": "YSxiCjEsMgo=", "filename": "table.csv", "mediaType": "text/csv"}
    message = compose([{"text": "first " * 100}, file], key="long")
    await db.run(messages.enqueue, ada.principal, context, message)
    row = await QueuedMessage.objects.aget()
    [stored] = await db.run(list, Blob.objects.all())
    await db.run(messages.edit, ada.principal, context, row.pk, "second " * 100)
    row = await QueuedMessage.objects.aget()
    assert [await db.run(blobs.inline, part) for part in row.parts] == [{"text": "second " * 100}, file]
    [kept] = await db.run(list, Blob.objects.filter(uses__gt=0))
    assert kept.sha256 == row.parts[0]["stored"]["sha256"] != stored.sha256
    await db.run(messages.edit, ada.principal, context, row.pk, "third")
    assert (await QueuedMessage.objects.aget()).parts == [{"text": "third"}, file]
    assert not await Blob.objects.filter(uses__gt=0).aexists()
