"""A session and its owner's forks of it are a family, which the log of each names."""

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from agentkit import Completed
from apps.engine import accept
from apps.features.forks.forking import fork
from apps.features.sessions import commands, deletion, families
from apps.record import projection
from apps.record.models import Context, Event
from tests.emptying import rewrite, without_hashes
from tests.members import member, signed_in
from tests.working import begin, end

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk(tell):
    return tell("second", tell("first"))


@pytest.fixture
def forks(ada, tell, talk):
    """An edit of the first message, a fork of the session, and a fork of that."""
    edited = tell("instead", fork(ada.principal, talk, 0, reason="edit"))
    child = tell("more", fork(ada.principal, talk, talk.last_event, reason="fork"))
    return [edited, child, tell("last", fork(ada.principal, child, child.last_event, reason="fork"))]


def roots():
    return dict(Context.objects.values_list("pk", "root"))


def test_forks_have_the_root_of_what_they_were_forked_from(talk, forks):
    assert [one.family_key for one in (talk, *forks)] == [talk.pk] * 4
    assert [projection.differences(one.pk) for one in forks] == [[]] * 3
    deletion.delete(talk, "test")
    deletion.delete(forks[1], "test")
    assert [projection.differences(one.pk) for one in (talk, *forks)] == [[]] * 4


def test_a_fork_of_somebody_elses_session_begins_a_family(ada, bob, echo, said):
    colleague = member(bob, ada)
    sent = accept.accept(ada.principal, echo, said("hers"))
    end(begin(sent.run), Completed("to hers"))
    hers = commands.share_session(ada.principal, sent.context, Context.Sharing.WORKSPACE)
    his = fork(signed_in(bob).principal, hers, hers.last_event, reason="fork")
    again = fork(colleague, his, his.last_event, reason="fork")
    assert (hers.family_key, his.family_key, again.family_key) == (hers.pk, his.pk, his.pk)
    assert projection.differences(his.pk) == []


def test_older_forks_get_their_family(forks):
    noted = roots()
    for event in Event.objects.filter(payload__has_key="root"):
        del event.payload["root"]
        rewrite(Event.objects.filter(pk=event.pk), payload=event.payload)
    without_hashes()
    Context.objects.update(root=None)
    editor = SimpleNamespace(connection=connection)
    import_module("apps.record.migrations.0012_families_of_forks").note_roots(apps, editor)
    assert roots() == noted
    assert [projection.differences(one.pk) for one in forks] == [[]] * 3


def test_a_branch_is_deleted_with_what_continues_after_it(ada, talk, forks):
    edited, child, last = forks
    after = families.continuing(ada.principal, child.pk, child.forked_at + 2)
    assert after == [last, child]
    families.delete(ada.principal, families.continuing(ada.principal, talk.pk, 1))
    assert list(Context.objects.filter(deleted_at=None)) == [edited]
