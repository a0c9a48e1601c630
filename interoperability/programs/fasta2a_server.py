import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, Part, TaskIdParams, TaskSendParams
from fasta2a.storage import InMemoryStorage
from serving import URL, serve


class Turns(Worker[list[Message]]):
    async def run_task(self, params: TaskSendParams) -> None:
        task = await self.storage.load_task(params["id"])
        await self.storage.update_task(task["id"], state="working")
        context = [*(await self.storage.load_context(task["context_id"]) or []), params["message"]]
        await self.storage.update_context(task["context_id"], context)
        text = f"{len(context)}: {params['message']['parts'][0]['text']}"
        await self.storage.update_task(task["id"], state="completed", new_artifacts=self.build_artifacts(text))

    async def cancel_task(self, params: TaskIdParams) -> None:
        await self.storage.update_task(params["id"], state="canceled")

    def build_message_history(self, history: list[Message]) -> list[Any]:
        return list(history)

    def build_artifacts(self, result: str) -> list[Artifact]:
        return [Artifact(artifact_id=str(uuid.uuid4()), name="answer", parts=[Part(text=result)])]


storage, broker = InMemoryStorage(), InMemoryBroker()
worker = Turns(broker, storage)


@asynccontextmanager
async def lifespan(app: FastA2A) -> AsyncIterator[None]:
    async with app.task_manager, worker.run():
        yield


serve(FastA2A(storage=storage, broker=broker, name="Turns", url=URL, lifespan=lifespan))
