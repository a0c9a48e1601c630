"""The graph of a plan: what waits for what, in which order, and why a graph cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from apps.plans import templates
from apps.plans.budgets import SECONDS, Time
from apps.plans.definitions import MOST_STEPS, Fallback, PlanDefinition, StepDefinition
from apps.plans.inputs import OWN_INPUTS
from apps.plans.schemas import properties_of
from apps.plans.templates import Spoken, TemplateProblem

MOST_NAMED = 20
NO_TIME = (
    f"The conditions and lists that speak of nothing take longer than {SECONDS:g} s together. Write out what they give."
)

Problems = list[tuple[str, str]]
"""What is wrong: (path, sentence)."""


class Source(NamedTuple):
    """A template or an expression of a step. `names`: which of `item`, `index` and `last` have a meaning in it."""

    field: str
    text: str
    is_expression: bool
    names: frozenset[str]

    @property
    def spoken(self) -> Spoken:
        """What it speaks of. Raises TemplateProblem."""
        return templates.names_of(self.text, is_expression=self.is_expression)


def sources(step: StepDefinition) -> Iterator[Source]:
    """All that a step says in Jinja."""
    item = frozenset({"item", "index"}) if step.for_each else frozenset()
    last = frozenset({"last"}) if step.repeat else frozenset()
    if step.when:
        yield Source("when", step.when, True, frozenset())
    if step.for_each:
        yield Source("for_each", step.for_each, True, frozenset())
    if step.message:
        yield Source("message", step.message, False, item | last)
    if step.person:
        yield Source("person.ask", step.person.ask, False, item | last)
    for number, expression in enumerate(step.attach):
        yield Source(f"attach.{number}", expression, True, item | last)
    if step.repeat:
        yield Source("repeat.until", step.repeat.until, True, item | last)


def dependencies(definition: PlanDefinition) -> dict[str, set[str]]:
    """The steps that each step waits for: those it names, and those that its templates speak of.

    Raises TemplateProblem for a template that cannot be read; `problems` says it with its path.
    """
    return {
        key: set(step.depends_on).union(*(source.spoken.steps for source in sources(step)))
        for key, step in definition.steps.items()
    }


def listed_alone(step: StepDefinition) -> frozenset[str]:
    """The steps of which a fan-out's list is made, and of which each element sees its own part alone."""
    found = list(sources(step))
    listed = frozenset[str]().union(*(one.spoken.steps for one in found if one.field == "for_each"))
    return listed.difference(step.depends_on, *(one.spoken.steps for one in found if one.field != "for_each"))


def order(definition: PlanDefinition) -> list[str]:
    """The steps, each after those that it waits for; of several the first written first. The plan has no circle."""
    place = {key: number for number, key in enumerate(definition.steps)}
    sorter = TopologicalSorter(dependencies(definition))
    sorter.prepare()
    ordered: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=place.__getitem__)
        ordered += ready
        sorter.done(*ready)
    return ordered


def after(definition: PlanDefinition, keys: Iterable[str]) -> set[str]:
    """These steps, and all that wait for one of them, however indirectly."""
    waiting = dependencies(definition)
    reached = set(keys)
    for key in order(definition):
        if not reached.isdisjoint(waiting[key]):
            reached.add(key)
    return reached


def outputs(definition: PlanDefinition) -> list[str]:
    """The steps whose artifacts the plan delivers: those it names, else those for which no other waits."""
    if definition.outputs:
        return list(definition.outputs)
    awaited = set().union(*dependencies(definition).values())
    return [key for key in definition.steps if key not in awaited]


def problems(definition: PlanDefinition) -> Problems:
    """Why the steps cannot work together; empty where they can."""
    time = Time()  # of all that is worked out here: a definition may have hundreds of constants
    found = [problem for key in definition.steps for problem in _of_step(definition, key, time)]
    found += _of_outputs(definition)
    most = sum(step.repeat.max if step.repeat else 1 for step in definition.steps.values())
    if most > MOST_STEPS:
        found.append(("steps", f"With repetitions there are up to {most:,} steps. At most {MOST_STEPS:,} can be."))
    return found or _of_circle(definition)


def _of_step(definition: PlanDefinition, key: str, time: Time) -> Iterator[tuple[str, str]]:
    step, at = definition.steps[key], f"steps.{key}"
    named: set[str] = set()
    for number, other in enumerate(step.depends_on):
        if sentence := _of_dependency(definition, key, other, named):
            yield f"{at}.depends_on.{number}", sentence
        named.add(other)
    for source in sources(step):
        for sentence in _of_source(definition, key, source, time):
            yield f"{at}.{source.field}", sentence
    for field, sentence in _of_combination(step):
        yield f"{at}.{field}", sentence


def _of_dependency(definition: PlanDefinition, key: str, other: str, earlier: set[str]) -> str:
    if other == key:
        return "A step cannot wait for itself."
    if other not in definition.steps:
        return f"There is no step `{other}`; there are {_listed(definition.steps)}."
    return f"`{other}` is named twice." if other in earlier else ""


def _of_source(definition: PlanDefinition, key: str, source: Source, time: Time) -> Iterator[str]:
    """What is wrong with a template of a step."""
    try:
        spoken = source.spoken
    except TemplateProblem as problem:
        yield str(problem)
        return
    if spoken.all_steps:
        yield "Say which step is meant: `steps.KEY`."
    for other in sorted(spoken.steps - definition.steps.keys()):
        yield f"There is no step `{other}`; there are {_listed(definition.steps)}."
    if key in spoken.steps:
        yield "It speaks of its own step. In a repetition, `last` is what the step gave last."
    known = {*OWN_INPUTS, *properties_of(definition.inputs)}
    if not definition.inputs.get("additionalProperties"):
        for name in sorted(spoken.inputs - known):
            yield f"`inputs` has no `{name}`; it has {_listed(sorted(known))}. State it in `inputs.properties`."
    for name in sorted(spoken.names - {"inputs", "steps"} - source.names):
        yield _of_name(name, source.field)
    if not spoken.names and (sentence := _of_constant(source, time)):
        yield sentence


def _of_name(name: str, field: str) -> str:
    if name in ("item", "index"):
        where = "in the message, what is attached and what a person is asked"
        return f"`{name}` is there for a step with `for_each` alone, {where}."
    if name == "last":
        return "`last` is there for a step with `repeat` alone, in what it sends and in `until`."
    return f"There is no `{name}` here. Speak of `inputs` and `steps`."


def _of_constant(source: Source, time: Time) -> str:
    """Why a step is never done, whatever it is given."""
    if source.field not in ("when", "for_each"):
        return ""
    if time.left <= 0:
        return NO_TIME
    try:
        given = templates.value(source.text, {}, time)
    except TemplateProblem as problem:
        return str(problem) if time.left > 0 else NO_TIME
    if source.field == "when":
        return "" if given else "This never holds, so the step is never reached."
    if not isinstance(given, list):
        return "This is no list."
    return "" if given else "This list is always empty, so the step is never reached."


def _of_combination(step: StepDefinition) -> Iterator[tuple[str, str]]:
    """What a step says of itself that does not go together."""
    if step.repeat and step.for_each:
        yield "repeat", "A step with `for_each` is not repeated. Make a plan of what is repeated, and call that."
    if step.person:
        if step.approve:
            yield "approve", "A person does this step: nobody else has to agree."
        if step.skill:
            yield "skill", "Skills are those of agents; a person does this step."
        if step.message:
            yield "message", "Write what the person is asked as `person.ask`."
        if isinstance(step.on_failure, Fallback):
            yield "on_failure", "No agent takes over what a person is asked. Write `fail`, `skip` or `ask`."
    if isinstance(step.on_failure, Fallback) and step.on_failure.agent == step.agent:
        yield "on_failure.agent", "It is the agent that failed. Choose another, or write `retries`."


def _of_outputs(definition: PlanDefinition) -> Iterator[tuple[str, str]]:
    named: set[str] = set()
    for number, key in enumerate(definition.outputs):
        if key not in definition.steps:
            yield f"outputs.{number}", f"There is no step `{key}`; there are {_listed(definition.steps)}."
        elif key in named:
            yield f"outputs.{number}", f"`{key}` is named twice."
        named.add(key)


def _of_circle(definition: PlanDefinition) -> Problems:
    ordered = {key: sorted(waits) for key, waits in dependencies(definition).items()}
    try:
        TopologicalSorter(ordered).prepare()
    except CycleError as error:
        *circle, _ = error.args[1]
        first = circle.index(min(circle, key=list(definition.steps).index))
        path = [*circle[first:], *circle[: first + 1]]
        return [(f"steps.{path[0]}", f"These steps wait for each other in a circle: {' → '.join(path)}.")]
    return []


def _listed(names: Iterable[str]) -> str:
    listed = [f"`{name}`" for name in names]
    return ", ".join(listed[:MOST_NAMED]) + (", …" if len(listed) > MOST_NAMED else "")
