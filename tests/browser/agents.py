"""Agents that show what a page has to show: streamed words, tool calls, every kind of question, failure."""

import asyncio

from agentkit import (
    Artifact,
    AuthRequired,
    Completed,
    Failed,
    InputRequired,
    Outcome,
    Rejected,
    SkillHandler,
    TaskContext,
)

STORY = "# A story\n\nOnce upon a *time* there was a **river**.\n\n- it ran\n- it sang\n"


class Storyteller(SkillHandler):
    """Streams a story word by word."""

    name = "Storyteller"

    async def on_request(self, task: TaskContext) -> Outcome:
        call = await task.tool_call("look_up", {"about": "rivers"})
        await task.tool_result(call, "look_up", "Rivers run to the sea.")
        await task.thought("A river would be nice.")
        for word in STORY.split(" "):
            await task.token(word + ("" if word == STORY.split(" ")[-1] else " "))
            await asyncio.sleep(0.03)
        return Completed(STORY)


class Failing(SkillHandler):
    """Fails, or declines when it is asked to."""

    name = "Failing"

    async def on_request(self, task: TaskContext) -> Outcome:
        await task.progress("Trying…")
        if "decline" in task.message.text:
            return Rejected("I only do what I can do.")
        return Failed("The instrument did not answer. Switch it on, then send this again.")


TRIP = {
    "type": "object",
    "properties": {
        "class": {"type": "string", "title": "Class", "enum": ["First", "Second"]},
        "return": {"type": "boolean", "title": "And back again?"},
        "people": {"type": "integer", "title": "How many people", "minimum": 1, "maximum": 9, "default": 2},
        "wish": {"type": "string", "title": "A wish", "maxLength": 80, "description": "A seat, a view, anything."},
        "list": {"type": "string", "format": "binary", "title": "Passenger list"},
    },
    "required": ["class", "return", "people"],
}


class Asking(SkillHandler):
    """Asks one question with every kind of field, and repeats what it was told."""

    name = "Asking"
    input_modes = ("*/*",)

    async def on_request(self, task: TaskContext) -> Outcome:
        return InputRequired("Where to, and how?", slot="trip", schema=TRIP)

    async def on_input_received(self, task: TaskContext) -> Outcome:
        return Completed("Noted.", [Artifact.json("trip", [task.message.data, [file.name for file in task.files]])])


class Patient(SkillHandler):
    """Takes its time for the first message, and none for the second."""

    name = "Patient"

    async def on_request(self, task: TaskContext) -> Outcome:
        await task.progress("Taking my time…")
        if "second" in task.message.text:
            return Completed("That was the second message.")
        await asyncio.sleep(4)  # long enough for a page on a busy machine
        return Completed("That was the first message.")


class Calendar(SkillHandler):
    """Wants a key, and says that it has one."""

    name = "Calendar"

    async def on_request(self, task: TaskContext) -> Outcome:
        credential = await task.credential("the calendar of the institute")
        if credential is None:
            words = "To look up your free days I need your key. You find it under Settings → Keys."
            return AuthRequired(words, service="the calendar of the institute")
        return Completed(f"I opened it with a key of {len(credential.secret)} characters.")


class Long(SkillHandler):
    """Works for as many seconds as the message begins with."""

    name = "Long"
    input_modes = ("*/*",)

    async def on_request(self, task: TaskContext) -> Outcome:
        words = task.message.text.split()
        await task.progress("At it…")
        await asyncio.sleep(float(words[0]))
        return Completed(f"Done with {' '.join(words[1:])}.")


class Interviewer(SkillHandler):
    """Speaks slowly, asks something, and speaks again."""

    name = "Interviewer"

    async def on_request(self, task: TaskContext) -> Outcome:
        await self._speak(task, "Let me **think** about that first, for as long as it takes to find a good question.")
        return InputRequired(
            "What is your favourite colour?", slot="colour", schema={"type": "string", "title": "Colour"}
        )

    async def on_input_received(self, task: TaskContext) -> Outcome:
        words = f"So it is *{task.message.text or task.message.data}*, and nothing else."
        await self._speak(task, words)
        return Completed(words)

    async def _speak(self, task: TaskContext, words: str) -> None:
        for word in words.split(" "):
            await task.token(word + " ")
            await asyncio.sleep(0.5)
