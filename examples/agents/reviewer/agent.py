"""The Reviewer: three looks at a text at the same time, and what they come to together."""

from __future__ import annotations

import asyncio

from agentkit import Artifact, Completed, InputRequired, Outcome, Skill, SkillHandler, TaskContext
from examples import sources
from examples.agents.reviewer import script
from examples.agents.reviewer.reviews import Review, Verdict, as_markdown
from examples.prose import counted, words
from examples.steps import ON_CARD, Step, noted

QUESTION = "Which text shall I review? Send it as a message or as a file, or refer to a task that delivered one."

RULES = "Give a score from 0 to 10, and for each weakness a remark that quotes the place and says what to do."

REVIEWS = {
    "clarity": Step(
        "reviewer", f"Review only how clear `text` is to its readers. {RULES}", Review, offline=script.clarity
    ),
    "correctness": Step(
        "reviewer",
        f"Review only what is wrong in `text`: spelling, grammar, contradictions, wrong facts. {RULES}",
        Review,
        offline=script.correctness,
    ),
    "tone": Step("reviewer", f"Review only the tone of `text`. {RULES}", Review, offline=script.tone),
}
VERDICT = Step(
    "reviewer",
    "Here are `reviews` of one text, by aspect. Is it ready, to be revised, or to be rewritten? Say in one or two "
    "sentences what matters most.",
    Verdict,
    offline=script.verdict,
)


class Reviewer(SkillHandler):
    """Reviews a text for clarity, correctness and tone at the same time, and gives one verdict."""

    name = "Reviewer"
    description = f"Reviews a text for clarity, correctness and tone at the same time, with one verdict. {ON_CARD}"
    skills = (
        Skill(
            "review",
            "Review a text",
            "Three reviews side by side, of clarity, correctness and tone, and a verdict: ready, revise or rewrite. "
            "The text is the message, a file, or what a task delivered that the message refers to.",
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
            return InputRequired(f"I find no words in it. {QUESTION}" if text else QUESTION, slot="text")
        await task.progress(f"Reading {counted(len(words(text)), 'word')}, three times at once…", 0, len(REVIEWS))
        reviews = await _reviewed(task, text)
        found = {aspect: review.model_dump(mode="json") for aspect, review in reviews.items()}
        verdict = await VERDICT(task, reviews=found)
        artifacts = [
            Artifact.text("review.md", as_markdown(verdict, reviews), "text/markdown", description="The review"),
            Artifact.json("review.json", {"verdict": verdict.model_dump(mode="json"), "reviews": found}),
        ]
        return Completed(await noted(f"{verdict.decision.value.capitalize()}. {verdict.why}"), artifacts)


async def _text(task: TaskContext) -> str:
    """A file before an artifact that the message refers to, and that before the message itself."""
    if task.files:
        return await sources.of_files(task)
    artifact = sources.delivered(task)
    is_own = artifact is not None and artifact.name == "review.md"  # a new text, after an earlier review
    if artifact and not is_own:
        return sources.of_artifact(artifact)
    return task.message.text.strip()


async def _reviewed(task: TaskContext, text: str) -> dict[str, Review]:
    """The three reviews, each told when it is there; if one fails, the others are given up."""

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
