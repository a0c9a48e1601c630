"""Does what came in, as the person who did it: messages, answers, edits, ratings.

Each step can be done again: the platform's id of a message makes its messageId, and the rows of threads and answers are
unique. So a worker that dies loses nothing and sends nothing twice.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from agentkit.llm.approvals import DECISION
from apps.accounts.principals import WRITE
from apps.accounts.requests import quotas
from apps.accounts.requests.quotas import QuotaExceeded
from apps.agents.models import Agent
from apps.conversations.forks import editing
from apps.conversations.sessions import commands
from apps.engine.repeats import Sent
from apps.engine.send import send
from apps.engine.turns import approvals
from apps.engine.turns.questions import asks_approval
from apps.optional.channels import linking, questions
from apps.optional.channels.answering import ANSWERS_TO_POST
from apps.optional.channels.linking import Caller
from apps.optional.channels.models import (
    LONGEST_THREAD,
    ChatAnswer,
    ChatChannel,
    ChatEvent,
    ChatPost,
    ChatThread,
    bounded,
)
from apps.optional.channels.platforms import At, File, Inbound, Later, Outgoing, Platform, Refused
from apps.record import lineage
from apps.record.content import parts
from apps.record.content.composing import check_taken, compose, parts_of
from apps.record.errors import (
    ContextNotFound,
    LimitReached,
    NotAccepting,
    Refusal,
    TaskFinished,
    UnsupportedOperation,
    check_allowed,
)
from apps.record.events import JSON
from apps.record.models import Context, Message
from apps.record.reading.lookup import check_may_use, check_may_write, find_session
from parley import db, outbound
from parley.db import sql
from parley.outbound import Exchange, Limits
from parley.work import WorkList

log = logging.getLogger("parley.channels")

LEASE = datetime.timedelta(minutes=3)
LONGEST_EVENT = 150.0  # seconds of one try, less than the lease
GIVE_UP_AFTER = datetime.timedelta(hours=24)
WAITS = (2.0, 600.0)  # between tries, in seconds: first and longest
NOT_THEIRS = "This thread is somebody else's session. Begin a new thread."
GUESTS_APPROVE_NOTHING = "Only somebody with a linked account can decide this."
NOT_A_GUESTS = "Only somebody with a linked account can begin a new session in this thread."
NOTHING_TO_EDIT = "The message was sent before I knew of it, so I cannot take the change. Send it again."
GONE = "This button is too old."


@dataclass(frozen=True, slots=True)
class Act:
    """One event that a worker does now."""

    row: ChatEvent
    channel: ChatChannel
    platform: Platform
    inbound: Inbound

    @property
    def message_id(self) -> str:
        """The messageId of the platform's message."""
        return str(uuid.uuid5(self.channel.pk, f"{self.inbound.place} {self.inbound.message}"))

    @property
    def where(self) -> JSON:
        """The fields of `ChatThread` that find the thread."""
        thread = bounded(self.inbound.thread, LONGEST_THREAD)
        return {"channel": self.channel, "place": self.inbound.place, "thread": thread}

    @property
    def at(self) -> At:
        return At(self.channel, self.inbound.place, self.inbound.thread, self.inbound.server)

    @property
    def event_key(self) -> str:
        """The messageId of what this event says by itself: an edit, or a pressed button."""
        return str(uuid.uuid5(self.channel.pk, f"event {self.row.event_id}"))


async def act(key: int) -> None:
    """Do what somebody did at a platform."""
    begun = await db.run(_claim, key)
    if begun is None:
        return
    limits = Limits(seconds=settings.WEBHOOK_SECONDS, bytes=settings.MAX_UPLOAD_BYTES)
    async with outbound.exchange(limits) as client:
        try:
            async with asyncio.timeout(LONGEST_EVENT):
                thread = await db.run(_thread_of, begun)
                caller, said = await _caller_of(begun, client, thread)
                if caller is not None:
                    begun, thread = await _placed(begun, client, thread)
                    said = await _done(begun, client, caller, thread)
                if said:
                    await _tell(begun, client, said)
        except Refused as refused:
            await db.persist(_finish, begun, str(refused))
        except (Later, QuotaExceeded, NotAccepting, LimitReached, TimeoutError) as later:
            await db.persist(_postpone, begun, later)
        except Exception as error:
            log.exception("chat event %s failed; it is tried again", key)
            await db.persist(_postpone, begun, error)
        else:
            await db.persist(_finish, begun)


EVENTS_TO_ACT_ON = WorkList("chat_events", "chats.act", act, ChatEvent, "received_at")


def _claim(key: int) -> Act | None:
    rows = ChatEvent.objects.select_related("channel__owner", "channel__agent").filter(pk=key)
    row = next(iter(rows.claim(LEASE)), None)
    if row is None:
        return None
    platform = row.channel.at
    if platform is None or row.channel.paused_at is not None:
        row.release(done_at=sql.database_time(), body={}, problem="The channel is paused, or its app is left out.")
        return None
    return Act(row, row.channel, platform, Inbound.stored(row.body))


def _finish(begun: Act, problem: str = "") -> None:
    begun.row.release(done_at=sql.database_time(), body={}, problem=problem[:300])


def _postpone(begun: Act, why: Exception) -> None:
    now = sql.database_time()
    problem = f"{why}"[:300] or type(why).__name__
    if now - begun.row.received_at > GIVE_UP_AFTER:
        _finish(begun, problem)
        return
    seconds = getattr(why, "seconds", None) or getattr(why, "retry_after", None)
    if seconds is None:
        begun.row.retry(*WAITS, problem=problem)
    else:
        begun.row.release(next_try_at=now + datetime.timedelta(seconds=seconds), problem=problem)


async def _tell(begun: Act, client: Exchange, said: str) -> None:
    await begun.platform.post(client, begun.at, Outgoing(said, key=f"event-{begun.row.pk}"))


async def _caller_of(begun: Act, client: Exchange, thread: ChatThread | None) -> tuple[Caller | None, str]:
    """Whose act it is, if something is to be done; otherwise what the person is told."""
    inbound = begun.inbound
    if not inbound.is_addressed and thread is None:
        return None, ""  # people talk to each other
    code = linking.code_in(inbound.text) if inbound.kind == "message" else ""
    if code and (said := await db.run(linking.redeem, begun.channel, inbound, code)):
        return None, said
    caller = await db.run(linking.caller_of, begun.channel, inbound)
    if inbound.kind == "press":
        await begun.platform.acknowledge(client, begun.channel, inbound)
    if caller is None:
        is_told = inbound.is_addressed and inbound.kind in ("message", "press")
        return None, linking.how_to_link(begun.channel) if is_told else ""
    if thread is not None and not inbound.is_addressed and not await db.run(_may_write, caller, thread):
        return None, ""
    return caller, ""


def _may_write(caller: Caller, thread: ChatThread) -> bool:
    try:
        _open_session(caller, thread.session_id, thread.of_guests)
    except Refusal:
        return False
    return True


async def _placed(begun: Act, client: Exchange, thread: ChatThread | None) -> tuple[Act, ChatThread | None]:
    """The event where it belongs, and the thread that is known there. A stranger begins none."""
    inbound = begun.inbound
    if thread is None and inbound.kind == "message" and inbound.is_addressed:
        opened = await begun.platform.open_thread(client, begun.channel, inbound)
        if opened != inbound:
            begun = replace(begun, inbound=opened)
            thread = await db.run(_thread_of, begun)
    return begun, thread


async def _done(begun: Act, client: Exchange, caller: Caller, thread: ChatThread | None) -> str:
    """Do it; returns what the person is to be told besides the agent's answer. Raises what is tried again."""
    inbound = begun.inbound
    db.caller.set(caller.principal.sender)
    try:
        match inbound.kind:
            case "message":
                await _say(begun, client, caller, thread)
            case "edit":
                await _edit(begun, caller, thread)
            case "press":
                await _press(begun, caller)
            case "reaction":
                await db.run(_rate, begun, caller)
    except (NotAccepting, LimitReached):
        raise
    except Refusal as refused:
        return "" if inbound.kind == "reaction" else str(refused)
    return ""


def _thread_of(begun: Act) -> ChatThread | None:
    threads = ChatThread.objects.select_related("session")
    thread, server = threads.filter(**begun.where, session__deleted_at=None).first(), begun.inbound.server
    if thread is not None and server not in ("", thread.server):
        thread.server = server
        thread.save(update_fields=["server"])
    return thread


# Messages


async def _say(begun: Act, client: Exchange, caller: Caller, thread: ChatThread | None) -> None:
    """Send the message to the thread's session, to the question that it was asked, or to a new session."""
    inbound = begun.inbound
    if inbound.begins_anew:
        if caller.is_guest and thread is not None and not thread.of_guests:
            raise UnsupportedOperation(NOT_A_GUESTS)
        if not inbound.text and not inbound.files:
            await db.run(_begin_anew, begun, caller, thread)
            raise UnsupportedOperation("A new session begins with your next message.")
        thread = None
    context = await db.run(_open_session, caller, thread.session_id, thread.of_guests) if thread else None
    agent = context.agent if context else await db.run(_usable_agent, begun, caller)
    await db.run(quotas.count_act, caller.principal)
    asked = await db.run(_open_question, begun, caller, thread) if thread and inbound.text else None
    with suppress(Later, Refused):
        await begun.platform.show_typing(client, begun.at)
    files = [await _part_of(begun, client, one, agent) for one in inbound.files]
    sent = None
    if asked is not None and context is not None:
        with suppress(TaskFinished):
            sent = await _answer(begun, context, caller, asked, files)
    if sent is None:
        said = parts_of(inbound.text, files)
        check_taken(agent, said)
        name = context.name_for(caller.principal) if context else ""
        message = compose(said, key=begun.message_id, context=name)
        # Guests are not told what agents know of the channel's owner, and add nothing to it.
        sent = await send(caller.principal, agent, message, temporary=caller.is_guest)
    await db.run(_await_answer, begun, caller, sent)


def _usable_agent(begun: Act, caller: Caller) -> Agent:
    check_allowed(caller.principal, WRITE)
    agent = begun.channel.agent
    if agent is None:
        raise UnsupportedOperation("The agent of this channel was deleted. Ask the channel's owner to choose another.")
    check_may_use(caller.principal, agent)
    return agent


def _open_session(caller: Caller, session: uuid.UUID, of_guests: bool) -> Context:
    """Raises UnsupportedOperation, ReadOnlySession, MissingRole. A guest goes on with what guests began alone."""
    check_allowed(caller.principal, WRITE)
    if caller.is_guest and not of_guests:
        raise UnsupportedOperation(NOT_THEIRS)
    try:
        context = find_session(caller.principal, session)
    except ContextNotFound:
        raise UnsupportedOperation(NOT_THEIRS) from None
    check_may_write(caller.principal, context)
    check_may_use(caller.principal, context.agent)
    return context


def _begin_anew(begun: Act, caller: Caller, thread: ChatThread | None) -> None:
    """The thread goes on with a new session of the caller. What was asked before is still answered."""
    agent = _usable_agent(begun, caller)
    quotas.count_act(caller.principal)
    if thread is not None:
        key, temporary = begun.message_id, caller.is_guest
        made = commands.create_session(caller.principal, agent, temporary=temporary, key=key)
        _point(begun, caller, made.context.pk)


def _point(begun: Act, caller: Caller, session: uuid.UUID) -> ChatThread:
    """The thread, which is this session from now on."""
    values = {"session_id": session, "of_guests": caller.is_guest, "server": begun.inbound.server}
    long = begun.inbound.thread if len(begun.inbound.thread) > LONGEST_THREAD else ""
    thread, is_new = ChatThread.objects.get_or_create(**begun.where, defaults={**values, "long_thread": long})
    if not is_new and thread.session_id != session:
        ChatThread.objects.filter(pk=thread.pk).update(**values)
    return thread


def _await_answer(begun: Act, caller: Caller, sent: Sent) -> None:
    """Note the thread's session, and have the answer posted there."""
    thread = _point(begun, caller, sent.context)
    # The ledger tells of watched sessions.
    Context.objects.filter(pk=sent.context, is_watched=False).update(is_watched=True)
    index = sent.index if sent.task else sent.index - 1
    key = {"task": sent.task} if sent.task else {"session_id": sent.context, "first": index}
    news = {"session_id": sent.context, "first": index, "seen": index, "news": index + 1}
    row, is_new = ChatAnswer.objects.get_or_create(thread=thread, **key, defaults={**news, "task": sent.task})
    if not is_new:
        # A later message of the task: what came before it is posted already, or will be with it.
        ChatAnswer.objects.filter(pk=row.pk, news__lte=index).update(news=index + 1, queued_at=sql.database_time())
    ANSWERS_TO_POST.publish(row.pk)


async def _part_of(begun: Act, client: Exchange, file: File, agent: Agent) -> JSON:
    """Raises Later, and UnsupportedOperation for one that cannot be had."""
    if file.size > settings.MAX_UPLOAD_BYTES:
        raise UnsupportedOperation(f"{file.name} is too large. Send a smaller file.")
    try:
        content = await begun.platform.download(client, begun.channel, file)
    except Refused as refused:
        raise UnsupportedOperation(f"{file.name} could not be fetched: {refused}") from None
    name, head = parts.safe_file_name(file.name), content[: parts.HEAD_BYTES]
    labels = parts.media_type_fields(file.media_type, head)
    if not agent.takes(labels["mediaType"]) and agent.takes("text/*") and parts.is_text(head):
        labels = {"mediaType": "text/plain"}  # code, whose types are many
    return {"raw": base64.b64encode(content).decode(), "filename": name, **labels}


# Answers


@dataclass(frozen=True, slots=True)
class Answered:
    """The question at `post`, and what was answered: data, or None for words."""

    post: ChatPost
    data: Any = None


def _open_question(begun: Act, caller: Caller, thread: ChatThread) -> Answered | None:
    """The newest question of the thread's session that waits for the caller, as they were asked it.

    Words decide about no tool call: that takes a button, or the word that the question names where there are none.
    Raises UnsupportedOperation for other words.
    """
    has_buttons = begun.platform.has_buttons
    here = {"answer__thread": thread, "answer__session": thread.session_id}
    posts = ChatPost.objects.filter(**here, is_open=True).order_by("-pk")
    for post in posts:
        asking = post.find_asking()
        if asking is not None and asking.status_event == post.asked and asking.owner_id == caller.principal.user_id:
            is_call = asks_approval(asking.slot)
            if is_call and caller.is_guest:
                raise UnsupportedOperation(GUESTS_APPROVE_NOTHING)
            data = None if is_call and has_buttons else questions.read_answer(post, begun.inbound.text)
            if is_call and data is None:
                raise UnsupportedOperation(questions.how_to_decide(post, has_buttons=has_buttons))
            return Answered(post, data)
    return None


async def _press(begun: Act, caller: Caller) -> None:
    """A button of a question: its task is the answer's, or one that it called."""
    number, _, chosen = begun.inbound.press.partition(".")
    post, choice = await db.run(_pressed, begun, number, chosen)
    await db.run(quotas.count_act, caller.principal)
    answer, context = post.answer, None
    if DECISION not in (choice if isinstance(choice, dict) else {}):
        context = await db.run(_open_session, caller, answer.session_id, answer.is_open_to_guests)
    sent = await _answer(begun, context, caller, Answered(post, choice), [])
    if sent is not None:
        await db.run(_wake, post)


def _pressed(begun: Act, number: str, chosen: str) -> tuple[ChatPost, Any]:
    """Raises UnsupportedOperation."""
    rows = ChatPost.objects.select_related("answer__thread").filter(answer__thread__channel=begun.channel)
    post = rows.filter(pk=int(number)).first() if number.isdecimal() and len(number) < 19 else None
    choice = post.choice(chosen) if post else None
    if post is None or choice is None:
        raise UnsupportedOperation(GONE)
    return post, choice["answer"]


async def _answer(
    begun: Act, context: Context | None, caller: Caller, answered: Answered, files: Sequence[JSON]
) -> Sent | None:
    """Raises AlreadyAnswered, TaskNotFound, NotYourTask, TaskFinished."""
    post, data = answered.post, answered.data
    task = await db.run(post.find_asking)
    if task is None:
        raise UnsupportedOperation(GONE)
    is_call = asks_approval(task.slot) or (isinstance(data, dict) and DECISION in data)
    if is_call and caller.is_guest:
        raise UnsupportedOperation(GUESTS_APPROVE_NOTHING)
    if is_call and data is not None:
        await db.run(approvals.decide, caller.principal, task.pk, post.asked, data)
        await db.run(_wake, post)
        row = post.answer
        return Sent(row.session_id, row.first, task=row.task)
    said = parts_of("" if data is not None else begun.inbound.text, files, data)
    check_taken(task.agent, said)
    name = context.name_for(caller.principal) if context else ""
    message = compose(
        said, key=begun.event_key if begun.inbound.press else begun.message_id, context=name, task=task.pk
    )
    return await send(caller.principal, task.agent, message, question_index=post.asked)


def _wake(post: ChatPost) -> None:
    ANSWERS_TO_POST.publish(post.answer_id)


# Edits and ratings


async def _edit(begun: Act, caller: Caller, thread: ChatThread | None) -> None:
    """Replace the message in a fork, as the web does. Its answer is posted in the same thread."""
    if thread is None:
        return
    context = await db.run(_open_session, caller, thread.session_id, thread.of_guests)
    message = await db.run(_message_of, begun, context)
    await db.run(quotas.count_fork, caller.principal)
    said = parts_of(begun.inbound.text) if begun.inbound.text else []
    sent = await editing.edit(caller.principal, context.pk, message.pk, said, key=begun.event_key, keep_files=True)
    await db.run(_await_answer, begun, caller, sent)


def _message_of(begun: Act, context: Context) -> Message:
    """What the platform's message is here, or what an earlier edit of it is. Raises UnsupportedOperation."""
    found = lineage.messages(context).filter(role=Message.Role.USER)
    forks = [fork.payload["edited"] for fork in lineage.fork_events(context) if fork.payload.get("edited")]
    for edited in reversed(forks):
        versions = Message.objects.filter(pk__in=[one["message"] for one in edited["versions"]])
        if versions.filter(message_id=begun.message_id).exists():
            own = found.filter(message_id=edited["messageId"]).first()
            break
    else:
        own = found.filter(message_id=begun.message_id).first()
    if own is None:
        raise UnsupportedOperation(NOTHING_TO_EDIT)
    return own


def _rate(begun: Act, caller: Caller) -> None:
    """Feedback on the task whose answer the message is."""
    inbound = begun.inbound
    posts = ChatPost.objects.select_related("answer__thread").filter(external_id=inbound.message)
    post = posts.filter(answer__thread__channel=begun.channel, answer__thread__place=inbound.place).first()
    task = post.answer.find_task() if post else None
    if post is None or task is None or (caller.is_guest and not post.answer.is_open_to_guests):
        return
    feedback = commands.parse_feedback(str(inbound.rating), "")
    commands.give_feedback(caller.principal, task.agent, str(task.pk), feedback)
