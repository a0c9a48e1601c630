"""The Candidates agent: which compounds both experiments speak for."""

from __future__ import annotations

from agentkit import AgentFailure, Completed, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.report.markdown import as_markdown
from examples.research import choosing, measured, planned
from examples.research.results import ExpressionAnalysis, ScreeningAnalysis


class ClinicalCandidates(SkillHandler):
    """Combines a screening and an expression analysis by stated rules, and says for each compound why or why not."""

    name = "Candidates"
    skills = (
        Skill(
            "choose-candidates",
            "Choose candidates",
            "Takes screening-analysis.json and expression-analysis.json and chooses up to three compounds: hits that "
            "lower the genes of the disease without stress or much else. A demonstration, no medical judgement.",
            tags=["candidates", "decision", "research", "demo"],
            examples=["Choose the candidates"],
            input_modes=["application/json", "text/plain"],
            output_modes=["application/json", "text/markdown"],
        ),
    )
    input_modes = ("text/plain", "application/json", "*/*")
    output_modes = ("application/json", "text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        try:
            found = choosing.candidates(
                handover.needed(task, ScreeningAnalysis), handover.needed(task, ExpressionAnalysis)
            )
        except choosing.NothingLeft as reason:
            raise AgentFailure(f"{reason} Follow up other hits, or screen other molecules.", "no_candidates") from None
        names = ", ".join(f"{one.compound} ({one.score:.2f})" for one in found.candidates)
        said = f"Candidates, by score: {names}."
        page = as_markdown(planned.page("Candidates", said, measured.candidates(found)))
        return Completed(said, [handover.as_json(found), handover.document("candidates.md", page, "text/markdown")])
