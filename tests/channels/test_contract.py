"""What holds at every platform. A test runs against each platform's stand-in, unless none has a part in its promise."""

import datetime
import re

import pytest

from agentkit.llm import approvals
from apps.accounts.models import Membership, Workspace
from apps.accounts.permissions import Role
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.conversations.sessions import commands, deletion
from apps.optional.channels import forgetting, linking
from apps.optional.channels.acting import EVENTS_TO_ACT_ON
from apps.optional.channels.answering import ANSWERS_TO_POST
from apps.optional.channels.channels import TEST
from apps.optional.channels.models import ChatAccount, ChatAnswer, ChatChannel, ChatEvent, ChatPost, ChatThread
from apps.record.execution import Run
from apps.record.models import Context, Event, Message, Task
from parley import db
from parley.db import sql
from tests.channels.conftest import STAND_INS, link
from tests.work.hand import Worker, work_off
from tests.working import begin, carry_out, end

pytestmark = pytest.mark.django_db(transaction=True)


def can(what):
    """At platforms that can do this."""
    able = [name for name, one in STAND_INS.items() if what in one.has]
    return pytest.mark.parametrize("platform", able, indirect=True)


at_one = pytest.mark.parametrize("platform", ["telegram"], indirect=True)
"""What no platform has a part in."""


@pytest.fixture(autouse=True)
def _the_agent(monkeypatch, db):
    register_hosted("helper", "tests.channels.agents:Helper")


@pytest.fixture
async def talk(chat):
    """The channel's agent is the helper."""

    def change():
        ChatChannel.objects.update(agent=Agent.objects.get(slug="helper"))

    await db.run(change)
    return chat


async def work():
    """Let the agent take its turns."""
    async for run in Run.objects.filter(state=Run.State.QUEUED):
        await carry_out(run.pk)


async def answered(talk):
    await work()
    await talk.hear()


def make_due():
    past = sql.database_time() - datetime.timedelta(seconds=1)
    for model in (ChatEvent, ChatAnswer):
        model.objects.update(next_try_at=past, lease_until=None)


# Coming in


async def test_answer_is_posted_in_thread(talk):
    request = talk.at.message("ada", "hello", key="100.1")
    await talk.do(request)
    await answered(talk)
    [shown] = talk.at.shown
    assert "said hello" in shown.text
    assert shown.thread == talk.at.thread_of("100.1")
    task = await Task.objects.select_related("owner").aget()
    assert task.owner.email == "ada@example.org"


async def test_wrong_signature_records_nothing(talk):
    request = talk.at.message("ada", "hello")
    assert await talk.deliver(talk.at.unsigned(request)) == 401
    assert not await ChatEvent.objects.aexists()


async def test_repeated_delivery_is_done_once(talk):
    headers, body = talk.at.message("ada", "hello")
    await talk.do((dict(headers), body))
    await talk.do((dict(headers), body))
    await answered(talk)
    assert await Task.objects.acount() == 1
    assert len(talk.at.shown) == 1


async def test_later_message_continues_session(talk):
    await talk.do(talk.at.message("ada", "one", key="100.1"))
    await answered(talk)
    await talk.do(talk.at.message("ada", "two", thread=talk.at.thread_of("100.1")))
    await answered(talk)
    assert await Context.objects.acount() == await ChatThread.objects.acount() == 1
    assert ["said one" in talk.at.texts[0], "said two" in talk.at.texts[1]] == [True, True]


@can("files")
async def test_files_come_in(talk):
    await talk.do(talk.at.message("ada", "look", file=True))
    await answered(talk)
    assert "notes.txt 19" in talk.at.texts[0]


@at_one
async def test_worker_that_died_loses_nothing(talk, monkeypatch):
    assert await talk.deliver(talk.at.message("ada", "hello")) < 300
    with monkeypatch.context() as patch:  # after the message is accepted, and before its row is done
        patch.setattr("apps.optional.channels.acting._await_answer", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(BaseException):  # noqa: B017, PT011
            await Worker(EVENTS_TO_ACT_ON).do((await ChatEvent.objects.aget()).pk)
    assert await Task.objects.acount() == 1
    await db.run(make_due)
    await work_off(EVENTS_TO_ACT_ON)
    await answered(talk)
    assert await Task.objects.acount() == 1
    assert len(talk.at.shown) == 1


# Who it is


async def test_stranger_is_told_only_how_to_link(talk):
    await talk.do(talk.at.message("eve", "hello", key="100.1"))
    [shown] = talk.at.shown
    assert "/settings/chat-accounts" in shown.text
    assert not await Task.objects.aexists()


async def test_code_links_account_once(talk, bob, ada):
    def join():
        Membership.objects.create(user=bob, workspace=ada.personal_workspace, role=Role.MEMBER)
        return linking.new_code(bob)

    code = await db.run(join)
    await talk.do(talk.at.message("bob", f"My code:\n{code}"))
    await talk.do(talk.at.message("eve", code))
    accounts = [one async for one in ChatAccount.objects.exclude(user=ada).values_list("external_id", "user")]
    assert accounts == [(talk.at.person("bob"), bob.pk)]
    await talk.do(talk.at.message("bob", "hello"))
    assert (await Task.objects.aget()).owner_id == bob.pk


@at_one
async def test_repeated_code_is_told_the_same(talk, bob, ada):
    def join():
        Membership.objects.create(user=bob, workspace=ada.personal_workspace, role=Role.MEMBER)
        return linking.new_code(bob)

    code = await db.run(join)
    talk.at.refusals = [("429 Too Many Requests", "30")]
    await talk.do(talk.at.message("bob", code))
    assert talk.at.shown == []
    await db.run(make_due)
    await work_off(EVENTS_TO_ACT_ON)
    assert "You are linked" in talk.at.texts[0]
    assert not await Task.objects.aexists()


@at_one
@pytest.mark.parametrize("text", ["value-based", "A value-based price", "23456-78923"])
async def test_words_of_linked_person_are_no_code(talk, text):
    await talk.do(talk.at.message("ada", text))
    await answered(talk)
    assert f"said {text}" in talk.at.texts[-1]


@at_one
async def test_person_outside_workspace_is_not_linked(talk, bob):
    code = await db.run(linking.new_code, bob)
    await talk.do(talk.at.message("bob", code))
    assert not await ChatAccount.objects.filter(user=bob).aexists()


@at_one
async def test_former_member_reaches_nothing(talk, bob, ada):
    def join_and_leave():
        link(talk.channel, bob, talk.at.person("bob"))

    await db.run(join_and_leave)
    await talk.do(talk.at.message("bob", "hello"))
    assert not await Task.objects.aexists()


@pytest.fixture
async def member(talk, ada, bob):
    """Bob, who is linked and may write in the workspace."""

    def join():
        Membership.objects.create(user=bob, workspace=ada.personal_workspace, role=Role.MEMBER)
        link(talk.channel, bob, talk.at.person("bob"))

    await db.run(join)
    return bob


@at_one
async def test_others_session_is_not_reached(talk, member):
    await talk.do(talk.at.message("ada", "one", key="100.1"))
    await answered(talk)
    thread = talk.at.thread_of("100.1")
    session = (await Context.objects.aget()).pk
    await talk.do(talk.at.message("bob", "two", thread=thread))
    await answered(talk)
    assert not await Message.objects.filter(author=member.pk, context=session).aexists()


@at_one
async def test_shared_session_takes_members_words(talk, member, ada):
    await talk.do(talk.at.message("ada", "one", key="100.1"))
    await answered(talk)
    session = (await Context.objects.aget()).pk
    await db.run(commands.share_session, ada.principal, session, Context.Sharing.WORKSPACE)
    await talk.do(talk.at.message("bob", "two", thread=talk.at.thread_of("100.1")))
    assert await Message.objects.filter(author=member.pk, context=session).acount() == 1


@at_one
async def test_guest_stays_in_guests_threads(talk, ada):
    await ChatChannel.objects.aupdate(takes_guests=True)
    await talk.do(talk.at.message("eve", "hello", key="100.1"))
    begun = await Task.objects.select_related("context").aget()
    assert (begun.owner_id, begun.context.is_temporary) == (ada.pk, True)
    await talk.do(talk.at.message("ada", "mine", key="200.1", place="P2"))
    session = (await Task.objects.order_by("-created_at").afirst()).context_id
    await talk.do(talk.at.message("eve", "hers?", thread=talk.at.thread_of("200.1"), place="P2"))
    assert await Message.objects.filter(context=session, role="user").acount() == 1


@at_one
@pytest.mark.parametrize("text", ["/new", "/new hello"])
async def test_guest_cannot_take_over_thread(talk, text):
    await ChatChannel.objects.aupdate(takes_guests=True)
    await talk.do(talk.at.message("ada", "ask"))
    await answered(talk)
    asked = (await ChatThread.objects.aget()).session_id
    await talk.do(talk.at.message("eve", text))
    assert "linked account" in talk.at.texts[-1]
    await talk.do(talk.at.press("eve", "Blue"))
    assert (await ChatThread.objects.aget()).session_id == asked
    assert (await Task.objects.aget()).state == "input-required"


@at_one
async def test_new_session_leaves_earlier_questions(talk):
    await talk.do(talk.at.message("ada", "ask"))
    await answered(talk)
    asked = (await ChatThread.objects.aget()).session_id
    await talk.do(talk.at.message("ada", "/new"))
    assert (await ChatThread.objects.aget()).session_id != asked
    await talk.do(talk.at.press("ada", "Blue"))
    await answered(talk)
    assert "You chose b" in " ".join(talk.at.texts)


@pytest.mark.parametrize("platform", ["mail"], indirect=True)
async def test_deeply_nested_letter_is_refused(talk):
    body = b"Message-ID: " + b"(" * 2_000 + b"\n\nhello"
    assert await talk.deliver((talk.at.sign(body), body)) == 400


@pytest.mark.parametrize("platform", ["mail"], indirect=True)
async def test_long_thread_id_is_answered_whole(talk):
    key = "k" * 1_000
    await talk.do(talk.at.message("ada", "one", key=key))
    await talk.do(talk.at.message("ada", "two", thread=talk.at.thread_of(key)))
    await answered(talk)
    assert await Context.objects.acount() == 1
    assert len((await ChatThread.objects.aget()).thread) <= 300
    assert {one.thread for one in talk.at.shown} == {talk.at.thread_of(key)}


# What goes


@at_one
async def test_deleted_session_leaves_nothing_of_its_chat(talk, ada):
    await talk.do(talk.at.message("ada", "ask"))
    await answered(talk)
    session = (await Context.objects.aget()).pk
    await db.run(deletion.delete_session, ada.principal, session)
    assert not await ChatThread.objects.aexists()
    assert not await ChatPost.objects.aexists()


@at_one
async def test_channels_go_with_their_workspace(talk):
    request = talk.at.message("ada", "hello")
    await Workspace.objects.filter(pk=talk.channel.workspace_id).aupdate(deleted_at=await db.run(sql.database_time))
    assert await talk.deliver(request) == 401
    assert await db.run(forgetting.sweep) == 1
    assert not await ChatChannel.objects.aexists()


# Going out


async def test_long_answer_is_split(talk):
    await talk.do(talk.at.message("ada", "long"))
    await answered(talk)
    joined = "\n".join(talk.at.texts)
    assert all(f"Line {number}:" in joined for number in range(150))
    assert len(talk.at.shown) == talk.at.pieces_of_long


async def test_file_goes_out(talk):
    await talk.do(talk.at.message("ada", "file"))
    await answered(talk)
    if "files" in talk.at.has:
        assert [one.file for one in talk.at.shown if one.file] == [b"a,b\n1,2\n"]
    else:
        assert any("table.csv" in text for text in talk.at.texts)


@at_one
async def test_failure_is_told(talk):
    await talk.do(talk.at.message("ada", "fail"))
    await answered(talk)
    assert "The agent cannot do this." in talk.at.texts[-1]


@at_one
async def test_answer_without_task_is_posted(talk):
    agent = await db.run(register_hosted, "greeter", "tests.channels.agents:Greeter")
    await ChatChannel.objects.aupdate(agent=agent)
    await talk.do(talk.at.message("ada", "friend"))
    await talk.hear()
    assert "Hello, friend." in talk.at.texts[0]


@can("busy")
async def test_busy_platform_is_asked_later(talk):
    await talk.do(talk.at.message("ada", "hello"))
    await work()
    talk.at.refusals = [("429 Too Many Requests", "30")]
    before = await db.run(sql.database_time)
    await talk.hear()
    row = await ChatAnswer.objects.aget()
    assert 29 <= (row.next_try_at - before).total_seconds() <= 60
    assert talk.at.shown == []
    await talk.hear()
    assert talk.at.shown == []  # not before
    await db.run(make_due)
    await talk.hear()
    assert len(talk.at.shown) == 1


async def test_death_after_posting_repeats_nothing(talk, monkeypatch):
    await talk.do(talk.at.message("ada", "hello"))
    await work()
    with monkeypatch.context() as patch:
        patch.setattr("apps.optional.channels.answering.Writer._end", _end_and_die)
        with pytest.raises(BaseException):  # noqa: B017, PT011
            await Worker(ANSWERS_TO_POST).do((await ChatAnswer.objects.aget()).pk)
    await db.run(make_due)
    await talk.hear()
    assert len(talk.at.shown) == 1


async def _end_and_die(self, text, tail, files, end, settled_at):
    await self._show_text(f"{text}\n\n{tail}".strip())
    raise SystemExit


# Questions


@can("buttons")
async def test_button_answers_question(talk):
    await talk.do(talk.at.message("ada", "ask"))
    await answered(talk)
    assert [label for label, _ in talk.at.shown[-1].buttons] == ["Red", "Blue"]
    question = talk.at.shown[-1]
    await talk.do(talk.at.press("ada", "Blue"))
    await answered(talk)
    assert "You chose b" in talk.at.texts[-1]
    assert question.buttons == []
    assert "Blue" in question.text


async def test_text_answers_question(talk):
    await talk.do(talk.at.message("ada", "ask", key="100.1"))
    await answered(talk)
    await talk.do(talk.at.message("ada", "blue", thread=talk.at.thread_of("100.1")))
    await answered(talk)
    assert "You chose b" in talk.at.texts[-1]
    assert await Task.objects.acount() == 1


@can("buttons")
async def test_others_button_answers_nothing(talk, member):
    await talk.do(talk.at.message("ada", "ask"))
    await answered(talk)
    await talk.do(talk.at.press("bob", "Blue"))
    assert (await Task.objects.aget()).state == "input-required"


@pytest.fixture
async def asked(talk):
    """A tool call waits for Ada's decision."""
    await talk.do(talk.at.message("ada", "hello", key="100.1"))
    given = {"to": "everybody"}
    call = {"key": "k", "tool": "send_mail", "kind": "mcp", "needs": 1, "why": "To tell them.", "decisions": []}
    call |= {"schema": {"type": "object"}, "arguments": given, "proposed": given}
    run = await Run.objects.aget()
    await db.run(lambda: end(begin(run.pk), approvals.question([call])))
    await talk.hear()
    return talk


async def test_call_is_shown_whole_and_approved(asked):
    shown = asked.at.shown[-1]
    assert "everybody" in shown.text
    if "buttons" in asked.at.has:
        await asked.do(asked.at.press("ada", "Approve"))
        await answered(asked)
        assert shown.buttons == []
        assert "Approved by Ada" in shown.text
    else:
        word = re.search(r"“(approve \d+)”", shown.text)[1]
        reply = f"{word.title()}.\n\n--\nAda"
        await asked.do(asked.at.message("ada", reply, thread=asked.at.thread_of("100.1")))
    event = await Event.objects.aget(payload__approval__approved=True)
    assert event.payload["approval"]["name"] == "Ada"


async def test_words_decide_about_no_call(asked):
    for text in ("yes", "Approve.", "1", "refuse", "approve 0"):
        await asked.do(asked.at.message("ada", text, thread=asked.at.thread_of("100.1")))
        assert "waits for your decision" in asked.at.texts[-1]
    assert (await Task.objects.aget()).state == "input-required"


async def test_guest_approves_nothing(asked):
    await ChatChannel.objects.aupdate(takes_guests=True)
    await ChatThread.objects.aupdate(of_guests=True)
    if "buttons" in asked.at.has:
        await asked.do(asked.at.press("eve", "Approve"))
    await asked.do(asked.at.message("eve", "approve", thread=asked.at.thread_of("100.1")))
    assert (await Task.objects.order_by("created_at").afirst()).state == "input-required"


# Changes and ratings


@can("edits")
async def test_edit_makes_fork_and_answers(talk):
    await talk.do(talk.at.message("ada", "one", key="100.1"))
    await answered(talk)
    for text in ("two", "three"):
        await talk.do(talk.at.edit("ada", "100.1", text, thread=talk.at.thread_of("100.1")))
        await answered(talk)
        assert f"said {text}" in talk.at.texts[-1]
    newest = (await ChatThread.objects.aget()).session_id
    assert await Context.objects.filter(pk=newest, fork_reason="edit").aexists()


@can("reactions")
async def test_reaction_is_feedback(talk):
    await talk.do(talk.at.message("ada", "hello"))
    await answered(talk)
    await talk.do(talk.at.react("ada", talk.at.shown[0].id, is_up=True))
    assert [one.payload["rating"] async for one in Event.objects.filter(type="feedback")] == [5]


# The channel itself


async def test_test_act_says_who_the_agent_is(talk, ada):
    said = await db.run(TEST.perform, ada.principal, talk.channel)
    assert talk.at.identity in said


async def test_paused_channel_takes_nothing(talk):
    await ChatChannel.objects.aupdate(paused_at=await db.run(sql.database_time))
    await talk.deliver(talk.at.message("ada", "hello"))
    assert not await ChatEvent.objects.aexists()


async def test_channel_without_settings_takes_nothing(talk):
    request = talk.at.message("ada", "hello")
    await ChatChannel.objects.aupdate(secrets="")
    assert await talk.deliver(request) == 401
