"""The A2A SDK's own server, by its routes for Starlette, on uvicorn; run as a process of its own.

    python -m tests.gateway.peers.sdk_server --binding JSONRPC --binding HTTP+JSON --version 1.0

It prints its base URL. The order of `--binding` is the card's order of preference.
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
from a2a.helpers import get_message_text, new_task_from_user_message, new_text_message
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
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, Role
from google.protobuf import json_format
from starlette.applications import Starlette

FILE = b"a,b\n1,2\n"


class Cast(AgentExecutor):
    """The agent of all peers. The first word of a message says what it does:

    message X   answers with the message X, without a task
    count N     streams the artifact "count" as N chunks: "1 ", "2 ", …
    ask         asks "Which colour?"; whatever comes next is answered by the artifact "answer"
    fail        fails with "It broke."
    wait        works until it is canceled, and says so every 0.1 s
    file        delivers the file table.csv, which holds FILE, as the artifact "file"
    data        delivers the data {"n": 1, "list": [1.5, null, "x"]} as the artifact "data"
    look        tells, as the artifact "seen", what it was sent: parts and metadata as JSON
    anything    answers by the artifact "answer": "You said: anything"; with files, "Got NAME of N bytes" for each
    """

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        word, _, rest = get_message_text(context.message).partition(" ")
        if word == "message":
            await event_queue.enqueue_event(new_text_message(rest, context_id=context.context_id, role=Role.ROLE_AGENT))
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        act = getattr(self, f"_{word}", None)
        if act is None:
            await self._answer(updater, context)
        else:
            await act(updater, rest, context)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def _answer(self, updater: TaskUpdater, context: RequestContext) -> None:
        assert context.message is not None
        files = [part for part in context.message.parts if part.WhichOneof("content") == "raw"]
        said = [f"Got {part.filename} of {len(part.raw)} bytes" for part in files]
        text = "; ".join(said) or f"You said: {get_message_text(context.message)}"
        await updater.add_artifact([Part(text=text)], artifact_id="answer", name="answer")
        await updater.complete()

    async def _count(self, updater: TaskUpdater, rest: str, _: RequestContext) -> None:
        last = int(rest)
        for n in range(1, last + 1):
            await updater.add_artifact(
                [Part(text=f"{n} ")], artifact_id="count", name="count", append=n > 1, last_chunk=n == last
            )
            await asyncio.sleep(0.01)
        await updater.complete()

    async def _ask(self, updater: TaskUpdater, _: str, __: RequestContext) -> None:
        await updater.requires_input(updater.new_agent_message([Part(text="Which colour?")]))

    async def _fail(self, updater: TaskUpdater, _: str, __: RequestContext) -> None:
        await updater.failed(updater.new_agent_message([Part(text="It broke.")]))

    async def _wait(self, updater: TaskUpdater, _: str, __: RequestContext) -> None:
        while True:
            await updater.start_work(updater.new_agent_message([Part(text="Still working.")]))
            await asyncio.sleep(0.1)

    async def _file(self, updater: TaskUpdater, _: str, __: RequestContext) -> None:
        part = Part(raw=FILE, filename="table.csv", media_type="text/csv")
        await updater.add_artifact([part], artifact_id="file", name="file")
        await updater.complete()

    async def _data(self, updater: TaskUpdater, _: str, __: RequestContext) -> None:
        await self._deliver(updater, "data", {"n": 1, "list": [1.5, None, "x"]})

    async def _look(self, updater: TaskUpdater, _: str, context: RequestContext) -> None:
        await self._deliver(updater, "seen", json_format.MessageToDict(context.message))

    async def _deliver(self, updater: TaskUpdater, name: str, value: Any) -> None:
        part = Part()
        json_format.ParseDict({"data": value}, part)
        await updater.add_artifact([part], artifact_id=name, name=name)
        await updater.complete()


def card(url: str, bindings: Sequence[str], version: str, *, streams: bool) -> AgentCard:
    return AgentCard(
        name="Cast",
        description="Does what the first word says.",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version) for binding in bindings
        ],
        capabilities=AgentCapabilities(streaming=streams, push_notifications=True),
        default_input_modes=["text/plain", "application/json", "text/csv"],
        default_output_modes=["text/plain", "application/json", "text/csv"],
        skills=[AgentSkill(id="cast", name="Cast", description="Does what the first word says.", tags=["test"])],
    )


def application(url: str, bindings: Sequence[str], version: str, *, streams: bool) -> Starlette:
    """Speaks 1.0 and 0.3 at the same addresses; the card names one of them."""
    shown = card(url, bindings, version, streams=streams)
    hooks = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Cast(),
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
    parser.add_argument("--version", default="1.0")
    parser.add_argument("--no-streaming", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # a webhook that nobody answers is not worth a traceback
    # The protocol is named, since asyncio sends small pieces at once only where it knows that this is TCP.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", given.port))
    listening.listen(1024)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    app = application(url, given.binding or ["JSONRPC"], given.version, streams=not given.no_streaming)
    print(url, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listening])


if __name__ == "__main__":
    main()
