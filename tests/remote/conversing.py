"""Conversations with a remote agent through the record, with a real worker."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import cancel, send
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Artifact, Event, Task
from apps.remote.registration import register_remote
from parley import db

JSON = dict[str, Any]
SOON = 20.0  # seconds
INTERNALS = r"""Traceback|Error\b|Exception|\w\(["']|0x[0-9a-f]{6}|/apps/|None\b"""  # nothing for people


def remote_agent(card: JSON, slug: str = "remote", **policies: Any) -> Agent:
    return register_remote(slug, card=json.dumps(card), access=Agent.Access.AUTHENTICATED, **policies)


@dataclass
class Talk:
    user: User
    agent: Agent
    context_id: str = ""
    patience: float = SOON

    async def say(self, text: str = "hello", *, task: Task | None = None, **fields: Any) -> Task:
        """Send a message; returns its task at once."""
        message: JSON = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **fields}
        if task is not None:
            message["taskId"] = str(task.pk)
        elif self.context_id:
            message["contextId"] = self.context_id
        receipt = await db.run(send.accept_and_publish, self.user.principal, self.agent, message)
        found = await db.run(_task, receipt.task)
        self.context_id = found.context.context_id
        return found

    async def ask(self, text: str = "hello", *, task: Task | None = None, **fields: Any) -> Task:
        return await self.settled(await self.say(text, task=task, **fields))

    async def settled(self, task: Task) -> Task:
        async with asyncio.timeout(self.patience):
            after = await db.run(_newest_message, task)
            return await send.wait_until_settled(task.context_id, task.pk, after, lambda found: _task(found.pk))

    async def cancel(self, task: Task) -> None:
        await db.run(cancel.cancel_by_id, self.user.principal, self.agent, str(task.pk))


def _task(key: uuid.UUID) -> Task:
    return Task.objects.select_related("context", "agent").get(pk=key)


def _newest_message(task: Task) -> int:
    return Event.objects.filter(task=task.pk, type="user_message").order_by("-index").values_list("index", flat=True)[0]


async def until(condition: Callable[[], Any], within: float = SOON) -> Any:
    """Wait for a result of `condition`, which may use the database."""
    async with asyncio.timeout(within):
        while not (found := await db.run(condition)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # writes without an event send no notification
        return found


def words(task: Task) -> str:
    return "".join(part.get("text", "") for part in (task.status_message or {}).get("parts", []))


def delivered(task: Task) -> dict[str, Any]:
    """A task's artifacts by name: text, or a list of parts."""
    found = Artifact.objects.delivered().filter(task=task.pk)
    return {one.name: content(one.parts) for one in found}


def content(parts: list[JSON]) -> Any:
    return "".join(part["text"] for part in parts) if all("text" in part for part in parts) else parts


def run_of(task: Task) -> Run:
    return Run.objects.filter(task=task.pk).order_by("-turn")[0]


def said(task: Task, type_: str) -> list[Any]:
    return list(Event.objects.filter(task=task.pk, type=type_).order_by("index").values_list("payload", flat=True))


def is_whole(task: Task) -> bool:
    return projection.differences(task.context_id) == []
