"""Each number of the dashboard leads to exactly the rows that it counts, for those who may see them."""

from __future__ import annotations

import datetime
import random
import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.a2a.models import Delivery, PushConfig
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.analytics import rollup, storage
from apps.engine import accept
from apps.engine.worker import Load
from apps.housekeeping import processes
from apps.housekeeping.models import ServerProcess
from apps.operators.dashboard.ranges import range_of
from apps.plans.models import PlanRun
from apps.record.execution import Run
from apps.record.models import Task, TaskState
from apps.remote.models import RemoteAgent
from tests.analytics.worlds import ago, make_answer, make_run, random_run, rate

pytestmark = pytest.mark.django_db
NUMBER = re.compile(r'<a [^>]*href="([^"]+)">([\d,]+)</a>')
TILE = re.compile(r"</svg>([\w -]+)</span>\s*</dt>\s*<dd>\s*<a [^>]*href=\"([^\"]+)\">(\d+)</a>")


@pytest.fixture
def runs(ada, bob, echo, countdown):
    chance = random.Random(11)
    made = [random_run(chance, [ada, bob], [echo, countdown], ago(hours=chance.uniform(0, 60))) for _ in range(30)]
    made.append(make_run(ada, echo, ago(minutes=1), state="failed"))
    rollup.keep_up()
    return made


@pytest.fixture
def operator(client):
    user = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    client.force_login(user)
    return user


def allow(user: User, *names: str) -> None:
    user.user_permissions.add(*Permission.objects.filter(codename__in=names))


def parts(client: Client, **query: Any) -> str:
    answer = client.get(reverse("operators:dashboard-parts", query=query))
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("query", [{"range": "30d"}, "custom"], ids=str)
def test_each_number_leads_to_so_many_rows(admin_client, runs, query):
    if query == "custom":
        query = {"from": f"{ago(hours=40):%Y-%m-%dT%H:%M}", "to": f"{ago(hours=5):%Y-%m-%dT%H:%M}"}
    found = {
        (unescape(link), int(number.replace(",", ""))) for link, number in NUMBER.findall(parts(admin_client, **query))
    }
    numbers = {(link, number) for link, number in found if "finished_at" in link}
    assert len(numbers) > 5
    assert sum(number for _, number in numbers)
    for link, number in numbers:
        assert admin_client.get(link).context["cl"].result_count == number, link


def test_unknown_reasons_lead_to_all_their_runs(admin_client, ada, echo):
    for error in ({"code": "unknown"}, {"message": "It broke."}, None):
        make_run(ada, echo, ago(minutes=2), state="failed", error=error)
    [row] = admin_client.get(reverse("admin:index")).context["figures"].failures.rows
    [(link, number)] = NUMBER.findall(row[2])
    rows = admin_client.get(unescape(link)).context["cl"].result_count
    assert (row[0], number, rows) == ("unknown", "3", 3)


def test_a_wrong_range_is_explained(admin_client):
    for query, says in (
        ("range=2y", "no range"),
        ("from=yesterday", "not a time"),
        ("from=2026-01-02T10:00&to=\x00", "not a time"),
        ("from=0001-01-01", "not a time"),
        ("from=9999-12-31T23:59", "future"),
        ("to=2026-01-01", "no beginning"),
        ("from=2020-02-02&to=2020-02-01", "ends before"),
        ("from=2020-01-01&to=2024-01-01", "longer than"),
    ):
        shown = range_of(QueryDict(query))
        assert (shown.choice, says in shown.problem) == ("24h", True), query
    for address in (reverse("admin:index"), reverse("operators:analytics")):
        assert says in admin_client.get(f"{address}?{query}").context["picker"]["problem"]


def test_operators_see_only_what_they_may_view(client, operator, runs):
    nothing = parts(client)
    assert not NUMBER.findall(nothing)
    assert "/admin/record/" not in nothing
    allow(operator, "view_run")
    shown = parts(client)
    assert "/admin/record/run/" in shown
    hidden = ("/admin/agents/", "/admin/accounts/workspace/", "by_agent", "in_workspace", "Countdown")
    for one in (*hidden, "/record/task/"):
        assert one not in shown
    allow(operator, "view_agent", "view_workspace")
    shown = parts(client)
    for one in hidden:
        assert one in shown


@pytest.mark.services("each database has its own limits of numbers and texts")
def test_a_wrong_filter_finds_nothing(admin_client, ada, echo):
    make_run(ada, echo, ago(minutes=1), state="failed", error={"code": "timed_out"})
    names = ("by_agent", "version", "reason", "language_model", "in_workspace")
    for name, value in [*((name, "9" * 30) for name in names), *((names[0], value) for value in ("x", "-1", "\0"))]:
        answer = admin_client.get(reverse("admin:record_run_changelist", query={name: value}))
        assert (answer.status_code, answer.context["cl"].result_count) == (200, 0), (name, value)


def test_workers_and_storage_are_shown_to_viewers(admin_client, client, operator, ada, echo):
    storage.measure()
    allow(operator, "view_run")
    shown = parts(client)
    assert "database" in shown
    assert "archives" not in shown
    assert "archives" in parts(admin_client)
    client.force_login(operator)
    allow(operator, "view_serverprocess")
    assert "No worker was seen lately" not in shown
    assert "No worker was seen lately" in parts(client)
    processes.note_heartbeat(ServerProcess.Kind.WORKER, Load(busy=1, waiting=0, capacity=200))
    worker = ServerProcess.objects.get()
    name = f"{worker.host}:{worker.pid}:abc"
    make_run(ada, echo, ago(minutes=1)).task.runs.update(state="running", worker=name, finished_at=None)
    link = re.search(r'href="([^"]+)">1 of 200<', parts(client))
    assert client.get(unescape(link[1])).context["cl"].result_count == 1


# What waits


def tiles(client: Client) -> list[tuple[str, str, int]]:
    """State, link and number."""
    found = TILE.findall(client.get(reverse("admin:index")).text)
    return [(state, unescape(link), int(number)) for state, link, number in found]


@pytest.fixture
def busy(ada, echo, said):
    """Tasks in every state, half of them of the day before yesterday, runs, and deliveries."""
    now, long_ago = timezone.now(), timezone.now() - datetime.timedelta(days=2)
    expected: dict[str, int] = {}
    for number, state in enumerate(TaskState, start=1):
        for at in [now] * number + [long_ago]:
            task = Task.objects.get(pk=accept.accept(ada.principal, echo, said(state)).task)
            Task.objects.filter(pk=task.pk).update(state=state, status_at=at)
            task.runs.update(state="failed", finished_at=at)
        expected[state] = number + (0 if state.is_terminal else 1)
    task.runs.update(state="running", finished_at=None)
    Task.objects.filter(state="submitted").first().runs.update(state="queued", finished_at=None)
    hook = PushConfig.objects.create(task=task, config_id="1", url="https://hooks.example.org/")
    for index, state in enumerate(("waiting", "dead", "dead", "delivered")):
        Delivery.objects.create(config=hook, event_index=index, state=state)
    RemoteAgent.objects.create(agent=echo, proposed=echo.current_version)
    waiting = {name: expected[name] for name in ("input-required", "auth-required")} | {"changed cards": 1}
    faulty = {f"tasks {state}": expected[state] for state in ("failed", "rejected", "canceled")}
    ended = Run.objects.filter(finished_at__gte=now - datetime.timedelta(hours=1)).count()
    runs = {"queued": 1, "running": 1, "runs failed": ended, "runs done": 0, "runs canceled": 0}
    plans = {"plans that ask": 0, "plan runs ended": 0}
    return {**waiting, **faulty, **runs, **plans, "webhook backlog": 1, "failed deliveries": 2}


def test_each_state_leads_to_so_many_rows(admin_client, busy):
    shown = tiles(admin_client)
    assert {state: number for state, _, number in shown} == busy
    for state, link, number in shown:
        assert admin_client.get(link).context["cl"].result_count == number, state
    with CaptureQueriesContext(connection) as captured:
        tiles(admin_client)
    few = len(captured)
    assert few <= 60
    for run in list(Run.objects.filter(state="failed"))[:20]:
        make_run(run.task.owner, run.task.agent, timezone.now(), state="failed", error={"code": "timed_out"})
    with CaptureQueriesContext(connection) as captured:
        tiles(admin_client)
    assert len(captured) == few


# Agents and plans: uses, time, cost, success and feedback, by version and over time


def used(owner: User, agent: Agent, version: int, state: str = "done", **fields: Any) -> Run:
    usage = {"inputTokens": 10, "outputTokens": 5, "cost": 0.5, "models": {}}
    known = {"state": state, "input": {"agent": {"number": version}}, "usage": usage}
    return make_run(owner, agent, fields.pop("at", ago(hours=2)), **known, **fields)


@pytest.fixture
def history(ada, echo):
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


def tiles_of(answer: Any) -> dict[str, str]:
    return {tile.title: str(tile.number) for tile in answer.context["tiles"]}


def rows_behind(client: Any, tile: str) -> int:
    link = unescape(tile.partition('href="')[2].partition('"')[0])
    return client.get(link).context["cl"].result_count


def test_a_version_is_compared_with_the_one_before(admin_client, echo, history, ada):
    rows = compared(page(admin_client, echo))
    assert rows["uses"][:2] == ("4", "3")
    assert rows["success"][:2] == ("50%", "100%")
    assert "better" in rows["success"][2]
    assert rows["cost"][:2] == ("2.00 USD", "1.50 USD")
    assert rows["liked"][:2] == ("0%", "100%")
    used(ada, echo, 7, "failed", at=ago(seconds=5))
    assert "worse" in compared(page(admin_client, echo))["success"][2]
    assert "better" in compared(page(admin_client, echo, version=3))["success"][2]


def test_unused_versions_are_a_problem(admin_client, echo, history):
    for version in ("9", "x", "9" * 30):
        assert page(admin_client, echo, version=version).context["comparison"]["problem"], version
    missing = reverse("operators:agent-analytics", args=[10**30])
    assert admin_client.get(missing).status_code == 404


def test_its_numbers_lead_to_so_many_rows(admin_client, echo, history):
    tiles = tiles_of(page(admin_client, echo))
    expected = {"done": 5, "failed": 2, "canceled": 0, "tasks begun": 7, "answered by a message": 1}
    for title, number in {**expected, "thumbs up": 1, "thumbs down": 1}.items():
        assert f">{number}</a>" in tiles[title]
        assert rows_behind(admin_client, tiles[title]) == number, title


def test_a_plan_costs_what_its_steps_do(admin_client, ada, echo):
    known = {"name": "Plan", "description": "", "kind": Agent.Kind.PLAN, "workspace": echo.workspace}
    plan = Agent.objects.create(slug="plan", **known)
    version = plan.versions.create(number=4, content={}, sha256="")
    run = used(ada, plan, 4, started_at=ago(hours=3))
    times = {"created_at": ago(hours=3), "finished_at": ago(hours=2)}
    planned = PlanRun.objects.create(task=run.task, version=version, **times)
    planned.steps.create(key="one", task=used(ada, echo, 1).task)
    for _ in range(2):
        tiles = tiles_of(page(admin_client, plan))
        assert ">1</a>" in tiles["done"]
        assert tiles["cost"] == "0.50 USD"
        assert rows_behind(admin_client, tiles["done"]) == 1
        rollup.keep_up()


def test_it_needs_permissions_for_what_it_shows(client, echo, history):
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


def test_people_see_usage_without_costs(client, ada, echo, history):
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
