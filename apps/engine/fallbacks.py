"""Who takes a turn in the place of an agent that cannot be reached: the first of the fallbacks that it names."""

from __future__ import annotations

import db
from agentkit import Progress, TaskContext
from apps.agents import versions
from apps.agents.models import Agent
from apps.engine import hosting
from apps.engine.assignments import Assignment
from apps.engine.delegation import principal_of
from apps.engine.recording import Line, Recorder, line_of
from apps.record.digests import digest_of
from apps.record.events import JSON
from apps.record.leases import LeaseLost
from apps.record.models import Run

OF_THE_OTHER = ("agent", "options", "skill", "sent")  # of a run's input: what the agent was given that did not take it


class Unavailable(Exception):
    """An agent cannot be reached, and nothing was sent to it. `str()` is a sentence for people, `code` for programs."""

    code = "unavailable"


async def take_over(assignment: Assignment, recorder: Recorder, task: TaskContext) -> bool:
    """Hand a turn of which nothing was done on to the next fallback of its agent; False where there is none.

    Only what nobody has begun is handed on: not a turn in which anything was said, nor the answer to a question, which
    is for the agent that asked. Raises LeaseLost.
    """
    if recorder.has_spoken or assignment.slot is not None or assignment.original is not None:
        return False
    away = assignment.agent
    stand_in = await db.run(_next, assignment)
    if stand_in is None:
        return False
    assignment.input = await db.persist(_note, assignment, stand_in)
    assignment.input_hash = digest_of(assignment.input)
    assignment.hand_to(stand_in)
    task.memory.clear()  # what is in there is the other's
    told = line_of(Progress(f"{away.name} is not available. {stand_in.name} answers instead."))
    by = {"version": version.number} if (version := stand_in.current_version) else {}
    await recorder.record(Line(told.type, {**told.payload, "agent": stand_in.pk, **by}))
    return True


def _next(assignment: Assignment) -> Agent | None:
    """The first fallback after the one that was tried last which may be used, takes the message, and is well here."""
    own = Agent.objects.get(tasks=assignment.task.pk)
    slugs = own.fallbacks
    if assignment.agent.slug in slugs:
        slugs = slugs[slugs.index(assignment.agent.slug) + 1 :]
    usable = Agent.objects.visible_to(principal_of(assignment.task)).filter(slug__in=slugs).exclude(pk=own.pk)
    known = {agent.slug: agent for agent in usable}
    return next((agent for slug in slugs if (agent := known.get(slug)) and _can_take(agent, assignment)), None)


def _can_take(agent: Agent, assignment: Assignment) -> bool:
    return not agent.refused_type(assignment.message.parts) and hosting.can_take(agent)


def _note(assignment: Assignment, stand_in: Agent) -> JSON:
    """Keep in the run who takes it, so that another attempt begins with the same. Gives its new input."""
    version = versions.version_at(stand_in.current_version_id) if stand_in.current_version_id else None
    stand_in.current_version = version
    held = Run.objects.filter(pk=assignment.hold.run_id, fence=assignment.hold.fence, state=Run.State.RUNNING)
    given = held.values_list("input", flat=True).first()
    if given is None:
        raise LeaseLost
    given = {name: value for name, value in given.items() if name not in OF_THE_OTHER}
    if version is not None:
        given["agent"] = versions.reference(version)
    if not held.update(agent=stand_in, input=given, input_hash=digest_of(given), memory={}, remote={}):
        raise LeaseLost
    return given
