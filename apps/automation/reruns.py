"""Running a session again: its messages go to another agent, or to a newer version, and the answers are compared.

The messages wait in the queue of a new session, which sends each when the agent is done.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal

from apps.accounts.principals import Principal
from apps.agents.models import Agent, AgentVersion
from apps.automation.models import Rerun
from apps.conversations.queue.messages import QUEUES, enqueue, hold_reason
from apps.conversations.queue.models import QueuedMessage
from apps.conversations.sessions.commands import create_session
from apps.record import lineage
from apps.record.content import blobs
from apps.record.content.composing import check_taken, compose
from apps.record.content.parts import is_file, words_of
from apps.record.errors import ContextNotFound, UnsupportedOperation
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import INTERRUPTED_STATES, Context, Message, Task
from apps.record.projects import project_of
from apps.record.reading import lookup
from parley.db.sql import write_transaction

MOST_MESSAGES = 100
ALIKE = 0.5  # the share of two answers that must be the same, so that a reader sees more by what changed
MOST_WORDS = 2000  # of an answer whose words are compared; longer ones are compared by lines
NOTHING = "There is no message to run again. Send one first."

type Change = Literal["same", "added", "removed"]


@dataclass(frozen=True, slots=True)
class Side:
    """A turn in one of the two sessions. `run` is None for a message that no agent of this installation got."""

    index: int
    run: Run | None
    answer: Message | None

    @property
    def text(self) -> str:
        return words_of(self.answer.parts).strip() if self.answer else ""

    @property
    def files(self) -> list[str]:
        """Names in the answer's message."""
        return [str(one.get("filename", "")) for one in self.answer.parts if is_file(one)] if self.answer else []

    @property
    def agent(self) -> Agent | None:
        if self.run:
            return self.run.agent or self.run.task.agent
        return self.answer.agent if self.answer else None  # a direct answer

    @property
    def state(self) -> str | None:
        """Of the run; None for a message that has no answer and no run."""
        return self.run.state if self.run else str(Run.State.DONE) if self.answer else None

    @property
    def version(self) -> int | None:
        return (self.run.input.get("agent") or {}).get("number") if self.run else None

    @property
    def options(self) -> JSON:
        return self.run.input.get("options", {}) if self.run else {}

    @property
    def seconds(self) -> float | None:
        began, ended = (self.run.started_at, self.run.finished_at) if self.run else (None, None)
        return (ended - began).total_seconds() if began and ended else None


@dataclass(frozen=True, slots=True)
class ComparedTurn:
    """A message and what came of it in both sessions. `after` is None as long as it was not sent again.

    `same_input`: was the conversation the same so far, with the same options? `Run.input_hash` cannot tell: it is also
    of the ids and of the agent's version.
    """

    message: Message
    before: Side
    after: Side | None
    same_input: bool

    @property
    def words(self) -> str:
        return words_of(self.message.parts)

    @property
    def same_answer(self) -> bool:
        after = self.after
        return after is not None and (self.before.text, self.before.files) == (after.text, after.files)

    @property
    def changes(self) -> Sequence[tuple[Change, str]]:
        """The new answer's text by what is the same, added and removed; empty without one, or if little is alike."""
        return changes_between(self.before.text, self.after.text) if self.after and self.after.answer else []


@dataclass(frozen=True, slots=True)
class Comparison:
    """Attributes:
    held: why the next message is not sent by itself, a sentence, or "".
    unsent: the number of answers that nobody asked for.
    """

    source: Context
    session: Context
    turns: list[ComparedTurn]
    is_finished: bool
    held: str
    unsent: int


def start(
    principal: Principal,
    session: uuid.UUID,
    agent: Agent | None = None,
    *,
    key: str = "",
    version: AgentVersion | None = None,
) -> tuple[Context, bool]:
    """A new session of the caller that gets the messages of `session`, in order; by default from the same agent in its
    current version.

    Also returns whether it is new: the same `key` gives the same session again. Raises ContextNotFound,
    UnsupportedOperation, ContentTypeNotSupported for a file that the agent does not take, QueueFull, StorageFull.
    """
    source = lookup.find_session(principal, session)
    said = _messages_of(source)
    if not said:
        raise UnsupportedOperation(NOTHING)
    if len(said) > MOST_MESSAGES:
        raise UnsupportedOperation(f"A session of more than {MOST_MESSAGES} messages cannot be run again.")
    receiver = agent or source.agent
    for row in said:
        check_taken(receiver, row.parts)
        for stored in blobs.stored_files(row.parts):
            blobs.touch(stored)  # keeps the content until the message is sent
    options = source.options if receiver == source.agent else None
    title = f"Again: {source.title}" if source.title else ""
    project = project_of(principal, source)
    begins: JSON = {"options": options, "project": project and project.key, "key": key and f"rerun {key}"}
    begins["temporary"] = source.is_temporary
    created = create_session(principal, receiver, title=title[:200], **begins)
    made = created.context
    Rerun.objects.get_or_create(session=made, defaults={"source": source})
    answers = set(Run.objects.filter(message__in=said, slot__isnull=False).values_list("message_id", flat=True))
    with write_transaction():
        for row in said:
            message = compose(row.parts, key=_key(made, row))
            is_answer = row.pk in answers
            enqueue(principal, made, message, is_answer=is_answer, version=version, most=MOST_MESSAGES)
    QUEUES.publish(made.pk)
    return made, not created.repeated


def compare(principal: Principal, session: uuid.UUID) -> Comparison:
    """The turns of a rerun beside those of its source. A few queries. Raises ContextNotFound."""
    again = lookup.find_session(principal, session)
    row = Rerun.objects.filter(session=again).first()
    if row is None:
        raise ContextNotFound
    source = lookup.find_session(principal, row.source_id)
    before, after = sides_of(source), sides_of(again)
    sent = {one.message_id: pk for pk, (one, _) in after.items()}
    turns: list[ComparedTurn] = []
    for message in _messages_of(source):
        key = sent.get(_key(again, message))
        sides = before[message.pk][1], after[key][1] if key else None
        is_same = all(one.same_answer for one in turns) and sides[0].options == (sides[1] or sides[0]).options
        turns.append(ComparedTurn(message, *sides, is_same))
    waiting = QueuedMessage.objects.filter(context=again).first()
    is_finished = not waiting and not Task.objects.unfinished().filter(context=again).exists()
    asks = Task.objects.filter(context=again, state__in=INTERRUPTED_STATES).exists()
    held = (waiting.problem if waiting else "") or (hold_reason(again) if waiting or asks else "")
    unsent = sum(one.after is None for one in turns) if is_finished else 0
    return Comparison(source, again, turns, is_finished, held, unsent)


def _messages_of(context: Context) -> list[Message]:
    """What people said in it, as far as anybody got it: an agent, directly or by a task, or another program's."""
    said = lineage.messages(context).filter(role=Message.Role.USER).order_by("index")
    answered = set(lineage.messages(context).filter(role=Message.Role.AGENT, task=None).values_list("index", flat=True))
    return [one for one in said[: MOST_MESSAGES * 2] if one.task_id or one.index + 1 in answered]


def _key(session: Context, message: Message) -> str:
    """The messageId under which it is sent again: another for each rerun."""
    return f"rerun-{session.pk}-{message.pk}"


def sides_of(context: Context) -> dict[uuid.UUID, tuple[Message, Side]]:
    """By people's messages: the message and its turn."""
    spoken = list(lineage.messages(context).select_related("agent").order_by("index"))
    answers: dict[uuid.UUID, Message] = {}
    newest: dict[uuid.UUID | None, Message] = {}
    for one in spoken:
        if one.role == Message.Role.USER:
            newest[one.task_id] = one
        elif said := newest.get(one.task_id):
            answers[said.pk] = one  # the last one before the next message
    asked = [one for one in spoken if one.role == Message.Role.USER]
    rows = Run.objects.filter(message__in=asked).select_related("agent", "task__agent").order_by("turn")
    runs = {one.message_id: one for one in rows}
    return {one.pk: (one, Side(one.index, runs.get(one.pk), answers.get(one.pk))) for one in asked}


@lru_cache(maxsize=256)  # a page asks again while an agent works
def changes_between(before: str, after: str) -> Sequence[tuple[Change, str]]:
    """The text `after` by words, or by lines if it is long, with what was removed; empty if little is alike."""
    old, new = _pieces(before), _pieces(after)
    if max(len(old), len(new)) > MOST_WORDS:
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if max(len(old), len(new)) > MOST_WORDS:
        return []
    matcher, found = SequenceMatcher(None, old, new, autojunk=False), list[tuple[Change, str]]()
    if matcher.ratio() < ALIKE:
        return []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            found.append(("same", "".join(old[a:b])))
            continue
        found += [("removed", "".join(old[a:b]))] if a < b else []
        found += [("added", "".join(new[c:d]))] if c < d else []
    return found


def _pieces(text: str) -> list[str]:
    return re.findall(r"\s+|\w+|[^\w\s]", text)
