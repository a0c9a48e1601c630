"""Results match the uploaded tables; refusals say what to do."""

from __future__ import annotations

import pytest

from agentkit import Completed, InputRequired, testing
from examples.research.agents import DataAnalysis
from tests.examples.pipelines import csv_part, data, message, sample

SCREENING = [
    "compound,role,dose_um,replicate,response",
    *(f"DMSO,negative,0,{at},{value}" for at, value in enumerate((98, 100, 102), 1)),
    *(f"ref,positive,10,{at},{value}" for at, value in enumerate((8, 10, 12), 1)),
    *(f"A-1,sample,10,{at},{value}" for at, value in enumerate((54, 55, 56), 1)),
    *(f"B-2,sample,10,{at},{value}" for at, value in enumerate((99, 100, 101), 1)),
]
EXPRESSION = [
    "gene,control_1,control_2,control_3,A-1_1,A-1_2,A-1_3",
    "UP,7,15,7,31,63,31",
    "SAME,7,15,7,7,15,7",
    "DOWN,31,32,31,7,8,7",
    "FLAT,5,5,5,5,5,5",
]
VALIDATION = sample("validation.csv").splitlines()


async def analysed(skill: str, lines: list[str] | str, name: str = "data.csv") -> testing.Run:
    content = lines if isinstance(lines, str) else "\n".join(lines) + "\n"
    sent = message("Analyse this.", [csv_part(name, content)], metadata={"skillId": f"analyse-{skill}"})
    return await testing.run(DataAnalysis, sent)


async def refused(skill: str, lines: list[str] | str) -> str:
    run = await analysed(skill, lines)
    assert isinstance(run.outcome, InputRequired), run.said
    assert run.outcome.slot == "file"
    assert run.artifacts == []
    return run.said


def changed(lines: list[str], old: str, new: str) -> list[str]:
    assert any(old in line for line in lines)
    return [line.replace(old, new) for line in lines]


def without(lines: list[str], *words: str) -> list[str]:
    return [line for line in lines if not any(word in line for word in words)]


async def test_a_screening_is_computed() -> None:
    run = await analysed("screening", SCREENING)
    assert [artifact.name for artifact in run.artifacts] == [
        "screening-analysis.json", "screening-ranking.csv", "screening-chart.png",
    ]  # fmt: skip
    assert run.said == "1 of 2 compounds hit: A-1. Z′ is 0.87."
    found = data(run)
    hit, other = found["groups"]
    assert (hit["compound"], hit["inhibition"], hit["hit"]) == ("A-1", 50.0, True)
    assert hit["g"] == pytest.approx(45 / 2.5**0.5 * (1 - 3 / 15))  # towards the positive control, pooled sd √2.5
    assert (other["compound"], other["inhibition"], other["g"], other["q"]) == ("B-2", 0.0, 0.0, pytest.approx(1.0))
    assert found["z_prime"] == pytest.approx(1 - 12 / 90)
    assert (found["source"]["file"], found["source"]["rows"]) == ("data.csv", 12)
    ranking = run.artifacts[1].parts[0]["text"].splitlines()
    assert ranking[0] == "compound,dose_um,replicates,mean,inhibition,g,low,high,p,q,hit"
    assert ranking[1].startswith("A-1,10,3,55,50,")
    assert run.artifacts[2].parts[0]["mediaType"] == "image/png"
    another_dialect = [line.replace(",", ";").replace("55", "55,0") for line in SCREENING]
    assert data(await analysed("screening", another_dialect))["groups"] == found["groups"]


async def test_controls_that_overlap_give_no_hits_but_a_note() -> None:
    found = data(await analysed("screening", changed(SCREENING, "DMSO,negative,0,1,98", "DMSO,negative,0,1,12")))
    assert (found["usable"], found["hits"]) == (False, [])
    assert "the controls overlap" in found["notes"][0]


async def test_a_screening_that_cannot_be_computed_is_asked_for_again() -> None:
    for lines, why in (
        ("", "“data.csv”. It is empty."),
        (SCREENING[:1], "no rows"),
        (changed(SCREENING, "response", "signal"), "lacks the column “response”; it has “compound”, “role”"),
        (without(SCREENING, "negative"), "There are no wells of the negative control"),
        (without(SCREENING, "positive,10,2", "positive,10,3"), "There is one well of the positive control"),
        (without(SCREENING, "sample"), "There is nothing but controls"),
        (changed(SCREENING, "sample,10,1,54", "sample,10,1,high"), "Row 8 has “high” where the number of"),
        (changed(SCREENING, "sample,10,1,54", "sample,10,1,"), "Row 8 has nothing where the number"),
        (changed(SCREENING, "A-1,sample,10,1", "=A1(),sample,10,1"), "Row 8 has “=A1()” as its compound"),
        (changed(SCREENING, "A-1,sample", "A-1,blank"), "has the role “blank”: write sample, negative or positive"),
        (changed(SCREENING, "A-1,sample,10,1,54", "A-1,sample,10,1,1e300"), "Row 8 has 1e300 as its response, beyond"),
        (without(SCREENING, "sample,10,2", "sample,10,3"), "A-1 at 10 µM has one replicate: send at least two"),
        ([*SCREENING[:1], *(line.rsplit(",", 1)[0] + ",9" for line in SCREENING[1:])], "send the wells, not"),
    ):  # fmt: skip
        assert why in await refused("screening", lines)


async def test_a_file_that_is_missing_or_corrected_is_the_answer() -> None:
    run = await testing.run(DataAnalysis, message("Go on", metadata={"skillId": "analyse-screening"}))
    assert isinstance(run.outcome, InputRequired)
    assert run.said.startswith("I need a CSV file with the columns “compound”, “role”, “dose_um”")
    first = await analysed("screening", without(SCREENING, "negative"))
    again = await first.answer("here", files={"note.pdf": b"%PDF-1.4"})
    assert isinstance(again.outcome, InputRequired)
    good = await again.answer("here", files={"better.csv": "\n".join(SCREENING).encode()})
    assert isinstance(good.outcome, Completed)
    assert data(good)["source"]["file"] == "better.csv"


async def test_expression_is_computed() -> None:
    design = {"kind": "follow-up-design", "subject": "s", "conditions": [{"compound": "A-1", "dose_um": 1}], "hours": 1}
    design |= {"replicates": 3, "pathway_genes": ["DOWN", "GONE"], "stress_genes": ["UP"], "columns": ["gene"]}
    parts = [csv_part("genes.csv", "\n".join(EXPRESSION)), {"data": design}]
    sent = message("Analyse this.", parts, metadata={"skillId": "analyse-expression"})
    run = await testing.run(DataAnalysis, sent)
    found = data(run)
    up = next(one for one in found["changes"] if one["gene"] == "UP")
    assert up["log2_fold_change"] == pytest.approx(2.0)  # 3, 4, 3 become 5, 6, 5
    assert up["p"] == pytest.approx(0.01316, abs=1e-4)  # t = 2 / √(2/9) = 4.243, four degrees of freedom
    assert found["signatures"] == [
        {
            "compound": "A-1", "tested": 3, "changed": 2, "pathway_measured": 1, "pathway_down": 1, "stress_up": ["UP"],
            "elsewhere": 0,
        }
    ]  # fmt: skip
    assert found["notes"] == ["1 genes have no spread at all and were not tested."]
    assert "SAME,0,1,1" in run.artifacts[1].parts[0]["text"]


async def test_expression_that_cannot_be_computed_is_asked_for_again() -> None:
    for lines, why in (
        (changed(EXPRESSION, "gene", "name"), "lacks the column “gene”"),
        (changed(EXPRESSION, "control", "vehicle"), "There is no control"),
        (["gene,control_1,control_2", "UP,1,2"], "nothing but the control"),
        (changed(EXPRESSION, "A-1_3", "B-2_1"), "B-2 has one replicate"),
        (changed(EXPRESSION, "A-1_3", "remark"), "The column “remark” is none that I know"),
        (changed(EXPRESSION, "SAME", "UP"), "The gene UP is there 2 times"),
        (changed(EXPRESSION, "UP,7", "UP,-7"), "values below nought"),
        (changed(EXPRESSION, "UP,7", "UP,n/a"), "Row 2 has “n/a” where the number of the column “control_1” belongs"),
    ):
        assert why in await refused("expression", lines)


async def test_a_validation_is_computed() -> None:
    found = data(await analysed("validation", VALIDATION))
    curves = {curve["compound"]: curve for curve in found["curves"]}
    assert found["confirmed"] == ["PX-07"]
    assert curves["PX-07"]["ic50_um"] == pytest.approx(0.38, rel=0.15)
    assert curves["PX-03"]["ic50_um"] == pytest.approx(4.6, rel=0.15)
    assert curves["PX-03"]["why"].endswith("more than 1 µM.")
    flat = [
        line if "PX-07" not in line else f"{line.rsplit(',', 1)[0]},{97 + at % 3}" for at, line in enumerate(VALIDATION)
    ]
    found = data(await analysed("validation", flat))
    assert found["confirmed"] == []
    assert "Its highest effect is" in next(one["why"] for one in found["curves"] if one["compound"] == "PX-07")


async def test_a_validation_that_cannot_be_computed_is_asked_for_again() -> None:
    for lines, why in (
        (without(VALIDATION, "vehicle"), "There is no control: at least two rows need the dose 0"),
        (without(VALIDATION, "PX"), "nothing but the vehicle"),
        (without(VALIDATION, "PX-07,1,", "PX-07,3,", "PX-07,10,", "PX-07,30,", "PX-07,100,"), "PX-07 has 3 doses"),
        (without(VALIDATION, "PX-07,1,2", "PX-07,1,3"), "PX-07 at 1 µM has one replicate"),
        (changed(VALIDATION, "PX-07,1,1", "PX-07,-1,1"), "doses below nought"),
        (changed(VALIDATION, "PX-07,0.03,1,", "PX-07,1e-30,1,"), "doses outside 1e-09 to 1e+09 µM"),
        (changed(VALIDATION, "vehicle,0,1,", "vehicle,0,1,-9999"), "The mean of the vehicle is not above nought"),
        (changed(VALIDATION, "PX-07,1,1", "PX-07,one,1"), "has “one” where the number of the column “dose_um” belongs"),
    ):
        assert why in await refused("validation", lines)
