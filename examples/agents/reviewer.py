"""Three concurrent reviews of one text, then a verdict. Without a language model the reviews count flaws."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, Field

from agentkit import Artifact, Completed, InputRequired, Outcome, Skill, SkillHandler, TaskContext
from examples import texts
from examples.steps import Step, noted
from examples.texts import counted, cut, sentences, words


class Review(BaseModel):
    """What one look at a text found."""

    score: int = Field(ge=0, le=10)
    remarks: list[str] = Field(max_length=20)


class Decision(Enum):
    """What is to become of the text."""

    READY = "ready"
    REVISE = "revise"
    REWRITE = "rewrite"


class Verdict(BaseModel):
    """What the reviews come to."""

    decision: Decision
    why: str = Field(min_length=1)


def as_markdown(verdict: Verdict, reviews: Mapping[str, Review]) -> str:
    """The whole review as a page."""
    lines = [f"# {verdict.decision.value.capitalize()}", verdict.why]
    for aspect, review in reviews.items():
        lines.append(f"## {aspect.capitalize()}: {review.score} of 10")
        lines.append("\n".join(f"- {remark}" for remark in review.remarks) or "No remarks.")
    return "\n\n".join(lines) + "\n"


QUESTION = "Which text should I review? Send it as a message or a file, or refer to a task that produced one."

RULES = "Give a score from 0 to 10, and for each weakness a remark that quotes the place and says what to do."


LONG = 28  # words of a sentence
MOST_REMARKS = 8
QUOTED = 60  # characters


def offline_clarity(text: str) -> Review:
    """Judges the length of the sentences."""
    long = [sentence for sentence in sentences(text) if len(words(sentence)) > LONG]
    return _review(
        [f"{counted(len(words(one)), 'word')} in one sentence. Split it: “{cut(one, QUOTED)}”" for one in long]
    )


def offline_correctness(text: str) -> Review:
    """Judges repeated words, and how sentences begin."""
    pairs = [(one, other) for one, other in pairwise(words(text)) if one.casefold() == other.casefold()]
    remarks = [f"“{one} {other}” repeats a word." for one, other in pairs if one.casefold() not in ("had", "that")]
    small = [one for one in sentences(text) if one[0].islower()]
    return _review(remarks + [f"A sentence starts with a lower-case letter: “{cut(one, QUOTED)}”" for one in small])


def offline_tone(text: str) -> Review:
    """Judges exclamation marks and capitals."""
    loud = [one for one in words(text) if len(one) > 3 and one.isupper()]
    remarks = [f"“{one}” is in capitals. Use lower case." for one in dict.fromkeys(loud)]
    if (shouts := text.count("!")) > 1:
        remarks.append(f"{counted(shouts, 'exclamation mark')}. One is enough.")
    return _review(remarks)


def _review(remarks: list[str]) -> Review:
    return Review(score=max(0, 10 - 2 * len(remarks)), remarks=remarks[:MOST_REMARKS])


REVIEWS = {
    "clarity": Step(
        "reviewer", f"Review only how clear `text` is to its readers. {RULES}", Review, offline=offline_clarity
    ),
    "correctness": Step(
        "reviewer",
        f"Review only what is wrong in `text`: spelling, grammar, contradictions, wrong facts. {RULES}",
        Review,
        offline=offline_correctness,
    ),
    "tone": Step("reviewer", f"Review only the tone of `text`. {RULES}", Review, offline=offline_tone),
}


def offline_verdict(reviews: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """The weakest of the reviews decides."""
    weakest = min(reviews, key=lambda aspect: reviews[aspect]["score"])
    lowest, remarks = reviews[weakest]["score"], reviews[weakest]["remarks"]
    total = sum(len(review["remarks"]) for review in reviews.values())
    if lowest >= 8:
        why = f"The reviews have {counted(total, 'remark')}, none serious." if total else "There are no remarks."
        return Verdict(decision=Decision.READY, why=why)
    decision = Decision.REVISE if lowest >= 4 else Decision.REWRITE
    first = f" First: {remarks[0]}" if remarks else ""
    return Verdict(decision=decision, why=f"The lowest score is for {weakest}: {lowest} of 10.{first}")


VERDICT = Step(
    "reviewer",
    "Here are `reviews` of one text, by aspect. Is it ready, to be revised, or to be rewritten? Say in one or two "
    "sentences what matters most.",
    Verdict,
    offline=offline_verdict,
)


class Reviewer(SkillHandler):
    """Reviews a text for clarity, correctness and tone at the same time, and gives one verdict."""

    name = "Reviewer"
    skills = (
        Skill(
            "review",
            "Review a text",
            "Runs three reviews at once, for clarity, correctness and tone, and decides: ready, revise or rewrite. "
            "Send the text as a message or a file, or refer to a task that produced it.",
            tags=["review", "text", "writing", "parallel"],
            examples=["The the report is finished!!! It was written by the committee (see below.", "Review this file"],
            input_modes=["text/plain", "text/markdown"],
            output_modes=["text/markdown", "application/json"],
        ),
    )
    input_modes = ("text/plain", "text/markdown", "text/*")
    output_modes = ("text/markdown", "application/json", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        text = await _text(task)
        if not words(text):
            return InputRequired(f"The text has no words. {QUESTION}" if text else QUESTION, slot="text")
        await task.progress(f"Reviewing {counted(len(words(text)), 'word')} in three ways…", 0, len(REVIEWS))
        reviews = await _reviewed(task, text)
        found = {aspect: review.model_dump(mode="json") for aspect, review in reviews.items()}
        verdict = await VERDICT(task, reviews=found)
        artifacts = [
            Artifact.text("review.md", as_markdown(verdict, reviews), "text/markdown", description="The review"),
            Artifact.json("review.json", {"verdict": verdict.model_dump(mode="json"), "reviews": found}),
        ]
        return Completed(await noted(f"{verdict.decision.value.capitalize()}. {verdict.why}"), artifacts)


async def _text(task: TaskContext) -> str:
    """The text of the files, or else of the referenced artifact, or else of the message."""
    if task.files:
        return await texts.text_of_files(task)
    artifact = texts.delivered_artifact(task)
    is_own = artifact is not None and artifact.name == "review.md"  # a new text, after an earlier review
    if artifact and not is_own:
        return texts.text_of_artifact(artifact)
    return task.message.text.strip()


async def _reviewed(task: TaskContext, text: str) -> dict[str, Review]:
    """Runs the reviews concurrently and reports progress. One failure cancels the others."""

    async def review(aspect: str) -> None:
        reviews[aspect] = await REVIEWS[aspect](task, text=text)
        score = f"{aspect.capitalize()}: {reviews[aspect].score} of 10"
        await task.progress(score, len(reviews), len(REVIEWS))

    reviews: dict[str, Review] = {}
    side_by_side = [asyncio.ensure_future(review(aspect)) for aspect in REVIEWS]
    try:
        await asyncio.gather(*side_by_side)
    finally:
        for one in side_by_side:
            one.cancel()
    return {aspect: reviews[aspect] for aspect in REVIEWS}
