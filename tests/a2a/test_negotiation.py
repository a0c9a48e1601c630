"""Agents tell permitted callers in advance whether they would take a message."""

import pytest
from django.contrib.auth.models import Group

from apps.agents.models import Agent
from apps.agents.registration import house_workspace
from parley import db
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

ECHO = "examples.agents.echo:Echo"
ASKED = {"task_summary": "Count down from 20, please"}


@pytest.fixture
def ada_asks(ada_key):
    async def ask(slug, body=ASKED, address="negotiation", **options):
        return await Resource(slug, ada_key).ask("POST", address, body, **options)

    return ask


def make_agent(slug, **fields):
    told = {"name": slug.title(), "description": "It works.", "handler": ECHO, "workspace": house_workspace()}
    skill = {"id": slug, "name": slug.title(), "description": f"It does {slug}.", "tags": [slug]}
    return Agent.objects.create(slug=slug, **told | {"skills": [skill]} | fields)


async def test_agent_says_whether_it_would_take_it(ada_asks, countdown):
    answer = await ada_asks("countdown")
    assert answer.status == 200
    body = answer.body
    assert (body["accepted"], body["rejection_reason"]) == (True, None)
    assert body["skill_matches"][0]["skill_id"] == "countdown"
    assert "count" in body["skill_matches"][0]["reasons"][0]
    assert (body["latency_estimate_ms"], body["queue_depth"]) == (None, 0)
    assert body["subscores"] == {
        "skill": body["skill_matches"][0]["score"], "io": 1.0, "performance": 1.0, "load": 1.0, "cost": 1.0,
    }  # fmt: skip
    assert body["score"] == pytest.approx(0.55 * body["subscores"]["skill"] + 0.45, abs=1e-4)


async def test_ranked_agents_score_what_they_score_alone(ada_asks, ada_key, countdown, echo):
    for summary, order in (
        ("Count down from 20", ["countdown", "echo"]),
        ("something that returns a text", ["echo", "countdown"]),
    ):
        ranked = (await ada_asks("", {"task_summary": summary})).body["agents"]
        assert [one["agent"] for one in ranked] == order
        for one in ranked:
            about = {name: one.pop(name) for name in ("agent", "name", "url", "health")}
            assert (about["url"].endswith(f"/a2a/{about['agent']}"), about["health"]) == (True, "ok")
            assert (await ada_asks(about["agent"], {"task_summary": summary})).body == one


async def test_closed_agents_never_show(ada, ada_asks, echo, public_echo):
    lab = await Group.objects.acreate(name="Lab")
    secret = await db.run(make_agent, "secret", access=Agent.Access.GROUPS)
    await secret.groups.aadd(lab)
    await db.run(make_agent, "off", is_enabled=False)
    for slug in ("secret", "off", "nobody"):
        assert (await ada_asks(slug)).reason == "AGENT_NOT_FOUND"
    assert {one["agent"] for one in (await ada_asks("")).body["agents"]} == {"echo", "open-echo"}
    anonymous = (await Resource("").ask("POST", "negotiation", ASKED)).body["agents"]
    assert [one["agent"] for one in anonymous] == ["open-echo"]
    assert (await Resource("echo").ask("POST", "negotiation", ASKED)).status == 401
    await ada.groups.aadd(lab)
    assert {one["agent"] for one in (await ada_asks("")).body["agents"]} == {"echo", "open-echo", "secret"}


WRONG = {
    "task_summary": [{}, {"task_summary": "  "}, {"task_summary": "x" * 10_001}, {"task_summary": "a\0"}],
    "task_details": [{"task_details": []}],
    "input_mime_types": [{"input_mime_types": "text/plain"}, {"input_mime_types": ["text/plain"] * 101}],
    "input_mime_types[1]": [{"input_mime_types": ["text/plain", one]} for one in ("text", 5, "*/png")],
    "max_latency_ms": [{"max_latency_ms": one} for one in (0, 1.5, "soon", True, 2**31)],
    "max_cost_amount": [{"max_cost_amount": one} for one in (-0.1, "much", True, 10**399)],
    "required_tools": [{"required_tools": "search"}],
    "forbidden_tools[0]": [{"forbidden_tools": [{}]}],
    "min_score": [{"min_score": one} for one in (-0.1, 1.1, "half")],
    "weights": [{"weights": one} for one in ([], dict.fromkeys(("skill", "io", "performance", "load", "cost"), 0))],
    "weights.skill": [{"weights": {"skill": one}} for one in (-1, "x")],
    "weights.skil": [{"weights": {"skil": 1}}],
}


async def test_unusable_fields_are_named(ada_asks, echo, subtests):
    for field, bodies in WRONG.items():
        for body in bodies:
            with subtests.test(f"{field}: {str(body)[:40]}"):
                answer = await ada_asks("echo", ({} if field == "task_summary" else ASKED) | body)
                assert (answer.status, answer.fields) == (400, [field]), answer.body
    several = await ada_asks("", {"min_score": 2, "max_latency_ms": 0})
    assert several.fields == ["task_summary", "max_latency_ms", "min_score"]
    for usable in (
        {"max_latency_ms": "100", "max_cost_amount": "1.5", "min_score": 0, "weights": None, "unknown": [1]},
        {"weights": {"skill": 1, "io": 0, "performance": 0, "load": 0, "cost": 0}, "max_cost_amount": 0},
        {"input_mime_types": ["TEXT/plain", "image/svg+xml", "application/*"], "output_mime_types": []},
    ):
        assert (await ada_asks("echo", ASKED | usable)).status == 200, usable
    assert (await ada_asks("echo", {"taskSummary": "hi", "minScore": 1})).body["rejection_reason"]
    assert (await ada_asks("echo", {"taskSummary": "hi", "task_summary": "hi"})).status == 400
