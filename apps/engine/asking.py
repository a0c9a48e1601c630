"""Talking to an agent from a program of one's own: sending, following, answering, stopping."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import mimetypes
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

import db
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import canceling
from apps.engine.send import Sent, send
from apps.engine.worker import this_process
from apps.record import feed
from apps.record.errors import TaskNotCancelable
from apps.record.events import JSON
from apps.record.models import Artifact, Context, Event, Run, Task

LOOK_SECONDS = 0.5


def message_of(text: str, files: list[Path], *, context_id: str = "", task: uuid.UUID | None = None) -> JSON:
    """A user's message in the A2A shape. Raises OSError for a file that cannot be read."""
    parts: list[JSON] = [{"text": text}] if text else []
    for path in files:
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        raw = base64.b64encode(path.read_bytes()).decode()
        parts.append({"raw": raw, "filename": path.name, "mediaType": media_type})
    ids = {"contextId": context_id, "taskId": str(task) if task else ""}
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts}
    return message | {name: value for name, value in ids.items() if value}


def waiting_task(principal: Principal, agent: Agent, context_id: str) -> uuid.UUID | None:
    """The unfinished task of a conversation, which the next message is for."""
    context = Context.objects.visible_to(principal).filter(context_id=context_id, agent=agent).first()
    task = Task.objects.unfinished().filter(context=context).order_by("-created_at").first() if context else None
    return task.pk if task else None


async def ask(
    principal: Principal, agent: Agent, message: JSON, show: Callable[[Event], None]
) -> tuple[Sent, Task | None]:
    """Send a message and show what happens until the task ends or asks; without a task the answer is in `Sent`.

    Cancel it to cancel the task. Raises errors.Refusal.
    """
    sent = await send(principal, agent, message)
    if sent.task is None:
        return sent, None
    try:
        async with _executed(sent.task), aclosing(feed.follow(sent.context, sent.index)) as batches:
            async for event in (event async for events in batches for event in events):
                if event.task_id == sent.task:
                    show(event)
                    # A credential is given by its link: when it was, the task goes on by itself.
                    if event.settles and "service" not in event.payload.get("slot", {}):
                        break
    except asyncio.CancelledError:
        await db.run(stop, sent.task)
        raise
    return sent, await db.run(Task.objects.select_related("context").get, pk=sent.task)


def stop(task_id: uuid.UUID) -> None:
    """Cancel the task, unless it has ended."""
    with contextlib.suppress(TaskNotCancelable):
        canceling.cancel_found(Task.objects.select_related("context").get(pk=task_id))


def artifacts_of(task: Task) -> list[Artifact]:
    return list(Artifact.objects.delivered().filter(task=task))


@asynccontextmanager
async def _executed(task_id: uuid.UUID) -> AsyncIterator[None]:
    """See to it that the task's runs are executed: by the workers, or in this process where no queue reaches any."""
    if not settings.CELERY_BROKER_URL.startswith("memory://"):
        yield
        return
    taking = asyncio.create_task(_take_runs(task_id))
    try:
        yield
    finally:
        taking.cancel()


async def _take_runs(task_id: uuid.UUID) -> None:
    """Take whatever run of the task, and of those it calls for, is to be had, again and again.

    A server beside us may be faster.
    """
    free = Q(state=Run.State.QUEUED) | Q(state=Run.State.RUNNING, lease_until__lt=Now())
    while True:
        for run in await db.run(lambda: list(Run.objects.filter(free, task__in=_family(task_id)))):
            await db.run(this_process().offer, run.pk)
        await asyncio.sleep(LOOK_SECONDS)


def _family(task_id: uuid.UUID) -> set[uuid.UUID]:
    """The task, its children, theirs, and so on."""
    family, newest = {task_id}, {task_id}
    while newest:
        newest = set(Task.objects.filter(parent__in=newest).values_list("pk", flat=True)) - family
        family |= newest
    return family
