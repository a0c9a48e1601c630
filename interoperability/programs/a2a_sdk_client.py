"""The official SDK of A2A 1.0 for Python."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import CancelTaskRequest, Message, Part, Role, SendMessageRequest, StreamResponse, Task, TaskState
from trying import HEADERS, Answer, going_on, main


async def client(url: str, *, streaming: bool) -> Client:
    http = httpx.AsyncClient(headers=HEADERS, timeout=20)
    return await ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create_from_url(url)


def events(agent: Client, part: Part, **fields: Any) -> AsyncIterator[StreamResponse]:
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[part], **fields)
    return agent.send_message(SendMessageRequest(message=message))


async def sent(url: str, part: Part, **fields: Any) -> Task:
    return [event async for event in events(await client(url, streaming=False), part, **fields)][-1].task


async def said(url: str, *texts: str) -> list[Answer]:
    answers: list[Answer] = []
    for text in texts:
        task = await sent(url, Part(text=text), **going_on(answers))
        answer = "".join(part.text for artifact in task.artifacts for part in artifact.parts)
        answers.append(Answer(answer, TaskState.Name(task.status.state), task.id, task.context_id))
    return answers


async def stream(url: str, text: str) -> list[str]:
    updates = events(await client(url, streaming=True), Part(text=text))
    return [part.text async for event in updates for part in event.artifact_update.artifact.parts]


async def cancel(url: str, text: str) -> str:
    agent = await client(url, streaming=True)
    first = await anext(events(agent, Part(text=text)))
    return TaskState.Name((await agent.cancel_task(CancelTaskRequest(id=first.task.id))).status.state)


async def file(url: str, name: str, media_type: str, content: bytes) -> bytes:
    return (await sent(url, Part(raw=content, filename=name, media_type=media_type))).artifacts[0].parts[0].raw


main(said, stream=stream, cancel=cancel, file=file)
