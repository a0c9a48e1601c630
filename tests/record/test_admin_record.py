"""Operators read the record in admin: linked, bounded and cheap, without editing."""

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from apps.accounts.models import User
from apps.conversations.uploads.models import Upload
from apps.engine import accept
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact, Blob, Context, Event, Message, Task

pytestmark = pytest.mark.django_db

RECORD = [Context, Task, Run, Event, Message, Artifact, Accepted, Blob, Upload]


def address(model, page: str = "changelist", *args) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def page(client, model, row) -> str:
    answer = client.get(address(model, "change", row.pk))
    assert answer.status_code == 200
    return answer.content.decode()


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


def test_record_pages_link_to_each_other(admin_client, opened, ada):
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
    assert f'href="{address(Event)}?context__id__exact={task.context_id}">1</a>' in shown


def test_words_of_people_are_never_markup(admin_client, opened):
    task = opened("<script>alert(1)</script>")
    for row in (task, task.context, task.events.get(), task.messages.get()):
        shown = page(admin_client, type(row), row)
        assert "<script>alert(1)" not in shown
        assert "&lt;script&gt;alert(1)" in shown
