"""Agents that say what they were told of the project."""

from agentkit import ResponseType, SkillHandler, TaskContext


class Teller(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        return told(task)


class Answerer(Teller):
    response_type = ResponseType.MESSAGE


class Asker(SkillHandler):
    """Has the teller answer."""

    async def on_request(self, task: TaskContext) -> str:
        return (await task.call("teller", "What are you told?")).text


def told(task: TaskContext) -> str:
    if task.project is None:
        return "nothing"
    texts = [one.read().decode() for one in task.project.files]
    return " ".join([task.project.name, task.project.instructions, *texts])
