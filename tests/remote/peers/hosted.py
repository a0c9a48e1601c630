"""The same agent, hosted by Parley itself."""

import asyncio

from agentkit import (
    Artifact,
    AuthRequired,
    Completed,
    Failed,
    File,
    InputRequired,
    Outcome,
    Rejected,
    Skill,
    SkillHandler,
    TaskContext,
)
from tests.remote.peers import acting
from tests.remote.peers.acting import End, Given, Piece, Progress, Said, act

ENDS = {
    "completed": Completed,
    "failed": Failed,
    "rejected": Rejected,
    "input-required": InputRequired,
    "auth-required": AuthRequired,
}


class Acting(SkillHandler):
    name = acting.NAME
    description = acting.DESCRIPTION
    skills = (Skill(**acting.SKILL),)
    input_modes = tuple(acting.MODES)
    output_modes = tuple(acting.MODES)
    time_limit = 900.0

    async def on_request(self, task: TaskContext) -> Outcome:
        files = [await given(file) for file in task.files]
        return await self.perform(task, Said(task.message.text, files))

    async def on_input_received(self, task: TaskContext) -> Outcome:
        return await self.perform(task, Said(task.message.text, is_answer=True))

    async def perform(self, task: TaskContext, said: Said) -> Outcome:
        files, streams = [], {}
        async for step in act(said):
            match step:
                case Progress(text):
                    await task.progress(text)
                case Piece(name, content=bytes(content)):
                    files.append(Artifact.bytes(name, content, "application/octet-stream"))
                case Piece(name, text, last=last):
                    stream = streams.setdefault(name, None) or task.artifact(name)
                    streams[name] = stream
                    await stream.append(text, last=last)
                case End("completed", text):
                    return Completed(text, files)
                case End(state, text):
                    return ENDS[state](text)
        raise AssertionError("a turn has an end")


async def given(file: File) -> Given:
    if "url" in file.part:
        return Given(file.name, url=file.part["url"])
    return Given(file.name, await asyncio.to_thread(file.read))
