"""Templates and expressions of people who are not trusted, worked out in processes of their own.

    templating.render("Look at {{ body.title }}", {"body": {"title": "this"}})
    templating.evaluate("body.count > 3", {"body": {"count": 4}})
    await templating.work_out_async([Source("{{ body.title }}"), Source("body.count", True)], {"body": body})

A process has `budgets.SECONDS` of CPU time for the templates of a call, and bounded memory; it has no secret, no file
and no connection. It starts at the first use, and again when a template took too much. `language` is what templates
may say, `values` how they read what they are given. Knows neither Django nor settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from parley.templating.budgets import SECONDS, TimeBudget
from parley.templating.problems import TemplateProblem, listed
from parley.templating.processes import PROCESSES, Conversation
from parley.templating.values import Given

__all__ = [
    "SECONDS",
    "References",
    "Source",
    "TemplateProblem",
    "TemplateProblems",
    "TimeBudget",
    "evaluate",
    "listed",
    "read",
    "references_of",
    "render",
    "work_out",
    "work_out_async",
]

MOST_KNOWN, LONGEST_KNOWN = 4_096, 5_000  # templates whose references are remembered, and their characters


class Source(NamedTuple):
    """A template, or an expression."""

    text: str
    is_expression: bool = False


class TemplateProblems(TemplateProblem):
    """What is wrong with some of several templates, by their positions. The text is the first sentence."""

    def __init__(self, problems: Sequence[tuple[int, str]]) -> None:
        super().__init__(problems[0][1])
        self.problems = [(at, sentence) for at, sentence in problems]


@dataclass(frozen=True)
class References:
    """The steps, inputs and top-level names that a template uses.

    `is_open_ended`: it uses `steps` without a key, so its dependencies are unknown.
    """

    steps: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    is_open_ended: bool = False


def render(template: str, names: Mapping[str, Any]) -> str:
    """The text of a template. Raises TemplateProblem."""
    return str(work_out([Source(template)], names)[0])


def evaluate(expression: str, names: Mapping[str, Any], shared: TimeBudget | None = None) -> Any:
    """The value of an expression: JSON and dataclasses of `names`. Raises TemplateProblem.

    Several evaluations can share a time budget.
    """
    return work_out([Source(expression, True)], names, shared=shared)[0]


def work_out(
    sources: Sequence[Source], names: Mapping[str, Any], *, condition: int = -1, shared: TimeBudget | None = None
) -> list[Any]:
    """The texts and values of several sources, within one budget. Raises TemplateProblems.

    After the source at `condition`, if its value is false, nothing more is worked out. What reading `names` raises is
    raised, apart from ValueError and LookupError, which are problems of the template.
    """
    return PROCESSES.talk(_work_out(sources, names, condition, shared or TimeBudget()))


async def work_out_async(sources: Sequence[Source], names: Mapping[str, Any], *, condition: int = -1) -> list[Any]:
    """Like `work_out`, and waits without a thread. `names` is read on the event loop: it must not wait."""
    return await PROCESSES.talk_async(_work_out(sources, names, condition, TimeBudget()))


def _work_out(
    sources: Sequence[Source], names: Mapping[str, Any], condition: int, budget: TimeBudget
) -> Conversation[list[Any]]:
    given = Given(names)
    said = yield {
        "sources": sources,
        "mark": given.mark,
        "names": list(names),
        "condition": condition,
        "budget": _left(budget),
    }
    while "number" in said:
        try:
            reply = {"field": given.field(said["number"], said["key"])}
        except (ValueError, LookupError) as error:
            reply = {"problem": str(error)}
        said = yield reply
    budget.reading, budget.running = said["budget"]
    if "problems" in said:
        raise TemplateProblems([(at, sentence) for at, sentence in said["problems"]])
    return [given.decode(value) for value in said["values"]]


def read(sources: Sequence[Source]) -> list[References | str]:
    """What each source uses, or a sentence that says why it cannot be read."""
    known = {one: _known[one] for one in sources if one in _known}
    if unknown := [one for one in dict.fromkeys(sources) if one not in known]:
        found = dict(zip(unknown, PROCESSES.talk(_read(unknown)), strict=True))
        if len(_known) > MOST_KNOWN:
            _known.clear()
        _known.update({source: one for source, one in found.items() if len(source.text) <= LONGEST_KNOWN})
        known |= found
    return [known[one] for one in sources]


_known: dict[Source, References | str] = {}


def _read(sources: Sequence[Source]) -> Conversation[list[References | str]]:
    said = yield {"sources": sources, "budget": _left(TimeBudget())}
    if "problems" in said:
        return [said["problems"][0][1]] * len(sources)
    return [one if isinstance(one, str) else _references(**one) for one in said["read"]]


def _references(steps: list[str], inputs: list[str], names: list[str], is_open_ended: bool) -> References:
    return References(frozenset(steps), frozenset(inputs), frozenset(names), is_open_ended)


def references_of(template: str, *, is_expression: bool = False) -> References:
    """What a template or expression uses. Raises TemplateProblem if it is invalid."""
    (found,) = read([Source(template, is_expression)])
    if isinstance(found, str):
        raise TemplateProblem(found)
    return found


def _left(budget: TimeBudget) -> tuple[float, float]:
    return budget.reading, budget.running
