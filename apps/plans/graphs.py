"""The dependency graph of a plan, and problems with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from apps.agents import versions
from apps.plans.definitions import (
    MOST_STEPS,
    OWN_INPUTS,
    Fallback,
    PlanDefinition,
    StepDefinition,
    properties_of,
)
from apps.plans.models import Step
from parley import templating
from parley.templating import SECONDS, References, Source, TemplateProblem, TimeBudget, listed


@dataclass(frozen=True)
class CompiledPlan:
    """A definition with its dependencies.

    Attributes:
        needs: by step, the keys of its dependencies.
        fan_out_sources: by fan-out, the steps that only its list needs; each item refers only to its part of them.
    """

    definition: PlanDefinition
    needs: Mapping[str, set[str]]
    fan_out_sources: Mapping[str, frozenset[str]]
    outputs: list[str]

    def title_of(self, key: str) -> str:
        return self.definition.title_of(key)

    def numbered_title(self, step: Step) -> str:
        """With a number where the step runs once for each item."""
        title = self.title_of(step.key)
        return f"{title} {step.item + 1}" if step.item >= 0 else title

    def step(self, key: str) -> StepDefinition:
        return self.definition.steps[key]


@lru_cache(maxsize=200)
def plan_at(version: uuid.UUID) -> CompiledPlan:
    """The plan of an agent's version, compiled once per process: versions never change."""
    definition = PlanDefinition.read(versions.version_at(version).content)
    sources = {key: fan_out_sources(step) for key, step in definition.steps.items()}
    return CompiledPlan(definition, dependencies(definition), sources, output_steps(definition))


NO_TIME = (
    f"The conditions and lists that speak of nothing take longer than {SECONDS:g} s together. Write out what they give."
)

Problems = list[tuple[str, str]]  # (path, sentence)


class TemplateSource(NamedTuple):
    """A template or expression of a step. `names`: which of `item`, `index` and `last` it may use."""

    field: str
    text: str
    is_expression: bool
    names: frozenset[str]

    @property
    def references(self) -> References:
        """Raises TemplateProblem."""
        return templating.references_of(self.text, is_expression=self.is_expression)


def template_sources(step: StepDefinition) -> Iterator[TemplateSource]:
    item = frozenset({"item", "index"}) if step.for_each else frozenset()
    last = frozenset({"last"}) if step.repeat else frozenset()
    if step.when:
        yield TemplateSource("when", step.when, True, frozenset())
    if step.for_each:
        yield TemplateSource("for_each", step.for_each, True, frozenset())
    if step.message:
        yield TemplateSource("message", step.message, False, item | last)
    if step.person:
        yield TemplateSource("person.ask", step.person.ask, False, item | last)
    for number, expression in enumerate(step.attach):
        yield TemplateSource(f"attach.{number}", expression, True, item | last)
    if step.repeat:
        yield TemplateSource("repeat.until", step.repeat.until, True, item | last)


def read_templates(definition: PlanDefinition) -> None:
    """All at once, so that the references of each are known then."""
    found = (source for step in definition.steps.values() for source in template_sources(step))
    templating.read([Source(one.text, one.is_expression) for one in found])


def dependencies(definition: PlanDefinition, *, skip_invalid: bool = False) -> dict[str, set[str]]:
    """By step, the steps that it names or that its templates use.

    Raises TemplateProblem for an invalid template, unless `skip_invalid`.
    """
    read_templates(definition)
    found = {key: set(step.depends_on) for key, step in definition.steps.items()}
    for key, step in definition.steps.items():
        for source in template_sources(step):
            with suppress(*([TemplateProblem] if skip_invalid else [])):
                found[key] |= source.references.steps
    return found


def fan_out_sources(step: StepDefinition) -> frozenset[str]:
    found = list(template_sources(step))
    listed = frozenset[str]().union(*(one.references.steps for one in found if one.field == "for_each"))
    return listed.difference(step.depends_on, *(one.references.steps for one in found if one.field != "for_each"))


def with_descendants(definition: PlanDefinition, keys: Iterable[str]) -> set[str]:
    """These steps and all that depend on them, directly or not."""
    needs, reached = dependencies(definition), set(keys)
    while more := {key for key in needs.keys() - reached if not reached.isdisjoint(needs[key])}:
        reached |= more
    return reached


def output_steps(definition: PlanDefinition) -> list[str]:
    """The steps whose artifacts the plan delivers: `outputs`, or else the steps that no other step needs."""
    if definition.outputs:
        return list(definition.outputs)
    awaited = set().union(*dependencies(definition).values())
    return [key for key in definition.steps if key not in awaited]


def graph_problems(definition: PlanDefinition) -> Problems:
    """Why the steps cannot work together."""
    read_templates(definition)
    time = TimeBudget()  # shared, because a definition may have hundreds of constants
    found = [problem for key in definition.steps for problem in _step_problems(definition, key, time)]
    found += _output_problems(definition)
    most = sum(step.repeat.max if step.repeat else 1 for step in definition.steps.values())
    if most > MOST_STEPS:
        found.append(("steps", f"With repetitions there are up to {most:,} steps. At most {MOST_STEPS:,} can be."))
    return found or _cycle_problems(definition)


def _step_problems(definition: PlanDefinition, key: str, time: TimeBudget) -> Iterator[tuple[str, str]]:
    step, at = definition.steps[key], f"steps.{key}"
    named: set[str] = set()
    for number, other in enumerate(step.depends_on):
        if sentence := _dependency_problem(definition, key, other, named):
            yield f"{at}.depends_on.{number}", sentence
        named.add(other)
    for source in template_sources(step):
        for sentence in _template_problems(definition, key, source, time):
            yield f"{at}.{source.field}", sentence
    for field, sentence in _combination_problems(step):
        yield f"{at}.{field}", sentence


def _dependency_problem(definition: PlanDefinition, key: str, other: str, earlier: set[str]) -> str:
    if other == key:
        return "A step cannot wait for itself."
    if other not in definition.steps:
        return f"There is no step `{other}`; there are {listed(definition.steps)}."
    return f"`{other}` is named twice." if other in earlier else ""


def _template_problems(definition: PlanDefinition, key: str, source: TemplateSource, time: TimeBudget) -> Iterator[str]:
    try:
        references = source.references
    except TemplateProblem as problem:
        yield str(problem)
        return
    if references.is_open_ended:
        yield "Say which step is meant: `steps.KEY`."
    for other in sorted(references.steps - definition.steps.keys()):
        yield f"There is no step `{other}`; there are {listed(definition.steps)}."
    if key in references.steps:
        yield "It speaks of its own step. In a repetition, `last` is what the step gave last."
    known = {*OWN_INPUTS, *properties_of(definition.inputs)}
    if not definition.inputs.get("additionalProperties"):
        for name in sorted(references.inputs - known):
            yield f"`inputs` has no `{name}`; it has {listed(sorted(known))}. State it in `inputs.properties`."
    for name in sorted(references.names - {"inputs", "steps"} - source.names):
        yield _name_problem(name, source.field)
    if not references.names and (sentence := _constant_problem(source, time)):
        yield sentence


def _name_problem(name: str, field: str) -> str:
    if name in ("item", "index"):
        where = "in the message, what is attached and what a person is asked"
        return f"`{name}` is there for a step with `for_each` alone, {where}."
    if name == "last":
        return "`last` is there for a step with `repeat` alone, in what it sends and in `until`."
    return f"There is no `{name}` here. Speak of `inputs` and `steps`."


def _constant_problem(source: TemplateSource, time: TimeBudget) -> str:
    """Why an expression without references keeps its step from ever running."""
    if source.field not in ("when", "for_each"):
        return ""
    if time.running <= 0:
        return NO_TIME
    try:
        given = templating.evaluate(source.text, {}, time)
    except TemplateProblem as problem:
        return str(problem) if time.running > 0 else NO_TIME
    if source.field == "when":
        return "" if given else "This never holds, so the step is never reached."
    if not isinstance(given, list):
        return "This is no list."
    return "" if given else "This list is always empty, so the step is never reached."


def _combination_problems(step: StepDefinition) -> Iterator[tuple[str, str]]:
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


def _output_problems(definition: PlanDefinition) -> Iterator[tuple[str, str]]:
    named: set[str] = set()
    for number, key in enumerate(definition.outputs):
        if key not in definition.steps:
            yield f"outputs.{number}", f"There is no step `{key}`; there are {listed(definition.steps)}."
        elif key in named:
            yield f"outputs.{number}", f"`{key}` is named twice."
        named.add(key)


def _cycle_problems(definition: PlanDefinition) -> Problems:
    ordered = {key: sorted(waits) for key, waits in dependencies(definition).items()}
    try:
        TopologicalSorter(ordered).prepare()
    except CycleError as error:
        *circle, _ = error.args[1]
        first = circle.index(min(circle, key=list(definition.steps).index))
        path = [*circle[first:], *circle[: first + 1]]
        return [(f"steps.{path[0]}", f"These steps wait for each other in a circle: {' → '.join(path)}.")]
    return []
