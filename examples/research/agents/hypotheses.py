"""The Hypotheses agent: what to try, from a review of the literature. It asks by what means."""

from __future__ import annotations

from agentkit import AgentFailure, Completed, InputRequired, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.prose import counted
from examples.report.markdown import as_markdown
from examples.research import choosing, planned
from examples.research.results import LiteratureReview

MODALITIES = {
    "small molecules": ("small molecule", "small-molecule"),
    "biologics": ("biologic", "antibod"),
}
QUESTION = "Small molecules or biologics? Small molecules reach targets inside the cell; biologics do not."
SCHEMA = {"type": "string", "title": "Modality", "enum": list(MODALITIES)}


class Hypotheses(SkillHandler):
    """Makes hypotheses of a literature review: which target to block, by small molecules or by biologics; it asks."""

    name = "Hypotheses"
    skills = (
        Skill(
            "make-hypotheses",
            "Make hypotheses",
            "Takes literature-review.json and says which targets to block, the best supported first, and why others "
            "are set aside. Asks whether by small molecules or by biologics. By stated rules, without a model.",
            tags=["hypotheses", "research", "targets", "demo"],
            examples=["Make hypotheses from this review", "Biologics"],
            input_modes=["application/json", "text/plain"],
            output_modes=["application/json", "text/markdown"],
        ),
    )
    input_modes = ("text/plain", "application/json", "*/*")
    output_modes = ("application/json", "text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        review = handover.needed(task, LiteratureReview)
        modality = handover.chosen(task, "modality", MODALITIES)
        if modality is None:
            again = "I did not find one of the two in your answer. " if task.slot == "modality" else ""
            return InputRequired(f"{again}{QUESTION}", slot="modality", schema=SCHEMA)
        try:
            found = choosing.hypotheses(review, modality)
        except choosing.NothingLeft as reason:
            raise AgentFailure(f"{reason} Choose the other modality, or another subject.", "no_hypothesis") from None
        first = found.hypotheses[0]
        said = f"{counted(len(found.hypotheses), 'hypothesis', 'hypotheses')} for {modality}. {first.statement}"
        page = as_markdown(planned.page(f"Hypotheses on {found.subject}", said, planned.hypotheses(found)))
        return Completed(said, [handover.as_json(found), handover.document("hypotheses.md", page, "text/markdown")])
