"""A person's own tasks, with filters."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.test import Client

from agentkit import Completed, Failed
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept
from apps.record.models import Task
from apps.web import task_list
from tests.working import begin, end

pytestmark = pytest.mark.django_db


def ended(user: User, agent: Agent, message: Any, outcome: Any) -> str:
    task = accept.accept(user.principal, agent, message)
    end(begin(task.run), outcome)
    return str(task.task)


def listed(browser: Client, query: str = "") -> list[str]:
    return [str(one.pk) for one in browser.get(f"/tasks{query}").context["tasks"]]


@pytest.fixture
def three(ada: User, echo: Agent, countdown: Agent, said: Any) -> list[str]:
    """A done, a failed and a waiting one, oldest first."""
    done = ended(ada, echo, said("Feed the otters"), Completed("Done."))
    failed = ended(ada, countdown, said("Count the geese"), Failed("No."))
    return [done, failed, str(accept.accept(ada.principal, echo, said("Wake the owls")).task)]


def test_own_tasks_are_listed_newest_first(ada_browser: Client, bob_browser: Client, three: list[str]) -> None:
    assert listed(ada_browser) == three[::-1]
    assert "Feed the otters" in ada_browser.get("/tasks").text
    assert listed(bob_browser) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?state=failed", [1]),
        ("?state=working", [2]),
        ("?agent=echo", [2, 0]),
        ("?q=otters", [0]),
        ("?days=7&state=done", [0]),
        ("?q=otters&agent=countdown", []),
        ("?state=nonsense&agent=nobody&days=x", [2, 1, 0]),
    ],
)
def test_filters_combine(ada_browser: Client, three: list[str], query: str, found: list[int]) -> None:
    assert listed(ada_browser, query) == [three[number] for number in found]


def test_old_tasks_leave_the_last_day(ada_browser: Client, three: list[str]) -> None:
    Task.objects.filter(pk=three[2]).update(status_at=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    assert listed(ada_browser, "?days=1") == three[1::-1]


def test_pages_show_each_task_once(ada_browser: Client, three: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_list, "PAGE_SIZE", 2)
    first = ada_browser.get("/tasks")
    rest = listed(ada_browser, f"?{first.context['older']}")
    assert [str(one.pk) for one in first.context["tasks"]] + rest == three[::-1]


def test_many_tasks_cost_as_many_queries(
    ada_browser: Client, three: list[str], ada: User, echo: Agent, said: Any, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        accept.accept(ada.principal, echo, said(f"Task {number}"))
    with django_assert_max_num_queries(4):
        ada_browser.get("/tasks", headers={"HX-Request": "true"})
