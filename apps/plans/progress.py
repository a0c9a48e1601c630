"""The progress of plans and their runs for people: graphs, Gantt charts, and why steps wait."""

from __future__ import annotations

import datetime
import math
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from django.db.models import Q
from django.utils import timezone

from apps.agents.models import Agent
from apps.engine import activity
from apps.plans import graphs
from apps.plans.definitions import PlanDefinition, StepDefinition
from apps.plans.graphs import CompiledPlan, plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.person import PERSON
from apps.plans.pictures import Gantt, Graph, Spell, StepBox, draw_gantt, draw_graph
from apps.plans.running.run_state import LIVE, message_text
from apps.record.events import JSON, EventType
from apps.record.execution import Accepted
from apps.record.models import Event, Task, TaskState

State, Phase = Step.State, Step.Phase
MOST_QUESTIONS = 100
LONGEST_QUESTION = 300  # characters
STEP_FIELDS = (
    "run", "key", "item", "round", "attempt", "state", "phase", "agent", "why", "started_at", "asked_at", "ended_at",
    "reused", "task__state", "task__context", "consulted__state", "consulted__context",
)  # fmt: skip

type Address = Callable[[Task], str]  # the URL of a task's page


@dataclass(frozen=True)
class Progress:
    """A run, its steps in the order of its plan, and their questions."""

    run: PlanRun
    plan: CompiledPlan
    steps: list[Step]
    questions: Mapping[uuid.UUID, str] = field(default_factory=dict)  # by the task that asks

    @classmethod
    def of(cls, run: PlanRun) -> Progress:
        """Two queries, however many steps there are."""
        plan = plan_at(run.version_id)
        place = {key: number for number, key in enumerate(plan.definition.steps)}
        found = Step.objects.filter(run=run).select_related("task", "consulted").only(*STEP_FIELDS)
        steps = sorted(found, key=lambda step: (place[step.key], step.item, step.round))
        asking = [task.pk for step in steps if step.state == State.ASKING and (task := shown_task(step))]
        said = Task.objects.filter(pk__in=asking[:MOST_QUESTIONS]).values_list("pk", "status_message")
        return cls(run, plan, steps, {key: message_words(message) for key, message in said})

    def question_of(self, step: Step) -> str:
        task = shown_task(step)
        return self.questions.get(task.pk, "") if task and step.state == State.ASKING else ""

    def latest_rounds(self) -> list[Step]:
        return list({(step.key, step.item): step for step in self.steps}.values())


def shown_task(step: Step) -> Task | None:
    """The task to show for a step: the question about it, or its work."""
    is_consulted = step.state in Step.ACTIVE and step.phase != Phase.WORK
    return step.consulted if is_consulted and step.consulted else step.task or step.consulted


def message_words(message: JSON | None) -> str:
    return " ".join(message_text(message, " ").split())[:LONGEST_QUESTION]


def definition_graph(definition: PlanDefinition, address: Callable[[str], str] = lambda _: "") -> Graph:
    """`address`: where a step's box leads, by its key."""
    boxes, needs = [], graphs.dependencies(definition, skip_invalid=True)
    for key, step in definition.steps.items():
        notes = ["for each item"] if step.for_each else []
        notes += [f"up to {step.repeat.max} rounds"] if step.repeat else []
        notes += ["conditional"] if step.when else []
        boxes.append(
            StepBox(
                key,
                definition.title_of(key),
                agent=_doer(step),
                href=address(key),
                depends_on=tuple(sorted(needs[key] & definition.steps.keys() - {key})),
                note=", ".join(notes),
                is_person=_has_person(step),
            )
        )
    return draw_graph(boxes, title=f"Steps of {definition.name}")


MOST_REASONS = 50


def run_pictures(progress: Progress, address: Address, again: Callable[[str], str] = lambda _: "") -> dict[str, Any]:
    """What a page of a run shows: `graph`, `gantt` and the `reasons` why it waits. `again`: as of `StepBox`."""
    now, is_over = timezone.now(), progress.run.task.is_finished
    return {
        "graph": run_graph(progress, now, address, again if is_over else lambda _: ""),
        "gantt": run_gantt(progress, now, address, is_over=is_over),
        "reasons": [] if is_over else waiting_reasons(progress)[:MOST_REASONS],
    }


def run_graph(
    progress: Progress,
    now: datetime.datetime,
    address: Address = lambda _: "",
    again: Callable[[str], str] = lambda _: "",
) -> Graph:
    """The graph of a run; without addresses its boxes are not linked."""
    latest = progress.latest_rounds()
    boxes = [
        replace(_box(progress, step, now, address), again=again(step.key) if step.state in RESTARTABLE else "")
        for step in latest
    ]
    return draw_graph(boxes, title=f"Steps of this run of {progress.plan.definition.name}")


RESTARTABLE = (State.DONE, State.FAILED)
"""From steps in these states, an ended run may start again."""


def run_gantt(progress: Progress, now: datetime.datetime, address: Address = lambda _: "", *, is_over: bool) -> Gantt:
    """The timeline of a run: attempts, waits and questions. Leaves out results kept from earlier runs."""
    attempts = spells_by_step(progress.run)
    rounds: dict[StepKey, list[Step]] = defaultdict(list)
    for step in progress.steps:
        if not step.reused_id:
            rounds[step.key, step.item].append(step)
    rows = []
    for place, steps in rounds.items():
        if recorded := attempts.get(place):
            spells = _with_ending(recorded, steps[-1], progress.question_of(steps[-1]))
        else:
            spells = [spell for step in steps for spell in _spells_of_step(step, progress.question_of(step))]
        rows.append(replace(_box(progress, steps[-1], now, address), spells=spells))
    return draw_gantt(rows, now, is_over=is_over)


def _box(progress: Progress, step: Step, now: datetime.datetime, address: Address) -> StepBox:
    definition, began, task = progress.plan.step(step.key), step.started_at, shown_task(step)
    return StepBox(
        f"{step.key}-{step.item}" if step.item >= 0 else step.key,
        progress.plan.title_of(step.key),
        step.state,
        step.agent if step.agent and step.agent != PERSON else _doer(definition),
        (step.ended_at or now) - began if began and not step.reused_id else None,
        progress.question_of(step),
        address(task) if task else "",
        tuple(sorted(progress.plan.needs[step.key])),
        round=step.round,
        note=step.note,
        fan_out=step.key if step.item >= 0 else "",
        is_person=_has_person(definition),
    )


def _with_ending(spells: list[Spell], step: Step, question: str) -> list[Spell]:
    *earlier, last = spells
    if last.state == State.ASKING and last.ends is None:
        return [*earlier, replace(last, question=question)]
    is_worse = step.state in (State.FAILED, State.CANCELED) and last.state == State.DONE
    return [*earlier, replace(last, state=State(step.state))] if is_worse else spells


def _spells_of_step(step: Step, question: str) -> Iterable[Spell]:
    if not step.started_at:
        return
    attempt = max(step.attempt, step.round)
    if step.state == State.ASKING and step.asked_at:
        asked = max(step.asked_at, step.started_at)
        yield Spell(State.RUNNING, step.started_at, asked, attempt)
        yield Spell(State.ASKING, asked, None, attempt, question)
    elif step.ended_at or step.state in Step.OPEN:
        state = State.RUNNING if step.state == State.WAITING else step.state
        yield Spell(state, step.started_at, step.ended_at, attempt)


def _doer(definition: StepDefinition) -> str:
    return "a person" if definition.person else definition.agent or "best match"


def _has_person(definition: StepDefinition) -> bool:
    return definition.person is not None or bool(definition.approve)


MOST_ATTEMPTS = 400  # tasks of a run; with more, each step is one bar

END_STATES = {
    TaskState.COMPLETED: Step.State.DONE,
    TaskState.FAILED: Step.State.FAILED,
    TaskState.REJECTED: Step.State.FAILED,
    TaskState.CANCELED: Step.State.CANCELED,
}

type StepKey = tuple[str, int]  # key, item of a fan-out or -1


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task of a step: its work, or a question about it."""

    task: uuid.UUID
    place: StepKey
    number: int
    is_work: bool
    state: TaskState
    begun: datetime.datetime


def spells_by_step(run: PlanRun) -> dict[StepKey, list[Spell]]:
    """The spells of each step, oldest first; {} for a run of more than MOST_ATTEMPTS tasks. Two queries."""
    found = list(_attempts(run))
    if len(found) > MOST_ATTEMPTS:
        return {}
    changes: dict[uuid.UUID, list[tuple[str, datetime.datetime]]] = defaultdict(list)
    no_change = Q(payload__has_key="progress") | Q(payload__has_key="kept")
    changed = Event.objects.filter(task__in=[one.task for one in found], type=EventType.AGENT_STATUS).exclude(no_change)
    for task, state, at in changed.order_by("index").values_list("task", "payload__state", "at"):
        changes[task].append((state, at))
    spells: dict[StepKey, list[Spell]] = defaultdict(list)
    for one in found:
        spells[one.place] += _spells_of_attempt(one, changes[one.task])
    return spells


def _attempts(run: PlanRun) -> Iterator[Attempt]:
    """Read from the ids of their messages, which contain step, item, round and attempt."""
    sent = Accepted.objects.filter(sender=f"task:{run.pk}", task__parent=run.pk).order_by("task__created_at", "pk")
    rows = sent.values_list("message_id", "task", "task__state", "task__created_at")
    for message_id, task, state, begun in rows[: MOST_ATTEMPTS + 1]:
        match message_id.split(":"):
            case [_, "answer"] | [_, _, _, _, "answered", _]:
                continue  # an answer to a task that asked
            case [key, item, round_, attempt, *about]:
                number = max(int(round_), int(attempt))
                yield Attempt(task, (key, int(item)), number, not about, TaskState(state), begun)


def _spells_of_attempt(attempt: Attempt, changes: list[tuple[str, datetime.datetime]]) -> Iterator[Spell]:
    """Spells of work have the state in which the attempt ended."""
    changes = [(TaskState.SUBMITTED.value, attempt.begun), *changes]
    worked = END_STATES.get(attempt.state, Step.State.RUNNING)
    names = {TaskState.SUBMITTED: Step.State.WAITING, TaskState.WORKING: worked}
    for (state, begins), (_, ends) in pairwise([*changes, ("", None)]):
        if begins is None or TaskState(state).is_terminal:
            continue
        name = names.get(TaskState(state), Step.State.ASKING)
        if attempt.is_work or name == Step.State.ASKING:
            yield Spell(name, begins, ends, attempt.number)


MOST_NAMED = 4  # steps in a sentence

ASKING_SENTENCES = {
    Phase.WORK: "It needs your answer.",
    Phase.BEFORE: "It needs your approval to start.",
    Phase.AFTER: "It needs your approval of its result.",
    Phase.DECISION: "It failed. Decide how to continue.",
    Phase.ANSWERING: "An agent is answering its question.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a step waits. `task` has details."""

    title: str
    sentence: str
    task: Task | None = None
    waits_for_reader: bool = False


def waiting_reasons(progress: Progress) -> list[Reason]:
    """The reasons that wait for the reader first, without duplicates."""
    found = list(dict.fromkeys(_waiting_reasons(progress)))
    return sorted(found, key=lambda reason: not reason.waits_for_reader)


def _waiting_reasons(progress: Progress) -> Iterator[Reason]:
    unsettled = {step.key for step in progress.steps if step.state not in Step.SETTLED}
    busy = Counter(step.agent for step in progress.steps if step.state in LIVE and step.phase == Phase.WORK)
    waiting: set[str] = set()
    held = _held_agents(progress)
    for step in progress.latest_rounds():
        title, task = progress.plan.title_of(step.key), shown_task(step)
        if step.item >= 0 and step.state == State.ASKING:
            title = progress.plan.numbered_title(step)
        if step.state == State.ASKING:
            sentence = f"{ASKING_SENTENCES[Phase(step.phase)]} {progress.question_of(step)}".strip()
            yield Reason(title, sentence, task, step.phase != Phase.ANSWERING)
        elif step.state == State.WAITING and step.key not in waiting:
            waiting.add(step.key)
            yield Reason(title, _waiting_sentence(progress, step.key, unsettled, busy))
        elif step.state == State.STARTING:
            yield Reason(title, held.get(step.agent) or "Its agent is about to start.")
        elif step.state == State.RUNNING and task and task.state == TaskState.SUBMITTED:
            yield Reason(title, held.get(step.agent) or "It is queued at its agent.")


def _held_agents(progress: Progress) -> Mapping[str, str]:
    """What to read about agents that are paused or drained, by slug, of steps that are at work."""
    slugs = {step.agent for step in progress.steps if step.agent and step.state in LIVE}
    agents = Agent.objects.filter(slug__in=slugs) if slugs else ()
    return {agent.slug: said for agent in agents if (said := activity.sentence(agent))}


def _waiting_sentence(progress: Progress, key: str, unsettled: set[str], busy: Counter[str]) -> str:
    needs = progress.plan.needs[key] & unsettled
    unmet = [progress.plan.title_of(one) for one in progress.plan.definition.steps if one in needs]
    if unmet:
        more = f" and {len(unmet) - MOST_NAMED} more" if len(unmet) > MOST_NAMED else ""
        named = [f"“{one}”" for one in unmet[:MOST_NAMED]]
        listed = ", ".join(named) if more or len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
        return f"It waits for {listed}{more}."
    if progress.run.paused_at:
        return "The run is paused. The step starts when you resume it."
    definition = progress.plan.definition
    if busy.total() >= definition.limit:
        return f"The plan runs at most {definition.limit} steps at the same time."
    agent = definition.steps[key].agent
    if busy[agent] >= definition.agent_limits.get(agent, math.inf):
        return f"The plan runs at most {definition.agent_limits[agent]} steps of `{agent}` at the same time."
    return "It is ready and about to start."
