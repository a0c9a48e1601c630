"""The Literature agent: what a small corpus of made-up papers says on a subject."""

from __future__ import annotations

from agentkit import Completed, InputRequired, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.prose import counted
from examples.report.markdown import as_markdown
from examples.research import corpus, planned


class Literature(SkillHandler):
    """Reviews fourteen made-up papers on a subject and weighs what they say of each target. No model, no network."""

    name = "Literature"
    skills = (
        Skill(
            "review-literature",
            "Weigh the literature",
            "Gathers the papers of a small made-up corpus on lung fibrosis or osteoarthritis, and weighs for each "
            "target what speaks for and against it. A demonstration: the papers do not exist.",
            tags=["literature", "research", "evidence", "demo"],
            examples=["What is known about lung fibrosis?", "osteoarthritis"],
            output_modes=["application/json", "text/markdown"],
        ),
    )
    output_modes = ("application/json", "text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        known = corpus.subjects()
        subject = handover.chosen(task, "subject", {one: [one] for one in known}) or corpus.subject_in(
            task.message.text
        )
        if subject is None:
            question = f"My made-up papers are about {' and '.join(known)}. Which of these shall I review?"
            schema = {"type": "string", "title": "Subject", "enum": known}
            return InputRequired(question, slot="subject", schema=schema)
        found = corpus.review(subject)
        first = found.targets[0]
        said = (
            f"{counted(len(found.papers), 'paper')} on {subject}; most speaks for {first.target}, {first.what} "
            f"(score {first.score})."
        )
        page = as_markdown(planned.page(f"Literature on {subject}", said, planned.literature(found)))
        delivered = [handover.as_json(found), handover.document("literature-review.md", page, "text/markdown")]
        return Completed(said, delivered)
