"""The audit: what is written, that nobody changes it, and that a change would be found."""

import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from apps.accounts import audit
from apps.accounts.audit import Subject, record
from apps.accounts.audit_models import AuditAction, AuditEntry, AuditHead
from tests.emptying import unguarded_audit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("the database refuses changes")]


def some(number=3):
    return [
        record(AuditAction.AGENT_REGISTERED, object=Subject("agents.agent", str(one), f"agent-{one}"), actor="test")
        for one in range(number)
    ]


def sql(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


STATEMENTS = [
    "UPDATE accounts_auditentry SET actor_name = 'nobody' WHERE number = 2",
    "UPDATE accounts_auditentry SET number = 9 WHERE number = 3",
    "DELETE FROM accounts_auditentry WHERE number = 3",
    "DELETE FROM accounts_auditentry",
    "DELETE FROM accounts_audithead",
    "UPDATE accounts_audithead SET number = 2",
]
STATEMENTS_OF = {
    "sqlite": [
        "REPLACE INTO accounts_auditentry SELECT * FROM accounts_auditentry WHERE number = 2",
        "REPLACE INTO accounts_audithead SELECT * FROM accounts_audithead",
    ],
    "postgresql": ["TRUNCATE accounts_auditentry", "TRUNCATE accounts_audithead"],
}


def test_the_database_itself_refuses_changes_and_deletion(subtests):
    some()
    before = list(AuditEntry.objects.order_by("number").values()), AuditHead.objects.values().get()
    for statement in STATEMENTS + STATEMENTS_OF[connection.vendor]:
        with subtests.test(statement), pytest.raises(IntegrityError):
            sql(statement)
    assert (list(AuditEntry.objects.order_by("number").values()), AuditHead.objects.values().get()) == before


def test_entries_are_numbered_without_gaps_however_many_write():
    def write():
        for number in range(10):
            try:
                with transaction.atomic():
                    some(1)
                    if number % 3 == 0:
                        raise RuntimeError  # the act fails, and its entry does not exist
            except RuntimeError:
                pass
        connection.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(AuditEntry.objects.order_by("number").values_list("number", flat=True)) == list(range(1, 25))
    assert audit.verify().problem == ""


def test_failing_entry_undoes_its_act(ada, monkeypatch):
    def fail(entry):
        raise IntegrityError

    monkeypatch.setattr(audit, "hash_of", fail)
    with pytest.raises(IntegrityError):
        call_command("create_user", "new@example.org")
    assert type(ada).objects.filter(email="new@example.org").count() == 0


def tampered(statement):
    with transaction.atomic(), unguarded_audit():
        sql(statement)


@pytest.mark.parametrize(
    ("statement", "broken_at"),
    [
        ("UPDATE accounts_auditentry SET actor_name = 'x' WHERE number = 3", 3),
        ("UPDATE accounts_auditentry SET details = '{\"a\": 1}' WHERE number = 1", 1),
        ("UPDATE accounts_auditentry SET at = '2020-01-01 00:00:00' WHERE number = 2", 2),
        ("DELETE FROM accounts_auditentry WHERE number = 2", 2),
        ("DELETE FROM accounts_auditentry WHERE number = 1", 1),
        ("DELETE FROM accounts_auditentry WHERE number > 3", 4),
        ("DELETE FROM accounts_audithead", 5),
    ],
)
def test_changed_entries_are_found_by_number(statement, broken_at):
    some(5)
    tampered(statement)
    with pytest.raises(CommandError) as failed:
        call_command("verify_audit")
    assert failed.value.returncode == 1
    assert f"Entry {broken_at}:" in str(failed.value)


def test_rewritten_audit_lacks_a_kept_hash(capsys):
    kept = some(3)[-1].hash
    some(2)
    call_command("verify_audit", "--expect", kept)
    assert "5 entries" in capsys.readouterr().out
    tampered("DELETE FROM accounts_auditentry")
    tampered("DELETE FROM accounts_audithead")
    some(5)
    call_command("verify_audit")
    with pytest.raises(CommandError):
        call_command("verify_audit", "--expect", kept)


def test_triggers_that_are_missing_are_a_problem():
    some(1)
    with transaction.atomic():
        name = "audit_head_no_delete"
        sql(f"DROP TRIGGER {name}" + (" ON accounts_audithead" if connection.vendor == "postgresql" else ""))
        assert name in audit.verify().problem
        transaction.set_rollback(True)


def test_strange_values_keep_the_chain_whole(rf):
    request = rf.get("/", headers={"User-Agent": "\x00\ud800 agent " + "x" * 1000, "X-Request-ID": "r-1"})
    details = {"float": 1.5, "big": 2**80, "text": "\x00é" * 500, "list": [*range(1000)], "nested": {"a": [None, True]}}
    entry = record(
        AuditAction.SIGN_IN_REFUSED, object=Subject("account", label="\x00" * 500), details=details, request=request
    )
    assert audit.verify().problem == ""
    entry.refresh_from_db()
    assert (entry.address, entry.request_id) == ("127.0.0.1", "r-1")
    assert len(entry.user_agent) == 200
    assert len(str(entry.details)) < 2000
