"""How agents search: the tool of a language model, and what `task.search` asks."""

from __future__ import annotations

import uuid

from agentkit import Passage, TaskContext
from agentkit.llm.tools import search_tool
from agentkit.tools import ToolFunction
from apps.accounts.principals import Principal
from apps.engine.turns.assignment import Assignment, current_assignment, searcher_in
from apps.optional.knowledge import finding
from apps.optional.knowledge.finding import Asking, Found
from apps.optional.knowledge.models import Collection
from apps.record.errors import InvalidParams
from parley import db

MOST_NAMED = 30  # collections in the tool's description


async def search_for_agent(
    principal: Principal, agent: int, project: uuid.UUID | None, query: str, limit: int
) -> list[Passage]:
    """The hook `knowledge_search`. Raises ValueError for a query that cannot be searched."""
    if not await db.run(finding.has_places, agent, project):
        return []
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
    if assignment is None or not finding.has_places(assignment.agent.pk, assignment.task.context.project):
        return []
    named = _names(_asking(assignment))
    return [search_tool(named)] if named else []


def _asking(assignment: Assignment) -> Asking:
    return Asking(searcher_in(assignment), assignment.agent.pk, assignment.task.context.project)


def _names(asking: Asking) -> list[str]:
    """What can be searched, a line each."""
    found = Collection.objects.filter(pk__in=finding.searchable(asking)).order_by("name", "pk")[:MOST_NAMED]
    return [" ".join(f"- {one.name}: {one.description}".rstrip(": ").split()) for one in found]
