"""Editing and retrying a message creates forks, once for each key."""

import asyncio
import os
import uuid

import pytest
from django.core.files.storage import default_storage

import db
from agentkit import Artifact, Completed, InputRequired
from apps.agents.models import Agent
from apps.engine import accept, cancel
from apps.engine.send import send
from apps.features.forks import branches, editing, forking
from apps.features.sessions import deletion
from apps.features.sessions.commands import switch_agent
from apps.record import lineage, projection
from apps.record.content import blobs
from apps.record.errors import (
    ContentTypeNotSupported,
    ContextNotFound,
    InvalidParams,
    MessageNotFound,
    UnsupportedOperation,
)
from apps.record.models import Blob, Context, Event, Message, Task
from tests.engine import branching_agents
from tests.engine.delegating import SOON, ended, until, words
from tests.working import begin, carry_out, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("forks at once, each once")]


@pytest.fixture
async def patient(agent_at):
    branching_agents.GATE.clear()
    branching_agents.BEGUN.clear()
    yield await agent_at("tests.engine.branching_agents:Patient")
    branching_agents.GATE.set()


@pytest.fixture
async def seeing(agent_at):
    return await agent_at("tests.engine.branching_agents:Seeing")


def text(words):
    return [{"text": words}]


def key():
    return uuid.uuid4().hex


def read(what):
    return db.run(what)


def said_in(context):
    rows = lineage.messages(Context.objects.get(pk=context)).order_by("index")
    return [row.parts[0].get("text", row.parts[0].get("data")) for row in rows]


def find(context, words):
    rows = lineage.messages(Context.objects.get(pk=context)).order_by("index")
    return next(row.pk for row in rows if row.parts[0].get("text") == words)


async def message(context, words):
    return await read(lambda: find(context, words))


async def talk(ada, agent, said, *texts, **fields):
    for one in texts:
        sent = await send(ada.principal, agent, said(one, contextId="talk", **fields))
        if sent.task:
            await ended(sent)
    return sent.context


async def edited(ada, context, old, new, **options):
    options = {"key": key()} | options
    return await editing.edit(ada.principal, context, await message(context, old), text(new), **options)


async def run_of(sent):
    return await read(lambda: Task.objects.get(pk=sent.task).runs.get().pk)


def is_whole(*contexts):
    return [projection.differences(context) for context in contexts] == [[]] * len(contexts)


async def test_an_edit_is_answered_in_a_fork_that_begins_before_it(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one", "two")
    sent = await edited(ada, context, "two", "zwei")
    task = await ended(sent)
    assert (task.state, task.context_id, sent.context != context) == ("completed", sent.context, True)
    assert await read(lambda: said_in(sent.context)) == ["one", "one", "zwei", "zwei"]
    assert await read(lambda: said_in(context)) == ["one", "one", "two", "two"]
    event = await read(lambda: Event.objects.get(context=context, type="edit"))
    assert event.payload == {"messageId": str(await message(context, "two")), "session": str(sent.context)}
    assert (await read(lambda: branches.tree(ada.principal, context))).chosen == sent.context
    assert await read(lambda: is_whole(context, sent.context))


@pytest.mark.parametrize("running", ["cancel", "finish"])
async def test_what_works_is_canceled_or_ends_where_it_was_and_nothing_of_it_reaches_the_fork(
    ada, patient, said, worker, running
):
    context, at_work = await streaming(ada, patient, said)
    sent = await edited(ada, context, "wait", "go", running=running)
    assert words(await ended(sent)) == "went on with go"
    branching_agents.GATE.set()
    task = await ended(at_work)
    assert task.state == ("canceled" if running == "cancel" else "completed")
    assert await read(lambda: not heard_of(sent.context, at_work.task))
    assert ((await read(lambda: said_in(context)))[-1] == "late") == (running == "finish")
    assert await read(lambda: is_whole(context, sent.context))


async def streaming(ada, patient, said):
    await talk(ada, patient, said, "first")
    running = await send(ada.principal, patient, said("wait", contextId="talk"))
    assert await asyncio.to_thread(branching_agents.BEGUN.wait, SOON)
    await until(lambda: Event.objects.filter(task=running.task, type="artifact_update").exists())
    return running.context, running


def heard_of(context, task):
    return list(lineage.events(Context.objects.get(pk=context)).filter(task=task))


async def test_the_same_key_gives_the_same_fork_and_the_same_answer(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one")
    once = key()
    first = await edited(ada, context, "one", "eins", key=once)
    again = await edited(ada, context, "one", "eins", key=once)
    assert (again.context, again.task, again.repeated) == (first.context, first.task, True)
    await ended(first)
    assert await read(Context.objects.count) == 2
    assert await read(Event.objects.filter(type="edit").count) == 1


async def test_the_same_key_of_an_answer_at_once_gives_the_same_answer(ada, agent_at, said):
    agent = await agent_at("tests.engine.branching_agents:AtOnce")
    context = await talk(ada, agent, said, "one", "two")
    once = key()
    first = await edited(ada, context, "two", "zwei", key=once)
    again = await edited(ada, context, "two", "zwei", key=once)
    assert first.answer["parts"] == text("at once: zwei, after ['one', 'at once: one, after []']")
    assert again.answer == first.answer


async def test_what_a_crash_left_undone_is_done_when_it_is_asked_for_again(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one", "two")
    once, old = key(), await message(context, "two")
    place = (await read(lambda: Message.objects.get(pk=old))).index - 1
    child = await read(
        lambda: forking.fork(
            ada.principal, context, place, reason="edit", key=once, running="cancel", edited_message=str(old)
        )
    )
    sent = await edited(ada, context, "two", "zwei", key=once)
    assert sent.context == child.pk
    assert words(await ended(sent)) == "zwei"
    assert await read(Context.objects.count) == 2


async def test_a_key_that_was_used_for_something_else_is_refused(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one", "two")
    once = key()
    sent = await edited(ada, context, "two", "zwei", key=once)
    await ended(sent)
    plain = said("plain", contextId="elsewhere")
    await ended(await send(ada.principal, echo, plain))
    before = await read(Context.objects.count)
    for attempt in (
        lambda: edited(ada, context, "two", "deux", key=once),
        lambda: edited(ada, context, "one", "zwei", key=once),
        lambda: edited(ada, sent.context, "one", "zwei", key=once),
        lambda: edited(ada, context, "two", "zwei", key=plain["messageId"]),
        lambda: editing.retry(ada.principal, context, key=once),
    ):
        with pytest.raises(InvalidParams, match="Use a new"):
            await attempt()
    assert await read(Context.objects.count) == before


async def test_two_editors_of_one_message_make_two_forks(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one", "two")
    sent = await asyncio.gather(*(edited(ada, context, "two", new) for new in ("zwei", "deux", "dos")))
    for one in sent:
        await ended(one)
    index = (await read(lambda: Message.objects.get(context=context, parts=text("two"), role="user"))).index
    siblings = await read(lambda: branches.siblings(ada.principal, Context.objects.get(pk=context), index))
    assert siblings[0].context.pk == context
    assert {one.message.parts[0]["text"] for one in siblings} == {"two", "zwei", "deux", "dos"}
    assert len({one.context for one in sent}) == 3
    assert await read(lambda: is_whole(context, *(one.context for one in sent)))


async def test_one_editor_who_is_impatient_makes_one_fork(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one", "two")
    once = key()
    sent = await asyncio.gather(*(edited(ada, context, "two", "zwei", key=once) for _ in range(4)))
    assert len({(one.context, one.task) for one in sent}) == 1
    assert await read(Context.objects.count) == 2
    assert words(await ended(sent[0])) == "zwei"


async def test_only_ones_own_words_can_be_edited(ada, bob, echo, said, worker):
    context = await talk(ada, echo, said, "one")
    answer = await read(lambda: Message.objects.get(context=context, role="agent"))
    own = await message(context, "one")
    elsewhere = await send(ada.principal, echo, said("elsewhere"))
    await ended(elsewhere)
    other = await message(elsewhere.context, "elsewhere")
    attempts = [
        (ada, context, answer.pk, UnsupportedOperation),
        (ada, context, other, MessageNotFound),
        (ada, context, uuid.uuid4(), MessageNotFound),
        (bob, context, own, ContextNotFound),
        (ada, uuid.uuid4(), own, ContextNotFound),
    ]
    for who, where, what, refusal in attempts:
        with pytest.raises(refusal):
            await editing.edit(who.principal, where, what, text("else"), key=key())
    await db.run(deletion.delete_context, ada.principal, echo, "talk")
    with pytest.raises(ContextNotFound):
        await editing.edit(ada.principal, context, own, text("else"), key=key())
    assert await read(Context.objects.count) == 2


async def test_an_agent_that_is_closed_by_now_is_refused(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one")
    await read(lambda: Agent.objects.filter(pk=echo.pk).update(is_enabled=False))
    with pytest.raises(UnsupportedOperation, match="Choose another"):
        await edited(ada, context, "one", "eins")
    assert await read(Context.objects.count) == 1


async def test_a_retry_says_the_same_again_before_it_was_answered(ada, seeing, said, worker):
    context = await talk(ada, seeing, said, "one", "two", metadata={"tone": "dry"}, extensions=["https://e.org/x"])
    sent = await editing.retry(ada.principal, context, key=key())
    task = await ended(sent)
    again = await read(lambda: Message.objects.get(context=sent.context, role="user"))
    assert (again.parts, again.metadata, again.extensions) == (text("two"), {"tone": "dry"}, ["https://e.org/x"])
    given = (await read(lambda: task.artifacts.get())).parts[0]["data"]
    assert (given["history"][0], len(given["history"]), len(given["references"])) == ("one", 2, 1)
    assert (await read(lambda: Context.objects.get(pk=sent.context))).fork_reason == "retry"
    assert not await read(Event.objects.filter(type="edit").exists)


async def test_the_answer_to_any_message_can_be_had_again(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one", "two")
    answer = await read(lambda: Message.objects.get(context=context, parts=text("one"), role="agent"))
    for pick in (answer.pk, await message(context, "one")):
        sent = await editing.retry(ada.principal, context, key=key(), message=pick)
        await ended(sent)
        assert await db.run(said_in, sent.context) == ["one", "one"]


async def test_a_retry_that_is_repeated_later_is_of_what_was_newest_then(ada, echo, said, worker):
    context, once = await talk(ada, echo, said, "one", "two"), key()
    first = await editing.retry(ada.principal, context, key=once)
    await ended(first)
    await talk(ada, echo, said, "three")
    again = await editing.retry(ada.principal, context, key=once)
    assert (again.context, again.task, again.repeated) == (first.context, first.task, True)
    in_fork = await editing.retry(ada.principal, first.context, key=key())
    await ended(in_fork)
    assert await db.run(said_in, in_fork.context) == ["one", "one", "two", "two"]


async def test_another_agent_may_answer(ada, seeing, agent_at, said, worker):
    context = await talk(ada, seeing, said, "one", metadata={"skillId": "see", "tone": "dry"})
    await db.run(switch_agent, ada.principal, context, seeing, {"depth": 2})
    other = await agent_at("tests.engine.branching_agents:AtOnce")
    sent = await editing.retry(ada.principal, context, key=key(), agent=other)
    assert sent.answer["parts"] == text("at once: one, after []")
    child, again = await read(
        lambda: (Context.objects.get(pk=sent.context), Message.objects.get(context=sent.context, role="user"))
    )
    assert (child.agent_id, child.options, again.metadata) == (other.pk, {}, {"tone": "dry"})
    assert await read(lambda: is_whole(context, sent.context))


async def test_another_agent_that_does_not_take_such_files_is_refused(ada, seeing, agent_at, said, worker):
    await db.run(lambda: Agent.objects.filter(pk=seeing.pk).update(input_modes=["*/*"]))
    await read(seeing.refresh_from_db)
    picture = said(parts=[{"raw": "aGk=", "mediaType": "image/png"}])
    sent = await send(ada.principal, seeing, picture)
    await ended(sent)
    other = await agent_at("tests.engine.branching_agents:AtOnce")
    with pytest.raises(ContentTypeNotSupported, match="image/png"):
        await editing.retry(ada.principal, sent.context, key=key(), agent=other)
    assert await read(Context.objects.count) == 1


async def test_where_nothing_was_said_nothing_can_be_answered_again(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one")
    child = await read(lambda: forking.fork(ada.principal, context, 0, reason="fork"))
    with pytest.raises(UnsupportedOperation, match="no message to try again"):
        await editing.retry(ada.principal, child.pk, key=key())


async def test_a_fork_keeps_how_its_agent_was_set_up_at_that_place(ada, echo, said, worker):
    context = await talk(ada, echo, said, "one")
    await db.run(switch_agent, ada.principal, context, echo, {"tone": "dry"})
    await talk(ada, echo, said, "two")
    await db.run(switch_agent, ada.principal, context, echo, {"tone": "warm"})
    sent = [await edited(ada, context, old, "new") for old in ("one", "two")]
    options = await read(lambda: [Context.objects.get(pk=one.context).options for one in sent])
    assert options == [{}, {"tone": "dry"}]
    for one in sent:
        await ended(one)
    assert await read(lambda: is_whole(*(one.context for one in sent)))


async def test_a_file_stays_though_the_session_that_named_it_is_deleted_between_fork_and_message(
    ada, agent, said, worker, monkeypatch, settings
):
    measuring = await agent("Measuring", input_modes=["*/*"])
    first = await send(ada.principal, measuring, said(parts=[{"text": "x" * 300_000}]))
    await ended(first)
    kept = blobs.path_of((await read(Blob.objects.get)).sha256)
    os.utime(default_storage.path(kept), (0, 0))
    settings.UNUSED_FILE_SECONDS = 600

    async def send_late(*args, **options):
        await db.run(deletion.delete_session, ada.principal, first.context)
        return await send(*args, **options)

    monkeypatch.setattr(editing, "send", send_late)
    sent = await editing.retry(ada.principal, first.context, key=key())
    assert words(await ended(sent)) == "300000"


def asked(ada, agent, said, *answers):
    sent = accept.accept(ada.principal, agent, said("first", contextId="talk"))
    end(begin(sent.run), InputRequired("More?", slot="more"), memory={"seen": ["first"]})
    for number, answer in enumerate(answers):
        next_ = accept.accept(ada.principal, agent, said(answer, taskId=str(sent.task)))
        end(begin(next_.run), InputRequired("More?", slot="more"), memory={"seen": ["first", *answers[: number + 1]]})
    return sent


async def test_another_answer_is_a_new_task_that_knows_the_question_and_what_went_before(ada, agent, said):
    remembering = await agent("Remembering")
    task = await read(lambda: asked(ada, remembering, said, "a", "b"))
    sent = await edited(ada, task.context, "a", "A")

    def taken_up():
        made = Task.objects.get(pk=sent.task)
        held = begin(made.runs.get().pk)
        return made, held.slot, held.memory, [one.text for one in held.history]

    made, slot, memory, history = await read(taken_up)
    assert (made.references, made.context_id) == ([str(task.task)], sent.context)
    assert (slot, memory, history) == ({"name": "more"}, {"seen": ["first"]}, ["first", "More?"])
    assert await read(lambda: Task.objects.get(pk=task.task).state) == "input-required", "it waits there still"
    assert await read(lambda: is_whole(task.context, sent.context))


@pytest.mark.parametrize("how", ["completed", "canceled"])
async def test_once_the_task_has_ended_another_answer_is_a_request_that_shows_the_question(ada, seeing, said, how):
    def over():
        task = asked(ada, seeing, said)
        if how == "canceled":
            last = accept.accept(ada.principal, seeing, said("a", taskId=str(task.task)))
            cancel.cancel_by_id(ada.principal, seeing, str(task.task))
        else:
            last = accept.accept(ada.principal, seeing, said("a", taskId=str(task.task)))
            end(begin(last.run), Completed("done", [Artifact.text("made", "x")]))
        return task

    task = await read(over)
    sent = await edited(ada, task.context, "a", "A")
    await carry_out(await run_of(sent))
    done = await ended(sent)
    given = (await read(lambda: done.artifacts.get())).parts[0]["data"]
    assert given["history"] == ["first", "More?"]
    assert given["references"] == [["canceled", ["first", "More?"], 0]], "nothing of what came after"
    run = await read(lambda: done.runs.get())
    assert run.slot is None


async def test_an_answer_whose_question_a_crash_erased_is_a_request(ada, seeing, said):
    """The fork canceled the first answer's task; then the message was not sent."""

    def at_work():
        task = asked(ada, seeing, said)
        begin(accept.accept(ada.principal, seeing, said("a", taskId=str(task.task))).run)
        return task

    task, once = await read(at_work), key()
    old = await message(task.context, "a")
    place = (await read(lambda: Message.objects.get(pk=old))).index - 1
    how = {"reason": "edit", "key": once, "running": "cancel", "edited_message": str(old)}
    child = await read(lambda: forking.fork(ada.principal, task.context, place, **how))
    sent = await edited(ada, task.context, "a", "A", key=once)
    await carry_out(await run_of(sent))
    assert (sent.context, (await ended(sent)).state) == (child.pk, "completed")
    assert (await read(lambda: Task.objects.get(pk=sent.task).runs.get())).slot is None


async def test_a_repetition_while_the_first_is_on_its_way_takes_up_the_question_once(ada, agent, said):
    remembering = await agent("Remembering")
    task = await read(lambda: asked(ada, remembering, said, "a"))
    once = key()
    sent = await asyncio.gather(*(edited(ada, task.context, "a", "A", key=once) for _ in range(3)))
    assert len({(one.context, one.task) for one in sent}) == 1
    runs = await read(lambda: list(Task.objects.get(pk=sent[0].task).runs.all()))
    assert [(run.slot, run.memory) for run in runs] == [({"name": "more"}, {"seen": ["first"]})]
