"""The dashboard's figures of a range: each leads to exactly the rows that it counts, for those who may see them."""

from __future__ import annotations

import datetime
import random
import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.engine.worker import Load
from apps.features.analytics import rollup, storage
from apps.features.analytics.reading import Period, read
from apps.features.housekeeping import processes
from apps.features.housekeeping.models import ServerProcess
from apps.operators.dashboard.figures import Overview
from apps.operators.dashboard.ranges import range_of
from apps.record.execution import Run
from tests.analytics.worlds import ago, make_run, random_run

pytestmark = pytest.mark.django_db
NUMBER = re.compile(r'<a [^>]*href="([^"]+)">([\d,]+)</a>')


@pytest.fixture
def runs(ada, bob, echo, countdown) -> list[Run]:
    chance = random.Random(11)
    made = [random_run(chance, [ada, bob], [echo, countdown], ago(hours=chance.uniform(0, 60))) for _ in range(30)]
    made.append(make_run(ada, echo, ago(minutes=1), state="failed"))
    rollup.keep_up()
    return made


@pytest.fixture
def operator(client: Client) -> User:
    user = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    client.force_login(user)
    return user


def allow(user: User, *names: str) -> None:
    user.user_permissions.add(*Permission.objects.filter(codename__in=names))


def parts(client: Client, **query: Any) -> str:
    answer = client.get(reverse("operators:dashboard-parts", query=query))
    assert answer.status_code == 200
    return answer.content.decode()


def linked_numbers(shown: str) -> list[tuple[str, int]]:
    return [(unescape(link), int(number.replace(",", ""))) for link, number in NUMBER.findall(shown)]


@pytest.mark.parametrize("query", [{"range": "1h"}, {"range": "30d"}, "custom"], ids=str)
def test_each_number_leads_to_exactly_so_many_rows(admin_client, runs, query):
    if query == "custom":
        query = {"from": f"{ago(hours=40):%Y-%m-%dT%H:%M}", "to": f"{ago(hours=5):%Y-%m-%dT%H:%M}"}
    numbers = {(link, number) for link, number in linked_numbers(parts(admin_client, **query)) if "finished_at" in link}
    assert len(numbers) > 5
    assert sum(number for _, number in numbers)
    for link, number in numbers:
        assert admin_client.get(link).context["cl"].result_count == number, link


def test_the_parts_of_a_whole_add_up_to_it(admin_user, runs):
    shown = range_of(QueryDict("range=7d"))
    overview = read(shown.period, lambda reading: Overview(reading, shown, admin_user))
    found = overview.figures()
    throughput = next(chart for chart in found.charts if chart.id == "throughput")
    assert sum(sum(one.values) for one in throughput.series) == len(runs)
    assert all(len(one.values) == len(chart.labels) for chart in found.charts for one in chart.series)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("range=2y", "no range"),
        ("from=yesterday", "not a time"),
        ("from=2026-13-45", "not a time"),
        ("from=2026-01-02T10:00&to=\x00", "not a time"),
        ("from=0001-01-01", "not a time"),
        ("from=9999-12-31T23:59", "future"),
        ("to=2026-01-01", "no beginning"),
        ("from=2020-02-02&to=2020-02-01", "ends before"),
        ("from=2020-01-01&to=2024-01-01", "longer than"),
    ],
)
def test_a_wrong_range_is_explained_and_the_usual_one_shown(admin_client, query, says):
    for address in (reverse("admin:index"), reverse("operators:analytics")):
        answer = admin_client.get(f"{address}?{query}")
        assert answer.status_code == 200
        assert says in answer.context["picker"]["problem"]
    assert range_of(QueryDict(query)).choice == "24h"


def test_a_custom_range_is_of_whole_hours():
    period = range_of(QueryDict("from=2026-01-02T10:20&to=2026-01-03T09:40")).period
    assert (period.start.hour, period.end.hour) == (10, 10)
    assert period.end - period.start == datetime.timedelta(days=1)
    assert range_of(QueryDict("from=2026-01-02T10:20:00%2B02:00&to=2026-01-03")).period.start.hour == 8


def test_who_may_not_view_runs_agents_or_workspaces_sees_neither_their_numbers_nor_their_links(client, operator, runs):
    nothing = parts(client)
    assert not linked_numbers(nothing)
    assert "/admin/record/" not in nothing
    allow(operator, "view_run")
    shown = parts(client)
    assert "/admin/record/run/" in shown
    for hidden in (
        "/admin/agents/",
        "/admin/accounts/workspace/",
        "by_agent",
        "in_workspace",
        "Countdown",
        "/record/task/",
    ):
        assert hidden not in shown
    allow(operator, "view_agent", "view_workspace")
    shown = parts(client)
    for there in ("/admin/agents/", "/admin/accounts/workspace/", "by_agent", "in_workspace", "Countdown"):
        assert there in shown


def test_people_who_are_not_operators_see_no_part_of_it(client, ada):
    addresses = [reverse("operators:dashboard-parts"), reverse("operators:analytics")]
    for user in (None, ada):
        if user:
            client.force_login(user)
        for address in addresses:
            assert client.get(address).status_code == 302


def test_an_empty_installation_says_what_to_do(admin_client):
    shown = parts(admin_client)
    assert "No run ended in this range" in shown
    assert "canvas" not in shown


def test_a_chart_has_its_numbers_as_a_table_too(admin_client, runs):
    shown = parts(admin_client, range="7d")
    figures = re.findall(r"<figure.*?</figure>", shown, re.DOTALL)
    assert len(figures) == 3
    for figure in figures:
        assert 'role="img"' in figure
        assert "<tbody>" in figure


def test_it_says_since_when_the_sums_are_not_kept_up(admin_client, runs, ada, echo, monkeypatch):
    monkeypatch.setattr("apps.features.analytics.reading.MOST_LIVE_ROWS", 3)
    monkeypatch.setattr("apps.features.analytics.reading.USUALLY_LIVE", datetime.timedelta())
    assert 'id="part-late"' not in parts(admin_client)
    then = rollup.Position.objects.get(source="run").until - datetime.timedelta(minutes=30)
    rollup.Position.objects.update(until=then)
    for _ in range(5):
        make_run(ada, echo, then + datetime.timedelta(minutes=5))
    assert 'id="part-late"' in parts(admin_client)


def test_storage_is_what_was_measured(admin_client, client, operator, ada):
    storage.measure()
    assert "archives" in parts(admin_client)
    client.force_login(operator)
    allow(operator, "view_run")
    shown = parts(client)
    assert "database" in shown
    assert "archives" not in shown


def test_a_quiet_hour_is_read_from_the_newest_rows_alone(ada, echo):
    make_run(ada, echo, ago(minutes=2))
    now = timezone.now()
    sums = read(Period(now - datetime.timedelta(hours=1), now), lambda reading: reading.sums("run.state"))
    assert [amount.number for amount in sums.values()] == [1]


@pytest.mark.services("each database has its own limits of numbers and texts")
@pytest.mark.parametrize("value", ["x", "-1", "9" * 30, "\0", "'", "\u00b2"])
def test_a_wrong_filter_finds_nothing(admin_client, ada, echo, value):
    make_run(ada, echo, ago(minutes=1), state="failed", error={"code": "timed_out"})
    for name in ("by_agent", "version", "reason", "language_model", "in_workspace"):
        answer = admin_client.get(reverse("admin:record_run_changelist", query={name: value}))
        assert answer.status_code == 200, name
        assert answer.context["cl"].result_count == 0, name


def test_workers_are_shown_with_load_and_heartbeat_to_who_may_view_them(client, operator, ada, echo):
    allow(operator, "view_run")
    assert "No worker was seen lately" not in parts(client)
    allow(operator, "view_serverprocess")
    assert "No worker was seen lately" in parts(client)
    processes.note_heartbeat(ServerProcess.Kind.WORKER, Load(busy=1, waiting=0, capacity=200))
    worker = ServerProcess.objects.get()
    name = f"{worker.host}:{worker.pid}:abc"
    make_run(ada, echo, ago(minutes=1)).task.runs.update(state="running", worker=name, finished_at=None)
    shown = parts(client)
    assert "No worker was seen lately" not in shown
    link = re.search(r'href="([^"]+)">1 of 200<', shown)
    assert link
    assert client.get(unescape(link[1])).context["cl"].result_count == 1
