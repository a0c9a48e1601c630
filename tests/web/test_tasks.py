"""A task's page: what a person is told of a task, and what they are not."""

from __future__ import annotations

import datetime
import json
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations import intake, ledger
from apps.conversations.events import EventType
from apps.conversations.intake import Receipt
from apps.conversations.models import Context, Event, Run, Task
from apps.web.tasks import A_PAGE
from apps.web.timelines import timeline_of
from console.scales import Scale, lasted
from tests.web import telling

NOON = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC)


def after(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def opened(browser, task, ending="", **asked):
    return browser.get(f"/tasks/{task}{ending}", asked)


@pytest.fixture
def long_one(ada: User, echo: Agent) -> Receipt:
    """A task at work that has said more than a page of events."""
    receipt = telling.begun(ada, echo)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        for number in range(A_PAGE + 10):
            telling.chunk(log, receipt, "log", telling.text(f"line {number} naïve\n"), append=number > 0, last=False)
    return receipt


def test_a_page_says_how_a_task_stands_and_whose_it_is(ada_browser, finished):
    page = opened(ada_browser, finished.task).text
    for words in ("Task of ", "Done", "Run again", f"/sessions/{finished.context}", "What crossed the A2A border"):
        assert words in page
    assert "Stop</button>" not in page


@pytest.mark.parametrize(
    "ending", ["", "/standing", "/timeline", "/events", "/events/1", "/documents/task", "/documents/curl"]
)
def test_somebody_elses_task_is_not_found(ada_browser, bob_browser, finished, ending):
    assert opened(ada_browser, finished.task, ending).status_code == 200
    assert opened(bob_browser, finished.task, ending).status_code == 404
    assert opened(ada_browser, uuid.uuid4(), ending).status_code == 404


def test_who_is_signed_out_is_led_to_sign_in(client, finished):
    assert opened(client, finished.task)["Location"].startswith("/sign-in")


def test_only_operators_are_led_to_the_admin_page(ada_browser, ada, finished):
    assert "/admin/" not in opened(ada_browser, finished.task).text
    ada.is_staff = True
    ada.save()
    assert f"/admin/conversations/task/{finished.task}/change/" in opened(ada_browser, finished.task).text


def test_what_waits_for_an_answer_leads_to_where_it_is_given(ada_browser, asked):
    page = opened(ada_browser, asked.task).text
    assert "Waiting for you" in page
    assert "Answer it" in page
    assert f'data-stop="{asked.task}"' in page


def test_a_task_that_nothing_happened_to_is_not_drawn_again(ada_browser, asked):
    page = opened(ada_browser, asked.task)
    seen = page.context["seen"]
    assert opened(ada_browser, asked.task, "/standing", seen=seen).status_code == 204
    assert "Waiting for you" in opened(ada_browser, asked.task, "/standing", seen="0").text


def test_a_task_at_work_is_drawn_again_while_time_goes_by(ada_browser, ada, echo):
    receipt = telling.begun(ada, echo)
    first = opened(ada_browser, receipt.task, "/standing")
    assert "every 2s" in first.text
    assert opened(ada_browser, receipt.task, "/standing", seen=first.context["seen"]).status_code == 200


def test_a_finished_task_is_asked_for_no_more(ada_browser, finished):
    assert "every" not in opened(ada_browser, finished.task, "/standing").text


def queries_of(browser, task) -> int:
    opened(browser, task)
    with CaptureQueriesContext(connection) as asked:
        opened(browser, task)
    return len(asked)


def test_queries_do_not_grow_with_what_happened(ada_browser, finished, long_one):
    assert queries_of(ada_browser, finished.task) == queries_of(ada_browser, long_one.task) < 20


# In time


def turns(task: Task, *spans: tuple[float, float | None, float | None], state: str = "done") -> None:
    """Runs of a task: when each was queued, begun and finished."""
    first = Run.objects.get(task=task)
    Run.objects.filter(task=task).delete()
    for number, (queued, begun, ended) in enumerate(spans, 1):
        times = [None if one is None else after(one) for one in (queued, begun, ended)]
        Run.objects.create(
            task=task, message=first.message, turn=number, worker="worker-1", attempt=1,
            state=state if ended is not None else "running" if begun is not None else "queued",
            queued_at=times[0], started_at=times[1], finished_at=times[2],
        )  # fmt: skip


def test_a_timeline_tells_waiting_from_work(asked):
    task = Task.objects.get(pk=asked.task)
    Task.objects.filter(pk=task.pk).update(created_at=NOON)
    Event.objects.filter(task=task, type=EventType.AGENT_STATUS, payload__state="working").update(at=after(2))
    Event.objects.filter(task=task, type=EventType.AGENT_STATUS, payload__state="input-required").update(at=after(8))
    task.refresh_from_db()
    turns(task, (0, 2, 8), (10, None, None))
    shown = timeline_of(task, after(12))
    assert [(one.word, one.took) for one in shown.states] == [
        ("Waiting to start", "2.0 s"), ("Working", "6.0 s"), ("Waiting for you", "still going on"),
    ]  # fmt: skip
    assert [one.took for one in shown.queued] == ["2.0 s", "still going on"]
    assert [(one.words) for one in shown.worked] == ["Turn 1, Ran, 6.0 s, on worker-1"]
    assert shown.states[1].left == pytest.approx(100 * 2 / 11.5, abs=4)


def test_an_attempt_that_broke_off_is_drawn_apart(asked):
    task = Task.objects.get(pk=asked.task)
    turns(task, (0, 1, 9))
    run = Run.objects.get(task=task)
    with ledger.writing(asked.context) as log:
        for attempt in (1, 2):
            start = {"attempt": attempt, "turn": 1, "messageId": "first"}
            log.add(EventType.AGENT_START, start, task=asked.task)
    starts = Event.objects.filter(task=task, type=EventType.AGENT_START).order_by("-index")
    for event, at in zip(starts[:2], (5, 1), strict=True):
        Event.objects.filter(pk=event.pk).update(run=run.pk, at=after(at))
    worked = timeline_of(task, after(12)).worked
    assert [(one.label, one.word, one.took) for one in worked] == [
        ("Turn 1, attempt 1", "Broke off, and was tried again", "4.0 s"),
        ("Turn 1, attempt 2", "Ran", "4.0 s"),
    ]


def test_a_long_pause_leaves_room_for_what_was_done():
    day = 86400
    scale = Scale((NOON, after(day + 20)), [(NOON, after(10)), (after(day), after(day + 20))])
    [_, pause, _] = scale.stretches
    assert pause.is_cut
    assert pause.right - pause.left == pytest.approx(100 * 7.5 / 37.5)
    assert scale.place(after(10)) == pytest.approx(100 * 10 / 37.5)
    assert scale.place(after(day + 20)) == 100


def test_a_short_pause_is_drawn_as_it_was():
    scale = Scale((NOON, after(4)), [(NOON, after(1)), (after(3), after(4))])
    assert [(round(one.left), round(one.right), one.is_cut) for one in scale.stretches] == [
        (0, 25, False), (25, 75, False), (75, 100, False),
    ]  # fmt: skip


def test_a_bar_stays_in_the_picture_and_can_be_seen():
    scale = Scale((NOON, after(1000)), [(NOON, after(1000))])
    assert scale.bar(after(1000), after(1000)) == (99.5, 0.5)
    assert scale.bar(NOON, NOON) == (0.0, 0.5)
    nothing = Scale((NOON, NOON), [])
    assert nothing.bar(NOON, NOON)[1] >= 0.5


def test_many_turns_are_drawn_as_far_as_they_fit(ada_browser, asked):
    turns(Task.objects.get(pk=asked.task), *((number * 10, number * 10 + 1, number * 10 + 5) for number in range(250)))
    page = opened(ada_browser, asked.task).text
    assert "the newest of it is drawn" in page
    assert "Turn 250" in page
    assert "Turn 50," not in page


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.01, "less than 0.1 s"), (4.24, "4.2 s"), (59, "59 s"), (184, "3 min 4 s"), (7200, "2 h"), (90000, "1 day 1 h")],
)
def test_lengths_of_time_are_said_as_people_say_them(seconds, words):
    assert lasted(datetime.timedelta(seconds=seconds)) == words


def test_the_newest_task_of_a_session_is_drawn_beside_it(ada_browser, bob_browser, finished):
    assert "Done" in ada_browser.get(f"/sessions/{finished.context}/timeline").text
    assert bob_browser.get(f"/sessions/{finished.context}/timeline").status_code == 404
    assert ada_browser.get(f"/sessions/{finished.context}/task").url == f"/tasks/{finished.task}"
    assert bob_browser.get(f"/sessions/{finished.context}/task").status_code == 404


# Events


def test_events_come_in_pages(ada_browser, long_one):
    first = opened(ada_browser, long_one.task, "/events")
    assert len(first.context["events"].rows) == A_PAGE
    last = first.context["events"].more
    rest = opened(ada_browser, long_one.task, "/events", after=last)
    assert rest.context["events"].rows[0][0].index == last + 1
    assert rest.context["events"].more is None
    assert "Look for newer events" in rest.text


def test_events_are_found_by_type_and_by_their_words(ada_browser, long_one):
    def found(**asked):
        return [
            event.type for event, _ in opened(ada_browser, long_one.task, "/events", **asked).context["events"].rows
        ]

    assert found(type="agent_start") == ["agent_start"]
    assert found(q="LINE 41") == ["artifact_update"]
    assert found(type="agent_status", q="line 41") == []
    assert (
        "No event is like that" in opened(ada_browser, finished_of(long_one), "/events", q="nowhere to be found").text
    )
    assert len(found(type="no such type")) == A_PAGE


@pytest.mark.parametrize("words", ["Größe", "“as it is”", 'said "yes"', "one\\two", "日本"])
def test_events_are_found_by_words_that_json_spells_in_its_own_way(ada_browser, ada, echo, words):
    task = telling.finished(ada, echo, words=f"They {words}, they").task
    events = opened(ada_browser, task, "/events", q=words).context["events"]
    assert [event.payload.get("state") for event, _ in events.rows] == ["completed"]


def finished_of(receipt):
    with ledger.writing(receipt.context) as log:
        log.add(EventType.AGENT_COMPLETE, {"artifacts": []}, task=receipt.task)
        telling.status(log, receipt, "completed", "Done.")
    return receipt.task


@pytest.mark.parametrize("after", ["-1", "x", "9" * 40, "²"])
def test_an_odd_place_in_the_table_is_its_beginning(ada_browser, finished, after):
    assert opened(ada_browser, finished.task, "/events", after=after).context["events"].rows[0][0].index == 1


def test_a_payload_is_shown_as_recorded_and_as_a2a_says_it(ada_browser, finished):
    index = Event.objects.get(type=EventType.ARTIFACT_UPDATE, artifact_id="notes.md").index
    page = opened(ada_browser, finished.task, f"/events/{index}").text
    assert "artifactUpdate" in page
    assert "lastChunk" in page
    assert opened(ada_browser, finished.task, "/events/99999").status_code == 404


def test_a_large_payload_is_cut_and_whole_elsewhere(ada_browser, ada, echo):
    receipt = telling.begun(ada, echo, "x" * 50_000)
    cut = opened(ada_browser, receipt.task, "/events/1").text
    assert len(cut) < 30_000
    assert "This is its beginning." in cut
    whole = opened(ada_browser, receipt.task, "/events/1", whole="")
    assert whole["Content-Type"].startswith("application/json")
    assert "x" * 50_000 in whole.text


def test_what_an_agent_says_is_text_here_too(ada_browser, ada, echo):
    hostile = "<script>alert(1)</script>"
    receipt = telling.finished(ada, echo, words=hostile)
    last = Event.objects.filter(task=receipt.task).latest("index").index
    for ending in ("", "/events", f"/events/{last}", "/documents/task?shown"):
        assert hostile not in ada_browser.get(f"/tasks/{receipt.task}{ending}").text


# Documents


def test_documents_are_what_crossed_the_border(ada_browser, finished):
    request = opened(ada_browser, finished.task, "/documents/request").json()
    assert request["parts"] == [{"text": "Begin"}]
    task = opened(ada_browser, finished.task, "/documents/task").json()
    assert (task["id"], task["status"]["state"]) == (str(finished.task), "TASK_STATE_COMPLETED")
    kinds = [next(iter(one)) for one in opened(ada_browser, finished.task, "/documents/events").json()]
    assert kinds == ["statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]
    assert opened(ada_browser, finished.task, "/documents/secrets").status_code == 404


def test_a_document_in_the_page_is_cut_and_its_copy_is_whole(ada_browser, ada, echo):
    receipt = telling.begun(ada, echo, "y" * 50_000)
    assert "This is its beginning." in opened(ada_browser, receipt.task, "/documents/request", shown="").text
    assert "y" * 50_000 in opened(ada_browser, receipt.task, "/documents/request").text


def test_the_command_is_a_message_of_its_own(ada_browser, ada, echo):
    receipt = telling.begun(ada, echo, 'it\'s $HOME `whoami` \\ "quoted"')
    command = opened(ada_browser, receipt.task, "/documents/curl").text
    assert "'Authorization: Bearer YOUR-KEY'" in command
    message = json.loads(command.split("<<'REQUEST'\n")[1].removesuffix("REQUEST\n"))["params"]["message"]
    assert message["parts"] == [{"text": 'it\'s $HOME `whoami` \\ "quoted"'}]
    assert "taskId" not in message
    assert "contextId" not in message
    said = Event.objects.get(task=receipt.task, index=1).payload["message"]
    assert message["messageId"] != said["messageId"]


# Tasks around it


def child_of(user: User, agent: Agent, parent: Receipt, words: str = "help") -> Receipt:
    return intake.accept(user.principal, agent, telling.said(words), parent=parent.task)


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


def test_a_task_without_links_says_so(ada_browser, finished):
    assert "It stands alone" in opened(ada_browser, finished.task).text


def test_references_that_are_none_and_circles_are_drawn_as_well_as_they_can_be(ada_browser, ada, echo, finished):
    other = telling.begun(ada, echo, contextId=Context.objects.get(pk=finished.context).context_id)
    Task.objects.filter(pk=finished.task).update(references=["no id", str(other.task), str(uuid.uuid4())])
    Task.objects.filter(pk=other.task).update(references=[str(finished.task), str(other.task)])
    graph = opened(ada_browser, finished.task).context["graph"]
    assert (len(graph.nodes), len(graph.edges)) == (2, 2)


def test_somebody_elses_task_is_in_no_graph(ada_browser, ada, bob, echo, finished):
    theirs = telling.begun(bob, echo)
    Task.objects.filter(pk=finished.task).update(references=[str(theirs.task)])
    assert str(theirs.task) not in opened(ada_browser, finished.task).text


def test_a_wide_graph_is_bounded_and_costs_no_more(ada_browser, ada, echo, finished):
    few = telling.finished(ada, echo)
    child_of(ada, echo, few)
    for number in range(120):
        child_of(ada, echo, finished, f"part {number}")
    assert queries_of(ada_browser, finished.task) <= queries_of(ada_browser, few.task) < 25
    page = opened(ada_browser, finished.task)
    assert len(page.context["graph"].nodes) == 100
    assert "There are more" in page.text


def test_a_chain_ends_after_some_steps(ada_browser, ada, echo, finished):
    last = finished
    for _ in range(12):
        last = child_of(ada, echo, last)
    graph = opened(ada_browser, finished.task).context["graph"]
    assert len(graph.nodes) == 7
    assert graph.is_cut_off


def test_times_are_told_in_the_readers_zone(ada_browser, finished):
    ada_browser.cookies["zone"] = "Pacific/Kiritimati"
    task = Task.objects.get(pk=finished.task)
    there = timezone.localtime(task.created_at, datetime.timezone(datetime.timedelta(hours=14)))
    assert f"{there:%H:%M}" in opened(ada_browser, finished.task).text


# Replay


def test_a_replay_has_one_entry_for_each_event(ada_browser, bob_browser, long_one):
    address = f"/sessions/{long_one.context}/replay"
    assert ada_browser.get(address).status_code == 200
    told = ada_browser.get(f"{address}/entries").json()
    last = Context.objects.get(pk=long_one.context).last_event
    assert [entry["index"] for entry in told["entries"]] == list(range(1, last + 1))
    assert told["last"] == last
    rest = ada_browser.get(f"{address}/entries?after={last - 2}").json()
    assert [entry["index"] for entry in rest["entries"]] == [last - 1, last]
    assert ada_browser.get(f"{address}/entries?after={last}").json() == {"entries": [], "last": last}


def test_somebody_elses_replay_is_not_found(bob_browser, ada_browser, finished):
    for ending in ("", "/entries"):
        assert bob_browser.get(f"/sessions/{finished.context}/replay{ending}").status_code == 404
    assert ada_browser.get(f"/sessions/{finished.context}/replay/entries?after=x").status_code == 404


def test_a_long_replay_comes_in_pages(ada_browser, long_one, monkeypatch):
    monkeypatch.setattr("apps.web.replays.A_PAGE", 10)
    told = ada_browser.get(f"/sessions/{long_one.context}/replay/entries?after=5").json()
    assert (told["entries"][0]["index"], told["last"]) == (6, 15)
