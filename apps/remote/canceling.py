"""Passing on that work is not wanted any more: at once where a turn is stopped, and by a sweep whatever was missed."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from django.conf import settings
from django.db.models import F

import db
from apps.agents.models import Agent
from apps.record import notes
from apps.record.models import Context, Run, Task
from apps.remote import attaching, calling
from apps.remote.attaching import Attachment
from apps.remote.errors import Refused, RemoteError
from apps.remote.models import OpenWork
from db import statements

log = logging.getLogger("parley.remote")

AT_ONCE = 50
GIVE_UP = datetime.timedelta(days=1)
SOON = datetime.timedelta(seconds=30)  # while somebody tries it, nobody else does
LONGEST = datetime.timedelta(hours=1)
_stopping: set[asyncio.Task[None]] = set()


def soon(attachment: Attachment, *, is_late: bool) -> None:
    """Have a look, on this loop, whether the work of a turn that was stopped is to be canceled at the agent.

    It is not where the turn goes on: a worker that has to end gives it back, and whoever takes it up finds the work
    again. It is where the task has ended here, a newer message took its place, or its time is over (`is_late`).
    """
    if attachment.task_id:
        in_background(_stopped(attachment, is_late))


def in_background(work: Coroutine[Any, Any, None]) -> None:
    """Do it on this loop, whoever ends meanwhile."""
    task = asyncio.get_running_loop().create_task(work)
    _stopping.add(task)
    task.add_done_callback(_stopping.discard)


async def _stopped(attachment: Attachment, is_late: bool) -> None:
    try:
        work = await db.run(_unwanted_of, attachment, is_late)
        if work is not None:
            await pass_on(work)
    except Exception:
        log.warning("a cancel was not passed on; the sweep does it", exc_info=True)


def _unwanted_of(attachment: Attachment, is_late: bool) -> OpenWork | None:
    hold = attachment.assignment.hold
    run = Run.objects.filter(pk=hold.run_id, fence=hold.fence).only("state", "interrupted").first()
    if run is not None and run.state != Run.State.QUEUED:
        is_held = run.state == Run.State.RUNNING
        if not is_held or run.interrupted or is_late:  # the turn is over
            attaching.give_up(attachment)
    return claim(agent=attachment.assignment.agent.pk, remote_task=attachment.task_id)


def claim(**which: object) -> OpenWork | None:
    """Work that is not wanted any more and that nobody is at, to be canceled by who has it now."""
    now = statements.database_time()
    work = OpenWork.objects.unwanted().filter(next_try_at__lte=now, **which).select_related("agent").first()
    if work is None:
        return None
    wait = min(SOON * 2**work.tries, LONGEST)
    mine = OpenWork.objects.filter(pk=work.pk, next_try_at=work.next_try_at)
    return work if mine.update(next_try_at=now + wait, tries=F("tries") + 1) else None


async def pass_on(work: OpenWork) -> None:
    """Cancel it at its agent. What cannot be done now is tried again by the sweep, for a day."""
    try:
        async with asyncio.timeout(settings.REMOTE_CANCEL_SECONDS):
            agent = await db.run(_with_version, work.agent)
            async with calling.peer_of(agent, work.owner_id) as peer:
                await peer.cancel(work.remote_task)
    except (RemoteError, TimeoutError) as error:
        is_over = isinstance(error, Refused) and not error.is_transient  # it has ended, or is not known there any more
        if not is_over and not await db.run(_is_given_up, work):
            log.info("the cancel of %s could not be passed on: %s", work, error or "no answer")
            return
        await db.run(notes.leave, work.run, f"The agent was told to cancel its task, and did not: {_told(error)}")
    await db.run(work.delete)


def sweep() -> int:
    """Pass on what was missed; gives how many were tried. For a thread."""
    claimed: list[OpenWork] = []
    while len(claimed) < AT_ONCE and (work := claim()) is not None:
        claimed.append(work)
    if claimed:
        asyncio.run(_all(claimed))
    return len(claimed)


async def _all(works: Iterable[OpenWork]) -> None:
    for error in await asyncio.gather(*(pass_on(work) for work in works), return_exceptions=True):
        if error is not None:
            log.error("a cancel could not be passed on; it is tried again", exc_info=error)


def _told(error: Exception) -> str:
    return str(error) or "it did not answer in time."


def _is_given_up(work: OpenWork) -> bool:
    return statements.database_time() - work.began_at > GIVE_UP and work.tries >= 10


def _with_version(agent: Agent) -> Agent:
    return Agent.objects.select_related("current_version").get(pk=agent.pk)


def is_open(context: Context) -> str:
    """Why the context has to stay in the tables (`COLD_OBSTACLES`)."""
    tasks = Task.objects.filter(context=context).values("pk")
    return "A remote agent may still be at work for it." if OpenWork.objects.filter(task__in=tasks).exists() else ""
