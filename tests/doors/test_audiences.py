"""An OAuth access token opens the doors that it is for, and no other (RFC 8707)."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client

from apps.accounts.principals import READ, WRITE
from apps.agents.models import Agent
from tests.isolation.addresses import Address, addresses, made_up
from tests.isolation.asking import API
from tests.web.test_oauth import by_itself, program

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["program"]

DOORS = ("/a2a", "/a2a/echo", "/agui/echo", "/v1", "/mcp", "/api/v1")
RPC = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
ASKED: dict[str, tuple[str, str, object]] = {
    "/a2a": ("POST", "/a2a", RPC),
    "/a2a/echo": ("GET", "/a2a/echo/tasks", None),
    "/agui/echo": ("POST", "/agui/echo", {}),
    "/v1": ("GET", "/v1/models", None),
    "/mcp": ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}),
    "/api/v1": ("GET", "/api/v1/agents", None),
}
"""A request for each door."""


def ask(method: str, path: str, body: object, token: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "A2A-Version": "1.0"}
    more = {"data": body or {}, "content_type": "application/json"} if method == "POST" else {}
    answer = getattr(Client(), method.lower())(path, headers=headers, **more)
    said = answer.headers.get("WWW-Authenticate", "")
    answer.close()
    return answer.status_code, said


@pytest.fixture(autouse=True)
def _unhurried(settings):
    settings.ANONYMOUS_REQUESTS_PER_MINUTE = settings.REQUESTS_PER_MINUTE = 1_000_000


@pytest.mark.parametrize("resource", DOORS)
def test_token_opens_the_door_it_is_for(resource, program, echo, settings):
    Agent.objects.update(mcp_tools="agent")
    token = by_itself(f"{READ} {WRITE}", resource=settings.PUBLIC_BASE_URL + resource)
    opened = set()
    for door in DOORS:
        status, said = ask(*ASKED[door], token)
        if status == 401:
            assert 'error="invalid_token"' in said, door
        else:
            opened.add(door)
    assert opened == {door for door in DOORS if door == resource or door.startswith(f"{resource}/")}


def test_token_without_resource_opens_all_doors(program, echo):
    token = by_itself(f"{READ} {WRITE}")
    assert 401 not in {ask(*ASKED[door], token)[0] for door in DOORS}


FOR_PROGRAMS = [one for one in addresses() if API.match(f"/{one.template}") and not one.template.startswith("files/")]


def path_of(address: Address) -> str:
    return address.path(dict.fromkeys(address.parameters, "echo") | {"session": made_up(uuid.UUID(int=0))})


def test_no_address_takes_a_token_for_another_door(program, echo, settings):
    """So that a new door cannot forget it: each answers as it does to a token that never was."""
    elsewhere = {
        door: by_itself(f"{READ} {WRITE}", resource=settings.PUBLIC_BASE_URL + door) for door in ("/mcp", "/agui/echo")
    }
    never = "x" * 86
    refused = 0
    for address in FOR_PROGRAMS:
        path = path_of(address)
        token = elsewhere["/agui/echo" if path.startswith("/mcp") else "/mcp"]
        for method in ("GET", "POST"):
            expected, found = ask(method, path, {}, never), ask(method, path, {}, token)
            assert found == expected, f"{method} {path}"
            refused += found[0] == 401
    assert refused > len(FOR_PROGRAMS) / 2
