"""The research plan, taken by hand in the order of its file: the report says what the uploaded data say."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path

import pytest

from agentkit import Completed, Failed, InputRequired, testing
from apps.orchestration import graphs
from apps.showcase import loading
from apps.showcase.loading import plan
from tests.showcase.pipelines import HANDLERS, data, research, sample

Runs = dict[str, testing.Run]


@pytest.fixture(scope="module")
def sampled() -> Runs:
    """The research on the sample files."""
    return asyncio.run(research())


def report(runs: Runs) -> str:
    (found,) = [artifact for artifact in runs["report"].artifacts if artifact.name == "report.md"]
    return found.parts[0]["text"]


def test_both_plans_are_plans() -> None:
    research_plan = plan("research")
    agents = {slug for _, slug in research_plan.agents()}
    assert len([step for step in research_plan.steps.values() if step.agent]) >= 10
    assert len(agents) >= 4
    assert agents <= HANDLERS.keys()
    assert [key for key, step in research_plan.steps.items() if step.person] == [
        "screening_data",
        "expression_data",
        "validation_data",
    ]
    assert {slug for _, slug in plan("trip").agents()} <= HANDLERS.keys()


def test_assay_and_molecules_and_flight_and_hotel_wait_for_the_same() -> None:
    waits = graphs.dependencies(plan("research"))
    assert waits["assay"] == waits["molecules"] == {"hypotheses"}
    assert waits["screening_data"] == {"assay", "molecules"}
    assert waits["candidates"] == {"screening", "expression"}
    trip = graphs.dependencies(plan("trip"))
    assert trip["flight"] == trip["hotel"] == {"weather"}
    assert trip["itinerary"] == {"weather", "flight", "hotel"}
    assert graphs.problems(plan("research")) == graphs.problems(plan("trip")) == []


@pytest.mark.parametrize("name", ["research", "trip"])
def test_each_step_names_a_skill_that_its_agent_has(name: str) -> None:
    for step in plan(name).steps.values():
        skills = [skill.id for skill in HANDLERS[step.agent].skills] if step.agent else []
        assert step.skill in skills if step.skill else len(skills) <= 1


def test_the_samples_lead_to_a_report_that_names_their_hits(sampled: Runs) -> None:
    runs = sampled
    assert data(runs["screening"])["hits"] == ["PX-07", "PX-12", "PX-03"]
    assert [one["compound"] for one in data(runs["candidates"])["candidates"]] == ["PX-07", "PX-03"]
    assert data(runs["candidates"])["set_aside"] == [
        {"name": "PX-12", "why": "Genes of stressed cells rise: ATFM4, DDTX3, HSPQ."}
    ]
    assert runs["report"].said == "Confirmed against FKN1 in MRC-5 cells: PX-07 (IC50 0.3624 µM)."
    text = report(runs)
    for said in (
        "3 of 10 compounds hit: PX-07, PX-12, PX-03.", "screening-chart.png", "expression-chart.png",
        "validation-chart.png", "## Limitations", "made up",
    ):  # fmt: skip
        assert said in text
    for upload in ("screening", "expression", "validation"):
        assert data(runs[upload])["source"]["sha256"][:16] in text


def test_the_report_comes_as_pdf_and_html_too_with_the_charts(sampled: Runs) -> None:
    delivered = {artifact.name: artifact.parts[0] for artifact in sampled["report"].artifacts}
    assert list(delivered) == [
        "report.md", "report.pdf", "report.html", "screening-chart.png", "expression-chart.png", "validation-chart.png",
    ]  # fmt: skip
    pdf = base64.b64decode(delivered["report.pdf"]["raw"])
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Subtype /Image") >= 3
    assert delivered["report.html"]["text"].count('src="data:image/png;base64,') == 3


async def test_a_damaged_chart_is_left_out_and_names_do_not_become_markup(sampled: Runs) -> None:
    sent = sampled["report"].task.message
    parts = []
    for part in sent.parts:
        if part.get("filename") == "screening-chart.png":
            part = {**part, "raw": base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()}
        elif isinstance(part.get("data"), dict) and "subject" in part["data"]:
            part = {"data": {**part["data"], "subject": "lungs\n\n# <b>own</b>"}}
        parts.append(part)
    run = await testing.run(HANDLERS["research-report"], {**sent.wire, "parts": parts})
    assert [artifact.name for artifact in run.artifacts][3:] == ["expression-chart.png", "validation-chart.png"]
    text = report({"report": run})
    assert text.startswith("# Lungs \\# &lt;b&gt;own&lt;/b&gt;: from the literature to candidates\n")


def test_what_is_selected_is_what_the_sample_has_tested(sampled: Runs) -> None:
    tested = {one["compound"] for one in data(sampled["screening"])["groups"]}
    assert tested == {one["id"] for one in data(sampled["molecules"])["chosen"]}
    assert "Tested, though not selected" not in report(sampled)


async def test_a_changed_screening_changes_the_conclusion() -> None:
    other = sample("screening.csv").replace("PX-07", "PX-99")
    runs = await research({"screening_data": other})
    assert runs["report"].said == "None of the candidates (PX-03) was confirmed against FKN1."
    assert "Tested, though not selected: PX-99." in report(runs)


async def test_a_changed_expression_changes_the_candidates() -> None:
    stressed = "\n".join(
        ",".join([*cells[:7], *(f"{int(cell) * 5}" for cell in cells[7:10]), *cells[10:]])
        if cells[0] == "GADZ"
        else line
        for line in sample("expression.csv").splitlines()
        if (cells := line.split(","))
    )
    runs = await research({"expression_data": stressed})
    assert [one["compound"] for one in data(runs["candidates"])["candidates"]] == ["PX-03"]


async def test_a_changed_validation_changes_the_report() -> None:
    swapped = sample("validation.csv").replace("PX-07", "X").replace("PX-03", "PX-07").replace("X,", "PX-03,")
    assert (await research({"validation_data": swapped}))["report"].said.endswith("PX-03 (IC50 0.3624 µM).")


async def test_a_screening_without_hits_ends_the_research_with_a_sentence() -> None:
    weak = "\n".join(
        ",".join([*line.split(",")[:4], str(96 + at % 7)]) if ",sample," in line else line
        for at, line in enumerate(sample("screening.csv").splitlines())
    )
    runs = await research({"screening_data": weak})
    assert list(runs)[-1] == "follow_up"
    assert isinstance(runs["follow_up"].outcome, Failed)
    assert runs["follow_up"].said.startswith("The screening has no hit to follow up")


async def test_other_answers_lead_to_other_molecules_and_cells() -> None:
    runs = await research(answers={"modality": "biologics", "cell_line": "A549"})
    assert data(runs["molecules"])["target"] == "IGX5"
    assert data(runs["assay"])["cell_line"] == "A549"
    assert "in A549 cells" in runs["report"].said


async def test_an_upload_of_the_wrong_shape_stops_at_a_question() -> None:
    runs = await research({"expression_data": "gene,PX-07_1,PX-07_2\nA,1,2\n"})
    assert isinstance(runs["expression"].outcome, InputRequired)
    assert runs["expression"].said == "There is no control: name its columns control_1, control_2 and so on."
    good = await runs["expression"].answer("here", files={"expression.csv": sample("expression.csv").encode()})
    assert isinstance(good.outcome, Completed)
    assert data(good)["signatures"][0]["pathway_measured"] == 8  # the design of the first message still holds


def test_the_page_about_it_names_what_is_there() -> None:
    root = Path(loading.__file__).parents[2]
    text = (root / "docs/research-pipeline.md").read_text()
    for path in re.findall(r"`(apps/[\w./-]+)`", text):
        assert (root / path).exists(), path
    for key, step in plan("research").steps.items():
        assert f"| `{key}` | {f'`{step.agent}`' if step.agent else '**a person**'} |" in text
