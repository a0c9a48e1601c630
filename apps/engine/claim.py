"""Claims runs: compare-and-swap on the fence, then a lease by the database's clock.

`worker.check_leases` and each write of the run extend the lease.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable
from functools import partial

from django.conf import settings
from django.db.models import F

from agentkit import Message as Said
from apps.agents import versions
from apps.agents.models import Agent, AgentVersion
from apps.engine import activity, finish
from apps.engine.accept import AGENT_VERSION, SOME_AGENTS
from apps.engine.queue import publish
from apps.engine.sql import RUN
from apps.engine.turns import delegation, handlers, questions
from apps.engine.turns.assignment import (
    Assignment,
    earlier_messages,
    handler_message,
    referenced_tasks,
    skill_for,
)
from apps.engine.turns.guards import GUARDED
from apps.installation.models import Activity
from apps.record import briefings, ledger, runs
from apps.record.content import blobs
from apps.record.content.strict_json import digest_of
from apps.record.errors import UnsupportedOperation
from apps.record.events import JSON, EventType
from apps.record.execution import Run
from apps.record.ledger import Ledger
from apps.record.models import Context, Event, Message, Task, TaskState
from apps.record.reading import notifications
from apps.record.runs import Lease, LeaseLost
from parley.db.sql import NOW, Now, note_time
from parley.telemetry import metrics

START_SECONDS = 60.0  # that a process of its own has to claim its run
MayTake = Callable[[Run, datetime.datetime], bool]
"""Is it this run's turn? Asked with the run as it was read and the database's time."""


class RunsAlone(Exception):
    """The run is reserved for a process of its own, which claims it under the same name."""

    def __init__(self, run_id: uuid.UUID, worker: str) -> None:
        super().__init__(run_id, worker)
        self.run_id, self.worker = run_id, worker


def claim(run_id: uuid.UUID, worker: str, may_take: MayTake | None = None, *, alone: bool = False) -> Assignment | None:
    """Claim the run for `worker`, a name unique to this claim. Returns None if another worker has it, it cannot run
    here, its agent is paused, or `may_take` refuses.

    A turn without attempts left fails. After a commit whose reply was lost, a repeated claim finds the run claimed.
    `alone`: the process executes nothing else. Raises RunsAlone if it must (see `engine.turns.isolation`).
    """
    try:
        claimed = ledger.unless_stale(partial(_claim, run_id, worker, may_take, alone))
        if isinstance(claimed, RunsAlone):
            raise claimed
        return claimed
    except LeaseLost:
        runs.add_note(run_id, f"{worker} came second.", unless_queued=True)
    except Context.DoesNotExist:
        pass
    return None


def _claim(
    run_id: uuid.UUID, worker: str, may_take: MayTake | None, alone: bool, lock: bool
) -> Assignment | RunsAlone | None:
    found = RUN.one(run_id)
    if found is None:
        return None
    run, operation, now = found
    note_time(now)
    task, context = run.task, run.task.context
    is_claimed = run.state == Run.State.RUNNING and run.worker == worker
    if may_take is not None and not is_claimed and not may_take(run, now):
        return None
    skill: str | None = task.metadata.get("skill")
    if run.agent is not None:  # only in memory, because the task keeps its agent
        task.agent, skill = run.agent, skill_for(task, run.agent)
    is_lost = run.state == Run.State.RUNNING and not is_claimed
    if not is_claimed:
        is_held = operation is not None or task.agent.activity != Activity.ACTIVE
        if is_held and not activity.may_start(task.agent, operation):
            return None  # resuming publishes it again
        is_suspect = is_lost and _runs_in_process(task.agent) and not _is_of_one_process(run.worker, worker)
        if is_suspect and not run.alone:
            run.attempt, run.alone = attempts_after_loss(run), True
        if run.attempt and run.attempt >= allowed_attempts(run):
            _end_exhausted(run, now, worker, is_lost, is_suspect)
            return None
        if not alone and (run.alone or (task.agent.alone_until or now) > now):
            _reserve(run, worker, now)
            metrics.LEASES_LOST[task.agent.slug].inc(is_lost)
            return RunsAlone(run.pk, worker)
    given = delegation.original_run(run) if run.slot and delegation.is_repeat(run) else run
    is_short = bool(handlers.handler_threads().lost)
    if is_short and not handlers.can_run(task.agent, answers_slot=given.slot is not None, skill=skill):
        return None  # the sweep tries again
    task.agent.current_version = _version_of(task, given)
    history = earlier_messages(context, before=given.message.index) if given.message.index > 1 else []
    message = run.message.stored(context)
    if not is_claimed:
        _begin_attempt(run, now, worker, _snapshot(run, given, message, history, skill), lock)
        _count_claim(run, now, is_lost)
    return _assignment(run, given, now, skill, message, history)


def _version_of(task: Task, given: Run) -> AgentVersion | None:
    """All attempts use the first one's version, and all turns that of the task, if one was chosen for it.

    Otherwise the rule of the agent's sessions holds.
    """
    if used := given.input.get("agent"):
        return versions.version_at(uuid.UUID(used["version"]))
    if (number := task.metadata.get(AGENT_VERSION)) and given.agent_id is None:
        return versions.version_numbered(task.agent_id, number)
    is_of_session = given.agent_id is None and task.context.agent_id == task.agent_id
    return versions.version_in_session(task.agent, task.context.agent_version if is_of_session else None)


def _assignment(
    run: Run, given: Run, now: datetime.datetime, skill: str | None, message: JSON, history: list[Message]
) -> Assignment:
    """What the worker gets. `given`, `message`, `skill`: see `_snapshot`."""
    task, context = run.task, run.task.context
    repeats = given is not run
    child = run.slot.get("child") if run.slot else None
    found = Assignment(
        lease=Lease(run.pk, run.fence, run.worker),
        agent=task.agent,
        task=task,
        message=run.message,
        input_message=handler_message(given.message, context) if repeats else Said(message, blobs.content_of),
        turn=run.turn,
        attempt=run.attempt,
        slot=given.slot,
        resumed=given.resumed,
        memory=run.memory,
        input_hash=run.input_hash,
        skill=skill,
        original=given if repeats else None,
        decisions=questions.decided_in(run.slot) if run.slot else {},
        answered=run.slot if repeats and run.slot else {},
        asked_by=uuid.UUID(child) if child and not run.resumed else None,
        seconds=(now - run.started_at).total_seconds() if run.started_at else 0.0,
        input=run.input,
        told=briefings.read(run.input),
        remote=run.remote,
        fallback_id=run.agent_id,
        span=run.traceparent,
        usage=run.usage,
        lane=run.lane,
        history=[handler_message(row, context) for row in history],
        references=referenced_tasks(task.references, task.owner_id, context) if task.references else [],
    )
    if run.stops_after_step:  # an earlier attempt was asked to
        found.stop_after_step.set()
    return found


def _count_claim(run: Run, now: datetime.datetime, is_lost: bool) -> None:
    slug = run.task.agent.slug
    metrics.LEASES_LOST[slug].inc(is_lost)  # 0 too: Prometheus sees an increase only of what it has seen before
    if not is_lost and run.started_at is None:
        metrics.QUEUE_SECONDS[slug].observe(max(0.0, (now - run.queued_at).total_seconds()))


SUSPICION = datetime.timedelta(hours=1)
"""How long the turns of an agent run alone after one of them ended a process, or may have."""


def _runs_in_process(agent: Agent) -> bool:
    """Does the worker's process execute code of the agent's author?"""
    return agent.kind not in (Agent.Kind.REMOTE, Agent.Kind.PLAN)


def _is_of_one_process(worker: str, other: str) -> bool:
    """Are these names of claims of one process, which lost a lease and lives?"""
    return worker.rpartition(":")[0] == other.rpartition(":")[0] != ""


def _reserve(run: Run, worker: str, now: datetime.datetime) -> None:
    """Keep a queued or abandoned run for a process that claims it soon. Raises LeaseLost."""
    held = Run.objects.filter(pk=run.pk, fence=run.fence, state=run.state)
    if run.state == Run.State.RUNNING:
        held = held.filter(lease_until__lt=now)
    until = now + datetime.timedelta(seconds=START_SECONDS)
    suspicion = {"alone": run.alone, "attempt": run.attempt}
    if not held.update(state=Run.State.QUEUED, worker=worker, lease_until=until, **suspicion):
        raise LeaseLost


def is_repeatable(agent: Agent) -> bool:
    """May an interrupted turn be repeated? Remote agents and plans find their earlier work."""
    return agent.retry_safe or agent.kind in (Agent.Kind.REMOTE, Agent.Kind.PLAN)


def may_repeat(run: Run) -> bool:
    """May the run's turn start again after its worker was lost?"""
    return is_repeatable(run.task.agent) or (questions.asks_approval(run.slot) and not _has_called_tools(run))


def attempts_after_loss(run: Run) -> int:
    """The attempts that a run has used if its worker is dead: a death among other runs costs none."""
    is_free = not run.alone and _runs_in_process(run.agent or run.task.agent) and may_repeat(run)
    return run.attempt - 1 if is_free else run.attempt


def allowed_attempts(run: Run) -> float:
    """How often a turn may start. Work that its executor finds again has no limit."""
    agent = run.task.agent
    is_found_again = agent.kind == Agent.Kind.PLAN or (agent.kind == Agent.Kind.REMOTE and run.remote.get("taskId"))
    return math.inf if is_found_again else agent.attempts if may_repeat(run) else 1


def _has_called_tools(run: Run) -> bool:
    """An approved call is the first that a run records. Until then, it may start again."""
    return Event.objects.filter(run=run.pk, type=EventType.AGENT_TOOL_CALL).exists()


NO_MEMORY = digest_of({})


def _snapshot(run: Run, given: Run, message: JSON, history: list[Message], skill: str | None) -> JSON:
    """The turn's input, for later comparison. Memory is erased at the end, so the snapshot has only its digest.

    `given` is the original of a repeated turn; otherwise `run`.
    """
    task, context = run.task, run.task.context
    snapshot: JSON = {
        "message": message,
        "history": [message.message_id for message in history],
        "references": task.references,
        "slot": run.slot,
        "memory": digest_of(run.memory) if run.memory else NO_MEMORY,
    }
    options: JSON | None = None
    if given.input:
        options = given.input.get("options")
    elif given.agent_id is None and context.agent_id == task.agent_id:
        options = context.options
    elif given.agent_id is None:  # the conversation's agent changed; the task keeps its options
        before = Run.objects.filter(task=task.pk, turn__lt=given.turn).order_by("-turn")
        options = before.values_list("input__options", flat=True).first()
    optional = {
        "agent": version.reference if (version := task.agent.current_version) else None,
        "session": digest_of(context.memory) if context.memory else None,
        "options": options,
        "skill": skill,
        "sent": run.input.get("sent"),
        GUARDED: _guarded(run, given),
    }
    told = _told(run, given)
    return snapshot | {name: value for name, value in optional.items() if value} | told


def _guarded(run: Run, given: Run) -> JSON | None:
    """What guards decided about the turn's message, in an earlier attempt, or before the turn was repeated."""
    if run.input or given is run or GUARDED not in given.input:
        known: JSON | None = run.input.get(GUARDED)
        return known
    before = Run.objects.filter(task=run.task_id, turn__lt=run.turn).order_by("-turn")
    noted: JSON | None = (before.values_list("input", flat=True).first() or {}).get(GUARDED)
    return noted


def _told(run: Run, given: Run) -> JSON:
    """What the turn's agent is told beside the message. All attempts are told the same."""
    task = run.task
    if given.input:
        return briefings.noted_before(given.input, by_fallback=run.agent_id is not None)
    if task.owner is None:
        return {}
    person, author = partial(task.owner.principal_in, task.workspace_id), given.message.author_id
    is_limited = SOME_AGENTS in task.metadata
    asked = briefings.Asked(task.owner.pk, task.workspace_id, task.context, task.agent, author, person, is_limited)
    return briefings.noted(asked)


def _begin_attempt(run: Run, now: datetime.datetime, worker: str, snapshot: JSON, lock: bool) -> None:
    """Record the start. Raises LeaseLost."""
    task, version = run.task, run.task.agent.current_version
    with ledger.writing(task.context, lock=lock) as log:
        log.may_be_lost = is_repeatable(task.agent)  # then it is claimed again
        run.attempt, run.input, run.input_hash = run.attempt + 1, snapshot, digest_of(snapshot)
        values = {
            "attempt": run.attempt,
            "started_at": run.started_at or now,
            "interrupted": False,
            "input": snapshot,
            "input_hash": run.input_hash,
        } | ({"alone": True} if run.alone else {})
        if run.read_until:  # what an earlier attempt had read waits again
            values["read_until"] = 0
        _take_lease(log, run, worker, values)
        # `attempt` cannot tell: a worker that gives a run back takes one off.
        log.use_loaded(task, has_artifacts=run.turn > 1 or run.fence > 1)
        if task.state == TaskState.SUBMITTED:
            log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING}, task=task.pk)
        started: JSON = {"attempt": run.attempt, "turn": run.turn, "messageId": run.message.message_id}
        if run.fence > run.attempt:
            started["again"] = True
        if run.agent_id is not None:
            started["agent"] = run.agent_id
        if version is not None:
            started["version"] = version.number
        log.add(EventType.AGENT_START, started, task=task.pk)


def _take_lease(log: Ledger, run: Run, worker: str, values: JSON, *, dead: str = "") -> None:
    """Take the lease of a queued or abandoned run, or of a `dead` worker, by compare-and-swap. Raises LeaseLost."""
    held = {"id": run.pk, "fence": run.fence, "state": run.state}
    if dead:
        held["worker"] = dead
    elif run.state == Run.State.RUNNING:
        held["lease_until__lt"] = NOW
    elif run.state != Run.State.QUEUED:
        raise LeaseLost
    run.fence, run.worker = run.fence + 1, worker
    lease = {
        "state": Run.State.RUNNING,
        "fence": run.fence,
        "worker": worker,
        "lease_until": Now(settings.RUN_LEASE_SECONDS),
    }
    log.acquire_lease(Lease(run.pk, run.fence, worker), held, lease | values)


def _end_exhausted(run: Run, now: datetime.datetime, worker: str, is_lost: bool, is_suspect: bool) -> None:
    """Fail a turn without attempts left, and publish the next one, if a message waits. Raises LeaseLost."""
    if allowed_attempts(run) > 1:
        reason = f"Each of its {run.attempt} attempts was interrupted, so the run is not tried again."
    else:
        reason = "The run was interrupted, and this agent does not retry automatically. Send the message again."
    with ledger.writing(run.task.context) as log:
        _take_lease(log, run, worker, {})
        log.use_loaded(run.task)
        following = finish.fail_lost_turn(log, run, Lease(run.pk, run.fence, run.worker), reason)
    agent = run.task.agent
    if is_suspect:
        Agent.objects.filter(pk=agent.pk).update(alone_until=now + SUSPICION)
    _count_claim(run, now, is_lost)
    metrics.RUNS_ENDED[agent.slug, TaskState.FAILED.value, finish.WORKER_LOST].inc()
    if following:
        publish(following)


WORKER_KILLED = "worker_killed"  # the code of a failure


def fail_killer(run_id: uuid.UUID, worker: str, how: str) -> Agent | None:
    """Fail a run whose process ended while it ran there alone, under this name.

    `how`: with what it ended, such as "SIGKILL". Returns the agent; None if the run is not with that worker any more.
    """
    found = RUN.one(run_id)
    if found is None or found[0].worker != worker or found[0].state != Run.State.RUNNING:
        return None
    run, now = found[0], found[2]
    agent = run.agent or run.task.agent
    reason = f"This agent killed its worker: the process that only {agent.name} used ended with {how}."
    try:
        with ledger.writing(run.task.context) as log:
            _take_lease(log, run, worker, {}, dead=worker)
            log.use_loaded(run.task)
            following = finish.fail_lost_turn(log, run, Lease(run.pk, run.fence, run.worker), reason, WORKER_KILLED)
    except (LeaseLost, Context.DoesNotExist):
        return None
    Agent.objects.filter(pk=agent.pk).update(alone_until=now + SUSPICION)
    metrics.RUNS_ENDED[agent.slug, TaskState.FAILED.value, WORKER_KILLED].inc()
    if following:
        publish(following)
    return agent


def give_back(run_id: uuid.UUID, fence: int | None = None) -> str:
    """Take a running run from its worker and queue it again, for any worker. Returns the worker's name.

    What its worker still writes is void, because the fence grows. `fence`: only from the worker that has this one.
    Raises UnsupportedOperation: the run is not running, its agent's turns must not be repeated, or another worker has
    it.
    """
    run = Run.objects.select_related("task__agent", "agent").filter(pk=run_id, state=Run.State.RUNNING).first()
    if run is None:
        raise UnsupportedOperation("No worker has it.")
    if not is_repeatable(run.agent or run.task.agent):
        raise UnsupportedOperation("Its agent does not allow a turn to be repeated. Cancel it, then run it again.")
    held = Run.objects.filter(pk=run.pk, fence=run.fence if fence is None else fence, state=Run.State.RUNNING)
    queued = {"state": Run.State.QUEUED, "attempt": F("attempt") - 1, "fence": F("fence") + 1, "lease_until": None}
    if not held.update(**queued):
        raise UnsupportedOperation("It changed at this moment. Look at it again.")
    runs.add_note(run.pk, f"Taken from {run.worker} and queued again.")
    notifications.stop(run.pk)
    publish(run.pk)
    return run.worker
