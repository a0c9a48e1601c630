"""What opens one door is refused by each other, in the words for what never was (RFC 8707, RFC 9700 §2.3)."""

from __future__ import annotations

import datetime
import secrets
from itertools import product

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from django.conf import settings
from django.test import Client
from django.utils import timezone

from apps.accounts.clients import oauth
from apps.accounts.principals import READ, WRITE
from apps.accounts.requests.authentication import issue_access_token
from tests.isolation.addresses import Address, addresses, ids_of
from tests.isolation.asking import API, Caller, ask_server, methods_at
from tests.isolation.gaps import places
from tests.isolation.test_addresses import body_of
from tests.isolation.world import World, session_of

FOR_PROGRAMS = [one for one in addresses() if API.match(f"/{one.template}") and one.kinds_or_none() is not None]
COOKIE, TRY_TOKEN = "a browser's cookie", "a try token for a2a/echo"
RESOURCE, FOR_ALL = "a token for ", "a token without a resource"
TRY_AT = "a2a/echo"
OPEN_TO_COOKIES = ("api/v1", "files")
FILES = "files"
"""Every door's answers have links to it, and it has no audience of its own."""


def door_of(address: Address) -> str:
    """The door that the address belongs to, such as `api/v1` or `a2a/echo`."""
    path = address.template.replace("{slug}", "echo")
    first, _, rest = path.partition("/")
    return {"api": "api/v1", "a2a": "a2a/echo" if rest.startswith("echo") else "a2a", "agui": path}.get(first, first)


DOORS = list(dict.fromkeys(map(door_of, FOR_PROGRAMS)))
AUDIENCES = [one for one in DOORS if oauth.agent_of(f"{settings.PUBLIC_BASE_URL}/{one}") is not None]
"""The doors that a token can be asked for."""
CREDENTIALS = [COOKIE, TRY_TOKEN, FOR_ALL, *(f"{RESOURCE}{one}" for one in AUDIENCES)]


def opens(credential: str, door: str) -> bool:
    if credential == COOKIE:
        return door in OPEN_TO_COOKIES
    if credential == TRY_TOKEN:
        return door == TRY_AT
    if credential == FOR_ALL:
        return door in (FILES, *AUDIENCES)
    audience = credential.removeprefix(RESOURCE)
    return door in (FILES, audience) or door.startswith(f"{audience}/")


@pytest.fixture(scope="module")
def given(two):
    """Each credential, as it is sent."""
    owner = two.theirs.owner
    browser = session_of(owner)
    token, _ = issue_access_token(owner, str(browser.session_key), "echo")
    program = Program.objects.get(pk=two.theirs.ids["program"])
    found = {COOKIE: {"Cookie": f"{settings.SESSION_COOKIE_NAME}={browser.session_key}"}, TRY_TOKEN: _bearer(token)}
    found[FOR_ALL] = _bearer(_token_for(program, two))
    return found | {f"{RESOURCE}{door}": _bearer(_token_for(program, two, door)) for door in AUDIENCES}


NEVER = {
    COOKIE: {"Cookie": f"{settings.SESSION_COOKIE_NAME}={'0' * 32}"},
    TRY_TOKEN: {"Authorization": f"Bearer try_{'x' * 120}"},
}
"""Credentials of the same forms that never were; of the others it is a token."""


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _token_for(program: Program, two: World, *doors: str) -> str:
    secret = secrets.token_urlsafe(64)
    until = timezone.now() + datetime.timedelta(days=1)
    kind = Token.Type.ACCESS_TOKEN
    made = Token(client=program, user=two.theirs.owner, type=kind, hash=oauth.hash_of(secret), expires_at=until)
    made.set_scopes([READ, WRITE])
    made.set_resources([f"{settings.PUBLIC_BASE_URL}/{one}" for one in doors])
    made.save()
    return secret


def answer_to(credential: dict[str, str], address: Address, world: World) -> tuple[str, int, str]:
    """Request, status and challenge, by one of two methods."""
    ids = ids_of(world.theirs) | {"agent": "echo", "agent of the task": "echo"}
    values = {name: ids[kind] for name, kind in address.kinds().items()}
    method = "POST" if "POST" in methods_at(address, Caller("anybody", Client()), values)[:1] else "GET"
    path = address.path(values)
    answer = ask_server(method, path, body_of(address, method), credential)
    return f"{method} {path}", answer.status, answer.header("WWW-Authenticate")


def addresses_of(door: str) -> list[Address]:
    return [one for one in FOR_PROGRAMS if door_of(one) == door]


@pytest.mark.parametrize("door", places("audience", DOORS))
def test_no_other_door_takes_it(door, given, two):
    """At each address of a door, a cookie, a try token and, by turns, one of the tokens for others."""
    others = [one for one in CREDENTIALS if not opens(one, door)]
    tokens = [one for one in others if one not in NEVER]
    never = _bearer(secrets.token_urlsafe(64))
    for turn, address in enumerate(addresses_of(door)):
        asking = [one for one in others if one in NEVER] + ([tokens[turn % len(tokens)]] if tokens else [])
        for credential in asking:
            refused = answer_to(NEVER.get(credential, never), address, two)
            assert answer_to(given[credential], address, two) == refused, credential


def test_its_own_door_takes_it(given, two):
    never = _bearer(secrets.token_urlsafe(64))
    for credential, door in product(CREDENTIALS, DOORS):
        if opens(credential, door):
            made_up = NEVER.get(credential, never)
            pairs = ((answer_to(one, at, two) for one in (given[credential], made_up)) for at in addresses_of(door))
            assert any(one != other for one, other in pairs), (credential, door)
