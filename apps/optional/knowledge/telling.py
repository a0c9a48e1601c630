"""How agents search: the tool of a language model, and what `task.search` asks."""

from __future__ import annotations

import uuid

from agentkit import Passage, TaskContext, tool
from agentkit.tools import ToolFunction
from apps.accounts.principals import ANONYMOUS, Principal
from apps.engine.turns.assignment import Assignment, current_assignment
from apps.optional.knowledge import finding
from apps.optional.knowledge.finding import Asking, Found
from apps.optional.knowledge.models import Collection
from apps.record.errors import InvalidParams

MOST_NAMED = 30  # collections in the tool's description
DESCRIPTION = """Search the files and pages that people gave you. Do it before you answer what they may tell.

Ask one question at a time, with the words that its answer would have. If nothing fits, search again in other words.
After each statement that you take from a passage, put the link that stands above the passage, unchanged, such as
[1](/knowledge/passages/0a1b2c3d4e "handbook.pdf, page 3"). Never make up such a link. If no passage has the answer, say
so. You can search:
{}"""


async def search_for_agent(
    principal: Principal, agent: int, project: uuid.UUID | None, query: str, limit: int
) -> list[Passage]:
    """The hook `knowledge_search`. Raises ValueError for a query that cannot be searched."""
    try:
        found = await finding.search(Asking(principal, agent, project), query, limit)
    except InvalidParams as wrong:
        raise ValueError(str(wrong)) from None
    return [_passage(one) for one in found]


def _passage(found: Found) -> Passage:
    return Passage(found.text, found.title, found.url, found.heading, found.page, found.score)


def tools_for(task: TaskContext) -> list[ToolFunction]:
    """The tool of a turn, if there is something to search for who asks, in this session (`turn_tools`)."""
    assignment = current_assignment.get()
    named = _names(_asking(assignment)) if assignment is not None else []
    return [search_tool(named)] if named else []


def _asking(assignment: Assignment) -> Asking:
    task = assignment.task
    principal = task.owner.principal_in(task.workspace_id) if task.owner else ANONYMOUS
    return Asking(principal, assignment.agent.pk, task.context.project)


def _names(asking: Asking) -> list[str]:
    """What can be searched, a line each."""
    found = Collection.objects.filter(pk__in=finding.searchable(asking)).order_by("name", "pk")[:MOST_NAMED]
    return [" ".join(f"- {one.name}: {one.description}".rstrip(": ").split()) for one in found]


def search_tool(named: list[str]) -> ToolFunction:
    """The tool of one turn: a passage has the same number in all its answers."""
    numbers: dict[str, int] = {}

    @tool(name="search_knowledge", description=DESCRIPTION.format("\n".join(named)), from_outside=True)
    async def search_knowledge(task: TaskContext, query: str) -> str:
        passages = await task.find(query, 5)
        told = []
        for one in passages:
            number = numbers.setdefault(one.url, len(numbers) + 1)
            under = f"\nUnder the heading {one.heading}" if one.heading else ""
            told.append(f"{one.cite(number)}{under}\n{one.text}")
        return "\n\n".join(told) or "No passage fits. Try other words, or say that there is nothing about it."

    return search_knowledge
