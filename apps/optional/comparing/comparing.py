"""Comparing: a message goes to several answerers, each in a branch of its own, and their owner chooses.

Rows, branches and queued messages are one transaction, so there is nothing to repair: the queue of each branch sends
the message once, also after a crash.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from django.db import IntegrityError
from django.utils import timezone

from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource, deleting
from apps.agents.models import Agent, AgentVersion
from apps.automation import reruns
from apps.conversations.forks import branches, editing, forking
from apps.conversations.queue.messages import QUEUES, enqueue
from apps.conversations.queue.models import QueuedMessage
from apps.conversations.sessions.commands import create_session, read_options, usual_options
from apps.optional.comparing.models import Comparison, Side
from apps.record.content import blobs
from apps.record.content.composing import check_taken, compose
from apps.record.content.rendering import title_of
from apps.record.content.strict_json import digest_of
from apps.record.errors import InvalidFields, KeyUsed, UnsupportedOperation
from apps.record.events import JSON
from apps.record.models import Context, Message, Task, TaskState
from apps.record.reading.lookup import check_may_use, find_session
from apps.record.runs import UsageTotals
from parley.db.sql import delete_in_batches, write_transaction

LEAST, MOST = 2, 4  # answerers
NAMESPACE = uuid.UUID("0c3f5f54-55c4-5d0c-8d8e-3b6f8f2f6d2e")
WENT_ON = "You have gone on since, so this choice stays. Compare again."
DELETED = "This answer was deleted. Choose another."


@dataclass(frozen=True, slots=True)
class Answerer:
    """Who gets the message. `version` and `options` of None: as a session that there is has it, or by default."""

    agent: Agent
    version: AgentVersion | None = None
    options: JSON | None = None

    @property
    def identity(self) -> JSON:
        return {
            "agent": self.agent.pk, "version": str(self.version.pk) if self.version else None, "options": self.options
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """What is compared: `parts` are said after event `at` of the session. `answered`: the message that was said.

    `is_first`: in a session that was made for it, which has the options of the first answerer.
    """

    session: Context
    at: int
    parts: list[JSON]
    answered: Message | None = None
    is_first: bool = False


def begin(
    principal: Principal,
    answerers: Sequence[Answerer],
    *,
    session: uuid.UUID | None = None,
    parts: Sequence[JSON] = (),
    answer: uuid.UUID | None = None,
    blind: bool = False,
    project: uuid.UUID | None = None,
    temporary: bool = False,
    key: str,
) -> tuple[Comparison, bool]:
    """Send a message to each answerer in a branch of the session, or of a new one.

    The message has these checked `parts`; or it is the one that `answer`, a message of the session, answers: then
    that answer is a side. `blind`: names are hidden until the choice, and the order is random. `project` and
    `temporary` are of a new session, as in `create_session`.

    Also returns whether it is new: the same `key` gives the same comparison. Raises InvalidFields, InvalidParams,
    ContextNotFound, MessageNotFound, UnsupportedOperation, ContentTypeNotSupported, KeyUsed; then nothing was sent.
    """
    pk = uuid.uuid5(NAMESPACE, f"{principal.sender} {key}")
    asked = [str(session), list(parts), str(answer), blind, [one.identity for one in answerers]]
    asked += [str(project), temporary]
    digest = digest_of({"asked": asked})
    if earlier := _earlier(pk, digest):
        return earlier, False
    _check_count(answerers, has_answer=answer is not None)
    for one in answerers:
        check_may_use(principal, one.agent)
    if session is not None:
        find_session(principal, session)  # restored before the transaction
    made = Comparison(pk=pk, owner_id=cast("int", principal.user_id), digest=digest, blind=blind)
    try:
        with write_transaction():
            if session is None:
                question = _first_question(principal, answerers[0], parts, pk, project=project, temporary=temporary)
            else:
                question = _question(principal, session, parts, answer)
            for one in answerers:
                check_taken(one.agent, question.parts)
            made.session, made.workspace_id = question.session, question.session.workspace_id
            made.save(force_insert=True)
            sent = _branch(principal, made, question, answerers)
    except IntegrityError:  # a concurrent request
        if earlier := _earlier(pk, digest):
            return earlier, False
        raise
    for branch in sent:
        QUEUES.publish(branch)
    return made, True


def _earlier(pk: uuid.UUID, digest: str) -> Comparison | None:
    """Raises KeyUsed."""
    found = Comparison.objects.filter(pk=pk).first()
    if found is not None and found.digest != digest:
        raise KeyUsed("This {} was used for another comparison. Use a new {}.")
    return found


def _check_count(answerers: Sequence[Answerer], *, has_answer: bool) -> None:
    least, most = LEAST - has_answer, MOST - has_answer
    if not least <= len(answerers) <= most:
        raise InvalidFields([("answerers", f"Choose {least} to {most} answerers.")])
    distinct = {str(one.identity) for one in answerers}
    if len(distinct) < len(answerers):
        raise InvalidFields([("answerers", "Choose different agents, models or versions.")])


def _first_question(
    principal: Principal, first: Answerer, parts: Sequence[JSON], pk: uuid.UUID, **how: Any
) -> Question:
    """That of a new session. `how`: project and temporary."""
    how |= {"options": first.options, "key": f"compare {pk}", "title": _title(parts)}
    made = create_session(principal, first.agent, **how).context
    return Question(made, made.last_event, list(parts), is_first=True)


def _question(principal: Principal, session: uuid.UUID, parts: Sequence[JSON], answer: uuid.UUID | None) -> Question:
    found = find_session(principal, session)
    if answer is None:
        return Question(found, found.last_event, list(parts))
    row = editing.message_to_retry(principal, found, editing.find_message(found, answer))
    return Question(found, row.index - 1, row.parts, row)


def _title(parts: Sequence[JSON]) -> str:
    return title_of({"parts": list(parts)})


def _branch(
    principal: Principal, made: Comparison, question: Question, answerers: Sequence[Answerer]
) -> list[uuid.UUID]:
    """The sides with their branches, whose queues get the message. Returns the branches."""
    for stored in blobs.stored_files(question.parts):
        blobs.touch(stored)  # keeps the content until the message is sent
    rows = [_side_of_new(principal, made, question, number, one) for number, one in enumerate(answerers, start=1)]
    sent = [row.session_id for row in rows]
    if question.answered is not None:
        rows.insert(0, _side_of_answer(made, question.session, question.answered))
    if made.blind:
        secrets.SystemRandom().shuffle(rows)
    for position, row in enumerate(rows, start=1):
        row.position = position
    Side.objects.bulk_create(rows)
    return sent


def _side_of_new(principal: Principal, made: Comparison, question: Question, number: int, one: Answerer) -> Side:
    key = f"compare-{made.pk}-{number}"
    options = usual_options(principal, question.session, one.agent) if question.is_first else None
    options = options if one.options is None else one.options
    how: dict[str, Any] = {"agent": one.agent, "options": options, "title": _title(question.parts)}
    reason: forking.Reason = "retry" if question.answered else "fork"
    branch = forking.fork(principal, question.session, question.at, reason=reason, key=key, **how)
    enqueue(principal, branch, compose(question.parts, key=key), version=one.version)
    version, model = one.version or one.agent.current_version, (branch.options or {}).get("model", "")
    return Side(
        comparison=made, session=branch, message_id=key, agent=one.agent, version=version, model=str(model)[:200]
    )


def _side_of_answer(made: Comparison, session: Context, said: Message) -> Side:
    """The side of an answer that there is."""
    found = reruns.sides_of(session)[said.pk][1]
    agent = found.agent or session.agent
    version = AgentVersion.objects.filter(agent=agent, number=found.version).first() if found.version else None
    model = str(found.options.get("model", ""))[:200]
    return Side(comparison=made, session=session, message_id=said.message_id, agent=agent, version=version, model=model)


def choose(principal: Principal, comparison: Comparison, choice: str, side: Side | None = None) -> Comparison:
    """Choose a side, whose branch its owner goes on with; or both, or neither (`Comparison.Choice`).

    It can be changed until the next message in one of the branches. Raises UnsupportedOperation.
    """
    with write_transaction():
        row = Comparison.objects.select_for_update().get(pk=comparison.pk)
        if row.choice and _went_on(row):
            raise UnsupportedOperation(WENT_ON)
        if side is not None and side.session.deleted_at is not None:
            raise UnsupportedOperation(DELETED)
        row.sides.update(is_chosen=False)
        if side is not None:
            row.sides.filter(pk=side.pk).update(is_chosen=True)
        row.choice, row.chosen_at = choice, timezone.now()
        row.save(update_fields=["choice", "chosen_at"])
    if side is not None:
        branches.save_chosen_leaf(principal, side.session)
    return row


def may_choose(comparison: Comparison) -> bool:
    return not (comparison.choice and _went_on(comparison))


def _went_on(comparison: Comparison) -> bool:
    """Whether a person has written in one of the branches since the choice."""
    sides = comparison.sides.all()
    said = Message.objects.filter(context__in=sides.values("session"), role=Message.Role.USER)
    later = said.filter(created_at__gt=comparison.chosen_at)
    return later.exclude(message_id__in=sides.values("message_id")).exists()


class State(StrEnum):
    """Of a side, for people and programs."""

    WAITING = "waiting"
    HELD = "held"
    WORKING = "working"
    ASKING = "asking"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    DELETED = "deleted"


OF_TASKS = {
    TaskState.INPUT_REQUIRED: State.ASKING,
    TaskState.AUTH_REQUIRED: State.ASKING,
    TaskState.COMPLETED: State.DONE,
    TaskState.FAILED: State.FAILED,
    TaskState.REJECTED: State.FAILED,
    TaskState.CANCELED: State.STOPPED,
}


@dataclass(frozen=True, slots=True)
class ShownSide:
    """A side and what came of it. `held`: why its message was not sent, a sentence, or ""."""

    row: Side
    state: State
    turn: reruns.Side | None = None
    held: str = ""

    @property
    def seconds(self) -> float | None:
        return self.turn.seconds if self.turn else None

    @property
    def cost(self) -> float | None:
        run = self.turn.run if self.turn else None
        return UsageTotals.of([run.usage]).as_json.get("cost") if run else None

    @property
    def may_change(self) -> bool:
        """Whether its state changes by itself, or once its owner answers."""
        return self.state in (State.WAITING, State.WORKING, State.ASKING)


def shown_sides(comparison: Comparison) -> list[ShownSide]:
    """In their order."""
    return [_shown(row) for row in comparison.sides.select_related("agent", "version", "session__agent")]


def _shown(row: Side) -> ShownSide:
    if row.session.deleted_at is not None:
        return ShownSide(row, State.DELETED)
    turns = reruns.sides_of(row.session).values()
    said, turn = next((one for one in turns if one[0].message_id == row.message_id), (None, None))
    if said is None:
        queued = QueuedMessage.objects.filter(context=row.session, message_id=row.message_id).first()
        held = queued.problem if queued else "Its message was deleted."
        return ShownSide(row, State.HELD if held else State.WAITING, None, held)
    task = Task.objects.filter(pk=said.task_id).first() if said.task_id else None
    if task is not None:
        return ShownSide(row, OF_TASKS.get(TaskState(task.state), State.WORKING), turn)
    return ShownSide(row, State.DONE if turn and turn.answer else State.WAITING, turn)


def answerer_of(agent: Agent, version: AgentVersion | None, options: JSON | None) -> Answerer:
    """With checked options. Raises InvalidParams."""
    return Answerer(agent, version, read_options(agent, options) if options else None)


def side_at(comparison: Comparison, position: int) -> Side:
    """Raises NotFound."""
    found = comparison.sides.select_related("session").filter(position=position).first()
    if found is None:
        raise NotFound("There is no such answer in this comparison.")
    return found


def sweep() -> int:
    """Deletes comparisons of deleted workspaces. Returns how many."""
    return delete_in_batches(Comparison.objects.filter(workspace__deleted_at__isnull=False))


DELETE: Act[Comparison] = deleting("a comparison and its choice", "The branches with the answers stay.")
COMPARISONS = Resource("comparisons", "comparison", Comparison, acts=(DELETE,), related=("owner", "session__agent"))
