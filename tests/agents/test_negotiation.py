"""The formulas of negotiation by table, and each reason to refuse."""

from dataclasses import replace

import pytest

from apps.agents.models import Agent
from apps.agents.negotiation import (
    Measurements,
    Subscores,
    Weights,
    WorkRequest,
    assess,
    confidence_in,
    cost_score,
    io_score,
    load_score,
    performance_score,
)
from apps.agents.search import SkillMatch

SKILL = {"id": "s", "name": "Skill", "description": "Does it.", "tags": ["french", "other"]}
ASK = WorkRequest("translate")


def an_agent(**fields):
    return Agent(**{"slug": "one", "name": "One", "skills": [SKILL]} | fields)


def assessed(ask=ASK, facts=Measurements(100, 0), score=0.5, **fields):  # noqa: B008 (it is frozen)
    return assess(ask, an_agent(**fields), facts, [SkillMatch(SKILL, score, ("french",) if score else ())])


PERFORMANCE = [
    (None, None, 1), (9000, None, 1), (None, 1000, 0.5), (0, 1000, 1), (250, 1000, 0.75), (1000, 1000, 0),
    (1999, 1000, 0),
]  # fmt: skip
COST = [
    (0, None, 1), (0, 0, 1), (0, 10, 1), (5, None, 0.5), (5, 10, 0.75), (10, 10, 0.5), (30, 10, 0), (5, 0, 0),
]  # fmt: skip
TYPES = [
    ([], [], 1), (["text/plain"], [], 1), (["image/png"], [], 0), (["text/plain", "image/png"], [], 0.5),
    (["text/plain"], ["application/pdf"], 0.5), (["text/plain"], ["text/*", "application/pdf"], 2 / 3),
]  # fmt: skip
CONFIDENCE = [
    (0.0, [], None, None, 0.6), (0.3, [], None, None, 0.6), (0.31, [], None, None, 0.7), (0.9, [], 5, None, 0.8),
    (0.9, [], 5, 0, 0.9), (0.9, ["text/plain"], 5, 0, 1.0), (0.0, ["text/plain"], 5, 3, 0.9),
]  # fmt: skip


def test_each_subscore_and_the_confidence_follow_their_formula():
    for estimate, limit, score in PERFORMANCE:
        assert performance_score(estimate, limit) == score, (estimate, limit)
    for queue, score in [(None, 0.5), (0, 1), (1, 0.5), (3, 0.25), (99, 0.01)]:
        assert load_score(queue) == score, queue
    for cost, budget, score in COST:
        assert cost_score(cost, budget) == score, (cost, budget)
    for inputs, outputs, score in TYPES:
        ask = WorkRequest("x", input_types=inputs, output_types=outputs)
        assert io_score(ask, an_agent()) == pytest.approx(score), (inputs, outputs)
    for *known, confidence in CONFIDENCE:
        best, types, latency, queue = known
        found = confidence_in(WorkRequest("x", input_types=types), Measurements(latency, queue), best)
        assert found == pytest.approx(confidence), known


def test_the_score_is_the_weighted_mean_of_the_subscores():
    subscores = Subscores(skill=0.5, io=1, performance=0.2, load=0.4, cost=0.6)
    assert Weights().applied_to(subscores) == pytest.approx(0.55 * 0.5 + 0.2 + 0.15 * 0.2 + 0.05 * 0.4 + 0.05 * 0.6)
    assert Weights(skill=3, io=0, performance=0, load=1, cost=0).applied_to(subscores) == pytest.approx(1.9 / 4)
    assert assessed().score == pytest.approx(0.55 * 0.5 + 0.45)


REJECTIONS = {
    "no_skills_advertised": ({}, {"skills": [], "description": " "}),
    "input_mime_unsupported": ({"input_types": ["text/plain", "image/png"]}, {}),
    "output_mime_unsupported": ({"output_types": ["image/png"]}, {}),
    "required_tool_missing": ({"required_tools": ["search", "shell"]}, {"tools": ["search"]}),
    "forbidden_tool_present": ({"forbidden_tools": ["shell"]}, {"tools": ["search", "shell"]}),
    "cost_exceeds_budget": ({"max_cost": 1.0}, {"cost": 1.01}),
    "latency_exceeds_constraint": ({"max_latency_ms": 49}, {}),
    "score_below_threshold": ({"min_score": 0.99}, {}),
}
ACCEPTED = {
    "no_skills_advertised": ({}, {"skills": [], "description": "Translates."}),
    "input_mime_unsupported": ({"input_types": ["text/plain"]}, {}),
    "output_mime_unsupported": ({"output_types": ["image/png", "text/*"]}, {}),
    "required_tool_missing": ({"required_tools": ["search"]}, {"tools": ["search", "shell"]}),
    "forbidden_tool_present": ({"forbidden_tools": ["shell"]}, {"tools": ["search"]}),
    "cost_exceeds_budget": ({"max_cost": 1.0}, {"cost": 1.0}),
    "latency_exceeds_constraint": ({"max_latency_ms": 50}, {}),
    "score_below_threshold": ({"min_score": 0.7}, {}),
}


def test_each_reason_to_say_no_holds_just_beyond_its_border():
    for reason in REJECTIONS:
        asked, fields = REJECTIONS[reason]
        refused = assessed(replace(ASK, **asked), **fields)
        assert (refused.accepted, refused.rejection) == (False, reason), reason
        asked, fields = ACCEPTED[reason]
        taken = assessed(replace(ASK, **asked), **fields)
        assert (taken.accepted, taken.rejection) == (True, None), reason
    asked, fields = {}, {}
    for reason in reversed(REJECTIONS):
        more_asked, more_fields = REJECTIONS[reason]
        asked, fields = asked | more_asked, fields | more_fields
        assert assessed(replace(ASK, **asked), **fields).rejection == reason
    assert assessed(replace(ASK, max_latency_ms=1), facts=Measurements(None, None)).accepted


def test_what_is_answered_is_as_documented():
    assert assessed().wire == {
        "accepted": True,
        "score": 0.725,
        "confidence": 0.9,
        "rejection_reason": None,
        "skill_matches": [
            {"skill_id": "s", "skill_name": "Skill", "score": 0.5, "reasons": ["shares the words french"]}
        ],
        "matched_tags": ["french"],
        "latency_estimate_ms": 100,
        "queue_depth": 0,
        "subscores": {"skill": 0.5, "io": 1.0, "performance": 1.0, "load": 1.0, "cost": 1.0},
    }
    unknown = assessed(facts=Measurements(), score=0.0).wire
    assert (unknown["skill_matches"], unknown["matched_tags"]) == ([], [])
    assert (unknown["latency_estimate_ms"], unknown["queue_depth"], unknown["subscores"]["load"]) == (None, None, 0.5)


def test_an_agent_that_is_not_well_ranks_lower_and_one_that_cannot_work_takes_nothing():
    well, worse = assessed(score=0.2, slug="well"), assessed(score=0.5, slug="worse", health=Agent.Health.DEGRADED)
    gone = assessed(score=0.9, slug="gone", health=Agent.Health.UNAVAILABLE)
    ranked = sorted((gone, worse, well), key=lambda one: one.rank)
    assert [one.agent.slug for one in ranked] == ["well", "worse", "gone"]
    assert worse.accepted
    assert worse.score == assessed(score=0.5).score
    assert (gone.score, gone.rejection) == (0, "score_below_threshold")
