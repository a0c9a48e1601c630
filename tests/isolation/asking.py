"""Callers of every kind, and what of an answer counts when two are compared."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote, urlencode

from django.test import Client

from apps.accounts.models import ApiKey, User
from apps.accounts.permissions import Role
from apps.accounts.principals import READ
from parley.asgi import application
from parley.serving.handlers import ASYNC_PATH
from tests.isolation.addresses import Address
from tests.isolation.world import World

API = re.compile(r"/(api/v1|a2a|v1|mcp|agui|langgraph|files|gateway|federation)(/|$)")
DIFFERENT = re.compile(
    r'nonce="[^"]+"|name="csrfmiddlewaretoken" value="\w+"|X-CSRFToken[^,}]+|csrf-token" content="\w+"'
    r"|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:[\d.]+(Z|\+00:00)?"
    r"|parley_\w+|nonce-[\w+/=-]+|[\w+/=-]{12,}\.[\w-]{43}"
)
"""What differs between two answers to the same request."""
PROBE = "PROPFIND"
"""A method that no address has."""
TOKEN = "c" * 32


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: str

    def header(self, name: str) -> str:
        return next((value for one, value in self.headers.items() if one.lower() == name.lower()), "")

    def without(self, named: Iterable[Any]) -> tuple[int, str, str]:
        """Without the ids that the request named, and without what is new in each answer."""
        values = {str(value) for value in named} | {str(value).rpartition("/")[2] for value in named}
        texts = [str(self.headers), self.body]
        for one in sorted((value for value in values if len(value) > 5), key=len, reverse=True):
            texts = [text.replace(one, "…") for text in texts]
        for one in (value for value in values if len(value) <= 5):
            texts = [re.sub(rf"(/|%2F){re.escape(one)}(?=/|%2F|\W)", r"\1…", text) for text in texts]
        headers, body = (DIFFERENT.sub("…", text) for text in texts)
        return self.status, headers, body


class Browser(Client):
    """Without copies of what templates were rendered with, which take longer than rendering."""

    def request(self, **request: Any) -> Any:
        answer = self.handler(self._base_environ(**request))
        self.cookies.update(answer.cookies)
        return answer


@dataclass
class Caller:
    """Someone with a browser, and with a key for programs."""

    name: str
    browser: Client
    key: str = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """A dict becomes a form on pages, and JSON elsewhere. Without a key, a browser asks programs' addresses."""
        if method == "GET":
            headers.setdefault("Sec-Fetch-Dest", "iframe")  # the pages of tool servers are for frames alone
        if path.startswith("/a2a"):  # or nothing is looked up
            headers.setdefault("A2A-Version", "0.3" if "/v1/" in path else "1.0")
        is_api = API.match(path) is not None
        if is_api and self.key:
            answer = ask_server(method, path, body, {"Authorization": f"Bearer {self.key}", **headers})
        elif is_api or ASYNC_PATH.match(path):
            answer = ask_server(method, path, body, {**self._cookies(), **headers}, is_form=not is_api)
        else:
            if method == "POST":
                page = self.browser.post(path, body or {}, headers=headers)
            else:
                page = self.browser.generic(method, path, headers=headers)
            answer = _answer_of(page)
        assert answer.status != 500, f"{self.name}: {method} {path}"
        return answer

    def _cookies(self) -> dict[str, str]:
        """With a token against forged requests, which Django's client needs not."""
        cookies = {name: one.value for name, one in self.browser.cookies.items()} | {"csrftoken": TOKEN}
        return {"Cookie": "; ".join(f"{name}={one}" for name, one in cookies.items()), "X-CSRFToken": TOKEN}


def _answer_of(page: Any) -> Answer:
    text = "" if page.streaming else page.content.decode(errors="replace")
    if page.streaming:  # Django's client has closed others, and once more would close the database's connection
        page.close()
    return Answer(page.status_code, told(page.items()), text)


NEW_EACH_TIME = ("content-length", "date", "expires", "x-request-id")


def told(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in NEW_EACH_TIME}


def ask_server(method: str, path: str, body: Any, headers: dict[str, str], *, is_form: bool = False) -> Answer:
    """By the ASGI application, as a server asks it; of a stream nothing is read."""
    kind, content = "application/json", b""
    if is_form:
        kind, content = "application/x-www-form-urlencoded", urlencode(body or {}).encode()
    elif isinstance(body, bytes):
        content = body
    elif method not in ("GET", "DELETE", PROBE) or body is not None:
        content = json.dumps({} if body is None else body).encode()
    given = {"Host": "testserver", "Content-Type": kind, **headers, "Content-Length": str(len(content))}
    return run(_served(scope_of(method, path, given), content))


def run[T](awaited: Coroutine[Any, Any, T]) -> T:
    """In one event loop for all, because each new one takes longer than a request."""
    return _loop().run_until_complete(awaited)


def end_requests() -> None:
    """Those that were left, such as streams, while there is a database."""
    if left := asyncio.all_tasks(_loop()):
        for one in left:
            one.cancel()
        run(asyncio.wait(left))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def scope_of(method: str, address: str, headers: dict[str, str]) -> dict[str, Any]:
    path, _, query = address.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }


async def _served(scope: dict[str, Any], content: bytes) -> Answer:
    answer, text, leaves = Answer(0, {}, ""), b"", asyncio.Event()
    sent = iter([{"type": "http.request", "body": content}])

    async def receive() -> dict[str, Any]:
        if (message := next(sent, None)) is None:
            await leaves.wait()
        return message or {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal text
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = told((name.decode(), value.decode()) for name, value in message["headers"])
            if "event-stream" in str(answer.headers):
                leaves.set()
        elif not leaves.is_set():
            text += message.get("body", b"")

    with suppress(asyncio.CancelledError):
        await application(scope, receive, send)
    answer.body = text.decode(errors="replace")
    return answer


def callers(world: World) -> list[Caller]:
    """Each role of our workspace, keys that may do little and nothing, an operator of the installation, and nobody."""
    found = []
    for role, person in reversed(world.ours.people.items()):  # who may do most is asked first
        found.append(Caller(str(role), _browser(person), _key(world, person)))
    member = world.ours.people[Role.MEMBER]
    found.append(Caller("limited key", _browser(member), _key(world, member, scopes=[READ], agents=["echo"])))
    operator = User.objects.create_superuser("operator@ouruniverse.example", "correct horse", name="Operator")
    found.append(Caller("operator", _browser(operator), ApiKey.issue(operator, "ours")[1]))
    return [*found, Caller("wrong key", Browser(), f"parley_{'0' * 12}_{'x' * 40}"), Caller("nobody", Browser())]


MAY_LESS = ("manager", "member", "viewer")
"""Members who may do no more than an owner; they ask by turns."""


def strangers(everybody: list[Caller], turn: int) -> list[Caller]:
    """Who asks: everybody, and one of the members who may do less than an owner."""
    others = [one for one in MAY_LESS if one != MAY_LESS[turn % len(MAY_LESS)]]
    return [one for one in everybody if one.name not in others]


@cache
def methods_of(address: Address) -> tuple[str, ...]:
    """Pages are read, or sent a form."""
    is_program = API.match(f"/{address.template}") and not address.template.startswith(("files", "gateway"))
    return ("GET", "POST", "PUT", "PATCH", "DELETE") if is_program else ("GET", "POST")


_allowed: dict[str, str] = {}


def methods_at(address: Address, caller: Caller, values: dict[str, Any]) -> list[str]:
    """Those that the address has: another is refused with their names, unless all are taken."""
    if address.template not in _allowed:
        _allowed[address.template] = caller.ask(PROBE, address.path(values)).header("Allow")
    allowed = _allowed[address.template]
    return [one for one in methods_of(address) if one in allowed or not allowed]


def owner_of_theirs(world: World) -> Caller:
    owner = world.theirs.owner
    key = ApiKey.issue(owner, "control", workspace_id=world.theirs.workspace.pk)[1]
    return Caller("their owner", _browser(owner), key)


def _browser(person: User) -> Client:
    browser = Browser()
    browser.force_login(person)
    return browser


def _key(world: World, person: User, **limits: Any) -> str:
    return ApiKey.issue(person, "ours", workspace_id=world.ours.workspace.pk, **limits)[1]
