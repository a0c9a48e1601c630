"""What opens one door is refused by each other, in the words for what never was (RFC 8707, RFC 9700 §2.3)."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from apps.accounts import oauth
from apps.accounts.authentication import issue_access_token
from apps.accounts.principals import READ, WRITE
from tests.isolation.addresses import Address, addresses, ids_of
from tests.isolation.asking import API, ask_server
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


Told = dict[tuple[str, str], list[tuple[str, int, str]]]
"""Answers by credential and door."""


@dataclass
class Given:
    """A credential as it is sent, and one of its form that never was."""

    real: dict[str, str]
    made_up: dict[str, str]

    def is_taken(self, door: str, world: World, told: Told) -> bool:
        """Does any address of the door tell it from what never was? `told`: what doors said to that before."""
        key = str(self.made_up), door
        if key not in told:
            told[key] = list(answers(self.made_up, door, world))
        return any(one != other for one, other in zip(answers(self.real, door, world), told[key], strict=True))


@pytest.fixture(scope="module")
def told() -> Told:
    return {}


@pytest.fixture(scope="module")
def given(two: World) -> dict[str, Given]:
    owner = two.theirs.owner
    browser = session_of(owner)
    name = settings.SESSION_COOKIE_NAME
    found = {COOKIE: Given({"Cookie": f"{name}={browser.session_key}"}, {"Cookie": f"{name}={'0' * 32}"})}
    token, _ = issue_access_token(owner, str(browser.session_key), "echo")
    found[TRY_TOKEN] = Given(_bearer(token), _bearer(f"try_{'x' * len(token)}"))
    program = Program.objects.get(pk=two.theirs.ids["program"])
    never = _bearer(secrets.token_urlsafe(64))
    found[FOR_ALL] = Given(_bearer(_token_for(program, two)), never)
    for door in AUDIENCES:
        found[f"{RESOURCE}{door}"] = Given(_bearer(_token_for(program, two, door)), never)
    return found


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


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """No address is refused for many wrong credentials."""
    with override_settings(ANONYMOUS_REQUESTS_PER_MINUTE=1_000_000):
        yield


def answers(given: dict[str, str], door: str, world: World) -> Iterator[tuple[str, int, str]]:
    """What each address of the door says: its request, status and challenge."""
    ids = ids_of(world.theirs) | {"agent": "echo", "agent of the task": "echo"}
    for address in [one for one in FOR_PROGRAMS if door_of(one) == door]:
        path = address.path({name: ids[kind] for name, kind in address.kinds().items()})
        for method in ("GET", "POST"):
            answer = ask_server(method, path, body_of(address, method), given)
            yield f"{method} {path}", answer.status, answer.header("WWW-Authenticate")


@dataclass(frozen=True)
class Pair:
    credential: str
    door: str

    def __str__(self) -> str:
        return f"{self.credential} at {self.door}"


PAIRS = [Pair(credential, door) for credential in CREDENTIALS for door in DOORS]


@pytest.mark.parametrize("pair", places("audience", [one for one in PAIRS if not opens(one.credential, one.door)]))
def test_no_other_door_takes_it(pair: Pair, given: dict[str, Given], told: Told, two: World) -> None:
    assert not given[pair.credential].is_taken(pair.door, two, told)


@pytest.mark.parametrize("pair", [one for one in PAIRS if opens(one.credential, one.door)], ids=str)
def test_its_own_door_takes_it(pair: Pair, given: dict[str, Given], told: Told, two: World) -> None:
    assert given[pair.credential].is_taken(pair.door, two, told)
