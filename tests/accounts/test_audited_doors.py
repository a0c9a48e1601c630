"""Which acts leave an entry in the audit, by whom and from where."""

import csv
import io
import json

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin import site
from django.contrib.auth.models import Group, Permission
from django.urls import reverse
from django.utils import timezone

from apps.accounts.audit import Subject, record
from apps.accounts.audit_models import ActorKind, AuditAction, AuditEntry
from apps.accounts.keys import make_key
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import READ
from apps.accounts.refusals import PAIRS_OF_ADDRESS, Refusals
from apps.conversations.public_links.models import Share
from apps.installation.jobs import note_settings
from apps.optional.evaluations.models import Example
from parley.faces.admin import LoggedAdmin
from tests.clients import telling

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse"


def entries(*actions):
    return list(AuditEntry.objects.filter(action__in=actions or AuditAction.values).order_by("number"))


def test_signing_in_and_out_is_recorded(client, ada):
    client.post("/sign-in", {"username": ada.email, "password": PASSWORD}, headers={"User-Agent": "Netscape"})
    client.post("/sign-out")
    signed_in, signed_out = entries(AuditAction.SIGNED_IN, AuditAction.SIGNED_OUT)
    assert (signed_in.actor_kind, signed_in.actor_key, signed_in.actor_name) == ("user", str(ada.pk), ada.email)
    assert (signed_in.address, signed_in.user_agent) == ("127.0.0.1", "Netscape")
    assert signed_out.action == AuditAction.SIGNED_OUT


def test_refused_sign_in_names_the_account_tried(client, ada):
    client.post("/sign-in", {"username": "ADA@example.org", "password": "wrong"})
    door = client.get("/admin/", follow=True).redirect_chain[-1][0]
    client.post(door, {"username": "admin@example.org", "password": "wrong"})
    refused = entries(AuditAction.SIGN_IN_REFUSED)
    assert [one.object_label for one in refused] == ["ada@example.org", "admin@example.org"]
    assert {one.actor_kind for one in refused} == {ActorKind.ANONYMOUS}
    assert not [one for one in entries() if "wrong" in str(one.__dict__)]


def test_flood_of_refusals_is_counted_not_stored(rf):
    now, waiting = 0.0, []
    refusals = Refusals(lambda seconds, function: waiting.append((seconds, function)), lambda: now)
    for _ in range(500):
        refusals.count(AuditAction.SIGN_IN_REFUSED, "ada@example.org", rf.get("/"))
    for number in range(500):
        refusals.count(AuditAction.SIGN_IN_REFUSED, f"guess-{number}@example.org", rf.get("/"))
    assert len(entries()) == PAIRS_OF_ADDRESS
    for seconds, write in waiting:
        now += seconds
        write()
    counted = {one.object_label: one.details["repeated"] for one in entries() if "repeated" in one.details}
    assert counted == {"ada@example.org": 499, "other accounts": 500 - (PAIRS_OF_ADDRESS - 1)}
    refusals.count(AuditAction.SIGN_IN_REFUSED, "ada@example.org", rf.get("/"))
    assert "repeated" not in entries()[-1].details


def test_refused_key_is_recorded_without_its_secret(client, ada, echo):
    key, text = make_key(ada.principal, ada, "lost", [READ])
    ApiKey.objects.update(revoked_at=key.created_at)
    bearer = {"headers": {"Authorization": f"Bearer {text}"}}
    assert client.get("/api/v1/agents", **bearer).status_code == 401
    [refused] = entries(AuditAction.KEY_REFUSED)
    assert refused.object_label == str(key)
    assert text.split("_", 2)[2] not in str(refused.__dict__)


def test_what_a_program_does_names_its_key(client, ada, echo, said):
    session = telling.finished(ada, echo, {}).context
    _, text = ApiKey.issue(ada, "robot")
    bearer = {"headers": {"Authorization": f"Bearer {text}"}}
    made = client.post(f"/api/v1/sessions/{session}/shares", {"expiresInDays": 1}, "application/json", **bearer)
    assert made.status_code == 201
    client.delete(f"/api/v1/sessions/{session}/shares/{made.json()['id']}", **bearer)
    client.delete(f"/api/v1/sessions/{session}", **bearer)
    done = entries(AuditAction.SHARE_CREATED, AuditAction.SHARE_REVOKED, AuditAction.SESSION_DELETED)
    assert [one.action for one in done] == ["share.created", "share.revoked", "session.deleted"]
    for one in done:
        assert (one.actor_kind, one.actor_key, one.object_key) == ("key", str(ada.pk), str(session))
        assert str(ApiKey.objects.get()) in one.actor_name
        assert (one.address, one.workspace) == ("127.0.0.1", ada.personal_workspace.pk)
    assert not Share.objects.exists()


def test_downloads_of_whole_sessions_are_recorded(client, ada, echo):
    session = telling.finished(ada, echo, {}).context
    client.force_login(ada)
    assert client.get(f"/sessions/{session}/as.md").status_code == 200
    client.post("/settings/data/export")
    exported = entries(AuditAction.TRANSCRIPT_EXPORTED, AuditAction.DATA_EXPORTED)
    assert [(one.actor_name, one.address) for one in exported] == [(ada.email, "127.0.0.1")] * 2


def test_changes_in_admin_name_fields_without_values(admin_client, admin_user, ada):
    group = Group.objects.create(name="night shift")
    page = f"/admin/accounts/user/{ada.pk}/change/"
    values = {"email": ada.email, "name": "Renamed-To-This", "is_active": "on", "groups": [group.pk]}
    assert admin_client.post(page, values).status_code == 302
    [changed] = entries(AuditAction.USER_CHANGED)
    assert (changed.actor_key, changed.object_key) == (str(admin_user.pk), str(ada.pk))
    assert {"Name", "Groups"} <= set(changed.details["fields"])
    assert changed.details["given"] == ["group night shift"]
    assert "Renamed-To-This" not in str(changed.__dict__)

    admin_client.post(
        "/admin/auth/group/", {"action": "delete_selected", "_selected_action": [group.pk], "post": "yes"}
    )
    [deleted] = entries(AuditAction.GROUP_DELETED)
    assert deleted.object_label == "night shift"


def test_changed_allowed_addresses_are_recorded(settings):
    for allowed in ([], ["10.0.0.0/8"], ["10.0.0.0/8"], []):
        settings.OUTBOUND_ALLOW = allowed
        note_settings()
    assert [one.details["allowed"] for one in entries(AuditAction.ALLOWANCE_SETTING)] == [["10.0.0.0/8"], []]


def test_every_class_of_admin_pages_records():
    assert [str(one) for one in site._registry.values() if not isinstance(one, LoggedAdmin)] == []


# Operators read, filter and export the audit; nobody changes it there.


LIST = reverse("admin:accounts_auditentry_changelist")


def export(format):
    return reverse("admin:accounts_auditentry_export", args=[format])


@pytest.fixture
def told(ada, bob):
    return [
        record(AuditAction.KEY_CREATED, actor=ada, object=Subject("accounts.apikey", "the-71", "parley_a_…")),
        record(AuditAction.KEY_REVOKED, actor=bob, object=Subject("accounts.apikey", "the-71", "parley_a_…")),
        record(AuditAction.AGENT_REGISTERED, actor=ada, object=Subject("agents.agent", "the-72", "=HYPERLINK(1)")),
        record(AuditAction.SESSION_DELETED, actor="retention", object=Subject("record.context", "the-73", "the-73")),
    ]


def exported(client, format, filters=None):
    async def gathered(response):
        return b"".join([piece async for piece in response.streaming_content])

    return async_to_sync(gathered)(client.get(export(format), filters or {})).decode()


def listed(client, **filters):
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


def test_deleted_example_leaves_no_text_in_its_entry(admin_client, echo):
    example = Example.objects.create(agent=echo, text="my diagnosis is private")
    page = f"/admin/evaluations/example/{example.pk}/delete/"
    assert admin_client.post(page, {"post": "yes"}).status_code == 302
    [deleted] = entries(AuditAction.ADMIN_DELETED)
    assert (deleted.object_key, deleted.object_label) == (str(example.pk), str(example.pk))
    assert "diagnosis" not in str(deleted.__dict__)
