"""What operators do by the terminal."""

import itertools
import subprocess
import sys
import uuid
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import ApiKey
from apps.automation import schedules
from apps.automation.models import Schedule
from apps.operators import bulk

LIST_THEN_WORK = """
import django
django.setup()
from django.contrib import admin
from django.core.management import call_command
call_command("act")
admin.autodiscover()  # as the work on rows does
"""

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


def test_an_act_that_records_itself_is_recorded_once(admin_user, ada):
    key, _ = ApiKey.issue(ada, "laptop")
    call_command("act", "key.revoke", str(key.pk), "--as", admin_user.email)
    entries = AuditEntry.objects.filter(object_key=str(key.pk)).values_list("action", "actor_key")
    assert list(entries) == [(AuditAction.KEY_REVOKED, "act")]


def test_slow_acts_are_done_to_all_rows(admin_user, made, monkeypatch):
    monkeypatch.setattr(bulk, "time", SimpleNamespace(monotonic=itertools.count(step=60).__next__))
    call_command("act", "schedule.pause", str(made.pk), "--as", admin_user.email)
    assert Schedule.objects.get().paused_at


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


@pytest.mark.services("a process of its own", only=True)
def test_a_fresh_process_knows_all_acts():
    done = subprocess.run([sys.executable, "-c", LIST_THEN_WORK], capture_output=True, text=True, check=True)
    assert "schedule.pause" in done.stdout
