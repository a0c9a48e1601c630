"""An agent that answers with the best passage, and cites it."""

from agentkit import ResponseType, SkillHandler, TaskContext


class Finder(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        found = await task.search(task.message.text)
        return f"{found[0].text} {found[0].cite(1)}" if found else "nothing"


class Answerer(Finder):
    response_type = ResponseType.MESSAGE
