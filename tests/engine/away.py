"""Unreachable agents, and one that records its input."""

from agentkit import InputRequired, Outcome, SkillHandler, TaskContext
from apps.engine.assignment import Assignment, ReleaseSlot
from apps.engine.turn import AgentUnavailable

TRIED: list[str] = []
REACHABLE: set[str] = set()


async def execute(assignment: Assignment, task: TaskContext, _: ReleaseSlot) -> Outcome:
    TRIED.append(assignment.agent.slug)
    if assignment.agent.slug in REACHABLE:
        return InputRequired("Which?", slot="word")
    if "half" in task.message.text:
        await task.token("half")
    raise AgentUnavailable(f"{assignment.agent.name} does not answer. Try again later.")


class Substitute(SkillHandler):
    name = "Near"
    retry_safe = True

    async def on_request(self, task: TaskContext) -> str | InputRequired:
        if task.message.text == "ask":
            task.memory["begun"] = True
            return InputRequired("Which word?", slot="word")
        return f"memory {task.memory}, skill {task.skill}, {len(task.history)} before: {task.message.text}"


class Other(SkillHandler):
    input_modes = ("image/png",)

    async def on_request(self, task: TaskContext) -> str:
        return "seen"
