"""An agent that does nothing else. It shows what a task costs without the agent's own work."""

import asyncio

from agentkit import Artifact, Completed, File, Skill, SkillHandler, TaskContext


class Echo(SkillHandler):
    """Gives back what it was sent: text, data and files."""

    name = "Echo"
    skills = (
        Skill(
            "echo",
            "Echo",
            "Returns the text, and every file with the same name and content.",
            tags=["echo", "test", "demo"],
            examples=["Anything at all"],
            input_modes=["*/*"],
            output_modes=["*/*"],
        ),
    )
    input_modes = ("*/*",)
    output_modes = ("*/*",)
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        said = task.message.text
        artifacts = [Artifact.json("data", value) for value in task.message.data]
        artifacts += [await _returned(file) for file in task.message.files]
        if said or not artifacts:
            artifacts.insert(0, Artifact.text("answer", said))
        return Completed(said or None, artifacts)


async def _returned(file: File) -> Artifact:
    if "stored" in file.part:
        content = await asyncio.to_thread(file.read)
        return Artifact.bytes(file.name, content, file.media_type)
    return Artifact([file.part], file.name)
