"""The smallest agent: it answers at once, with a message and without a task."""

from agentkit import Completed, Skill, SkillHandler, TaskContext
from agentkit.selecting import always_message


class Hello(SkillHandler):
    """Says hello and repeats your message."""

    name = "Hello"
    skills = (
        Skill(
            "greeting",
            "Greeting",
            "Answers any text with a greeting.",
            tags=["hello", "greeting", "demo"],
            examples=["Hello, I am Ada."],
        ),
    )
    response_type = always_message
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        heard = " ".join(task.message.text.split())
        if not heard:
            return Completed("Hello! Send me a line of text, and I will answer it.")
        return Completed(f"Hello! You said “{heard}”. It is good to hear from you.")
