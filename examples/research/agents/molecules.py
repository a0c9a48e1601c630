"""The Molecules agent: chooses what to test from a small made-up library."""

from __future__ import annotations

from agentkit import AgentFailure, Completed, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.report.markdown import as_markdown
from examples.research import library, planned
from examples.research.results import Hypotheses
from examples.research.tables import written


class Molecules(SkillHandler):
    """Chooses molecules for a hypothesis from a made-up library, by properties computed from their formulas."""

    name = "Molecules"
    skills = (
        Skill(
            "select-molecules",
            "Select molecules",
            "Takes hypotheses.json and picks up to ten molecules for its first target: computes weight, acceptors and "
            "ligand efficiency from the formulas, applies the rules of Lipinski and Veber, and ranks by affinity. The "
            "library is made up.",
            tags=["molecules", "lipinski", "chemistry", "research", "demo"],
            examples=["Select molecules for these hypotheses"],
            input_modes=["application/json", "text/plain"],
            output_modes=["application/json", "text/csv", "text/markdown"],
        ),
    )
    input_modes = ("text/plain", "application/json", "*/*")
    output_modes = ("application/json", "text/csv", "text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        hypotheses = handover.needed(task, Hypotheses)
        try:
            found = library.select(hypotheses.hypotheses[0].target, hypotheses.modality)
        except library.NotInLibrary as reason:
            raise AgentFailure(f"{reason} Choose a hypothesis on one of those.", "not_in_library") from None
        names = ", ".join(one.id for one in found.chosen)
        said = f"{len(found.chosen)} of {found.library.rows} {found.modality} for {found.target}: {names}."
        page = as_markdown(planned.page(f"Molecules for {found.target}", said, planned.selection(found)))
        table = written(*planned.selected_rows(found))
        delivered = [
            handover.as_json(found),
            handover.document("selection.csv", table, "text/csv"),
            handover.document("selection.md", page, "text/markdown"),
        ]
        return Completed(said, delivered)
