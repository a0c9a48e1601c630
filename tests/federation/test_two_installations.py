"""Two installations pair with one code, use each other's agents, and part."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from tests import stack
from tests.stack import Stack

pytestmark = pytest.mark.services("two installations, each in processes of its own", only=True)


@pytest.fixture(scope="module")
def pair():
    """The one that shares an agent, and the one whose people use it."""
    with (
        stack.prepared({}, OUTBOUND_ALLOW="127.0.0.1") as sharing,
        stack.prepared({}, OUTBOUND_ALLOW="127.0.0.1") as using,
    ):
        for one in (sharing, using):
            one.prepare()
            one.begin("serve")
        for one in (sharing, using):
            one.start()
        yield sharing, using


def said(at: Stack, *commands: str) -> list[str]:
    """What each command of `manage.py` says, or why it fails. One process for all: starting one takes seconds."""
    answers: list[str] = json.loads(at.python("-c", COMMANDS, *commands).stdout.splitlines()[-1])
    return answers


COMMANDS = """
import io, json, shlex, sys
import django
django.setup()
from django.core.management import CommandError, call_command
said = []
for command in sys.argv[1:]:
    out = io.StringIO()
    try:
        call_command(*shlex.split(command), stdout=out)
    except CommandError as error:
        out.write(str(error))
    said.append(out.getvalue().strip())
print(json.dumps(said))
"""


def client(at: Stack, key: str) -> httpx.Client:
    return httpx.Client(base_url=at.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=60)


def asked(caller: httpx.Client, slug: str, text: str) -> dict[str, Any]:
    message = {"messageId": f"m-{time.monotonic_ns()}", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return caller.post(f"/a2a/{slug}", json=body, headers={"A2A-Version": "1.0"}).json()["result"]


def test_they_pair_call_and_part(pair):
    sharing, using = pair
    handler = "tests.remote.peers.hosted:Acting"
    register = f"register_agent echo --sign-artifacts --handler={handler}"
    *_, code = said(sharing, register, "peer share echo", "peer invite")
    begin = ("create_user other@parley.local", "create_api_key other@parley.local")
    _, others_key, peer, again = said(using, *begin, f"peer pair {code}", f"peer pair {code}")
    assert "expired" in again  # it works once

    with client(using, using.demo_key) as demo, client(using, others_key) as other:

        def slugs() -> list[str]:
            found = demo.get("/api/v1/agents").json()["items"]
            return [one["slug"] for one in found if one["slug"].endswith("-echo")]

        [slug] = slugs()
        for caller in (demo, other):
            task = asked(caller, slug, "file")["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED", task

        shown = sharing.python("-c", PEOPLE).stdout.split()
        assert len(shown) == len(set(shown)) == 2  # each is somebody of their own, without a name
        [there] = [line.split("\t")[0] for line in said(sharing, "peer list")[0].splitlines()]
        said(sharing, f"peer revoke {there}")
        deadline = time.monotonic() + 5
        while slugs():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert f"{peer}\tended" in said(using, "peer list")[0]


PEOPLE = """
import django
django.setup()
from apps.record.models import Context
for context in Context.objects.filter(agent__slug="echo").select_related("owner"):
    print(context.owner.email)
"""
