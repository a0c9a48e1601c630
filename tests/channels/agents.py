"""An agent that people talk to in chats."""

from agentkit import Artifact, Completed, Failed, InputRequired, Outcome, ResponseType, SkillHandler, TaskContext

COLORS = {
    "type": "string",
    "title": "Color",
    "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}],
}


class Helper(SkillHandler):
    """Does as it is told."""

    input_modes = ("*/*",)

    async def on_request(self, task: TaskContext) -> Outcome:
        match task.message.text:
            case "ask":
                return InputRequired("Which color?", slot="color", schema=COLORS)
            case "file":
                return Completed("Here it is.", [Artifact.bytes("table.csv", b"a,b\n1,2\n", "text/csv")])
            case "long":
                return Completed("\n\n".join(f"Line {number}: {'x' * 70}" for number in range(150)))
            case "fail":
                return Failed("The agent cannot do this.", "cannot")
            case text:
                files = [f"{file.name} {len(file.read())}" for file in task.files]
                return Completed(" ".join([f"**You** said {text}", *files]))

    async def on_input_received(self, task: TaskContext) -> Outcome:
        data = next(iter(task.message.data), None)
        return Completed(f"You chose {data if data is not None else task.message.text}")


class Greeter(SkillHandler):
    """Answers without a task."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> Outcome:
        return Completed(f"Hello, {task.message.text}.")
