"""With any filter, a page of ListTasks reads an index in its order."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.a2a import tasks
from apps.a2a.requests import ListTasksRequest
from apps.agents.registration import register_hosted
from apps.record.models import Context, TaskState
from benchmarks.rows import PER_CONTEXT, make_tasks
from examples.showcase import DEMO

pytestmark = [pytest.mark.django_db, pytest.mark.services("each database makes plans of its own")]

MANY = 4000
INDEXES = {
    "no filter": ("tasks_of_an_owner", {}),
    "a context": ("tasks_of_a_context_by_status", {"context_id": "of the newest"}),
    "a state that most have": ("tasks_of_an_owner", {"status": TaskState.COMPLETED.wire}),
    "a state that few have": ("tasks_of_an_owner_by_state", {"status": TaskState.FAILED.wire}),
    "a state that none has": ("tasks_of_an_owner_by_state", {"status": TaskState.WORKING.wire}),
    "a time long ago": (
        "tasks_of_an_owner",
        {"status_timestamp_after": "2026-01-01T00:00:00Z"},
    ),
    "a time just now": (
        "tasks_of_an_owner",
        {"status_timestamp_after": "2026-01-01T01:00:00Z"},
    ),
}


def page_and_plan(owner, agent, sought):
    with CaptureQueriesContext(connection) as captured:
        page = json.loads(tasks.list_tasks(owner.principal, agent, sought))
    [found] = [query["sql"] for query in captured if "status_at DESC" in query["sql"]]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # sorting a few rows is cheap; the index must do without
            for way in ("sort", "incremental_sort", "bitmapscan", "seqscan"):
                cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(("EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN ") + found)
        return page, "\n".join(str(row[-1]) for row in cursor.fetchall())


def test_pages_come_from_an_index_in_their_order(django_user_model, subtests):
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
