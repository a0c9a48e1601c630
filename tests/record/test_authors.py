"""Each message names its agent, run and agent version."""

import pytest

from agentkit import Completed
from apps.agents import versions
from apps.engine import accept
from apps.record import projection
from apps.record.models import Event
from apps.record.projection import Author
from tests.emptying import rewrite
from tests.working import begin, end

pytestmark = pytest.mark.django_db


def authors_of(context):
    return list(projection.read_authors(Event.objects.filter(context=context).order_by("index")).values())


def change(agent, name):
    agent.name = name
    agent.save()
    versions.save_version(agent, versions.hosted_content(agent))


def test_a_run_goes_by_the_version_that_there_was_when_it_began(ada, echo, said):
    first = accept.accept(ada.principal, echo, said(contextId="talk"))
    held = begin(first.run)
    change(echo, "Echo, louder")
    end(held, Completed("one"))
    second = accept.accept(ada.principal, echo, said(contextId="talk"))
    end(begin(second.run), Completed("two"))
    assert authors_of(first.context) == [Author(echo.pk, first.run, 1), Author(echo.pk, second.run, 2)]
    start = Event.objects.get(type="agent_start", run=first.run)
    rewrite(Event.objects.filter(pk=start.pk), payload={k: v for k, v in start.payload.items() if k != "version"})
    assert authors_of(first.context)[0] == Author(echo.pk, first.run, None), "a log from before does not say it"
