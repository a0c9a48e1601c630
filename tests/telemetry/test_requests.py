"""Each request has an id and a line in the log, with the template of its path."""

import re

import pytest

from parley.asgi import application
from parley.telemetry import requests

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("given", ["abc-123.x:y"])
async def test_callers_id_is_taken_and_returned(http, lines, given):
    answer = await http.get("/a2a/nobody/.well-known/agent-card.json", headers={"X-Request-ID": given})
    assert answer.headers.get_list("x-request-id") == [given]
    assert {event["request"] for event in lines.events} == {given}


@pytest.mark.parametrize("given", ["", "a" * 65, 'x"y'])
async def test_strange_id_is_replaced(http, given):
    answer = await http.get("/healthz", headers={"X-Request-ID": given})
    assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])


async def test_early_refusals_have_an_id_and_a_line(http, lines):
    answer = await http.get(f"/{'x' * 20_000}")
    assert (answer.status_code, bool(answer.headers["x-request-id"])) == (414, True)
    [line] = lines.events
    assert (line["status"], line["path"]) == (414, "-")


@pytest.mark.parametrize(
    ("path", "route", "status"),
    [
        ("/shared/a-secret-token", "/shared/<token>", 404),  # a page
        ("/a2a/nobody/v1/card", "/a2a/<slug>/v1/card", 404),
        ("/api/v1/agents", "/api/v1/agents", 401),
        ("/no/such/page", "-", 404),
    ],
)
async def test_line_has_method_template_status_and_duration(http, lines, path, route, status):
    await http.get(path, headers={"Accept": "application/json"})
    [line] = [event for event in lines.events if event["logger"] == "parley.access"]
    assert (line["method"], line["path"], line["status"], line["level"]) == ("GET", route, status, "info")
    assert line["duration_ms"] >= 0
    assert "a-secret-token" not in lines.text


async def test_probes_are_for_debugging(http, lines):
    await http.get("/healthz")
    await http.get("/static/none.css")
    [probe, missing] = [event for event in lines.events if event["logger"] == "parley.access"]
    assert (probe["level"], missing["level"], missing["status"]) == ("debug", "info", 404)


async def test_sampling_keeps_failures_and_slow_answers(http, lines, monkeypatch):
    monkeypatch.setattr(application.application_mapping["http"], "sample", 0.0)
    await http.get("/healthz")
    await http.get("/no/such/page")
    monkeypatch.setattr(requests, "SLOW_SECONDS", 0.0)
    await http.get("/healthz")
    assert [event["status"] for event in lines.events if event["logger"] == "parley.access"] == [404, 200]
