"""Over a WebSocket, too, what another workspace has is answered like what never was."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import override_settings

from config.asgi import SOCKETS, application
from tests.isolation.asking import Caller
from tests.isolation.world import World

SESSIONS = ("session", "shared session", "deleted session", "fork")
KNOWN = ("ws/sessions/<uuid:session>", "ws/events", "ws/admin/contexts/<uuid:context>")
"""The addresses that a test here asks."""


async def _heard(path: str, caller: Caller, said: Any) -> list[Any]:
    """All that the server sends until it closes, with its code."""
    cookie = caller.browser.cookies.get(settings.SESSION_COOKIE_NAME)
    headers = [(b"host", b"testserver"), (b"origin", b"http://testserver")]
    headers += [(b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie.value}".encode())] if cookie else []
    socket = WebsocketCommunicator(application, path, headers=headers)
    await socket.send_input({"type": "websocket.connect"})
    if said is not None:
        await socket.send_json_to(said)
    heard = [await socket.receive_output(timeout=30)]
    while heard[-1]["type"] != "websocket.close":
        heard.append(await socket.receive_output(timeout=30))
    await socket.disconnect(timeout=30)
    return [one for one in heard if "alive" not in one.get("text", "")]


def heard(path: str, caller: Caller, said: Any = None) -> list[Any]:
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        return async_to_sync(_heard)(path, caller, said)  # type: ignore[no-any-return]


def test_each_address_is_asked() -> None:
    assert {str(route.pattern) for route in SOCKETS} == set(KNOWN)


@pytest.mark.parametrize("line", ["sessions", "admin/contexts"])
@pytest.mark.parametrize("which", SESSIONS)
def test_a_session_of_theirs_is_closed_like_what_never_was(
    line: str, which: str, two: World, everybody: list[Caller]
) -> None:
    for caller in everybody:
        if caller.name == "operator" and line.startswith("admin"):
            continue  # it is theirs
        answers = [heard(f"/ws/{line}/{one}", caller) for one in (two.theirs.ids[which], uuid.uuid4())]
        assert answers[0] == answers[1], caller.name


@pytest.mark.parametrize("which", SESSIONS)
def test_the_events_of_a_session_of_theirs_are_closed_like_what_never_was(
    which: str, two: World, everybody: list[Caller]
) -> None:
    for caller in everybody:
        wanted = [{"session_ids": [str(one)]} for one in (two.theirs.ids[which], uuid.uuid4())]
        answers = [heard("/ws/events", caller, one) for one in wanted]
        assert answers[0] == answers[1], caller.name
