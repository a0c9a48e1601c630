"""ListTasks: newest status first, pages, filters, and the caller's tasks only."""

import asyncio
import datetime

import pytest

from apps.record.models import Task
from tests.a2a.calling import message, text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("lists are SQL of our own")]


async def listed(caller, **params):
    return (await caller.call("ListTasks", params)).result


async def ids(caller, **params):
    return [task["id"] for task in (await listed(caller, **params))["tasks"]]


@pytest.fixture
async def seven(worker, ada_at, echo):
    """Seven finished tasks of Ada's, the newest first; the last three share a context."""
    places = ["a", "a", "a", "a", "b", "b", "b"]
    sent = [(await ada_at("echo").send(message(str(n), contextId=place))).result for n, place in enumerate(places)]
    return [one["task"]["id"] for one in reversed(sent)]


async def test_pages_follow_one_another_without_a_gap_or_a_repetition(seven, ada_at, subtests):
    for size in (1, 3, 7, 8):
        with subtests.test(f"pages of {size}"):
            found, token, sizes = [], "", []
            while True:
                page = await listed(ada_at("echo"), pageSize=size, pageToken=token)
                assert page["pageSize"] == size
                assert page["totalSize"] == 7
                found += [task["id"] for task in page["tasks"]]
                sizes.append(len(page["tasks"]))
                if not (token := page["nextPageToken"]):
                    break
            assert found == seven
            assert all(length == size for length in sizes[:-1])
            assert sizes[-1]


async def test_tasks_of_the_same_moment_are_not_lost_between_pages(seven, ada_at):
    tasks = [task async for task in Task.objects.all()]
    for task in tasks:
        task.status_at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    await Task.objects.all().adelete()  # finished tasks do not change
    await Task.objects.abulk_create(tasks)
    found, token = [], ""
    for _ in range(7):
        page = await listed(ada_at("echo"), pageSize=1, pageToken=token)
        found += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
    assert token == ""
    assert sorted(found) == sorted(seven)


async def test_a_task_that_comes_meanwhile_disturbs_no_page(seven, ada_at):
    first = await listed(ada_at("echo"), pageSize=4)
    await ada_at("echo").send(message("new"))
    second = await listed(ada_at("echo"), pageSize=4, pageToken=first["nextPageToken"])
    assert [task["id"] for task in first["tasks"] + second["tasks"]] == seven
    assert second["totalSize"] == 8


async def test_a_context_a_state_and_a_time_can_be_asked_for(seven, ada_at):
    assert await ids(ada_at("echo"), contextId="b") == seven[:3]
    assert (await listed(ada_at("echo"), contextId="b", pageSize=1))["totalSize"] == 3
    assert await ids(ada_at("echo"), contextId="never used") == []
    for status in ("TASK_STATE_COMPLETED", 3, "TASK_STATE_UNSPECIFIED"):
        assert await ids(ada_at("echo"), status=status) == seven
    assert await ids(ada_at("echo"), status="TASK_STATE_FAILED") == []
    third = (await listed(ada_at("echo")))["tasks"][2]["status"]["timestamp"]
    assert await ids(ada_at("echo"), statusTimestampAfter=third) == seven[:3]
    assert await ids(ada_at("echo"), statusTimestampAfter="2100-01-01T00:00:00+02:00") == []
    assert await ids(ada_at("echo"), status_timestamp_after="1970-01-01T00:00:00Z") == seven


async def test_a_page_token_is_good_for_its_caller_agent_and_filters_alone(seven, ada_at, bob_at, quiet, subtests):
    token = (await listed(ada_at("echo"), pageSize=2, contextId="a"))["nextPageToken"]
    assert await ids(ada_at("echo"), pageSize=1, contextId="a", pageToken=token) == [seven[5]]
    misuses = {
        "another filter": (ada_at("echo"), {"contextId": "b", "pageToken": token}),
        "no filter": (ada_at("echo"), {"pageToken": token}),
        "one filter more": (ada_at("echo"), {"contextId": "a", "status": "TASK_STATE_FAILED", "pageToken": token}),
        "another caller": (bob_at("echo"), {"contextId": "a", "pageToken": token}),
        "another agent": (ada_at("quiet"), {"contextId": "a", "pageToken": token}),
        "a letter more": (ada_at("echo"), {"contextId": "a", "pageToken": token + "x"}),
        "a part of it": (ada_at("echo"), {"contextId": "a", "pageToken": token[3:]}),
    }
    for name, (caller, params) in misuses.items():
        with subtests.test(name):
            assert (await caller.call("ListTasks", params)).fields == ["pageToken"]


async def test_each_task_has_the_newest_of_its_history_and_its_artifacts_if_asked_for(worker, ada_at, asking):
    async def talked(word):
        task = (await ada_at("asking").send(message("hi"))).result["task"]
        await ada_at("asking").send(message(word, taskId=task["id"]))

    await asyncio.gather(*(talked(word) for word in ("red", "blue")))
    newest = (await listed(ada_at("asking"), historyLength=2, includeArtifacts=True))["tasks"]
    assert sorted(text_of(task["artifacts"][0]) for task in newest) == ["It was blue.", "It was red."]
    said = [[text_of(one) for one in task["history"]] for task in newest]
    assert sorted(said) == [["blue", "It was blue."], ["red", "It was red."]]
    assert all(
        len(task["history"]) == 4 and "artifacts" not in task for task in (await listed(ada_at("asking")))["tasks"]
    )
    assert not any("history" in task for task in (await listed(ada_at("asking"), historyLength=0))["tasks"])


async def test_a_task_moves_to_the_front_when_its_status_changes(worker, ada_at, asking):
    first, second = [(await ada_at("asking").send(message("hi"))).result["task"]["id"] for _ in range(2)]
    assert await ids(ada_at("asking")) == [second, first]
    assert await ids(ada_at("asking"), status="TASK_STATE_INPUT_REQUIRED") == [second, first]
    await ada_at("asking").send(message("red", taskId=first))
    assert await ids(ada_at("asking")) == [first, second]
    assert await ids(ada_at("asking"), status="TASK_STATE_INPUT_REQUIRED") == [second]
