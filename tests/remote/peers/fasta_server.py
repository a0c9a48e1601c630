"""A server built on fasta2a. Usage: fasta_server.py PORT."""

import asyncio
import base64
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn
from acting import DESCRIPTION, MODES, NAME, SKILL, End, Given, Piece, Progress, Said, Step, act
from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, Part, Skill, Task, TaskIdParams, TaskSendParams
from fasta2a.storage import InMemoryStorage

WORKERS = 32  # each takes one task at a time, and a cancel needs one too


class Storage(InMemoryStorage[None]):
    """fasta2a begins a task with every message; here an answer continues the task that it names."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: set[str] = set()  # task ids; a task's history may be cut, so it cannot tell

    async def submit_task(self, context_id: str, message: Message) -> Task:
        task = self.tasks.get(message.get("task_id", ""))
        if task is None:
            return await super().submit_task(context_id, message)
        self.answered.add(task["id"])
        return await self.update_task(task["id"], "submitted", new_messages=[message])


class Acting(Worker[None]):
    storage: Storage

    def __init__(self, broker: InMemoryBroker, storage: Storage) -> None:
        super().__init__(broker=broker, storage=storage)
        self.working: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as workers:
            for _ in range(WORKERS):
                workers.start_soon(self._loop)
            yield
            workers.cancel_scope.cancel()

    async def run_task(self, params: TaskSendParams) -> None:
        work = self.working[params["id"]] = asyncio.ensure_future(self.act(params))
        try:
            await work
        except asyncio.CancelledError:
            if not work.cancelled():  # this worker is stopping, not the task
                raise
        finally:
            del self.working[params["id"]]

    async def cancel_task(self, params: TaskIdParams) -> None:
        if work := self.working.get(params["id"]):
            work.cancel()
            await asyncio.wait([work])
            await self.storage.update_task(params["id"], "canceled")

    async def act(self, params: TaskSendParams) -> None:
        task = await self.storage.load_task(params["id"])
        assert task is not None
        await self.storage.update_task(task["id"], "working")
        await self.publish_status(task["id"], task["context_id"], "working")
        pieces: dict[str, Artifact] = {}
        async for step in act(said(params["message"], task["id"] in self.storage.answered)):
            await self.take(task, step, pieces)

    async def take(self, task: Task, step: Step, pieces: dict[str, Artifact]) -> None:
        match step:
            case Progress(text):
                await self.publish_status(task["id"], task["context_id"], "working", self.says(text))
            case Piece():
                made = artifact(step)
                if step.append:
                    pieces[step.artifact_id]["parts"] += made["parts"]
                else:
                    pieces[step.artifact_id] = artifact(step)
                await self.publish_artifact(
                    task["id"], task["context_id"], made, append=step.append, last_chunk=step.last
                )
            case End(state, text):
                message = self.says(text)
                await self.storage.update_task(task["id"], state, list(pieces.values()), [message])
                task["status"]["message"] = message

    def says(self, text: str) -> Message:
        return Message(role="agent", parts=[Part(text=text)], message_id=str(uuid.uuid4()))

    def build_message_history(self, history: list[Message]) -> list[Any]:
        return list(history)

    def build_artifacts(self, result: Any) -> list[Artifact]:
        return []


def said(message: Message, is_answer: bool) -> Said:
    texts = [part["text"] for part in message["parts"] if "text" in part]
    files = [given(part) for part in message["parts"] if "raw" in part or "url" in part]
    return Said(texts[-1] if texts else "", files, is_answer)


def given(part: Part) -> Given:
    name = part.get("filename", "")
    return Given(name, base64.b64decode(part["raw"])) if "raw" in part else Given(name, url=part["url"])


def artifact(step: Piece) -> Artifact:
    if step.content is None:
        part = Part(text=step.text)
    else:
        raw = base64.b64encode(step.content).decode()
        part = Part(raw=raw, filename=step.artifact_id, media_type="application/octet-stream")
    return Artifact(artifact_id=step.artifact_id, name=step.artifact_id, parts=[part])


def main(port: int) -> None:
    broker, storage = InMemoryBroker(), Storage()
    worker = Acting(broker, storage)

    @asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, worker.run():
            yield

    app = FastA2A(
        storage=storage,
        broker=broker,
        name=NAME,
        url=f"http://127.0.0.1:{port}/",
        description=DESCRIPTION,
        skills=[Skill(**SKILL, input_modes=MODES, output_modes=MODES)],
        default_input_modes=MODES,
        default_output_modes=MODES,
        lifespan=lifespan,
    )
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))
