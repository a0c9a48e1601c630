"""What a task's page shows to people, and what it hides."""

from __future__ import annotations

import datetime
import json
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentkit import Failed
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept
from apps.engine.accept import Receipt
from apps.record import ledger
from apps.record.events import EventType
from apps.record.models import Context, Event, Task
from apps.web.tasks import PAGE_SIZE, timeline_of
from console.drawing.axis import TimeAxis, long_duration
from tests.emptying import rewrite
from tests.web import telling
from tests.working import begin, end

NOON = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC)


def after(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def opened(browser, task, ending="", **asked):
    return browser.get(f"/tasks/{task}{ending}", asked)


@pytest.fixture
def long_one(ada: User, echo: Agent) -> Receipt:
    receipt = telling.begun(ada, echo)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        for number in range(PAGE_SIZE + 10):
            telling.chunk(log, receipt, "log", telling.text(f"line {number} naïve\n"), append=number > 0, last=False)
    return receipt


def test_a_task_is_drawn_again_when_something_happened_or_while_it_works(ada_browser, asked, ada, echo):
    page = opened(ada_browser, asked.task)
    seen = page.context["seen"]
    assert opened(ada_browser, asked.task, "/standing", seen=seen).status_code == 204
    assert "Waiting for you" in opened(ada_browser, asked.task, "/standing", seen="0").text
    receipt = telling.begun(ada, echo)
    first = opened(ada_browser, receipt.task, "/standing")
    assert "every 2s" in first.text
    assert opened(ada_browser, receipt.task, "/standing", seen=first.context["seen"]).status_code == 200


def queries_of(browser, task) -> int:
    opened(browser, task)
    with CaptureQueriesContext(connection) as asked:
        opened(browser, task)
    return len(asked)


def test_queries_do_not_grow_with_what_happened(ada_browser, finished, long_one):
    assert queries_of(ada_browser, finished.task) == queries_of(ada_browser, long_one.task) < 20


def test_a_timeline_tells_waiting_from_work_and_an_attempt_that_broke_off(asked):
    task = Task.objects.get(pk=asked.task)
    Task.objects.filter(pk=task.pk).update(created_at=NOON)
    for state, seconds in {"working": 2, "input-required": 8}.items():
        rewrite(Event.objects.filter(task=task, type=EventType.AGENT_STATUS, payload__state=state), at=after(seconds))
    task.refresh_from_db()
    task.runs.update(queued_at=NOON, started_at=after(2), finished_at=after(8), worker="worker-1")
    shown = timeline_of(task, after(12))
    assert [(one.label, one.took) for one in shown.states] == [
        ("Waiting to start", "2.0 s"), ("Working", "6.0 s"), ("Waiting for you", "still running"),
    ]  # fmt: skip
    assert [one.took for one in shown.queued] == ["2.0 s"]
    assert [one.description for one in shown.attempts] == ["Turn 1, Finished, 6.0 s, on worker-1"]
    with ledger.writing(asked.context) as log:
        log.add(EventType.AGENT_START, {"attempt": 2, "turn": 1, "messageId": "first"}, task=asked.task)
    starts = Event.objects.filter(task=task, type=EventType.AGENT_START).order_by("index")
    for event, at in zip(starts, (2, 5), strict=True):
        rewrite(Event.objects.filter(pk=event.pk), run=task.runs.get().pk, at=after(at))
    assert [(one.title, one.label, one.took) for one in timeline_of(task, after(12)).attempts] == [
        ("Turn 1, attempt 1", "Interrupted, then retried", "3.0 s"), ("Turn 1, attempt 2", "Finished", "3.0 s"),
    ]  # fmt: skip
    day = 86400
    scale = TimeAxis((NOON, after(day + 20)), [(NOON, after(10)), (after(day), after(day + 20))])
    assert [one.is_cut for one in scale.segments] == [False, True, False]
    assert scale.place(after(10)) == pytest.approx(100 * 10 / 37.5)
    assert [long_duration(datetime.timedelta(seconds=one)) for one in (0.01, 184, 90000)] == [
        "less than 0.1 s", "3 min 4 s", "1 day 1 h",
    ]  # fmt: skip


def test_events_come_in_pages(ada_browser, long_one, finished):
    first = opened(ada_browser, long_one.task, "/events")
    assert len(first.context["events"].rows) == PAGE_SIZE
    last = first.context["events"].more
    rest = opened(ada_browser, long_one.task, "/events", after=last)
    assert rest.context["events"].rows[0][0].index == last + 1
    assert rest.context["events"].more is None
    assert "Check for new events" in rest.text
    for after in ["-1", "x", "9" * 40, "²"]:
        assert opened(ada_browser, finished.task, "/events", after=after).context["events"].rows[0][0].index == 1, after


def test_events_are_found_by_type_and_by_their_words(ada_browser, long_one):
    def found(**asked):
        rows = opened(ada_browser, long_one.task, "/events", **asked).context["events"].rows
        return [event.type for event, _ in rows]

    assert found(type="agent_start") == ["agent_start"]
    assert found(q="LINE 41") == ["artifact_update"]
    assert found(type="agent_status", q="line 41") == []
    assert found(q="nowhere to be found") == []
    assert len(found(type="no such type")) == PAGE_SIZE


@pytest.mark.services("each database spells JSON in its own way")
def test_events_are_found_by_words_that_json_spells_in_its_own_way(ada_browser, ada, echo):
    for words in ["Größe", "“as it is”", 'said "yes"', "one\\two", "日本"]:
        task = telling.finished(ada, echo, words=f"They {words}, they").task
        events = opened(ada_browser, task, "/events", q=words).context["events"]
        assert [event.payload.get("state") for event, _ in events.rows] == ["completed"], words


def test_a_payload_is_shown_as_recorded_and_as_a2a_says_it_a_large_one_cut(ada_browser, finished, ada, echo):
    index = Event.objects.get(type=EventType.ARTIFACT_UPDATE, artifact_id="notes.md").index
    page = opened(ada_browser, finished.task, f"/events/{index}").text
    assert "artifactUpdate" in page
    assert "lastChunk" in page
    assert opened(ada_browser, finished.task, "/events/99999").status_code == 404
    receipt = telling.begun(ada, echo, "x" * 50_000)
    cut = opened(ada_browser, receipt.task, "/events/1").text
    assert len(cut) < 30_000
    assert "Only the beginning is shown." in cut
    whole = opened(ada_browser, receipt.task, "/events/1", whole="")
    assert whole["Content-Type"].startswith("application/json")
    assert "x" * 50_000 in whole.text


def test_what_an_agent_says_is_text_here_too(ada_browser, ada, echo):
    hostile = "<script>alert(1)</script>"
    receipt = telling.finished(ada, echo, words=hostile)
    last = Event.objects.filter(task=receipt.task).latest("index").index
    for ending in ("", "/events", f"/events/{last}", "/documents/task?shown"):
        assert hostile not in ada_browser.get(f"/tasks/{receipt.task}{ending}").text


def test_documents_are_what_crossed_the_border(ada_browser, finished, ada, echo):
    request = opened(ada_browser, finished.task, "/documents/request").json()
    assert request["parts"] == [{"text": "Begin"}]
    task = opened(ada_browser, finished.task, "/documents/task").json()
    assert (task["id"], task["status"]["state"]) == (str(finished.task), "TASK_STATE_COMPLETED")
    kinds = [next(iter(one)) for one in opened(ada_browser, finished.task, "/documents/events").json()]
    assert kinds == ["statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]
    assert opened(ada_browser, finished.task, "/documents/secrets").status_code == 404
    receipt = telling.begun(ada, echo, 'it\'s $HOME `whoami` \\ "quoted"')
    command = opened(ada_browser, receipt.task, "/documents/curl").text
    assert "'Authorization: Bearer YOUR-KEY'" in command
    message = json.loads(command.split("<<'REQUEST'\n")[1].removesuffix("REQUEST\n"))["params"]["message"]
    assert message["parts"] == [{"text": 'it\'s $HOME `whoami` \\ "quoted"'}]
    assert "taskId" not in message
    assert "contextId" not in message
    said = Event.objects.get(task=receipt.task, index=1).payload["message"]
    assert message["messageId"] != said["messageId"]


def child_of(user: User, agent: Agent, parent: Receipt, words: str = "help") -> Receipt:
    return accept.accept(user.principal, agent, telling.said(words), parent=parent.task)


def test_a_graph_shows_who_called_for_whom_and_what_refines_what(ada_browser, ada, echo, finished):
    context = Context.objects.get(pk=finished.context)
    child = child_of(ada, echo, finished)
    refining = telling.begun(ada, echo, contextId=context.context_id, referenceTaskIds=[str(finished.task)])
    for seen_from in (finished, child, refining):
        graph = opened(ada_browser, seen_from.task).context["graph"]
        links = {(edge.begins.task.pk, edge.ends.task.pk, edge.is_reference) for edge in graph.edges}
        assert links == {(finished.task, child.task, False), (finished.task, refining.task, True)}
        assert all(edge.begins.x < edge.ends.x for edge in graph.edges)
        [here] = [node for node in graph.nodes if node.is_here]
        assert here.task.pk == seen_from.task


def test_references_that_are_none_circles_and_tasks_of_others_are_left_out_of_a_graph(
    ada_browser, ada, bob, echo, finished
):
    theirs = telling.begun(bob, echo)
    other = telling.begun(ada, echo, contextId=Context.objects.get(pk=finished.context).context_id)
    named = ["no id", str(other.task), str(uuid.uuid4()), str(theirs.task)]
    Task.objects.filter(pk=finished.task).update(references=named)
    Task.objects.filter(pk=other.task).update(references=[str(finished.task), str(other.task)])
    page = opened(ada_browser, finished.task)
    assert (len(page.context["graph"].nodes), len(page.context["graph"].edges)) == (2, 2)
    assert str(theirs.task) not in page.text


def test_a_wide_graph_is_bounded_and_costs_no_more(ada_browser, ada, echo, finished):
    few = telling.finished(ada, echo)
    child_of(ada, echo, few)
    for number in range(120):
        child_of(ada, echo, finished, f"part {number}")
    assert queries_of(ada_browser, finished.task) <= queries_of(ada_browser, few.task) < 25
    page = opened(ada_browser, finished.task)
    assert len(page.context["graph"].nodes) == 100
    assert "Only the 100 closest tasks" in page.text
    last = few
    for _ in range(12):
        last = child_of(ada, echo, last)
    graph = opened(ada_browser, few.task).context["graph"]
    assert graph.is_cut_off
    assert len(graph.nodes) == 8


def test_a_replay_has_one_entry_for_each_event_and_comes_in_pages(ada_browser, long_one, monkeypatch):
    address = f"/sessions/{long_one.context}/replay"
    assert ada_browser.get(address).status_code == 200
    told = ada_browser.get(f"{address}/entries").json()
    last = Context.objects.get(pk=long_one.context).last_event
    assert [entry["index"] for entry in told["entries"]] == list(range(1, last + 1))
    assert told["last"] == last
    rest = ada_browser.get(f"{address}/entries?after={last - 2}").json()
    assert [entry["index"] for entry in rest["entries"]] == [last - 1, last]
    assert ada_browser.get(f"{address}/entries?after={last}").json() == {"entries": [], "last": last}
    assert ada_browser.get(f"{address}/entries?after=x").status_code == 404
    monkeypatch.setattr("apps.web.sessions.views.REPLAY_PAGE_SIZE", 10)
    told = ada_browser.get(f"{address}/entries?after=5").json()
    assert (told["entries"][0]["index"], told["last"]) == (6, 15)


def test_an_agents_owner_reads_its_tracebacks(ada, ada_browser, bob, echo, said):
    raised = "Traceback (most recent call last):\nValueError: <b>\n"
    shown = '<span class="gr">ValueError</span>'
    failed = accept.accept(ada.principal, echo, said())
    end(begin(failed.run), Failed("no"), error={"code": "agent_error", "message": "no", "traceback": raised})
    for owner, is_shown in ((None, False), (bob, False), (ada, True)):
        Agent.objects.filter(pk=echo.pk).update(owner=owner)
        for page in (opened(ada_browser, failed.task), ada_browser.get("/agents/echo")):
            assert (shown in page.text) is is_shown
            assert "ValueError: <b>" not in page.text
    Agent.objects.filter(pk=echo.pk).update(owner=None)
    User.objects.filter(pk=ada.pk).update(is_staff=True, is_superuser=True)
    assert shown in opened(ada_browser, failed.task).text
