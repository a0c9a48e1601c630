"""The number of queries of each operation does not grow with the data."""

import asyncio

import pytest
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

import db
from apps.a2a import authentication
from apps.a2a.requests import ListTasksRequest
from apps.a2a.tasks import accepted_snapshot, find_task, list_tasks
from apps.agents.models import CLOSED, Agent, AgentNotFound
from apps.engine import send
from tests.a2a.calling import message

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("each database is asked in its own way")]


def counted(function, *args):
    """The statements of a function, on the calling thread."""
    with CaptureQueriesContext(connection) as queries:
        function(*args)
    return len(queries)


def everything(**fields):
    return ListTasksRequest(**{"include_artifacts": True} | fields)


@pytest.fixture
async def tasks(worker, ada_at, echo):
    sent = await asyncio.gather(*(ada_at("echo").send(message(str(n), contextId="one")) for n in range(12)))
    return [one.result["task"]["id"] for one in sent]


async def test_admitting_a_caller_takes_one_query(ada_key, ada_at, echo, public_echo):
    await ada_at("echo").call("GetTask", {"id": "a"})  # notes the key's use, once a minute
    asked = RequestFactory().get("/")
    assert await db.run(counted, authentication.authenticate, f"Bearer {ada_key}", "echo", asked) == 1
    assert await db.run(counted, authentication.authenticate, "", "open-echo", asked) == 1


async def test_hidden_agent_takes_as_many_queries_as_none(ada_key, ada_at, bob, echo):
    await ada_at("echo").call("GetTask", {"id": "a"})  # notes the key's use, once a minute
    asked = RequestFactory().get("/")
    elsewhere = {"owner": bob, "workspace": bob.personal_workspace}

    def refused(authorization, slug):
        with pytest.raises(AgentNotFound):
            authentication.authenticate(authorization, slug, asked)

    for authorization in ("", f"Bearer {ada_key}"):
        absent = await db.run(counted, refused, authorization, "absent")
        for access in CLOSED:
            await db.run(lambda access=access: Agent.objects.filter(pk=echo.pk).update(access=access, **elsewhere))
            assert await db.run(counted, refused, authorization, "echo") == absent, access


async def test_a_task_is_shown_by_one_query(tasks, ada, bob, echo):
    def refused():
        with pytest.raises(Exception, match="no such task"):
            find_task(bob.principal, echo, tasks[0])

    assert await db.run(counted, find_task, ada.principal, echo, tasks[0], None) == 1
    assert await db.run(counted, find_task, ada.principal, echo, tasks[0], 0) == 1
    assert await db.run(counted, refused) == 1


async def test_a_page_of_tasks_takes_one_query_a_count_and_one_for_its_context(tasks, ada, echo):
    for count, fields in (
        (1, {}),
        (3, {"context_id": "one", "page_size": 3}),
        (1, {"context_id": "other"}),
        (2, {"page_size": 3}),
        (2, {"page_size": 11}),
        (1, {"include_artifacts": False, "history_length": 0}),
    ):
        assert await db.run(counted, list_tasks, ada.principal, echo, everything(**fields)) == count, fields


async def test_accepting_a_message_takes_the_same_queries_in_a_short_and_in_a_long_conversation(tasks, ada, echo):
    def accepted(**fields):
        return counted(send.accept_and_publish, ada.principal, echo, message(**fields))

    await db.run(lambda: accepted(contextId="short"))
    in_short = await db.run(lambda: accepted(contextId="short"))
    assert await db.run(lambda: accepted(contextId="one")) == in_short <= 11
    assert await db.run(accepted) <= 10, "in a new conversation"

    def begun():
        receipt = send.accept_and_publish(ada.principal, echo, message())
        return counted(accepted_snapshot, receipt.task, receipt.index, None)

    assert await db.run(begun) <= 3, "before the first event of a stream"
