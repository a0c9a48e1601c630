"""Talks to an agent with the SDK of A2A 0.3, on commands from standard input.

Usage: program.py URL KEY TRANSPORT. Each input line is a JSON object with `do`; output lines are `{"task",
"update"}` or `{"message"}` for each event, `{"error"}` on failure, and `{"done": true}` at the end.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
from a2a import types as a2a
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.client import Client
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from pydantic import BaseModel

OLD_CARD = ".well-known/agent.json"


class Program:
    def __init__(self, http: httpx.AsyncClient, card: a2a.AgentCard, transport: str) -> None:
        self.http = http
        self.card = card
        self.transport = transport

    def client(self, **options: Any) -> Client:
        config = ClientConfig(httpx_client=self.http, supported_transports=[self.transport], **options)
        return ClientFactory(config).create(self.card)

    async def send(self, message: dict[str, Any], streaming: bool, polling: bool) -> AsyncIterator[dict[str, Any]]:
        client = self.client(streaming=streaming, polling=polling)
        async for event in client.send_message(a2a.Message.model_validate(message)):
            yield said(event)

    async def resubscribe(self, id: str) -> AsyncIterator[dict[str, Any]]:
        async for event in self.client(streaming=True).resubscribe(a2a.TaskIdParams(id=id)):
            yield said(event)

    async def get(self, id: str, length: int | None = None) -> AsyncIterator[dict[str, Any]]:
        task = await self.client().get_task(a2a.TaskQueryParams(id=id, history_length=length))
        yield {"task": dumped(task)}

    async def cancel(self, id: str) -> AsyncIterator[dict[str, Any]]:
        yield {"task": dumped(await self.client().cancel_task(a2a.TaskIdParams(id=id)))}

    async def set_webhook(self, **webhook: Any) -> AsyncIterator[dict[str, Any]]:
        config = a2a.TaskPushNotificationConfig.model_validate(webhook)
        yield {"webhook": dumped(await self.client().set_task_callback(config))}

    async def get_webhook(self, **named: Any) -> AsyncIterator[dict[str, Any]]:
        params = a2a.GetTaskPushNotificationConfigParams.model_validate(named)
        yield {"webhook": dumped(await self.client().get_task_callback(params))}

    async def show_card(self) -> AsyncIterator[dict[str, Any]]:
        yield {"card": dumped(await self.client().get_card())}


def said(event: Any) -> dict[str, Any]:
    if isinstance(event, a2a.Message):
        return {"message": dumped(event)}
    task, update = event
    return {"task": dumped(task), "update": update and dumped(update)}


def dumped(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def failure(error: Exception) -> dict[str, Any]:
    match error:
        case A2AClientJSONRPCError():
            return {"code": error.error.code, "message": error.error.message}
        case A2AClientHTTPError():
            return {"code": error.status_code, "message": error.message}
        case _:
            return {"code": 0, "message": repr(error)}


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


async def obey(program: Program, order: dict[str, Any]) -> None:
    do = getattr(program, order.pop("do"))
    try:
        async for line in do(**order):
            say(line)
    except Exception as error:
        say({"error": failure(error)})
    say({"done": True})


async def main(url: str, key: str, transport: str) -> None:
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card(relative_card_path=OLD_CARD)
        program = Program(http, card, transport)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await obey(program, json.loads(line))


asyncio.run(main(*sys.argv[1:]))
