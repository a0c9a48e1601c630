"""Analytics of agents and plans: uses, time, cost, success and feedback, by version and over time."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.features.analytics import rollup
from apps.plans.models import PlanRun
from apps.record.execution import Run
from tests.analytics.worlds import ago, make_answer, make_run, rate

pytestmark = pytest.mark.django_db


def used(owner: User, agent: Agent, version: int, state: str = "done", **fields: Any) -> Run:
    usage = {"inputTokens": 10, "outputTokens": 5, "cost": 0.5, "models": {}}
    return make_run(
        owner,
        agent,
        fields.pop("at", ago(hours=2)),
        state=state,
        input={"agent": {"number": version}},
        usage=usage,
        **fields,
    )


@pytest.fixture
def history(ada, echo) -> None:
    """Version 2 fails twice in four turns, version 3 never; 3 is liked, 2 is not."""
    for state in ("done", "done", "failed", "failed"):
        run = used(ada, echo, 2, state)
    rate(run, 1, ago(hours=2))
    for _ in range(3):
        run = used(ada, echo, 3)
    rate(run, 5, ago(hours=1))
    make_answer(run, ago(hours=1))
    rollup.keep_up()


def page(client, agent: Agent, **query: Any) -> Any:
    return client.get(reverse("operators:agent-analytics", args=[agent.pk], query=query))


def compared(answer: Any) -> dict[str, tuple[str, ...]]:
    return {row[0]: tuple(str(cell) for cell in row[1:]) for row in answer.context["comparison"]["table"].rows}


def test_a_version_is_compared_with_the_one_before(admin_client, echo, history, ada):
    rows = compared(page(admin_client, echo))
    assert rows["uses"][:2] == ("4", "3")
    assert rows["success"][:2] == ("50%", "100%")
    assert "better" in rows["success"][2]
    assert rows["cost"][:2] == ("2.00", "1.50")
    assert rows["liked"][:2] == ("0%", "100%")
    used(ada, echo, 7, "failed", at=ago(seconds=5))
    assert "worse" in compared(page(admin_client, echo))["success"][2]
    assert "better" in compared(page(admin_client, echo, version=3))["success"][2]


@pytest.mark.parametrize("version", ["9", "x", "-1", "9" * 30])
def test_a_version_that_was_not_used_is_said_to_be_so(admin_client, echo, history, version):
    answer = page(admin_client, echo, version=version)
    assert answer.status_code == 200
    assert answer.context["comparison"]["problem"]


def test_its_numbers_lead_to_exactly_so_many_rows(admin_client, echo, history):
    tiles = {tile.title: str(tile.number) for tile in page(admin_client, echo).context["tiles"]}
    expected = {"done": 5, "failed": 2, "canceled": 0, "tasks begun": 7, "answered by a message": 1}
    for title, number in {**expected, "thumbs up": 1, "thumbs down": 1}.items():
        assert f">{number}</a>" in tiles[title]
        link = tiles[title].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
        assert admin_client.get(link).context["cl"].result_count == number, title


def test_its_numbers_can_be_downloaded(admin_client, echo, history):
    answer = page(admin_client, echo, format="csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert answer["Content-Type"].startswith("text/csv")
    assert sum(int(row["failed"]) for row in rows if row["version"] == "2") == 2
    assert sum(float(row["cost"]) for row in rows) == pytest.approx(3.5)
    whole = admin_client.get(reverse("operators:analytics", query={"format": "csv"}))
    assert [row["uses"] for row in csv.DictReader(io.StringIO(whole.content.decode()))] == ["8"]


@pytest.fixture
def plan(echo) -> Agent:
    agent = Agent.objects.create(
        slug="plan", name="Plan", description="", kind=Agent.Kind.PLAN, workspace=echo.workspace
    )
    agent.versions.create(number=4, content={}, sha256="")
    return agent


def test_a_plan_is_measured_by_its_runs_and_costs_what_its_steps_do(admin_client, ada, plan, echo):
    run = used(ada, plan, 4, started_at=ago(hours=3))
    PlanRun.objects.create(
        task=run.task, version=plan.versions.get(), created_at=ago(hours=3), finished_at=ago(hours=2)
    ).steps.create(key="one", task=used(ada, echo, 1).task)
    answer = page(admin_client, plan)
    tiles = {tile.title: str(tile.number) for tile in answer.context["tiles"]}
    assert ">1</a>" in tiles["done"]
    assert tiles["cost"] == "0.50"
    link = tiles["done"].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert admin_client.get(link).context["cl"].result_count == 1
    rollup.keep_up()
    again = {tile.title: str(tile.number) for tile in page(admin_client, plan).context["tiles"]}
    assert ">1</a>" in again["done"]
    assert again["cost"] == "0.50"


def test_it_needs_permission_for_agents_and_runs_and_hides_feedback_without_its_own(client, echo, history):
    operator = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    client.force_login(operator)
    for name in ("view_agent", "view_run"):
        assert page(client, echo).status_code == 403
        assert client.get(reverse("operators:analytics")).status_code == 403
        operator.user_permissions.add(Permission.objects.get(codename=name))
    answer = page(client, echo)
    assert answer.status_code == 200
    assert "thumbs up" not in answer.content.decode()
    assert "good" not in page(client, echo, format="csv").content.decode()
    operator.user_permissions.add(Permission.objects.get(codename="view_feedback"))
    assert "thumbs up" in page(client, echo).content.decode()


def test_an_unknown_agent_is_not_found(admin_client, echo):
    for key in (echo.pk + 1_000, 10**30):
        assert admin_client.get(reverse("operators:agent-analytics", args=[key])).status_code == 404


def test_people_see_the_usage_of_agents_that_they_may_use_without_costs(client, ada, echo, history):
    address = reverse("web:agent-usage", args=["echo"])
    assert client.get(address).status_code == 302
    client.force_login(ada)
    answer = client.get(address)
    assert dict(answer.context["facts"])["Uses"] == "8"
    assert [row[1:] for row in answer.context["compared"] if row[0] == "Succeeded"] == [("50%", "100%")]
    assert "cost" not in answer.content.decode().lower()
    assert client.get(f"{address}?days=x").status_code == 200
    Agent.objects.filter(pk=echo.pk).update(access=Agent.Access.GROUPS)
    assert client.get(address).status_code == 404
