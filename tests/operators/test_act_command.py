"""What operators do by the terminal."""

import uuid

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.audit_models import AuditEntry
from apps.automation import schedules
from apps.automation.models import Schedule

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made(ada, echo):
    about = {"name": "Nightly", "agent": echo, "text": "Hello", "kind": "cron", "cron": "0 3 * * *"}
    return schedules.save(ada.principal, Schedule(**about))


def test_an_act_is_done_and_in_the_audit(admin_user, made, capsys):
    call_command("act", "schedule.pause", str(made.pk), "--as", admin_user.email)
    assert Schedule.objects.get().paused_because == "An operator paused it."
    assert "Paused." in capsys.readouterr().out
    assert AuditEntry.objects.filter(actor_key="act", object_key=str(made.pk)).exists()
    with pytest.raises(CommandError):
        call_command("act", "schedule.pause", str(made.pk), "--as", admin_user.email)


def test_what_is_wrong_changes_nothing(admin_user, ada, made):
    for given in (
        ["schedule.pause", str(made.pk), "--as", ada.email],
        ["schedule.pause", str(made.pk)],
        ["schedule.fly", str(made.pk), "--as", admin_user.email],
        ["schedule.pause", str(uuid.uuid4()), "--as", admin_user.email],
        ["schedule.pause", "x", "--as", admin_user.email],
    ):
        with pytest.raises(CommandError):
            call_command("act", *given)
    assert Schedule.objects.get().paused_at is None


def test_without_a_name_it_lists_what_there_is(capsys):
    call_command("act")
    assert "schedule.run" in capsys.readouterr().out
