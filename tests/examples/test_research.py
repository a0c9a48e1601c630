"""The research pipeline's agents: what they deliver, ask and refuse, and statistics that match hand calculations."""

import math

import pytest

from agentkit import Failed, InputRequired, testing
from examples.research.agents import DataAnalysis, HypothesisMaker, Literature, Molecules
from examples.research.statistics import NoSpread, false_discovery_rates, fit_curve, hedges, two_sided, welch, z_prime
from tests.examples.saying import DATA, data, form, message, names_of


async def test_the_literature_on_a_subject_is_weighed():
    run = await testing.run(Literature, "What is known about lung fibrosis?")
    assert names_of(run) == ["literature-review.json", "literature-review.md"]
    scores = {one["target"]: one["score"] for one in data(run)["targets"]}
    assert scores == {"FKN1": 3 + 2 + 1 - 1, "IGX5": 2 + 1, "CLX2": 2 - 3, "NMO3": 1 - 2}
    run = await testing.run(Literature, "the moon")
    assert isinstance(run.outcome, InputRequired)
    assert data(await run.answer(form(subject="osteoarthritis")))["subject"] == "osteoarthritis"


async def test_hypotheses_need_a_modality_and_a_review():
    review = data(await testing.run(Literature, "What is known about lung fibrosis?"))
    first = await testing.run(HypothesisMaker, message("Go on.", {"data": review}))
    assert first.outcome.schema == {"type": "string", "title": "Modality", "enum": ["small molecules", "biologics"]}
    again = await first.answer("both small molecules and biologics")
    assert again.said.startswith("I did not find any of these")
    by_form = data(await again.answer(form(modality="biologics")))
    assert [one["target"] for one in by_form["hypotheses"]] == ["IGX5"]
    found = data(await testing.run(Molecules, message("Go on.", {"data": by_form})))
    assert [one["id"] for one in found["chosen"]] == ["MX-02", "MX-01", "MX-05"]
    assert [one["why"] for one in found["refused"]] == ["It binds at 14 nM only.", "It aggregates: 0.61."]
    by_form["hypotheses"][0]["target"] = "NEW1"
    none = await testing.run(Molecules, message("Go on.", {"data": by_form}))
    assert none.said.startswith("The library has nothing for NEW1")
    lacking = await testing.run(HypothesisMaker, "biologics")
    assert (type(lacking.outcome), lacking.said[:30]) == (Failed, "I need literature-review.json,")
    broken = await testing.run(HypothesisMaker, message("biologics", {"data": review | {"targets": [{"target": 7}]}}))
    assert "cannot be read (targets.0." in broken.said


# Uploads

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
VALIDATION = (DATA / "validation.csv").read_text().splitlines()


async def analysed(skill, lines, *more):
    uploaded = {"text": "\n".join(lines), "filename": "data.csv", "mediaType": "text/csv"}
    metadata = {"skillId": f"analyse-{skill}"}
    return await testing.run(DataAnalysis, message("Analyse this.", uploaded, *more, metadata=metadata))


def changed(lines, old, new):
    assert any(old in line for line in lines)
    return [line.replace(old, new) for line in lines]


def without(lines, *words):
    return [line for line in lines if not any(word in line for word in words)]


async def test_a_screening_is_computed():
    run = await analysed("screening", SCREENING)
    assert names_of(run) == ["screening-analysis.json", "screening-ranking.csv", "screening-chart.png"]
    assert run.said == "1 of 2 compounds hit: A-1. Z′ is 0.87."
    found = data(run)
    hit, other = found["groups"]
    assert (hit["compound"], hit["inhibition"], hit["hit"]) == ("A-1", 50.0, True)
    assert hit["g"] == pytest.approx(45 / 2.5**0.5 * (1 - 3 / 15))  # towards the positive control, pooled sd √2.5
    assert (other["compound"], other["inhibition"], other["g"], other["q"]) == ("B-2", 0.0, 0.0, pytest.approx(1.0))
    assert found["z_prime"] == pytest.approx(1 - 12 / 90)
    assert run.artifacts[1].parts[0]["text"].splitlines()[1].startswith("A-1,10,3,55,50,")
    another_dialect = [line.replace(",", ";").replace("55", "55,0") for line in SCREENING]
    assert data(await analysed("screening", another_dialect))["groups"] == found["groups"]
    overlapping = data(await analysed("screening", changed(SCREENING, "DMSO,negative,0,1,98", "DMSO,negative,0,1,12")))
    assert (overlapping["usable"], overlapping["hits"]) == (False, [])
    asked = await analysed("screening", without(SCREENING, "negative"))
    good = await asked.answer("here", files={"better.csv": "\n".join(SCREENING).encode()})
    assert data(good)["source"]["file"] == "better.csv"


@pytest.mark.parametrize(
    ("skill", "lines", "why"),
    [
        ("screening", changed(SCREENING, "response", "signal"), "lacks the column “response”; it has “compound”"),
        ("screening", without(SCREENING, "negative"), "There are no wells of the negative control"),
        ("screening", changed(SCREENING, "sample,10,1,54", "sample,10,1,"), "Row 8 has nothing where the number"),
        ("screening", changed(SCREENING, "A-1,sample", "A-1,blank"), "has the role “blank”: write sample, negative"),
        ("screening", without(SCREENING, "sample,10,2", "sample,10,3"), "A-1 at 10 µM has one replicate"),
        ("screening", [SCREENING[0], *(one.rsplit(",", 1)[0] + ",9" for one in SCREENING[1:])], "send the wells, not"),
        ("expression", changed(EXPRESSION, "A-1_3", "remark"), "The column “remark” is none that I know"),
        ("validation", changed(VALIDATION, "vehicle,0,1,", "vehicle,0,1,-9999"), "mean of the vehicle is not above"),
        ("expression", changed(EXPRESSION, "control", "vehicle"), "There is no control"),
        ("expression", changed(EXPRESSION, "SAME", "UP"), "The gene UP is there 2 times"),
        ("validation", without(VALIDATION, *(f"PX-07,{one}," for one in (1, 3, 10, 30, 100))), "PX-07 has 3 doses"),
        ("validation", changed(VALIDATION, "PX-07,0.03,1,", "PX-07,1e-30,1,"), "doses outside 1e-09 to 1e+09 µM"),
    ],
)
async def test_unusable_data_are_asked_for_again(skill, lines, why):
    run = await analysed(skill, lines)
    assert (run.outcome.slot, run.artifacts) == ("file", [])
    assert why in run.said


# Statistics

LOW, HIGH = [1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]


def test_students_distribution_is_that_of_the_tables():
    for t, freedom, p in ((0.0, 5, 1.0), (12.7062, 1, 0.05), (4.6041, 4, 0.01), (-2.2281, 10, 0.05), (1.96, 1e7, 0.05)):
        assert two_sided(t, freedom) == pytest.approx(p, abs=2e-5), (t, freedom)
    for t in (0.1, 1.0, 30.0, 1000.0):  # where it has a simple form
        assert two_sided(t, 1) == pytest.approx(2 / math.pi * math.atan(1 / t), rel=1e-9)
        assert two_sided(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-6)


def test_effects_and_tests_match_hand_calculations():
    effect = hedges(HIGH, LOW)  # d = 2 / 1.29099; J = 1 - 3 / 23; error = sqrt(8/16 + g²/16)
    assert (effect.g, effect.low, effect.high) == pytest.approx((1.347125, -0.187943, 2.882192), abs=1e-6)
    assert hedges(LOW, HIGH).g == -effect.g
    found = welch(HIGH, LOW)
    assert (found.t, found.freedom, found.p) == pytest.approx((2.190890, 6, 0.070988), abs=1e-6)
    found = welch([10.0, 12.0, 14.0], [20.0, 30.0, 40.0])
    assert (found.t, found.freedom) == pytest.approx((-18 / math.sqrt(104 / 3), 2.15975), abs=1e-4)
    for test, values in ((hedges, ([1.0, 1.0], [2.0, 2.0])), (z_prime, ([1.0, 3.0], [2.0, 2.0]))):
        with pytest.raises(NoSpread):
            test(*values)
    with pytest.raises(NoSpread):
        welch([1.0, 1.0], [2.0, 2.0])
    assert false_discovery_rates([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert (false_discovery_rates([0.03]), false_discovery_rates([])) == ([0.03], [])


def curve(ic50, hill, top=100.0, bottom=10.0):
    doses = [10 ** (step / 2) for step in range(-3, 5)]
    return [(dose, bottom + (top - bottom) / (1 + (dose / ic50) ** hill)) for dose in doses for _ in range(2)]


def test_the_curve_is_found_that_points_lie_on():
    for ic50, hill in ((0.4, 1.0), (5.0, 2.0), (30.0, 0.8)):
        fit = fit_curve(curve(ic50, hill))
        assert (fit.ic50, fit.hill, fit.top, fit.bottom) == pytest.approx((ic50, hill, 100, 10), rel=0.01)
        assert fit.r_squared > 0.9999
        assert fit.low <= fit.ic50 <= fit.high
    scattered = [(dose, response + (4 if at % 2 else -4)) for at, (dose, response) in enumerate(curve(2.0, 1.0))]
    exact, rough = fit_curve(curve(2.0, 1.0)), fit_curve(scattered)
    assert rough.high / rough.low > 1.1 > exact.high / exact.low
    assert rough.low < 2.0 < rough.high
    assert fit_curve([(dose, 50.0) for dose, _ in curve(1.0, 1.0)]) is None
