"""The A2A SDK's server on uvicorn, in its own process; it speaks 1.0 and 0.3.

    python -m tests.remote.peers.sdk_server --binding JSONRPC --binding HTTP+JSON

It prints its base URL. The card prefers bindings in the order of `--binding`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
from typing import Any

import httpx
import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2 as a2a
from google.protobuf import json_format
from starlette.applications import Starlette

from tests.remote.peers import FILE, described

MODES = ["text/plain", "application/json", "application/octet-stream"]
SKILL = {"id": "act", "name": "Act", "description": "Does what a test tells it to do.", "tags": ["test"]}


class Acting(AgentExecutor):
    """Describes the files of a message, or does what its first word says, or repeats it:

    message X        answers with the message X, without a task
    count N [PAUSE]  streams the artifact "count" as N chunks: "1 ", "2 ", …; "chunks" is the same
    wait             works until it is canceled, and says so every 0.1 s
    data             delivers {"n": 1, "list": [1.5, null, "x"]} as the artifact "data"
    look             delivers its request, parts and metadata, as the JSON artifact "seen"
    file             delivers FILE
    ask, fail        what they say; the answer to the question is delivered
    """

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task = context.message, context.current_task
        assert message is not None
        text = next((part.text for part in message.parts if part.text), "")
        word, _, rest = text.partition(" ")
        if word == "message":
            answer = new_text_message(rest, context_id=context.context_id, role=a2a.ROLE_AGENT)
            await event_queue.enqueue_event(answer)
            return
        is_answer = task is not None
        if task is None:
            task = new_task_from_user_message(message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if is_answer:
            await deliver(updater, answer=a2a.Part(text=f"It was {text}."))
        elif word != "look" and (files := [part for part in message.parts if part.raw]):
            told = [a2a.Part(text=described(file.filename, file.raw)) for file in files]
            await deliver(updater, **{f"received-{number}": part for number, part in enumerate(told)})
        else:
            await self.act(updater, word, rest, message)

    async def act(self, updater: TaskUpdater, word: str, rest: str, message: a2a.Message) -> None:
        match word:
            case "count" | "chunks":
                await count(updater, *rest.split())
            case "wait":
                while True:
                    await updater.start_work(says(updater, "Still working."))
                    await asyncio.sleep(0.1)
            case "data":
                await deliver(updater, data=data({"n": 1, "list": [1.5, None, "x"]}))
            case "look":
                await deliver(updater, seen=data(json_format.MessageToDict(message)))
            case "file":
                file = a2a.Part(raw=FILE, filename="all.bin", media_type="application/octet-stream")
                await deliver(updater, **{"all.bin": file})
            case "ask":
                await updater.requires_input(says(updater, "Which word?"))
            case "fail":
                await updater.failed(says(updater, "This went wrong, as was asked."))
            case _:
                await deliver(updater, answer=a2a.Part(text=f"{word} {rest}".strip()))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def count(updater: TaskUpdater, last: str, pause: str = "0.01") -> None:
    for n in range(1, int(last) + 1):
        is_last = n == int(last)
        await updater.add_artifact([a2a.Part(text=f"{n} ")], "count", "count", append=n > 1, last_chunk=is_last)
        await asyncio.sleep(float(pause))
    await updater.complete()


async def deliver(updater: TaskUpdater, **artifacts: a2a.Part) -> None:
    for name, part in artifacts.items():
        await updater.add_artifact([part], name, name)
    await updater.complete()


def data(value: Any) -> a2a.Part:
    return json_format.ParseDict({"data": value}, a2a.Part())


def says(updater: TaskUpdater, text: str) -> a2a.Message:
    return updater.new_agent_message([a2a.Part(text=text)])


def application(url: str, bindings: list[str], *, streams: bool) -> Starlette:
    card = {
        "name": "Acting",
        "description": SKILL["description"],
        "version": "1.0.0",
        "supportedInterfaces": [{"url": url, "protocolBinding": one, "protocolVersion": "1.0"} for one in bindings],
        "capabilities": {"streaming": streams, "pushNotifications": True},
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [SKILL],
    }
    shown = json_format.ParseDict(card, a2a.AgentCard())
    hooks = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Acting(),
        InMemoryTaskStore(),
        shown,
        push_config_store=hooks,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), hooks),
    )
    return Starlette(
        routes=[
            *create_agent_card_routes(shown),
            *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
            *create_rest_routes(handler, enable_v0_3_compat=True),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--binding", action="append", default=[])
    parser.add_argument("--no-streaming", action="store_true")
    given = parser.parse_args()
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # no tracebacks for webhooks that fail
    # Name the protocol: asyncio sets TCP_NODELAY only where it knows that this is TCP.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    app = application(url, given.binding or ["JSONRPC"], streams=not given.no_streaming)
    print(url, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listening])


if __name__ == "__main__":
    main()
