"""The official SDK of A2A 0.3 for Python."""

import base64
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import FilePart, FileWithBytes, Message, Part, Role, Task, TaskIdParams, TextPart
from trying import HEADERS, Answer, going_on, main


async def client(url: str, *, streaming: bool) -> Client:
    http = httpx.AsyncClient(headers=HEADERS, timeout=20)
    return await ClientFactory.connect(url, ClientConfig(httpx_client=http, streaming=streaming))


def events(agent: Client, part: TextPart | FilePart, **fields: Any) -> AsyncIterator[Any]:
    message = Message(message_id=str(uuid.uuid4()), role=Role.user, parts=[Part(root=part)], **fields)
    return agent.send_message(message)


async def sent(url: str, part: TextPart | FilePart, **fields: Any) -> Task:
    return [task async for task, _ in events(await client(url, streaming=False), part, **fields)][-1]


async def said(url: str, *texts: str) -> list[Answer]:
    answers: list[Answer] = []
    for text in texts:
        task = await sent(url, TextPart(text=text), **going_on(answers))
        answer = "".join(part.root.text for artifact in task.artifacts or () for part in artifact.parts)
        answers.append(Answer(answer, task.status.state.value, task.id, task.context_id))
    return answers


async def stream(url: str, text: str) -> list[str]:
    updates = events(await client(url, streaming=True), TextPart(text=text))
    return [it.artifact.parts[0].root.text async for _, it in updates if it and it.kind == "artifact-update"]


async def cancel(url: str, text: str) -> str:
    agent = await client(url, streaming=True)
    task, _ = await anext(events(agent, TextPart(text=text)))
    return (await agent.cancel_task(TaskIdParams(id=task.id))).status.state.value


async def file(url: str, name: str, media_type: str, content: bytes) -> bytes:
    packed = FileWithBytes(bytes=base64.b64encode(content).decode(), name=name, mime_type=media_type)
    task = await sent(url, FilePart(file=packed))
    return base64.b64decode(task.artifacts[0].parts[0].root.file.bytes)


main(said, stream=stream, cancel=cancel, file=file)
