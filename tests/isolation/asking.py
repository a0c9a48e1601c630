"""Callers of every kind, and what of an answer counts when two are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.test import Client

from apps.accounts.models import ApiKey, User
from apps.accounts.permissions import Role
from apps.accounts.principals import READ
from tests.isolation.world import World

API = re.compile(r"/(api/v1|a2a|v1|mcp|agui|files|gateway|federation)(/|$)")
DIFFERENT = re.compile(
    r'nonce="[^"]+"|name="csrfmiddlewaretoken" value="\w+"|X-CSRFToken[^,}]+|csrf-token" content="\w+"'
    r"|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:[\d.]+(Z|\+00:00)?"
    r"|parley_\w+|nonce-[\w+/=-]+|[\w+/=-]{12,}\.[\w-]{43}"
)
"""What differs between two answers to the same request."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: str

    def without(self, named: Iterable[Any]) -> tuple[int, str, str]:
        """Without the ids that the request named, and without what is new in each answer."""
        values = {str(value) for value in named} | {str(value).rpartition("/")[2] for value in named}
        texts = [str(self.headers), self.body]
        for one in sorted((value for value in values if len(value) > 5), key=len, reverse=True):
            texts = [text.replace(one, "…") for text in texts]
        for one in values:
            texts = [re.sub(rf"(/|%2F){re.escape(one)}(?=/|%2F|\W)", r"\1…", text) for text in texts]
        headers, body = (DIFFERENT.sub("…", text) for text in texts)
        return self.status, headers, body


@dataclass
class Caller:
    """Someone with a browser, and with a key for programs."""

    name: str
    browser: Client
    key: str = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """A dict becomes a form on pages, and JSON elsewhere."""
        is_api = API.match(path) is not None
        client = Client() if is_api else self.browser
        if method == "GET":
            headers.setdefault("Sec-Fetch-Dest", "iframe")  # the pages of tool servers are for frames alone
        if is_api and self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        more: dict[str, Any] = {"headers": headers}
        if method == "POST" and not is_api:
            more["data"] = body or {}
        elif method != "GET" and (method != "DELETE" or body is not None):
            is_raw = isinstance(body, bytes)
            more |= {"data": body if is_raw else json.dumps({} if body is None else body)}
            more["content_type"] = headers.pop("Content-Type", "application/json")
        answer = getattr(client, method.lower())(path, **more)
        text = "" if answer.streaming else answer.content.decode(errors="replace")
        if answer.streaming:  # Django's client has closed others, and once more would close the database's connection
            answer.close()
        shown = {name: value for name, value in answer.items() if name not in ("Content-Length", "Date", "Expires")}
        return Answer(answer.status_code, shown, text)


def callers(world: World) -> list[Caller]:
    """Each role of our workspace, keys that may do little and nothing, an operator of the installation, and nobody."""
    found = []
    for role, person in world.ours.people.items():
        found.append(Caller(str(role), _browser(person), _key(world, person)))
    member = world.ours.people[Role.MEMBER]
    found.append(Caller("limited key", _browser(member), _key(world, member, scopes=[READ], agents=["echo"])))
    operator = User.objects.create_superuser("operator@ouruniverse.example", "correct horse", name="Operator")
    found.append(Caller("operator", _browser(operator), ApiKey.issue(operator, "ours")[1]))
    return [*found, Caller("wrong key", Client(), f"parley_{'0' * 12}_{'x' * 40}"), Caller("nobody", Client())]


def owner_of_theirs(world: World) -> Caller:
    owner = world.theirs.owner
    key = ApiKey.issue(owner, "control", workspace_id=world.theirs.workspace.pk)[1]
    return Caller("their owner", _browser(owner), key)


def _browser(person: User) -> Client:
    browser = Client()
    browser.force_login(person)
    return browser


def _key(world: World, person: User, **limits: Any) -> str:
    return ApiKey.issue(person, "ours", workspace_id=world.ours.workspace.pk, **limits)[1]
