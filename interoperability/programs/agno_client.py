from agno.client.a2a import A2AClient
from trying import HEADERS, Answer, main


async def said(url: str, *texts: str) -> list[Answer]:
    client, context, answers = A2AClient(url, protocol="json-rpc"), None, []
    for text in texts:
        task = await client.send_message(text, context_id=context, headers=HEADERS)
        context = task.context_id
        answers.append(Answer(task.content, task.status, task.task_id, task.context_id))
    return answers


async def stream(url: str, text: str) -> list[str]:
    events = A2AClient(url, protocol="json-rpc").stream_message(text, headers=dict(HEADERS))
    return [event.content async for event in events if event.is_content and event.content]


main(said, stream=stream)
