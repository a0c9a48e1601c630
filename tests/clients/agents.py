"""Agents for the tests of the client API."""

from agentkit import Artifact, Completed, Failed, InputRequired, Outcome, ResponseType, SkillHandler, TaskContext


class Worker(SkillHandler):
    """Calls a tool, streams words and chunks, asks for a colour or fails where it is told to, and delivers."""

    input_modes = ("*/*",)

    async def on_request(self, task: TaskContext) -> Outcome:
        if "fail" in task.message.text:
            await task.artifact("page").append("in vain", last=True)
            return Failed("That was too much.", "overfed")
        if "ask" in task.message.text:
            return InputRequired("Which **colour**?", slot="colour", schema={"type": "string"})
        return await self._work(task)

    async def on_input_received(self, task: TaskContext) -> Outcome:
        return await self._work(task)

    async def _work(self, task: TaskContext) -> Outcome:
        said = task.message.text
        call = await task.tool_call("look", {"for": said})
        await task.tool_result(call, "look", {"found": said.upper()})
        await task.thought("It is there.")
        await task.progress("Half way", 1, 2)
        await task.token("Some words, ")
        await task.token("streamed.")
        page = task.artifact("page")
        for number in range(3):
            await page.append(f"{said} {number}\n", last=number == 2)
        return Completed(f"# Done\n\nwith *{said}*", [Artifact.json("data", {"said": said})])


class Talker(SkillHandler):
    """Answers at once."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> Outcome:
        return Completed(f"**Hello** to {task.message.text}.")
