"""Erasing a person: nothing names them or says where they were, and what stays is said."""

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.test import Client
from django.urls import reverse

from agentkit import Completed
from apps.accounts import audit, workspaces
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import ApiKey, User
from apps.accounts.people import erasure, invitations, links
from apps.accounts.permissions import Role
from apps.conversations.search import indexing
from apps.conversations.sessions import commands
from apps.conversations.sessions.deletion import delete_sessions_of_deleted_accounts, sessions_without_owner
from apps.engine import accept
from apps.operators.models import SavedFilter
from apps.record.models import Context, Message
from tests.canaries import places
from tests.emptying import unguarded_audit
from tests.isolation import world
from tests.isolation.world import Place
from tests.members import member
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("columns of any table may hold it")]

MARK = "xylophagous"  # in all that they wrote
NAME, EMAIL, FORMER = "Quokka Quisling", "quokka@example.org", "quollette@example.org"
ADDRESS, BROWSER = "203.0.113.77", "Numbat/7.7"
WHO = ("quokka", "quisling", "quollette", ADDRESS, "numbat")
FROM = {"REMOTE_ADDR": ADDRESS, "HTTP_USER_AGENT": BROWSER}
WITH_AGENTS = ("agents_", "evaluations_example.", "accounts_auditentry.object_label")
"""Agents stay, with what was written for them."""


@pytest.fixture(autouse=True)
def _no_grace(settings):
    settings.UNUSED_FILE_SECONDS = 0


@pytest.fixture
def browser():
    return Client(**FROM)


@pytest.fixture
def person(echo, browser):
    """Somebody with one of everything, who came by each door."""
    made = User.objects.create_user(FORMER, world.PASSWORD, name=NAME)
    links.change_address(made, EMAIL)
    for password in ("wrong", world.PASSWORD):
        browser.post("/sign-in", {"username": EMAIL, "password": password})
    assert browser.get("/inbox").status_code == 200
    world.fill(Place(MARK, made.personal_workspace, dict.fromkeys(Role, made)), echo)
    for context in Context.objects.filter(owner=made, deleted_at=None):
        indexing.index_completely(context)
    _, key = ApiKey.issue(made, f"{NAME}'s laptop")
    assert browser.get("/api/v1/agents", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    workspaces.create_workspace(made.principal, f"{NAME}'s team")
    return User.objects.get(pk=made.pk)


@pytest.fixture
def noted_by_others(person, bob, admin_user):
    """What others wrote of them, or did for them."""
    invitations.invite(bob, EMAIL)
    SavedFilter.objects.create(operator=admin_user, model="accounts.user", name="one", query="q=quokka%40example.org")
    admin = Client()
    admin.force_login(admin_user)
    page = reverse("admin:accounts_user_change", args=[person.pk])
    assert admin.post(page, {"email": EMAIL, "name": NAME, "is_active": "on", "is_staff": "on"}).status_code == 302
    assert User.objects.get(pk=person.pk).is_staff
    return admin


def test_no_table_or_file_names_erased_people(person, browser, noted_by_others):
    before = {place.partition(".")[0] for who in WHO for place in places(who)}
    assert {"accounts_user", "accounts_auditentry", "accounts_apikey", "usersessions_usersession"} < before
    answer = browser.post("/settings/data/delete", {"email": EMAIL, "current_password": world.PASSWORD})
    assert answer.status_code == 200
    while sessions_without_owner().exists():  # what others write just now is left to the next run
        delete_sessions_of_deleted_accounts()
    assert {place for who in WHO for place in places(who)} <= {"cache.cache_key"}, "counts of sign-ins expire"
    assert {place for place in places(MARK) if not place.startswith(WITH_AGENTS)} <= {"payments_budgetpayment.reason"}
    labels = AuditEntry.objects.filter(object_label__icontains=MARK).values_list("object_type", flat=True)
    assert set(labels) == {"agents.agent"}
    assert audit.verify().problem == ""


@pytest.fixture
def shared(ada, bob, echo, said):
    """Ada's session that Bob reads, and one of Bob's in which she wrote."""
    for owner, guest in ((ada, bob), (bob, ada)):
        sent = accept.accept(owner.principal, echo, said(f"of {owner.name}"))
        end(begin(sent.run), Completed("Yes."))
        talk = commands.share_session(owner.principal, sent.context, Context.Sharing.WORKSPACE)
        reply = accept.accept(member(guest, owner), echo, said(f"by {guest.name}", contextId=str(talk.pk)))
        end(begin(reply.run), Completed("Yes."))


def test_command_says_what_stays_and_why(ada, bob, shared, capsys):
    call_command("erase_user", "Ada@example.org", "--dry-run")
    assert "is not erased" in capsys.readouterr().out
    assert User.objects.get(pk=ada.pk).erased_at is None
    call_command("erase_user", "Ada@example.org")
    said = capsys.readouterr().out
    for number, what in (
        (1, "Shared sessions"),
        (1, "Messages in sessions of others"),
        (None, "Backups, exports and logs"),
    ):
        assert f"- {what}" + (f", {number}: " if number else ": ") in said
    assert set(Message.objects.filter(author=ada.pk).values_list("context__owner", flat=True)) == {ada.pk, bob.pk}
    entry = AuditEntry.objects.get(action=AuditAction.USER_DELETED)
    assert (entry.actor_kind, entry.actor_key, entry.object_key) == ("command", "erase_user", str(ada.pk))
    assert entry.details["stays"]["Shared sessions"] == 1
    for again in (str(ada.pk), "nobody@example.org", "ada@example.org"):
        with pytest.raises(CommandError):
            call_command("erase_user", again)
    call_command("erase_user", str(ada.pk), "--dry-run")
    assert "is erased" in capsys.readouterr().out


def test_operators_erase_neither_superusers_nor_themselves(ada, bob, admin_user):
    User.objects.filter(pk=bob.pk).update(is_staff=True)
    bob.user_permissions.set(Permission.objects.filter(codename__in=("view_user", "delete_user")))
    operator = Client()
    operator.force_login(bob)
    for person in (bob, admin_user, ada):
        operator.post(reverse("admin:accounts_user_erase", args=[person.pk]), {"_form_submitted": "True"})
    gone = User.objects.filter(erased_at__isnull=False)
    assert list(gone.values_list("email", flat=True)) == [f"deleted-{ada.pk}@deleted.invalid"]
    entry = AuditEntry.objects.get(action=AuditAction.USER_DELETED)
    assert (entry.actor_key, entry.address) == (str(bob.pk), "127.0.0.1"), "an operator is not forgotten"


def test_audit_of_others_is_left_as_it_was(ada, bob, rf):
    with audit.during(rf.get("/", **FROM)):
        audit.record(AuditAction.SIGNED_IN, actor=ada, object=ada)
        audit.record(
            AuditAction.SIGNED_IN,
            actor=bob,
            object=bob,
            details={"seen": f"b{ada.email}, {ada.email}.uk and {ada.email}."},
        )
        audit.record(AuditAction.SIGNED_IN, actor=bob, object=bob)
    first, second, third = AuditEntry.objects.order_by("number")[:3]
    erasure.erase(ada)
    erased, renamed, same = AuditEntry.objects.order_by("number")[:3]
    alias = f"deleted-{ada.pk}@deleted.invalid"
    assert (erased.actor_key, erased.actor_name, erased.object_label) == (str(ada.pk), alias, alias)
    assert (erased.address, erased.user_agent, erased.at) == ("", "", first.at)
    assert (renamed.address, renamed.details) == (ADDRESS, {"seen": f"b{ada.email}, {ada.email}.uk and {alias}."})
    assert (same.hash, same.erasures, third.actor_name) == (third.hash, None, bob.email)
    assert (audit.verify(second.hash).problem, audit.verify(third.hash).problem) == ("", "")


def test_former_address_of_somebody_else_stays_theirs(ada, bob):
    links.change_address(ada, "new@example.org")
    eve = User.objects.create_user("ada@example.org", name="Eve")
    EmailAddress.objects.create(user=bob, email="new@example.org")  # not proven
    for person in (ada, eve):
        audit.record(AuditAction.SIGNED_IN, actor=person, object=person, details={"by": person.email})
    erasure.erase(ada)
    [hers] = AuditEntry.objects.filter(action=AuditAction.SIGNED_IN, actor_key=str(ada.pk))
    assert hers.details == {"by": f"deleted-{ada.pk}@deleted.invalid"}
    assert AuditEntry.objects.filter(actor_name=eve.email, details={"by": eve.email}).exists()


@pytest.mark.parametrize(
    ("tampered", "broken_at"),
    [
        pytest.param({"number": 1, "action": "export.data"}, 1, id="erased entry changed"),
        pytest.param({"number": 1, "erasures": None}, 1, id="erasure denied"),
        pytest.param({"number": 3, "erasures": [["0" * 32, "0" * 64]]}, 3, id="another erased"),
        pytest.param({"number": 3, "erasures": {"of": 1}}, 3, id="nonsense"),
    ],
)
def test_changes_to_erased_entries_are_found(ada, bob, tampered, broken_at):
    for person in (ada, bob, bob):
        audit.record(AuditAction.SIGNED_IN, actor=person, object=person)
    erasure.erase(ada)
    number = tampered.pop("number")
    with transaction.atomic(), unguarded_audit():
        QuerySet(AuditEntry).filter(number=number).update(**tampered)
    assert audit.verify().broken_at == broken_at


def test_entry_about_two_erased_people_stays_whole(ada, bob):
    audit.record(AuditAction.MEMBER_ADDED, actor=ada, object=bob, details={"by": ada.email, "who": bob.email})
    for person in (ada, bob):
        erasure.erase(person)
        assert audit.verify().problem == ""
    entry = AuditEntry.objects.get(number=1)
    assert entry.details == {"by": f"deleted-{ada.pk}@deleted.invalid", "who": f"deleted-{bob.pk}@deleted.invalid"}
    assert len(entry.erasures) == 2


def test_database_lets_entries_be_erased_alone(ada):
    entry = audit.record(AuditAction.SIGNED_IN, actor=ada, object=ada)
    seal = [["0" * 32, "0" * 64]]
    for change in (
        {"action": "export.data"},
        {"address": "192.0.2.1"},
        {"salt": "0"},
        {"actor_key": "0"},
        {"number": 9},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            QuerySet(AuditEntry).filter(number=entry.number).update(erasures=seal, **{"salt": "", **change})
