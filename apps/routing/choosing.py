"""Chooses the agent for a message among those that the sender may use, and passes the message on to it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from agentkit import Completed, TaskContext
from agentkit.context import BOOKMARK
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.agents.negotiation import Assessment, WorkRequest
from apps.agents.search import words_of
from apps.engine.turns.delegation import principal_of
from apps.record import lineage
from apps.record.models import Message, Task, TaskState
from apps.routing.ranking import rank_agents
from parley import db

MIN_SKILL_SCORE = 0.3  # of an agent that fits
SWITCH_SKILL_SCORE = 0.6  # of another agent, to switch to it without being asked
MAX_COMPARED = 3  # agents in the reason
MAX_LISTED = 20  # agents, if the one that is named does not exist
MENTION = re.compile(r"(?<!\w)@([a-z0-9][a-z0-9-]*)")
MAX_TEXT_LENGTH = settings.MAX_SUMMARY_LENGTH  # characters
GREETINGS = frozenset(words_of("hello hi hey greetings morning evening thanks thank bye goodbye help welcome"))
"""Words that ask for no agent's work."""
GO_BETWEEN = "router"  # the tag of skills that pass messages on
KEPT = BOOKMARK + "choice"
"""In a task's memory: the choice, which a repeated turn keeps."""


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
    """The agent, and why it was chosen, for those who want to know."""

    slug: str
    name: str = ""
    why: str = ""
    refines: Sequence[str] = ()


async def pass_on(task: TaskContext, *, named_only: bool = False) -> Completed | None:
    """The answer of the agent that the message names, or that fits it best; None if there is none.

    With `named_only`, only an agent that the message names. A message that begins with the name of no agent is answered
    by the names that there are.
    """
    kept = task.memory.get(KEPT, {})
    if kept.get("message") == task.message.id:  # the turn is repeated after a question
        chosen = Choice(**kept["choice"])
    else:
        found = await _chosen(task, named_only)
        if not isinstance(found, Choice):
            return found
        chosen = found
        await task.progress(f"{chosen.name} is working on this…", detail=chosen.why)
        task.memory[KEPT] = {"message": task.message.id, "choice": vars(chosen)}
    result = await task.call(chosen.slug, task.message, key="work", references=chosen.refines)
    return result.passed_on()


async def _chosen(task: TaskContext, named_only: bool) -> Choice | Completed | None:
    text = task.message.text
    if named_only and not MENTION.search(text):
        return None
    situation = await db.run(situation_of, uuid.UUID(task.task_id), task.message.id)
    if situation.current and not named_only:
        return Choice(situation.current.slug, situation.current.name, "It works on this already.")
    types = sorted({file.media_type for file in task.message.files})
    ranked = await rank_agents(situation.principal, WorkRequest(text[:MAX_TEXT_LENGTH], input_types=types))
    others = [one for one in ranked if one.agent.slug not in (settings.DEFAULT_AGENT, settings.ROUTER_AGENT)]
    if (name := misnamed(text, others)) is not None:
        return Completed(listing(name, others))
    if types and not text.strip():
        return made_for(types, others)
    return choose(text, others, situation.previous, named_only=named_only)


def situation_of(task_id: uuid.UUID, message_id: str) -> Situation:
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


def choose(
    text: str, ranked: Sequence[Assessment], previous: DelegatedTask | None = None, *, named_only: bool = False
) -> Choice | None:
    """The agent for a message: the one it names, the previous message's agent, or the best match; None if none fits."""
    usable = {one.agent.slug: one for one in ranked if one.accepted}
    named = next((name for name in MENTION.findall(text) if name in usable), "")
    fitting = [one for one in usable.values() if one.subscores.skill >= MIN_SKILL_SCORE and not _passes_on(one.agent)]
    before = usable.get(previous.slug) if previous else None
    if named:
        slug, why = named, "You named it."
    elif named_only or _is_greeting(text):
        return None
    elif previous and before and not (fitting and _is_asked_for(fitting[0], before)):
        slug, why = previous.slug, "It worked on the message before. Name another agent with @ to change that."
    elif fitting:
        slug, why = fitting[0].agent.slug, _comparison(fitting)
    else:
        return None
    goes_on = previous is not None and previous.is_completed and previous.slug == slug
    return Choice(slug, usable[slug].agent.name, why, [previous.task_id] if previous and goes_on else [])


def made_for(types: Sequence[str], ranked: Sequence[Assessment]) -> Choice | None:
    """The agent for files that come without words: one that names their types."""
    fitting = (one.agent for one in ranked if one.accepted and set(types) <= set(one.agent.input_modes))
    return next((Choice(agent.slug, agent.name, f"It is made for {', '.join(types)}.") for agent in fitting), None)


def _passes_on(agent: Agent) -> bool:
    """Does the agent only hand its work to others? Then one of these fits."""
    return any(GO_BETWEEN in skill.get("tags", []) for skill in agent.skills)


def _is_greeting(text: str) -> bool:
    words = words_of(text)
    return bool(words) and GREETINGS.issuperset(words)


def _is_asked_for(best: Assessment, before: Assessment) -> bool:
    return best.subscores.skill >= SWITCH_SKILL_SCORE and best.subscores.skill > before.subscores.skill


def _comparison(fitting: Sequence[Assessment]) -> str:
    told = [
        f"{one.agent.name} {one.subscores.skill:.2f} ({one.matches[0].reasons[0]})" for one in fitting[:MAX_COMPARED]
    ]
    return f"It fits best. Fit from 0 to 1: {'; '.join(told)}."


def misnamed(text: str, ranked: Sequence[Assessment]) -> str | None:
    """The name that the message begins with, if no agent of that name can take it; None if all is well."""
    named = MENTION.match(text.lstrip())
    return named[1] if named and all(one.agent.slug != named[1] or not one.accepted for one in ranked) else None


def listing(name: str, ranked: Sequence[Assessment]) -> str:
    """That there is no such agent, or that it cannot take this now, and which ones there are."""
    known = next((one.agent for one in ranked if one.agent.slug == name), None)
    begin = f"{known.name} cannot take this now." if known else f"There is no agent @{name} that you can use."
    able = sorted((one.agent for one in ranked if one.agent.is_available), key=lambda agent: agent.name)
    if not able:
        return begin
    lines = [f"- @{agent.slug}: {agent.description}" for agent in able[:MAX_LISTED]]
    more = [f"- and {len(able) - MAX_LISTED} more"] if len(able) > MAX_LISTED else []
    return "\n".join([f"{begin} These can help:", "", *lines, *more])
