"""An agent that falls silent, or drips, ends its turn in bounded time, and people are told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from tests.gateway.hostile import villain as v
from tests.gateway.hostile.ordeals import AWAY, LOST, OVER, STREAM, Ordeal, went_well
from tests.gateway.hostile.villain import Answering, Call, Villain

pytestmark = pytest.mark.django_db(transaction=True)


async def hangs(call: Call) -> None:
    await call.hang()


async def hangs_after_its_head(call: Call) -> None:
    await call.stream()
    await call.hang()


async def hangs_within_an_event(call: Call) -> None:
    await call.stream()
    await call.write(b'data: {"jsonrpc": "2.0", "id"')
    await call.hang()


async def hangs_within_a_body(call: Call) -> None:
    await call.head("200 OK", "application/json", "Content-Length: 1000")
    await call.write(b'{"jsonrpc": "2.0", ')
    await call.hang()


async def hangs_after_its_task(call: Call) -> None:
    await call.events(v.conversation(call)[0])
    await call.hang()


async def hangs_half_way(call: Call) -> None:
    await call.events(*v.conversation(call)[:4])
    await call.hang()


def drips(pause: float, what: Callable[[Call], bytes]) -> Answering:
    async def answering(call: Call) -> None:
        await call.stream()
        for byte in what(call):
            await call.write(bytes([byte]))
            await asyncio.sleep(pause)

    return answering


def an_event(call: Call) -> bytes:
    return b"data: " + call.packed({"task": v.task("SUBMITTED", call)}) + b"\n\n"


def nobody_there(bad: Villain) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bad.port = probe.getsockname()[1]


SILENT = [
    Ordeal("nobody is there", prepare=nobody_there, says="cannot be reached"),
    Ordeal("says nothing", {STREAM: hangs}, says=LOST),
    Ordeal("says nothing after its head", {STREAM: hangs_after_its_head}, says=LOST),
    Ordeal("says nothing within an event", {STREAM: hangs_within_an_event}, says=LOST),
    Ordeal("says nothing within a body", {STREAM: hangs_within_a_body}, says=LOST),
    Ordeal(
        "says nothing after its task, to nobody",
        {STREAM: hangs_after_its_task, "GetTask": hangs, "SubscribeToTask": hangs},
        says=AWAY,
    ),
    Ordeal(
        "says nothing half way, to nobody",
        {STREAM: hangs_half_way, "GetTask": hangs, "SubscribeToTask": hangs},
        says=AWAY,
    ),
    went_well("says nothing after its task, and tells when it is asked", **{STREAM: hangs_after_its_task}),
    went_well("says nothing half way, and tells when it is asked", **{STREAM: hangs_half_way}),
    Ordeal("drips", {STREAM: drips(0.5, an_event)}, says=LOST),
    Ordeal("drips comments", {STREAM: drips(0.2, lambda call: b":\n" * 1000)}, says=OVER),
    Ordeal(
        "works for ever",
        {STREAM: hangs_half_way, "GetTask": v.works_for_ever},
        says=OVER,
    ),
]


async def test_an_agent_that_falls_silent_ends_its_turn_and_says_so(undergo):
    await undergo(SILENT)
