"""A fork has its origin's past, without a copy, and not its future."""

import threading

import pytest
from django.db import connection

from agentkit import Completed, InputRequired
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.engine import accept
from apps.features.forks.forking import fork
from apps.features.sessions import deletion
from apps.features.sessions.commands import switch_agent
from apps.record import ledger, lineage, projection
from apps.record.errors import ContextNotFound, InvalidParams, UnsupportedOperation
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Context, Event, Segment, Task
from tests.record.lineages import place_before, rename, words
from tests.working import begin, chunk, end, say, state_of

pytestmark = [pytest.mark.django_db, pytest.mark.services("a log is read over several, and a fork made once")]


@pytest.fixture
def talk(tell):
    return tell("second", tell("first"))


def shape(context):
    return list(lineage.events(context).values_list("index", "type", "payload"))


def test_a_fork_has_what_came_before_and_goes_on_with_its_own(ada, tell, talk):
    at = place_before(talk, "second")
    child = fork(ada.principal, talk, at, reason="fork")
    child = tell("other", child)
    assert words(child) == ["first", "first is done", "other", "other is done"]
    assert words(talk) == ["first", "first is done", "second", "second is done"]
    assert [event.index for event in lineage.events(child)] == list(range(1, child.last_event + 1))
    assert shape(child)[:at] == shape(talk)[:at]
    assert (child.parent_id, child.forked_at, child.fork_reason, child.title) == (talk.pk, at, "fork", "other")
    assert [task.state for task in lineage.tasks(child)] == ["completed", "completed"]
    assert [row.name for row in lineage.artifacts(child)] == ["first", "other"]
    assert [row.name for row in lineage.artifacts(talk)] == ["first", "second"]
    assert projection.differences(child.pk) == projection.differences(talk.pk) == []


def test_a_fork_of_a_fork_has_what_both_had(ada, echo, said, talk):
    child = fork(ada.principal, talk, place_before(talk, "second"), reason="fork")
    accept.accept(ada.principal, echo, said("other", contextId=child.context_id))
    child.refresh_from_db()
    last = fork(ada.principal, child, child.last_event, reason="fork")
    assert words(last) == ["first", "first is done", "other"]
    assert [(one.source, one.last) for one in lineage.log_ranges(last, last.last_event)] == [
        (talk.pk, child.forked_at),
        (child.pk, child.last_event),
        (last.pk, last.last_event),
    ]
    assert projection.differences(last.pk) == []


def test_a_fork_leaves_an_event_on_its_parent(ada, talk):
    at = talk.last_event
    first, second = (fork(ada.principal, talk, talk.last_event + more, reason="fork", key=str(more)) for more in (0, 1))
    assert fork(ada.principal, talk, at, reason="fork", key="0") == first, "it is named once"
    told = Event.objects.filter(context=talk, type=EventType.SESSION_FORKED).order_by("index")
    named = [{"session": str(one.pk), "at": at, "reason": "fork"} for one in (first, second)]
    assert [event.payload for event in told] == named, "the second began at the same place"
    assert projection.differences(talk.pk) == []


def test_a_forks_messages_are_counted_once(ada, tell, talk):
    child = tell("other", fork(ada.principal, talk, place_before(talk, "second"), reason="fork"))
    last = tell("third", fork(ada.principal, child, child.last_event, reason="fork"))
    empty = fork(ada.principal, talk, 0, reason="fork")
    counts = lineage.message_counts([talk, child, last, empty])
    assert counts == {talk.pk: 4, child.pk: 4, last.pk: 6, empty.pk: 0}


def test_what_had_not_ended_is_left_behind_and_nothing_it_says_later_reaches_the_fork(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("work"))
    held = begin(sent.run)
    say(held, chunk("made", "so far"))
    talk = Context.objects.get()
    child = fork(ada.principal, talk, talk.last_event, reason="fork")
    end(held, Completed("done"))
    talk.refresh_from_db()
    assert state_of(sent.task) == "completed"
    assert lineage.artifacts(talk).count() == 1
    assert lineage.left_task_ids(child) == {sent.task}
    assert [task.state for task in lineage.shown_tasks(child)] == ["canceled"]
    assert not lineage.artifacts(child).exists()
    assert words(child) == ["work"]
    assert projection.differences(child.pk) == projection.differences(talk.pk) == []


def test_forks_from_the_same_place_are_siblings_and_one_of_the_beginning_has_no_past(ada, talk):
    for at in (0, place_before(talk, "second")):
        child = fork(ada.principal, talk, at, reason="edit")
        assert (child.last_event, child.forked_at) == (at + 1, at)
        for here in (child.last_event, at):
            sibling = fork(ada.principal, child, here, reason="edit")
            assert (sibling.parent_id, sibling.forked_at) == (talk.pk, at)
        if at == 0:
            assert [event.type for event in lineage.events(child)] == ["fork"], "siblings leave no mark in it"
            assert Segment.objects.filter(context=child).get().source == child
        assert projection.differences(child.pk) == []


def test_it_is_with_whom_the_conversation_was_with_then_unless_another_is_named(ada, echo, countdown, talk):
    end_of_first = talk.last_event
    switch_agent(ada.principal, talk.pk, countdown)
    assert fork(ada.principal, talk, end_of_first, reason="fork").agent == echo
    assert fork(ada.principal, talk, 0, reason="fork").agent == echo
    late = fork(ada.principal, talk, end_of_first + 1, reason="fork")
    assert late.agent == countdown
    again = fork(ada.principal, talk, end_of_first, reason="agent", agent=countdown)
    assert again.agent == countdown
    assert fork(ada.principal, again, again.last_event, reason="fork").agent == echo


def test_the_same_key_gives_the_same_fork_and_an_edit_is_noted_once_where_the_message_was(ada, countdown, talk):
    child = fork(ada.principal, talk, 2, reason="edit", key="one", edited_message="a message")
    event = Event.objects.get(type=EventType.EDIT)
    assert (event.context, event.payload) == (talk, {"messageId": "a message", "session": str(child.pk)})
    last = Context.objects.get(pk=talk.pk).last_event
    assert fork(ada.principal, talk, 2, reason="edit", key="one", edited_message="a message") == child
    assert Context.objects.get(pk=talk.pk).last_event == last
    assert fork(ada.principal, talk, 2, reason="edit", key="two") != child
    for other in ({"at": 3}, {"reason": "retry"}, {"agent": countdown}):
        with pytest.raises(InvalidParams, match="another fork"):
            fork(ada.principal, talk, **{"at": 2, "reason": "edit", "key": "one", **other})
    assert projection.differences(talk.pk) == []


@pytest.mark.parametrize("running", ["finish", "cancel"])
def test_what_runs_in_the_conversation_ends_or_goes_on_by_choice(ada, echo, said, talk, running):
    asked = accept.accept(ada.principal, echo, said("asks", contextId=talk.context_id))
    end(begin(asked.run), InputRequired("Which?", slot="word"))
    sent = accept.accept(ada.principal, echo, said("work", contextId=talk.context_id))
    held = begin(sent.run)
    fork(ada.principal, talk, 2, reason="edit", running=running)
    if running == "finish":
        end(held, Completed("done"))
    else:
        assert Run.objects.get(pk=held.lease.run_id).state == "canceled"
    assert state_of(sent.task) == {"finish": "completed", "cancel": "canceled"}[running]
    assert state_of(asked.task) == "input-required"
    assert projection.differences(talk.pk) == []


def test_an_index_out_of_range_is_refused(ada, talk):
    for at in (-1, talk.last_event + 1):
        with pytest.raises(InvalidParams, match="There is no event"):
            fork(ada.principal, talk, at, reason="fork")
    assert Context.objects.count() == 1


def test_somebody_elses_conversation_is_not_found_nor_is_one_that_was_cleared(ada, bob, echo, talk):
    for stranger in (bob.principal, ANONYMOUS):
        with pytest.raises(ContextNotFound):
            fork(stranger, talk, 1, reason="fork")
    deletion.delete_context(ada.principal, echo, talk.context_id)
    with pytest.raises(ContextNotFound):
        fork(ada.principal, talk, 1, reason="fork")


def test_an_agent_that_the_caller_may_not_use_is_refused(ada, countdown, talk):
    for fields in ({"access": "groups"}, {"access": "users", "is_enabled": False}):
        Agent.objects.filter(pk=countdown.pk).update(**fields)
        countdown.refresh_from_db()
        with pytest.raises(UnsupportedOperation, match="may not use it"):
            fork(ada.principal, talk, 1, reason="agent", agent=countdown)
    assert Context.objects.count() == 1


def test_a_conversation_that_an_agent_began_is_not_forked(ada, echo, said, talk):
    task = Task.objects.filter(context=talk).first()
    child = accept.accept(ada.principal, echo, said(), sender=f"task:{task.pk}", parent=task.pk)
    with pytest.raises(UnsupportedOperation, match=r"another agent.s task"):
        fork(ada.principal, child.context, 1, reason="fork")


def test_agents_remember_in_a_fork_of_the_end_what_they_did_and_before_that_nothing(ada, talk):
    with ledger.writing(talk.pk) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "renamed"})
        log.remember({"seen": 1}, ())
    talk.refresh_from_db()
    assert fork(ada.principal, talk, talk.last_event, reason="fork").memory == {"seen": 1}
    assert fork(ada.principal, talk, 2, reason="fork").memory == {}


@pytest.mark.django_db(transaction=True)
def test_the_same_key_at_the_same_moment_gives_one_fork(ada, talk):
    together, found = threading.Barrier(6), []

    def go():
        together.wait()
        found.append(fork(ada.principal, talk, 2, reason="edit", key="one", edited_message="a message").pk)
        connection.close()

    threads = [threading.Thread(target=go) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert Event.objects.filter(type=EventType.EDIT).count() == 1
    assert projection.differences(found[0]) == []


def test_a_fork_without_the_first_message_is_called_by_its_own_or_by_the_name_that_its_owner_chose(ada, tell, talk):
    anew = fork(ada.principal, talk, 0, reason="edit")
    assert anew.title == ""
    tell("other words", anew)
    rename(talk.pk, title="chosen")
    assert fork(ada.principal, talk, 0, reason="edit").title == "Fork: chosen"
    deletion.delete_session(ada.principal, talk.pk)
    assert Context.objects.get(pk=anew.pk).title == "other words"
    assert not Event.objects.filter(payload__icontains="first").exists()
    assert projection.differences(anew.pk) == []
