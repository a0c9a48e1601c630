"""How a program calls an agent: samples with its own address, and with placeholders where the caller's secrets go."""

from __future__ import annotations

import json
import shlex
from typing import Any

from django.conf import settings

from apps.agents import cards
from apps.agents.models import Agent

WORDS = "Hello"
KEY = "YOUR-KEY"

PYTHON = """\
import asyncio
import uuid

import httpx
from a2a.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as a2a

URL, KEY = {url}, "{key}"


async def main() -> None:
    async with httpx.AsyncClient(headers={{"Authorization": f"Bearer {{KEY}}"}}, timeout=60) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(URL)
        said = a2a.Message(message_id=str(uuid.uuid4()), role=a2a.ROLE_USER, parts=[a2a.Part(text={words})])
        async for event in client.send_message(a2a.SendMessageRequest(message=said)):
            print(event)


asyncio.run(main())
"""


def examples(agent: Agent) -> list[str]:
    """What its skills give as examples, in their order."""
    return [example for skill in agent.skills for example in skill.get("examples", [])]


def addresses(agent: Agent) -> list[tuple[str, str]]:
    """Where it is reached by A2A, each with what it is."""
    endpoint = cards.endpoint(agent)
    return [
        ("JSON-RPC", endpoint),
        ("HTTP+JSON", f"{endpoint}/message:send"),
        ("Agent card", f"{endpoint}/.well-known/agent-card.json"),
        ("All agents, by tenant", f"{settings.PUBLIC_BASE_URL}/a2a"),
    ]


def curl(agent: Agent) -> str:
    """A call by JSON-RPC, to be pasted into a shell."""
    message = {"messageId": "my-first", "role": "ROLE_USER", "parts": [{"text": _words(agent)}]}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = (f"Authorization: Bearer {KEY}", "A2A-Version: 1.0", "Content-Type: application/json")
    lines = [f"curl -s {shlex.quote(cards.endpoint(agent))}", *(f"  -H {shlex.quote(one)}" for one in headers)]
    return " \\\n".join([*lines, f"  -d {shlex.quote(json.dumps(body, ensure_ascii=False))}"])


def python(agent: Agent) -> str:
    """The same by the SDK's client (`pip install a2a-sdk`)."""
    return PYTHON.format(url=json.dumps(cards.endpoint(agent)), key=KEY, words=json.dumps(_words(agent)))


def _words(agent: Agent) -> str:
    return next(iter(examples(agent)), WORDS)
