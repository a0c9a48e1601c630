"""An agent that repeats what it hears or delivers a file, hosted by Parley itself."""

from agentkit import Artifact, Completed, Outcome, Skill, SkillHandler, TaskContext
from tests.remote.peers import FILE


class Acting(SkillHandler):
    name = "Acting"
    description = "Does what a test tells it to do."
    skills = (Skill(id="act", name="Act", description=description, tags=["test"]),)

    async def on_request(self, task: TaskContext) -> Outcome:
        if task.message.text == "file":
            return Completed("Here it is.", [Artifact.bytes("all.bin", FILE, "application/octet-stream")])
        await task.artifact("answer").append(task.message.text, last=True)
        return Completed(task.message.text)
