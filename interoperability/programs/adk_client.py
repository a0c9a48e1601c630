from typing import Any

import httpx
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.events.event import Event
from google.adk.runners import InMemoryRunner
from google.genai.types import Blob, Content, Part
from trying import HEADERS, Answer, main


async def turns(url: str, *sent: Part) -> list[list[Event]]:
    """The events of each turn of one session."""
    http = httpx.AsyncClient(headers=HEADERS, timeout=20)
    agent = RemoteA2aAgent("parley", f"{url}/.well-known/agent-card.json", httpx_client=http)
    runner = InMemoryRunner(agent, app_name="interoperability")
    session = await runner.session_service.create_session(app_name="interoperability", user_id="somebody")
    found = []
    for part in sent:
        content = Content(role="user", parts=[part])
        events = runner.run_async(user_id="somebody", session_id=session.id, new_message=content)
        found.append([event async for event in events])
    return found


def parts(events: list[Event]) -> list[Part]:
    return [part for event in events if event.content for part in event.content.parts or ()]


def named(events: list[Event], name: str) -> Any:
    return [event.custom_metadata[f"a2a:{name}"] for event in events if event.custom_metadata][-1]


async def said(url: str, *texts: str) -> list[Answer]:
    answers = []
    for events in await turns(url, *(Part(text=text) for text in texts)):
        told = "".join(part.text or "" for part in parts(events))
        state = named(events, "response")["status"]["state"]
        answers.append(Answer(told, state, named(events, "task_id"), named(events, "context_id")))
    return answers


async def stream(url: str, text: str) -> list[str]:
    [events] = await turns(url, Part(text=text))
    return [part.text for part in parts(events)]


async def file(url: str, name: str, media_type: str, content: bytes) -> bytes:
    [events] = await turns(url, Part(inline_data=Blob(data=content, mime_type=media_type, display_name=name)))
    return next(part.inline_data.data for part in parts(events) if part.inline_data)


main(said, stream=stream, file=file)
