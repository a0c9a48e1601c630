"""The tool that agents without code can be given."""

from __future__ import annotations

from agentkit import TaskContext, tool
from apps.record.models import Task
from clippings.models import Clipping
from parley import db

LONGEST = 10_000  # characters


@tool()
async def keep_clipping(text: str, task: TaskContext) -> str:
    """Keep a text for the person, such as a link or a quotation, on their page of clippings."""
    if not text.strip() or len(text) > LONGEST:
        return f"Nothing was kept: give 1 to {LONGEST:,} characters."
    return await db.run(_keep, task.task_id, text)


def _keep(task_id: str, text: str) -> str:
    """A turn may be repeated after a crash: the same text of a session is kept once."""
    task = Task.objects.get(pk=task_id)
    if task.owner_id is None:
        return "Nothing was kept: nobody is signed in."
    whose = {"owner_id": task.owner_id, "workspace_id": task.workspace_id, "agent_id": task.agent_id}
    Clipping.objects.get_or_create(**whose, session=task.context_id, text=text)
    return "It is kept."
