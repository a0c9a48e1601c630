"""A chain and a loop: outline, draft, then polish and judge until the text is good enough.

Without a language model it picks sentences from notes, or gives a frame if there are no notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum

from pydantic import BaseModel, Field

from agentkit import Artifact, Completed, InputRequired, Outcome, ReceivedArtifact, Skill, SkillHandler, TaskContext
from agentkit.llm import has_model
from examples import texts
from examples.pages import escape
from examples.steps import Step, noted
from examples.texts import counted, cut, key_sentences, sentences, terms, words

NAME = "text.md"
MOST_ROUNDS = 3
MOST_SECTIONS = 4
PER_SECTION = 3  # sentences
LONGEST_ROUND = 200  # characters
LONGEST_WISH = 300  # characters; a longer message is a new text
BEGINS_ANEW = re.compile(r"\s*(please\s+)?(write|draft|compose)\b", re.IGNORECASE)
LEAD = re.compile(
    r"^(please )?(write|draft|compose)( me)?( an?| the| some)?( \w+)??( about| on| of| from)? ", re.IGNORECASE
)
FILLER = re.compile(r"\b(?:very|really|quite|actually|basically|simply|just)\s+", re.IGNORECASE)
LEAVE_OUT = "Leave out"
SHORT = 4  # words; shorter sentences may be repeated
FRAME = {
    "In short": "[Say what a reader really must know of {}. Give a number that can be checked. Stop there.]",
    "Why it matters": "[Name somebody to whom {} makes a difference. Give a number that can be checked. Tell of them.]",
    "Where to begin": "[Give the first step that a reader of this can take today. Then say where to read on about {}.]",
}
"""What is drafted where there is only a topic: what a person would have to say, with something to polish."""


class Outline(BaseModel):
    """A title, and what each section is about."""

    title: str = Field(min_length=1, max_length=200)
    points: list[str] = Field(min_length=1, max_length=8)


class Verdict(BaseModel):
    """Whether the text is good enough, with remarks if not."""

    is_good: bool
    remarks: list[str] = Field(default_factory=list, max_length=10)


def offline_outline(brief: str, notes: str) -> Outline:
    """From notes: groups of sentences, each named by its terms. Otherwise a frame to fill."""
    topic = _topic(brief, notes)
    found = [" and ".join(terms(" ".join(group), 2)).capitalize() for group in _groups(brief, notes)]
    return Outline(title=topic[:1].upper() + topic[1:], points=[one or "More" for one in found] or list(FRAME))


def offline_draft(brief: str, notes: str, outline: dict[str, object]) -> str:
    """The title, and each point with its sentences or with a placeholder."""
    plan, groups, topic = Outline.model_validate(outline), _groups(brief, notes), _topic(brief, notes)
    lines = [f"# {plan.title}"]
    for at, point in enumerate(plan.points):
        body = " ".join(groups[at]) if at < len(groups) else FRAME.get(point, "").format(topic)
        lines += [f"## {point}", body]
    return "\n\n".join(lines)


def offline_polish(text: str, remarks: Sequence[str]) -> str:
    if any(one.startswith(LEAVE_OUT) for one in remarks):
        return _rewritten(text, lambda body: FILLER.sub("", body))
    said: set[str] = set()

    def said_once(body: str) -> str:
        kept = [one for one in sentences(body) if one not in said or len(words(one)) < SHORT]
        said.update(kept)
        return " ".join(kept)

    return _rewritten(text, said_once)


def offline_judgement(text: str) -> Verdict:
    """Looks for filler words first, and then for sentences that are there twice."""
    fillers = [found.strip() for found in FILLER.findall(text)]
    counts = Counter(one for one in sentences(text) if len(words(one)) >= SHORT and not one.startswith("#"))
    repeated = [one for one, times in counts.items() if times > 1]
    remarks = [f"{LEAVE_OUT} “{one}”." for one in dict.fromkeys(fillers)] or [
        f"Say only once: “{one}”" for one in repeated
    ]
    return Verdict(is_good=not remarks, remarks=remarks[:10])


def offline_change(text: str, wish: str) -> str:
    """The text after a change of `CHANGES`; other wishes leave it unchanged."""
    change = next((change for name, change in CHANGES.items() if name in wish.casefold()), None)
    return change(text) if change else text


OUTLINE = Step(
    "writer",
    "Outline a short text that does what `brief` asks for; where there are `notes`, use only what they say.",
    Outline,
    offline=offline_outline,
)
DRAFT = Step(
    "writer",
    "Write the text of this `outline` for this `brief`, from these `notes` where there are any. Answer with nothing "
    "but Markdown: the title as a first-level heading, each point as a second-level heading with its paragraphs.",
    str,
    offline=offline_draft,
)
JUDGE = Step(
    "writer", "Is this `text` plain and without repetition? If not, say what to do.", Verdict, offline=offline_judgement
)
POLISH = Step(
    "writer",
    "Improve this `text` by these `remarks`. Answer with nothing but the Markdown.",
    str,
    offline=offline_polish,
)
CHANGE = Step(
    "writer",
    "Change this `text` as `wish` says and leave the rest as it is. Answer with nothing but the Markdown.",
    str,
    offline=offline_change,
)


class Slot(Enum):
    BRIEF = "brief"
    CHANGE = "change"


class Writer(SkillHandler):
    """Writes a short text in steps, from a topic or from notes, and changes it on request."""

    name = "Writer"
    skills = (
        Skill(
            "write",
            "Write a text",
            "Outlines, drafts and polishes a text on a topic, or from notes that are sent as text or as a file. "
            "Then: “make it shorter”, “as a list”.",
            tags=["writing", "text", "markdown", "chain", "loop"],
            examples=["Write about the tides", "Make it shorter", "As a list"],
            input_modes=["text/plain", "text/markdown"],
            output_modes=["text/markdown"],
        ),
    )
    input_modes = ("text/plain", "text/markdown", "text/*")
    output_modes = ("text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        earlier = texts.delivered_artifact(task, NAME)
        return await (self._change(task, earlier) if earlier and _is_wish(task) else self._write(task))

    async def on_input_received(self, task: TaskContext, slot: Slot) -> Outcome:
        earlier = texts.delivered_artifact(task, NAME)
        return await (self._change(task, earlier) if earlier and slot is Slot.CHANGE else self._write(task))

    async def _write(self, task: TaskContext) -> Outcome:
        brief, notes = task.message.text.strip(), await texts.text_of_files(task)
        if not brief and not notes:
            return InputRequired("What shall I write about? Send me a topic, or notes to work from.", slot=Slot.BRIEF)
        await task.progress("Outlining…")
        outline = await OUTLINE(task, brief=brief, notes=notes)
        await task.progress(f"Drafting {counted(len(outline.points), 'section')}…")
        text = await DRAFT(task, brief=brief, notes=notes, outline=outline.model_dump())
        rounds: list[str] = []
        for number in range(1, MOST_ROUNDS + 1):
            verdict = await JUDGE(task, text=text)
            if verdict.is_good:
                break
            rounds.append(f"Round {number}: {' '.join(verdict.remarks) or 'Plainer.'}")
            await task.progress(f"Polishing. {rounds[-1]}", number, MOST_ROUNDS)
            text = await POLISH(task, text=text, remarks=verdict.remarks)
        said = f"Here is “{outline.title}”: {counted(len(outline.points), 'section')}, {_length(text)}."
        if rounds:
            said += "\n\n" + "\n".join(f"- {escape(cut(one, LONGEST_ROUND))}" for one in rounds)
        return Completed(await noted(said), [Artifact.text(NAME, text, "text/markdown", description=outline.title)])

    async def _change(self, task: TaskContext, earlier: ReceivedArtifact) -> Outcome:
        wish, text = task.message.text.strip(), texts.text_of_artifact(earlier)
        if not any(name in wish.casefold() for name in CHANGES) and not await has_model():
            question = "Without a language model I can make the text shorter, or a list. Which shall it be?"
            schema = {"type": "string", "title": "Change", "enum": ["shorter", "list"]}
            return InputRequired(question, slot=Slot.CHANGE, schema=schema)
        await task.progress("Rewriting…")
        new = await CHANGE(task, text=text, wish=wish)
        if new == text:
            return Completed(await noted("The text is like that already."), [earlier.refined(text)])
        said = f"The text had {_length(text)} and now has {_length(new)}."
        return Completed(await noted(said), [earlier.refined(new)])


def _is_wish(task: TaskContext) -> bool:
    """Does the message ask to change the existing text?"""
    said = task.message.text
    return bool(said.strip()) and not task.files and len(said) <= LONGEST_WISH and not BEGINS_ANEW.match(said)


def _length(text: str) -> str:
    return counted(len(words(text)), "word")


def _shorter(text: str) -> str:
    """The half of the sentences with most of the text's terms."""
    about = terms(text, 20)
    return _rewritten(text, lambda body: " ".join(key_sentences(said := sentences(body), about, (len(said) + 1) // 2)))


def _listed(text: str) -> str:
    return _rewritten(text, lambda body: "\n".join(f"- {one.removeprefix('- ')}" for one in sentences(body)))


CHANGES: dict[str, Callable[[str], str]] = {"short": _shorter, "brief": _shorter, "list": _listed}


def _topic(brief: str, notes: str) -> str:
    named = LEAD.sub("", sentences(brief)[0] if brief.strip() else "").strip(" .!?:")
    return cut(named or " and ".join(terms(notes, 2)) or "these notes", 80)


def _groups(brief: str, notes: str) -> list[list[str]]:
    """The sentences of the notes, or of a detailed brief, in groups of about three."""
    said = sentences(notes) or sentences(brief)
    if not notes.strip() and len(said) <= 2:
        return []
    count = min(MOST_SECTIONS, -(-len(said) // PER_SECTION))
    return [said[at * len(said) // count : (at + 1) * len(said) // count] for at in range(count)]


def _rewritten(text: str, change: Callable[[str], str]) -> str:
    blocks = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(filter(None, (one if one.startswith("#") else change(one) for one in blocks))) + "\n"
