"""Two installations pair with one code, use each other's agents, and part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests import stack
from tests.stack import Stack

pytestmark = pytest.mark.services("two installations, each in processes of its own", only=True)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Stack, Stack]]:
    """The one that shares an agent, and the one whose people use it."""
    with (
        stack.running({}, OUTBOUND_ALLOW="127.0.0.1") as sharing,
        stack.running({}, OUTBOUND_ALLOW="127.0.0.1") as using,
    ):
        yield sharing, using


def client(at: Stack, *person: str) -> httpx.Client:
    if person:
        at.manage("create_user", *person)
    key = at.manage("create_api_key", person[0] if person else "demo@parley.local").stdout.strip()
    return httpx.Client(base_url=at.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=60)


def asked(caller: httpx.Client, slug: str, text: str) -> dict[str, Any]:
    message = {"messageId": f"m-{time.monotonic_ns()}", "role": "ROLE_USER", "parts": [{"text": text}]}
    answer = caller.post(
        f"/a2a/{slug}",
        json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}},
        headers={"A2A-Version": "1.0"},
    ).json()
    assert "result" in answer, answer
    return answer["result"]


def within(seconds: float, what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_they_pair_call_and_part(pair: tuple[Stack, Stack]) -> None:
    sharing, using = pair
    sharing.manage("register_agent", "echo", "--sign-artifacts", "--handler=tests.remote.peers.hosted:Acting")
    sharing.manage("peer", "share", "echo")
    code = sharing.manage("peer", "invite").stdout.strip()
    using.manage("peer", "pair", code)
    assert "expired" in using.manage("peer", "pair", code, check=False).stderr  # it works once

    with client(using) as demo, client(using, "other@parley.local") as other:
        found = demo.get("/api/v1/agents").json()["items"]
        [slug] = [one["slug"] for one in found if one["slug"].endswith("-echo")]
        for caller in (demo, other):
            task = asked(caller, slug, "file")["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED", task

        listed = sharing.python("-c", PEOPLE).stdout.split()
        assert len(listed) == len(set(listed)) == 2  # each is somebody of their own, without a name

        [peer] = [line.split("\t")[0] for line in sharing.manage("peer", "list").stdout.splitlines()]
        sharing.manage("peer", "revoke", peer)
        within(5, lambda: "ended" in using.manage("peer", "list").stdout)
        listed_now = [one["slug"] for one in demo.get("/api/v1/agents").json()["items"]]
        assert slug not in listed_now


PEOPLE = """
import django
django.setup()
from apps.record.models import Context
for context in Context.objects.filter(agent__slug="echo").select_related("owner"):
    print(context.owner.email)
"""
