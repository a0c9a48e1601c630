"""What the pictures of plans and of their runs are made from: boxes and rows, of definitions and of steps."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from apps.plans import graphs
from apps.plans.attempts import attempts_of
from apps.plans.definitions import PlanDefinition, StepDefinition
from apps.plans.models import PlanRun, Step
from apps.plans.person import PERSON
from apps.plans.pictures import gantt, graph
from apps.plans.pictures.folding import StepBox
from apps.plans.pictures.gantt import Gantt, Spell, StepRow
from apps.plans.pictures.graph import Graph
from apps.plans.plans import Plan, plan_at
from apps.plans.templates import TemplateProblem
from apps.record.events import JSON
from apps.record.models import Task

State, Phase = Step.State, Step.Phase
MOST_QUESTIONS = 100  # whose words are read
LONGEST_QUESTION = 300  # characters
NEEDED = (
    "run", "key", "item", "round", "attempt", "state", "phase", "agent", "why", "started_at", "asked_at", "ended_at",
    "reused", "task__state", "task__context", "consulted__state", "consulted__context",
)  # fmt: skip

type Address = Callable[[Task], str]
"""Where a task is shown."""


@dataclass(frozen=True)
class Progress:
    """How far a run is: its steps in the order of its plan, and what those that ask are asking."""

    run: PlanRun
    plan: Plan
    steps: list[Step]
    questions: Mapping[uuid.UUID, str] = field(default_factory=dict)  # by the task that asks

    @classmethod
    def of(cls, run: PlanRun) -> Progress:
        """Two queries, however many steps there are."""
        plan = plan_at(run.version_id)
        place = {key: number for number, key in enumerate(plan.definition.steps)}
        found = Step.objects.filter(run=run).select_related("task", "consulted").only(*NEEDED)
        steps = sorted(found, key=lambda step: (place.get(step.key, len(place)), step.item, step.round))
        asking = [task.pk for step in steps if step.state == State.ASKING and (task := shown_task(step))]
        said = Task.objects.filter(pk__in=asking[:MOST_QUESTIONS]).values_list("pk", "status_message")
        return cls(run, plan, steps, {key: words_of(message) for key, message in said})

    def question_of(self, step: Step) -> str:
        """What a step asks, as far as it was read."""
        task = shown_task(step)
        return self.questions.get(task.pk, "") if task and step.state == State.ASKING else ""

    def newest(self) -> list[Step]:
        """The last round of each."""
        return list({(step.key, step.item): step for step in self.steps}.values())


def shown_task(step: Step) -> Task | None:
    """The task that says most of a step now: of whoever is asked about it, or of its agent."""
    is_consulted = step.state in Step.ACTIVE and step.phase != Phase.WORK
    return step.consulted if is_consulted and step.consulted else step.task or step.consulted


def words_of(message: JSON | None) -> str:
    """The beginning of a message, as words."""
    texts = (part.get("text", "") for part in (message or {}).get("parts", []))
    return " ".join(" ".join(texts).split())[:LONGEST_QUESTION]


def of_definition(definition: PlanDefinition, *, name: str = "plan") -> Graph:
    """A plan as it is defined, also where its steps could not work together."""
    boxes = []
    for key, step in definition.steps.items():
        notes = ["for each of a list"] if step.for_each else []
        notes += [f"up to {step.repeat.max} rounds"] if step.repeat else []
        notes += ["only under a condition"] if step.when else []
        boxes.append(
            StepBox(
                key,
                _title(definition, key),
                agent=_by(step),
                depends_on=_needs(definition, key),
                note=", ".join(notes),
                is_person=_has_person(step),
            )
        )
    return graph.drawn(boxes, name=name, title=f"The steps of {definition.name}")


def of_run(progress: Progress, now: datetime.datetime, address: Address, *, name: str = "plan") -> Graph:
    """A run as it is now."""
    boxes = []
    for step in progress.newest():
        definition = progress.plan.definition.steps.get(step.key)
        if definition is None:
            continue
        began, task = step.started_at, shown_task(step)
        boxes.append(
            StepBox(
                _place(step),
                progress.plan.title_of(step.key),
                step.state,
                _who(step, definition),
                (step.ended_at or now) - began if began and not step.reused_id else None,
                progress.question_of(step),
                address(task) if task else "",
                tuple(sorted(progress.plan.needs[step.key])),
                round=step.round,
                note=step.why or ("kept from an earlier run" if step.reused_id else ""),
                of=step.key if step.item >= 0 else "",
                is_person=_has_person(definition),
            )
        )
    return graph.drawn(boxes, name=name, title=f"The steps of this run of {progress.plan.definition.name}")


def in_time(progress: Progress, now: datetime.datetime, address: Address, *, is_over: bool) -> Gantt:
    """Who worked when: in a step's row each attempt, its wait and its questions; kept results are not of this time."""
    attempts = attempts_of(progress.run)
    rounds: dict[tuple[str, int], list[Step]] = defaultdict(list)
    for step in progress.steps:
        if not step.reused_id:
            rounds[step.key, step.item].append(step)
    rows = []
    for (key, item), steps in rounds.items():
        last, task = steps[-1], shown_task(steps[-1])
        definition = progress.plan.definition.steps.get(key)
        question = progress.question_of(last)
        if known := attempts.get((key, item)):
            spells = _told(known, last, question)
        else:
            spells = [spell for step in steps for spell in _spells(step, progress.question_of(step))]
        who = _who(last, definition) if definition else last.agent
        href, of = address(task) if task else "", key if item >= 0 else ""
        rows.append(StepRow(_place(last), progress.plan.title_of(key), last.state, who, href, spells, of))
    return gantt.in_time(rows, now, is_over=is_over)


def _told(spells: list[Spell], step: Step, question: str) -> list[Spell]:
    """The last one says what is asked, or how the step ended: what was delivered may have been of the wrong shape."""
    *earlier, last = spells
    if last.state == State.ASKING and last.ends is None:
        return [*earlier, replace(last, question=question)]
    is_worse = step.state in (State.FAILED, State.CANCELED) and last.state == State.DONE
    return [*earlier, replace(last, state=State(step.state))] if is_worse else spells


def _spells(step: Step, question: str) -> Iterable[Spell]:
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


def _place(step: Step) -> str:
    return f"{step.key}-{step.item}" if step.item >= 0 else step.key


def _who(step: Step, definition: StepDefinition) -> str:
    return step.agent if step.agent and step.agent != PERSON else _by(definition)


def _by(definition: StepDefinition) -> str:
    return "a person" if definition.person else definition.agent or "whoever ranks best"


def _has_person(definition: StepDefinition) -> bool:
    return definition.person is not None or bool(definition.approve)


def _title(definition: PlanDefinition, key: str) -> str:
    return definition.steps[key].title or key.replace("_", " ")


def _needs(definition: PlanDefinition, key: str) -> tuple[str, ...]:
    """What a step waits for, as far as that can be read."""
    step = definition.steps[key]
    found = set(step.depends_on)
    for source in graphs.sources(step):
        try:
            found |= source.spoken.steps
        except TemplateProblem:
            continue
    return tuple(sorted(found & definition.steps.keys() - {key}))
