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
from apps.conversations.sessions import commands, deletion
from apps.conversations.uploads.models import Upload
from apps.engine import accept
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact, Blob, Context, Event, Message, Task
from parley.faces.admin import ReadOnlyAdmin
from parley.faces.cells import page_url

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
        made = {"artifact_id": "a", "state": "delivered", "name": "report.pdf", "first_event": 1, "parts": []}
        Artifact.objects.create(task=task, created_at=task.created_at, **made)
        Blob.objects.create(workspace=ada.personal_workspace, sha256=f"{Blob.objects.count():064x}", size=300_000)
        owned = {"owner": ada, "workspace": ada.personal_workspace}
        Upload.objects.create(**owned, filename="a.txt", size=3, expires_at=task.created_at)
        return task

    return build


def queries_of(client, *addresses: str) -> list[int]:
    counted = []
    for url in addresses:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(url).status_code == 200
        counted.append(len(captured))
    return counted


def test_list_queries_do_not_grow(admin_client, opened, monkeypatch):
    lists = [address(model) for model in RECORD]
    opened()
    queries_of(admin_client, *lists)  # fills caches
    of_one = queries_of(admin_client, *lists)
    for _ in range(9):
        opened()
    assert [found(admin_client, model) for model in RECORD] == [10] * len(RECORD)
    assert queries_of(admin_client, *lists) == of_one
    assert max(of_one) <= 12
    monkeypatch.setattr(ReadOnlyAdmin, "list_per_page", 1)
    for model in RECORD:
        with CaptureQueriesContext(connection) as captured:
            admin_client.get(address(model))
        rows = [query["sql"] for query in captured if f'FROM "{model._meta.db_table}"' in query["sql"]]
        assert all("LIMIT" in sql and "DISTINCT" not in sql for sql in rows), rows


def test_words_are_searched_in_the_newest_rows(admin_client, opened, monkeypatch):
    monkeypatch.setattr(ReadOnlyAdmin, "NEWEST", 2)
    old = opened("old plate")
    new = [opened("new plate") for _ in range(2)]
    for age, task in enumerate((*reversed(new), old)):
        at = timezone.now() - datetime.timedelta(minutes=age)
        Task.objects.filter(pk=task.pk).update(status_at=at)
        Context.objects.filter(pk=task.context_id).update(updated_at=at)
    for model in (Task, Context):
        assert (found(admin_client, model, q="plate"), found(admin_client, model)) == (2, 3)
    assert found(admin_client, Context, q="ada@example") == 2
    for model in (Context, Task, Run, Event, Message, Artifact):
        row = {Context: old.context_id, Task: old.pk}.get(model) or model.objects.filter(task=old).get().pk
        key = row if model in (Context, Task) else old.pk
        assert found(admin_client, model, q=f" {key} ") == 1, "an id is searched in all"
    assert found(admin_client, Event, type__exact="user_message", task__id__exact=old.pk) == 1
    assert admin_client.get(address(Event), {"task__id__exact": "nonsense"}).status_code == 302


def test_nobody_edits_the_record(admin_client, opened, ada):
    opened()
    for model in RECORD:
        before = model.objects.values().get()
        row = model.objects.get()
        assert admin_client.get(address(model, "add")).status_code == 403
        assert admin_client.post(address(model, "add"), {}).status_code == 403
        assert admin_client.post(address(model, "change", row.pk), {"state": "failed"}).status_code == 403
        assert admin_client.post(address(model, "delete", row.pk), {"post": "yes"}).status_code == 403
        assert model.objects.values().get() == before
    assert admin_client.post(address(User, "delete", ada.pk), {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=ada.pk).exists(), "who has a record is switched off"


def test_record_is_for_operators_who_may_view_it(client, opened, ada):
    opened()
    client.force_login(ada)
    for model in RECORD:
        assert client.get(address(model)).status_code == 302  # to the sign-in: members are no operators
    User.objects.filter(pk=ada.pk).update(is_staff=True)
    for model in RECORD:
        assert client.get(address(model)).status_code == 403
        ada.user_permissions.add(Permission.objects.get(codename=f"view_{model._meta.model_name}"))
        assert client.get(address(model)).status_code == 200


def test_record_pages_link_to_each_other(admin_client, opened, ada, echo):
    task = opened()
    shown = page(admin_client, Task, task)
    for link in (
        address(Context, "change", task.context_id),
        address(User, "change", ada.pk),
        *(address(type(row), "change", row.pk) for rows in (task.runs, task.artifacts) for row in rows.all()),
        *(address(type(row), "change", row.pk) for rows in (task.messages, task.events) for row in rows.all()),
        f"{address(Event)}?task__id__exact={task.pk}",
    ):
        assert f'href="{link}"' in shown
        assert admin_client.get(link).status_code == 200
    shown = page(admin_client, Context, task.context)
    for model in (Task, Message, Event):
        assert f'href="{address(model)}?context__id__exact={task.context_id}">1</a>' in shown
    for row in (Event.objects.get(), Artifact.objects.get(), Accepted.objects.get(), Run.objects.get()):
        shown = page(admin_client, type(row), row).split('id="content-main"')[1]
        links = set(re.findall(r'class="console-link" href="([^"]+)"', shown))
        assert links
        assert {admin_client.get(link.replace("&amp;", "&")).status_code for link in links} == {200}
    called = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "for the parent"}]}
    receipt = accept.accept(ada.principal, echo, called, sender=f"task:{task.pk}", parent=task.pk)
    child = Task.objects.select_related("context").get(pk=receipt.task)
    assert str(task.pk) in page(admin_client, Task, child)
    assert f"parent__id__exact={task.pk}" in page(admin_client, Task, task)
    assert str(task.pk) in page(admin_client, Context, child.context)


def test_words_of_people_are_never_markup(admin_client, opened):
    task = opened("<script>alert(1)</script>")
    for row in (task, task.context, task.events.get(), task.messages.get()):
        shown = page(admin_client, type(row), row)
        assert "<script>alert(1)" not in shown
        assert "&lt;script&gt;alert(1)" in shown


def test_deleted_conversation_shows_nothing(admin_client, ada, echo, opened):
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
