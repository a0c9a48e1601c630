"""Canceling remote tasks: at once when a turn is stopped, and by a sweep for what was missed."""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from collections.abc import Coroutine
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from apps.agents import versions
from apps.agents.models import AgentVersion
from apps.record.execution import Run
from apps.record.models import Context, Task
from apps.record.runs import add_note
from apps.remote import a2a_client
from apps.remote.errors import Refused, RemoteError
from apps.remote.execution import runs
from apps.remote.execution.runs import RemoteRun
from apps.remote.models import OpenWork
from parley import db
from parley.work import WorkList

log = logging.getLogger("parley.remote")

GIVE_UP_AFTER = datetime.timedelta(days=1)
FIRST_RETRY, LONGEST_RETRY = 30.0, 3600.0  # seconds
_background_tasks: set[asyncio.Task[None]] = set()


def cancel_if_unwanted(remote_run: RemoteRun, *, is_late: bool) -> None:
    """Cancel the remote task of a stopped turn, unless the turn continues in another worker. Runs on this event loop.

    The turn is over if its task has ended here, a newer message took its place, or its time is up (`is_late`).
    """
    if remote_run.task_id:
        run_in_background(_cancel_stopped(remote_run, is_late))


def run_in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    _background_tasks.add(task)
    task.add_done_callback(_background_tasks.discard)


async def _cancel_stopped(remote_run: RemoteRun, is_late: bool) -> None:
    try:
        for work in await db.run(_claim_stopped, remote_run, is_late):
            await send_cancel(work)
    except Exception:
        log.warning("a cancel was not sent; the sweep does it", exc_info=True)


def _claim_stopped(remote_run: RemoteRun, is_late: bool) -> list[OpenWork]:
    lease = remote_run.assignment.lease
    run = Run.objects.filter(**lease.is_held).only("state", "interrupted").first()
    if run is not None and run.state != Run.State.QUEUED:
        is_held = run.state == Run.State.RUNNING
        if not is_held or run.interrupted or is_late:  # the turn is over
            runs.mark_unwanted(remote_run)
    which = {"agent": remote_run.assignment.agent.pk, "remote_task": remote_run.task_id}
    return claim_unwanted(1, **which, machine=remote_run.machine)


def claim_unwanted(most: int, **which: object) -> list[OpenWork]:
    """Claim unwanted work that is due, and that this machine can call. No other process cancels it for a while.

    Where a machine never comes back, others take the row away in the end.
    """
    lease = datetime.timedelta(seconds=2 * settings.REMOTE_CANCEL_SECONDS)
    rows = OpenWork.objects.select_related("agent__current_version").filter(**which)
    is_lost = Q(began_at__lt=timezone.now() - GIVE_UP_AFTER)
    claimed = list(rows.filter(Q(machine__in=("", runs.this_machine())) | is_lost).claim(lease, most))
    for work in claimed:
        work.agent.current_version = _version_of(work)
    return claimed


def _version_of(work: OpenWork) -> AgentVersion | None:
    """The version that the run used: versions with a folder have a process each."""
    used = Run.objects.filter(pk=work.run).values_list("input__agent__version", flat=True).first()
    try:
        return versions.version_at(uuid.UUID(used)) if used else work.agent.current_version
    except AgentVersion.DoesNotExist:  # of a fallback that is gone
        return work.agent.current_version


async def send_cancel(work: OpenWork) -> None:
    """Send a cancel. The sweep retries failures for a day."""
    if work.machine not in ("", runs.this_machine()):
        note = f"The agent was not told to cancel its task: the machine {work.machine} has gone."
        await db.run(add_note, work.run, note)
        await db.run(work.held.delete)
        return
    try:
        async with asyncio.timeout(settings.REMOTE_CANCEL_SECONDS):
            async with a2a_client.connect_for(work.agent, work.owner_id) as peer:
                await peer.cancel(work.remote_task)
    except Exception as error:
        is_expected = isinstance(error, RemoteError | TimeoutError)
        log.info("the cancel of %s could not be passed on: %s", work, error or "no answer", exc_info=not is_expected)
        is_over = isinstance(error, Refused) and not error.is_transient
        is_given_up = timezone.now() - work.began_at > GIVE_UP_AFTER and work.tries >= 10
        if not is_over and not is_given_up:
            await db.run(work.retry, FIRST_RETRY, LONGEST_RETRY)
            return
        reason = str(error) or "it did not answer in time." if is_expected else "the log says why."
        await db.run(add_note, work.run, f"The agent was told to cancel its task, and did not: {reason}")
    await db.run(work.held.delete)


async def send_due_cancel(key: int) -> None:
    """Tells a remote agent that its task was canceled here."""
    for work in await db.run(claim_unwanted, 1, pk=key):
        await send_cancel(work)


def _agent_of(key: int) -> str:
    """ "" for a cancel that is done."""
    return str(OpenWork.objects.filter(pk=key).values_list("agent", flat=True).first() or "")


CANCELS = WorkList(
    "cancels", "remote.send_cancel", send_due_cancel, OpenWork, "began_at", host_of=_agent_of, at_once=50
)


def archiving_obstacle(context: Context) -> str:
    """See `cold_obstacles`."""
    tasks = Task.objects.filter(context=context).values("pk")
    return "A remote agent may still be at work for it." if OpenWork.objects.filter(task__in=tasks).exists() else ""
