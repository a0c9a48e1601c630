"""A process whose clock is wrong dates events as the database does, so that sync cursors miss nothing."""

from __future__ import annotations

import datetime
import uuid

import pytest
from django.utils import timezone

from agentkit import Completed
from apps.engine.accept import accept
from apps.record.execution import Run
from apps.record.models import Event
from apps.record.reading import sync
from parley.db import sql
from tests.working import begin, chunk, end, say

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.services("the database has a clock of its own", only=True),
]
HOUR, MINUTE = datetime.timedelta(hours=1), datetime.timedelta(minutes=1)


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
def _wrong_clock(request, monkeypatch):
    """An hour off, in a process that has read the database's time."""
    now = timezone.now
    with monkeypatch.context() as wrong:
        wrong.setattr(timezone, "now", lambda: now() + request.param)
        sql.database_time()
        sql.database_time()
        yield
    sql.database_time()


@pytest.mark.usefixtures("_wrong_clock")
def test_wrong_clock_hides_no_event(ada, echo):
    before = sync.current_position(ada.principal)
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
    receipt = accept(ada.principal, echo, message)
    assignment = begin(receipt.run)
    say(assignment, chunk("answer", "Hello"))
    end(assignment, Completed("Hello"))
    events = Event.objects.filter(context=receipt.context).order_by("index")
    now = sql.database_time()
    assert [event.index for event in events if abs(event.at - now) > MINUTE] == []
    assert abs(Run.objects.get(pk=receipt.run).queued_at - now) < MINUTE, "or the sweep would wait an hour for it"
    [missed] = sync.missed_events(ada.principal, before)
    assert (missed.after, missed.last) == (0, events.count())
