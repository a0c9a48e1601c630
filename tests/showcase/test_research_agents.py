"""The agents of the pipeline that upload nothing: what they deliver, what they ask, and what they refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentkit import Completed, Failed, InputRequired, testing
from apps.showcase.research import choosing, library
from apps.showcase.research.agents.assays import AssayDesign
from apps.showcase.research.agents.candidates import ClinicalCandidates
from apps.showcase.research.agents.hypotheses import Hypotheses
from apps.showcase.research.agents.literature import Literature
from apps.showcase.research.agents.molecules import Molecules
from apps.showcase.research.agents.report import ResearchReport
from tests.showcase.pipelines import HANDLERS, data, message
from tests.showcase.saying import form
from tests.showcase.test_any_text import TEXTS

HIT = {
    "compound": "A-1", "dose_um": 1.0, "replicates": 3, "mean": 20.0, "inhibition": 80.0, "g": 9.0, "low": 5.0,
    "high": 13.0, "p": 0.001, "q": 0.002, "hit": True,
}  # fmt: skip
SOURCE = {"file": "x.csv", "sha256": "0", "rows": 3}
SIGNATURE = {
    "compound": "A-1", "tested": 9, "changed": 5, "pathway_measured": 4, "pathway_down": 3, "stress_up": [],
    "elsewhere": 2,
}  # fmt: skip


async def reviewed(subject: str = "lung fibrosis") -> dict[str, Any]:
    return data(await testing.run(Literature, f"What is known about {subject}?"))


async def hypothesised(subject: str = "lung fibrosis", modality: str = "small molecules") -> dict[str, Any]:
    sent = message(f"By {modality}, please.", [{"data": await reviewed(subject)}])
    return data(await testing.run(Hypotheses, sent))


async def sent(handler: object, skill: str, *results: dict[str, Any], text: str = "Go on.") -> testing.Run:
    metadata = {"skillId": skill} if skill else {}
    return await testing.run(handler, message(text, [{"data": one} for one in results], metadata=metadata))


def screened(**more: Any) -> dict[str, Any]:
    hits = ["A-1"] if more.get("hit", True) else []
    result = {"kind": "screening-analysis", "source": SOURCE, "z_prime": 0.7, "usable": True, "rules": [], "hits": hits}
    return result | {"groups": [HIT | more]}


def expressed(**more: Any) -> dict[str, Any]:
    result = {"kind": "expression-analysis", "source": SOURCE, "rules": [], "changes": []}
    return result | {"signatures": [SIGNATURE | more]}


async def test_the_literature_is_weighed() -> None:
    run = await testing.run(Literature, "What is known about lung fibrosis?")
    assert [artifact.name for artifact in run.artifacts] == ["literature-review.json", "literature-review.md"]
    found = data(run)
    scores = {one["target"]: one["score"] for one in found["targets"]}
    assert scores == {"FKN1": 3 + 2 + 1 - 1, "IGX5": 2 + 1, "CLX2": 2 - 3, "NMO3": 1 - 2}
    assert "made up" in found["note"]


@pytest.mark.parametrize("text", ["", "the moon", "lung or joint"])
async def test_a_subject_that_is_not_known_is_asked_for(text: str) -> None:
    run = await testing.run(Literature, text or "review")
    assert isinstance(run.outcome, InputRequired)
    assert run.said == "My made-up papers are about lung fibrosis and osteoarthritis. Which of these shall I review?"
    answered = await run.answer(form(subject="osteoarthritis"))
    assert data(answered)["subject"] == "osteoarthritis"


async def test_hypotheses_ask_for_the_modality_until_it_is_said() -> None:
    first = await sent(Hypotheses, "", await reviewed())
    assert isinstance(first.outcome, InputRequired)
    assert first.outcome.schema == {"type": "string", "title": "Modality", "enum": ["small molecules", "biologics"]}
    again = await first.answer("both small molecules and biologics")
    assert isinstance(again.outcome, InputRequired)
    assert again.said.startswith("I did not find one of the two")
    by_form = await again.answer(form(modality="biologics"))
    assert [one["target"] for one in data(by_form)["hypotheses"]] == ["IGX5"]
    assert {one["name"] for one in data(by_form)["set_aside"]} == {"FKN1", "CLX2", "NMO3"}
    in_words = await again.answer("Small molecules.")
    assert [one["target"] for one in data(in_words)["hypotheses"]] == ["FKN1", "IGX5"]


async def test_hypotheses_without_a_review_are_refused() -> None:
    run = await testing.run(Hypotheses, "biologics")
    assert isinstance(run.outcome, Failed)
    assert run.said == (
        "I need literature-review.json, which the agent Literature (`research-literature`) delivers: send it along as "
        "JSON, or refer to the task that delivered it."
    )


async def test_a_review_that_was_tampered_with_is_refused() -> None:
    run = await sent(Hypotheses, "", await reviewed() | {"targets": [{"target": 7}]}, text="biologics")
    assert isinstance(run.outcome, Failed)
    assert "cannot be read (targets.0." in run.said


async def test_a_review_is_found_in_the_task_that_is_referred_to() -> None:
    earlier = await testing.run(Literature, "osteoarthritis")
    run = await testing.run(Hypotheses, "biologics", references=[earlier.as_reference()])
    assert data(run)["hypotheses"][0]["target"] == "CDP7"


async def test_where_no_target_is_left_it_is_said_why() -> None:
    review = await reviewed("osteoarthritis")
    inside = review | {"targets": [one for one in review["targets"] if one["inside"]]}
    run = await sent(Hypotheses, "", inside, text="biologics")
    assert isinstance(run.outcome, Failed)
    assert "KNS6: It is inside the cell, where biologics do not go." in run.said


async def test_the_assay_asks_for_the_cell_line_and_fills_wells_with_its_cells() -> None:
    first = await sent(AssayDesign, "design-screening", await hypothesised())
    assert isinstance(first.outcome, InputRequired)
    assert first.said == (
        "Which cell line: MRC-5, A549, SW1353 or HEK293? For lung fibrosis I would take MRC-5: lung fibroblasts."
    )
    assert isinstance((await first.answer("HeLa")).outcome, InputRequired)
    slow, fast = data(await first.answer("mrc5, please")), data(await first.answer(form(cell_line="HEK293")))
    assert slow["seeded_per_well"] == round(20_000 / 2 ** (72 / 45), -2) == 6_600
    assert fast["seeded_per_well"] == round(50_000 / 2 ** (72 / 20), -2) == 4_100
    assert slow["replicates"] == 4


async def test_which_design_is_meant_is_found_in_the_words() -> None:
    hypotheses = await hypothesised()
    run = await testing.run(AssayDesign, message("The cell line is A549: design the screening", [{"data": hypotheses}]))
    assert data(run)["kind"] == "screening-assay"


def test_properties_are_computed_from_the_formula() -> None:
    assert library.atoms("C9H8O4") == {"C": 9, "H": 8, "O": 4}
    row = {
        "id": "X",
        "formula": "C9H8O4",
        "logp": "1.2",
        "donors": "1",
        "rotatable_bonds": "3",
        "polar_surface": "63.6",
    }
    figures = library.small_molecule(row | {"affinity_T": "5"}, "T").figures
    assert figures["weight"] == pytest.approx(180.16, abs=0.01)
    assert figures["acceptors"] == 4
    assert figures["efficiency"] == pytest.approx(1.37 * 5 / 13, abs=0.001)
    for wrong in ("", "c9h8", "C9 H8", "Xy2"):
        with pytest.raises(ValueError, match=r"no formula|no element"):
            library.atoms(wrong)


def test_a_molecule_may_be_beyond_one_limit_of_lipinski_but_not_two() -> None:
    chosen = {one.id for one in library.select("FKN1", "small molecules").chosen}
    rows = {one["id"]: one for one in library.rows_of(library.SMALL)}
    greasy, large = library.small_molecule(rows["PX-16"], "FKN1"), library.small_molecule(rows["PX-13"], "FKN1")
    assert (library.passed_limits(greasy), "PX-16" in chosen) == (["logp 8.2"], True)
    assert (library.passed_limits(large), "PX-13" in chosen) == (["weight 620.7", "acceptors 12"], False)


async def test_molecules_are_selected_by_rules_and_affinity() -> None:
    found = data(run := await sent(Molecules, "", await hypothesised()))
    assert [one["id"] for one in found["chosen"]][:3] == ["PX-07", "PX-12", "PX-03"]
    assert len(found["chosen"]) == 10
    assert len(found["chosen"]) + len(found["refused"]) == found["library"]["rows"] == 20
    assert [artifact.name for artifact in run.artifacts] == ["selection.json", "selection.csv", "selection.md"]


async def test_biologics_are_selected_by_rules_of_their_own() -> None:
    found = data(await sent(Molecules, "", await hypothesised(modality="biologics")))
    assert [one["id"] for one in found["chosen"]] == ["MX-02", "MX-01", "MX-05"]
    assert {one["name"]: one["why"] for one in found["refused"]} == {
        "MX-03": "It binds at 14 nM only.",
        "MX-04": "It aggregates: 0.61.",
    }


async def test_a_target_that_the_library_does_not_know_is_refused() -> None:
    hypotheses = await hypothesised()
    hypotheses["hypotheses"][0]["target"] = "NEW1"
    run = await sent(Molecules, "", hypotheses)
    assert isinstance(run.outcome, Failed)
    assert run.said.startswith("The library has nothing for NEW1: it has molecules for FKN1, NMO3, KNS6.")


async def test_the_follow_up_takes_the_lowest_dose_that_hits() -> None:
    result = screened()
    result["groups"] += [HIT | {"dose_um": 0.1}, HIT | {"dose_um": 0.01, "hit": False}]
    found = data(await sent(AssayDesign, "design-follow-up", result, await hypothesised()))
    assert found["conditions"] == [{"compound": "A-1", "dose_um": 0.1}]
    assert found["columns"][:4] == ["gene", "control_1", "control_2", "control_3"]


async def test_without_hits_there_is_nothing_to_follow_up() -> None:
    run = await sent(AssayDesign, "design-follow-up", screened(hit=False), await hypothesised())
    assert isinstance(run.outcome, Failed)
    assert run.said.startswith("The screening has no hit to follow up (Z′ 0.70). Repeat it")


async def test_candidates_are_what_both_experiments_speak_for() -> None:
    found = data(await sent(ClinicalCandidates, "", screened(), expressed()))
    (candidate,) = found["candidates"]
    assert (candidate["compound"], candidate["score"]) == ("A-1", (0.8 + 0.75) / 2)
    assert found["rules"] == choosing.RULES


@pytest.mark.parametrize(
    ("signature", "why"),
    [
        ({"compound": "Z-9"}, "Z-9: It is no hit of the screening. A-1: Its expression was not measured."),
        ({"pathway_measured": 0, "pathway_down": 0}, "None of the genes that drive the disease was measured."),
        ({"pathway_down": 1}, "Only 1 of 4 genes that drive the disease fall."),
        ({"stress_up": ["HSPQ"]}, "Genes of stressed cells rise: HSPQ."),
        ({"elsewhere": 4}, "4 other genes change."),
    ],
)
async def test_each_rule_can_leave_no_candidate(signature: dict[str, Any], why: str) -> None:
    run = await sent(ClinicalCandidates, "", screened(), expressed(**signature))
    assert isinstance(run.outcome, Failed)
    assert run.said.startswith("No compound meets the rules, so there is nothing to validate.")
    assert why in run.said


async def test_the_validation_is_designed_for_the_candidates() -> None:
    chosen = data(await sent(ClinicalCandidates, "", screened(), expressed()))
    run = await sent(AssayDesign, "design-validation", chosen)
    assert isinstance(run.outcome, Completed)
    assert (data(run)["compounds"], len(data(run)["doses_um"])) == (["A-1"], 8)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("slug", [slug for slug in HANDLERS if slug.startswith(("research-", "trip-"))])
async def test_each_agent_answers_asks_or_declines_any_text_in_words(slug: str, text: Any) -> None:
    async with asyncio.timeout(60):
        run = await testing.run(HANDLERS[slug], text)
    assert run.said.strip()
    assert not run.artifacts


async def test_a_report_on_half_of_it_is_refused() -> None:
    run = await sent(ResearchReport, "", await reviewed(), await hypothesised())
    assert isinstance(run.outcome, Failed)
    assert run.said.startswith("I need screening-assay.json, which the agent Assay design (`research-assays`) delivers")
