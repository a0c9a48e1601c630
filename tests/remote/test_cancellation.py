"""Failed cancels are tried again for a day."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.remote import a2a_client
from apps.remote.execution import cancellation
from apps.remote.models import OpenWork
from tests.remote.registered import remote_agent
from tests.work.hand import worked_off


@pytest.mark.django_db(transaction=True)
def test_cancels_are_given_up_after_a_day(monkeypatch):
    far, called = remote_agent("far"), []

    def connect(agent: Any, *_: Any, **__: Any) -> Any:
        called.append(agent.slug)
        raise ValueError("secret")

    def unwanted(name: str, **fields: Any) -> OpenWork:
        ids = {"task": uuid.uuid4(), "run": uuid.uuid4(), "remote_task": name}
        return OpenWork.objects.create(agent=far, next_try_at=timezone.now() - timedelta(seconds=1), **ids, **fields)

    monkeypatch.setattr(a2a_client, "connect_for", connect)
    unwanted("old", tries=20, began_at=timezone.now() - timedelta(days=2))
    young = unwanted("young")
    worked_off(cancellation.CANCELS)
    assert called == ["far", "far"]
    assert list(OpenWork.objects.all()) == [young]
