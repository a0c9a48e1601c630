import uuid
from typing import Any

import httpx
from fasta2a.client import A2AClient
from fasta2a.schema import Message, Part
from trying import HEADERS, Answer, going_on, main


def client(url: str) -> A2AClient:
    return A2AClient(url, http_client=httpx.AsyncClient(headers=HEADERS, timeout=20))


def message(text: str, **fields: Any) -> Message:
    return Message(role="user", parts=[Part(text=text)], message_id=str(uuid.uuid4()), **fields)


def result(answer: Any) -> Any:
    if "error" in answer:
        raise ValueError(answer["error"]["message"])
    return answer["result"]


async def said(url: str, *texts: str) -> list[Answer]:
    answers: list[Answer] = []
    for text in texts:
        task = result(await client(url).send_message(message(text, **going_on(answers))))["task"]
        answer = "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])
        answers.append(Answer(answer, task["status"]["state"], task["id"], task["context_id"]))
    return answers


async def stream(url: str, text: str) -> list[str]:
    events = [result(event) async for event in client(url).stream_message(message(text))]
    chunks = [event["artifact_update"]["artifact"] for event in events if "artifact_update" in event]
    return [part["text"] for chunk in chunks for part in chunk["parts"]]


main(said, stream=stream)
