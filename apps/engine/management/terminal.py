"""Talks to an agent from a terminal, without a server; `parley.terminal.screen` draws the client API, too."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import mimetypes
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import cancel
from apps.engine.repeats import Sent
from apps.engine.send import send
from apps.engine.worker import current_worker
from apps.record.content import blobs
from apps.record.content.composing import compose, parts_of
from apps.record.errors import TaskNotCancelable
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Task
from apps.record.reading import feed
from parley import db

CLAIM_POLL_SECONDS = 0.5


def message_of(text: str, files: list[Path], *, context_id: str = "", task: uuid.UUID | None = None) -> JSON:
    """A user's message. Raises OSError for an unreadable file, InvalidParams."""
    parts = list[JSON]()
    for path in files:
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        raw = base64.b64encode(path.read_bytes()).decode()
        parts.append({"raw": raw, "filename": path.name, "mediaType": media_type})
    return compose(parts_of(text, parts), context=context_id, task=task)


def waiting_task(principal: Principal, agent: Agent, context_id: str) -> uuid.UUID | None:
    context = Context.objects.of(principal).filter(context_id=context_id, agent=agent).first()
    task = Task.objects.unfinished().filter(context=context).order_by("-created_at").first() if context else None
    return task.pk if task else None


async def ask(
    principal: Principal, agent: Agent, message: JSON, show: Callable[[JSON], None]
) -> tuple[Sent, Task | None]:
    """Send a message and show events until the task ends or asks; without a task, `Sent` has the answer.

    Cancel it to cancel the task. Raises errors.Refusal.
    """
    sent = await send(principal, agent, message)
    if sent.task is None:
        return sent, None
    try:
        async with _runs_executed(sent.task), aclosing(feed.follow(sent.context, sent.index)) as batches:
            async for event in (event async for events in batches for event in events):
                if event.task_id == sent.task:
                    show(_shown(event))
                    # The person opens the credential's link; then the task continues.
                    if event.settles and "service" not in event.payload.get("slot", {}):
                        break
    except asyncio.CancelledError:
        await db.run(stop, sent.task)
        raise
    return sent, await db.run(Task.objects.select_related("context").get, pk=sent.task)


def stop(task_id: uuid.UUID) -> None:
    with contextlib.suppress(TaskNotCancelable):
        cancel.cancel_task(Task.objects.select_related("context").get(pk=task_id))


def _shown(event: Event) -> JSON:
    payload = dict(event.payload)
    for holder in ("message", "artifact"):
        if payload.get(holder):
            payload[holder] = {**payload[holder], "parts": inlined(payload[holder]["parts"])}
    return {"type": event.type, "payload": payload}


def inlined(parts: Iterable[JSON]) -> list[JSON]:
    """Parts with their content."""
    return [blobs.inline(part) for part in parts]


def artifacts_of(task: Task) -> list[JSON]:
    rows = Artifact.objects.delivered().filter(task=task)
    return [
        {"taskId": str(task.pk), "artifactId": row.artifact_id, "name": row.name, "parts": inlined(row.parts)}
        for row in rows
    ]


@asynccontextmanager
async def _runs_executed(task_id: uuid.UUID) -> AsyncIterator[None]:
    """Have the task's runs executed: by workers, or in this process if no queue reaches any."""
    if not settings.CELERY_BROKER_URL.startswith("memory://"):
        yield
        return
    taking = asyncio.create_task(_execute_runs(task_id))
    try:
        yield
    finally:
        taking.cancel()


async def _execute_runs(task_id: uuid.UUID) -> None:
    """Take runs of the task and its children. A server beside us may be faster."""
    free = Q(state=Run.State.QUEUED) | Q(state=Run.State.RUNNING, lease_until__lt=Now())
    while True:
        for run in await db.run(lambda: list(Run.objects.filter(free, task__in=_task_tree(task_id)))):
            await db.run(current_worker().claim_and_wait, run.pk)
        await asyncio.sleep(CLAIM_POLL_SECONDS)


def _task_tree(task_id: uuid.UUID) -> set[uuid.UUID]:
    family, newest = {task_id}, {task_id}
    while newest:
        newest = set(Task.objects.filter(parent__in=newest).values_list("pk", flat=True)) - family
        family |= newest
    return family
