"""An agent that answers with the best passage, and cites it."""

from agentkit import ResponseType, SkillHandler, TaskContext


class Finder(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        found = await task.search(task.message.text)
        return f"{found[0].text} {task.cite(found[0])}" if found else "nothing"


class Answerer(Finder):
    response_type = ResponseType.MESSAGE
