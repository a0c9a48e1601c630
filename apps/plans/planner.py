"""The planner: an agent that drafts a plan from a goal. People look at the draft, change it, save it and run it."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.urls import reverse

from agentkit import Artifact, Completed, InputRequired, Rejected, Skill, SkillHandler, TaskContext
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine.turns.delegation import principal_of
from apps.plans.definitions import as_yaml
from apps.plans.drafting import LONGEST_GOAL, PLANNER, Draft, NoAgentFits, draft_plan
from apps.record.content.parts import pieces_joined
from apps.record.errors import TaskNotFound
from apps.record.models import Artifact as Delivered
from apps.record.models import Task
from apps.record.reading.lookup import find_task
from parley import db

HANDLER = "apps.plans.planner:Planner"
DRAFT = "plan.yaml"


class Planner(SkillHandler):
    """Makes a plan of what you want done, over the agents that you may use. You change it, save it and run it."""

    name = "Planner"
    category = "General"
    skills = (
        Skill(
            "plan",
            "Plan this for me",
            "Drafts a plan of several agents' steps from a goal.",
            tags=["plan", "orchestration"],
            examples=["Plan this for me: research electric buses, then write a report about them"],
        ),
    )
    output_modes = ("text/plain", "application/yaml")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed | InputRequired | Rejected:
        goal = task.message.text.strip()
        if not goal:
            return InputRequired("What should be done? Name the steps if you know them.")
        if len(goal) > LONGEST_GOAL:
            return Rejected(f"This is longer than {LONGEST_GOAL:,} characters. Say it in fewer words.")
        await task.progress("Choosing agents")
        principal = await db.run(_owner, task.task_id)
        try:
            draft = await draft_plan(principal, goal)
        except NoAgentFits as refused:
            return Rejected(str(refused))
        page = await db.run(reverse, "web:new-plan")  # the first use in a worker imports all pages
        link = f"{settings.PUBLIC_BASE_URL}{page}?draft={task.task_id}"
        yaml = Artifact.text(DRAFT, as_yaml(draft.definition.as_json), "application/yaml")
        return Completed(f"{_told(draft)}\n\n[Look at it, change it and run it]({link})", [yaml])

    async def on_input_received(self, task: TaskContext) -> Completed | InputRequired | Rejected:
        return await self.on_request(task)


def _owner(task_id: str) -> Principal:
    return principal_of(Task.objects.select_related("owner").get(pk=uuid.UUID(task_id)))


def _told(draft: Draft) -> str:
    """The steps as a numbered list."""
    definition = draft.definition
    steps = [
        f"{number}. {definition.title_of(key)} ({step.agent or step.find or 'a person'})"
        for number, (key, step) in enumerate(definition.steps.items(), 1)
    ]
    return "\n".join([f"**{definition.name}**", "", *steps])


def draft_of(principal: Principal, task: uuid.UUID | str) -> str:
    """The YAML that the planner delivered in a task that the caller may see; "" if there is none."""
    try:
        made = Delivered.objects.delivered().filter(task=find_task(principal, task), name=DRAFT).first()
    except TaskNotFound:
        return ""
    return "".join(part.get("text", "") for part in pieces_joined(made.parts)) if made else ""


def register_planner() -> None:
    """Register the planner if it is missing. Keeps people's changes, and another agent of that name."""
    found = Agent.objects.filter(slug=PLANNER).first()
    if found is None or found.handler == HANDLER:
        register_hosted(PLANNER, HANDLER)
