"""Tasks by the client API: read, canceled, answered and rated by their owner."""

import pytest
from django.utils import timezone

from agentkit import Completed, Failed
from apps.conversations.forks import forking
from apps.engine import accept
from apps.engine.turns.output import AGENT_ERROR_MESSAGE
from apps.record.execution import Run
from apps.record.models import Context, Event, Task
from parley import db
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)

NUMBER = {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1}}, "required": ["number"]}


async def ids(caller, query=""):
    return [one["id"] for one in (await caller.get(f"/tasks{query}")).body["items"]]


async def test_task_has_state_question_and_artifacts(ada_calls, made):
    done, asked = await made.delivered(), await made.asking(NUMBER)
    shown = (await ada_calls.get(f"/tasks/{done.task}")).body
    assert (shown["state"], shown["agent"], shown["sessionId"]) == ("completed", "echo", str(done.context))
    assert shown["status"]["message"]["content"] == "Done."
    assert (shown["artifacts"], shown["question"]) == ([f"{done.task}/one"], None)
    shown = (await ada_calls.get(f"/tasks/{asked.task}")).body
    assert (shown["state"], shown["question"]["name"]) == ("input-required", "number")
    assert shown["question"]["schema"]["required"] == ["number"]
    assert shown["artifacts"] == []


async def test_runs_are_listed_and_narrowed(ada_calls, bob_calls, made):
    one, two = await made.delivered(), await made.asking()
    runs = {one.task: str(one.run), two.task: str(two.run)}
    for query, expected in {
        "": [two.task, one.task],
        f"?session={one.context}": [one.task],
        f"?task={two.task}": [two.task],
        f"?session={one.context}&task={two.task}": [],
        "?state=failed": [],
    }.items():
        found = (await ada_calls.get(f"/runs{query}")).body["items"]
        assert [run["id"] for run in found] == [runs[task] for task in expected], query
    assert (await bob_calls.get("/runs")).body["items"] == []
    for query in (f"session={one.context}", f"task={one.task}"):
        assert (await bob_calls.get(f"/runs?{query}")).status == 404


async def test_tasks_are_listed_the_newest_first_and_narrowed(ada_calls, made, countdown):
    first = str((one := await made.delivered()).task)
    between = timezone.now().isoformat().replace("+00:00", "Z")
    made.agent = countdown
    second = str((await made.asking()).task)
    for query, expected in {
        "": [second, first],
        "?state=completed": [first],
        "?state=completed,input-required": [second, first],
        "?agent=countdown": [second],
        f"?session={one.context}": [first],
        f"?since={between}": [second],
        f"?parent={first}": [],
        "?waiting=true": [second],
    }.items():
        assert await ids(ada_calls, query) == expected, query
    for query in ("state=done", "session=1", "agent=%00", "since=yesterday", "owner=1"):
        answer = await ada_calls.get(f"/tasks?{query}")
        assert answer.status == 422
        assert {field.partition("[")[0] for field in answer.fields} == {query.partition("=")[0]}


async def test_child_tasks_are_listed_by_parent(ada_calls, ada, made):
    parent = await made.sent()
    child = await db.run(lambda: accept.accept(ada.principal, made.agent, made.said(), parent=parent.task))
    assert await ids(ada_calls) == [str(parent.task)]
    assert await ids(ada_calls, f"?parent={parent.task}") == [str(child.task)]


async def test_fork_shows_tasks_left_behind_as_canceled(ada_calls, ada, made):
    asked = await made.asking()
    parent = await Context.objects.aget(pk=asked.context)
    fork = await db.run(lambda: forking.fork(ada.principal, parent, parent.last_event, reason="fork"))
    [shown] = (await ada_calls.get(f"/tasks?session={fork.pk}")).body["items"]
    assert (shown["id"], shown["sessionId"], shown["state"]) == (str(asked.task), str(fork.pk), "canceled")
    assert await ids(ada_calls, f"?session={fork.pk}&state=input-required") == []
    assert await ids(ada_calls, f"?session={fork.pk}&state=canceled") == [str(asked.task)]
    assert await ids(ada_calls, f"?session={parent.pk}&state=input-required") == [str(asked.task)]


async def test_second_cancel_changes_nothing(ada_calls, made):
    receipt, done = await made.sent(), await made.delivered()
    await db.run(begin, receipt.run)
    first = (await ada_calls.post(f"/tasks/{receipt.task}/cancel")).body
    assert first["state"] == "canceled"
    assert (await Run.objects.aget(pk=receipt.run)).state == Run.State.CANCELED
    events = await Event.objects.acount()
    assert (await ada_calls.post(f"/tasks/{receipt.task}/cancel")).body == first
    ended = await ada_calls.post(f"/tasks/{done.task}/cancel")
    assert (ended.status, ended.code) == (409, "conflict")
    assert await Event.objects.acount() == events


async def test_answer_is_recorded_once_for_its_key(ada_calls, made):
    asked = await made.asking(NUMBER)
    path, body = f"/tasks/{asked.task}/answer", {"data": {"number": 3}, "text": "Three."}
    told = (await ada_calls.post(path, body, Idempotency_Key="once")).body
    assert (told["task"]["state"], told["repeated"]) == ("working", False)
    assert told["message"]["parts"] == [{"text": "Three."}, {"data": {"number": 3}}]
    again = (await ada_calls.post(path, body, Idempotency_Key="once")).body
    assert (again["repeated"], again["message"]) == (True, told["message"])
    assert await Run.objects.filter(task=asked.task).acount() == 2
    assert (await ada_calls.post(path, {"text": "Four."}, Idempotency_Key="once")).status == 422


async def test_wrong_answers_are_refused_by_field(ada_calls, made):
    asked, done, works = await made.asking(NUMBER), await made.delivered(), await made.sent()
    wrong = [
        ({"data": {"number": 0}}, "data.number"),
        ({"data": {}}, "data.number"),
        ({"data": 3}, "data"),
        ({"text": "  "}, "text"),
        ({"answer": 3}, "answer"),
        ({"parts": [{"raw": "%"}]}, "parts[0].raw"),
    ]
    for body, field in wrong:
        answer = await ada_calls.post(f"/tasks/{asked.task}/answer", body)
        assert (answer.status, answer.code, answer.fields) == (422, "invalid", [field]), body
    for receipt in (done, works):
        answer = await ada_calls.post(f"/tasks/{receipt.task}/answer", {"text": "Three."})
        assert (answer.status, answer.code) == (409, "conflict")
    assert (await Task.objects.aget(pk=asked.task)).state == "input-required"


async def test_feedback_is_recorded_and_the_newest_counts(ada_calls, made):
    done = await made.delivered()
    path = f"/tasks/{done.task}/feedback"
    for wrong in ({"rating": 0}, {"rating": 6}, {"rating": "good"}, {"rating": 5, "text": "a" * 10_001}):
        assert (await ada_calls.post(path, wrong)).status == 422, wrong
    given = (await ada_calls.post(path, {"rating": 2})).body
    assert given == {"taskId": str(done.task), "rating": 2, "text": ""}
    await ada_calls.post(path, {"rating": 5, "text": " Better. "})
    recorded = [event.payload async for event in Event.objects.filter(type="feedback").order_by("index")]
    assert recorded == [{"rating": 2}, {"rating": 5, "feedback": "Better."}]


# A task's owner sees its runs and an artifact's provenance.


async def test_run_has_agent_version_times_and_result(ada_calls, made):
    receipt = await made.sent()
    queued = (await ada_calls.get(f"/runs/{receipt.run}")).body
    assert (queued["state"], queued["attempt"], queued["startedAt"], queued["inputHash"]) == ("queued", 0, None, "")
    await db.run(lambda: end(begin(receipt.run), Completed("done")))
    done = (await ada_calls.get(f"/runs/{receipt.run}")).body
    assert (done["state"], done["attempt"], done["turn"], done["agent"]) == ("done", 1, 1, "echo")
    assert (done["taskId"], done["sessionId"]) == (str(receipt.task), str(receipt.context))
    assert (done["agentVersion"], len(done["inputHash"])) == (1, 64)
    assert done["startedAt"] <= done["finishedAt"]
    assert (done["options"], done["usage"], done["error"]) == ({}, {}, None)


async def test_failed_run_hides_what_is_for_operators(ada_calls, made):
    failed, broke = await made.sent(), await made.sent()
    await db.run(lambda: end(begin(failed.run), Failed("No paper.", "paper")))
    run = (await ada_calls.get(f"/runs/{failed.run}")).body
    assert (run["state"], run["error"]) == ("failed", {"code": "paper", "message": "No paper."})
    error = {"code": "error", "message": "KeyError: 'secret'", "traceback": "at line 7"}
    await db.run(lambda: end(begin(broke.run), Failed(AGENT_ERROR_MESSAGE, "error"), error=error))
    answer = await ada_calls.get(f"/runs/{broke.run}")
    assert answer.body["error"] == {"code": "error", "message": AGENT_ERROR_MESSAGE}
    assert b"secret" not in answer.content
    assert (await ada_calls.get("/runs/none")).code == "not_found"
