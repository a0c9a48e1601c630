import base64

from a2a.types import FilePart, FileWithBytes, Part
from a2akit import A2AClient
from trying import HEADERS, Answer, going_on, main


async def said(url: str, *texts: str) -> list[Answer]:
    answers: list[Answer] = []
    async with A2AClient(url, headers=HEADERS) as client:
        for text in texts:
            answer = await client.send(text, **going_on(answers))
            answers.append(Answer(answer.text or "", answer.state, answer.task_id, answer.context_id or ""))
    return answers


async def stream(url: str, text: str) -> list[str]:
    async with A2AClient(url, headers=HEADERS) as client:
        return [piece async for piece in client.stream_text(text)]


async def cancel(url: str, text: str) -> str:
    async with A2AClient(url, headers=HEADERS) as client:
        first = await anext(client.stream(text))
        return (await client.cancel(first.task_id)).state


async def file(url: str, name: str, media_type: str, content: bytes) -> bytes:
    packed = FileWithBytes(bytes=base64.b64encode(content).decode(), name=name, mime_type=media_type)
    async with A2AClient(url, headers=HEADERS) as client:
        answer = await client.send_parts([Part(root=FilePart(file=packed))])
        return base64.b64decode(answer.artifacts[0].parts[0].root.file.bytes)


main(said, stream=stream, cancel=cancel, file=file)
