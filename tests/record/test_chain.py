"""The database refuses to change the log, and a change behind its back is found."""

from __future__ import annotations

import gzip
import hashlib
import json
from contextlib import suppress

import pytest
import rfc8785
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from apps.conversations.forks.forking import fork
from apps.conversations.sessions import deletion
from apps.optional.archive import archiving, restoring
from apps.record import ledger
from apps.record.chain import erasing
from apps.record.content import strict_json
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.record.projection import differences
from apps.record.reading.lookup import DamagedArchive
from parley.db import sql
from tests.archive.archiving import had_a_long_talk, put_away, replace
from tests.emptying import remove, rewrite
from tests.record.lineages import rename

pytestmark = [pytest.mark.django_db, pytest.mark.services("the database refuses changes")]


@pytest.fixture
def talk(ada, echo, said):
    return had_a_long_talk(ada, echo, said)


def event(context, index):
    return Event.objects.filter(context=context, index=index)


STATEMENTS = [
    "UPDATE record_event SET payload = '{}' WHERE \"index\" = 2",
    "UPDATE record_event SET hash = NULL",
    'DELETE FROM record_event WHERE "index" = 3',
]
STATEMENTS_OF = {
    "sqlite": 'REPLACE INTO record_event SELECT * FROM record_event WHERE "index" = 2',
    "postgresql": "TRUNCATE record_event",
}


def test_failed_write_leaves_no_wrong_hash(talk):
    """A row in memory may have the log's newest index and an older hash, after its own event came to nothing."""
    kept = Context.objects.get(pk=talk.pk)
    with suppress(InterruptedError), ledger.writing(kept, lock=False) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "never"})
        raise InterruptedError
    rename(talk.pk)
    with pytest.raises(ledger.StaleWrite), ledger.writing(kept, lock=False) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "too late"})
    assert differences(talk.pk) == []


def test_database_refuses_changes_and_deletion(talk, subtests):
    before = list(Event.objects.order_by("pk").values())
    for statement in [*STATEMENTS, STATEMENTS_OF[connection.vendor]]:
        with subtests.test(statement), pytest.raises(IntegrityError), transaction.atomic():
            sql.execute(statement, [])
    for change in (
        lambda: Event.objects.update(artifact_id="other"),
        lambda: event(talk, 1).get().save(),
        lambda: event(talk, 1).delete(),
        lambda: Context.objects.filter(pk=talk.pk).delete(),
    ):
        with subtests.test("ORM"), pytest.raises(IntegrityError), transaction.atomic():
            change()
    assert list(Event.objects.order_by("pk").values()) == before


def test_erasing_opens_one_log_for_one_block(ada, echo, said, talk):
    other = had_a_long_talk(ada, echo, said, "other")
    for context, change in ((other, {"context": talk}), (talk, {"context": other, "payload": {}})):
        with pytest.raises(IntegrityError), erasing(talk.pk):
            Event.objects.filter(context=context).update(**change)
    with pytest.raises(IntegrityError), transaction.atomic():
        event(talk, 1).delete()
    with erasing(talk.pk):
        Event.objects.filter(context=talk).delete()
    with pytest.raises(IntegrityError), transaction.atomic():
        event(other, 1).delete()


@pytest.mark.parametrize(
    ("tamper", "broken_at"),
    [
        pytest.param(lambda talk: rewrite(event(talk, 1), at="2020-01-01T00:00:00Z"), 1, id="changed"),
        pytest.param(lambda talk: rewrite(event(talk, 4), hash=None), 5, id="hash removed"),
        pytest.param(lambda talk: remove(event(talk, 2)), 2, id="removed"),
        pytest.param(lambda talk: remove(event(talk, talk.last_event)), "last", id="cut"),
        pytest.param(lambda talk: rewrite(event(talk, talk.last_event), hash=None, run=None), "last", id="newest"),
    ],
)
def test_replay_names_the_first_changed_event(talk, tamper, broken_at, capsys):
    call_command("replay", str(talk.pk))
    tamper(talk)
    with pytest.raises(CommandError) as failed:
        call_command("replay", str(talk.pk))
    assert failed.value.returncode == 1
    assert f"event {talk.last_event if broken_at == 'last' else broken_at} " in capsys.readouterr().out.splitlines()[1]


def test_replay_finds_cut_logs_and_missing_triggers(talk, capsys):
    with transaction.atomic():
        sql.execute("DROP TRIGGER event_no_delete" + " ON record_event" * (connection.vendor == "postgresql"), [])
        with pytest.raises(CommandError):
            call_command("replay", str(talk.pk))
        transaction.set_rollback(True)
    assert "event_no_delete" in capsys.readouterr().out
    remove(event(talk, talk.last_event))
    before = event(talk, talk.last_event - 1).get()
    Context.objects.filter(pk=talk.pk).update(last_event=before.index, updated_at=before.at)
    assert f"event {before.index} " in differences(talk.pk)[0], "the session has the hash of the last"


def test_hash_is_of_canonical_json(talk):
    first, second = Event.objects.filter(context=talk).order_by("index")[:2]
    said = {
        "previous": first.hash,
        "index": 2,
        "type": second.type,
        "task": str(second.task_id),
        "run": str(second.run),
        "artifact": "",
        "payload": second.payload,
        "at": second.at.isoformat(timespec="microseconds"),
    }
    assert second.hash == hashlib.sha256(rfc8785.dumps(said)).hexdigest()
    strange = {
        "title": "\N{SNOWMAN}\N{PARTY POPPER}\u2028",
        "x": [1e23, -0.0, 1.0, 5e-324, 2**60, 2**53, 2.0**53, 0.1, True, None],
    }
    strange |= {"\N{PARTY POPPER}": {}, "\uffee": [[]], "1e5": "1e5"}
    with ledger.writing(talk.pk) as log:
        log.add(EventType.SESSION_RENAMED, strict_json.to_storable(strange))
    rename(talk.pk)
    assert differences(talk.pk) == []


def test_forks_continue_their_parents_chain(ada, echo, talk):
    child = fork(ada.principal, talk.pk, 4, reason="fork")
    rename(child.pk)
    assert differences(child.pk) == []
    with transaction.atomic():
        rewrite(event(talk, 2), artifact_id="other")
        assert "event 2 " in differences(child.pk)[0]
        transaction.set_rollback(True)
    deletion.delete_context(ada.principal, echo, talk.context_id)
    assert [differences(one) for one in (child.pk, talk.pk)] == [[], []]
    rewrite(event(child, 2), artifact_id="other")
    assert "event 2 " in differences(child.pk)[0]
    rewrite(Event.objects.filter(context=talk), artifact_id="other")
    assert differences(talk.pk) != []


def test_archive_keeps_the_chain(talk):
    before = Context.objects.get(pk=put_away(talk).pk).head_hash
    archiving.move_to_cold_storage(talk.pk)
    assert Context.objects.get(pk=talk.pk).head_hash == before
    restoring.restore_context(talk.pk)
    assert differences(talk.pk) == []
    put_away(talk)
    rewrite(event(talk, 2), artifact_id="other")
    with pytest.raises(archiving.CannotArchive, match="event 2 "):
        archiving.move_to_cold_storage(talk.pk)


def test_rewritten_archive_is_not_restored(talk):
    put_away(talk)
    name = archiving.move_to_cold_storage(talk.pk)
    with default_storage.open(name) as file:
        manifest, *lines = map(json.loads, gzip.decompress(file.read()).splitlines())
    lines[1]["row"]["artifact_id"] = "other"
    events = [json.dumps(line).encode() + b"\n" for line in lines if line["in"] == "record.event"]
    manifest["sections"][0]["sha256"] = hashlib.sha256(b"".join(events)).hexdigest()
    others = [
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for line in lines
        if line["in"] != "record.event"
    ]
    replace(name, gzip.compress(json.dumps(manifest).encode() + b"\n" + b"".join([*events, *others])))
    with pytest.raises(DamagedArchive, match="event 2 "):
        restoring.restore_context(talk.pk)
    assert Event.objects.filter(context=talk).count() == 0
