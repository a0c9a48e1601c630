"""Switching a conversation's agent; what messages tell and cost: authors, invisible texts, usage of models."""

import pytest

from agentkit import Completed, InputRequired, Usage
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.conversations.sessions import commands, deletion
from apps.conversations.sessions.commands import switch_agent
from apps.engine import accept
from apps.record import projection
from apps.record.content import composing
from apps.record.content.parts import is_blank
from apps.record.errors import ContextNotFound, InvalidParams, UnsupportedOperation
from apps.record.events import EventType
from apps.record.models import Context, Event, Message, Task
from apps.record.projection import assemble_parts
from apps.record.runs import UsageTotals
from tests.working import begin, end

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk(ada, echo, said):
    return accept.accept(ada.principal, echo, said("first", contextId="talk"))


def authors(context):
    rows = Message.objects.filter(context=context).select_related("agent")
    return [one.agent.slug if one.agent else None for one in rows]


def test_later_messages_are_for_the_other_agent(ada, echo, countdown, talk, said):
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


def test_tasks_stay_with_their_agents(ada, echo, countdown, talk, said):
    end(begin(talk.run), InputRequired("Which?", slot="word"))
    with pytest.raises(InvalidParams, match="belongs to another agent"):
        accept.accept(ada.principal, countdown, said(contextId="talk"))
    switch_agent(ada.principal, talk.context, countdown)
    held = begin(accept.accept(ada.principal, echo, said("this", taskId=str(talk.task))).run)
    assert held.agent == echo, "an answer goes to who asked"
    end(held, Completed("mine"))
    after = accept.accept(ada.principal, countdown, said("shorter", contextId="talk"))
    assert Task.objects.get(pk=after.task).references == [str(talk.task)]
    with pytest.raises(InvalidParams, match="belongs to another agent"):
        accept.accept(ada.principal, echo, said(contextId="talk"))
    assert switch_agent(ada.principal, talk.context, echo)
    assert accept.accept(ada.principal, echo, said(contextId="talk")).context == talk.context


def test_switches_that_may_not_be_are_refused(ada, bob, echo, countdown, talk, said):
    child = accept.accept(ada.principal, echo, said(), sender=f"task:{talk.task}", parent=talk.task)
    with pytest.raises(UnsupportedOperation, match=r"another agent.s task"):
        switch_agent(ada.principal, child.context, countdown)
    for fields in ({"access": "groups"}, {"access": "users", "is_enabled": False}):
        Agent.objects.filter(pk=countdown.pk).update(**fields)
        countdown.refresh_from_db()
        with pytest.raises(UnsupportedOperation, match="may not use it"):
            switch_agent(ada.principal, talk.context, countdown)
    for stranger in (bob.principal, ANONYMOUS):
        with pytest.raises(ContextNotFound):
            switch_agent(stranger, talk.context, countdown)
    deletion.delete_context(ada.principal, echo, "talk")
    with pytest.raises(ContextNotFound):
        switch_agent(ada.principal, talk.context, countdown)
    assert not Event.objects.filter(type="agent_switched").exists()


def test_agent_is_set_up_for_the_conversation(ada, echo, countdown, talk):
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


def test_unusable_options_are_refused(ada, echo, talk):
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


def chunk(*parts, joined=True) -> Event:
    payload = {"artifact": {"artifactId": "a", "parts": list(parts)}, "append": joined, "lastChunk": False}
    return Event(type=EventType.ARTIFACT_UPDATE, payload=payload | ({"joined": True} if joined else {}))


def test_joined_chunks_continue_texts_of_one_kind():
    plain, code, data = {"text": "a"}, {"text": "b", "mediaType": "text/x-python"}, {"data": 1}
    for chunks, parts in (
        ([chunk(plain), chunk(plain), chunk(plain)], [{"text": "aaa"}]),
        ([chunk(plain), chunk(plain, joined=False)], [plain, plain]),
        ([chunk(plain), chunk(plain, plain)], [{"text": "aa"}, plain]),
        ([chunk(plain), chunk(code), chunk(code), chunk(plain)], [plain, code | {"text": "bb"}, plain]),
        ([chunk(data), chunk(data), chunk(plain)], [data, data, plain]),
    ):
        assert assemble_parts(chunks) == parts


NOTHING = ["\u200b", "\u3164\uffa0", "\u2800", "\U000e0041\U000e007f", " \ufeff\n\u00ad"]
SOMETHING = ["a\u200b", "👩\u200d💻", "می\u200cخواهم", ".", "\u2801"]


@pytest.mark.parametrize("text", NOTHING)
def test_invisible_texts_are_refused(ada, echo, text):
    with pytest.raises(InvalidParams):
        composing.parts_of(text)
    with pytest.raises(InvalidParams):
        commands.create_session(ada.principal, echo, title=text)
    assert not Context.objects.exists()
    session = commands.create_session(ada.principal, echo, title="Seen").context
    with pytest.raises(InvalidParams):
        commands.rename_session(ada.principal, session.pk, text)
    assert not any(map(is_blank, SOMETHING))


def spent(*told: Usage) -> UsageTotals:
    added = UsageTotals()
    for usage in told:
        added.add(usage)
    return added


def test_usage_is_added_up_by_model():
    added = spent(Usage("large", 1, 10, 2), Usage("small", 2, 5, 1), Usage("large", 1, 100, 20))
    assert added.as_json == {
        "requests": 4, "inputTokens": 115, "outputTokens": 23,
        "models": {
            "large": {"requests": 2, "inputTokens": 110, "outputTokens": 22},
            "small": {"requests": 2, "inputTokens": 5, "outputTokens": 1},
        },
    }  # fmt: skip
    assert added.lines == ["large: 2 requests, 110 tokens in, 22 out", "small: 2 requests, 5 tokens in, 1 out"]
    turns = [spent(Usage("large", 1, 1000, 2)).as_json, {}, spent(Usage("large", 1, 234, 3)).as_json]
    assert UsageTotals.of(turns).lines == ["large: 2 requests, 1,234 tokens in, 5 out"]
    for odd in (-1, 10**30, 2.5, float("nan"), "many"):
        counted = spent(Usage("model", 1, 2, odd)).as_json["outputTokens"]
        assert (counted, type(counted)) == (2 if odd == 2.5 else 0, int), odd
