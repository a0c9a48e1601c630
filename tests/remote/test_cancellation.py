"""Failed cancels are tried again for a day, by one worker at a time."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from apps.agents.models import Agent
from apps.remote import a2a_client
from apps.remote.execution import cancellation
from apps.remote.models import OpenWork
from tests.remote.registered import remote_agent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def far(db: None) -> Agent:
    return remote_agent("far")


def unwanted_work(agent: Agent, name: str = "1", **fields: Any) -> OpenWork:
    due = timezone.now() - timedelta(seconds=1)
    ids = {"task": uuid.uuid4(), "run": uuid.uuid4(), "remote_task": name}
    return OpenWork.objects.create(agent=agent, next_try_at=due, **ids, **fields)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    called: list[str] = []

    def connect(agent: Agent, *_: Any, **__: Any) -> Any:
        called.append(agent.slug)
        raise ValueError("secret")

    monkeypatch.setattr(a2a_client, "connect_for", connect)
    return called


def test_the_hundredth_try_waits_as_long_as_the_tenth(far: Agent, failing: list[str]) -> None:
    row = unwanted_work(far, tries=100)
    assert cancellation.send_due_cancels() == 1
    row.refresh_from_db()
    assert row.tries == 101
    assert row.next_try_at <= timezone.now() + timedelta(hours=1)
    assert cancellation.send_due_cancels() == 0


def test_a_cancel_is_given_up_after_a_day_whatever_keeps_it_from_its_agent(far: Agent, failing: list[str]) -> None:
    unwanted_work(far, "old", tries=20, began_at=timezone.now() - timedelta(days=2))
    young = unwanted_work(far, "young")
    cancellation.send_due_cancels()
    assert failing == ["far", "far"]
    assert list(OpenWork.objects.all()) == [young]


def test_a_row_that_another_worker_claims_first_does_not_keep_the_others_waiting(
    far: Agent, failing: list[str]
) -> None:
    """The other worker claims the first row between this one's read and its claim."""
    first, second = unwanted_work(far, "first"), unwanted_work(far, "second")
    claimed_elsewhere: list[int] = []

    def claim(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "UPDATE" in str(sql) and not claimed_elsewhere:
            claimed_elsewhere.append(first.pk)
            OpenWork.objects.filter(pk=first.pk).update(next_try_at=timezone.now() + timedelta(hours=1))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(claim):
        assert cancellation.send_due_cancels() == 1
    second.refresh_from_db()
    assert second.tries == 1
