"""How agents search: the tool of a language model, and what `task.search` asks."""

from __future__ import annotations

import uuid

from agentkit import Passage, TaskContext
from agentkit.llm.tools import search_tool
from agentkit.tools import ToolFunction
from apps.accounts.principals import ANONYMOUS, Principal
from apps.engine.turns.assignment import Assignment, current_assignment
from apps.optional.knowledge import finding
from apps.optional.knowledge.finding import Asking, Found
from apps.optional.knowledge.models import Collection
from apps.record.errors import InvalidParams

MOST_NAMED = 30  # collections in the tool's description


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
