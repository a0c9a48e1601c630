"""Talks to an agent from a terminal: answers to standard output, events to standard error."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import mimetypes
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import IO

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

import db
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import cancel
from apps.engine.send import Sent, send
from apps.engine.worker import current_worker
from apps.record import feed
from apps.record.content import blobs
from apps.record.errors import TaskNotCancelable
from apps.record.events import JSON, EventType
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Task, TaskState

CONTENT = ("text", "raw", "url", "data")


class Terminal:
    """Shows the events of one task as they come, each text once. Saves files in `folder`."""

    def __init__(self, folder: Path, said: IO[str] | None = None, happened: IO[str] | None = None) -> None:
        self.folder = folder
        self._said, self._happened = said or sys.stdout, happened or sys.stderr
        self._streamed: dict[str, str] = {}
        self._shown: set[str] = set()
        self._line_is_open = False

    def say(self, text: str) -> None:
        self._close_line()
        shown = self._shown | {streamed.strip() for streamed in self._streamed.values()}
        if text.strip() and text.strip() not in shown:
            self._shown.add(text.strip())
            print(text, file=self._said, flush=True)

    def note(self, text: str) -> None:
        self._close_line()
        print(text, file=self._happened, flush=True)

    def show(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case EventType.AGENT_START:  # a turn may repeat earlier words, such as its question
                self._shown, self._streamed = set(), dict.fromkeys(self._streamed, "")
                if payload["attempt"] > 1:
                    self.note(f"Starting again (attempt {payload['attempt']}).")
            case EventType.AGENT_TOKEN | EventType.AGENT_TOKEN_END:
                self._stream(payload["artifactId"], payload["text"])
            case EventType.ARTIFACT_UPDATE if is_read(payload["artifact"]):
                text = "".join(part.get("text", "") for part in payload["artifact"]["parts"])
                self._stream(payload["artifact"]["artifactId"], text)
            case EventType.AGENT_TOOL_CALL:
                self.note(f"… {payload['name']}")
            case EventType.AGENT_MESSAGE:
                self._show_parts(payload["message"]["parts"])
            case EventType.AGENT_STATUS:
                self._show_status(payload)

    def _show_status(self, payload: JSON) -> None:
        if progress := payload.get("progress"):
            done, total = progress.get("done"), progress.get("total")
            share = f" ({done:g} of {total:g})" if done is not None and total else ""
            self.note(f"… {progress.get('text') or _text_of(payload)}{share}")
        elif payload.get("message"):
            if payload["state"] in (TaskState.COMPLETED, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED):
                self._show_parts(payload["message"]["parts"])
            else:
                mark = "… " if payload["state"] == TaskState.WORKING else ""
                self.note(f"{mark}{_text_of(payload)}")

    def _show_parts(self, parts: Iterable[JSON]) -> None:
        for part in parts:
            self.deliver([part], "")

    def _stream(self, artifact_id: str, text: str) -> None:
        if text:
            self._streamed[artifact_id] = self._streamed.get(artifact_id, "") + text
            self._said.write(text)
            self._said.flush()
            self._line_is_open = not text.endswith("\n")

    def _close_line(self) -> None:
        if self._line_is_open:
            self._said.write("\n")
            self._said.flush()
            self._line_is_open = False

    def finish(self, artifacts: Iterable[Artifact]) -> None:
        """Print or save artifacts that were not streamed."""
        for artifact in artifacts:
            if artifact.artifact_id not in self._streamed:
                self.deliver(artifact.parts, artifact.name)
        self._close_line()

    def deliver(self, parts: Iterable[JSON], name: str) -> None:
        """Print readable text and data; save files."""
        for part in parts:
            if "url" in part:
                self.say(part["url"])
            elif is_read({"name": name, "parts": [part]}):
                self.say(blobs.content_of(part).decode("utf-8", "replace"))
            elif _kind(part) == "data" and not _named_like_a_file(part, name):
                self.say(json.dumps(json.loads(blobs.content_of(part)), ensure_ascii=False, indent=2))
            else:
                self._save(part, name)

    def _save(self, part: JSON, name: str) -> None:
        path = free_path(self.folder, file_name(part, name))
        content = blobs.content_of(part)
        path.write_bytes(content)
        self.note(f"Saved {path.name} ({len(content):,} bytes).")


def is_read(artifact: JSON) -> bool:
    """Is this text to read in a terminal, rather than a file?"""
    return all(
        _kind(part) == "text" and not _named_like_a_file(part, artifact.get("name", "")) for part in artifact["parts"]
    )


def _kind(part: JSON) -> str:
    return str(
        part["stored"]["kind"] if "stored" in part else next(k for k in ("text", "raw", "url", "data") if k in part)
    )


def _named_like_a_file(part: JSON, name: str) -> bool:
    return bool(part.get("filename") or Path(name).suffix)


def _text_of(payload: JSON) -> str:
    return " ".join(part["text"] for part in payload["message"]["parts"] if "text" in part)


def file_name(part: JSON, name: str) -> str:
    """A name for a part's file: the last component of its own, with a suffix if known."""
    wanted = Path((part.get("filename") or name or "artifact").replace("\\", "/")).name.lstrip(".")
    safe = "".join(letter for letter in wanted if letter.isprintable()) or "artifact"
    suffix = {"text": ".txt", "data": ".json"}.get(_kind(part), ".bin")
    return safe if Path(safe).suffix else safe + (mimetypes.guess_extension(part.get("mediaType", "")) or suffix)


def free_path(folder: Path, name: str) -> Path:
    """`name` in the folder, or `name-2`, `name-3`… so that nothing is overwritten."""
    path, number = folder / name, 2
    while path.exists():
        path, number = folder / f"{Path(name).stem}-{number}{Path(name).suffix}", number + 1
    return path


CLAIM_POLL_SECONDS = 0.5


def message_of(text: str, files: list[Path], *, context_id: str = "", task: uuid.UUID | None = None) -> JSON:
    """A user's message in the A2A shape. Raises OSError for an unreadable file."""
    parts: list[JSON] = [{"text": text}] if text else []
    for path in files:
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        raw = base64.b64encode(path.read_bytes()).decode()
        parts.append({"raw": raw, "filename": path.name, "mediaType": media_type})
    ids = {"contextId": context_id, "taskId": str(task) if task else ""}
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts}
    return message | {name: value for name, value in ids.items() if value}


def waiting_task(principal: Principal, agent: Agent, context_id: str) -> uuid.UUID | None:
    context = Context.objects.of(principal).filter(context_id=context_id, agent=agent).first()
    task = Task.objects.unfinished().filter(context=context).order_by("-created_at").first() if context else None
    return task.pk if task else None


async def ask(
    principal: Principal, agent: Agent, message: JSON, show: Callable[[Event], None]
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
                    show(event)
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


def artifacts_of(task: Task) -> list[Artifact]:
    return list(Artifact.objects.delivered().filter(task=task))


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
