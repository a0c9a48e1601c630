"""The Assay design agent: plans the three experiments, and says which columns their results have."""

from __future__ import annotations

from agentkit import AgentFailure, Completed, InputRequired, Outcome, SkillHandler, TaskContext, by_words, skill
from examples import handover
from examples.report.document import Section
from examples.report.markdown import as_markdown
from examples.research import designs, planned
from examples.research.results import Candidates, Hypotheses, Result, ScreeningAnalysis

TAKEN, GIVEN = ("application/json", "text/plain"), ("application/json", "text/markdown")


class AssayDesign(SkillHandler):
    """Designs experiments on paper: numbers of wells, cells and doses, computed from what is to be seen."""

    name = "Assay design"
    input_modes = ("text/plain", "application/json", "*/*")
    output_modes = ("application/json", "text/markdown", "text/plain")
    choose_skill = by_words(
        {
            "design-screening": ("screening", "hypotheses", "cell line"),
            "design-follow-up": ("follow-up", "expression", "hits"),
            "design-validation": ("validation", "candidates", "dose-response"),
        }
    )
    retry_safe = True

    @skill("design-screening", tags=["assay", "screening", "research", "demo"], input_modes=TAKEN, output_modes=GIVEN)
    async def design_screening(self, task: TaskContext) -> Outcome:
        """Takes hypotheses.json and plans the screening of the first one. Asks for the cell line."""
        hypotheses = handover.needed(task, Hypotheses)
        lines = designs.cell_lines()
        line = handover.chosen(
            task, "cell_line", {one: [one.casefold(), one.casefold().replace("-", "")] for one in lines}
        )
        if line is None:
            again = "I did not find one of them in your answer. " if task.slot == "cell_line" else ""
            question = f"{again}Which cell line: {', '.join(lines[:-1])} or {lines[-1]}?"
            schema = {"type": "string", "title": "Cell line", "enum": lines}
            return InputRequired(
                f"{question} {designs.fitting(hypotheses.subject)}".strip(), slot="cell_line", schema=schema
            )
        found = designs.screening_assay(hypotheses, line)
        said = f"A screening in {line}: {found.seeded_per_well:,} cells a well, {found.replicates} wells of each dose."
        return _designed(found, said, planned.screening_assay(found))

    @skill(
        "design-follow-up", tags=["follow-up", "expression", "research", "demo"], input_modes=TAKEN, output_modes=GIVEN
    )
    async def design_follow_up(self, task: TaskContext) -> Outcome:
        """Takes screening-analysis.json and hypotheses.json and plans an expression experiment with the best hits."""
        screened, hypotheses = handover.needed(task, ScreeningAnalysis), handover.needed(task, Hypotheses)
        if not screened.hits:
            raise AgentFailure(
                f"The screening has no hit to follow up (Z′ {screened.z_prime:.2f}). Repeat it, with more compounds or "
                "higher doses, and analyse the new data.",
                "no_hits",
            )
        try:
            found = designs.follow_up(screened, hypotheses.subject)
        except KeyError:
            raise AgentFailure(f"I know no genes of {hypotheses.subject[:60]}.", "unknown_subject") from None
        names = ", ".join(one.compound for one in found.conditions)
        said = f"Expression under a control and {names}, {found.replicates} cultures each."
        return _designed(found, said, planned.follow_up(found))

    @skill(
        "design-validation",
        tags=["validation", "dose-response", "research", "demo"],
        input_modes=TAKEN,
        output_modes=GIVEN,
    )
    async def design_validation(self, task: TaskContext) -> Outcome:
        """Takes candidates.json and plans a dose-response of each candidate."""
        found = designs.validation_assay(handover.needed(task, Candidates))
        said = f"{', '.join(found.compounds)} at {len(found.doses_um)} doses, {found.replicates} wells each."
        return _designed(found, said, planned.validation_assay(found))


def _designed(found: Result, said: str, section: Section) -> Completed:
    page = as_markdown(planned.page(section.heading, said, section))
    return Completed(said, [handover.as_json(found), handover.document(f"{found.called()}.md", page, "text/markdown")])
