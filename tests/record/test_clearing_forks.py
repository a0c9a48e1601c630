"""Clearing a conversation keeps what forks share, and deletes the rest."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

import pytest
from django.conf import settings
from django.core.files.storage import default_storage

from agentkit import Completed, InputRequired
from apps.conversations.forks.forking import fork
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.optional.archive import restoring
from apps.optional.archive.archiving import CannotArchive, move_to_cold_storage
from apps.record import lineage, projection
from apps.record.content import blobs
from apps.record.errors import ContextNotFound
from apps.record.execution import Accepted, Run
from apps.record.models import Blob, Context, Event, Message, Task
from apps.record.reading.lookup import restored
from tests.archive.archiving import had_a_long_talk, put_away, replace
from tests.record.lineages import shown, started, words
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db, pytest.mark.services("who shares what is found by SQL")]


@pytest.fixture
def clear(ada, echo):
    return lambda context: deletion.delete_context(ada.principal, echo, context.context_id)


@pytest.mark.parametrize("ends", [True, False])
def test_unfinished_shared_task_is_canceled(ada, echo, said, clear, ends):
    """A streaming task of two turns, forked in the middle, loses what came later."""
    sent = accept.accept(ada.principal, echo, said("work", contextId="talk"))
    held = begin(sent.run)
    say(held, chunk("made", "1"), chunk("later", "?"))
    talk = Context.objects.get(context_id="talk")
    child = fork(ada.principal, talk, talk.last_event, reason="fork")
    end(held, InputRequired("Which?", slot="word"))
    answered = accept.accept(ada.principal, echo, said("secret", taskId=str(sent.task)))
    held = begin(answered.run)
    say(held, chunk("later", "2"))
    if ends:
        end(held, Completed("secret is done"))
    before = shown(child.pk)
    clear(talk)
    task = Task.objects.get()
    assert (task.pk, task.state, task.context) == (sent.task, "canceled", child)
    assert shown(child.pk) == before
    assert projection.differences(child.pk) == []
    assert not Message.objects.filter(parts__icontains="secret").exists()
    assert not Event.objects.filter(context=child, payload__icontains="secret").exists()
    assert [run.message.parts for run in Run.objects.all()] == [[{"text": "work"}]]
    assert {accepted.task for accepted in Accepted.objects.all()} == {task, None}


def test_shared_files_stay_as_long_as_forks(ada, tell, clear):
    large = "x" * (settings.INLINE_PART_BYTES + 1)
    root = tell("first", parts=[{"text": large}])
    child = fork(ada.principal, root, root.last_event, reason="fork")
    root = tell("second", root, parts=[{"text": f"{large}2"}])
    uses = dict(Blob.objects.values_list("sha256", "uses"))
    clear(root)
    part = lineage.messages(child).order_by("index").first().parts[0]
    shared = part["stored"]["sha256"]
    assert Blob.objects.get(sha256=shared).uses == uses.pop(shared)
    assert not Blob.objects.filter(sha256__in=uses, uses__gt=0).exists()
    assert blobs.content_of(part).decode() == large
    assert Accepted.objects.filter(task=None).count() == 1
    again = tell("again", fork(ada.principal, child, 0, reason="edit"))
    assert words(again) == ["again", "again is done"], "what is left is forked, too"
    assert projection.differences(again.pk) == projection.differences(child.pk) == []
    for one in (child, again):
        clear(one)
    assert not Blob.objects.filter(uses__gt=0).exists()


def test_last_of_deleted_family_keeps_its_past(ada, tell):
    root = tell("second", tell("first"))
    middle = tell("third", fork(ada.principal, root, root.last_event, reason="fork"))
    last = tell("fourth", fork(ada.principal, middle, middle.last_event, reason="fork"))
    before = shown(last.pk)
    assert len(deletion.delete([root, middle], "a test")) == 2
    assert shown(last.pk) == before
    assert [projection.differences(one.pk) for one in (root, middle, last)] == [[], [], []]
    tell("fifth", last)
    deletion.delete([last], "a test")
    assert not Message.objects.exists()
    assert not Task.objects.exists()
    assert Event.objects.count() == 3, "a tombstone for each"


@pytest.fixture
def talk(ada, echo, said):
    return had_a_long_talk(ada, echo, said)


def test_damaged_archives_stop_no_deletion(ada, echo, said, talk):
    task = Task.objects.get(context=talk, state="completed")
    helped = accept.accept(ada.principal, echo, said("for it"), sender=f"task:{task.pk}", parent=task.pk)
    end(begin(helped.run), Completed("done"))
    child, sound = (fork(ada.principal, talk, 3, reason="fork") for _ in range(2))
    before = shown(sound.pk)
    name = move_to_cold_storage(put_away(child).pk)
    with default_storage.open(name) as file:
        whole = file.read()
    replace(name, b"no gzip at all")
    deletion.delete_session(ada.principal, talk.pk)
    assert shown(sound.pk) == before
    assert Context.objects.get(pk=helped.context).deleted_at
    replace(name, whole)
    restored(Context.objects.get(pk=child.pk))
    assert projection.differences(child.pk) == projection.differences(sound.pk) == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.services("row locks")
def test_concurrent_forks_and_clears_leave_whole_forks(ada, tell, clear):
    made, is_forked = [tell("second", tell("first"))], threading.Event()

    def fork_any():
        for _ in range(4):
            for one in made[-3:]:
                with suppress(ContextNotFound):
                    made.append(fork(ada.principal, one.pk, 4, reason="fork"))
                    is_forked.set()

    def clear_oldest():
        assert is_forked.wait(30)
        for _ in range(6):
            if len(made) > 1:
                clear(made.pop(0))

    before = words(fork(ada.principal, made[0].pk, 4, reason="fork"))
    with ThreadPoolExecutor(3) as threads:
        for done in [started(threads, step) for step in (fork_any, fork_any, clear_oldest)]:
            done.result()
    assert Context.objects.exclude(deleted_at=None).exists()
    for one in Context.objects.filter(deleted_at=None):
        assert words(one) == before
        assert projection.differences(one.pk) == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.services("row locks")
def test_past_stays_while_a_fork_is_restored(ada, talk, monkeypatch):
    child = fork(ada.principal, talk, 3, reason="fork")
    before = shown(child.pk)["messages"]
    move_to_cold_storage(put_away(child).pk)
    talk = put_away(talk)
    filled, go_on, restore = threading.Event(), threading.Event(), restoring.restore_locked

    def restore_slowly(context):
        restore(context)
        filled.set()
        go_on.wait(30)

    monkeypatch.setattr(restoring, "restore_locked", restore_slowly)
    with ThreadPoolExecutor(2) as threads:
        back = started(threads, restored, Context.objects.get(pk=child.pk))
        assert filled.wait(30)
        moving = started(threads, move_to_cold_storage, talk.pk)
        wait([moving], 0.5)
        go_on.set()
        back.result()
        with pytest.raises(CannotArchive, match="It has forks that are not in cold storage"):
            moving.result()
    assert shown(child.pk)["messages"] == before
