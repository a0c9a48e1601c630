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

TEXT, PICTURE = "text/plain", "image/png"
SKILL = {"id": "s", "name": "Skill", "description": "Does it.", "tags": ["french", "other"]}
ASK = WorkRequest("translate")


def an_agent(**fields):
    return Agent(**{"slug": "one", "name": "One", "skills": [SKILL]} | fields)


def assessed(ask=ASK, facts=Measurements(100, 0), score=0.5, **fields):  # noqa: B008 (it is frozen)
    return assess(ask, an_agent(**fields), facts, [SkillMatch(SKILL, score, ("french",) if score else ())])


def test_each_subscore_and_the_confidence_follow_their_formula():
    for estimate, limit, score in [(9000, None, 1), (None, 1000, 0.5), (250, 1000, 0.75), (1999, 1000, 0)]:
        assert performance_score(estimate, limit) == score, (estimate, limit)
    for queue, score in [(None, 0.5), (0, 1), (1, 0.5), (3, 0.25), (99, 0.01)]:
        assert load_score(queue) == score, queue
    for cost, budget, score in [(0, 0, 1), (5, None, 0.5), (5, 10, 0.75), (10, 10, 0.5), (30, 10, 0), (5, 0, 0)]:
        assert cost_score(cost, budget) == score, (cost, budget)
    for inputs, outputs, score in [([], [], 1), (["image/png"], [], 0), ([TEXT], ["text/*", "application/pdf"], 2 / 3)]:
        ask = WorkRequest("x", input_types=inputs, output_types=outputs)
        assert io_score(ask, an_agent()) == pytest.approx(score), (inputs, outputs)
    for best, types, latency, queue, confidence in [
        (0.3, [], None, None, 0.6),
        (0.31, [], None, None, 0.7),
        (0.9, [], 5, None, 0.8),
        (0.9, [], 5, 0, 0.9),
        (0.9, ["text/plain"], 5, 0, 1.0),
        (0.0, ["text/plain"], 5, 3, 0.9),
    ]:
        found = confidence_in(WorkRequest("x", input_types=types), Measurements(latency, queue), best)
        assert found == pytest.approx(confidence), (best, types, latency, queue)


def test_the_score_is_the_subscores_weighted_mean():
    subscores = Subscores(skill=0.5, io=1, performance=0.2, load=0.4, cost=0.6)
    assert Weights().applied_to(subscores) == pytest.approx(0.55 * 0.5 + 0.2 + 0.15 * 0.2 + 0.05 * 0.4 + 0.05 * 0.6)
    assert Weights(skill=3, io=0, performance=0, load=1, cost=0).applied_to(subscores) == pytest.approx(1.9 / 4)
    assert assessed().score == pytest.approx(0.55 * 0.5 + 0.45)


REASONS = {
    "no_skills_advertised": [({}, {"skills": [], "description": " "}), ({}, {"skills": [], "description": "Sings."})],
    "input_mime_unsupported": [({"input_types": [TEXT, PICTURE]}, {}), ({"input_types": [TEXT]}, {})],
    "output_mime_unsupported": [({"output_types": [PICTURE]}, {}), ({"output_types": [PICTURE, "text/*"]}, {})],
    "required_tool_missing": [({"required_tools": ["a"]}, {}), ({"required_tools": ["a"]}, {"tools": ["a"]})],
    "forbidden_tool_present": [({"forbidden_tools": ["b"]}, {"tools": ["b"]}), ({"forbidden_tools": ["b"]}, {})],
    "cost_exceeds_budget": [({"max_cost": 1.0}, {"cost": 1.01}), ({"max_cost": 1.0}, {"cost": 1.0})],
    "latency_exceeds_constraint": [({"max_latency_ms": 49}, {}), ({"max_latency_ms": 50}, {})],
    "score_below_threshold": [({"min_score": 0.99}, {}), ({"min_score": 0.7}, {})],
}
"""Each reason with what is just beyond its border, and just within."""


def test_each_refusal_holds_just_beyond_its_border():
    all_asked, all_fields = {}, {}
    for reason, ((asked, fields), (less_asked, less_fields)) in reversed(REASONS.items()):
        assert assessed(replace(ASK, **asked), **fields).rejection == reason
        taken = assessed(replace(ASK, **less_asked), **less_fields)
        assert (taken.accepted, taken.rejection) == (True, None), reason
        all_asked, all_fields = all_asked | asked, all_fields | fields
        assert assessed(replace(ASK, **all_asked), **all_fields).rejection == reason, "earlier reasons come first"
    assert assessed(replace(ASK, max_latency_ms=1), facts=Measurements(None, None)).accepted


def test_an_unhealthy_agent_ranks_lower():
    well, worse = assessed(score=0.2, slug="well"), assessed(score=0.5, slug="worse", health=Agent.Health.DEGRADED)
    gone = assessed(score=0.9, slug="gone", health=Agent.Health.UNAVAILABLE)
    ranked = sorted((gone, worse, well), key=lambda one: one.rank)
    assert [one.agent.slug for one in ranked] == ["well", "worse", "gone"]
    assert worse.accepted
    assert worse.score == assessed(score=0.5).score
    assert (gone.score, gone.rejection) == (0, "score_below_threshold")
