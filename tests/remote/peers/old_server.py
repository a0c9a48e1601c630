"""A server of A2A 0.3 on SDK 0.3.26. Usage: old_server.py PORT."""

import base64
import sys

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Part,
    TaskState,
    TextPart,
)
from a2a.utils import new_task
from acting import DESCRIPTION, MODES, NAME, SKILL, End, Given, Piece, Progress, Said, Step, act


class Acting(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task(context.message)
        is_answer = context.current_task is not None
        if not is_answer:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        async for step in act(said(context, is_answer)):
            await take(updater, step)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def said(context: RequestContext, is_answer: bool) -> Said:
    parts = [part.root for part in context.message.parts]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return Said(texts[-1] if texts else "", [given(p.file) for p in parts if isinstance(p, FilePart)], is_answer)


def given(file: FileWithBytes | FileWithUri) -> Given:
    if isinstance(file, FileWithUri):
        return Given(file.name or "", url=file.uri)
    return Given(file.name or "", base64.b64decode(file.bytes))


async def take(updater: TaskUpdater, step: Step) -> None:
    match step:
        case Progress(text):
            await updater.start_work(updater.new_agent_message(parts(text)))
        case Piece():
            await updater.add_artifact(
                parts(step.text) if step.content is None else file(step.artifact_id, step.content),
                step.artifact_id,
                step.artifact_id,
                append=step.append,
                last_chunk=step.last,
            )
        case End(state, text):
            await updater.update_status(TaskState(state), updater.new_agent_message(parts(text)), final=True)


def parts(text: str) -> list[Part]:
    return [Part(root=TextPart(text=text))]


def file(name: str, content: bytes) -> list[Part]:
    packed = base64.b64encode(content).decode()
    return [Part(root=FilePart(file=FileWithBytes(bytes=packed, name=name, mime_type="application/octet-stream")))]


def main(port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    card = AgentCard(
        name=NAME,
        description=DESCRIPTION,
        version="1.0.0",
        url=f"{url}/",
        preferred_transport="JSONRPC",
        additional_interfaces=[AgentInterface(url=f"{url}/rest", transport="HTTP+JSON")],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=MODES,
        default_output_modes=MODES,
        skills=[AgentSkill(**SKILL)],
    )
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Acting(),
        InMemoryTaskStore(),
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), configs),
    )
    app = A2AStarletteApplication(card, handler).build()
    app.mount("/rest", A2ARESTFastAPIApplication(card, handler).build())
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))
