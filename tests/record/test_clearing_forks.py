"""Clearing a conversation keeps what forks share, and deletes the rest."""

import itertools
import threading

import pytest
from django.conf import settings
from django.db import connection

from agentkit import Completed, InputRequired
from apps.engine import accept
from apps.features.forks.forking import fork
from apps.features.sessions import deletion
from apps.record import lineage, projection
from apps.record.content import blobs
from apps.record.errors import ContextNotFound
from apps.record.execution import Accepted, Run
from apps.record.models import Blob, Context, Event, Message, Task
from tests.record.lineages import place_before, shown, words
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db, pytest.mark.services("who shares what is found by SQL")]


@pytest.fixture
def clear(ada, echo):
    return lambda context: deletion.delete_context(ada.principal, echo, context.context_id)


@pytest.fixture
def family(ada, tell):
    root = tell("third", tell("second", tell("first")))
    early = tell("early", fork(ada.principal, root, place_before(root, "second"), reason="fork"))
    late = tell("late", fork(ada.principal, root, place_before(root, "third"), reason="fork"))
    return [root, early, late, tell("deep", fork(ada.principal, late, late.last_event, reason="fork"))]


EVERY_ORDER = list(itertools.permutations(range(4)))
ORDERS = [
    pytest.param(order, marks=pytest.mark.slow("every other order")) if number % 6 not in (0, 3) else order
    for number, order in enumerate(EVERY_ORDER)
]


@pytest.mark.parametrize("order", ORDERS, ids=["".join(map(str, order)) for order in EVERY_ORDER])
def test_a_family_is_cleared_in_any_order_and_who_is_left_is_as_before(family, clear, order):
    before = {one.pk: shown(one.pk) for one in family}
    for number in order:
        clear(family[number])
        before.pop(family[number].pk)
        for key, then in before.items():
            assert shown(key) == then
            assert projection.differences(key) == []
    assert not Task.objects.exists()
    assert not Message.objects.exists()
    assert not Run.objects.exists()


def test_what_nobody_shares_goes_and_the_fork_goes_on_and_is_forked(ada, tell, clear):
    root = tell("second", tell("first"))
    child = fork(ada.principal, root, place_before(root, "second"), reason="fork")
    clear(root)
    assert words(child) == ["first", "first is done"]
    assert not Message.objects.filter(parts__icontains="second").exists()
    assert set(Message.objects.values_list("context", flat=True)) == {child.pk}
    assert Accepted.objects.filter(task=None).count() == 1
    child = tell("other", child)
    again = tell("again", fork(ada.principal, child, place_before(child, "first"), reason="edit"))
    last = fork(ada.principal, child, place_before(child, "other"), reason="fork")
    assert words(again) == ["again", "again is done"]
    assert words(last) == ["first", "first is done"]
    assert words(child) == ["first", "first is done", "other", "other is done"]
    for one in (child, again, last):
        assert projection.differences(one.pk) == []


def cut_off(ada, echo, said):
    """A streaming task of two turns, forked in the middle."""
    sent = accept.accept(ada.principal, echo, said("work", contextId="talk"))
    held = begin(sent.run)
    say(held, chunk("made", "1"), chunk("later", "?"))
    talk = Context.objects.get(context_id="talk")
    child = fork(ada.principal, talk, talk.last_event, reason="fork")
    end(held, InputRequired("Which?", slot="word"))
    answered = accept.accept(ada.principal, echo, said("secret", taskId=str(sent.task)))
    held = begin(answered.run)
    say(held, chunk("later", "2"))
    return sent, held, child


@pytest.mark.parametrize("ends", [True, False])
def test_a_task_that_had_not_ended_is_canceled_and_loses_what_came_later(ada, echo, said, clear, ends):
    sent, held, child = cut_off(ada, echo, said)
    if ends:
        end(held, Completed("secret is done"))
    before = shown(child.pk)
    clear(Context.objects.get(context_id="talk"))
    task = Task.objects.get()
    assert (task.pk, task.state, task.context) == (sent.task, "canceled", child)
    assert shown(child.pk) == before
    assert projection.differences(child.pk) == []
    assert not Message.objects.filter(parts__icontains="secret").exists()
    assert not Event.objects.filter(context=child, payload__icontains="secret").exists()
    assert [run.message.parts for run in Run.objects.all()] == [[{"text": "work"}]]
    assert {accepted.task for accepted in Accepted.objects.all()} == {task, None}


def test_forks_at_several_places_of_one_task_show_it_each_as_it_was(ada, echo, said, clear):
    _, held, early = cut_off(ada, echo, said)
    end(held, Completed("done"))
    talk = Context.objects.get(context_id="talk")
    late = fork(ada.principal, talk, talk.last_event, reason="fork")
    before = shown(early.pk), shown(late.pk)
    clear(talk)
    assert (shown(early.pk), shown(late.pk)) == before
    assert Task.objects.get().context == late
    clear(late)
    assert shown(early.pk) == before[0]
    assert Task.objects.get().context == early
    assert projection.differences(early.pk) == []


def test_what_agents_did_for_a_task_goes_when_no_fork_has_it(ada, echo, said, tell, clear):
    root = tell("second", tell("first"))
    first, second = Task.objects.order_by("created_at")
    helped = [
        accept.accept(ada.principal, echo, said(), sender=f"task:{task.pk}", parent=task.pk) for task in (first, second)
    ]
    child = fork(ada.principal, root, place_before(root, "second"), reason="fork")
    clear(root)
    assert [Context.objects.get(pk=one.context).deleted_at is None for one in helped] == [True, False]
    assert Task.objects.get(pk=helped[0].task).parent == first
    clear(child)
    assert Context.objects.get(pk=helped[0].context).deleted_at is not None


def test_files_are_counted_once_for_all_who_share_them(ada, echo, said, tell, clear):
    large = "x" * (settings.INLINE_PART_BYTES + 1)
    root = tell("first", parts=[{"text": large}])
    child = fork(ada.principal, root, root.last_event, reason="fork")
    root = tell("second", root, parts=[{"text": f"{large}2"}])
    uses = dict(Blob.objects.values_list("sha256", "uses"))
    clear(root)
    shared = lineage.messages(child).order_by("index").first().parts[0]["stored"]["sha256"]
    assert Blob.objects.get(sha256=shared).uses == uses.pop(shared)
    assert not Blob.objects.filter(sha256__in=uses, uses__gt=0).exists()
    assert blobs.content_of(lineage.messages(child).order_by("index").first().parts[0]).decode() == large
    clear(child)
    assert not Blob.objects.filter(uses__gt=0).exists()


@pytest.mark.django_db(transaction=True)
def test_a_conversation_is_forked_or_cleared_and_never_half_of_both(ada, echo, tell):
    """Concurrent forks and clears: each fork is complete."""
    root = tell("second", tell("first"))
    made, wrong = [root], []

    def go(step):
        try:
            for _ in range(4):
                step()
        except Exception as error:
            wrong.append(error)
        finally:
            connection.close()

    def fork_any():
        for one in list(made)[-3:]:
            try:
                made.append(fork(ada.principal, one.pk, 4, reason="fork"))
            except ContextNotFound:
                continue

    def clear_oldest():
        one = made.pop(0) if len(made) > 1 else None
        if one is not None:
            deletion.delete_context(ada.principal, echo, one.context_id)

    threads = [threading.Thread(target=go, args=[step]) for step in (fork_any, fork_any, clear_oldest, clear_oldest)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    alive = Context.objects.filter(deleted_at=None).exclude(pk=root.pk)
    assert alive.exists()
    for one in alive:
        assert words(one) == ["first", "first is done"][: len(words(one))]
        assert projection.differences(one.pk) == []
