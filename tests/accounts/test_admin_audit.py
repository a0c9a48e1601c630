"""Operators read, filter and export the audit; nobody changes it there."""

import csv
import io
import json

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from apps.accounts.audit import Subject, record
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import User

pytestmark = pytest.mark.django_db(transaction=True)

LIST = reverse("admin:accounts_auditentry_changelist")


def export(format: str) -> str:
    return reverse("admin:accounts_auditentry_export", args=[format])


@pytest.fixture
def told(ada, bob) -> list[AuditEntry]:
    return [
        record(AuditAction.KEY_CREATED, actor=ada, object=Subject("accounts.apikey", "the-71", "parley_a_…")),
        record(AuditAction.KEY_REVOKED, actor=bob, object=Subject("accounts.apikey", "the-71", "parley_a_…")),
        record(AuditAction.AGENT_REGISTERED, actor=ada, object=Subject("agents.agent", "the-72", "=HYPERLINK(1)")),
        record(AuditAction.SESSION_DELETED, actor="retention", object=Subject("record.context", "the-73", "the-73")),
    ]


def exported(client, format: str, filters: dict[str, str] | None = None) -> str:
    async def gathered(response) -> bytes:
        return b"".join([piece async for piece in response.streaming_content])

    return async_to_sync(gathered)(client.get(export(format), filters or {})).decode()


def listed(client, **filters) -> list[int]:
    return [entry.number for entry in client.get(LIST, filters).context["cl"].result_list]


def test_filters_and_search_find_entries_the_newest_first(admin_client, told, ada, subtests):
    first, second, third, fourth = (entry.number for entry in told)
    today = timezone.now()
    of_today = {"at_from_0": f"{today:%Y-%m-%d}", "at_from_1": "00:00:00"}
    cases = [
        ({"group": "api_key"}, [second, first]),
        ({"actor": ada.email}, [third, first]),
        ({"object": "the-71"}, [second, first]),
        ({"actor_kind__exact": "system"}, [fourth]),
        ({"q": "HYPER"}, [third]),
        ({"object": "the-73", **of_today}, [fourth]),
        ({"at_to_0": "2020-01-01", "at_to_1": "00:00:00"}, []),
    ]
    for filters, numbers in cases:
        with subtests.test(**filters):
            assert listed(admin_client, **filters) == numbers


def test_audit_entries_are_read_only_in_admin(admin_client, told):
    page = reverse("admin:accounts_auditentry_change", args=[told[0].number])
    assert told[0].hash in admin_client.get(page).text
    assert admin_client.post(page, {"actor_name": "x"}).status_code == 403
    assert admin_client.post(page.replace("change", "delete"), {"post": "yes"}).status_code == 403


def test_exports_follow_the_filters_and_are_recorded(admin_client, admin_user, told):
    rows = list(csv.DictReader(io.StringIO(exported(admin_client, "csv", {"object": "the-71"}))))
    assert [row["action"] for row in rows] == ["api_key.revoked", "api_key.created"]
    lines = exported(admin_client, "jsonl", {"group": "agent"}).splitlines()
    assert [json.loads(line)["hash"] for line in lines] == [told[2].hash]
    noted = AuditEntry.objects.filter(action=AuditAction.AUDIT_EXPORTED).order_by("number")
    assert [one.details["filters"] for one in noted] == ["object=the-71", "group=agent"]
    assert {one.actor_key for one in noted} == {str(admin_user.pk)}


def test_no_cell_of_the_csv_is_a_formula(admin_client, told):
    for text in ("+1", "-1", "@x", "\t=1"):
        record(AuditAction.AGENT_CHANGED, object=Subject("agents.agent", "9", text))
    text = exported(admin_client, "csv")
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert "'=HYPERLINK(1)" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_reading_and_exporting_are_two_permissions(client, told):
    operator = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    client.force_login(operator)
    assert client.get(LIST).status_code == 403
    operator.user_permissions.set(Permission.objects.filter(codename="view_auditentry"))
    page = client.get(LIST)
    assert page.status_code == 200
    assert export("csv") not in page.text
    assert client.get(export("csv")).status_code == 403
    operator.user_permissions.add(Permission.objects.get(codename="export_auditentry"))
    assert export("csv") in client.get(LIST).text
    assert client.get(export("xlsx")).status_code == 404
