"""A fork has its origin's past, without a copy, and not its future."""

import pytest
from django.conf import settings
from django.urls import reverse

from agentkit import Completed, InputRequired
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.conversations.forks.forking import fork
from apps.conversations.sessions import deletion, families
from apps.engine import accept
from apps.record import lineage, projection
from apps.record.errors import ContextNotFound, InvalidParams, UnsupportedOperation
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Context, Event, Segment, Task
from tests.record.lineages import place_before, words
from tests.working import begin, end, state_of

pytestmark = [pytest.mark.django_db, pytest.mark.services("a log is read over several, and a fork made once")]


@pytest.fixture
def talk(tell):
    return tell("second", tell("first"))


def shape(context):
    return list(lineage.events(context).values_list("index", "type", "payload"))


def test_fork_has_the_past_and_its_own(ada, tell, talk):
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


def test_fork_leaves_an_event_on_its_parent(ada, talk):
    at = talk.last_event
    first, second = (fork(ada.principal, talk, talk.last_event + more, reason="fork", key=str(more)) for more in (0, 1))
    assert fork(ada.principal, talk, at, reason="fork", key="0") == first, "it is named once"
    told = Event.objects.filter(context=talk, type=EventType.SESSION_FORKED).order_by("index")
    named = [{"session": str(one.pk), "at": at, "reason": "fork"} for one in (first, second)]
    assert [event.payload for event in told] == named, "the second began at the same place"
    assert projection.differences(talk.pk) == []


def test_forks_from_one_place_are_siblings(ada, talk):
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


def test_same_key_gives_the_same_fork(ada, countdown, talk):
    """An edit is noted once, where the message was."""
    asked = {"at": 2, "reason": "edit", "key": "one", "edited_message": "a message"}
    child = fork(ada.principal, talk, **asked)
    event = Event.objects.get(type=EventType.EDIT)
    assert (event.context, event.payload) == (talk, {"messageId": "a message", "session": str(child.pk)})
    last = Context.objects.get(pk=talk.pk).last_event
    assert fork(ada.principal, talk, **asked) == child
    assert Context.objects.get(pk=talk.pk).last_event == last
    assert fork(ada.principal, talk, **asked | {"key": "two"}) != child
    for other in ({"at": 3}, {"reason": "retry"}, {"agent": countdown}):
        with pytest.raises(InvalidParams, match="another fork"):
            fork(ada.principal, talk, **asked | other)
    assert projection.differences(talk.pk) == []


@pytest.mark.parametrize("running", ["finish", "cancel"])
def test_running_tasks_end_or_continue_by_choice(ada, echo, said, talk, running):
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


def test_forks_that_may_not_be_are_refused(ada, bob, echo, countdown, said, talk):
    for at in (-1, talk.last_event + 1):
        with pytest.raises(InvalidParams, match="There is no event"):
            fork(ada.principal, talk, at, reason="fork")
    for fields in ({"access": "groups"}, {"access": "users", "is_enabled": False}):
        Agent.objects.filter(pk=countdown.pk).update(**fields)
        countdown.refresh_from_db()
        with pytest.raises(UnsupportedOperation, match="may not use it"):
            fork(ada.principal, talk, 1, reason="agent", agent=countdown)
    assert Context.objects.count() == 1
    task = Task.objects.filter(context=talk).first()
    child = accept.accept(ada.principal, echo, said(), sender=f"task:{task.pk}", parent=task.pk)
    with pytest.raises(UnsupportedOperation, match=r"another agent.s task"):
        fork(ada.principal, child.context, 1, reason="fork")
    for stranger in (bob.principal, ANONYMOUS):
        with pytest.raises(ContextNotFound):
            fork(stranger, talk, 1, reason="fork")
    deletion.delete_context(ada.principal, echo, talk.context_id)
    with pytest.raises(ContextNotFound):
        fork(ada.principal, talk, 1, reason="fork")


@pytest.fixture
def child(ada, talk):
    return fork(ada.principal, talk, place_before(talk, "second"), reason="fork")


def test_agent_gets_the_past_of_a_fork(ada, echo, said, talk, child):
    sent = accept.accept(ada.principal, echo, said("other", contextId=child.context_id))
    turn = begin(sent.run)
    assert [one.text for one in turn.history] == ["first", "first is done"]
    assert [one.artifacts[0].text for one in turn.references] == ["made"]
    assert Task.objects.get(pk=sent.task).references == [str(Task.objects.get(context=talk, first_event=1).pk)]


def test_fork_has_files_of_its_past_alone(ada, bob, tell, client):
    first, second = ("x" * (settings.INLINE_PART_BYTES + 1), "y" * (settings.INLINE_PART_BYTES + 1))
    talk = tell("second", tell("first", parts=[{"text": first}]), parts=[{"text": second}])
    stored = [row.parts[0]["stored"]["sha256"] for row in lineage.messages(talk) if "stored" in row.parts[0]]
    child = fork(ada.principal, talk, talk.messages.get(parts__icontains=stored[1]).index - 1, reason="fork")
    client.force_login(ada)
    files = [reverse("file", args=[child.pk, sha256]) for sha256 in stored]
    assert [client.get(path).status_code for path in files] == [200, 404]
    task = Task.objects.get(context=talk, first_event=1)
    artifact = lineage.artifacts(child).get()
    assert (
        client.get(reverse("web:artifact-file", args=[child.pk, task.pk, artifact.artifact_id, 0])).content == b"made"
    )
    assert client.get(reverse("web:message-file", args=[child.pk, 1, 0])).status_code == 200
    client.force_login(bob)
    assert client.get(files[0]).status_code == 404


def test_families_are_deleted_by_branches(ada, tell, talk):
    edited = tell("instead", fork(ada.principal, talk, 0, reason="edit"))
    child = tell("more", fork(ada.principal, talk, talk.last_event, reason="fork"))
    last = tell("last", fork(ada.principal, child, child.last_event, reason="fork"))
    assert [one.family_key for one in (talk, edited, child, last)] == [talk.pk] * 4
    assert families.continuing(ada.principal, child.pk, child.forked_at + 2) == [last, child]
    families.delete(ada.principal, families.continuing(ada.principal, talk.pk, 1))
    assert list(Context.objects.filter(deleted_at=None)) == [edited]
    assert [projection.differences(one.pk) for one in (talk, edited, child, last)] == [[]] * 4
