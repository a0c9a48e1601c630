"""Over a WebSocket, too, what another workspace has is answered like what never was."""

from __future__ import annotations

import uuid
from itertools import product
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import override_settings
from rest_framework import serializers

from apps.conversations.api.consumers import Subscription
from parley.asgi import SOCKETS, application
from tests.isolation.addresses import Address, template_of
from tests.isolation.asking import Caller, run, strangers
from tests.isolation.fields import NAMELESS, NAMES, PLACES
from tests.isolation.world import World

SESSIONS = ("session", "shared session", "deleted session", "fork")
LINES = [template_of(str(route.pattern)) for route in SOCKETS]
NAMED = [Address(one, "") for one in LINES if "{" in one]
ASKED: dict[str, type[serializers.Serializer[Any]]] = {"ws/events": Subscription}
"""What is said over a WebSocket whose address names nothing, as its consumer reads it."""


async def _heard(path: str, caller: Caller, said: Any) -> list[Any]:
    """All that the server sends until it closes, with its code, or until it tells a position of the stream."""
    cookie = caller.browser.cookies.get(settings.SESSION_COOKIE_NAME)
    headers = [(b"host", b"testserver"), (b"origin", b"http://testserver")]
    headers += [(b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie.value}".encode())] if cookie else []
    socket = WebsocketCommunicator(application, path, headers=headers)
    await socket.send_input({"type": "websocket.connect"})
    if said is not None:
        await socket.send_json_to(said)
    heard = [await socket.receive_output(timeout=30)]
    while heard[-1]["type"] != "websocket.close" and '"token"' not in heard[-1].get("text", ""):
        heard.append(await socket.receive_output(timeout=30))
    await socket.disconnect(timeout=30)
    return [one for one in heard if "alive" not in one.get("text", "")]


def heard(path: str, caller: Caller, said: Any = None) -> list[Any]:
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        return run(_heard(path, caller, said))


def test_each_address_is_asked():
    unknown = {one for one in LINES if "{" not in one} - ASKED.keys()
    assert unknown == set(), "Say in ASKED what reads the messages of each."


def test_each_field_of_a_message_is_described():
    fields = {name for reader in ASKED.values() for name in reader().fields}
    assert fields - NAMES.keys() - NAMELESS - PLACES == set(), "Say in tests/isolation/fields.py what each names."


def is_answered_alike(caller: Caller, line: Address, which: str, two: World) -> bool:
    """What the address names becomes a session of theirs, and one that never was."""
    try:
        [name] = line.kinds()
    except KeyError as missing:
        pytest.fail(f"Say in tests/isolation/addresses.py what {missing} of {line.template} names.")
    answers = [heard(line.path({name: one}), caller) for one in (two.theirs.ids[which], uuid.uuid4())]
    return bool(answers[0] == answers[1])


def test_their_session_is_closed_like_what_never_was(two, everybody):
    for turn, (line, which) in enumerate(product(NAMED, SESSIONS)):
        for caller in strangers(everybody, turn):
            if caller.name != "operator" or "admin" not in line.template:  # it is theirs
                assert is_answered_alike(caller, line, which, two), (line, which, caller.name)


def test_operator_without_second_factor_is_closed_out(two, everybody):
    [operator] = [one for one in everybody if one.name == "operator"]
    with override_settings(MFA_FOR_OPERATORS=True):
        assert [line for line in NAMED if not is_answered_alike(operator, line, "session", two)] == []


def names_of(line: str) -> list[str]:
    return [name for name in ASKED[line]().fields if name in NAMES]


def answers_about(session: uuid.UUID, line: str, name: str, caller: Caller) -> list[list[Any]]:
    """What is heard of the session, and of what never was."""
    return [heard(f"/{line}", caller, {name: [str(one)]}) for one in (session, uuid.uuid4())]


def test_events_of_their_session_are_closed_out(two, everybody):
    for turn, (line, which) in enumerate(product(ASKED, SESSIONS)):
        for caller, name in product(strangers(everybody, turn), names_of(line)):
            one, other = answers_about(two.theirs.ids[which], line, name, caller)
            assert one == other, (line, which, caller.name)


def test_their_owner_follows_it(two, their_owner):
    for line in ASKED:
        [name] = names_of(line)
        one, other = answers_about(two.theirs.ids["session"], line, name, their_owner)
        assert one != other, line
