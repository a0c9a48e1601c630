"""Resources and their acts check the caller's rights, whichever door is used."""

import pytest
from django.core.exceptions import ObjectNotUpdated

from apps.accounts.resources import save_own
from apps.automation.models import Schedule
from apps.automation.schedules import PAUSE, SCHEDULES

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(ada, echo):
    about = {"name": "Nightly", "agent": echo, "text": "Hello", "kind": "cron", "cron": "0 3 * * *"}
    return SCHEDULES.store(ada.principal, Schedule(**about))


def test_an_edit_keeps_acts_done_meanwhile(ada, made):
    stale = Schedule.objects.get()
    PAUSE.perform(ada.principal, made)
    stale.name = "Weekly"
    save_own(ada.principal, stale)
    kept = Schedule.objects.get()
    assert (kept.name, kept.paused_at is not None) == ("Weekly", True)
    assert kept.updated_at > made.updated_at
    made.delete()
    with pytest.raises(ObjectNotUpdated):
        save_own(ada.principal, stale)
