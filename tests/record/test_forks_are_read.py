"""Followers, agents, pages and downloads of a fork include its past."""

import asyncio
from contextlib import aclosing

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import db
from agentkit import Completed
from apps.engine import accept
from apps.features.forks.forking import fork
from apps.record import feed, ledger, lineage, projection
from apps.record.events import EventType
from apps.record.models import Context, Event, Task
from apps.web.sessions.entries import entries_between
from tests.record.lineages import place_before, words
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db, pytest.mark.services("a log is read over several")]


@pytest.fixture
def talk(tell):
    return tell("second", tell("first"))


@pytest.fixture
def child(ada, talk):
    return fork(ada.principal, talk, place_before(talk, "second"), reason="fork")


def length(context, number):
    with ledger.writing(context.pk) as log:
        for n in range(number):
            message = {"messageId": f"m{n}", "contextId": context.context_id, "parts": [{"text": str(n)}]}
            log.add(EventType.USER_MESSAGE, {"message": {**message, "role": "ROLE_USER"}})
            answer = {**message, "messageId": f"a{n}", "role": "ROLE_AGENT"}
            log.add(EventType.AGENT_MESSAGE, {"message": answer, "agent": context.agent_id})
    return Context.objects.get(pk=context.pk)


def test_an_agent_is_given_the_past_and_refers_to_what_was_made_in_it(ada, echo, said, talk, child):
    sent = accept.accept(ada.principal, echo, said("other", contextId=child.context_id))
    turn = begin(sent.run)
    assert [one.text for one in turn.history] == ["first", "first is done"]
    assert [one.artifacts[0].text for one in turn.references] == ["made"]
    assert Task.objects.get(pk=sent.task).references == [str(Task.objects.get(context=talk, first_event=1).pk)]


def test_what_was_left_behind_is_over_on_a_page_and_not_referred_to(ada, echo, said, client):
    sent = accept.accept(ada.principal, echo, said("work"))
    held = begin(sent.run)
    say(held, chunk("made", "so far"))
    talk = Context.objects.get()
    child = fork(ada.principal, talk, talk.last_event, reason="fork")
    end(held, Completed("done"))
    entries = entries_between(child, 0, child.last_event + 1)
    assert [entry["type"] for entry in entries] == ["user_message", "agent_status", "agent_start", "fork"]
    assert entries[-1]["left"] == [str(sent.task)]
    client.force_login(ada)
    page = client.get(reverse("web:session", args=[child.pk]))
    assert page.status_code == 200
    assert "work" in page.content.decode()
    again = accept.accept(ada.principal, echo, said("again", contextId=child.context_id))
    assert Task.objects.get(pk=again.task).references == []
    assert [one.text for one in begin(again.run).history] == ["work"]


def test_the_log_is_read_whole_in_pages_and_without_a_fork_by_one_statement(ada, talk, tell):
    long = length(talk, 300)
    child = tell("other", fork(ada.principal, long, long.last_event - 1, reason="fork"))
    read: list[int] = []
    while page := feed.read_events(child.pk, len(read)):
        read += [event.index for event in page]
    assert read == list(range(1, child.last_event + 1))
    assert len(read) > feed.BATCH_SIZE
    for context, after, statements in ((talk, 0, 1), (child, child.forked_at, 1), (child, 0, 2)):
        with CaptureQueriesContext(connection) as asked:
            feed.read_events(context.pk, after)
        assert len(asked) == statements


@pytest.mark.django_db(transaction=True)
async def test_who_follows_a_fork_from_its_beginning_hears_the_past_and_then_what_comes(child):
    async with aclosing(feed.follow(child.pk)) as batches:
        heard = [event.index for event in await anext(batches)]
        assert heard == list(range(1, child.last_event + 1))

        def rename():
            with ledger.writing(child.pk) as log:
                log.add(EventType.SESSION_RENAMED, {"title": "new"})

        await db.run(rename)
        assert [event.index for event in await asyncio.wait_for(anext(batches), 10)] == [child.last_event + 1]


def test_files_of_the_past_are_had_by_the_fork_and_those_of_the_future_are_not(ada, bob, tell, client):
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


def test_a_fork_asks_and_writes_as_much_however_long_the_past_is(ada, talk):
    def statements(context):
        with CaptureQueriesContext(connection) as asked:
            at = context.last_event - 1
            child = fork(ada.principal, context, at, reason="edit", key=f"{at}", edited_message="a0")
        return len(asked), child

    few, child = statements(length(talk, 3))
    many, child = statements(length(talk, 300))
    again, deep = statements(length(child, 10))
    assert few == many
    assert again <= many + 1
    assert Event.objects.filter(context=deep).count() == 1
    assert len(words(deep)) == 2 * (2 + 3 + 300 + 10 - 1)
    assert projection.differences(deep.pk) == []
