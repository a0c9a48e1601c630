"""Accepts messages: each starts a task, continues one, or resumes one that waits.

One transaction writes everything: idempotency row, context, message, task, run and events.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, Unpack

from django.conf import settings
from django.db import IntegrityError, transaction

from agentkit import text_part
from agentkit.selecting import SKILL_ID
from apps.accounts.principals import Principal
from apps.agents.models import Agent, AgentVersion
from apps.engine import activity, cancel
from apps.engine.queue import ASKED_FOR, PRIORITY, Lane, check_depth, publish
from apps.engine.repeats import find_accepted
from apps.engine.turns import guards, payments, questions
from apps.engine.turns.output import agent_message
from apps.installation import current
from apps.installation.models import Activity
from apps.limits import current as limits
from apps.limits.current import LimitExceeded
from apps.record import ledger, runs
from apps.record.content import blobs
from apps.record.content.composing import check_visible
from apps.record.content.rendering import title_of
from apps.record.content.strict_json import digest_of
from apps.record.errors import (
    AlreadyAnswered,
    BudgetSpent,
    CredentialRequired,
    InvalidParams,
    KeyUsed,
    LimitReached,
    NotAccepting,
    Refusal,
    TaskBusy,
    TaskFinished,
    TaskWaits,
    UnsupportedOperation,
)
from apps.record.events import JSON, EventType, Opening
from apps.record.execution import Accepted, Dependency, Run
from apps.record.ledger import Ledger
from apps.record.models import Context, Message, Task, TaskState
from apps.record.reading import lookup, notifications
from parley.db.sql import corrected_time
from parley.telemetry import tracing

ALL_ACTIVE = (Activity.ACTIVE, Activity.ACTIVE)
ExtraWrites = Callable[[Ledger, uuid.UUID], None]
"""Further writes in the transaction that accepts a message; called with the log and the task's id."""


@dataclass(frozen=True, slots=True)
class Receipt:
    context: uuid.UUID
    task: uuid.UUID
    index: int
    run: uuid.UUID | None = None
    repeated: bool = False
    waits: bool = False  # for other tasks


@dataclass(frozen=True, slots=True)
class Question:
    """The slot of another task that a new task's first message answers, and that task's memory."""

    slot: JSON
    memory: JSON


class Options(TypedDict, total=False):
    """How a message is accepted, besides what it says.

    Attributes:
        extra_writes: further writes in the same transaction.
        sender: the scope of a unique `messageId`; by default the principal's. An anonymous caller has one for each
            call.
        skill: the skill chosen for a new task.
        parent: the task that calls for a new one.
        project: in which a new session begins: that of the session whose task calls.
        temporary: whether a new session neither uses nor leaves memory of its person.
        question: what a new task answers for another task.
        question_index: the event that asked. Only the first answer to it counts.
        finds_question: see `lookup.find_target`.
        version: of the agent, for all turns of a new task; by default each turn has the current one.
        repeats: the task that a new one runs again.
        priority: of a new task's runs; by default what the message's metadata asks for.
        traceparent: the caller's span (W3C Trace Context); by default the current one.
    """

    extra_writes: ExtraWrites | None
    sender: str
    skill: str | None
    parent: uuid.UUID | None
    project: uuid.UUID | None
    temporary: bool
    question: Question | None
    question_index: int | None
    finds_question: bool
    version: AgentVersion | None
    repeats: uuid.UUID | None
    priority: Run.Priority
    traceparent: str


def accept(principal: Principal, agent: Agent, message: JSON, **options: Unpack[Options]) -> Receipt:
    """Record a user's message (see `composing`) as a new task or a turn of an existing one.

    Raises errors.Refusal; then nothing is stored. Publish `Receipt.run` afterwards.
    """
    known = limits.snapshot()
    if "priority" not in options:
        is_asked = "priority" in known.names or PRIORITY in message.get("metadata", {})
        options["priority"] = _priority(known, principal, agent, message) if is_asked else Run.Priority.NORMAL
    options["sender"] = sender = options.get("sender") or principal.sender
    stored = storable(agent, message)
    if any("stored" in part for part in stored["parts"]):
        blobs.check_room(principal.workspace_id or agent.workspace_id, stored["parts"])
    target = lookup.Target(None, None)
    for _ in range(3):
        try:
            if message.get("contextId") or message.get("taskId"):
                finds_question = options.get("finds_question", False)
                target = lookup.find_target(principal, agent, message, finds_question=finds_question)
            if target.asked is not None:
                if (earlier := _earlier_receipt(principal, sender, agent, message)) is not None:
                    return earlier  # not an answer to what is asked now
                options["question_index"] = options.get("question_index") or target.asked
            return _record_message(known, principal, agent, target, message, stored, options)
        except (IntegrityError, UnsupportedOperation, BudgetSpent, NotAccepting, Context.DoesNotExist) as refusal:
            # A repeated message, or a context that was just opened or cleared.
            if (earlier := _earlier_receipt(principal, sender, agent, message)) is not None:
                return earlier
            if isinstance(refusal, Refusal):
                raise
    raise KeyUsed("The same message is being sent twice at the same time. Send it again.")


def storable(agent: Agent, message: JSON) -> JSON:
    """A user's message as it is recorded, with large content in files.

    Raises InvalidParams for too much data, and for text that shows nothing.
    """
    shown = [part["text"] for part in message["parts"] if "text" in part]
    if not any(text.isascii() and text.isprintable() and not text.isspace() for text in shown):
        check_visible(message["parts"])
    parts = blobs.store_large(message["parts"], settings.MAX_DATA_BYTES)
    return {**(payments.storable(agent, message) if message.get("metadata") else message), "parts": parts}


def _priority(known: limits.Snapshot, principal: Principal, agent: Agent, message: JSON) -> Run.Priority:
    asked = message.get("metadata", {}).get(PRIORITY)
    if isinstance(asked, str) and asked in ASKED_FOR:
        return ASKED_FOR[asked]
    return Run.Priority(known.priority(principal.workspace_id, principal.key, agent.pk))


def _earlier_receipt(principal: Principal, sender: str, agent: Agent, message: JSON) -> Receipt | None:
    accepted = find_accepted(sender, agent, message)
    if accepted is None:
        return None
    if principal.workspace_id and accepted.task and accepted.task.context.workspace_id != principal.workspace_id:
        raise KeyUsed("This {} was used in another workspace. Use a new {}.")
    if accepted.task is None:
        raise KeyUsed("This {} was answered with a message. Use a new {}." if accepted.answer else CLEARED)
    said = Message.objects.filter(task=accepted.task, message_id=message["messageId"], role=Message.Role.USER)
    index = said.values_list("index", flat=True).get()
    return Receipt(accepted.task.context_id, accepted.task.pk, index, repeated=True)


CLEARED = "This {} was sent in a conversation that was cleared. Use a new {}."


def _record_message(
    known: limits.Snapshot,
    principal: Principal,
    agent: Agent,
    target: lookup.Target,
    sent: JSON,
    message: JSON,
    options: Options,
) -> Receipt:
    """`sent` is the `message` before it was made storable."""
    sender, extra_writes, metadata = options["sender"], options.get("extra_writes"), sent.get("metadata") or {}
    payload = payments.payload_in(sent) if metadata else None
    parent = str(called) if (called := options.get("parent")) else None
    if target.task is None and options.get("question_index") is not None:
        raise AlreadyAnswered
    check_obstacles(principal, agent)
    if target.task is None:
        if (agent.activity, current.snapshot().activity) != ALL_ACTIVE:
            activity.check_accepts(agent, is_delegated=parent is not None)  # what has begun needs it
        if parent is None and not known.is_empty:
            check_depth(Lane(principal.workspace_id or agent.workspace_id or 0, agent.pk, principal.key))
    task_id = target.task or uuid.uuid4()
    run: Run | None
    # Otherwise nothing else is written or read here.
    lock = target.context is not None or extra_writes is not None or payload is not None
    named = named_dependencies(message) if metadata and target.task is None else []
    depends = find_dependencies(principal, target.context, named, parent) if named else []
    with_named = message | ({"referenceTaskIds": [*message.get("referenceTaskIds", []), *named]} if named else {})
    body_hash = digest_of(sent) if sender else ""  # before the lock
    with ledger.writing(target.context or Context(pk=notifications.new_context_id()), lock=lock) as log:
        if sender:
            by = {"sender": sender, "agent": agent, "message_id": sent["messageId"], "body_hash": body_hash}
            log.extra_rows.append(Accepted(**by, task_id=task_id))
        if payload is not None:
            known_task = log.task(target.task) if target.task is not None else None
            _seal_payment(log, agent, known_task, task_id, payload)
        if target.task is None:
            refers = target.context is not None or bool(with_named.get("referenceTaskIds"))
            references = lookup.references_of(principal, with_named, target.context) if refers else []
            hints = hints_for(agent, with_named, references) if refers or metadata else []
            more = {"skill": options.get("skill"), HINTS: hints, DEPENDS_ON: depends, **_repetition(options)}
            more[SOME_AGENTS] = True if principal.agents is not None else None
            task = {"agent": agent.pk, "references": references, "parent": parent}
            task |= {"metadata": {name: value for name, value in more.items() if value not in (None, [])}}
            said: JSON = {"task": {name: value for name, value in task.items() if value not in (None, {})}}
            begins: JSON = {"project": options.get("project"), "temporary": options.get("temporary", False)}
            said |= message_payload(log, principal, agent, message, task_id, parent, **begins)
            event = log.add(EventType.USER_MESSAGE, said, task=task_id)
            run = Run(
                task_id=task_id,
                message=log.messages[event.index],
                turn=1,
                lane=str(Lane(log.context.workspace_id, agent.pk, principal.key)),
                priority=options["priority"],
                queued_at=event.at,
                traceparent=tracing.queue(task_id, options.get("traceparent", "")),
            )
            if (question := options.get("question")) is not None:
                run.slot, run.memory = question.slot, question.memory
            if depends:
                run.state = Run.State.WAITING
                log.extra_rows += [Dependency(task_id=task_id, on_id=uuid.UUID(one)) for one in depends]
        else:
            said = sent_by(log.context, principal.user_id) | {"message": message}
            said |= {SOME_AGENTS: True} if principal.agents is not None else {}
            run = _continue_task(log, principal, agent, said, task_id, options)
        if run is not None:
            log.extra_rows.append(run)
        if principal.is_notified and log.context.owner_id == principal.user_id:
            log.watch()
        if extra_writes is not None:
            extra_writes(log, task_id)
        index = next(iter(log.messages))
    return Receipt(log.context.pk, task_id, index, run.pk if run and not depends else None, waits=bool(depends))


def _seal_payment(log: Ledger, agent: Agent, task: Task | None, task_id: uuid.UUID, payload: JSON) -> None:
    """Keep a payment that is for a remote or a called agent, so that it can be handed on. Raises PaymentUsed."""
    asking = (questions.asking_task(task.slot) or task) if task else None
    if (asking.agent if asking else agent).kind != Agent.Kind.REMOTE and asking is task:
        return
    key, asked, choices = task_id, 0, list[JSON]()
    if asking is not None:
        key, asked, choices = asking.pk, asking.status_event, payments.choices_in(asking.slot, asking.status_message)
    if (row := payments.seal(key, asked, choices, payload)) is not None:
        log.extra_rows.append(row)


AGENT_VERSION, REPEATS = "agentVersion", "repeats"
"""In a task's metadata: the number of the version that it runs with, and the id of the task that it runs again."""
SOME_AGENTS = "someAgents"
"""In a task's metadata: true if a credential that began or continued it reaches only some agents."""


def _repetition(options: Options) -> JSON:
    version, repeats = options.get("version"), options.get("repeats")
    return {AGENT_VERSION: version.number if version else None, REPEATS: str(repeats) if repeats else None}


DEPENDS_ON = "dependsOn"
"""In the metadata of a message and of its task: the ids of the tasks that must be completed first."""
MAX_DEPENDENCIES = 100


def named_dependencies(message: JSON) -> list[str]:
    """Raises InvalidParams."""
    named = message.get("metadata", {}).get(DEPENDS_ON) or []
    if not isinstance(named, list) or len(named) > MAX_DEPENDENCIES or not all(isinstance(one, str) for one in named):
        raise InvalidParams(f"Send a list of at most {MAX_DEPENDENCIES} ids of tasks.", f"metadata.{DEPENDS_ON}")
    return named


def find_dependencies(
    principal: Principal, context: Context | None, named: Sequence[str], parent: str | None
) -> list[str]:
    """Those of the named tasks that the caller may see. From now on, the ledger tells of their ends.

    Call it outside the transaction that records the message, which locks one context. Raises InvalidParams for a task
    that waits for the end of the new one.
    """
    found = list(dict.fromkeys(lookup.references_of(principal, {"referenceTaskIds": named}, context)))
    keys = [uuid.UUID(one) for one in found]
    caller = uuid.UUID(parent) if parent else None
    waited_for = _all_dependencies(keys) if caller else set()
    while caller is not None:
        if caller in waited_for:
            raise InvalidParams("A task cannot depend on one that called it.", f"metadata.{DEPENDS_ON}")
        caller = Task.objects.filter(pk=caller).values_list("parent", flat=True).first()
    Context.objects.filter(pk__in=Task.objects.filter(pk__in=keys).values("context"), is_watched=False).update(
        is_watched=True
    )
    return found


def _all_dependencies(tasks: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """These tasks, and all that they wait for. A query for each step."""
    found, newest = set(tasks), set(tasks)
    while newest:
        rows = Dependency.objects.filter(task__in=newest, on__isnull=False).values_list("on", flat=True)
        newest = {one for one in rows if one is not None} - found
        found |= newest
    return found


HINTS = "hints"
"""In the metadata of a task or an answer: sentences about what of the message had no effect."""


def hints_for(agent: Agent, message: JSON, references: Sequence[str]) -> list[str]:
    """Of `referenceTaskIds` those that are none of `references`, and a `skillId` that the agent does not have."""
    named = list(dict.fromkeys(message.get("referenceTaskIds", [])))
    unknown = [one for one in named if one.lower() not in references]
    hints = [f"There is no task {one[:SHOWN]} that you may see. It has no effect." for one in unknown[:MOST_HINTS]]
    skill, skills = message.get("metadata", {}).get(SKILL_ID), [one["id"] for one in agent.skills]
    if skill is not None and skill not in skills:
        known = f"It has {', '.join(skills)[:MAX_HINT]}." if skills else "It has no skills."
        hints.append(f"{agent.name} has no skill {str(skill)[:SHOWN]}. {known}")
    return hints


SHOWN, MOST_HINTS, MAX_HINT = 80, 10, 500  # characters of a name, references, characters of a list


def check_obstacles(principal: Principal, agent: Agent) -> None:
    """Raises errors.Refusal if this agent may not be sent a new message now."""
    known = limits.snapshot()
    if known.is_empty:
        return
    try:
        limits.count_message(agent.pk)
    except LimitExceeded as exceeded:
        raise LimitReached(exceeded) from None
    for check in known.obstacles.values():
        check(principal, agent)


def message_payload(
    log: Ledger,
    principal: Principal,
    agent: Agent,
    message: JSON,
    task: uuid.UUID | None = None,
    parent: str | None = None,
    project: uuid.UUID | None = None,
    temporary: bool = False,
) -> JSON:
    """The payload of a user's message. It opens a new context and titles an untitled one.

    `task` is the message's own task, `parent` the calling task. `project`, `temporary`: see `Options`.
    """
    payload: JSON = {}
    if log.context._state.adding:
        opening: Opening = {
            "contextId": message.get("contextId") or "",
            "owner": principal.user_id,
            "workspace": principal.workspace_id or agent.workspace_id,
            "agent": agent.pk,
            # A plan's form has no text.
            "title": title_of(message) or (agent.name if agent.kind == Agent.Kind.PLAN else ""),
        }
        if parent is not None:
            opening["parentTask"] = parent
        if project is not None:
            opening["project"] = str(project)
        if temporary:
            opening["temporary"] = True
        payload["opens"] = log.opening(opening, agent)
    else:
        if _takes_title(log.context) and (title := title_of(message)):
            payload["title"] = title
        payload |= sent_by(log.context, principal.user_id)
    task_field = {"taskId": str(task)} if task else {}
    payload["message"] = {**message, "contextId": log.context.context_id, **task_field}
    return payload


def sent_by(context: Context, user: int | None) -> JSON:
    """The field of a user's message that names its sender, if that is not the session's owner."""
    return {"by": user} if user != context.owner_id else {}


def _takes_title(context: Context) -> bool:
    """Is the session untitled, or a fork whose title is provisional until its own first message?"""
    is_new_fork = context.forked_at is not None and context.last_event == context.forked_at + 1
    return not context.title or (is_new_fork and context.fork_reason in ("fork", "agent"))


def _continue_task(
    log: Ledger,
    principal: Principal,
    agent: Agent,
    said: JSON,
    task_id: uuid.UUID,
    options: Options,
) -> Run | None:
    """Record a further message: it answers the task's question or waits for the next turn."""
    task = log.task(task_id)
    state, slot = TaskState(task.state), task.slot
    question_index = options.get("question_index")
    traceparent = options.get("traceparent") or tracing.current_traceparent()
    if question_index is not None and question_index != task.status_event:
        raise AlreadyAnswered
    if state.is_terminal:
        raise TaskFinished
    if state == TaskState.SUBMITTED and Run.objects.filter(task=task_id, state=Run.State.WAITING).exists():
        raise TaskWaits  # it may end without a turn
    is_free = state == TaskState.WORKING and not runs.has_unfinished_run(task_id)
    if not state.is_interrupted and not is_free and agent.on_busy == Agent.OnBusy.REJECT:
        raise TaskBusy
    if state.is_interrupted and slot and "service" in slot:  # a secret must not enter the log
        raise CredentialRequired(f"{CredentialRequired.__doc__} It is at {_credential_link(task)}.")
    if state.is_interrupted:
        guards.check_answerer(principal, questions.asking_slot(slot))
    stored = {**said["message"], "contextId": log.context.context_id, "taskId": str(task_id)}
    asks_payment = state.is_interrupted and payments.asks_payment(slot)
    is_rejected = asks_payment and payments.is_rejected(stored)
    paid = payments.result_for(task, stored) if asks_payment and not is_rejected else None
    event = log.add(EventType.USER_MESSAGE, {**said, "message": stored}, task=task_id)
    if is_rejected:
        cancel.record_cancel(log, task_id)
        return None
    if paid is not None:
        slot = _record_payment(log, task, paid)
        return next_run(task_id, log.messages[event.index], slot, traceparent) if slot else None
    if state.is_interrupted and questions.asks_approval(slot):
        return decide_and_continue(log, principal, task, questions.answer_of(stored), log.messages[event.index])
    if state.is_interrupted:
        log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING}, task=task_id)
        return next_run(task_id, log.messages[event.index], slot, traceparent)
    if is_free:
        return next_run(task_id, log.messages[event.index], None, traceparent)
    if agent.on_busy == Agent.OnBusy.INTERRUPT:
        _interrupt_runs(task_id)
    return None


def _record_payment(log: Ledger, task: Task, paid: payments.Result) -> JSON | None:
    """Record what became of a payment. Returns the slot of the next turn; None if the task asks again."""
    slot: JSON = task.slot or {}
    said = [text_part("The payment was made." if not paid.error else f"The payment failed: {paid.error}.")]
    message = agent_message(log, task, said, {})
    message["metadata"] |= payments.result_metadata(task, paid)
    working: JSON = {"state": TaskState.WORKING}
    if not paid.error:
        log.add(EventType.AGENT_STATUS, {**working, "message": message, "agent": task.agent_id}, task=task.pk)
        return {**slot, "payment": {**slot["payment"], "receipt": paid.receipt}}
    log.add(EventType.AGENT_STATUS, working, task=task.pk)
    message["metadata"] = payments.question_metadata(slot) | message["metadata"]
    asked = {"state": TaskState.INPUT_REQUIRED, "message": message, "agent": task.agent_id, "slot": slot}
    log.add(EventType.AGENT_STATUS, asked, task=task.pk)
    return None


def decide_and_continue(
    log: Ledger, principal: Principal, task: Task, answer: JSON, message: Message | None = None
) -> Run | None:
    """Record a decision about a tool call. Returns the run that continues the task, if nothing more is asked.

    Raises what `questions.record_decision` raises.
    """
    decided = questions.record_decision(log, principal, task, answer)
    if not decided.is_final:
        return None
    # Earlier answers to this question wait for no turn of their own.
    newest = message or Message.objects.filter(task=task.pk, role=Message.Role.USER).order_by("-index").first()
    return next_run(task.pk, newest, decided.slot)


def _credential_link(task: Task) -> str:
    return str((task.status_message or {}).get("metadata", {}).get("url", ""))


def next_run(
    task_id: uuid.UUID, message: Message | None, slot: Any, traceparent: str = "", *, is_resumed: bool = False
) -> Run:
    """The queued run of the next turn, with the last turn's agent and memory, and by default its message.

    `is_resumed`: the agent is not to read the message as an answer.
    """
    last = Run.objects.filter(task_id=task_id).order_by("-turn").first() or Run(turn=0)
    return Run(
        task_id=task_id,
        message_id=message.pk if message else last.message_id,
        agent_id=last.agent_id,
        turn=last.turn + 1,
        slot=slot,
        resumed=is_resumed,
        memory=last.memory,
        lane=last.lane,
        priority=last.priority,
        queued_at=corrected_time(),
        traceparent=tracing.queue(task_id, traceparent or last.traceparent),
    )


def _interrupt_runs(task_id: uuid.UUID) -> None:
    running = Run.objects.filter(task_id=task_id, state=Run.State.RUNNING)
    keys = list(running.values_list("pk", flat=True))
    running.update(interrupted=True)
    for key in keys:
        transaction.on_commit(partial(notifications.stop, key))


def resume(task_id: uuid.UUID, *, because: str, answer: JSON | None = None) -> bool:
    """Resume a task that waits. Returns False if it does not wait.

    Concurrent calls lead to one turn. The log gets the user's `answer`, if the child of the task got one, or else
    `because`, which must not contain secrets. Call it outside a transaction: it publishes the run.
    """
    context_id = Task.objects.filter(pk=task_id).values_list("context_id", flat=True).first()
    if context_id is None:
        return False
    try:
        with ledger.writing(context_id) as log:
            run = record_resume(log, task_id, because=because, answer=answer)
    except (Context.DoesNotExist, Task.DoesNotExist):
        return False
    if run is not None:
        publish(run)
    return run is not None


def record_resume(log: Ledger, task_id: uuid.UUID, *, because: str, answer: JSON | None = None) -> uuid.UUID | None:
    """Like `resume`, inside a transaction. Returns the run to publish after the commit, or None.

    The agent gets the previous turn's message again. A task that waits for a payment goes on with nothing else.
    Raises Task.DoesNotExist.
    """
    task = log.task(task_id)
    if not TaskState(task.state).is_interrupted or payments.asks_payment(task.slot):
        return None
    slot, message = task.slot, None
    if answer is not None:
        message = record_copy(log, task_id, answer)
        log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING}, task=task_id)
    else:
        log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING, "because": because}, task=task_id)
    run = next_run(task_id, message, slot, is_resumed=True)
    log.extra_rows.append(run)
    return run.pk


def record_copy(log: Ledger, task_id: uuid.UUID, answer: JSON) -> Message:
    """Record an answer that the task's child got. It starts no turn."""
    message = {**answer, "contextId": log.context.context_id, "taskId": str(task_id)}
    sender = sent_by(log.context, log.task(task_id).owner_id)
    event = log.add(EventType.USER_MESSAGE, {**sender, "message": message}, task=task_id)
    return log.messages[event.index]
