"""Sessions idle for longer than their workspace or agent allows are deleted."""

import datetime

import pytest
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.utils import timezone

from agentkit import Completed
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.engine import accept
from apps.features.archive.archiving import move_to_cold_storage
from apps.features.sessions import deletion
from apps.features.sessions.jobs import expire_sessions
from apps.record.models import Context
from tests.record.archiving import put_away
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("what is overdue is found by SQL")]


@pytest.fixture
def aged(ada, echo, said):
    def make(days, agent=echo):
        sent = accept.accept(ada.principal, agent, said(f"{days} days ago", contextId=f"{agent.slug} {days}"))
        end(begin(sent.run), Completed("done"))
        Context.objects.filter(pk=sent.context).update(updated_at=timezone.now() - datetime.timedelta(days=days))
        return Context.objects.get(pk=sent.context)

    return make


def left():
    return set(Context.objects.filter(deleted_at=None).values_list("context_id", flat=True))


def keep(holder, days):
    holder.retention_days = days
    holder.save()


def test_without_a_rule_everything_is_kept(aged):
    aged(10_000)
    assert deletion.delete_expired_sessions() == 0
    assert left() == {"echo 10000"}


def test_the_shorter_of_two_rules_counts(ada, echo, countdown, aged):
    keep(ada.personal_workspace, 30)
    for days in (5, 20, 40):
        aged(days)
        aged(days, countdown)
    assert deletion.delete_expired_sessions() == 2
    keep(countdown, 10)
    keep(echo, 1000)
    assert deletion.delete_expired_sessions() == 1
    assert left() == {"echo 5", "echo 20", "countdown 5"}
    entries = AuditEntry.objects.filter(action=AuditAction.SESSION_DELETED)
    assert set(entries.values_list("actor_kind", "actor_name")) == {("system", "retention")}


def test_what_is_in_cold_storage_goes_too_with_its_file(ada, aged):
    file = move_to_cold_storage(put_away(aged(40)).pk)
    keep(ada.personal_workspace, 30)
    expire_sessions()
    assert (left(), default_storage.exists(file)) == (set(), False)


def test_what_has_not_ended_and_what_is_touched_at_this_moment_stays(ada, echo, aged, said, monkeypatch):
    keep(ada.personal_workspace, 30)
    open_one = accept.accept(ada.principal, echo, said("open", contextId="open"))
    Context.objects.filter(pk=open_one.context).update(updated_at=timezone.now() - datetime.timedelta(days=99))
    aged(40)
    found = deletion.expired_sessions

    def answered_meanwhile():
        [context] = overdue = found()
        accept.accept(ada.principal, echo, said("wait", contextId=context.context_id))
        return overdue

    monkeypatch.setattr(deletion, "expired_sessions", answered_meanwhile)
    assert deletion.delete_expired_sessions() == 0
    assert left() == {"open", "echo 40"}


def test_what_cannot_be_deleted_does_not_keep_others(ada, aged, monkeypatch):
    keep(ada.personal_workspace, 30)
    stuck, delete = aged(50), deletion.delete
    aged(40)

    def delete_unless_stuck(context, *args, **options):
        if context.pk == stuck.pk:
            raise OSError("The disk is gone.")
        delete(context, *args, **options)

    monkeypatch.setattr(deletion, "SESSIONS_AT_ONCE", 1)
    monkeypatch.setattr(deletion, "delete", delete_unless_stuck)
    assert deletion.delete_expired_sessions() == 1
    assert deletion.delete_expired_sessions() == 0
    assert left() == {"echo 50"}


def test_what_would_go_is_shown_before_it_goes(admin_client, ada, aged, capsys):
    gone = aged(40)
    keep(ada.personal_workspace, 30)
    call_command("expire_sessions", "--dry-run")
    assert f"{gone.pk} unchanged since" in capsys.readouterr().out
    page = admin_client.get("/admin/accounts/workspace/").content.decode()
    assert "sessions due for deletion" in page.lower()
    assert f"?workspace__id__exact={ada.personal_workspace.pk}" in page
    assert left() == {"echo 40"}
    call_command("expire_sessions")
    assert "Deleted 1 session" in capsys.readouterr().out
    assert left() == set()
    assert f"{gone.pk}" in admin_client.get("/admin/accounts/auditentry/").content.decode()
