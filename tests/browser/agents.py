"""Agents for pages. An agent waits for the file named at its message's end."""

import asyncio
import os.path

import fpdf

from agentkit import Artifact, Completed, Failed, InputRequired, Outcome, Rejected, SkillHandler, TaskContext, tool
from agentkit.llm import LlmWorker, UseTool, scripted
from tests.clients.telling import PNG

STORY = "# A story\n\nOnce upon a *time* there was a **river**.\n\n- it ran\n- it sang\n"


async def gate(task: TaskContext) -> None:
    place = task.message.text.split()[-1]
    for _ in iter(lambda: os.path.exists(place), True):
        await asyncio.sleep(0.05)


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


class Informed(SkillHandler):
    """Says what it was told of the project."""

    name = "Informed"

    async def on_request(self, task: TaskContext) -> str:
        if task.project is None:
            return "I know of no project."
        files = [f"{one.name}: {one.read().decode()}" for one in task.project.files]
        return " ".join([task.project.instructions, *files])


class Talking(SkillHandler):
    """Speaks until it is stopped."""

    name = "Talking"

    async def on_request(self, task: TaskContext) -> Outcome:
        for number in range(3000):
            await task.token(f"and so **on** {number} ")
            await asyncio.sleep(0.2)
        return Completed("That was all.")


class Listening(SkillHandler):
    """Reads what comes while it works, once it may go on, until it is asked to stop."""

    name = "Listening"
    steerable = True

    async def on_request(self, task: TaskContext) -> Outcome:
        if not task.message.text.startswith("listen"):
            return Completed(f"Done with {task.message.text}.")
        await task.progress("Looking around")
        await gate(task)
        heard = []
        async for message in task.inbox:
            heard.append(message.text)
            await task.progress(f"Heard {len(heard)}")
        return Completed(f"Heard {', '.join(heard)}.")


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
        return Completed(
            "Noted.", [Artifact.json("trip.json", [task.message.data, [file.name for file in task.files]])]
        )


class Interviewer(SkillHandler):
    """Speaks, waits, asks something, and speaks again."""

    name = "Interviewer"

    async def on_request(self, task: TaskContext) -> Outcome:
        await self._speak(task, "Let me **think** about that first.")
        await gate(task)
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
            await asyncio.sleep(0.2)


class Locksmith(SkillHandler):
    """Asks for things of which some are secret."""

    name = "Locksmith"

    async def on_request(self, task: TaskContext) -> Outcome:
        shown, secret = {"type": "string"}, {"type": "string", "format": "password"}
        fields = {"door": shown, "code": secret, "phrase": {"type": "string", "writeOnly": True, "maxLength": 500}}
        return InputRequired("Which door?", slot="door", schema={"type": "object", "properties": fields})

    async def on_input_received(self, task: TaskContext) -> Outcome:
        return Completed("Open.")


class Long(SkillHandler):
    """Works; a message that begins with "until" names the file to wait for."""

    name = "Long"
    input_modes = ("*/*",)

    async def on_request(self, task: TaskContext) -> Outcome:
        await task.progress("At it…")
        if task.message.text.startswith("until"):
            await gate(task)
            return Completed("Done at last.")
        return Completed(f"Done with {task.message.text}.")


ROWS = "site,depth,note\n" + "".join(f"S{number:03},{number * 7 % 300},\n" for number in range(300))
SITES = {"sites": [{"name": "North", "depths": [1.5, 2]}, {"name": "South", "depths": []}], "checked": True}
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 6"><rect width="8" height="6" fill="teal"/></svg>'
PAGE = "<h1>A page</h1><script>parent.document.title = 'taken over'</script>"


def sheet() -> bytes:
    paper = fpdf.FPDF()
    paper.add_page()
    paper.set_font("helvetica", size=24)
    paper.cell(text="A sheet of paper")
    return bytes(paper.output())


class Filing(SkillHandler):
    """Makes files; "again" makes new versions of two, "slowly" streams one until it is stopped."""

    name = "Filing"

    async def on_request(self, task: TaskContext) -> Outcome:
        if "slowly" in task.message.text:
            return await self.slowly(task)
        notes = Artifact.text("notes.md", f"# Notes\n\n{task.message.text}", "text/markdown")
        rows = Artifact.text("rows.csv", ROWS, "text/csv")
        if "again" in task.message.text:
            return Completed("Filed again.", [notes, rows])
        others = [
            Artifact.json("sites.json", SITES),
            Artifact.text("drawing.svg", DRAWING, "image/svg+xml"),
            Artifact.bytes("dot.png", PNG, "image/png"),
            Artifact.text("page.html", PAGE, "text/html"),
            Artifact.bytes("sheet.pdf", sheet(), "application/pdf"),
        ]
        return Completed("Filed.", [notes, rows, *others])

    async def slowly(self, task: TaskContext) -> Outcome:
        ending = asyncio.ensure_future(gate(task))
        async with task.artifact("log.txt") as log:
            for number in range(10_000):
                await log.append(f"line {number}\n")
                if ending.done():
                    break
                await asyncio.sleep(0.1)
            await log.append("the last line\n")
        return Completed("Slowly done.")


@tool(needs_approval=True)
async def send_mail(to: str, body: str) -> str:
    """Sends a mail."""
    return f"Sent to {to}."


CLERK = LlmWorker(
    "You send mails.",
    [send_mail],
    model=scripted(
        lambda asked: str(asked.results[0].content) if asked.results else UseTool("send_mail", to="bob", body="Hello")
    ),
)


class Clerk(SkillHandler):
    """Sends a mail, if a person approves."""

    name = "Clerk"

    async def on_request(self, task: TaskContext) -> Outcome:
        return Completed(await CLERK.run(task))


ALL = (Informed, Storyteller, Talking, Listening, Failing, Asking, Interviewer, Locksmith, Long, Filing, Clerk)
