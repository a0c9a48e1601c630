"""The A2A SDK's server on uvicorn, in its own process.

    python -m tests.remote.peers.sdk_server --binding JSONRPC --binding HTTP+JSON

It prints its base URL. The card prefers bindings in the order of `--binding`; it speaks 1.0 and 0.3.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
from collections.abc import Sequence
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

from tests.remote.peers.acting import End, Given, Piece, Progress, Said, Step, act, card

STATES = {
    "completed": a2a.TASK_STATE_COMPLETED,
    "failed": a2a.TASK_STATE_FAILED,
    "rejected": a2a.TASK_STATE_REJECTED,
    "input-required": a2a.TASK_STATE_INPUT_REQUIRED,
    "auth-required": a2a.TASK_STATE_AUTH_REQUIRED,
}


class Acting(AgentExecutor):
    """Does what `acting` says, and more by the first word of a message:

    message X   answers with the message X, without a task
    count N     streams the artifact "count" as N chunks: "1 ", "2 ", …
    wait        works until it is canceled, and says so every 0.1 s
    data        delivers {"n": 1, "list": [1.5, null, "x"]} as the artifact "data"
    look        delivers its request, parts and metadata, as the JSON artifact "seen"
    """

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task = context.message, context.current_task
        assert message is not None
        said = said_in(message, is_answer=task is not None)
        word, _, rest = said.text.partition(" ")
        if word == "message":
            answer = new_text_message(rest, context_id=context.context_id, role=a2a.ROLE_AGENT)
            await event_queue.enqueue_event(answer)
            return
        if task is None:
            task = new_task_from_user_message(message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        match word:
            case "count":
                await count(updater, int(rest))
            case "wait":
                while True:
                    await updater.start_work(says(updater, "Still working."))
                    await asyncio.sleep(0.1)
            case "data":
                await deliver(updater, "data", {"n": 1, "list": [1.5, None, "x"]})
            case "look":
                await deliver(updater, "seen", json_format.MessageToDict(message))
            case _:
                await updater.start_work()
                async for step in act(said):
                    await take(updater, step)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def said_in(message: a2a.Message, *, is_answer: bool) -> Said:
    texts = [part.text for part in message.parts if part.text]
    files = [part for part in message.parts if part.WhichOneof("content") in ("raw", "url")]
    given = [Given(one.filename, url=one.url) if one.url else Given(one.filename, one.raw) for one in files]
    return Said(texts[0] if texts else "", given, is_answer)


async def take(updater: TaskUpdater, step: Step) -> None:
    match step:
        case Progress(text):
            await updater.start_work(says(updater, text))
        case Piece(name, content=bytes(content)):
            file = a2a.Part(raw=content, filename=name, media_type="application/octet-stream")
            await updater.add_artifact([file], name, name)
        case Piece(name, text):
            await updater.add_artifact([a2a.Part(text=text)], name, name, append=step.append, last_chunk=step.last)
        case End(state, text):
            await updater.update_status(STATES[state], says(updater, text))


async def count(updater: TaskUpdater, last: int) -> None:
    for n in range(1, last + 1):
        await updater.add_artifact([a2a.Part(text=f"{n} ")], "count", "count", append=n > 1, last_chunk=n == last)
        await asyncio.sleep(0.01)
    await updater.complete()


async def deliver(updater: TaskUpdater, name: str, value: Any) -> None:
    await updater.add_artifact([json_format.ParseDict({"data": value}, a2a.Part())], name, name)
    await updater.complete()


def says(updater: TaskUpdater, text: str) -> a2a.Message:
    return updater.new_agent_message([a2a.Part(text=text)])


def application(url: str, bindings: Sequence[str], *, streams: bool) -> Starlette:
    told = card(url, *((binding, url) for binding in bindings), streaming=streams)
    shown = json_format.ParseDict(told, a2a.AgentCard())
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
