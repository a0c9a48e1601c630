"""Operators pause, resume and run people's schedules."""

import pytest
from django.urls import reverse

from apps.accounts.audit_models import AuditEntry
from apps.automation import schedules
from apps.automation.models import Schedule, ScheduledRun
from console.cells import list_url, page_url
from tests.operators.test_actions import act, press

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made(ada, echo):
    about = {"name": "Nightly", "agent": echo, "text": "Hello", "kind": "cron", "cron": "0 3 * * *"}
    return schedules.save(ada.principal, Schedule(**about))


def test_one_is_paused_resumed_and_run_from_its_page(admin_client, made):
    press(admin_client, Schedule, "pause", made)
    assert Schedule.objects.get().paused_because == "An operator paused it."
    press(admin_client, Schedule, "resume", made)
    assert Schedule.objects.get().paused_at is None
    press(admin_client, Schedule, "run", made)
    run = ScheduledRun.objects.get()
    assert run.task.owner == made.owner
    for address in (page_url(Schedule, made.pk), list_url(ScheduledRun), page_url(ScheduledRun, run.pk)):
        assert admin_client.get(address).status_code == 200


def test_many_are_paused_from_the_list_and_it_is_in_the_audit(admin_client, made):
    before = AuditEntry.objects.count()
    act(admin_client, Schedule, "pause_selected", made)
    assert Schedule.objects.get().paused_at
    assert AuditEntry.objects.count() > before


def test_who_may_only_view_them_changes_nothing(client, django_user_model, made):
    viewer = django_user_model.objects.create_user("viewer@example.org", "viewer", is_staff=True)
    client.force_login(viewer)
    assert client.get(reverse("admin:automation_schedule_changelist")).status_code == 403
    press(client, Schedule, "pause", made)
    assert Schedule.objects.get().paused_at is None
