"""The pipeline's agents without uploads: artifacts, questions and refusals."""

from __future__ import annotations

from typing import Any

from agentkit import Completed, Failed, InputRequired, testing
from examples.research import planning
from examples.research.agents import (
    AssayDesign,
    ClinicalCandidates,
    HypothesisMaker,
    Literature,
    Molecules,
    ResearchReport,
)
from tests.examples.pipelines import data, message
from tests.examples.saying import form

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


async def hypothesised(modality: str = "small molecules") -> dict[str, Any]:
    sent = message(f"By {modality}, please.", [{"data": await reviewed()}])
    return data(await testing.run(HypothesisMaker, sent))


async def sent(handler: object, skill: str, *results: dict[str, Any], text: str = "Go on.") -> testing.Run:
    metadata = {"skillId": skill} if skill else {}
    return await testing.run(handler, message(text, [{"data": one} for one in results], metadata=metadata))


def failure(run: testing.Run) -> str:
    assert isinstance(run.outcome, Failed), run.said
    return run.said


def screened(**more: Any) -> dict[str, Any]:
    hits = ["A-1"] if more.get("hit", True) else []
    result = {"kind": "screening-analysis", "source": SOURCE, "z_prime": 0.7, "usable": True, "rules": [], "hits": hits}
    return result | {"groups": [HIT | more]}


def expressed(**more: Any) -> dict[str, Any]:
    result = {"kind": "expression-analysis", "source": SOURCE, "rules": [], "changes": []}
    return result | {"signatures": [SIGNATURE | more]}


async def test_the_literature_is_weighed_and_a_subject_that_is_not_known_asked_for() -> None:
    run = await testing.run(Literature, "What is known about lung fibrosis?")
    assert [artifact.name for artifact in run.artifacts] == ["literature-review.json", "literature-review.md"]
    found = data(run)
    scores = {one["target"]: one["score"] for one in found["targets"]}
    assert scores == {"FKN1": 3 + 2 + 1 - 1, "IGX5": 2 + 1, "CLX2": 2 - 3, "NMO3": 1 - 2}
    assert "made up" in found["note"]
    words = "My made-up papers are about lung fibrosis and osteoarthritis. Which one should I review?"
    for text in ("the moon", "lung or joint"):
        run = await testing.run(Literature, text)
        assert isinstance(run.outcome, InputRequired)
        assert run.said == words
    assert data(await run.answer(form(subject="osteoarthritis")))["subject"] == "osteoarthritis"


async def test_hypotheses_ask_for_the_modality_until_it_is_said() -> None:
    first = await sent(HypothesisMaker, "", await reviewed())
    assert isinstance(first.outcome, InputRequired)
    assert first.outcome.schema == {"type": "string", "title": "Modality", "enum": ["small molecules", "biologics"]}
    again = await first.answer("both small molecules and biologics")
    assert isinstance(again.outcome, InputRequired)
    assert again.said.startswith("I did not find any of these")
    by_form = data(await again.answer(form(modality="biologics")))
    assert [one["target"] for one in by_form["hypotheses"]] == ["IGX5"]
    assert {one["name"] for one in by_form["set_aside"]} == {"FKN1", "CLX2", "NMO3"}
    in_words = await again.answer("Small molecules.")
    assert [one["target"] for one in data(in_words)["hypotheses"]] == ["FKN1", "IGX5"]


async def test_hypotheses_need_a_sound_review_which_may_be_of_the_task_that_is_referred_to() -> None:
    assert failure(await testing.run(HypothesisMaker, "biologics")) == (
        "I need literature-review.json, which the agent Literature (`research-literature`) delivers: send it along as "
        "JSON, or refer to the task that delivered it."
    )
    broken = await reviewed() | {"targets": [{"target": 7}]}
    assert "cannot be read (targets.0." in failure(await sent(HypothesisMaker, "", broken, text="biologics"))
    earlier = await testing.run(Literature, "osteoarthritis")
    run = await testing.run(HypothesisMaker, "biologics", references=[earlier.as_reference()])
    assert data(run)["hypotheses"][0]["target"] == "CDP7"
    review = await reviewed("osteoarthritis")
    inside = review | {"targets": [one for one in review["targets"] if one["inside"]]}
    why = failure(await sent(HypothesisMaker, "", inside, text="biologics"))
    assert "KNS6: It is inside the cell, where biologics do not go." in why


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
    words = "The cell line is A549: design the screening"
    assert data(await sent(AssayDesign, "", await hypothesised(), text=words))["kind"] == "screening-assay"


async def test_molecules_and_biologics_are_selected_by_rules_of_their_own() -> None:
    hypotheses = await hypothesised()
    found = data(run := await sent(Molecules, "", hypotheses))
    assert [one["id"] for one in found["chosen"]][:3] == ["PX-07", "PX-12", "PX-03"]
    assert len(found["chosen"]) == 10
    assert len(found["chosen"]) + len(found["refused"]) == found["library"]["rows"] == 20
    assert [artifact.name for artifact in run.artifacts] == ["selection.json", "selection.csv", "selection.md"]
    found = data(await sent(Molecules, "", await hypothesised("biologics")))
    assert [one["id"] for one in found["chosen"]] == ["MX-02", "MX-01", "MX-05"]
    assert {one["name"]: one["why"] for one in found["refused"]} == {
        "MX-03": "It binds at 14 nM only.",
        "MX-04": "It aggregates: 0.61.",
    }
    hypotheses["hypotheses"][0]["target"] = "NEW1"
    why = failure(await sent(Molecules, "", hypotheses))
    assert why.startswith("The library has nothing for NEW1: it has molecules for FKN1, NMO3, KNS6.")


async def test_the_follow_up_takes_the_lowest_dose_that_hits() -> None:
    result = screened()
    result["groups"] += [HIT | {"dose_um": 0.1}, HIT | {"dose_um": 0.01, "hit": False}]
    found = data(await sent(AssayDesign, "design-follow-up", result, await hypothesised()))
    assert found["conditions"] == [{"compound": "A-1", "dose_um": 0.1}]
    assert found["columns"][:4] == ["gene", "control_1", "control_2", "control_3"]
    why = failure(await sent(AssayDesign, "design-follow-up", screened(hit=False), await hypothesised()))
    assert why.startswith("The screening has no hit to follow up (Z′ 0.70). Repeat it")


async def test_candidates_are_what_both_experiments_speak_for_and_their_validation_is_designed() -> None:
    found = data(await sent(ClinicalCandidates, "", screened(), expressed()))
    (candidate,) = found["candidates"]
    assert (candidate["compound"], candidate["score"]) == ("A-1", (0.8 + 0.75) / 2)
    assert found["rules"] == planning.CANDIDATE_RULES
    run = await sent(AssayDesign, "design-validation", found)
    assert isinstance(run.outcome, Completed)
    assert (data(run)["compounds"], len(data(run)["doses_um"])) == (["A-1"], 8)


async def test_each_rule_can_leave_no_candidate() -> None:
    for signature, why in (
        ({"compound": "Z-9"}, "Z-9: It is no hit of the screening. A-1: Its expression was not measured."),
        ({"pathway_measured": 0, "pathway_down": 0}, "None of the genes that drive the disease was measured."),
        ({"pathway_down": 1}, "Only 1 of 4 genes that drive the disease fall."),
        ({"stress_up": ["HSPQ"]}, "Genes of stressed cells rise: HSPQ."),
        ({"elsewhere": 4}, "4 other genes change."),
    ):
        said = failure(await sent(ClinicalCandidates, "", screened(), expressed(**signature)))
        assert said.startswith("No compound meets the rules, so there is nothing to validate.")
        assert why in said


async def test_a_report_on_half_of_it_is_refused() -> None:
    said = failure(await sent(ResearchReport, "", await reviewed(), await hypothesised()))
    assert said.startswith("I need screening-assay.json, which the agent Assay design (`research-assays`) delivers")
