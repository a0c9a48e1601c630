"""Posts what agents answer: it grows while they write, questions have buttons, files are files.

A row of `ChatAnswer` says how much of a task is posted. What a turn posts is computed from the log each time, and a row
of `ChatPost` for each message says what is there already. So a worker that dies posts nothing twice but the one message
whose id it could not note.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from itertools import islice

from django.conf import settings
from django.db import transaction
from django.db.models import F

from apps.doors import turns
from apps.doors.links import markdown_link
from apps.doors.turns import End, Piece, Text
from apps.engine.repeats import Sent
from apps.optional.channels import markdown, questions
from apps.optional.channels.models import ChatAnswer, ChatChannel, ChatPost
from apps.optional.channels.platforms import At, Button, Later, Outgoing, Platform, Refused
from apps.optional.channels.questions import Question
from apps.record import wire
from apps.record.content import blobs
from apps.record.content.rendering import shortened_title
from apps.record.events import EventType
from apps.record.models import Artifact, Context, Event, Message, TaskState
from parley import db, outbound
from parley.db import sql
from parley.outbound import Exchange, Limits
from parley.work import WorkList

log = logging.getLogger("parley.channels")

LEASE = datetime.timedelta(seconds=90)
EXTENDED_EVERY = 20.0  # seconds
FOLLOWED = 600.0  # seconds of one turn; what comes later is posted when it has settled
WAITS = (2.0, 600.0)  # between tries, in seconds: first and longest
GIVE_UP_AFTER = datetime.timedelta(hours=24)
MOST_POSTS = 20  # of one answer's text; the rest is behind a link
TOO_MUCH = "\n\n… The rest is at {}"
AT_ONCE = 500
FAILED = {
    TaskState.FAILED: "⚠️ ",
    TaskState.REJECTED: "⚠️ ",
    TaskState.CANCELED: "⏹️ It was stopped.",
}


class Lost(Exception):
    """Another worker has this answer now, or it was deleted."""


def note_news(context: Context, events: Sequence[Event]) -> None:
    """A ledger listener: have workers post what settled or went on, of tasks that threads began."""
    news = {event.task_id: event.index for event in events if event.task_id and _is_news(event)}
    if not news:
        return
    keys: list[int] = []
    for task, index in news.items():
        rows = list(ChatAnswer.objects.filter(task=task).values_list("pk", flat=True))
        ChatAnswer.objects.filter(pk__in=rows, news__lt=index).update(news=index, queued_at=sql.database_time())
        keys += rows
    if keys:
        transaction.on_commit(lambda: ANSWERS_TO_POST.publish(*keys))


def _is_news(event: Event) -> bool:
    if event.type != EventType.AGENT_STATUS or "kept" in event.payload:
        return False
    return event.settles or ("progress" not in event.payload and event.payload["state"] == TaskState.WORKING)


@dataclass(slots=True)
class Writer:
    """One worker's hold on an answer."""

    row: ChatAnswer
    channel: ChatChannel
    platform: Platform
    client: Exchange
    extended: float = field(default_factory=time.monotonic)

    @property
    def at(self) -> At:
        thread = self.row.thread
        return At(self.channel, thread.place, thread.external_id, thread.server)

    async def hold(self) -> None:
        """Hold the row longer now and then. Raises Lost."""
        if time.monotonic() - self.extended > EXTENDED_EVERY:
            self.extended = time.monotonic()
            now = await db.run(sql.database_time)
            if not await db.run(lambda: self.row.extend(LEASE, now=now, next_try_at=now + LEASE)):
                raise Lost

    async def show(self, name: str, message: str, question: Question | None = None) -> None:
        """Post a message of the turn, or change it to this if it is there. Raises Later, Refused, Lost."""
        await self.hold()
        digest = hashlib.sha256(message.encode()).hexdigest()
        post = await db.run(self._post_of, name, question)
        if post.digest == digest:
            return
        buttons = [
            Button(one.label, f"{post.pk}.{number}", one.look, questions.word_of(post, asdict(one)))  # type: ignore[arg-type]
            for number, one in enumerate(question.choices if question else ())
        ]
        outgoing = Outgoing(message, f"post-{post.pk}", buttons, await db.run(self._subject))
        if post.external_id:
            await self.platform.edit(self.client, self.at, post.external_id, outgoing)
        else:
            post.external_id = await self.platform.post(self.client, self.at, outgoing)
        post.digest = digest
        await db.persist(post.save, update_fields=["external_id", "digest"])

    def _post_of(self, name: str, question: Question | None = None) -> ChatPost:
        values = {}
        if question is not None:
            choices = [asdict(one) for one in question.choices]
            about = {"task": question.task.pk, "asked": question.asked, "text": question.text}
            values = {**about, "choices": choices, "is_open": True}
        return ChatPost.objects.get_or_create(answer=self.row, turn=self.row.seen, name=name, defaults=values)[0]

    def _subject(self) -> str:
        title = Context.objects.filter(pk=self.row.session_id).values_list("title", flat=True).first()
        return shortened_title(title or self.channel.name)

    async def close_questions(self) -> None:
        """The buttons of questions that are answered become what was answered."""
        for post in await db.run(lambda: list(ChatPost.objects.filter(answer=self.row, is_open=True))):
            outcome = await db.run(questions.outcome_of, post)
            if not outcome:
                continue
            text = self._fitting(f"{post.text}\n\n", outcome)
            if self.platform.edit_seconds is not None and post.external_id and post.choices:
                try:
                    await self.platform.edit(self.client, self.at, post.external_id, Outgoing(text, f"post-{post.pk}"))
                except Refused as refused:  # it was deleted there
                    log.info("a question in a chat could not be closed: %s", refused)
            await db.persist(ChatPost.objects.filter(pk=post.pk).update, is_open=False)

    def _fitting(self, text: str, end: str) -> str:
        return text + end if self.platform.fits(text + end) else end

    async def write(self) -> None:
        """Post the turn that follows what was posted, until it settles. Raises Later, Refused, Lost."""
        told, shown_at, text, tail = [], 0.0, "", ""
        deadline = time.monotonic() + FOLLOWED
        async with aclosing(self._pieces(deadline)) as batches:
            async for batch in batches:
                await self.hold()
                end = next((one for _, one in batch if isinstance(one, End)), None)
                settled_at = batch[-1][0] if end else 0
                is_question = end is not None and end.state.is_interrupted
                for index, piece in batch:
                    if isinstance(piece, Text):
                        if is_question and index == settled_at:
                            tail += piece.text
                        else:
                            text += piece.text
                    elif isinstance(piece, turns.File):
                        told.append(piece)
                if end is not None:
                    await self._end(text, tail.strip(), told, end, settled_at)
                    return
                wait = self.platform.edit_seconds
                if wait is not None and text.strip() and time.monotonic() - shown_at >= wait:
                    await self._show_text(text)
                    shown_at = time.monotonic()

    async def _pieces(self, deadline: float) -> AsyncGenerator[list[tuple[int, Piece]]]:
        """The pieces, and an empty batch now and then, in which the lease is extended; until the deadline."""
        sent = await db.run(_sent_of, self.row)
        follow = turns.follow(sent)
        waiting: asyncio.Future[list[tuple[int, Piece]]] | None = None
        try:
            while time.monotonic() < deadline:
                waiting = waiting or asyncio.ensure_future(anext(follow))
                wait = min(self.platform.edit_seconds or EXTENDED_EVERY, deadline - time.monotonic())
                done, _ = await asyncio.wait({waiting}, timeout=max(wait, 0.01))
                if not done:
                    yield []
                    continue
                finished, waiting = waiting, None
                try:
                    yield finished.result()
                except StopAsyncIteration:
                    return
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            await follow.aclose()

    async def _show_text(self, text: str) -> None:
        for number, chunk in enumerate(await asyncio.to_thread(self._chunks, text.strip())):
            await self.show(f"text:{number}", chunk)

    def _chunks(self, text: str) -> list[str]:
        chunks = list(islice(markdown.split(text, self.platform.fits), MOST_POSTS + 1))
        if len(chunks) > MOST_POSTS:
            address = questions.session_address(self.row.session_id)
            chunks = [*chunks[: MOST_POSTS - 1], TOO_MUCH.format(address).strip()]
        return chunks

    async def _end(self, text: str, tail: str, files: Sequence[turns.File], end: End, settled_at: int) -> None:
        question = await db.run(self._question, tail) if end.state.is_interrupted else None
        if end.state in FAILED:
            text = f"{text}\n\n{FAILED[end.state]}{end.words}".strip()
        elif question is None or not question.choices:
            text = f"{text}\n\n{question.text if question else tail}".strip()
        if text.strip():
            await self._show_text(text)
        for file in files:
            await self._send_file(file)
        if question is not None:
            await self._ask(question, settled_at)
        if not await db.persist(self.row.release, seen=settled_at, problem="", tries=0):
            raise Lost

    def _question(self, words: str) -> Question | None:
        task = self.row.find_task()
        return questions.question_of(task, words) if task else None

    async def _ask(self, question: Question, settled_at: int) -> None:
        """A question with buttons is a message of its own. One that does not fit is decided in Parley."""
        if not question.choices:
            await db.run(self._post_of, f"question:{settled_at}", question)  # a text answers it
            return
        if not await asyncio.to_thread(self.platform.fits, question.text):
            address = questions.session_address(question.task.context_id)
            await self.show(f"question:{settled_at}", f"{questions.TOO_LONG} Answer at {address}")
            return
        await self.show(f"question:{settled_at}", question.text, question)

    async def _send_file(self, file: turns.File) -> None:
        """The file itself, or a link where that is not possible."""
        name = f"file:{file.artifact}:{file.number}"[:100]
        post = await db.run(self._post_of, name)
        if post.digest:
            return
        content = None if file.url else await db.run(_content_of, file)
        try:
            if content is None:
                raise Refused("It is a link.")
            posted = await self.platform.upload(self.client, self.at, file.name, file.media_type, content)
        except Refused:
            await self.show(name, markdown_link(file, self.row.session_id).strip())
            return
        post.external_id, post.digest = posted, "sent"
        await db.persist(post.save, update_fields=["external_id", "digest"])


def _content_of(file: turns.File) -> bytes | None:
    """None for one that is larger than what is sent."""
    row = Artifact.objects.filter(task=file.task, artifact_id=file.artifact).first()
    part = row.parts[file.number] if row and file.number < len(row.parts) else None
    if part is None or part.get("stored", {}).get("size", 0) > settings.MAX_UPLOAD_BYTES:
        return None
    return blobs.content_of(part)


def _sent_of(row: ChatAnswer) -> Sent:
    """What is followed: the task from where it is posted, or the direct answer."""
    if row.task is not None:
        return Sent(row.session_id, row.seen, task=row.task)
    said = Message.objects.select_related("context").filter(context=row.session_id, index__gt=row.first)
    answer = said.filter(role=Message.Role.AGENT).order_by("index").first()
    return Sent(row.session_id, row.news, answer=wire.message(answer, answer.context) if answer else None)


async def post_answer(key: int) -> None:
    """Post what is new of an answer in its thread."""
    begun = await db.run(_claim, key)
    if begun is None:
        return
    row, platform = begun
    channel = row.thread.channel
    async with outbound.exchange(Limits(seconds=settings.WEBHOOK_SECONDS)) as client:
        writer = Writer(row, channel, platform, client)
        try:
            await writer.close_questions()
            await writer.write()
            await db.persist(_let_go, row)
        except Lost:
            return
        except Later as later:
            await db.persist(_postpone, row, str(later), later.seconds)
        except Refused as refused:
            await db.persist(_give_up, row, str(refused))
        except Exception as error:
            log.exception("an answer in a chat failed; it is tried again")
            await db.persist(_postpone, row, type(error).__name__)


ANSWERS_TO_POST = WorkList(
    "chat_answers", "chats.answer", post_answer, ChatAnswer, "queued_at", at_once=AT_ONCE, per_host=1
)


def _claim(key: int) -> tuple[ChatAnswer, Platform] | None:
    rows = ChatAnswer.objects.select_related("thread__channel", "session").filter(pk=key)
    row = next(iter(rows.claim(LEASE)), None)
    if row is None:
        return None
    channel = row.thread.channel
    if channel.at is None or channel.paused_at is not None or row.session.deleted_at is not None:
        _give_up(row, "The channel is paused, its app is left out, or the session was deleted.")
        return None
    return row, channel.at


def _let_go(row: ChatAnswer) -> None:
    """Wait for news. What came since the claim is due at once."""
    now = sql.database_time()
    still = ChatAnswer.objects.filter(pk=row.pk, fence=row.fence)
    still.filter(seen__lt=F("news"), news=row.news, lease_until__isnull=False).update(news=F("seen"))
    still.update(lease_until=None, next_try_at=now, tries=0)
    if ChatAnswer.objects.due(now).filter(pk=row.pk).exists():
        ANSWERS_TO_POST.publish(row.pk)


def _postpone(row: ChatAnswer, problem: str, seconds: float | None = None) -> None:
    now = sql.database_time()
    if now - row.queued_at > GIVE_UP_AFTER:
        _give_up(row, problem)
    elif seconds is None:
        row.retry(*WAITS, problem=problem[:300])
    else:
        row.release(next_try_at=now + datetime.timedelta(seconds=seconds), problem=problem[:300])


def _give_up(row: ChatAnswer, problem: str) -> None:
    """What there is will not be posted; later news of the task will be tried."""
    row.release(seen=F("news"), problem=problem[:300])
    ChatChannel.objects.filter(pk=row.thread.channel_id).update(problem=problem[:300])
