"""Operators set limits and see what is used; people see theirs; a notice is sent at 80 %."""

import uuid

import pytest
from django.core import mail
from django.urls import reverse

from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import ApiKey
from apps.engine import accept
from apps.engine.uses import uses_of, watch
from apps.limits import current
from apps.limits.current import Holder
from apps.limits.models import Kind, Limit, Whose
from apps.operators.access.limits import holder_of
from apps.record.models import Blob

pytestmark = pytest.mark.django_db


def stored(workspace, size):
    return Blob.objects.create(workspace=workspace, sha256=uuid.uuid4().hex * 2, size=size, uses=1)


def test_an_operator_limits_a_workspace_a_key_and_an_agent_from_their_pages(admin_client, ada, echo):
    key = ApiKey.issue(ada, "test")[0]
    for row, name in ((ada.personal_workspace, "workspace"), (key, "api_key"), (echo, "agent")):
        page = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
        add = f"{reverse('admin:limits_limit_add')}?{name}={row.pk}"
        assert add in admin_client.get(page).text
        assert admin_client.get(add).status_code == 200
        assert admin_client.post(add, {name: row.pk, "requests_per_minute": 7}).status_code == 302
        limit = Limit.objects.get(**{name: row})
        assert current.snapshot().of(holder_of(limit)) == {"requests_per_minute": 7}
        assert "0 of 7" in admin_client.get(page).text


def test_changes_are_in_the_audit(admin_client, admin_user, ada):
    limit = Limit.objects.create(workspace=ada.personal_workspace, running_runs=1)
    page = reverse("admin:limits_limit_change", args=[limit.pk])
    assert admin_client.post(page, {"running_runs": 3}).status_code == 302
    entry = AuditEntry.objects.order_by("-number").first()
    assert (entry.object_type, entry.object_key) == ("limits.limit", str(limit.pk))
    assert entry.actor_key == str(admin_user.pk)


def test_a_limit_is_of_one_alone(admin_client, ada, echo):
    add = reverse("admin:limits_limit_add")
    both = {"workspace": ada.personal_workspace.pk, "agent": echo.pk, "running_runs": 1}
    for wrong in (both, {"running_runs": 1}, {"agent": echo.pk, "storage_bytes": 1}):
        assert admin_client.post(add, wrong).status_code == 200
    assert not Limit.objects.exists()
    assert admin_client.post(add, {"agent": echo.pk, "running_runs": 1}).status_code == 302
    shown = admin_client.get(reverse("admin:limits_limit_changelist"))
    assert b"0 of 1" in shown.content
    page = reverse("admin:limits_limit_change", args=[Limit.objects.get().pk])
    assert admin_client.post(page, {"running_runs": 2}).status_code == 302
    assert Limit.objects.get().running_runs == 2


def test_what_is_used_is_counted(ada, echo, said, client):
    workspace = ada.personal_workspace
    Limit.objects.create(workspace=workspace, running_runs=5, queued_runs=2, storage_bytes=1000, open_streams=3)
    for _ in range(2):
        accept.accept(ada.principal, echo, said())
    stored(workspace, 800)
    end = current.open_stream(ada.principal, "192.0.2.1")
    used = {use.kind: (use.used, use.is_near, use.is_reached) for use in uses_of(Holder(Whose.WORKSPACE, workspace.pk))}
    end()
    assert used[Kind.RUNNING] == (0, False, False)
    assert used[Kind.QUEUED] == (2, True, True)
    assert used[Kind.STORAGE] == (800, True, False)
    assert used[Kind.STREAMS] == (1, False, False)


def test_people_see_the_limits_of_their_workspace(ada, bob, client):
    Limit.objects.create(workspace=ada.personal_workspace, storage_bytes=1000)
    stored(ada.personal_workspace, 800)
    page = reverse("web:settings-usage")
    client.force_login(ada)
    assert [(use.used, use.limit) for use in client.get(page).context["uses"]] == [(800, 1000)]
    client.force_login(bob)
    assert client.get(page).context["uses"] == []


def test_a_notice_is_sent_once_when_storage_is_nearly_full(ada, settings):
    settings.ADMINS, settings.EMAIL_URL = ["op@example.org"], "smtp://localhost"
    Limit.objects.create(workspace=ada.personal_workspace, storage_bytes=1000)
    file = stored(ada.personal_workspace, 700)
    watch()
    assert not mail.outbox
    Blob.objects.update(size=800)
    watch(), watch()
    assert [one.to for one in mail.outbox] == [["op@example.org", "ada@example.org"]]
    Blob.objects.filter(pk=file.pk).update(size=100)
    watch()
    Blob.objects.filter(pk=file.pk).update(size=900)
    watch()
    assert len(mail.outbox) == 2, "it was less in between"
