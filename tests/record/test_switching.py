"""Switching a conversation's agent: the log records it, and running tasks continue."""

import pytest

from agentkit import Completed, InputRequired
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.engine import accept
from apps.features.sessions import deletion
from apps.features.sessions.commands import switch_agent
from apps.record import projection
from apps.record.errors import ContextNotFound, InvalidParams, UnsupportedOperation
from apps.record.models import Context, Event, Message, Task
from tests.emptying import rewrite, without_hashes
from tests.working import begin, end

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk(ada, echo, said):
    return accept.accept(ada.principal, echo, said("first", contextId="talk"))


def authors(context):
    rows = Message.objects.filter(context=context).select_related("agent")
    return [one.agent.slug if one.agent else None for one in rows]


def test_what_is_said_after_it_is_for_the_other_agent_and_what_runs_goes_on(ada, echo, countdown, talk, said):
    held = begin(talk.run)
    assert switch_agent(ada.principal, talk.context, countdown)
    after = accept.accept(ada.principal, countdown, said("next", contextId="talk"))
    assert after.context == talk.context
    end(begin(after.run), Completed("theirs"))
    end(held, Completed("mine"))
    first, second = Task.objects.order_by("created_at")
    assert (first.agent, first.state, second.agent, second.state) == (echo, "completed", countdown, "completed")
    assert authors(talk.context) == [None, None, "countdown", "echo"]
    assert Context.objects.get().agent == countdown
    event = Event.objects.get(type="agent_switched")
    assert event.payload == {"agent": countdown.pk, "slug": "countdown"}
    assert projection.differences(talk.context) == []


def test_an_answer_goes_to_who_asked_and_the_next_task_refers_to_what_that_agent_made(ada, echo, countdown, talk, said):
    end(begin(talk.run), InputRequired("Which?", slot="word"))
    switch_agent(ada.principal, talk.context, countdown)
    held = begin(accept.accept(ada.principal, echo, said("this", taskId=str(talk.task))).run)
    assert held.agent == echo
    end(held, Completed("mine"))
    after = accept.accept(ada.principal, countdown, said("shorter", contextId="talk"))
    assert Task.objects.get(pk=after.task).references == [str(talk.task)]


def test_an_agent_takes_new_tasks_only_where_the_conversation_is_with_it(ada, echo, countdown, talk, said):
    with pytest.raises(InvalidParams, match="belongs to another agent"):
        accept.accept(ada.principal, countdown, said(contextId="talk"))
    switch_agent(ada.principal, talk.context, countdown)
    with pytest.raises(InvalidParams, match="belongs to another agent"):
        accept.accept(ada.principal, echo, said(contextId="talk"))
    assert switch_agent(ada.principal, talk.context, echo)
    assert accept.accept(ada.principal, echo, said(contextId="talk")).context == talk.context


def test_an_agent_that_the_caller_may_not_use_is_refused(ada, countdown, talk):
    for fields in ({"access": "groups"}, {"access": "users", "is_enabled": False}):
        Agent.objects.filter(pk=countdown.pk).update(**fields)
        countdown.refresh_from_db()
        with pytest.raises(UnsupportedOperation, match="may not use it"):
            switch_agent(ada.principal, talk.context, countdown)
    assert not Event.objects.filter(type="agent_switched").exists()


def test_somebody_elses_conversation_is_not_found_nor_is_one_that_was_cleared(ada, bob, echo, countdown, talk):
    for stranger in (bob.principal, ANONYMOUS):
        with pytest.raises(ContextNotFound):
            switch_agent(stranger, talk.context, countdown)
    deletion.delete_context(ada.principal, echo, "talk")
    with pytest.raises(ContextNotFound):
        switch_agent(ada.principal, talk.context, countdown)


def test_a_conversation_that_an_agent_began_stays_with_whom_it_called(ada, echo, countdown, talk, said):
    child = accept.accept(ada.principal, echo, said(), sender=f"task:{talk.task}", parent=talk.task)
    with pytest.raises(UnsupportedOperation, match=r"another agent.s task"):
        switch_agent(ada.principal, child.context, countdown)


def test_a_log_that_does_not_say_who_wrote_gives_the_same_rows(ada, echo, countdown, talk, said):
    """In old logs, the author is the task's agent, or for answers the conversation's."""
    end(begin(talk.run), Completed("mine"))
    for event in Event.objects.filter(payload__has_key="agent"):
        payload = {name: value for name, value in event.payload.items() if name != "agent"}
        rewrite(Event.objects.filter(pk=event.pk), payload=payload)
    without_hashes()
    assert authors(talk.context) == [None, "echo"]
    assert projection.differences(talk.context) == []


def test_the_agent_is_set_up_for_the_conversation_and_again_without_being_switched(ada, echo, countdown, talk):
    def options():
        assert projection.differences(talk.context) == []
        return Context.objects.get().options

    before = Context.objects.get().last_event
    assert not switch_agent(ada.principal, talk.context, echo), "to the same agent is no switch"
    assert Context.objects.get().last_event == before
    assert switch_agent(ada.principal, talk.context, echo, {"tone": "dry"})
    assert not switch_agent(ada.principal, talk.context, echo, {"tone": "dry"}), "it is so already"
    assert not switch_agent(ada.principal, talk.context, echo), "it keeps what it has"
    assert options() == {"tone": "dry"}
    assert Event.objects.get(type="agent_switched").payload["options"] == {"tone": "dry"}
    switch_agent(ada.principal, talk.context, countdown)
    assert options() == {}, "another agent begins without"
    switch_agent(ada.principal, talk.context, echo, {"tone": "warm"})
    assert options() == {"tone": "warm"}
    assert switch_agent(ada.principal, talk.context, echo, {})
    assert options() == {}


def test_what_an_agent_cannot_be_set_to_is_refused(ada, echo, talk):
    for options, sentence in [
        ({"credentials": "calendar"}, "credentials"),
        ({"text": "x" * 16_400}, "larger than 16,384 bytes"),
        ({"text": "nul \0"}, "control characters"),
        ({"text": "half \ud83d"}, "Unicode"),
        ({"number": float("nan")}, "JSON"),
    ]:
        with pytest.raises(InvalidParams, match=sentence):
            switch_agent(ada.principal, talk.context, echo, options)
        assert Context.objects.get().options == {}
    assert switch_agent(ada.principal, talk.context, echo, {"text": "\\u0000"}), "which is text"
    Agent.objects.filter(pk=echo.pk).update(kind=Agent.Kind.REMOTE)
    echo.refresh_from_db()
    with pytest.raises(InvalidParams, match="takes no options"):
        switch_agent(ada.principal, talk.context, echo, {"tone": "dry"})
