"""The Writer: three steps one after the other, and a text that can be changed afterwards."""

from __future__ import annotations

import re
from enum import Enum

from agentkit import Artifact, Completed, InputRequired, Outcome, ReceivedArtifact, Skill, SkillHandler, TaskContext
from agentkit.llm import has_model
from examples import sources
from examples.agents.writer import script
from examples.agents.writer.script import Outline
from examples.prose import counted, words
from examples.steps import ON_CARD, Step, noted

NAME = "text.md"

OUTLINE = Step(
    "writer",
    "Outline a short text that does what `brief` asks for; where there are `notes`, use only what they say.",
    Outline,
    offline=script.outlined,
)
DRAFT = Step(
    "writer",
    "Write the text of this `outline` for this `brief`, from these `notes` where there are any. Answer with nothing "
    "but Markdown: the title as a first-level heading, each point as a second-level heading with its paragraphs.",
    str,
    offline=script.drafted,
)
POLISH = Step(
    "writer",
    "Polish this `draft`: shorter sentences, plain words, no repetition. Answer with nothing but the Markdown.",
    str,
    offline=script.polished,
)
CHANGE = Step(
    "writer",
    "Change this `text` as `wish` says and leave the rest as it is. Answer with nothing but the Markdown.",
    str,
    offline=script.changed,
)

BEGINS_ANEW = re.compile(r"\s*(please\s+)?(write|draft|compose)\b", re.IGNORECASE)
LONGEST_WISH = 300  # characters; what is longer is something to write about


class Slot(Enum):
    """What the Writer asks for."""

    BRIEF = "brief"
    CHANGE = "change"


class Writer(SkillHandler):
    """Writes a short text in three steps, from a topic or from notes, and changes it on request."""

    name = "Writer"
    description = f"Writes a short text in three steps, from a topic or from notes, and changes it. {ON_CARD}"
    skills = (
        Skill(
            "write",
            "Write a text",
            "Outlines, drafts and polishes a text on a topic, or from notes that are sent as text or as a file. "
            "Then: “make it shorter”, “simpler”, “as a list”.",
            tags=["writing", "text", "markdown", "chain"],
            examples=["Write about the tides", "Make it shorter", "As a list"],
            input_modes=["text/plain", "text/markdown"],
            output_modes=["text/markdown"],
        ),
    )
    input_modes = ("text/plain", "text/markdown", "text/*")
    output_modes = ("text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        earlier = sources.delivered(task, NAME)
        if earlier and _is_wish(task):
            return await self._change(task, earlier)
        if not earlier and _is_wish(task) and script.is_bare(task.message.text):
            return InputRequired("There is no text of mine here yet. What shall I write about?", slot=Slot.BRIEF)
        return await self._write(task)

    async def on_input_received(self, task: TaskContext, slot: Slot) -> Outcome:
        earlier = sources.delivered(task, NAME)
        if slot is Slot.CHANGE and earlier:
            return await self._change(task, earlier)
        return await self._write(task)

    async def _write(self, task: TaskContext) -> Outcome:
        brief, notes = task.message.text.strip(), await sources.of_files(task)
        if not brief and not notes:
            return InputRequired("What shall I write about? Send me a topic, or notes to work from.", slot=Slot.BRIEF)
        await task.progress("Outlining…", 1, 3)
        outline = await OUTLINE(task, brief=brief, notes=notes)
        await task.progress(f"Drafting {counted(len(outline.points), 'section')}…", 2, 3)
        draft = await DRAFT(task, brief=brief, notes=notes, outline=outline.model_dump())
        await task.progress("Polishing…", 3, 3)
        text = await POLISH(task, draft=draft)
        said = f"Here is “{outline.title}”: {counted(len(outline.points), 'section')}, {_length(text)}."
        return Completed(await noted(said), [Artifact.text(NAME, text, "text/markdown", description=outline.title)])

    async def _change(self, task: TaskContext, earlier: ReceivedArtifact) -> Outcome:
        wish, text = task.message.text.strip(), sources.of_artifact(earlier)
        if not script.knows(wish) and not await has_model():
            question = f"Without a language model I can make the text {script.KNOWN}. Which shall it be?"
            return InputRequired(question, slot=Slot.CHANGE, schema=script.CHANGES)
        await task.progress("Rewriting…")
        new = await CHANGE(task, text=text, wish=wish)
        if new == text:
            return Completed(await noted("The text is like that already."), [earlier.refined(text)])
        said = f"The text had {_length(text)} and now has {_length(new)}."
        return Completed(await noted(said), [earlier.refined(new)])


def _is_wish(task: TaskContext) -> bool:
    """Is this about the text that there is, not about another one?"""
    said = task.message.text
    return bool(said.strip()) and not task.files and len(said) <= LONGEST_WISH and not BEGINS_ANEW.match(said)


def _length(text: str) -> str:
    return counted(len(words(text)), "word")
