"""A worker with short timeouts, and villains for it to call."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence

import pytest
from asgiref.sync import sync_to_async

import outbound
from apps.accounts.models import ApiKey, User
from apps.record.execution import Run
from apps.record.models import Context
from apps.remote import registration
from tests.a2a import strictness
from tests.a2a.calling import Caller, message
from tests.remote.hostile.ordeals import IDLE, LIMIT, MOST, STREAM, Ordeal, disagreements, went_well
from tests.remote.hostile.villain import Villain, villain

SLOWEST = LIMIT + 30.0  # all ordeals at once, on a busy machine


@pytest.fixture(autouse=True)
def _answers_are_read_strictly():
    """Other servers' answers are not checked strictly here: the gateway must read them."""
    with strictness.strict_operations():
        yield


@pytest.fixture(autouse=True)
def _impatient(settings):
    settings.REMOTE_CONNECT_SECONDS = 5.0
    settings.REMOTE_IDLE_SECONDS = IDLE
    settings.REMOTE_RETRY_SECONDS = 1.0
    settings.REMOTE_AWAY_SECONDS = 2.0
    settings.REMOTE_CONFIRM_SECONDS = 1.0
    settings.REMOTE_POLL_SECONDS = (0.05, 0.5)
    settings.REMOTE_ANSWER_BYTES = MOST
    settings.REMOTE_STREAM_BYTES = 10 * MOST
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)


Registering = Callable[[Villain], Awaitable[Caller]]


@pytest.fixture
def ada_key(ada: User) -> str:
    return ApiKey.issue(ada, "test")[1]


@pytest.fixture
def at(ada_key) -> Registering:
    async def register(bad: Villain, **policies) -> Caller:
        slug = f"bad-{uuid.uuid4().hex[:8]}"
        shown = await registration.preview(card=json.dumps(bad.card))
        await sync_to_async(registration.save)(slug, shown, time_limit=LIMIT, **policies)
        return Caller(slug, ada_key)

    return register


@pytest.fixture
def undergo(worker, at, subtests):
    """Runs ordeals at the same time, each with its own villain and agent."""

    async def one(ordeal: Ordeal):
        async with villain() as bad:
            ordeal.set(bad)
            caller = await at(bad)
            began = time.monotonic()
            seen = [event async for _, event in caller.stream(STREAM, {"message": message("Do it.")})]
            took = time.monotonic() - began
            return (await caller.call("GetTask", {"id": seen[0]["task"]["id"]})).result, took

    async def all_of(ordeals: Sequence[Ordeal]) -> None:
        ordeals = [*ordeals, went_well("does well beside them")]
        ends = await asyncio.gather(*(one(ordeal) for ordeal in ordeals), return_exceptions=True)
        for ordeal, end in zip(ordeals, ends, strict=True):
            with subtests.test(ordeal.name):
                if isinstance(end, BaseException):
                    raise end
                ordeal.judge(end[0])
                assert end[1] < SLOWEST
        assert await sync_to_async(lambda: disagreements(Context.objects.values_list("pk", flat=True)))() == []
        assert not await Run.objects.filter(state__in=["queued", "running"]).aexists()

    return all_of
