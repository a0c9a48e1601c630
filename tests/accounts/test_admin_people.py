"""Operators manage people, workspaces, groups and API keys; nobody grants rights that they lack."""

import re

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import ApiKey, User
from apps.accounts.requests.authentication import api_key_principal
from tests.chosen_rows import act

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use

ADD = "admin:accounts_user_add"
CHANGE = "admin:accounts_user_change"
PASSWORD = "long and never seen"


def new(**values):
    password = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    return {"email": "grace@example.org", **password, **values}


@pytest.fixture
def operator(client):
    """A signed-in operator of people who is no superuser."""
    person = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=["add_user", "change_user", "view_user"]))
    client.force_login(person)
    return person


def test_passwords_are_reset_and_people_switched_off(admin_client, ada):
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


def test_disabling_people_spares_the_operator(admin_client, admin_user, ada):
    ApiKey.issue(ada, "laptop")
    browser = Client()
    browser.force_login(ada)
    assert "1 done, 1 skipped" in act(admin_client, User, "disable_selected", ada, admin_user).text
    assert browser.get("/inbox")["Location"].startswith("/sign-in")
    assert User.objects.filter(is_active=True).get() == admin_user
    entry = AuditEntry.objects.filter(action=AuditAction.USER_CHANGED).latest("number")
    assert (entry.object_label, entry.details["taken"]) == (ada.email, ["is_active"])


ADD_KEY = "admin:accounts_apikey_add"
KEYS = "admin:accounts_apikey_changelist"
CHANGE_KEY = "admin:accounts_apikey_change"


def issue(client, user, **values):
    return client.post(reverse(ADD_KEY), {"user": user.pk, "name": "robot", "scopes": "", **values})


def text_in(answer):
    return re.search(r"<code>(parley_[^<]+)</code>", answer.content.decode()).group(1)


def test_only_superusers_disable_superusers(client, operator, admin_user):
    assert "1 failed" in act(client, User, "disable_selected", admin_user).text
    admin_user.refresh_from_db()
    assert admin_user.is_active


def test_a_key_is_shown_once_and_works(admin_client, ada):
    answer = issue(admin_client, ada, scopes="tasks:read, tasks:write\ntasks:read")
    text = text_in(answer)
    assert "no-store" in answer["Cache-Control"]
    assert api_key_principal(f"Bearer {text}").user_id == ada.pk
    key = ApiKey.objects.get()
    assert key.scopes == ["tasks:read", "tasks:write"]
    assert key.workspace == ada.personal_workspace

    secret = text.split("_", 2)[2]
    for later in (reverse(KEYS), reverse(CHANGE_KEY, args=[key.pk]), reverse("admin:index")):
        shown = admin_client.get(later)
        assert shown.status_code == 200
        assert secret not in shown.content.decode()
    assert not any(secret in str(value) for value in admin_client.session.values())


def test_only_a_keys_name_and_scopes_change(admin_client, ada, bob):
    key, text = ApiKey.issue(ada, "laptop")
    values = {"name": "renamed", "scopes": "tasks:read", "user": bob.pk, "prefix": "0", "revoked_at": ""}
    assert admin_client.post(reverse(CHANGE_KEY, args=[key.pk]), values).status_code == 302
    key.refresh_from_db()
    assert (key.name, key.scopes, key.user) == ("renamed", ["tasks:read"], ada)
    assert api_key_principal(f"Bearer {text}").may("tasks:read")
    assert admin_client.post(reverse("admin:accounts_apikey_delete", args=[key.pk]), {"post": "yes"}).status_code == 403


def test_an_operator_makes_no_key_of_a_superuser(client, ada, admin_user):
    operator = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    operator.user_permissions.set(Permission.objects.filter(codename__in=["add_apikey", "view_apikey", "view_user"]))
    client.force_login(operator)
    assert "user" in issue(client, admin_user).context["adminform"].form.errors
    assert not ApiKey.objects.exists()
    assert api_key_principal(f"Bearer {text_in(issue(client, ada))}").user_id == ada.pk
