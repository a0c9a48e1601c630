"""Operators manage people, workspaces and groups; nobody grants rights that they lack."""

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import ApiKey, User, Workspace

pytestmark = pytest.mark.django_db

ADD = "admin:accounts_user_add"
CHANGE = "admin:accounts_user_change"
PASSWORD = "long and never seen"


def new(**values) -> dict[str, str]:
    password = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    return {"email": "grace@example.org", **password, **values}


def errors(answer) -> dict[str, list[str]]:
    assert answer.status_code == 200
    return answer.context["adminform"].form.errors


@pytest.fixture
def operator(client) -> User:
    """A signed-in operator of people who is no superuser."""
    person = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=["add_user", "change_user", "view_user"]))
    client.force_login(person)
    return person


def test_a_new_person_can_sign_in_and_has_a_workspace(admin_client):
    answer = admin_client.post(reverse(ADD), new(email="Grace@Example.org", name="Grace"))
    person = User.objects.get(email="grace@example.org")
    assert answer.url == reverse(CHANGE, args=[person.pk])
    assert authenticate(username="GRACE@example.org", password=PASSWORD) == person
    assert person.personal_workspace.name == "Grace"
    assert admin_client.get(answer.url).status_code == 200


def test_a_form_that_cannot_be_saved_says_why(admin_client, ada):
    wrong = [
        ({"email": "grace"}, "email"),
        ({"email": "ADA@example.org"}, "email"),
        ({"password2": "other"}, "password2"),
        ({"password1": "short", "password2": "short"}, "password2"),
    ]
    before = User.objects.count()
    for values, field in wrong:
        assert errors(admin_client.post(reverse(ADD), new(**values)))[field]
    assert User.objects.count() == before


def test_a_persons_password_is_set_anew_and_they_are_switched_off_and_on(admin_client, ada):
    address = reverse("admin:auth_user_password_change", args=[ada.pk])
    assert admin_client.get(address).status_code == 200
    admin_client.post(address, {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD})
    assert authenticate(username="ada@example.org", password=PASSWORD) == ada
    values = {"email": "ada@example.org", "name": "Ada"}
    admin_client.post(reverse(CHANGE, args=[ada.pk]), values)
    assert authenticate(username="ada@example.org", password=PASSWORD) is None
    admin_client.post(reverse(CHANGE, args=[ada.pk]), {**values, "is_active": "on"})
    assert authenticate(username="ada@example.org", password=PASSWORD) == ada


def test_people_and_workspaces_are_never_deleted_here(admin_client, ada):
    for model, row in (("user", ada), ("workspace", ada.personal_workspace)):
        address = reverse(f"admin:accounts_{model}_delete", args=[row.pk])
        assert admin_client.post(address, {"post": "yes"}).status_code == 403


def test_an_operator_gives_nobody_rights(client, operator, ada):
    lab = Group.objects.create(name="Lab")
    rights = {"is_active": "on", "is_staff": "on", "is_superuser": "on", "groups": [lab.pk], "user_permissions": ["1"]}
    for person in (ada, operator):
        answer = client.post(reverse(CHANGE, args=[person.pk]), {"email": person.email, "name": "Changed", **rights})
        assert answer.status_code == 302
        person.refresh_from_db()
        assert person.name == "Changed"
        assert not person.is_superuser
        assert not person.groups.exists()
    assert not ada.is_staff
    assert not ada.user_permissions.exists()


def test_an_operator_does_not_touch_a_superuser(client, operator, admin_user):
    assert client.post(reverse(CHANGE, args=[admin_user.pk]), {"email": "mine@example.org"}).status_code == 403
    address = reverse("admin:auth_user_password_change", args=[admin_user.pk])
    assert client.post(address, {"password1": PASSWORD, "password2": PASSWORD}).status_code == 403
    admin_user.refresh_from_db()
    assert not admin_user.check_password(PASSWORD)


def test_groups_and_workspaces_can_be_made(admin_client):
    admin_client.post(reverse("admin:auth_group_add"), {"name": "Lab"})
    admin_client.post(reverse("admin:accounts_workspace_add"), {"name": "Institute"})
    assert Group.objects.filter(name="Lab").exists()
    assert Workspace.objects.filter(name="Institute", personal_of=None).exists()


def test_a_list_costs_the_same_however_long_it_is(admin_client, django_assert_max_num_queries):
    for number in range(30):
        person = User.objects.create_user(f"person{number}@example.org")
        person.api_keys.create(workspace=person.personal_workspace, name="key", prefix=f"{number:012x}")
        Group.objects.create(name=f"Group {number}")
    for model in ("accounts_user", "accounts_workspace", "accounts_apikey", "auth_group"):
        with django_assert_max_num_queries(9):
            assert admin_client.get(reverse(f"admin:{model}_changelist")).status_code == 200


def test_disabling_people_ends_their_access_but_not_the_operators_own(admin_client, admin_user, ada):
    ApiKey.issue(ada, "laptop")
    browser = Client()
    browser.force_login(ada)
    values = {"action": "disable", "_selected_action": [ada.pk, admin_user.pk]}
    assert admin_client.post("/admin/accounts/user/", values).status_code == 302
    assert browser.get("/inbox")["Location"].startswith("/sign-in")
    assert User.objects.filter(is_active=True).get() == admin_user
    entry = AuditEntry.objects.filter(action=AuditAction.USER_CHANGED).latest("number")
    assert (entry.object_label, entry.details["taken"]) == (ada.email, ["is_active"])
