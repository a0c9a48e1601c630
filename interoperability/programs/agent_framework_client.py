import base64

import httpx
from a2a.client import A2ACardResolver
from a2a.types import TaskState
from agent_framework import AgentSession, Content, Message
from agent_framework_a2a import A2AAgent
from trying import HEADERS, Answer, main


async def agent(url: str) -> A2AAgent:
    http = httpx.AsyncClient(headers=HEADERS, timeout=20)
    return A2AAgent(agent_card=await A2ACardResolver(http, url).get_agent_card(), http_client=http)


async def said(url: str, *texts: str) -> list[Answer]:
    session, known = AgentSession(), await agent(url)
    answers = []
    for text in texts:
        told = (await known.run(text, session=session)).text
        now = dict(session.service_session_id)
        answers.append(Answer(told, TaskState.Name(now["task_state"]), now["task_id"], now["context_id"]))
    return answers


async def stream(url: str, text: str) -> list[str]:
    return [update.text async for update in (await agent(url)).run(text, stream=True) if update.text]


async def file(url: str, name: str, media_type: str, content: bytes) -> bytes:
    answer = await (await agent(url)).run(Message("user", [Content.from_data(content, media_type, name=name)]))
    [packed] = [content.uri for message in answer.messages for content in message.contents if content.type == "data"]
    return base64.b64decode(packed.partition(",")[2])


main(said, stream=stream, file=file)
