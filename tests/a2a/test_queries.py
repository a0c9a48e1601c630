"""Lists of tasks, and the number of queries of each operation, which does not grow with the data."""

import base64
import datetime
import json
from functools import partial
from urllib.parse import urlsplit

import pytest
from asgiref.sync import sync_to_async
from django.core.files.storage import default_storage
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.a2a.authentication import TaskReading
from apps.a2a.requests import ListTasksRequest
from apps.a2a.tasks import accepted_snapshot, find_task, list_tasks
from apps.agents.registration import register_hosted
from apps.engine import send
from apps.installation import current as installation
from apps.limits import current as limits
from apps.record.content import blobs
from apps.record.models import Context, Task, TaskState
from benchmarks.rows import PER_CONTEXT, make_tasks
from examples.showcase import DEMO
from parley import db
from tests.a2a.calling import message, text_of
from tests.clients import telling

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("each database is asked in its own way")]


def counted(function, *args):
    """The statements of a function, on the calling thread."""
    with CaptureQueriesContext(connection) as queries:
        function(*args)
    return len(queries)


@pytest.fixture
def tasks(ada, echo):
    return [str(telling.finished(ada, echo, contextId="one").task) for _ in range(12)]


async def test_a_task_is_read_with_its_caller(tasks, ada_key, echo, rf):
    reading = TaskReading(tasks[0], None)
    assert await db.run(counted, reading.authenticate, f"Bearer {ada_key}", echo.slug, rf.get("/")) == 1
    assert json.loads(reading.json)["id"] == tasks[0]


async def test_long_lists_are_not_counted_again(tasks, ada, echo, monkeypatch):
    monkeypatch.setattr("apps.a2a.tasks.MANY", 12)
    monkeypatch.setattr("apps.a2a.tasks.MAX_COUNTED", 10)
    page = partial(list_tasks, ada.principal, echo, ListTasksRequest(page_size=3))
    assert [await db.run(counted, page) for _ in range(2)] == [2, 1]
    assert json.loads(await db.run(page))["totalSize"] == 10


async def test_queries_do_not_grow_with_the_data(tasks, ada, bob, echo, monkeypatch):
    def refused():
        with pytest.raises(Exception, match="no such task"):
            find_task(bob.principal, echo, tasks[0])

    for length in (None, 0):
        assert await db.run(counted, find_task, ada.principal, echo, tasks[0], length) == 1
    assert await db.run(counted, refused) == 1
    for count, fields in (
        (1, {}),
        (3, {"context_id": "one", "page_size": 3}),
        (1, {"context_id": "other"}),
        (2, {"page_size": 3}),
        (2, {"page_size": 11}),
        (1, {"include_artifacts": False, "history_length": 0}),
    ):
        asked = ListTasksRequest(**{"include_artifacts": True} | fields)
        assert await db.run(counted, list_tasks, ada.principal, echo, asked) == count, fields
    for known in (limits, installation):
        monkeypatch.setattr(known, "REFRESH_SECONDS", float("inf"))  # so it is on a busy machine, too

    def accepted(**fields):
        return counted(send.accept_and_publish, ada.principal, echo, message(**fields))

    await db.run(lambda: accepted(contextId="short"))
    in_short = await db.run(lambda: accepted(contextId="short"))
    assert await db.run(lambda: accepted(contextId="one")) == in_short <= 11, "in a long conversation"
    assert await db.run(accepted) <= 10, "in a new conversation"

    def begun():
        receipt = send.accept_and_publish(ada.principal, echo, message())
        return counted(accepted_snapshot, receipt.task, receipt.index, None)

    assert await db.run(begun) <= 3, "before the first event of a stream"


async def listed(caller, **params):
    return (await caller.call("ListTasks", params)).result


async def ids(caller, **params):
    return [task["id"] for task in (await listed(caller, **params))["tasks"]]


@pytest.fixture
def seven(ada, echo):
    """Seven finished tasks of Ada's, the newest first; the last three share a context."""
    return [str(telling.finished(ada, echo, contextId=place).task) for place in "aaaabbb"][::-1]


async def pages_of(caller, size):
    found, token, sizes = [], "", []
    while True:
        page = await listed(caller, pageSize=size, pageToken=token)
        assert (page["pageSize"], page["totalSize"]) == (size, 7)
        found += [task["id"] for task in page["tasks"]]
        sizes.append(len(page["tasks"]))
        if not (token := page["nextPageToken"]):
            break
    assert all(length == size for length in sizes[:-1])
    assert sizes[-1]
    return found


async def test_pages_follow_without_gap_or_repetition(seven, ada_at):
    for size in (3, 7):
        assert await pages_of(ada_at("echo"), size) == seven, size
    first = await listed(ada_at("echo"), pageSize=4)
    await ada_at("echo").send(message("new"), returnImmediately=True)
    second = await listed(ada_at("echo"), pageSize=4, pageToken=first["nextPageToken"])
    assert [task["id"] for task in first["tasks"] + second["tasks"]] == seven, "a new task disturbs no page"
    await Task.objects.exclude(pk__in=seven).adelete()
    tasks = [task async for task in Task.objects.all()]
    for task in tasks:
        task.status_at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    await Task.objects.all().adelete()  # finished tasks do not change
    await Task.objects.abulk_create(tasks)
    assert sorted(await pages_of(ada_at("echo"), 1)) == sorted(seven), "of the same moment"


async def test_list_is_filtered_by_context_state_time(seven, ada_at):
    assert await ids(ada_at("echo"), contextId="b") == seven[:3]
    assert (await listed(ada_at("echo"), contextId="b", pageSize=1))["totalSize"] == 3
    for status in (3, "TASK_STATE_UNSPECIFIED"):
        assert await ids(ada_at("echo"), status=status) == seven
    assert await ids(ada_at("echo"), status="TASK_STATE_FAILED") == []
    third = (await listed(ada_at("echo")))["tasks"][2]["status"]["timestamp"]
    assert await ids(ada_at("echo"), statusTimestampAfter=third) == seven[:3]
    assert await ids(ada_at("echo"), statusTimestampAfter="2100-01-01T00:00:00+02:00") == []
    assert await ids(ada_at("echo"), status_timestamp_after="1970-01-01T00:00:00Z") == seven


async def test_page_token_is_good_for_its_list_alone(seven, ada_at, bob_at, quiet, subtests):
    token = (await listed(ada_at("echo"), pageSize=2, contextId="a"))["nextPageToken"]
    assert await ids(ada_at("echo"), pageSize=1, contextId="a", pageToken=token) == [seven[5]]
    given = {"contextId": "a", "pageToken": token}
    misuses = {
        "no filter": (ada_at("echo"), {"pageToken": token}),
        "one filter more": (ada_at("echo"), {**given, "status": "TASK_STATE_FAILED"}),
        "another caller": (bob_at("echo"), given),
        "another agent": (ada_at("quiet"), given),
        "a letter more": (ada_at("echo"), {**given, "pageToken": token + "x"}),
    }
    for name, (caller, params) in misuses.items():
        with subtests.test(name):
            assert (await caller.call("ListTasks", params)).fields == ["pageToken"]


async def test_list_shows_history_and_artifacts_if_asked(worker, ada_at, asking):
    asking_at = ada_at("asking")
    first, second = [(await asking_at.send(message("hi"))).result["task"]["id"] for _ in range(2)]
    assert await ids(asking_at) == await ids(asking_at, status="TASK_STATE_INPUT_REQUIRED") == [second, first]
    await asking_at.send(message("red", taskId=first))
    assert await ids(asking_at) == [first, second], "a task moves to the front when its status changes"
    assert await ids(asking_at, status="TASK_STATE_INPUT_REQUIRED") == [second]
    newest, other = (await listed(asking_at, historyLength=2, includeArtifacts=True))["tasks"]
    assert text_of(newest["artifacts"][0]) == "It was red."
    assert [[text_of(one) for one in task["history"]] for task in (newest, other)] == [
        ["red", "It was red."],
        ["hi", "Which word?"],
    ]
    whole = (await listed(asking_at))["tasks"][0]
    assert (len(whole["history"]), "artifacts" in whole) == (4, False)
    assert not any("history" in task for task in (await listed(asking_at, historyLength=0))["tasks"])


async def test_lost_file_is_a_link_that_says_so(worker, echo, ada_at, ada, async_client):
    content = base64.b64encode(b"x" * 300_000).decode()
    sent = message("keep this")
    sent["parts"].append({"raw": content, "filename": "a.bin", "mediaType": "application/octet-stream"})
    await ada_at("echo").send(sent)
    [context] = [one async for one in Context.objects.all()]
    part, *_ = blobs.stored_parts([event async for event in context.events.all()])
    await sync_to_async(default_storage.delete)(blobs.path_of(part["stored"]["sha256"]))
    [task] = (await listed(ada_at("echo")))["tasks"]
    [link] = [part["url"] for part in task["history"][0]["parts"] if "url" in part]
    await async_client.aforce_login(ada)
    lost = await async_client.get(urlsplit(link).path)
    assert (lost.status_code, b"lost" in lost.content) == (404, True)


MANY = 4000
INDEXES = {
    "no filter": ("tasks_of_an_owner", {}),
    "a context": ("tasks_of_a_context_by_status", {"context_id": "of the newest"}),
    "a state that few have": ("tasks_of_an_owner_by_state", {"status": TaskState.FAILED.wire}),
    "a state that none has": ("tasks_of_an_owner_by_state", {"status": TaskState.WORKING.wire}),
    "a time just now": ("tasks_of_an_owner", {"status_timestamp_after": "2026-01-01T01:00:00Z"}),
}


def page_and_plan(owner, agent, sought):
    with CaptureQueriesContext(connection) as captured:
        page = json.loads(list_tasks(owner.principal, agent, sought))
    [found] = [query["sql"] for query in captured if "status_at DESC" in query["sql"]]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # sorting a few rows is cheap; the index must do without
            for way in ("sort", "incremental_sort", "bitmapscan", "seqscan"):
                cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(("EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN ") + found)
        return page, "\n".join(str(row[-1]) for row in cursor.fetchall())


@pytest.mark.django_db
def test_pages_are_read_along_an_index(django_user_model, subtests):
    owner = django_user_model.objects.create_user(DEMO, "correct horse", name="Demo")
    agent, other = [register_hosted(slug, "examples.agents.echo:Echo") for slug in ("many", "as-many")]
    for one in (agent, other):
        make_tasks(one.slug, MANY)
    for name, (index, filters) in INDEXES.items():
        if "context_id" in filters:
            filters = {"context_id": Context.objects.filter(agent=agent).order_by("-updated_at").first().context_id}
        token = ""
        for place in ("the first page", "one that continues the list"):
            with subtests.test(f"{name}: {place}"):
                page, plan = page_and_plan(
                    owner, agent, ListTasksRequest(**filters, history_length=0, page_token=token)
                )
                assert index in plan, plan
                assert "Sort" not in plan
                assert "TEMP B-TREE" not in plan
            if not (token := page["nextPageToken"]):
                break
    page, _ = page_and_plan(owner, agent, ListTasksRequest(page_size=3))
    assert page["totalSize"] == MANY
    assert [task["status"]["timestamp"] for task in page["tasks"]] == [
        f"2026-01-01T01:06:{second}.000Z" for second in (39, 38, 37)
    ]
    of_context, _ = page_and_plan(owner, agent, ListTasksRequest(context_id=page["tasks"][0]["contextId"]))
    assert of_context["totalSize"] == PER_CONTEXT
