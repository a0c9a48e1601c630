"""Recording how a turn ended. Terminal outcomes are recorded only when no message is waiting for its turn."""

from __future__ import annotations

import copy
import dataclasses
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

import db
from agentkit import Artifact, AuthRequired, Completed, Failed, InputRequired, Outcome, Part, Progress, Rejected
from apps.engine.output import MemoryChanges
from apps.engine.sql import LATER_MESSAGE
from apps.record import ledger, projection, runs
from apps.record.content import blobs
from apps.record.events import JSON, EventType
from apps.record.hooks import hook
from apps.record.ledger import Ledger
from apps.record.models import Artifact as Delivered
from apps.record.models import Message, Run, Suspension, Task, TaskState
from apps.record.projection import assemble_parts
from apps.record.runs import Lease, has_unfinished_run

STATES: dict[type[Outcome], TaskState] = {
    Completed: TaskState.COMPLETED,
    InputRequired: TaskState.INPUT_REQUIRED,
    AuthRequired: TaskState.AUTH_REQUIRED,
    Failed: TaskState.FAILED,
    Rejected: TaskState.REJECTED,
}
NO_HOLD = Lease(uuid.UUID(int=0), 0)
ANSWER = "answer"  # the name of the artifact that tokens become


@dataclass(frozen=True, slots=True)
class Tokens:
    """The text that was streamed: the artifact that it becomes, all of it, and the piece that is not recorded yet."""

    artifact_id: str
    text: str
    rest: str


@dataclass(frozen=True, slots=True)
class Ongoing:
    """How an executor of the platform's own may end a turn: the task stays at work without a run.

    It is ended later by `record_outcome`. `then` is called, soon, once that is recorded; a crash may keep it from that.
    """

    then: Callable[[], object]


@dataclass(slots=True)
class Ending:
    """How a turn ended, ready to be written: a clean outcome, or None for one that a newer message interrupted."""

    lease: Lease
    outcome: Outcome | Ongoing | None
    turn: int = 1
    memory: JSON = field(default_factory=dict)
    session: MemoryChanges | None = None  # in the conversation's memory
    tokens: Tokens | None = None
    streamed: bool = False  # were artifacts streamed, or tokens?
    no_other_events_until: int | None = None  # nothing but the run was recorded between its message and this event
    is_first_attempt: bool = False  # of the first turn: nothing can have been streamed before
    error: JSON | None = None
    child: Task | None = None  # as it was when it asked what the outcome asks
    input_hash: str = ""  # of what the turn was given, if that is at hand
    usage: JSON = field(default_factory=dict)  # what language models took (see `record.runs.UsageTotals`)
    fallback_id: int | None = None  # the agent that took the turn in the place of the task's own
    span: str = ""  # the run's place in its trace


def finish(task: Task, message: Message, ending: Ending) -> uuid.UUID | None:
    """Record the end of the turn that `message` began; gives the run of the next turn, to be published.

    It may be called again when it could not be recorded. Raises LeaseLost where the run is no longer held.
    """
    artifacts = _artifacts(ending)
    task = copy.copy(task)  # events are folded into it: the caller's stays as it is when they are not written
    with ledger.writing(task.context) as log:
        log.use_loaded(task, artifacts=[] if ending.is_first_attempt and not ending.streamed else None)
        return _end_turn(log, task, message, ending, artifacts)


def _end_turn(
    log: Ledger, task: Task, message: Message, ending: Ending, artifacts: Sequence[Artifact]
) -> uuid.UUID | None:
    is_quiet = ending.outcome is not None and log.context.last_event == ending.no_other_events_until
    waiting = None if is_quiet else _next_message(task, message)
    state = _state_after(ending.outcome, waiting)
    _close_run(log, ending, keep_memory=not state.is_terminal)
    if ending.session is not None:
        ending.session.write(log)
    _deliver(log, task, ending.tokens, artifacts)
    if ending.child is not None:
        _discard_provisional(log, task, ending, "suspended")
        asked = {"child": ending.child, "asked_at": ending.child.status_at}
        Suspension.objects.update_or_create(task=task, defaults=asked)
    if waiting is not None or ending.outcome is None:
        return _queue_next_turn(log, task, ending, waiting)
    if isinstance(ending.outcome, Ongoing):
        then = ending.outcome.then
        transaction.on_commit(lambda: db.later(then))
    else:
        _conclude(log, task, ending.outcome, ending)
    return None


def _state_after(outcome: Outcome | Ongoing | None, waiting: Message | None) -> TaskState:
    """The task's state once the turn is over: while a message waits for its turn, nothing is terminal."""
    if waiting is not None or outcome is None or isinstance(outcome, Ongoing):
        return TaskState.WORKING
    return STATES[type(outcome)]


def _close_run(log: Ledger, ending: Ending, *, keep_memory: bool) -> None:
    failed = ending.error is not None or isinstance(ending.outcome, Failed)
    values = {
        "state": Run.State.FAILED if failed else Run.State.DONE,
        "memory": ending.memory if keep_memory else {},
        "error": ending.error or (_failure_json(ending.outcome) if isinstance(ending.outcome, Failed) else None),
        "finished_at": log.now,
        "lease_until": None,
    }
    log.renew_lease(ending.lease, values | ({"usage": ending.usage} if ending.usage else {}))


def _deliver(log: Ledger, task: Task, tokens: Tokens | None, artifacts: Sequence[Artifact]) -> None:
    if tokens is not None:
        end = {"artifactId": tokens.artifact_id, "name": ANSWER, "text": tokens.rest}
        log.add(EventType.AGENT_TOKEN_END, end, task=task.pk, artifact_id=tokens.artifact_id)
    for artifact in artifacts:
        payload = {"artifact": artifact.wire, "append": False, "lastChunk": True}
        log.add(EventType.ARTIFACT_UPDATE, payload, task=task.pk, artifact_id=artifact.artifact_id)


def _failure_json(outcome: Failed) -> JSON:
    told = {"code": outcome.code, "message": " ".join(part.get("text", "") for part in outcome.parts)}
    return told | ({"detail": outcome.detail} if outcome.detail else {})


def _next_message(task: Task, message: Message) -> Message | None:
    """The oldest message of the task that no turn has taken up."""
    return LATER_MESSAGE.one(task.pk, message.index)


def _queue_next_turn(log: Ledger, task: Task, ending: Ending, waiting: Message | None) -> uuid.UUID | None:
    """The turn's words are recorded, the task keeps working, and the waiting message becomes its next turn.

    What the turn had begun is discarded if it failed or was interrupted.
    """
    outcome = ending.outcome
    if outcome is None:
        _discard_provisional(log, task, ending, "interrupted")
    elif isinstance(outcome, Failed | Rejected):
        _discard_provisional(log, task, ending, _failure_code(outcome), record_if_empty=True)
    if outcome is not None and not isinstance(outcome, Ongoing) and outcome.parts:
        said = _agent_message(log, task, outcome.parts, outcome.metadata)
        log.add(EventType.AGENT_MESSAGE, {"message": said, "agent": task.agent_id}, task=task.pk)
    if waiting is None:
        raise AssertionError("a turn is interrupted by a message, which waits")
    run = Run(
        task=task,
        message=waiting,
        agent_id=ending.fallback_id,
        turn=ending.turn + 1,
        slot=_slot(ending),
        memory=ending.memory,
        traceparent=runs.new_span(ending.span),
    )
    log.insert_with_events(run)
    return run.pk


def _discard_provisional(log: Ledger, task: Task, ending: Ending, code: str, *, record_if_empty: bool = False) -> None:
    """Discard what this run has begun. The event says why; with `record_if_empty` it is recorded in any case."""
    begun = [one.artifact_id for one in log.provisional_artifacts(log.task(task.pk)) if one.run == ending.lease.run_id]
    if begun or record_if_empty:
        log.add(EventType.AGENT_FAILED, {"code": code, "discarded": begun}, task=task.pk)


def _failure_code(outcome: Outcome) -> str:
    return outcome.code if isinstance(outcome, Failed) else "rejected"


def _slot(ending: Ending) -> JSON | None:
    outcome = ending.outcome
    if not isinstance(outcome, InputRequired | AuthRequired):
        return None
    slot: JSON = {"name": outcome.slot} | ({} if outcome.value is None else {"value": outcome.value})
    if isinstance(outcome, AuthRequired) and outcome.service:
        slot["service"] = outcome.service
    if ending.child is not None:
        slot["child"] = str(ending.child.pk)
    if not outcome.schema:
        return slot
    slot["schema"] = outcome.schema
    properties = outcome.schema.get("properties")
    # A database may keep the names of a JSON object in an order of its own; a form has the author's.
    return slot | ({"order": list(properties)} if isinstance(properties, dict) else {})


def _conclude(log: Ledger, task: Task, outcome: Outcome, ending: Ending) -> None:
    """The end of the task, or its question."""
    inputs = {ending.lease.run_id: ending.input_hash} if ending.input_hash else {}
    state, parts = STATES[type(outcome)], outcome.parts
    begun = log.provisional_artifacts(log.task(task.pk)) if state.is_terminal else []
    ids, names = [one.artifact_id for one in begun], [one.name for one in begun if one.name]
    if isinstance(outcome, Completed):
        made: JSON = {"artifacts": ids}
        if task.agent.sign_artifacts:
            made["signatures"] = _signatures(log, task, begun, inputs)
        log.add(EventType.AGENT_COMPLETE, made | ({"usage": ending.usage} if ending.usage else {}), task=task.pk)
    elif isinstance(outcome, Failed | Rejected):
        log.add(EventType.AGENT_FAILED, {"code": _failure_code(outcome), "discarded": ids}, task=task.pk)
    # There is always a message; where the agent gave none, it names what was made.
    default_text = f"Here is {', '.join(names)}." if names and isinstance(outcome, Completed) else "Done."
    message = _agent_message(log, task, parts or [{"text": default_text}], outcome.metadata)
    link = None
    if isinstance(outcome, AuthRequired) and ending.child is None:  # the link of a child that asks is in its words
        link = hook("CREDENTIAL_LINK")(outcome)
    if link is not None:
        message["parts"] = [*(message["parts"] if parts else []), link.part]
        message["metadata"] |= link.metadata
    payload: dict[str, Any] = {"state": state, "message": message, "agent": task.agent_id}
    if isinstance(outcome, InputRequired | AuthRequired):
        payload["slot"] = _slot(ending)
    event = log.add(EventType.AGENT_STATUS, payload, task=task.pk)
    if link is not None:
        log.insert_with_events(link.request(task, event.at))
    if state.is_terminal and ending.turn > 1:  # earlier turns may have left memory behind
        Run.objects.filter(task=task).update(memory={})


def _signatures(log: Ledger, task: Task, made: Sequence[Delivered], inputs: dict[uuid.UUID, str]) -> JSON:
    """The signatures of what is delivered. They are in the event, so that a replay has the same."""
    signed: JSON = hook("ARTIFACT_SIGNER")(task, [(one, assemble_parts(log.chunks(one))) for one in made], inputs)
    return signed


def _agent_message(log: Ledger, task: Task, parts: Sequence[Part], metadata: JSON) -> JSON:
    return {
        "messageId": str(uuid.uuid4()),
        "contextId": log.context.context_id,
        "taskId": str(task.pk),
        "role": "ROLE_AGENT",
        "parts": _storable(parts),
        "metadata": projection.with_author(metadata, task.agent),
    }


def _artifacts(ending: Ending) -> list[Artifact]:
    """What the outcome delivers beyond what was streamed; a completed task has at least one artifact.

    Runs before the transaction, because large content is written to files.
    """
    outcome = ending.outcome
    if not isinstance(outcome, Completed):
        return []
    given = [one for one in outcome.artifacts if not _is_streamed_text(one, ending)]
    if not given and not ending.streamed:
        given = [Artifact(outcome.parts or [{"text": "Done."}], name=ANSWER)]
    return [dataclasses.replace(one, parts=_storable(one.parts)) for one in given]


def _storable(parts: Sequence[Part]) -> list[Any]:
    return blobs.store_large([dict(part) for part in parts])


def _is_streamed_text(artifact: Artifact, ending: Ending) -> bool:
    return ending.tokens is not None and [part.get("text") for part in artifact.parts] == [ending.tokens.text]


def fail_lost_turn(log: Ledger, run: Run, lease: Lease, reason: str) -> uuid.UUID | None:
    """Record that a turn was lost with its worker and is not repeated; gives the run of the next turn, if one waits.

    `run.task` and `run.message` are used. Raises LeaseLost.
    """
    if run.agent is not None:
        run.task.agent = run.agent  # in memory: who took the turn over says it
    lost = Ending(lease, Failed(reason, "worker_lost"), turn=run.turn, memory=run.memory)
    lost.fallback_id, lost.span = run.agent_id, run.traceparent
    return _end_turn(log, run.task, run.message, lost, [])


def fail_waiting(log: Ledger, task: Task, outcome: Failed) -> None:
    """Record the end of a task that waits, of which nobody takes a turn."""
    _conclude(log, task, outcome, Ending(NO_HOLD, outcome, turn=2))


def record_outcome(task: Task, outcome: Outcome | Progress, child: Task | None = None) -> bool:
    """Record the end of a task that goes on without a run (`Ongoing`), its question (a `child`'s), or how far it is.

    False, and nothing is recorded, where it is not open for that: it has ended, waits, or a run works at it. A task
    that waits may yet fail. Call it outside a transaction; the outcome must be clean. Raises Context.DoesNotExist,
    Task.DoesNotExist.
    """
    ending = Ending(NO_HOLD, outcome if not isinstance(outcome, Progress) else None, turn=2, child=child)
    artifacts = _artifacts(ending)
    with ledger.writing(task.context_id) as log:
        now = log.task(task.pk)
        state = TaskState(now.state)
        is_open = state == TaskState.WORKING or (state.is_interrupted and isinstance(outcome, Failed))
        if not is_open or has_unfinished_run(task.pk):
            return False
        if isinstance(outcome, Progress):
            log.add(EventType.AGENT_STATUS, progress_status(outcome), task=task.pk)
            return True
        _deliver(log, now, None, artifacts)
        if child is not None:
            asked = {"child": child, "asked_at": child.status_at}
            Suspension.objects.update_or_create(task=now, defaults=asked)
        _conclude(log, now, outcome, ending)
    return True


def add_remark(task: Task, text: str) -> bool:
    """Say something on a task that waits and is at nobody's hands, which goes on waiting; False where it does not.

    Call it outside a transaction. Raises Context.DoesNotExist, Task.DoesNotExist.
    """
    with ledger.writing(task.context_id) as log:
        now = log.task(task.pk)
        if not TaskState(now.state).is_interrupted:
            return False
        said = _agent_message(log, now, [{"text": text}], {})
        log.add(EventType.AGENT_MESSAGE, {"message": said, "agent": now.agent_id}, task=now.pk)
    return True


def progress_status(progress: Progress) -> JSON:
    """The payload of the status that tells progress."""
    parts = list(progress.parts) or [{"text": progress.text}]
    message: JSON = {"messageId": progress.message_id or str(uuid.uuid4()), "role": "ROLE_AGENT", "parts": parts}
    if progress.metadata:
        message["metadata"] = progress.metadata
    known = {"done": progress.done, "total": progress.total}
    far = {name: value for name, value in known.items() if value is not None}
    return {"state": TaskState.WORKING, "message": message, "progress": far}
