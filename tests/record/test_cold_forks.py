"""A fork's past stays readable when its origin is archived."""

import threading

import pytest
from django.core.files.storage import default_storage
from django.db import connection

from agentkit import Completed
from apps.engine import accept
from apps.features.archive import archiving, restoring
from apps.features.archive.archiving import CannotArchive, move_to_cold_storage
from apps.features.forks.forking import fork
from apps.features.sessions import deletion
from apps.record import projection
from apps.record.lookup import restored
from apps.record.models import Context, Task
from tests.record.archiving import had_a_long_talk, put_away, replace
from tests.record.lineages import shown
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("rows that come back are locked")]


@pytest.fixture
def talk(ada, echo, said):
    return had_a_long_talk(ada, echo, said)


def test_what_begins_in_the_place_of_a_session_in_cold_storage_is_forked_at_its_beginning(ada, talk):
    anew = fork(ada.principal, talk, 0, reason="edit")
    move_to_cold_storage(put_away(talk).pk)
    sibling = fork(ada.principal, anew, 0, reason="edit")
    assert (sibling.parent_id, sibling.forked_at, sibling.agent_id) == (talk.pk, 0, talk.agent_id)
    assert projection.differences(sibling.pk) == []


def test_a_past_does_not_go_into_cold_storage_while_a_fork_comes_back(ada, talk, monkeypatch):
    child = fork(ada.principal, talk, 3, reason="fork")
    before = shown(child.pk)["messages"]
    move_to_cold_storage(put_away(child).pk)
    talk = put_away(talk)
    filled, go_on, restore, kept = threading.Event(), threading.Event(), restoring.restore_locked, []

    def restore_slowly(context):
        restore(context)
        filled.set()
        go_on.wait(30)

    def bring_back():
        restored(Context.objects.get(pk=child.pk))

    def move():
        try:
            move_to_cold_storage(talk.pk)
        except CannotArchive as reason:
            kept.append(str(reason))

    def started(target):
        def run():
            try:
                target()
            finally:
                connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    monkeypatch.setattr(restoring, "restore_locked", restore_slowly)
    threads = [started(bring_back)]
    assert filled.wait(30)
    threads.append(started(move))
    threads[1].join(0.5)
    go_on.set()
    for one in threads:
        one.join()
    assert kept == ["It has forks that are not in cold storage."]
    assert shown(child.pk)["messages"] == before


def test_a_session_is_deleted_though_the_file_of_a_fork_is_damaged(ada, talk):
    child = fork(ada.principal, talk, 3, reason="fork")
    sound = fork(ada.principal, talk, 3, reason="fork")
    before = shown(sound.pk)
    name = move_to_cold_storage(put_away(child).pk)
    with default_storage.open(name) as file:
        whole = file.read()
    replace(name, b"no gzip at all")
    deletion.delete_session(ada.principal, talk.pk)
    assert shown(sound.pk) == before
    replace(name, whole)
    restored(Context.objects.get(pk=child.pk))
    assert projection.differences(child.pk) == []
    assert projection.differences(sound.pk) == []


def test_what_agents_did_for_a_session_goes_with_it_though_its_file_is_damaged(ada, echo, said, talk):
    task = Task.objects.get(context=talk, state="completed")
    child = accept.accept(ada.principal, echo, said("for it"), sender=f"task:{task.pk}", parent=task.pk)
    end(begin(child.run), Completed("done"))
    archiving.move_with_children(put_away(talk))
    replace(Context.objects.get(pk=talk.pk).cold_file, b"no gzip at all")
    deletion.delete_session(ada.principal, talk.pk)
    assert Context.objects.get(pk=child.context).deleted_at
    assert not Context.objects.exclude(cold_file="").exists()
