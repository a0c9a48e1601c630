"""Tools by which agents without code keep the schedules of the person they talk to. A person confirms each call.

Times are in the person's time zone. What a call would do is told before (`preview`), so that a schedule that never
runs is refused before anybody is asked.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal

from django.db.models import Q
from django.utils import timezone

from agentkit import TaskContext, tool
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.resources import NotNeeded
from apps.agents.models import Agent
from apps.automation import cron, schedules, targets
from apps.automation.models import Schedule
from apps.automation.schedules import SCHEDULES
from apps.record.errors import InvalidFields, Refusal
from apps.record.models import Task
from parley import db
from parley.db import sql

SHOWN = 3  # next runs
LISTED = 50  # schedules
MOMENT = "%A, %Y-%m-%d %H:%M"

type Change = Literal["pause", "resume", "delete", "run"]


async def _preview_new(
    task: TaskContext,
    name: str,
    message: str,
    cron: str = "",
    at: str = "",
    agent: str = "",
    same_session: bool = False,
) -> str:
    return await db.run(_told_of_new, task.task_id, name, message, cron, at, agent, same_session)


@tool(needs_approval=True, preview=_preview_new)
async def make_schedule(
    task: TaskContext,
    name: str,
    message: str,
    cron: str = "",
    at: str = "",
    agent: str = "",
    same_session: bool = False,
) -> str:
    """Plans a message to an agent for later, once or again and again. The person confirms it.

    Give either `cron` or `at`.

    Args:
        name: a few words for the person's list of schedules.
        message: what the agent gets each time. It does not see this conversation, so write all that it must know.
        same_session: all runs go on in one session, so that each knows the ones before; by default each is a new one.
        cron: repeated times in the person's time zone, as minute, hour, day of month, month, day of week. For example,
            0 9 * * 1 is every Monday at 9:00.
        at: one time in the person's time zone, such as 2030-12-24T18:00.
        agent: the slug of the agent that gets the message; by default you.
    """
    return await db.run(_make, task.task_id, name, message, cron, at, agent, same_session)


@tool()
async def list_schedules(task: TaskContext) -> str:
    """Lists the person's schedules, with their times, next runs, and whether they are paused."""
    return await db.run(_list, task.task_id)


async def _preview_change(task: TaskContext, schedule: str, change: Change) -> str:
    return await db.run(_told_of_change, task.task_id, schedule, change)


@tool(needs_approval=True, preview=_preview_change)
async def change_schedule(task: TaskContext, schedule: str, change: Change) -> str:
    """Pauses, resumes or deletes a schedule of the person, or runs it now. The person confirms it.

    Args:
        schedule: its name or its id, as list_schedules tells them.
    """
    return await db.run(_change, task.task_id, schedule, change)


def _person(task_id: str) -> tuple[Task, User, Principal]:
    """Who wrote what the agent works on, in the session's workspace. Raises ValueError, also in temporary sessions."""
    task = Task.objects.select_related("owner", "agent", "context").get(pk=task_id)
    if task.owner is None:
        raise ValueError("Nobody is signed in here, so there are no schedules.")
    if task.context.is_temporary:  # guests of chats and senders of webhooks write there, too
        raise ValueError("This session is temporary: it reaches and changes no schedules of its person.")
    return task, task.owner, task.owner.principal_in(task.workspace_id)


def _drafted(
    task_id: str, name: str, message: str, expression: str, at: str, agent: str, same_session: bool
) -> tuple[Schedule, Principal]:
    """A schedule that is not saved. Raises ValueError."""
    task, owner, principal = _person(task_id)
    if bool(expression.strip()) == bool(at.strip()):
        raise ValueError("Give either cron, for repeated times, or at, for one time.")
    kind = Schedule.Kind.CRON if expression.strip() else Schedule.Kind.ONCE
    zone = owner.time_zone or timezone.get_default_timezone_name()
    try:
        target = targets.find_target(principal, agent or task.agent.slug)
        targets.check_content(target, message, {})
    except InvalidFields as refused:
        raise ValueError(_said(refused)) from None
    draft = Schedule(name=name.strip()[:200], agent=target, text=message, kind=kind, time_zone=zone)
    draft.cron, draft.at = expression.strip(), _moment(at)
    if same_session:
        draft.sessions = Schedule.Sessions.SAME
        if target.kind == Agent.Kind.PLAN:
            raise ValueError(schedules.NEW_FOR_PLANS)
    draft.owner_id, draft.workspace_id = owner.pk, task.workspace_id
    return draft, principal


def _moment(at: str) -> datetime.datetime | None:
    """Raises ValueError."""
    try:
        return datetime.datetime.fromisoformat(at.strip()) if at.strip() else None
    except ValueError:
        raise ValueError(f"{at[:40]!r} is no time. Write one such as 2030-12-24T18:00.") from None


def _told_of_new(task_id: str, *given: Any) -> str:
    draft, _ = _drafted(task_id, *given)
    draft.created_at = now = sql.database_time()
    try:
        following = schedules.preview(draft, now, SHOWN)
    except InvalidFields as refused:
        raise ValueError(_said(refused)) from None
    assert draft.agent is not None
    when = f"{_when(draft)}, {draft.time_zone}"
    where = f"{draft.get_sessions_display()}."
    return f"“{draft.name}”: {draft.agent.name} gets the message {when}. {where}\n{_runs(draft, following)}"


def _make(task_id: str, *given: Any) -> str:
    draft, principal = _drafted(task_id, *given)
    same = Q(name=draft.name, agent=draft.agent, text=draft.text, cron=draft.cron, kind=draft.kind, paused_at=None)
    same &= Q(sessions=draft.sessions)
    if draft.kind == Schedule.Kind.CRON and (there := SCHEDULES.visible_to(principal).filter(same).first()):
        return f"There is this schedule already. {_line(there)}"  # a turn may be repeated after a crash
    try:
        made = SCHEDULES.store(principal, draft)
    except Refusal as refused:
        raise ValueError(_said(refused)) from None
    return f"The schedule was made. {_line(made)}"


def _list(task_id: str) -> str:
    _, _, principal = _person(task_id)
    found = SCHEDULES.visible_to(principal)[:LISTED]
    return "\n".join(map(_line, found)) or "There are no schedules."


def _find(task_id: str, named: str) -> tuple[Schedule, Principal]:
    """Raises ValueError."""
    _, _, principal = _person(task_id)
    own = SCHEDULES.visible_to(principal)
    by_id = own.find_or_none(principal, named.strip())
    found = [by_id] if by_id else list(own.filter(name__iexact=named.strip())[:2])
    if len(found) != 1:
        several = "Several schedules have this name. Give the id of one" if found else "There is no such schedule"
        raise ValueError(f"{several}: list_schedules tells names and ids.")
    return found[0], principal


def _told_of_change(task_id: str, named: str, change: Change) -> str:
    schedule, _ = _find(task_id, named)
    act = SCHEDULES.act(change)
    assert act is not None
    return f"{act.label} “{schedule.name}”, {_when(schedule)}, {schedule.time_zone}.\n{act.warning}"


def _change(task_id: str, named: str, change: Change) -> str:
    schedule, principal = _find(task_id, named)
    act = SCHEDULES.act(change)
    assert act is not None
    try:
        return act.said(act.perform(principal, schedule))
    except NotNeeded as why:
        return str(why)
    except Refusal as refused:
        raise ValueError(_said(refused)) from None


def _said(refused: Refusal) -> str:
    return " ".join(said for _, said in refused.violations) if isinstance(refused, InvalidFields) else str(refused)


def _when(schedule: Schedule) -> str:
    match schedule.kind:
        case Schedule.Kind.CRON:
            return cron.in_words(schedule.cron)
        case Schedule.Kind.INTERVAL:
            return f"every {schedule.every_seconds} seconds"
        case _:
            return "once"


def _runs(schedule: Schedule, times: list[datetime.datetime]) -> str:
    zone = schedules.zone_of(schedule.time_zone)
    return f"Next: {'; '.join(f'{at.astimezone(zone):{MOMENT}}' for at in times) or 'never'}."


def _line(schedule: Schedule) -> str:
    state = "It is paused." if schedule.paused_at else _runs(schedule, schedules.next_times(schedule)[:SHOWN])
    agent = schedule.agent.slug if schedule.agent else "an agent that was deleted"
    where = " In the same session each time." if schedule.sessions == Schedule.Sessions.SAME else ""
    return f"{schedule.name} (id {schedule.pk}): @{agent} {_when(schedule)}, {schedule.time_zone}.{where} {state}"
