"""A server of A2A 1.0 with the SDK. Usage: new_server.py PORT BINDINGS [quiet]; `quiet` is without streams."""

import asyncio
import sys

import httpx
import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2 as a2a
from acting import End, Given, Piece, Progress, Said, Step, act, card
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette

STATES = {
    "completed": a2a.TASK_STATE_COMPLETED,
    "failed": a2a.TASK_STATE_FAILED,
    "rejected": a2a.TASK_STATE_REJECTED,
    "input-required": a2a.TASK_STATE_INPUT_REQUIRED,
    "auth-required": a2a.TASK_STATE_AUTH_REQUIRED,
}


class Acting(AgentExecutor):
    def __init__(self) -> None:
        self.working: dict[str, asyncio.Task[None]] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task_from_user_message(context.message)
        is_answer = context.current_task is not None
        if not is_answer:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        async for step in act(said(context.message, is_answer)):
            await take(updater, step)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def said(message: a2a.Message, is_answer: bool) -> Said:
    texts = [part.text for part in message.parts if part.text]
    files = [part for part in message.parts if part.WhichOneof("content") in ("raw", "url")]
    return Said(texts[-1] if texts else "", [given(part) for part in files], is_answer)


def given(part: a2a.Part) -> Given:
    return Given(part.filename, url=part.url) if part.url else Given(part.filename, part.raw)


async def take(updater: TaskUpdater, step: Step) -> None:
    match step:
        case Progress(text):
            await updater.start_work(says(updater, text))
        case Piece():
            await updater.add_artifact(
                [part(step)], step.artifact_id, step.artifact_id, append=step.append, last_chunk=step.last
            )
        case End(state, text):
            await updater.update_status(STATES[state], says(updater, text))


def part(step: Piece) -> a2a.Part:
    if step.content is None:
        return a2a.Part(text=step.text)
    return a2a.Part(raw=step.content, filename=step.artifact_id, media_type="application/octet-stream")


def says(updater: TaskUpdater, text: str) -> a2a.Message:
    return updater.new_agent_message([a2a.Part(text=text)])


def main(port: int, bindings: str, *options: str) -> None:
    url = f"http://127.0.0.1:{port}"
    at = {"JSONRPC": f"{url}/rpc", "HTTP+JSON": f"{url}/rest"}
    shown = card(url, *((binding, at[binding]) for binding in bindings.split(",")), streaming="quiet" not in options)
    built = ParseDict(shown, a2a.AgentCard())
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Acting(),
        InMemoryTaskStore(),
        built,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), configs),
    )
    routes = [
        *create_agent_card_routes(built),
        *create_jsonrpc_routes(handler, "/rpc"),
        *create_rest_routes(handler, path_prefix="/rest"),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
