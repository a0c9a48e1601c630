"""The agent of the guide, served by FastAPI: text streams, and a question waits in SQLite."""

import json
import sqlite3
import uuid
from collections.abc import AsyncIterator
from typing import Any

from agents import RunConfig, Runner, RunState
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from files import clerk
from pydantic import BaseModel

app = FastAPI()
database = sqlite3.connect("runs.db", check_same_thread=False, autocommit=True)
database.execute("CREATE TABLE IF NOT EXISTS waiting (id TEXT PRIMARY KEY, state TEXT)")


class Said(BaseModel):
    text: str


@app.post("/runs")
async def start(said: Said) -> StreamingResponse:
    return StreamingResponse(events(said.text), media_type="text/event-stream")


@app.post("/runs/{run}")
async def answer(run: str, said: Said) -> StreamingResponse:
    rows = database.execute("DELETE FROM waiting WHERE id = ? RETURNING state", [run]).fetchall()
    if not rows:
        raise HTTPException(404)
    state = await RunState.from_json(clerk, json.loads(rows[0][0]))
    for asked in state.get_interruptions():
        state.approve(asked) if said.text == "approve" else state.reject(asked)
    return StreamingResponse(events(state), media_type="text/event-stream")


async def events(given: Any) -> AsyncIterator[str]:
    result = Runner.run_streamed(clerk, given, run_config=RunConfig(tracing_disabled=True))
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            yield line("text", event.data.delta)
    if result.interruptions:
        run = uuid.uuid4().hex
        database.execute("INSERT INTO waiting VALUES (?, ?)", [run, json.dumps(result.to_state().to_json())])
        asked = result.interruptions[0]
        yield line("question", {"run": run, "tool": asked.name, "arguments": asked.arguments})
    else:
        yield line("answer", result.final_output)


def line(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
