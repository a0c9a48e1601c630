"""Work that a test does by hand, as a worker's event loop would."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from typing import Any

import pytest
from django.conf import settings

from parley import db, outbound
from parley.outbound import Limits
from parley.work import WorkList
from parley.work.running import Slots, work


class Worker:
    """Works off one list on the test's event loop."""

    def __init__(self, work_list: WorkList, *, per_host: int | None = None) -> None:
        self._list = work_list
        self._slots = Slots(work_list.at_once, per_host or work_list.per_host)
        self._client = outbound.exchange(Limits(seconds=settings.WEBHOOK_SECONDS))

    async def drain(self, key: Any) -> None:
        await work(self._list, key, self._slots, self._client)

    async def do(self, key: Any) -> None:
        """Also what does not await."""
        if inspect.iscoroutinefunction(self._list.work):
            await self.drain(key)
        else:
            await db.run(self._list.work, key)

    async def close(self) -> None:
        await self._client.aclose()


def published_keys(monkeypatch: pytest.MonkeyPatch) -> list[uuid.UUID]:
    """The keys that are given to workers from now on, of which none runs."""
    keys: list[uuid.UUID] = []

    def note(job: str, key: str, expires: float | None) -> bool:
        keys.append(uuid.UUID(key))
        return True

    monkeypatch.setattr("parley.work.lists.send_job", note)
    return keys


async def work_off(work_list: WorkList) -> int:
    """Do all that is due, as the sweep and the workers would. Returns for how many keys."""
    keys = await db.run(lambda: list(work_list.due_keys()))
    worker = Worker(work_list)
    for done in await asyncio.gather(*(worker.do(key) for key in keys), return_exceptions=True):
        if isinstance(done, BaseException):
            raise done
    await worker.close()
    return len(keys)


def worked_off(work_list: WorkList) -> int:
    """`work_off` where no event loop runs."""
    return asyncio.run(work_off(work_list))
