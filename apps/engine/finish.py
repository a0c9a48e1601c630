"""Records how a turn ends. While a message waits for its turn, no terminal outcome is recorded."""

from __future__ import annotations

import copy
import dataclasses
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from django.conf import settings
from django.db import transaction

from agentkit import (
    Artifact,
    AuthRequired,
    CallClient,
    Completed,
    Failed,
    InputRequired,
    Outcome,
    Part,
    PaymentRequired,
    Progress,
    Rejected,
)
from agentkit.outcomes import NO_ANSWER
from apps.agents.models import Agent
from apps.engine.accept import record_copy
from apps.engine.sql import LATER_MESSAGE
from apps.engine.turns import payments
from apps.engine.turns.guards import GuardQuestion
from apps.engine.turns.output import (
    MemoryChanges,
    NewEvent,
    agent_message,
    run_values,
    store_large,
    with_large_parts_stored,
)
from apps.engine.turns.questions import asks_approval, overtaken, slot_of
from apps.record import ledger
from apps.record.content.parts import pieces_joined
from apps.record.events import DELIVERED, JSON, EventType
from apps.record.execution import Run, Suspension, Withheld
from apps.record.ledger import AlsoWritten, Ledger
from apps.record.models import Artifact as Delivered
from apps.record.models import Message, Task, TaskState
from apps.record.projection import AUTHOR_KEY, Author, assemble_parts
from apps.record.runs import Lease, has_unfinished_run
from parley import db
from parley.db.sql import NOW, corrected_time
from parley.registry import added
from parley.telemetry import tracing

STATES: dict[type[Outcome], TaskState] = {
    Completed: TaskState.COMPLETED,
    InputRequired: TaskState.INPUT_REQUIRED,
    PaymentRequired: TaskState.INPUT_REQUIRED,
    CallClient: TaskState.INPUT_REQUIRED,
    GuardQuestion: TaskState.INPUT_REQUIRED,
    AuthRequired: TaskState.AUTH_REQUIRED,
    Failed: TaskState.FAILED,
    Rejected: TaskState.REJECTED,
}
NO_LEASE = Lease(uuid.UUID(int=0), 0, "")
WORKER_LOST = "worker_lost"  # the code of a failure
INTERRUPTED = "interrupted"  # the code of a turn that a newer message ended
ANSWER = "answer"  # the artifact of streamed tokens


@dataclass(frozen=True, slots=True)
class StreamedText:
    """Text streamed as tokens: its artifact, the full text, and the unrecorded end."""

    artifact_id: str
    text: str
    rest: str


@dataclass(frozen=True, slots=True)
class Ongoing:
    """The turn ends, but the task keeps working without a run until `record_outcome`. For the platform's own executors.

    `then` is called after the commit, unless the process crashes.
    """

    then: Callable[[], object]


@dataclass(slots=True)
class Ending:
    """How a turn ended, ready to record.

    Attributes:
        outcome: clean; None if a newer message interrupted the turn.
        session: changes of the conversation's memory.
        streamed: were artifacts or tokens streamed?
        events: the last ones of the turn, which are recorded with its end.
        is_written: were others of this attempt recorded before?
        also: other rows and values, written with the end.
        is_first_attempt: of the first turn, so nothing was streamed before.
        child: the asking child, as it was then.
        input_hash: of the turn's input, if known.
        usage: see `record.runs.UsageTotals`.
        read_until: the index of the newest message that the turn has read. It waits for no turn of its own.
        fallback_id: the fallback that took the turn.
        span: the run's trace span.
        author: who wrote the outcome's message, if another agent did.
    """

    lease: Lease
    outcome: Outcome | Ongoing | None
    turn: int = 1
    memory: JSON = field(default_factory=dict)
    session: MemoryChanges | None = None
    tokens: StreamedText | None = None
    streamed: bool = False
    events: Sequence[NewEvent] = ()
    is_written: bool = True
    also: AlsoWritten = field(default_factory=AlsoWritten)
    is_first_attempt: bool = False
    error: JSON | None = None
    child: Task | None = None
    input_hash: str = ""
    usage: JSON = field(default_factory=dict)
    read_until: int = 0
    fallback_id: int | None = None
    span: str = ""
    author: Author | None = None

    @property
    def is_repeated(self) -> bool:
        """Will the turn start again, after the answer to a child's question or about a tool call?"""
        return self.child is not None or (isinstance(self.outcome, InputRequired) and self.outcome.repeats)

    def waiting_after(self, message: Message) -> int:
        """The index after which messages wait for the next turn. What an interrupted turn has read waits again."""
        return message.index if self.outcome is None else max(message.index, self.read_until)


def finish(task: Task, message: Message, ending: Ending) -> uuid.UUID | None:
    """Record the end of the turn of `message`. Returns the next turn's run, to publish.

    If recording fails, call it again. Raises LeaseLost, TooLarge.
    """
    artifacts, after = _artifacts(task, ending), ending.waiting_after(message)
    ending.events = [with_large_parts_stored(event, task.workspace_id) for event in ending.events]
    has_artifacts = (ending.streamed and ending.is_written) or not ending.is_first_attempt

    def write(lock: bool) -> uuid.UUID | None:
        ended = copy.copy(task)  # events change it; the caller's must stay if they are not written
        with ledger.writing(task.context, lock=lock) as log:
            log.use_loaded(ended, has_artifacts=has_artifacts)
            later = LATER_MESSAGE.one(task.pk, after) if lock else None
            return _end_turn(log, ended, later, ending, artifacts)

    outcome = ending.outcome
    is_end = not (outcome is None or isinstance(outcome, Ongoing) or ending.child or ending.turn > 1 or ending.usage)
    has_no_metadata = isinstance(outcome, Completed) and not outcome.metadata
    if is_end and (
        has_no_metadata or not payments.speaks_of_payment(outcome)
    ):  # it needs no rows but its events and its run
        # Nothing was recorded after the message, as far as is known, but the start of this run? If others have written
        # meanwhile, the context has grown, so that `ledger.unless_stale` looks again.
        has_only_begun = ending.is_first_attempt and task.context.last_event == message.index + FIRST_EVENTS
        if has_only_begun or LATER_MESSAGE.one(task.pk, after) is None:
            return ledger.unless_stale(write)
    return write(True)


FIRST_EVENTS = 2  # that a task's first claim records: its state and the start of its run


def _end_turn(
    log: Ledger, task: Task, waiting: Message | None, ending: Ending, artifacts: Sequence[Artifact]
) -> uuid.UUID | None:
    """While a message is `waiting` for its turn, nothing is terminal."""
    outcome = ending.outcome
    keeps_working = waiting is not None or outcome is None or isinstance(outcome, Ongoing)
    state = TaskState.WORKING if keeps_working else STATES[type(outcome)]  # type: ignore[index]
    has_failed = ending.error is not None or isinstance(outcome, Failed)
    values = {
        "state": Run.State.FAILED if has_failed else Run.State.DONE,
        "memory": {} if state.is_terminal else ending.memory,
        "error": ending.error or (_failure_json(outcome) if isinstance(outcome, Failed) else None),
        "finished_at": NOW,
        "lease_until": None,
    }
    values |= run_values(ending.events) | ending.also.run | ({"usage": ending.usage} if ending.usage else {})
    log.renew_lease(ending.lease, values)
    log.extra_rows += ending.also.rows
    log.extra_updates += ending.also.updates
    for event in ending.events:
        log.add(event.type, event.payload, task=task.pk, artifact_id=event.artifact_id)
    if ending.usage:
        for listener in added["usage_listeners"]:
            listener(ending.lease.run_id, task, ending.fallback_id or task.agent_id, ending.usage)
    if ending.session is not None:
        log.remember(ending.session.changed, ending.session.forgotten)
    if (tokens := ending.tokens) is not None:
        end = {"artifactId": tokens.artifact_id, "name": ANSWER, "text": tokens.rest}
        log.add(EventType.AGENT_TOKEN_END, end, task=task.pk, artifact_id=tokens.artifact_id)
    _deliver(log, task, artifacts)
    if ending.is_repeated:
        _discard_provisional(log, task, ending, "suspended")
    if ending.child is not None:
        _suspend(task, ending.child)
    if waiting is not None or outcome is None:
        return _queue_next_turn(log, task, ending, waiting)
    if isinstance(outcome, Ongoing):
        transaction.on_commit(partial(db.later, outcome.then))
    else:
        _conclude(log, task, outcome, ending)
    return None


def _deliver(log: Ledger, task: Task, artifacts: Sequence[Artifact]) -> None:
    for artifact in artifacts:
        payload = {"artifact": artifact.wire, "append": False, "lastChunk": True}
        log.add(EventType.ARTIFACT_UPDATE, payload, task=task.pk, artifact_id=artifact.artifact_id)


def _suspend(task: Task, child: Task) -> None:
    Suspension.objects.update_or_create(task=task, defaults={"child": child, "asked_at": child.status_at})


def _failure_json(outcome: Failed) -> JSON:
    error = {"code": outcome.code, "message": " ".join(part.get("text", "") for part in outcome.parts)}
    return error | ({"detail": outcome.detail} if outcome.detail else {})


def _queue_next_turn(log: Ledger, task: Task, ending: Ending, waiting: Message | None) -> uuid.UUID | None:
    """Queue the waiting message as the next turn. The task keeps working.

    A failed or interrupted turn's streamed content is discarded.
    """
    outcome = ending.outcome
    if outcome is None:
        _discard_provisional(log, task, ending, INTERRUPTED)
    elif isinstance(outcome, Failed | Rejected):
        _discard_provisional(log, task, ending, _failure_code(outcome), record_if_empty=True)
    if outcome is not None and not isinstance(outcome, Ongoing) and outcome.parts:
        said = agent_message(log, task, outcome.parts, outcome.message_metadata)
        author = {"agent": task.agent_id} if ending.author is None else _author(ending.author)
        log.add(EventType.AGENT_MESSAGE, {"message": said, **author}, task=task.pk)
    if waiting is None:
        raise AssertionError("a turn is interrupted by a message, which waits")
    slot = _slot(ending)
    if payments.asks_payment(slot) or (slot and "guard" in slot):
        slot = None  # nobody was asked, words pay nothing, and what a guard holds back stays back
    place: JSON = {**(Run.objects.filter(pk=ending.lease.run_id).values("lane", "priority").first() or {})}
    run = Run(
        task=task,
        message=waiting,
        agent_id=ending.fallback_id,
        turn=ending.turn + 1,
        slot=overtaken(slot, waiting.parts) if slot and asks_approval(slot) else slot,
        memory=ending.memory,
        traceparent=tracing.queue(task.pk, ending.span),
        queued_at=corrected_time(),
        **place,
    )
    log.extra_rows.append(run)
    return run.pk


def _discard_provisional(log: Ledger, task: Task, ending: Ending, code: str, *, record_if_empty: bool = False) -> None:
    """Discard this run's streamed content; `record_if_empty` adds the event in any case."""
    begun = [one.artifact_id for one in log.provisional_artifacts(task.pk) if one.run == ending.lease.run_id]
    if begun or record_if_empty:
        log.add(EventType.AGENT_FAILED, {"code": code, "discarded": begun}, task=task.pk)


def _failure_code(outcome: Outcome) -> str:
    return outcome.code if isinstance(outcome, Failed) else "rejected"


def _slot(ending: Ending) -> JSON | None:
    slot = slot_of(ending.outcome if not isinstance(ending.outcome, Ongoing) else None)
    return slot | {"child": str(ending.child.pk)} if slot and ending.child is not None else slot


def _conclude(log: Ledger, task: Task, outcome: Outcome, ending: Ending) -> None:
    inputs = {ending.lease.run_id: ending.input_hash} if ending.input_hash else {}
    state, parts = STATES[type(outcome)], outcome.parts
    begun = log.provisional_artifacts(task.pk) if state.is_terminal else []
    ids = [one.artifact_id for one in begun]
    made = begun if isinstance(outcome, Completed) else []
    if isinstance(outcome, Completed):
        delivered: JSON = {"artifacts": ids}
        if task.agent.sign_artifacts:
            delivered["signatures"] = _signatures(log, task, begun, inputs)
        log.add(EventType.AGENT_COMPLETE, delivered | ({"usage": ending.usage} if ending.usage else {}), task=task.pk)
    elif isinstance(outcome, Failed | Rejected):
        log.add(EventType.AGENT_FAILED, {"code": _failure_code(outcome), "discarded": ids}, task=task.pk)
    is_remote = task.agent.kind == Agent.Kind.REMOTE
    text, is_silent = _answer_text(task, made), is_remote and _is_silent(outcome)
    made_up = "" if text or is_silent else default_text([one.name for one in made if one.name])
    said = parts or [{"text": words} for words in [text or made_up] if words]
    message = agent_message(log, task, said, outcome.message_metadata)
    if settings.PAYMENTS_FACILITATOR:
        message["metadata"] |= payments.metadata_of(task)
    if ending.child is not None:
        message["metadata"] |= payments.passed_on(ending.child)
    elif is_remote:
        payments.note_receipt(task, message)
    is_plain = message["metadata"].keys() == {AUTHOR_KEY}
    if (is_plain or not payments.is_spoken_of(message["metadata"])) and _is_delivered(message["parts"], made):
        message[DELIVERED] = True
    link = None
    if isinstance(outcome, AuthRequired) and ending.child is None:
        link = added["credential_link"](outcome)
    if link is not None:
        message["parts"] = [*(message["parts"] if parts else []), link.part]
        message["metadata"] |= link.metadata
    author = {"agent": task.agent_id} if ending.author is None else _author(ending.author)
    payload: dict[str, Any] = {"state": state, "message": message, **author}
    if is_silent and not said and not outcome.message_metadata:
        del payload["message"]
    if isinstance(outcome, InputRequired | AuthRequired):
        slot = _slot(ending) or {}
        if payments.asks_payment(slot):
            slot = payments.asked_of(task, slot)
            message["metadata"] |= payments.question_metadata(slot)
            is_plain = False
        payload["slot"] = slot
    event = log.add(EventType.AGENT_STATUS, payload, task=task.pk)
    if ending.child is None and not is_plain and payments.asks_anew(message):
        added["payment_budgets"](task, event.index, payments.choices_in(payload.get("slot"), message))
    if link is not None:
        log.extra_rows.append(link.request(task, event.at))
    if state.is_terminal and ending.turn > 1:  # earlier turns may have left memory behind
        Run.objects.filter(task=task).update(memory={})
        Withheld.objects.filter(task=task).update(content="")


def _author(author: Author) -> JSON:
    return {"agent": author.agent} | ({"version": author.version} if author.version is not None else {})


MAX_ANSWER_LENGTH = 20_000  # characters of an artifact that is also the message


def _answer_text(task: Task, made: Sequence[Delivered]) -> str:
    """The text of the artifact `answer`, or of an only one that is no file; otherwise ""."""
    answers = [one for one in made if one.name == ANSWER] or made
    if len(answers) != 1 or "." in answers[0].name:
        return ""
    if task.agent.kind != Agent.Kind.REMOTE and answers[0].name not in ("", ANSWER):
        return ""
    parts = answers[0].parts
    match pieces_joined(parts) if len(parts) > 1 else parts:
        case [{"text": str(text), **others}] if "filename" not in others and len(text) <= MAX_ANSWER_LENGTH:
            return text.strip()
    return ""


def _is_delivered(said: list[JSON], made: Sequence[Delivered]) -> bool:
    """Do delivered artifacts have all parts of a message?"""
    delivered = [part for one in made for part in _contents(one.parts)]
    return bool(delivered) and all(part in delivered for part in _contents(said))


def _contents(parts: list[JSON]) -> list[JSON]:
    """The parts without media types, with pieces of text joined and stripped."""
    whole = pieces_joined(parts) if len(parts) > 1 else parts
    joined = ({name: value for name, value in part.items() if name != "mediaType"} for part in whole)
    return [{**part, "text": part["text"].strip()} if "text" in part else part for part in joined]


def default_text(names: Sequence[str]) -> str:
    """What an agent says that ended without a word, with artifacts of these names."""
    return f"Here is {', '.join(names)}." if names else NO_ANSWER


def _signatures(log: Ledger, task: Task, made: Sequence[Delivered], inputs: dict[uuid.UUID, str]) -> JSON:
    """Signatures are part of the event, so that a replay has the same."""
    whole = [(one, assemble_parts(log.chunks(one))) for one in made]
    return {name: claims for sign in added["artifact_signers"] for name, claims in sign(task, whole, inputs).items()}


def _artifacts(task: Task, ending: Ending) -> list[Artifact]:
    """The outcome's artifacts without the streamed text; a completed task has at least one, unless it is silent.

    Call it before the transaction: it writes large content to files. Raises TooLarge.
    """
    outcome, tokens = ending.outcome, ending.tokens
    if not isinstance(outcome, Completed):
        return []
    streamed = [tokens.text] if tokens else None
    given = [one for one in outcome.artifacts if not tokens or [part.get("text") for part in one.parts] != streamed]
    is_remote = task.agent.kind == Agent.Kind.REMOTE
    if not given and not ending.streamed and not (is_remote and _is_silent(outcome)):
        given = [Artifact(outcome.parts or [{"text": NO_ANSWER}], name=ANSWER)]
    stored = [store_large(task.workspace_id, [dict(part) for part in one.parts]) for one in given]
    return [dataclasses.replace(one, parts=cast(list[Part], parts)) for one, parts in zip(given, stored, strict=True)]


def _is_silent(outcome: Outcome) -> bool:
    """Is a task completed without a word? Nothing is put into the mouth of a remote agent."""
    return isinstance(outcome, Completed) and not outcome.parts


def fail_lost_turn(log: Ledger, run: Run, lease: Lease, reason: str, code: str = WORKER_LOST) -> uuid.UUID | None:
    """Fail a turn whose worker was lost. Returns the next turn's run, if a message waits: also one that it had read.

    Uses `run.task` and `run.message`. Raises LeaseLost.
    """
    if run.agent is not None:
        run.task.agent = run.agent
    lost = Ending(
        lease,
        Failed(reason, code),
        turn=run.turn,
        memory=run.memory,
        fallback_id=run.agent_id,
        span=run.traceparent,
    )
    return _end_turn(log, run.task, LATER_MESSAGE.one(run.task.pk, run.message.index), lost, [])


def fail_waiting(log: Ledger, task: Task, outcome: Failed) -> None:
    """Fail a task that waits, without a run."""
    _conclude(log, task, outcome, Ending(NO_LEASE, outcome, turn=2))


def record_outcome(task: Task, outcome: Outcome | Progress, child: Task | None = None) -> bool:
    """Record the outcome, the question (of `child`) or the progress of a task that works without a run (`Ongoing`).

    Returns False if the task has ended, waits, or has a run; a waiting one may still fail. Call it outside a
    transaction, with a clean outcome. Raises Context.DoesNotExist, Task.DoesNotExist.
    """
    ending = Ending(NO_LEASE, outcome if not isinstance(outcome, Progress) else None, turn=2, child=child)
    artifacts = _artifacts(task, ending)
    with ledger.writing(task.context_id) as log:
        current = log.task(task.pk)
        state = TaskState(current.state)
        is_open = state == TaskState.WORKING or (state.is_interrupted and isinstance(outcome, Failed))
        if not is_open or has_unfinished_run(task.pk):
            return False
        if isinstance(outcome, Progress):
            log.add(EventType.AGENT_STATUS, progress_status(outcome), task=task.pk)
            return True
        _deliver(log, current, artifacts)
        if child is not None:
            _suspend(current, child)
        _conclude(log, current, outcome, ending)
    return True


def add_remark(task: Task, text: str) -> bool:
    """Add an agent's message to a waiting task, which keeps waiting. Returns False if it does not wait.

    Call it outside a transaction. Raises Context.DoesNotExist, Task.DoesNotExist.
    """
    with ledger.writing(task.context_id) as log:
        current = log.task(task.pk)
        if not TaskState(current.state).is_interrupted:
            return False
        message = agent_message(log, current, [{"text": text}], {})
        log.add(EventType.AGENT_MESSAGE, {"message": message, "agent": current.agent_id}, task=current.pk)
    return True


def record_exchange(task: Task, question: JSON, answer: JSON) -> None:
    """Record a child's question and its answer, unless the task has ended or its log has the answer.

    For a task without a handler that did not ask this question itself. If it waits, it keeps waiting.
    `question`: the payload of the child's event; `answer`: see `delegation.copied_message`. Call it outside a
    transaction. Raises Context.DoesNotExist, Task.DoesNotExist.
    """
    with ledger.writing(task.context_id) as log:
        current = log.task(task.pk)
        state = TaskState(current.state)
        if state.is_terminal or Message.objects.filter(task=task.pk, message_id=answer["messageId"]).exists():
            return
        message = agent_message(log, current, question["message"]["parts"], answer["metadata"])
        asked = {"message": message, "agent": current.agent_id}
        if state.is_interrupted:
            log.add(EventType.AGENT_MESSAGE, asked, task=current.pk)
            record_copy(log, current.pk, answer)
            return
        slot = {"slot": question["slot"]} if question.get("slot") else {}
        log.add(EventType.AGENT_STATUS, {"state": TaskState.INPUT_REQUIRED, **asked, **slot}, task=current.pk)
        record_copy(log, current.pk, answer)
        log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING}, task=current.pk)


def progress_status(progress: Progress) -> JSON:
    parts = list(progress.parts) or [{"text": progress.text}]
    message: JSON = {"messageId": progress.message_id or str(uuid.uuid4()), "role": "ROLE_AGENT", "parts": parts}
    if progress.metadata:
        message["metadata"] = progress.metadata
    told = {"done": progress.done, "total": progress.total, "detail": progress.detail or None}
    told = {name: value for name, value in told.items() if value is not None}
    return {"state": TaskState.WORKING, "message": message, "progress": told}
