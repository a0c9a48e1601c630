"""The router: an agent that passes on what it is sent to the agent that fits best, and says why.

At the front door it answers to who names no agent (`settings.ROUTER_AGENT`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

import db
from agentkit import Artifact, Completed, ReceivedArtifact, Rejected, Skill, SkillHandler, TaskContext
from agentkit.parts import text_part
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.agents.negotiation import Ask, Assessment
from apps.agents.registration import register_hosted
from apps.engine.delegation import principal_of
from apps.features.routing.ranking import rank
from apps.record import lineage
from apps.record.lifecycle import TaskState
from apps.record.models import Message, Task

HANDLER = "apps.features.routing.router:Router"
FITS = 0.3  # the score of a best skill below which an agent is not thought to fit
CLEARLY = 0.6  # that of another agent to which a conversation changes without being told to
TOLD = 3  # agents of which is said how well they fit
LISTED = 20  # agents that are named where none fits
NAMED = re.compile(r"(?<!\w)@([a-z0-9][a-z0-9-]*)")
LONGEST = settings.MAX_SUMMARY_LENGTH  # characters of a message that are looked at


@dataclass(frozen=True)
class Passed:
    """A task to which the router passed a message on."""

    slug: str
    name: str
    task_id: str
    is_completed: bool

    @classmethod
    def of(cls, child: Task) -> Passed:
        return cls(child.agent.slug, child.agent.name, str(child.pk), child.state == TaskState.COMPLETED)


@dataclass(frozen=True)
class Situation:
    """In whose name the router works; what it has begun for this message already, and for the message before."""

    principal: Principal
    begun: Passed | None
    earlier: Passed | None


@dataclass(frozen=True)
class Choice:
    """The agent to pass a message on to, why it is that one in words for people, and the tasks that it is to refine."""

    slug: str
    why: str
    refines: Sequence[str] = ()


class Router(SkillHandler):
    """Passes on what it is sent to the agent here that fits it best, and says which one worked and why."""

    name = "Router"
    skills = (
        Skill(
            "route",
            "Find the right agent",
            "Chooses the agent that fits a message best, passes the message on, and gives back what it made.",
            tags=["router", "delegation"],
            examples=["Count down from 5", "@echo Give this back to me"],
        ),
    )
    input_modes = ("*/*",)
    output_modes = ("*/*",)
    retry_safe = True  # a call that was made is found again
    time_limit = 4 * 3600.0

    async def on_request(self, task: TaskContext) -> Completed | Rejected:
        if task.memory.get("message") != task.message.id:  # a turn that is taken again stays with what it chose
            choice = await _chosen(task)
            if isinstance(choice, Rejected):
                return choice
            task.memory.update(vars(choice), message=task.message.id)
            await task.progress(choice.why)
        chosen = Choice(task.memory["slug"], task.memory["why"], task.memory["refines"])
        result = await task.call(chosen.slug, task.message, key="work", references=chosen.refines)
        said = [text_part(result.text)] if result.text else []
        return Completed([text_part(chosen.why), *said], [_passed_on(one) for one in result.artifacts])


async def _chosen(task: TaskContext) -> Choice | Rejected:
    situation = await db.run(_situation, uuid.UUID(task.task_id), task.message.id)
    if situation.begun:
        return Choice(situation.begun.slug, f"{situation.begun.name} works on this.")
    types = sorted({file.media_type for file in task.message.files})
    ranked = await rank(situation.principal, Ask(task.message.text[:LONGEST], input_types=types))
    return choose(task.message.text, ranked, situation.earlier)


def choose(text: str, ranked: Sequence[Assessment], earlier: Passed | None = None) -> Choice | Rejected:
    """The agent to pass a message on to: the one it names, the one of the message before, or the one that fits best."""
    usable = {one.agent.slug: one for one in ranked if one.accepted}
    names = NAMED.findall(text)
    if names and names[0] not in usable:
        return Rejected(f"There is no agent @{names[0]} that you can use for this now. {_listing(ranked)}")
    fitting = [one for one in usable.values() if one.subscores.skill >= FITS]
    before = usable.get(earlier.slug) if earlier else None
    if names:
        slug, why = names[0], f"{usable[names[0]].agent.name} works on this: you named it."
    elif earlier and before and not (fitting and _is_asked_for(fitting[0], before)):
        slug, why = earlier.slug, f"{earlier.name} goes on with this, as before. Name another agent with @ to change."
    elif fitting:
        slug, name = fitting[0].agent.slug, fitting[0].agent.name
        why = f"{name} works on this: it fits best. {_comparison(fitting)}"
    else:
        return Rejected(f"No agent here seems to fit this. {_listing(ranked)}")
    goes_on = earlier is not None and earlier.is_completed and earlier.slug == slug
    return Choice(slug, why, [earlier.task_id] if earlier and goes_on else [])


def _is_asked_for(best: Assessment, before: Assessment) -> bool:
    """Does the text ask for another agent than the one that worked before?"""
    return best.subscores.skill >= CLEARLY and best.subscores.skill > before.subscores.skill


def _comparison(fitting: Sequence[Assessment]) -> str:
    told = [f"{one.agent.name} {one.subscores.skill:.2f} ({one.matches[0].reasons[0]})" for one in fitting[:TOLD]]
    return f"How well they fit, from 0 to 1: {'; '.join(told)}."


def _listing(ranked: Sequence[Assessment]) -> str:
    able = sorted((one.agent for one in ranked if one.agent.is_available), key=lambda agent: agent.name)
    if not able:
        return "There is no agent that you can use."
    lines = [f"- @{agent.slug}: {agent.description}" for agent in able[:LISTED]]
    more = [f"- and {len(able) - LISTED} more"] if len(able) > LISTED else []
    return "\n".join(["Name one of these with @:", "", *lines, *more])


def _situation(task_id: uuid.UUID, message_id: str) -> Situation:
    task = Task.objects.select_related("owner", "context").get(pk=task_id)
    said = Message.objects.filter(task=task_id, message_id=message_id, role=Message.Role.USER).order_by("index").last()
    here = lineage.within(task.context, "first_event", of="parent__")
    passed = Task.objects.select_related("agent").filter(parent__agent=task.agent_id, **here)
    if gone := lineage.left(task.context):
        passed = passed.exclude(parent__in=gone)
    begun = passed.filter(parent=task_id, created_at__gte=said.created_at).first() if said else None
    before = passed.exclude(pk=begun.pk) if begun else passed
    earlier = before.order_by("-created_at").first()
    return Situation(principal_of(task), Passed.of(begun) if begun else None, Passed.of(earlier) if earlier else None)


def _passed_on(received: ReceivedArtifact) -> Artifact:
    return Artifact(received.parts, received.name, received.description)


def register_router() -> None:
    """Register the router where there is none; leave what people changed, and somebody's own agent of that name."""
    found = Agent.objects.filter(slug=settings.ROUTER_AGENT).first()
    if found is None or found.handler == HANDLER:
        register_hosted(settings.ROUTER_AGENT, HANDLER)
