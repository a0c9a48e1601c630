"""The official SDK's own server with the benchmarks' agents: `python -m benchmarks.sdk_server PORT [DATABASE_URL]`.

Without a database it keeps tasks in memory. `POST /fill` with a number in the body copies the newest task that often.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Awaitable, Callable

import uvicorn
from a2a.helpers.proto_helpers import new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import a2a_pb2 as a2a
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

COPY = """
INSERT INTO tasks (id, context_id, kind, owner, last_updated, status, artifacts, history, protocol_version, metadata)
SELECT md5('task ' || n)::uuid::text, md5('context ' || n)::uuid::text, kind, owner,
    last_updated - n * interval '1 second', status, artifacts,
    replace(replace(history::text, id, md5('task ' || n)::uuid::text),
            context_id, md5('context ' || n)::uuid::text)::json, protocol_version, metadata
FROM (SELECT * FROM tasks ORDER BY last_updated DESC LIMIT 1) AS newest, generate_series(1, :count) AS numbers (n)
"""


class Agent(AgentExecutor):
    """Creates the task, lets `work` add artifacts, and completes the task with its text."""

    def __init__(self, work: Callable[[TaskUpdater, str], Awaitable[str]]) -> None:
        self._work = work

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message
        assert context.task_id
        assert context.context_id
        submitted = a2a.TaskStatus(state=a2a.TASK_STATE_SUBMITTED)
        await event_queue.enqueue_event(
            a2a.Task(id=context.task_id, context_id=context.context_id, status=submitted, history=[context.message])
        )
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        said = await self._work(updater, context.get_user_input())
        await updater.complete(updater.new_agent_message([new_text_part(said)]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


async def echo(updater: TaskUpdater, said: str) -> str:
    await updater.add_artifact([new_text_part(said)], name="answer")
    return said


async def chunks(updater: TaskUpdater, said: str) -> str:
    artifact, count = str(uuid.uuid4()), int(said)
    for number in range(count):
        part = new_text_part(f"line {number}\n")
        last = number == count - 1
        await updater.add_artifact([part], artifact, "chunks", append=number > 0, last_chunk=last)
    return "All sent."


AGENTS = {"echo": echo, "bench-chunks": chunks}
"""By slug, as in Parley; `bench-many` lists tasks."""


def application(database_url: str) -> Starlette:
    engine = create_async_engine(database_url) if database_url else None
    store: TaskStore = DatabaseTaskStore(engine) if engine else InMemoryTaskStore()

    async def fill(request: Request) -> Response:
        count = int(await request.body())
        await (copy_rows(engine, count) if engine else copy_tasks(store, count))
        return Response()

    routes = [Route("/fill", fill, methods=["POST"])]
    for slug, work in {**AGENTS, "bench-many": echo}.items():
        card = a2a.AgentCard(
            name=slug,
            description="Measured beside Parley.",
            version="1",
            capabilities=a2a.AgentCapabilities(streaming=True),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[a2a.AgentSkill(id=slug, name=slug, description=slug, tags=["benchmark"])],
            supported_interfaces=[
                a2a.AgentInterface(url="http://127.0.0.1", protocol_binding="JSONRPC", protocol_version="1.0")
            ],
        )
        routes += create_jsonrpc_routes(DefaultRequestHandler(Agent(work), store, card), f"/a2a/{slug}")
    return Starlette(routes=routes)


async def copy_rows(engine: AsyncEngine, count: int) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(COPY), {"count": count})
    async with engine.connect() as connection:
        alone = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await alone.execute(text("VACUUM ANALYZE tasks"))  # as a slowly grown table is


async def copy_tasks(store: TaskStore, count: int) -> None:
    context = ServerCallContext()
    task = (await store.list(a2a.ListTasksRequest(page_size=1), context)).tasks[0]
    began = task.status.timestamp.seconds
    for number in range(1, count + 1):
        task.id, task.context_id = str(uuid.uuid4()), str(uuid.uuid4())
        task.history[0].task_id, task.history[0].context_id = task.id, task.context_id
        task.status.timestamp.seconds = began - number
        await store.save(task, context)


if __name__ == "__main__":
    port, *database = sys.argv[1:]
    uvicorn.run(
        application(*database or [""]),
        port=int(port),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
