"""A run of a plan as whoever holds its lock sees it: how many steps of each key are how far, and how they move on.

The steps themselves are read only where something is to be done with them: a plan may have thousands.
"""

from __future__ import annotations

import datetime
import operator
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, reduce
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from apps.plans.models import PlanRun, Step
from apps.plans.outputs import Outputs, places
from apps.plans.plans import Plan, plan_at
from apps.record.events import JSON
from db import statements
from db.selections import Selection

State, Phase = Step.State, Step.Phase
LIVE = (State.STARTING, State.RUNNING)
LONGEST_WHY = 500
MOST_REFERENCES = 500  # of an element of a fan-out
SECONDS = 2.0  # of the processor's time that one look takes under the lock, for templates are others' work
TO_SEND = datetime.timedelta(seconds=10)  # that whoever begins steps has for it, before another does it

ENDED = Selection(
    lambda run, state: (
        Step.objects.filter(run=run, state=state).select_related("task", "consulted").order_by("item", "round")
    ),
    uuid.UUID(int=0),
    State.ENDED,
)


class Board:
    """The steps of a run, under the run's lock.

    Attributes:
        failed: the step whose failure ends the plan, once there is one.
        unwanted: tasks that are to be canceled once this is committed; starting: steps that are then to be sent.
    """

    def __init__(self, run: PlanRun, now: datetime.datetime) -> None:
        self.run, self.now = run, now
        self.plan: Plan = plan_at(run.version_id)
        self.outputs = Outputs(run)
        self.failed: Step | None = None
        self.unwanted: list[uuid.UUID] = []
        self.starting: list[Step] = []
        self._until = time.thread_time() + SECONDS
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._busy: Counter[str] = Counter()
        for key, state, phase, agent, number in statements.execute(_counting(), [_key(run)]).fetchall():
            self._count(key, state, phase, agent, number)

    def _count(self, key: str, state: str, phase: str, agent: str, number: int) -> None:
        self._counts[key][state] += number
        if state in LIVE and phase == Phase.WORK:
            self._busy[agent] += number

    @property
    def is_spent(self) -> bool:
        """Has this look taken its time? What is left is for the next one, and others come in between."""
        return time.thread_time() > self._until

    def count(self, *states: str) -> int:
        """How many steps are in these states."""
        return sum(one[state] for one in self._counts.values() for state in states)

    @property
    def size(self) -> int:
        return sum(one.total() for one in self._counts.values())

    def steps(self, most: int | None = None, **which: Any) -> list[Step]:
        return list(Step.objects.filter(run=self.run, **which).order_by("item", "round")[:most])

    def ready(self, key: str, most: int) -> list[Step]:
        """So many of the steps of a key that wait."""
        return _ready(most).all(self.run.pk, key, State.WAITING) if most else []

    def ended(self) -> list[Step]:
        """The steps whose tasks have ended, with these."""
        return ENDED.all(self.run.pk, State.ENDED)

    def waiting(self) -> Iterator[str]:
        """The keys of steps that wait and whose needs are met, in the order of the definition."""
        for key in self.plan.definition.steps:
            if self._counts[key][State.WAITING] and all(map(self.is_settled, self.plan.needs[key])):
                yield key

    def is_settled(self, key: str) -> bool:
        """Are all steps of a key done, or skipped?"""
        counts = self._counts[key]
        return 0 < counts.total() == counts[State.DONE] + counts[State.SKIPPED]

    @property
    def is_done(self) -> bool:
        return all(map(self.is_settled, self.plan.definition.steps))

    def room(self, agent: str) -> int:
        """How many more may be worked at, by an agent where it is known."""
        definition = self.plan.definition
        free = definition.limit - self._busy.total()
        if agent in definition.agent_limits:
            free = min(free, definition.agent_limits[agent] - self._busy[agent])
        return max(0, free)

    def move(self, step: Step, state: Step.State, **values: Any) -> bool:
        """Compare and swap: a step goes from the state in which it was read to another; False where it is not there."""
        was = step.state, step.phase, step.agent
        values["state"] = state
        if state == State.STARTING:
            values["due_at"] = self.now + TO_SEND
        if not statements.update(Step, {"id": step.pk, "state": step.state, "phase": step.phase}, values):
            return False
        for name, value in values.items():
            setattr(step, name, value)
        if state == State.STARTING:
            self.starting.append(step)
        self._count(step.key, *was, -1)
        self._count(step.key, step.state, step.phase, step.agent, 1)
        return True

    def take_over(self) -> None:
        """Steps that somebody began and did not send are this one's to send."""
        if self.count(State.STARTING) == len(self.starting):
            return
        left = self.steps(state=State.STARTING, due_at__lt=self.now)
        Step.objects.filter(pk__in=[step.pk for step in left]).update(due_at=self.now + TO_SEND)
        self.starting += left

    def add(self, steps: list[Step]) -> None:
        Step.objects.bulk_create(steps)
        for step in steps:
            self._count(step.key, step.state, step.phase, step.agent, 1)

    def remove(self, step: Step) -> None:
        Step.objects.filter(pk=step.pk).delete()
        self._count(step.key, step.state, step.phase, step.agent, -1)

    def end(self, step: Step, state: Step.State, why: str = "") -> None:
        """A step is done, skipped, or has failed for good, which ends the plan."""
        self.move(step, state, why=why[:LONGEST_WHY], ended_at=self.now, due_at=None, asked_at=None)
        if state == State.FAILED:
            self.failed = self.failed or step

    def end_all(self, steps: Sequence[Step]) -> None:
        """The same for several steps that have ended and are done."""
        done = {"state": State.DONE, "why": "", "ended_at": self.now, "due_at": None, "asked_at": None}
        if len(steps) == 1:
            statements.update(Step, {"id": steps[0].pk, "state": State.ENDED}, done)
        elif steps:
            Step.objects.filter(pk__in=[step.pk for step in steps], state=State.ENDED).update(**done)
        for step in steps:
            self._count(step.key, step.state, step.phase, step.agent, -1)
            step.state = State.DONE
            self._count(step.key, step.state, step.phase, step.agent, 1)

    def names(self, step: Step, **more: Any) -> JSON:
        """What the step's templates and expressions may speak of."""
        if step.item >= 0:
            more |= {"item": self.outputs.restored(step.value), "index": step.item}
        if self.plan.step(step.key).repeat and "last" not in more:
            more["last"] = self.outputs.of_round(step, step.round - 1) if step.round > 1 else None
        return self.outputs.names(**more)

    def references(self, step: Step) -> list[str]:
        """The tasks of the steps that a step needs, which are done.

        An element of a fan-out refers, of the steps that its list is made of, to those alone that it is from, if that
        can be told; and to MOST_REFERENCES tasks at most: each of thousands cannot refer to thousands.
        """
        needs, most, own = self.plan.needs[step.key], None, list[str]()
        if step.item >= 0:
            own, most = [place["task"] for place in places(step.value) if place.get("task")], MOST_REFERENCES
        if own:
            needs = needs - self.plan.taken[step.key]
        return list(dict.fromkeys([*own, *_references(self.run.pk, tuple(sorted(needs)))]))[:most]

    def is_whole(self, key: str) -> bool:
        """Is there one step of a key, which may be a fan-out whose list is not yet known?"""
        return self._counts[key].total() == 1

    def is_active(self, key: str) -> bool:
        """Is a step of a key being worked at, or does it ask?"""
        return any(self._counts[key][state] for state in Step.ACTIVE)


@lru_cache
def _ready(most: int) -> Selection[Step]:
    return Selection(
        lambda run, key, state: Step.objects.filter(run=run, key=key, state=state).order_by("item", "round")[:most],
        uuid.UUID(int=0),
        "",
        State.WAITING,
    )


def _key(run: PlanRun) -> Any:
    return PlanRun._meta.pk.get_db_prep_value(run.pk, connection)


@cache
def _counting() -> str:
    """SQL for how many steps of a run are alike; its order is that of the index `steps_of_a_run`."""
    columns = "key, state, phase, agent"
    return f"SELECT {columns}, COUNT(*) FROM {Step._meta.db_table} WHERE run_id = %s GROUP BY {columns}"  # noqa: S608


@lru_cache(maxsize=100)
def _references(run: uuid.UUID, keys: Sequence[str]) -> list[str]:
    """The tasks of steps that are done: those do not change any more."""
    return [str(step.task_id) for step in _needed(len(keys)).all(run, *keys) if step.task_id] if keys else []


@lru_cache
def _needed(number: int) -> Selection[Step]:
    def steps(run: uuid.UUID, *keys: str) -> QuerySet[Step]:
        is_needed = reduce(operator.or_, (Q(key=key) for key in keys))
        return Step.objects.only("task").filter(is_needed, run=run).order_by("key", "item", "round")

    return Selection(steps, uuid.UUID(int=0), *map(str, range(number)))
