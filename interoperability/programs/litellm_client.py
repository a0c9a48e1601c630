import uuid

from a2a.compat.v0_3.types import MessageSendParams, SendMessageRequest, SendStreamingMessageRequest
from litellm.a2a_protocol import A2AClient, asend_message_streaming, create_a2a_client
from trying import HEADERS, Answer, going_on, main

NAMES = {"context_id": "contextId", "task_id": "taskId"}


def params(text: str, **fields: str) -> MessageSendParams:
    message = {"role": "user", "parts": [{"kind": "text", "text": text}], "messageId": uuid.uuid4().hex}
    return MessageSendParams(message=message | {NAMES[name]: value for name, value in fields.items()})


async def said(url: str, *texts: str) -> list[Answer]:
    answers: list[Answer] = []
    for text in texts:
        request = SendMessageRequest(id=str(uuid.uuid4()), params=params(text, **going_on(answers)))
        answer = await A2AClient(url, extra_headers=HEADERS).send_message(request)
        task = answer.model_dump(mode="json", exclude_none=True)["result"]
        told = "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])
        answers.append(Answer(told, task["status"]["state"], task["id"], task["contextId"]))
    return answers


async def stream(url: str, text: str) -> list[str]:
    client = await create_a2a_client(url, extra_headers=HEADERS, streaming=True)
    request = SendStreamingMessageRequest(id=str(uuid.uuid4()), params=params(text))
    events = [event.root.result async for event in asend_message_streaming(client, request)]
    return [event.artifact.parts[0].root.text for event in events if event.kind == "artifact-update"]


main(said, stream=stream)
