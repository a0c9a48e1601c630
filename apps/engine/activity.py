"""Pausing, draining and resuming an agent, or all agents.

Pausing stops the starting: messages are accepted and wait. Draining stops the accepting: new tasks are refused, and
what was accepted runs to its end, with answers to its questions. Neither touches turns that run.

The claim of a run reads both states with the run, so that nothing starts after a pause. Accepting sees the state of the
whole installation at most a second late.
"""

from __future__ import annotations

import datetime
from dataclasses import replace

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.models import User, person_of
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.agents.models import Agent
from apps.engine.queue import publish, publish_resumed
from apps.installation import current
from apps.installation.models import Activity, Operation
from apps.record.errors import NotAccepting
from apps.record.execution import Run

PUBLISHED_AT_ONCE = 2_000  # runs of a resumed agent; the sweep publishes the rest


def set_activity(agent: Agent, activity: Activity) -> bool:
    """Pause, drain or resume an agent. Returns False if it was so already. A resumed agent's queue starts at once."""
    changed = Agent.objects.filter(pk=agent.pk).exclude(activity=activity)
    if not changed.update(activity=activity, updated_at=timezone.now()):
        return False
    agent.activity = activity
    if activity != Activity.PAUSED:
        _publish_waiting(_taken_by(Q(pk=agent.pk)))
    return True


def set_activity_of_all(activity: Activity, by: User | None) -> bool:
    """Like `set_activity`, for the whole installation. Agents that are paused themselves stay so."""
    Operation.objects.get_or_create(pk=Operation.ONLY)
    changed = Operation.objects.filter(pk=Operation.ONLY).exclude(activity=activity)
    if not changed.update(activity=activity, changed_by=by, changed_at=timezone.now()):
        return False
    current.forget()
    transaction.on_commit(current.forget)  # another thread may have read meanwhile
    if activity != Activity.PAUSED:
        _publish_waiting(Run.objects.all())
    return True


def _publish_waiting(runs: QuerySet[Run]) -> None:
    """By a job. If its message is lost, by the sweep."""
    if runs.filter(state=Run.State.QUEUED).update(published_at=None):
        publish_resumed()


def publish_waiting() -> int:
    """Publish queued runs that nobody published, the oldest first; returns their number."""
    waiting = startable(Run.objects.filter(state=Run.State.QUEUED, published_at=None)).order_by("queued_at")
    keys = list(waiting.values_list("pk", flat=True)[:PUBLISHED_AT_ONCE])
    Run.objects.filter(pk__in=keys).update(published_at=timezone.now())
    for key in keys:
        publish(key)
    return len(keys)


def _taken_by(agents: Q) -> QuerySet[Run]:
    """Runs that these agents take, of their own tasks or as fallbacks."""
    keys = Agent.objects.filter(agents).values("pk")
    return Run.objects.filter(Q(agent__in=keys) | Q(agent=None, task__agent__in=keys))


def startable(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Those of `runs` that no pause holds back."""
    if Operation.objects.filter(activity=Activity.PAUSED).exists():
        return runs.none()
    paused = list(Agent.objects.filter(activity=Activity.PAUSED).values_list("pk", flat=True))
    if not paused:
        return runs
    return runs.exclude(agent__in=paused).exclude(agent=None, task__agent__in=paused)


def oldest_startable() -> datetime.datetime | None:
    """Since when the oldest queued run waits that no pause holds back."""
    queued = startable(Run.objects.filter(state=Run.State.QUEUED)).order_by("queued_at")
    return queued.values_list("queued_at", flat=True).first()


def may_start(agent: Agent, operation: Operation | None) -> bool:
    """May a run of the agent start? Both rows are as the claim reads them."""
    return Activity.PAUSED not in (agent.activity, operation.activity if operation else Activity.ACTIVE)


def check_accepts(agent: Agent, *, is_delegated: bool) -> None:
    """Raises NotAccepting if the agent refuses new tasks.

    `is_delegated`: the task is part of another one. While the whole installation drains, such tasks are accepted,
    because work that has begun needs them.
    """
    everywhere = current.snapshot().activity
    if agent.activity == Activity.DRAINING or (everywhere == Activity.DRAINING and not is_delegated):
        raise NotAccepting(f"{agent.name} accepts no new tasks at the moment. Try again later.")


def check_answers(agent: Agent) -> None:
    """Raises NotAccepting if the agent is paused or drained, so that it does not answer with a message."""
    match agent.current_activity:
        case Activity.PAUSED:
            raise NotAccepting(f"{agent.name} is paused and does not answer at the moment. Try again later.")
        case Activity.DRAINING:
            raise NotAccepting(f"{agent.name} accepts no new messages at the moment. Try again later.")


WORDS = {
    Activity.ACTIVE: "",
    Activity.PAUSED: "{} is paused. Messages are kept, and work starts when an operator resumes it.",
    Activity.DRAINING: "{} accepts no new tasks at the moment. What it works on goes on.",
}


def sentence(agent: Agent) -> str:
    """What people read about an agent that is paused or drained; "" for an active one."""
    return WORDS[agent.current_activity].format(agent.name)


def _put(wanted: Activity, label: str, effect: str, icon: str) -> Act[Agent]:
    """The act of operators that brings an agent there."""
    done = {Activity.ACTIVE: "Resumed.", Activity.PAUSED: "Paused.", Activity.DRAINING: "Draining."}[wanted]

    def put(agent: Agent, _: Principal) -> Agent:
        if not set_activity(agent, wanted):
            raise NotNeeded(f"It is {wanted.label.lower()} already.")
        return agent

    return Act(
        name=label.lower(),
        label=label,
        do=put,
        summary=f"{label} an agent",
        effect=effect,
        said=lambda _: done,
        is_offered=lambda agent: agent.activity != wanted,
        icon=icon,
    )


def _put_all(act: Act[Agent], wanted: Activity) -> Act[Operation]:
    """The same for the whole installation."""

    def put(operation: Operation, operator: Principal) -> Operation:
        if not set_activity_of_all(wanted, person_of(operator)):
            raise NotNeeded(f"All agents are {wanted.label.lower()} already.")
        return operation

    whole = f"{act.label} all agents"
    return replace(act, label=whole, do=put, summary=whole)  # type: ignore[arg-type,return-value]


PAUSE = _put(
    Activity.PAUSED,
    "Pause",
    "Messages are accepted and wait. Turns that run go on to their end. Nothing new starts.",
    "pause",
)
DRAIN = _put(
    Activity.DRAINING,
    "Drain",
    "New tasks are refused with an error. What was accepted runs to its end.",
    "water_drop",
)
RESUME = _put(Activity.ACTIVE, "Resume", "New tasks are accepted, and what waits starts at once.", "play_arrow")
OPERATION = Resource(
    "operation",
    "operation",
    Operation,
    acts=(
        _put_all(PAUSE, Activity.PAUSED),
        _put_all(DRAIN, Activity.DRAINING),
        _put_all(RESUME, Activity.ACTIVE),
    ),
    order=("pk",),
)
