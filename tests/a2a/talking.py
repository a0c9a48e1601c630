"""The SDK's client at a running Parley."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
from a2a.client import Client, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as a2a

Talking = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def client(
    url: str, slug: str, key: str, *, streaming: bool = True, binding: str = "JSONRPC"
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])
        yield await ClientFactory(config).create_from_url(f"{url}/a2a/{slug}")


def request(*parts: a2a.Part | str, **fields: Any) -> a2a.SendMessageRequest:
    built = [a2a.Part(text=part) if isinstance(part, str) else part for part in parts]
    message = {"message_id": str(uuid.uuid4()), "role": a2a.ROLE_USER, "parts": built} | fields
    return a2a.SendMessageRequest(message=a2a.Message(**message))


async def answer(talk: Client, sent: a2a.SendMessageRequest) -> a2a.StreamResponse:
    """The last result of a send."""
    return [response async for response in talk.send_message(sent)][-1]


async def updates(talk: Client, sent: a2a.SendMessageRequest) -> list[a2a.StreamResponse]:
    return [response async for response in talk.send_message(sent)]


def text_of(holder: Any) -> str:
    return "".join(part.text for part in holder.parts)


def kinds(responses: list[a2a.StreamResponse]) -> list[str]:
    """The kind of each StreamResponse: task, message, status_update or artifact_update."""
    return [str(response.WhichOneof("payload")) for response in responses]


def states(responses: list[a2a.StreamResponse]) -> list[int]:
    seen: list[int] = []
    for response in responses:
        state = response.task.status.state or response.status_update.status.state
        if state and state not in seen[-1:]:
            seen.append(state)
    return seen
