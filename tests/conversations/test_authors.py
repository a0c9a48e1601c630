"""Each message says which agent wrote it, in which run, and by which version of the agent: the log knows."""

import pytest

import bridge
from agentkit import Completed
from apps.agents import versions
from apps.conversations import authors, intake
from apps.conversations.authors import Author
from apps.conversations.models import Event
from apps.runtime.sending import send
from tests.runtime.conftest import agent_at
from tests.working import begin, end

__all__ = ["agent_at"]
pytestmark = pytest.mark.django_db


def authors_of(context):
    """Who the log says wrote its messages, in their order."""
    return list(authors.read(Event.objects.filter(context=context).order_by("index")).values())


def change(agent, name):
    agent.name = name
    agent.save()
    versions.keep(agent, versions.stated(agent))


def test_a_run_goes_by_the_version_that_there_was_when_it_began(ada, echo, said):
    first = intake.accept(ada.principal, echo, said(contextId="talk"))
    held = begin(first.run)
    change(echo, "Echo, louder")
    end(held, Completed("one"))
    second = intake.accept(ada.principal, echo, said(contextId="talk"))
    end(begin(second.run), Completed("two"))
    assert authors_of(first.context) == [Author(echo.pk, first.run, 1), Author(echo.pk, second.run, 2)]


@pytest.mark.django_db(transaction=True)
async def test_an_answer_without_a_task_says_it_itself(ada, agent_at, said):
    agent = await agent_at("tests.runtime.forms:Answering")
    sent = await send(ada.principal, agent, said())
    assert await bridge.run(authors_of, sent.context) == [Author(agent.pk, None, 1)]


def test_a_log_from_before_does_not_say_the_version(ada, echo, said):
    talk = intake.accept(ada.principal, echo, said())
    end(begin(talk.run), Completed("one"))
    start = Event.objects.get(type="agent_start")
    Event.objects.filter(pk=start.pk).update(payload={k: v for k, v in start.payload.items() if k != "version"})
    assert authors_of(talk.context) == [Author(echo.pk, talk.run, None)]
