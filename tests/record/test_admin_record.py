"""Operators read the record in admin: linked, bounded and cheap, without editing."""

import datetime
import re

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.engine import accept
from apps.features.sessions import commands, deletion
from apps.features.uploads.models import Upload
from apps.record import ledger
from apps.record.events import EventType
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact, Blob, Context, Event, Message, Task
from console.admin import ReadOnlyAdmin
from console.cells import page_url

pytestmark = pytest.mark.django_db

RECORD = [Context, Task, Run, Event, Message, Artifact, Accepted, Blob, Upload]


def address(model, page: str = "changelist", *args) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def page(client, model, row) -> str:
    answer = client.get(address(model, "change", row.pk))
    assert answer.status_code == 200
    return answer.content.decode()


def found(client, model, **narrowed) -> int:
    return client.get(address(model), narrowed).context["cl"].result_count


@pytest.fixture
def opened(ada, echo, said):
    def build(text: str = "hello") -> Task:
        task = Task.objects.get(pk=accept.accept(ada.principal, echo, said(text)).task)
        Artifact.objects.create(
            task=task, artifact_id="a", state="delivered", name="report.pdf", first_event=1, created_at=task.created_at,
            parts=[{"raw": "AAAA", "filename": "report.pdf"}],
        )  # fmt: skip
        Blob.objects.create(workspace=ada.personal_workspace, sha256=f"{Blob.objects.count():064x}", size=300_000)
        Upload.objects.create(
            owner=ada, workspace=ada.personal_workspace, filename="a.txt", size=3, expires_at=task.created_at
        )
        return task

    return build


def queries_of(client, *addresses: str) -> list[int]:
    counted = []
    for url in addresses:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(url).status_code == 200
        counted.append(len(captured))
    return counted


def test_a_list_of_many_rows_costs_as_many_queries_as_a_list_of_one(admin_client, opened):
    lists = [address(model) for model in RECORD]
    opened()
    queries_of(admin_client, *lists)  # fills caches
    of_one = queries_of(admin_client, *lists)
    for _ in range(9):
        opened()
    assert [found(admin_client, model) for model in RECORD] == [10] * len(RECORD)
    assert queries_of(admin_client, *lists) == of_one
    assert max(of_one) <= 12


def test_lists_count_at_most_so_many_rows_and_never_read_the_whole_table(admin_client, opened, monkeypatch):
    monkeypatch.setattr(ReadOnlyAdmin, "list_per_page", 1)
    opened()
    opened()
    for model in RECORD:
        with CaptureQueriesContext(connection) as captured:
            admin_client.get(address(model))
        rows = [query["sql"] for query in captured if f'FROM "{model._meta.db_table}"' in query["sql"]]
        assert rows
        for sql in rows:
            assert "LIMIT" in sql, sql
            assert "DISTINCT" not in sql, sql


def test_words_are_searched_in_the_newest_rows_and_an_id_in_all(admin_client, opened, monkeypatch):
    monkeypatch.setattr(ReadOnlyAdmin, "NEWEST", 2)
    old = opened("old plate")
    new = [opened("new plate") for _ in range(2)]
    for age, task in enumerate((*reversed(new), old)):
        at = timezone.now() - datetime.timedelta(minutes=age)
        Task.objects.filter(pk=task.pk).update(status_at=at)
        Context.objects.filter(pk=task.context_id).update(updated_at=at)
    for model in (Task, Context):
        assert found(admin_client, model, q="plate") == 2
        assert found(admin_client, model) == 3
    assert found(admin_client, Task, q=old.pk) == 1
    assert found(admin_client, Task, q=old.context_id, owner__id__exact=old.owner_id) == 1
    assert found(admin_client, Event, type__exact="user_message") == 2
    assert found(admin_client, Event, type__exact="user_message", task__id__exact=old.pk) == 1


def test_a_filter_of_unfinished_or_failed_tasks_reads_an_index(admin_client, opened):
    task = opened()
    for model, states in ((Task, ("working", "auth-required", "failed")), (Run, ("running", "failed"))):
        for state in states:
            model.objects.update(state=state)
            assert found(admin_client, model, state__exact=state) == 1
            with CaptureQueriesContext(connection) as captured:
                admin_client.get(address(model), {"state__exact": state})
            counts = [query["sql"] for query in captured if "COUNT(*)" in query["sql"] and "state" in query["sql"]]
            with connection.cursor() as cursor:
                if connection.vendor == "sqlite":
                    cursor.execute(f"EXPLAIN QUERY PLAN {counts[0]}")
                    assert re.search("INDEX (unfinished|faulty)_", str(cursor.fetchall()))
    assert task.pk


def test_nobody_edits_the_record_not_even_a_superuser(admin_client, opened):
    opened()
    for model in RECORD:
        before = model.objects.values().get()
        row = model.objects.get()
        assert admin_client.get(address(model, "add")).status_code == 403
        assert admin_client.post(address(model, "add"), {}).status_code == 403
        assert admin_client.post(address(model, "change", row.pk), {"state": "failed"}).status_code == 403
        assert admin_client.post(address(model, "delete", row.pk), {"post": "yes"}).status_code == 403
        assert 'name="_save"' not in page(admin_client, model, row)
        assert model.objects.values().get() == before


def test_the_record_is_for_operators_who_may_view_it(client, opened, ada):
    opened()
    client.force_login(ada)
    for model in RECORD:
        assert client.get(address(model)).status_code == 302  # to the sign-in: members are no operators
    User.objects.filter(pk=ada.pk).update(is_staff=True)
    for model in RECORD:
        assert client.get(address(model)).status_code == 403
        ada.user_permissions.add(Permission.objects.get(codename=f"view_{model._meta.model_name}"))
        assert client.get(address(model)).status_code == 200


def test_a_task_leads_to_all_that_belongs_to_it_and_its_context_counts_it(admin_client, opened, ada):
    task = opened()
    shown = page(admin_client, Task, task)
    for link in (
        address(Context, "change", task.context_id),
        address(User, "change", ada.pk),
        address(Run, "change", task.runs.get().pk),
        address(Artifact, "change", task.artifacts.get().pk),
        address(Message, "change", task.messages.get().pk),
        address(Event, "change", task.events.get().pk),
        f"{address(Event)}?task__id__exact={task.pk}",
    ):
        assert f'href="{link}"' in shown
        assert admin_client.get(link).status_code == 200
    shown = page(admin_client, Context, task.context)
    for model in (Task, Message, Event):
        assert f'href="{address(model)}?context__id__exact={task.context_id}">1</a>' in shown


def test_the_links_of_an_event_an_artifact_and_an_accepted_message_lead_somewhere(admin_client, opened):
    opened()
    links: set[str] = set()
    for row in (Event.objects.get(), Artifact.objects.get(), Accepted.objects.get(), Run.objects.get()):
        shown = page(admin_client, type(row), row).split('id="content-main"')[1]
        here = set(re.findall(r'class="console-link" href="([^"]+)"', shown))
        assert here
        links |= here
    for link in links:
        assert admin_client.get(link.replace("&amp;", "&")).status_code == 200


def test_a_page_shows_the_newest_fifty_events_at_the_cost_of_one(admin_client, opened):
    task = opened()
    pages = [address(type(row), "change", row.pk) for row in (task, task.context, task.runs.get())]
    queries_of(admin_client, *pages)
    few = queries_of(admin_client, *pages)
    with ledger.writing(task.context_id) as log:
        log.add(EventType.AGENT_STATUS, {"state": "working"}, task=task.pk)
        for number in range(99):
            log.add(EventType.AGENT_THOUGHT, {"text": f"thought {number}"}, task=task.pk)
    assert queries_of(admin_client, *pages) == few
    assert few[0] <= 20
    shown = page(admin_client, Task, task)
    assert len(re.findall(r'<tr id="event-\d+">', shown)) == 50
    assert "thought 98" in shown
    assert "thought 48" not in shown
    assert found(admin_client, Event, task__id__exact=task.pk) == 101


def test_rows_are_found_by_their_id_and_a_context_by_its_title_and_its_owners_address(admin_client, opened):
    wanted = opened("wanted")
    opened("other")
    for model in (Context, Task, Run, Event, Message, Artifact):
        assert found(admin_client, model, q=f" {wanted.context_id if model is Context else wanted.pk} ") == 1
        assert found(admin_client, model, q="00000000-0000-4000-8000-000000000000") == 0
    assert found(admin_client, Context, q="wanted") == 1
    assert found(admin_client, Context, q="ada@example") == 2


def test_a_narrowed_list_leads_to_what_it_is_narrowed_to_and_nonsense_is_no_error_page(admin_client, opened):
    task = opened()
    opened()
    assert found(admin_client, Event, task__id__exact=task.pk) == 1
    shown = admin_client.get(address(Event), {"task__id__exact": task.pk}).content.decode()
    assert f'href="{address(Task, "change", task.pk)}"' in shown
    assert admin_client.get(address(Event), {"task__id__exact": "nonsense"}).status_code == 302
    for model in (Agent, AgentVersion, Task, Context):
        answer = admin_client.get(address(model, "change", "nonsense"), follow=True)
        assert answer.status_code == 200
        assert "doesn’t exist" in answer.content.decode()


def test_a_person_with_a_record_is_switched_off_not_deleted(admin_client, opened, ada):
    opened()
    assert admin_client.post(address(User, "delete", ada.pk), {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=ada.pk).exists()


def test_what_people_wrote_is_text_never_markup(admin_client, opened):
    task = opened("<script>alert(1)</script>")
    for row in (task, task.context, task.events.get(), task.messages.get()):
        shown = page(admin_client, type(row), row)
        assert "<script>alert(1)" not in shown
        assert "&lt;script&gt;alert(1)" in shown


def test_a_deleted_conversation_is_told_from_others_and_nothing_of_it_is_shown(admin_client, ada, echo, opened):
    kept, gone = opened("kept"), opened("gone")
    commands.give_feedback(ada.principal, echo, str(gone.pk), {"rating": 2, "feedback": "too slow"})
    deletion.delete_context(ada.principal, echo, gone.context.context_id)
    assert "(deleted)" in admin_client.get(address(Context)).content.decode()
    for is_empty, shown, hidden in ((1, kept, gone), (0, gone, kept)):
        listed = admin_client.get(address(Context), {"deleted_at__isempty": is_empty}).content.decode()
        assert page_url(Context, shown.context_id) in listed
        assert page_url(Context, hidden.context_id) not in listed
    assert page(admin_client, Context, gone.context)
    for type_, gist in (("feedback", "too slow"), ("user_message", "gone")):
        assert gist not in admin_client.get(address(Event), {"type__exact": type_}).content.decode()
    for event in Event.objects.filter(context=gone.context):
        assert page(admin_client, Event, event)


def test_a_task_and_its_children_lead_to_each_other(admin_client, ada, echo, opened):
    parent = opened()
    called = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "for the parent"}]}
    receipt = accept.accept(ada.principal, echo, called, sender=f"task:{parent.pk}", parent=parent.pk)
    child = Task.objects.select_related("context").get(pk=receipt.task)
    assert str(parent.pk) in page(admin_client, Task, child)
    assert f"parent__id__exact={parent.pk}" in page(admin_client, Task, parent)
    assert str(parent.pk) in page(admin_client, Context, child.context)
