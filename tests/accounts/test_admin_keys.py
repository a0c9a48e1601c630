"""Operators issue API keys, shown once, and revoke them."""

import datetime
import re

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.keys import make_key
from apps.accounts.models import ApiKey, User

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use

ADD = "admin:accounts_apikey_add"
LIST = "admin:accounts_apikey_changelist"
CHANGE = "admin:accounts_apikey_change"


def issue(client, user, **values):
    return client.post(reverse(ADD), {"user": user.pk, "name": "robot", "scopes": "", **values})


def text_in(answer) -> str:
    return re.search(r"<code>(parley_[^<]+)</code>", answer.content.decode()).group(1)


def test_a_key_is_shown_once_and_works(admin_client, ada):
    answer = issue(admin_client, ada, scopes="tasks:read, tasks:write\ntasks:read")
    text = text_in(answer)
    assert "no-store" in answer["Cache-Control"]
    assert api_key_principal(f"Bearer {text}").user_id == ada.pk
    key = ApiKey.objects.get()
    assert key.scopes == ["tasks:read", "tasks:write"]
    assert key.workspace == ada.personal_workspace

    secret = text.split("_", 2)[2]
    for later in (reverse(LIST), reverse(CHANGE, args=[key.pk]), reverse("admin:index")):
        shown = admin_client.get(later)
        assert shown.status_code == 200
        assert secret not in shown.content.decode()
    assert not any(secret in str(value) for value in admin_client.session.values())


def test_a_key_may_expire_but_not_in_the_past(admin_client, ada):
    tomorrow, yesterday = (timezone.now() + datetime.timedelta(days=days) for days in (1, -1))
    issue(admin_client, ada, expires_at_0=f"{tomorrow:%Y-%m-%d}", expires_at_1=f"{tomorrow:%H:%M:%S}")
    assert ApiKey.objects.get().expires_at == tomorrow.replace(microsecond=0)
    answer = issue(admin_client, ada, expires_at_0=f"{yesterday:%Y-%m-%d}", expires_at_1=f"{yesterday:%H:%M:%S}")
    assert answer.context["adminform"].form.errors["expires_at"] == [
        "This time is in the past. Choose a later one, or revoke the key."
    ]
    assert ApiKey.objects.count() == 1


def test_a_revoked_key_works_no_more_and_revoking_again_changes_nothing(admin_client, ada):
    lost, lost_text = ApiKey.issue(ada, "lost")
    _, text = ApiKey.issue(ada, "other")
    times = set()
    for _ in range(2):
        answer = admin_client.post(reverse(LIST), {"action": "revoke", "_selected_action": [lost.pk]}, follow=True)
        lost.refresh_from_db()
        times.add(lost.revoked_at)
    assert ">revoked</span>" in answer.content.decode()
    assert len(times) == 1
    with pytest.raises(BadCredentials):
        api_key_principal(f"Bearer {lost_text}")
    assert api_key_principal(f"Bearer {text}").user_id == ada.pk


def test_a_keys_name_and_scopes_can_be_changed_and_nothing_else_and_it_is_never_deleted(admin_client, ada, bob):
    key, text = ApiKey.issue(ada, "laptop")
    values = {"name": "renamed", "scopes": "tasks:read", "user": bob.pk, "prefix": "0", "revoked_at": ""}
    assert admin_client.post(reverse(CHANGE, args=[key.pk]), values).status_code == 302
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


def test_who_may_only_look_revokes_nothing(client, ada):
    key, _ = ApiKey.issue(ada, "laptop")
    operator = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    operator.user_permissions.set(Permission.objects.filter(codename="view_apikey"))
    client.force_login(operator)
    client.post(reverse(LIST), {"action": "revoke", "_selected_action": [key.pk]})
    key.refresh_from_db()
    assert key.revoked_at is None


def test_the_audit_leads_to_the_key_that_a_person_made(admin_client, ada):
    key, _ = make_key(ada.principal, ada, "laptop", ["tasks:read"])
    shown = admin_client.get(reverse("admin:accounts_auditentry_changelist"), {"object": str(key.pk)}).text
    assert reverse(CHANGE, args=[key.pk]) in shown
    assert ada.email in shown
