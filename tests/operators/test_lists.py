"""Long lists are paged along indexes, saved as filters and exported; the sidebar leads to all."""

import csv
import io
import json
import re

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.a2a.models import Delivery, PushConfig
from apps.accounts.audit_models import AuditEntry
from apps.analytics import rollup
from apps.engine import accept
from apps.operators.models import SavedFilter
from apps.record.execution import Run
from apps.record.models import Context, Event, Message, Task
from parley.faces.admin import ReadOnlyAdmin
from parley.faces.cells import list_url
from parley.faces.keyset import EstimatingPaginator
from tests.analytics.worlds import ago, make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("each database has its own plans")]

LONG = {
    Task: [{}, {"state__exact": "working"}, {"state__exact": "failed"}],
    Run: [{}, {"state__exact": "failed"}, {"reason": "timed_out"}],
    Context: [{}, {"deleted_at__isempty": "0"}, {"cold_at__isempty": "0"}],
    Event: [{}],
    Message: [{}],
    Delivery: [{}, {"state__exact": "dead"}],
    PushConfig: [{}],
}


def keys(page):
    return [row.pk for row in page.context["cl"].result_list]


def plan_of(sql: str) -> str:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            return "\n".join(row[3] for row in cursor.fetchall())
        cursor.execute("SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN {sql}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
        cursor.execute("RESET enable_seqscan; RESET enable_sort; RESET enable_bitmapscan")
        return plan


@pytest.fixture
def rows(many_tasks):
    """A few rows of each list."""
    tasks = many_tasks(5)
    for number, one in enumerate(tasks):
        config = PushConfig.objects.create(task=one, config_id=f"hook{number}", url="https://hooks.example.org/")
        Delivery.objects.create(config=config, event_index=1, state="dead")
    return tasks


@pytest.mark.parametrize("model", LONG)
def test_list_pages_follow_an_index_completely(admin_client, rows, monkeypatch, model):
    monkeypatch.setattr(ReadOnlyAdmin, "list_per_page", 2)
    states = {Task: "working", Run: "failed", Delivery: "dead"}
    for chosen in LONG[model]:
        if state := chosen.get("state__exact", states.get(model)):
            model.objects.update(state=state)
        Run.objects.update(error={"code": "timed_out"})
        Context.objects.update(deleted_at="2026-01-01T00:00Z", cold_at="2026-01-01T00:00Z")
        url, seen = f"{list_url(model, **chosen)}", []
        while url:
            with CaptureQueriesContext(connection) as captured:
                page = admin_client.get(url)
            seen += keys(page)
            check_queries(model, [query["sql"] for query in captured])
            following = page.context["cl"].older
            url = f"{list_url(model)}{following}" if following else ""
        assert len(seen) == len(set(seen)) == model.objects.count() >= 5, chosen


def check_queries(model, queries: list[str]) -> None:
    table = model._meta.db_table
    own = [sql for sql in queries if f'FROM "{table}"' in sql and "ORDER BY" in sql]
    assert own
    for sql in own:
        assert "OFFSET" not in sql
        plan = plan_of(sql)
        # Rows of the same time may be sorted among themselves.
        assert not re.search(r"TEMP B-TREE FOR (?!RIGHT PART)", plan), (sql, plan)
        assert not re.search(r"(?<!Incremental )\bSort\b(?! Key)", plan), (sql, plan)
        assert f"Seq Scan on {table}" not in plan, plan


def test_every_order_lists_every_row_once(admin_client, rows, monkeypatch):
    """Also of hand-made ones: by columns of other tables, or with NULL in some rows."""
    monkeypatch.setattr(ReadOnlyAdmin, "list_per_page", 3)
    monkeypatch.setattr("apps.operators.lists.ROWS_AT_ONCE", 2)
    some = list(Delivery.objects.values_list("pk", flat=True)[:2])
    Delivery.objects.filter(pk__in=some).update(finished_at="2026-01-01T00:00Z", last_status=500)
    PushConfig.objects.filter(deliveries__in=some).update(due_at="2026-01-01T00:00Z")
    model = Delivery
    everything = sorted(str(pk) for pk in model.objects.values_list("pk", flat=True))
    export = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_export", args=["jsonl"])
    for column in range(1, len(admin.site.get_model_admin(model).list_display) + 2):
        for sign in ("", "-"):
            url, seen = f"{list_url(model)}?o={sign}{column}", []
            while url:
                page = admin_client.get(url)
                seen += keys(page)
                url = f"{list_url(model)}{page.context['cl'].older}" if page.context["cl"].older else ""
            assert sorted(map(str, seen)) == everything, (column, sign)
            lines = b"".join(admin_client.get(export, {"o": f"{sign}{column}"})).splitlines()
            assert len({json.loads(line)["id"] for line in lines}) == len(lines) == len(everything), (column, sign)


def test_pages_keep_their_place_with_new_rows(admin_client, rows, monkeypatch, ada, echo, said):
    monkeypatch.setattr(ReadOnlyAdmin, "list_per_page", 2)
    first = admin_client.get(list_url(Task))
    second_url = f"{list_url(Task)}{first.context['cl'].older}"
    second = keys(admin_client.get(second_url))
    accept.accept(ada.principal, echo, said())
    assert keys(admin_client.get(second_url)) == second
    assert not set(second) & set(keys(first))


def test_long_lists_estimate_their_length(admin_client, rows, monkeypatch):
    assert "5 tasks" in admin_client.get(list_url(Task)).content.decode()
    monkeypatch.setattr(EstimatingPaginator, "MOST", 3)
    if connection.vendor == "postgresql":  # where estimates come from; SQLite would plan later tests by them
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE record_task")
    tasks = Task.objects.order_by("pk")
    estimate = "about 5" if connection.vendor == "postgresql" else "3 or more"
    for longer in (tasks, tasks.filter(state="submitted")):
        assert EstimatingPaginator(longer, 2).shown_count == estimate
    assert EstimatingPaginator(tasks.filter(state="failed"), 2).shown_count == "0"


def test_lists_are_filtered_by_reason_worker_and_slug(admin_client, rows, countdown):
    failed, other = Run.objects.all()[:2]
    Run.objects.filter(pk=failed.pk).update(
        state="failed", error={"code": "timed_out"}, worker="host:7:x", agent=countdown
    )
    Task.objects.filter(pk=failed.task_id).update(state="failed")
    Run.objects.filter(pk=other.pk).update(state="failed")
    for chosen, expected in (
        ({"reason": "timed_out"}, {failed}), ({"reason": "unknown"}, {other}), ({"in_worker": "host:7:"}, {failed}),
        ({"slug": "countdown"}, {failed}), ({"slug": "nobody"}, set()),
        ({"reason": "timed_out", "slug": "echo"}, set()),
    ):  # fmt: skip
        assert set(admin_client.get(list_url(Run, **chosen)).context["cl"].result_list) == expected, chosen
    for chosen, number in (
        ({"reason": "timed_out"}, 1), ({"reason": "unknown"}, 0), ({"in_worker": "host:7:"}, 1), ({"slug": "echo"}, 5),
    ):  # fmt: skip
        page = admin_client.get(list_url(Task, **chosen))
        assert page.context["cl"].result_count == number, chosen
        assert f"{number} task" in page.text


def test_reasons_of_late_failures_are_offered(admin_client, ada, echo):
    make_run(ada, echo, ago(minutes=5), state="failed", error={"code": "out_of_luck"})
    rollup.keep_up()
    for model in (Run, Task):
        assert "?reason=out_of_luck" in admin_client.get(list_url(model)).text


def test_saved_filters_are_their_operators_own(operator_with, rows):
    mine, other = operator_with("view_task"), operator_with("view_task")
    save = reverse("admin:record_task_save_filter")
    mine.post(save, {"name": "stuck", "query": "state__exact=working&before=x~y"})
    saved = SavedFilter.objects.get()
    assert saved.query == "state__exact=working"
    assert "stuck" in mine.get(list_url(Task)).content.decode()
    assert "stuck" not in other.get(list_url(Task)).content.decode()
    delete = reverse("admin:record_task_delete_filter", args=[saved.pk])
    assert other.post(delete).status_code == 404
    assert mine.post(delete).status_code == 302
    assert not SavedFilter.objects.exists()
    for name, query in (("", "state__exact=working"), ("x" * 61, "a=b"), ("nothing", "")):
        mine.post(save, {"name": name, "query": query})
    assert not SavedFilter.objects.exists()
    assert operator_with("view_run").post(save, {"name": "a", "query": "b=c"}).status_code == 403


def exported(client, kind, **chosen) -> str:
    answer = client.get(reverse("admin:record_task_export", args=[kind]), chosen)
    assert answer.status_code == 200
    return b"".join(answer).decode()


def test_filtered_rows_are_exported_in_pages(operator_with, rows, monkeypatch):
    monkeypatch.setattr("apps.operators.lists.ROWS_AT_ONCE", 2)
    Task.objects.filter(pk=rows[0].pk).update(state="working")
    operator = operator_with("view_task", "export_rows")
    lines = [json.loads(line) for line in exported(operator, "jsonl").splitlines()]
    assert {line["id"] for line in lines} == {str(task.pk) for task in rows}
    assert {line["owner__email"] for line in lines} == {"ada@example.org"}
    [row] = csv.DictReader(io.StringIO(exported(operator, "csv", state__exact="working")))
    assert (row["id"], row["agent__slug"]) == (str(rows[0].pk), "echo")
    assert LogEntry.objects.filter(user__isnull=False, change_message__contains="xported").count() == 2
    notes = [entry.details["note"] for entry in AuditEntry.objects.filter(object_type="record.task")]
    assert ["jsonl" in notes[0], "csv: state__exact=working" in notes[1], len(notes)] == [True, True, 2]


def test_exports_need_a_permission_and_hide_secrets(operator_with, admin_client, rows):
    address = reverse("admin:record_task_export", args=["csv"])
    for permissions in (["view_task"], ["export_rows"]):
        operator = operator_with(*permissions)
        assert operator.get(address).status_code == 403
        assert address not in operator.get(list_url(Task)).content.decode()
    assert admin_client.get(reverse("admin:record_task_export", args=["xml"])).status_code == 404
    PushConfig.objects.update(token="canary-token", credentials="canary-secret")
    answer = admin_client.get(reverse("admin:a2a_pushconfig_export", args=["jsonl"]))
    assert "canary" not in b"".join(answer).decode()
