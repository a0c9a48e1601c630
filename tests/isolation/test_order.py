"""At every address, nothing of a body is read before its caller is known, and little of a stranger's."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.test import override_settings

from parley.asgi import application
from parley.serving.handlers import ASYNC_PATH
from tests.isolation.addresses import Address, addresses, ids_of
from tests.isolation.asking import methods_of, run, scope_of
from tests.isolation.world import World

CHUNK = 16 * 1024
BODY = 64 * CHUNK
STRANGERS_BYTES = 64 * 1024
REFUSED = (401, 403, 404, 405)
WRONG_KEY = f"Bearer parley_{'0' * 12}_{'x' * 40}"


@dataclass
class Answer:
    """`taken`: how many bytes of the body were read before it began."""

    status: int = 0
    taken: int = 0


async def _send_slowly(method: str, path: str, headers: dict[str, str]) -> Answer:
    """Send a body whose length is not told, piece by piece, as the application asks for it."""
    answer, sent, done = Answer(), 0, asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent >= BODY:
            await done.wait()
            return {"type": "http.disconnect"}
        sent += CHUNK
        if not answer.status:
            answer.taken += CHUNK
        return {"type": "http.request", "body": b"x" * CHUNK, "more_body": sent < BODY}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
        elif not message.get("more_body", False):
            done.set()

    with suppress(asyncio.CancelledError):
        await application(scope_of(method, path, headers), receive, send)
    return answer


async def _send_all(requests: list[tuple[str, str, dict[str, str]]]) -> list[Answer]:
    return [await _send_slowly(*one) for one in requests]


def send_slowly(path: str, *requests: tuple[str, dict[str, str]]) -> list[Answer]:
    """The answers to requests with these methods and headers, from one event loop."""
    chunked = {"host": "testserver", "transfer-encoding": "chunked"}
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        return run(_send_all([(method, path, chunked | headers) for method, headers in requests]))


def path_of(address: Address, ids: dict[str, Any]) -> str:
    return address.path({name: ids.get(kind, "none") for name, kind in address.kinds().items()})


PLACES = [one for one in addresses() if one.kinds_or_none() is not None and not one.template.startswith("admin/")]
FORM, JSON = "application/x-www-form-urlencoded", "application/json"


def test_strangers_body_is_not_read(two):
    assert [told for place in PLACES for told in reads_a_stranger(place, two)] == []


def reads_a_stranger(place: Address, two: World) -> list[str]:
    path = path_of(place, ids_of(two.theirs))
    is_async = ASYNC_PATH.match(path) is not None
    kind = {"content-type": JSON if is_async else FORM}
    requests = [(method, kind) for method in methods_of(place)[1:]]
    requests += [("POST", kind | {"authorization": WRONG_KEY})] if is_async else []
    wrong = []
    for (method, headers), answer in zip(requests, send_slowly(path, *requests), strict=True):
        most = 0 if is_async and answer.status in REFUSED else STRANGERS_BYTES + CHUNK
        if answer.taken > most:
            wrong.append(f"{method} {path} {headers}, answered by {answer.status}, took {answer.taken} bytes")
    return wrong


def test_member_s_body_is_read(two):
    """So that a harness that nobody reads from is noticed."""
    key = f"Bearer {two.ours.ids['key secret']}"
    [answer] = send_slowly("/a2a/echo", ("POST", {"authorization": key, "content-type": JSON}))
    assert (answer.status, answer.taken) == (200, BODY)


def test_operators_pages_read_little_of_a_stranger(two):
    """All are views of one site, so one of each kind is asked."""
    for path in ("", "accounts/user/add/", f"record/task/{uuid.UUID(int=0)}/answer/"):
        [answer] = send_slowly(f"/admin/{path}", ("POST", {"content-type": FORM}))
        assert answer.taken <= STRANGERS_BYTES + CHUNK, path
