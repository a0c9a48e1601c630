"""The flow of the guide, served by FastAPI: steps stream, and a question waits in SQLite."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from crewai.flow import Flow, HumanFeedbackPending, PendingFeedbackContext, flow_config
from crewai.flow.persistence import SQLiteFlowPersistence
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from poems import Poems
from pydantic import BaseModel

app = FastAPI()
kept = SQLiteFlowPersistence("flows.db")


class Said(BaseModel):
    text: str


class Asking:
    def request_feedback(self, context: PendingFeedbackContext, flow: Flow[Any]) -> str:
        raise HumanFeedbackPending(context)


flow_config.hitl_provider = Asking()


@app.post("/runs")
async def start(said: Said) -> StreamingResponse:
    flow = Poems(persistence=kept)
    return StreamingResponse(events(flow.kickoff_async(inputs={"message": said.text})), media_type="text/event-stream")


@app.post("/runs/{run}")
async def answer(run: str, said: Said) -> StreamingResponse:
    try:
        flow = Poems.from_pending(run, kept)
    except ValueError:
        raise HTTPException(404) from None
    return StreamingResponse(events(flow.resume_async(said.text)), media_type="text/event-stream")


async def events(work: Any) -> AsyncIterator[str]:
    running = asyncio.ensure_future(work)
    while not (await asyncio.wait({running}, timeout=10))[0]:
        yield ": still at work\n\n"
    result = running.result()
    if isinstance(result, HumanFeedbackPending):
        asked = result.context
        yield line("question", {"run": asked.flow_id, "text": asked.message, "about": asked.method_output})
    else:
        yield line("answer", result)


def line(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
