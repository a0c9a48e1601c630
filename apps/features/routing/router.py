"""The router: an agent that delegates messages to the agent that fits best, and says why.

It answers messages that name no agent (`settings.ROUTER_AGENT`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

import db
from agentkit import Artifact, Completed, Rejected, Skill, SkillHandler, TaskContext
from agentkit.messages import text_part
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.agents.negotiation import Assessment, WorkRequest
from apps.agents.registration import register_hosted
from apps.engine.delegation import principal_of
from apps.features.routing.ranking import rank_agents
from apps.record import lineage
from apps.record.models import Message, Task, TaskState

HANDLER = "apps.features.routing.router:Router"
MIN_SKILL_SCORE = 0.3  # of an agent that fits
SWITCH_SKILL_SCORE = 0.6  # of another agent, to switch to it without being asked
MAX_COMPARED = 3  # agents in the reason
MAX_LISTED = 20  # agents, if none fits
MENTION = re.compile(r"(?<!\w)@([a-z0-9][a-z0-9-]*)")
MAX_TEXT_LENGTH = settings.MAX_SUMMARY_LENGTH  # characters


@dataclass(frozen=True)
class DelegatedTask:
    slug: str
    name: str
    task_id: str
    is_completed: bool

    @classmethod
    def of(cls, child: Task) -> DelegatedTask:
        return cls(child.agent.slug, child.agent.name, str(child.pk), child.state == TaskState.COMPLETED)


@dataclass(frozen=True)
class Situation:
    principal: Principal
    current: DelegatedTask | None
    previous: DelegatedTask | None


@dataclass(frozen=True)
class Choice:
    slug: str
    why: str
    refines: Sequence[str] = ()


class Router(SkillHandler):
    """Sends your message to the agent that fits it best, and says which agent it chose and why."""

    name = "Router"
    category = "General"
    skills = (
        Skill(
            "route",
            "Find the right agent",
            "Chooses the agent that fits a message best, sends the message to it, and returns its answer.",
            tags=["router", "delegation"],
            examples=["Count down from 5", "@echo Repeat this"],
        ),
    )
    input_modes = ("*/*",)
    output_modes = ("*/*",)
    retry_safe = True
    time_limit = 4 * 3600.0

    async def on_request(self, task: TaskContext) -> Completed | Rejected:
        if task.memory.get("message") != task.message.id:  # a new attempt keeps the choice
            choice = await _choose_for_task(task)
            if isinstance(choice, Rejected):
                return choice
            task.memory.update(vars(choice), message=task.message.id)
            await task.progress(choice.why)
        chosen = Choice(task.memory["slug"], task.memory["why"], task.memory["refines"])
        result = await task.call(chosen.slug, task.message, key="work", references=chosen.refines)
        said = [text_part(result.text)] if result.text else []
        return Completed(
            [text_part(chosen.why), *said], [Artifact(one.parts, one.name, one.description) for one in result.artifacts]
        )


async def _choose_for_task(task: TaskContext) -> Choice | Rejected:
    situation = await db.run(_situation, uuid.UUID(task.task_id), task.message.id)
    if situation.current:
        return Choice(situation.current.slug, f"{situation.current.name} works on this.")
    types = sorted({file.media_type for file in task.message.files})
    ranked = await rank_agents(situation.principal, WorkRequest(task.message.text[:MAX_TEXT_LENGTH], input_types=types))
    return choose(task.message.text, ranked, situation.previous)


def _situation(task_id: uuid.UUID, message_id: str) -> Situation:
    task = Task.objects.select_related("owner", "context").get(pk=task_id)
    said = Message.objects.filter(task=task_id, message_id=message_id, role=Message.Role.USER).order_by("index").last()
    here = lineage.row_lookups(task.context, "first_event", of="parent__")
    delegated = Task.objects.select_related("agent").filter(parent__agent=task.agent_id, **here)
    if gone := lineage.left_task_ids(task.context):
        delegated = delegated.exclude(parent__in=gone)
    current = delegated.filter(parent=task_id, created_at__gte=said.created_at).first() if said else None
    before = delegated.exclude(pk=current.pk) if current else delegated
    previous = before.order_by("-created_at").first()
    return Situation(
        principal_of(task),
        DelegatedTask.of(current) if current else None,
        DelegatedTask.of(previous) if previous else None,
    )


def choose(text: str, ranked: Sequence[Assessment], previous: DelegatedTask | None = None) -> Choice | Rejected:
    """The agent for a message: the one it names, the previous message's agent, or the best match."""
    usable = {one.agent.slug: one for one in ranked if one.accepted}
    names = MENTION.findall(text)
    if names and names[0] not in usable:
        return Rejected(f"There is no agent @{names[0]} that can do this now. {_listing(ranked)}")
    fitting = [one for one in usable.values() if one.subscores.skill >= MIN_SKILL_SCORE]
    before = usable.get(previous.slug) if previous else None
    if names:
        slug, why = names[0], f"{usable[names[0]].agent.name} works on this, because you named it."
    elif previous and before and not (fitting and _is_asked_for(fitting[0], before)):
        slug, why = previous.slug, f"{previous.name} continues. Name another agent with @ to switch."
    elif fitting:
        slug, name = fitting[0].agent.slug, fitting[0].agent.name
        why = f"{name} works on this, because it fits best. {_comparison(fitting)}"
    else:
        return Rejected(f"No agent seems to fit this. {_listing(ranked)}")
    goes_on = previous is not None and previous.is_completed and previous.slug == slug
    return Choice(slug, why, [previous.task_id] if previous and goes_on else [])


def _is_asked_for(best: Assessment, before: Assessment) -> bool:
    return best.subscores.skill >= SWITCH_SKILL_SCORE and best.subscores.skill > before.subscores.skill


def _comparison(fitting: Sequence[Assessment]) -> str:
    told = [
        f"{one.agent.name} {one.subscores.skill:.2f} ({one.matches[0].reasons[0]})" for one in fitting[:MAX_COMPARED]
    ]
    return f"Fit from 0 to 1: {'; '.join(told)}."


def _listing(ranked: Sequence[Assessment]) -> str:
    able = sorted((one.agent for one in ranked if one.agent.is_available), key=lambda agent: agent.name)
    if not able:
        return "There is no agent that you can use."
    lines = [f"- @{agent.slug}: {agent.description}" for agent in able[:MAX_LISTED]]
    more = [f"- and {len(able) - MAX_LISTED} more"] if len(able) > MAX_LISTED else []
    return "\n".join(["Choose one of these with @:", "", *lines, *more])


def register_router() -> None:
    """Register the router if it is missing. Keeps people's changes, and another agent of that name."""
    found = Agent.objects.filter(slug=settings.ROUTER_AGENT).first()
    if found is None or found.handler == HANDLER:
        register_hosted(settings.ROUTER_AGENT, HANDLER)
