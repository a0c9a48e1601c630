"""Tasks by the client API: seen, canceled, answered and rated by their owner, and by nobody else."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable

import pytest
from django.utils import timezone

import bridge
from agentkit import Artifact
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import READ
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.conversations import forking, intake
from apps.conversations.models import Context, Event, Run, Task
from apps.orchestration import opening
from apps.orchestration.models import Step
from tests.api.calling import Caller
from tests.api.counting import statements
from tests.api.delivering import Said, asking, delivered
from tests.api.shaped import check
from tests.orchestration.conftest import agents, plan  # noqa: F401 fixtures
from tests.working import begin

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def report(db: None) -> Agent:
    return register_hosted("report", "apps.showcase.report.agent:Report")


NUMBER = {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1}}, "required": ["number"]}


async def ids(caller: Caller, query: str = "") -> list[str]:
    return [one["id"] for one in check(await caller.get(f"/tasks{query}"), "tasks_list")["items"]]


async def test_a_task_says_where_it_stands_what_it_asks_and_what_it_made(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    done = await bridge.run(delivered, ada, echo, said())
    shown = check(await ada_calls.get(f"/tasks/{done.task}"), "tasks_retrieve")
    assert (shown["state"], shown["agent"], shown["sessionId"]) == ("completed", "echo", str(done.context))
    assert shown["status"]["message"]["content"] == "Done."
    assert shown["artifacts"] == [f"{done.task}/one"]
    assert shown["question"] is None
    open_one = await bridge.run(asking, ada, echo, said(), NUMBER)
    shown = check(await ada_calls.get(f"/tasks/{open_one.task}"), "tasks_retrieve")
    assert (shown["state"], shown["question"]["name"]) == ("input-required", "number")
    assert shown["question"]["schema"]["required"] == ["number"]
    assert shown["artifacts"] == []


async def test_tasks_are_listed_the_newest_first_and_narrowed(
    ada_calls: Caller, ada: User, echo: Agent, countdown: Agent, said: Said
) -> None:
    first = str((one := await bridge.run(delivered, ada, echo, said())).task)
    between = timezone.now().isoformat().replace("+00:00", "Z")
    second = str((await bridge.run(asking, ada, countdown, said())).task)
    assert await ids(ada_calls) == [second, first]
    assert await ids(ada_calls, "?state=completed") == [first]
    assert await ids(ada_calls, "?state=completed,input-required") == [second, first]
    assert await ids(ada_calls, "?agent=countdown") == [second]
    assert await ids(ada_calls, "?agent=nobody") == []
    assert await ids(ada_calls, f"?session={one.context}") == [first]
    assert await ids(ada_calls, f"?since={between}") == [second]
    assert await ids(ada_calls, f"?parent={first}") == []


async def test_what_agents_called_for_is_listed_by_its_parent(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    parent = await bridge.run(intake.accept, ada.principal, echo, said())
    child = await bridge.run(lambda: intake.accept(ada.principal, echo, said(), parent=parent.task))
    assert await ids(ada_calls) == [str(parent.task)]
    assert await ids(ada_calls, f"?parent={parent.task}") == [str(child.task)]


async def test_what_waits_is_listed_once_and_of_plans_all_that_steps_ask(
    ada_calls: Caller,
    bob_calls: Caller,
    ada: User,
    echo: Agent,
    said: Said,
    plan: Callable[..., Agent],  # noqa: F811
) -> None:
    own = await bridge.run(asking, ada, echo, said())
    agent = await bridge.run(lambda: plan({key: {"person": {"ask": f"{key}?"}} for key in ("one", "two")}))

    def steps_ask() -> tuple[Task, list[uuid.UUID]]:
        task = Task.objects.get(pk=intake.accept(ada.principal, agent, said()).task)
        opening.begin(task, agent.current_version)
        askers = [asking(ada, echo, said()).task for _ in range(2)]
        Task.objects.filter(pk__in=askers).update(parent=task)
        for key, asker in zip(("one", "two"), askers, strict=True):
            Step.objects.filter(run=task.pk, key=key).update(state="asking", task=asker, asked_at=timezone.now())
        return task, askers

    run, askers = await bridge.run(steps_ask)
    assert set(await ids(ada_calls, "?waiting=true")) == {str(one) for one in (own.task, *askers)}
    assert len(await ids(ada_calls, "?waiting=true&limit=2")) == 2
    assert set(await ids(ada_calls, f"?waiting=true&parent={run.pk}")) == {str(one) for one in askers}
    assert set(await ids(ada_calls)) == {str(own.task), str(run.pk)}
    assert await ids(bob_calls, "?waiting=true") == []
    answered = await ada_calls.post(f"/tasks/{askers[1]}/answer", {"data": {"number": 3}})
    assert answered.status == 202
    assert set(await ids(ada_calls, "?waiting=true")) == {str(one) for one in (own.task, askers[0])}
    again = await ada_calls.post(f"/tasks/{askers[1]}/answer", {"data": {"number": 4}})
    assert (again.status, again.code) == (409, "conflict")


async def test_the_list_goes_on_where_its_cursor_says_with_the_same_filters_alone(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    made = [str((await bridge.run(delivered, ada, echo, said())).task) for _ in range(3)]
    first = (await ada_calls.get("/tasks?limit=2")).body
    rest = (await ada_calls.get(f"/tasks?limit=2&cursor={first['nextCursor']}")).body
    assert [one["id"] for one in first["items"] + rest["items"]] == made[::-1]
    assert rest["nextCursor"] == ""
    other = await ada_calls.get(f"/tasks?limit=2&state=completed&cursor={first['nextCursor']}")
    assert (other.status, other.fields) == (422, ["cursor"])


@pytest.mark.parametrize("query", ["state=done", "session=1", "agent=%00", "since=yesterday", "limit=0", "owner=1"])
async def test_a_filter_that_makes_no_sense_is_named(ada_calls: Caller, query: str) -> None:
    answer = await ada_calls.get(f"/tasks?{query}")
    assert answer.status == 422
    assert {field.partition("[")[0] for field in answer.fields} == {query.partition("=")[0]}


async def test_a_fork_shows_what_it_left_behind_as_canceled(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    open_one = await bridge.run(asking, ada, echo, said())
    parent = await Context.objects.aget(pk=open_one.context)
    fork = await bridge.run(lambda: forking.fork(ada.principal, parent, parent.last_event, reason="fork"))
    shown = check(await ada_calls.get(f"/tasks?session={fork.pk}"), "tasks_list")["items"]
    assert [(one["id"], one["sessionId"], one["state"]) for one in shown] == [
        (str(open_one.task), str(fork.pk), "canceled")
    ]
    assert await ids(ada_calls, f"?session={fork.pk}&state=input-required") == []
    assert await ids(ada_calls, f"?session={fork.pk}&state=canceled") == [str(open_one.task)]
    assert await ids(ada_calls, f"?session={parent.pk}&state=input-required") == [str(open_one.task)]


async def test_a_cancel_stops_a_task_and_changes_nothing_the_second_time(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    receipt = await bridge.run(intake.accept, ada.principal, echo, said())
    await bridge.run(begin, receipt.run)
    first = check(await ada_calls.post(f"/tasks/{receipt.task}/cancel"), "tasks_cancel")
    assert first["state"] == "canceled"
    assert (await Run.objects.aget(pk=receipt.run)).state == Run.State.CANCELED
    events = await Event.objects.acount()
    assert (await ada_calls.post(f"/tasks/{receipt.task}/cancel")).body == first
    assert await Event.objects.acount() == events


async def test_a_task_that_has_ended_cannot_be_canceled(ada_calls: Caller, ada: User, echo: Agent, said: Said) -> None:
    done = await bridge.run(delivered, ada, echo, said())
    answer = await ada_calls.post(f"/tasks/{done.task}/cancel")
    assert (answer.status, answer.code) == (409, "conflict")
    assert (await Task.objects.aget(pk=done.task)).state == "completed"


async def test_an_answer_in_data_is_recorded_once_for_its_key(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    asked = await bridge.run(asking, ada, echo, said(), NUMBER)
    body = {"data": {"number": 3}, "text": "Three."}
    told = check(await ada_calls.post(f"/tasks/{asked.task}/answer", body, Idempotency_Key="once"), "tasks_answer")
    assert told["task"]["state"] == "working"
    assert told["message"]["parts"] == [{"text": "Three."}, {"data": {"number": 3}}]
    assert told["repeated"] is False
    again = check(await ada_calls.post(f"/tasks/{asked.task}/answer", body, Idempotency_Key="once"), "tasks_answer")
    assert again["repeated"] is True
    assert again["message"] == told["message"]
    assert await Run.objects.filter(task=asked.task).acount() == 2
    other = await ada_calls.post(f"/tasks/{asked.task}/answer", {"text": "Four."}, Idempotency_Key="once")
    assert other.status == 422


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"data": {"number": 0}}, "data.number"),
        ({"data": {"number": "3"}}, "data.number"),
        ({"data": {}}, "data.number"),
        ({"data": 3}, "data"),
        ({}, "text"),
        ({"text": "  "}, "text"),
        ({"answer": 3}, "answer"),
        ({"parts": [{"raw": "%"}]}, "parts[0].raw"),
    ],
)
async def test_an_answer_that_does_not_fit_names_the_field_and_is_not_recorded(
    ada_calls: Caller, ada: User, echo: Agent, said: Said, body: dict[str, object], field: str
) -> None:
    asked = await bridge.run(asking, ada, echo, said(), NUMBER)
    answer = await ada_calls.post(f"/tasks/{asked.task}/answer", body)
    assert (answer.status, answer.code, answer.fields) == (422, "invalid", [field])
    assert (await Task.objects.aget(pk=asked.task)).state == "input-required"


async def test_a_task_that_asks_nothing_takes_no_answer(ada_calls: Caller, ada: User, echo: Agent, said: Said) -> None:
    for receipt in (
        await bridge.run(delivered, ada, echo, said()),
        await bridge.run(intake.accept, ada.principal, echo, said()),
    ):
        answer = await ada_calls.post(f"/tasks/{receipt.task}/answer", {"text": "Three."})
        assert (answer.status, answer.code) == (409, "conflict")


async def test_who_waits_hears_how_the_answer_was_taken(
    ada_calls: Caller, ada: User, worker: None, report: Agent
) -> None:
    begun = await ada_calls.post("/sessions", {"agent": report.slug, "message": {"text": "A report"}, "wait": True})
    task = begun.body["task"]
    assert (task["state"], task["question"]["name"]) == ("input-required", "file")
    table = {"raw": base64.b64encode(b"city,people\nRome,3\n").decode(), "filename": "a.csv", "mediaType": "text/csv"}
    answer = await ada_calls.post(f"/tasks/{task['id']}/answer", {"parts": [table], "wait": True})
    told = check(answer, "tasks_answer")
    assert (answer.status, told["task"]["id"]) == (200, task["id"])
    assert told["task"]["question"]["name"] == "format"
    assert told["answer"]["index"] > told["message"]["index"]


async def test_feedback_is_recorded_and_the_newest_counts(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    done = await bridge.run(delivered, ada, echo, said())
    given = check(await ada_calls.post(f"/tasks/{done.task}/feedback", {"rating": 2}), "tasks_feedback")
    assert given == {"taskId": str(done.task), "rating": 2, "text": ""}
    await ada_calls.post(f"/tasks/{done.task}/feedback", {"rating": 5, "text": " Better. "})
    recorded = [event.payload async for event in Event.objects.filter(type="feedback").order_by("index")]
    assert recorded == [{"rating": 2}, {"rating": 5, "feedback": "Better."}]


@pytest.mark.parametrize(
    "body", [{"rating": 0}, {"rating": 6}, {"rating": "good"}, {"rating": 5, "text": "a" * 10_001}]
)
async def test_feedback_that_is_none_is_refused(
    ada_calls: Caller, ada: User, echo: Agent, said: Said, body: dict[str, object]
) -> None:
    done = await bridge.run(delivered, ada, echo, said())
    assert (await ada_calls.post(f"/tasks/{done.task}/feedback", body)).status == 422
    assert not await Event.objects.filter(type="feedback").aexists()


ACTS = [
    ("GET", "", None),
    ("POST", "/cancel", None),
    ("POST", "/answer", {"text": "3"}),
    ("POST", "/feedback", {"rating": 1}),
]


@pytest.mark.parametrize(("method", "act", "body"), ACTS)
async def test_somebody_elses_task_is_not_found(
    bob_calls: Caller, anybody: Caller, ada: User, echo: Agent, said: Said, method: str, act: str, body: object
) -> None:
    asked = await bridge.run(asking, ada, echo, said())
    for task in (asked.task, uuid.uuid4()):
        answer = await bob_calls.ask(method, f"/tasks/{task}{act}", body)
        assert (answer.status, answer.code) == (404, "not_found")
    assert (await anybody.ask(method, f"/tasks/{asked.task}{act}", body)).status == 401
    assert await ids(bob_calls) == []
    assert (await bob_calls.get(f"/tasks?session={asked.context}")).status == 404
    assert (await Task.objects.aget(pk=asked.task)).state == "input-required"


@pytest.mark.parametrize(("method", "act", "body"), ACTS[1:])
async def test_a_key_that_may_only_read_changes_nothing(
    ada: User, echo: Agent, said: Said, method: str, act: str, body: object
) -> None:
    asked = await bridge.run(asking, ada, echo, said())
    reader = Caller((await bridge.run(lambda: ApiKey.issue(ada, "test", scopes=[READ])))[1])
    assert await ids(reader) == [str(asked.task)]
    answer = await reader.ask(method, f"/tasks/{asked.task}{act}", body)
    assert (answer.status, answer.code) == (403, "forbidden")


async def test_a_page_of_thirty_takes_as_many_queries_as_one_of_three(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    await ada_calls.get("/tasks")  # notes the key's use
    counts = []
    for number in (3, 27):
        for _ in range(number):
            await bridge.run(delivered, ada, echo, said(), [Artifact([{"text": "hello"}], artifact_id="one")])
        with statements() as made:
            await ada_calls.get("/tasks?limit=100")
        counts.append(len(made))
    assert counts[0] == counts[1] > 0
    assert len(await ids(ada_calls, "?limit=100")) == 30
