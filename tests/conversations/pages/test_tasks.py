"""What a task's page shows to people, and what it hides."""

import datetime
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentkit import Failed
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations.pages import tasks
from apps.conversations.pages.tasks import PAGE_SIZE, timeline_of
from apps.engine import accept
from apps.record import ledger
from apps.record.events import EventType
from apps.record.models import Context, Event, Task
from tests.clients import telling
from tests.emptying import rewrite
from tests.working import begin, end

NOON = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC)


def after(seconds):
    return NOON + datetime.timedelta(seconds=seconds)


def opened(browser, task, ending="", **asked):
    return browser.get(f"/tasks/{task}{ending}", asked)


@pytest.fixture
def long_one(ada, echo):
    receipt = telling.begun(ada, echo)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        for number in range(PAGE_SIZE + 10):
            telling.chunk(log, receipt, "log", telling.text(f"line {number} naïve\n"), append=number > 0, last=False)
    return receipt


def test_timeline_tells_waiting_from_work_and_attempts(asked):
    task = Task.objects.get(pk=asked.task)
    Task.objects.filter(pk=task.pk).update(created_at=NOON)
    for state, seconds in {"working": 2, "input-required": 8}.items():
        rewrite(Event.objects.filter(task=task, type=EventType.AGENT_STATUS, payload__state=state), at=after(seconds))
    task.refresh_from_db()
    task.runs.update(queued_at=NOON, started_at=after(2), finished_at=after(8), worker="worker-1")
    shown = timeline_of(task, after(12))
    took = [("Waiting to start", "2.0 s"), ("Working", "6.0 s"), ("Waiting for you", "still running")]
    assert [(one.label, one.took) for one in shown.states] == took
    assert [one.description for one in shown.attempts] == ["Turn 1, Finished, 6.0 s, on worker-1"]
    with ledger.writing(asked.context) as log:
        log.add(EventType.AGENT_START, {"attempt": 2, "turn": 1, "messageId": "first"}, task=asked.task)
    starts = Event.objects.filter(task=task, type=EventType.AGENT_START).order_by("index")
    for event, at in zip(starts, (2, 5), strict=True):
        rewrite(Event.objects.filter(pk=event.pk), run=task.runs.get().pk, at=after(at))
    attempts = [("Interrupted, then retried", "3.0 s"), ("Finished", "3.0 s")]
    assert [(one.label, one.took) for one in timeline_of(task, after(12)).attempts] == attempts


def test_events_come_in_pages_and_are_found(ada_browser, long_one, finished):
    def found(task, **asked):
        return opened(ada_browser, task, "/events", **asked).context["events"]

    first = found(long_one.task)
    rest = found(long_one.task, after=first.more)
    assert (len(first.rows), rest.rows[0][0].index, rest.more) == (PAGE_SIZE, first.more + 1, None)
    for after in ["-1", "9" * 40, "²"]:
        assert found(finished.task, after=after).rows[0][0].index == 1, after
    for asked, types in [
        ({"type": "agent_start"}, ["agent_start"]),
        ({"q": "LINE 41"}, ["artifact_update"]),
        ({"type": "agent_status", "q": "line 41"}, []),
    ]:
        assert [event.type for event, _ in found(long_one.task, **asked).rows] == types, asked


@pytest.mark.services("each database spells JSON in its own way")
def test_events_are_found_by_words_json_escapes(ada_browser, ada, echo):
    for words in ["Größe", 'said "yes"', "one\\two"]:
        task = telling.finished(ada, echo, words=f"They {words}, they").task
        events = opened(ada_browser, task, "/events", q=words).context["events"]
        assert [event.payload.get("state") for event, _ in events.rows] == ["completed"], words


def test_payload_is_shown_and_a_large_one_cut(ada_browser, finished, ada, echo):
    index = Event.objects.get(type=EventType.ARTIFACT_UPDATE, artifact_id="notes.md").index
    page = opened(ada_browser, finished.task, f"/events/{index}").text
    assert ("artifactUpdate" in page, "lastChunk" in page) == (True, True)
    assert opened(ada_browser, finished.task, "/events/99999").status_code == 404
    receipt = telling.begun(ada, echo, "x" * 50_000)
    assert len(opened(ada_browser, receipt.task, "/events/1").text) < 30_000
    whole = opened(ada_browser, receipt.task, "/events/1", whole="")
    assert whole["Content-Type"].startswith("application/json")
    assert "x" * 50_000 in whole.text


def child_of(user, agent, parent, words="help"):
    return accept.accept(user.principal, agent, telling.said(words), parent=parent.task)


def test_graph_shows_calls_and_references(ada_browser, ada, bob, echo, finished):
    context = Context.objects.get(pk=finished.context)
    child, theirs = child_of(ada, echo, finished), telling.begun(bob, echo)
    named = ["no id", str(finished.task), str(uuid.uuid4()), str(theirs.task)]
    refining = telling.begun(ada, echo, contextId=context.context_id, referenceTaskIds=named[:2])
    Task.objects.filter(pk=refining.task).update(references=[*named, str(refining.task)])
    for seen_from in (finished, child, refining):
        page = opened(ada_browser, seen_from.task)
        graph = page.context["graph"]
        links = {(edge.begins.task.pk, edge.ends.task.pk, edge.is_reference) for edge in graph.edges}
        assert links == {(finished.task, child.task, False), (finished.task, refining.task, True)}
        assert all(edge.begins.x < edge.ends.x for edge in graph.edges)
        assert [node.task.pk for node in graph.nodes if node.is_here] == [seen_from.task]
        assert str(theirs.task) not in page.text


def test_wide_graph_is_bounded_and_costs_no_more(ada_browser, ada, echo, finished, long_one, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_NODES", 10)

    def queries_of(task):
        opened(ada_browser, task)
        with CaptureQueriesContext(connection) as asked:
            opened(ada_browser, task)
        return len(asked)

    few = telling.finished(ada, echo)
    child_of(ada, echo, few)
    for number in range(12):
        child_of(ada, echo, finished, f"part {number}")
    assert queries_of(finished.task) <= queries_of(few.task) < 25
    assert queries_of(long_one.task) < 20, "however much happened"
    assert len(opened(ada_browser, finished.task).context["graph"].nodes) == 10
    last = few
    for _ in range(12):
        last = child_of(ada, echo, last)
    graph = opened(ada_browser, few.task).context["graph"]
    assert (graph.is_cut_off, len(graph.nodes)) == (True, 8)


def test_only_agents_owner_and_operators_read_tracebacks(ada, ada_browser, bob, echo, said):
    raised = "Traceback (most recent call last):\nValueError: <b>\n"
    failed = accept.accept(ada.principal, echo, said())
    end(begin(failed.run), Failed("no"), error={"code": "agent_error", "message": "no", "traceback": raised})
    for owner, is_staff, is_shown in [(None, 0, False), (bob, 0, False), (ada, 0, True), (None, 1, True)]:
        Agent.objects.filter(pk=echo.pk).update(owner=owner)
        User.objects.filter(pk=ada.pk).update(is_staff=is_staff, is_superuser=is_staff)
        page = opened(ada_browser, failed.task).text
        assert ('<span class="gr">ValueError</span>' in page, "ValueError: <b>" in page) == (is_shown, False)
