"""Operators see whose credentials there are and what became of requests, never a secret; and they revoke."""

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from agentkit import AuthRequired
from apps.accounts.models import User
from apps.agents.registration import register_hosted
from apps.conversations import intake
from apps.runtime.models import Credential, CredentialRequest
from tests.working import begin, end

pytestmark = pytest.mark.django_db

CREDENTIALS = "admin:runtime_credential_changelist"
REQUESTS = "admin:runtime_credentialrequest_changelist"


@pytest.fixture
def calendar(db):
    return register_hosted("calendar", "tests.runtime.agents:Calendar")


@pytest.fixture
def given(ada, calendar):
    return Credential.objects.create(
        agent=calendar, user=ada, service="mail box", auth_type="basic", username="canary-name", secret="canary-secret"
    )


@pytest.fixture
def asked(ada, calendar, said):
    sent = intake.accept(ada.principal, calendar, said())
    end(begin(sent.run), AuthRequired("Your key?", service="calendar of ada"))
    return CredentialRequest.objects.get()


def revoke(client, *credentials):
    chosen = {"action": "revoke_selected", "_selected_action": [one.pk for one in credentials]}
    return client.post(reverse(CREDENTIALS), chosen, follow=True)


def test_pages_show_and_find_everything_but_the_secrets(admin_client, given, asked):
    pages = {
        reverse(CREDENTIALS): "mail box",
        reverse("admin:runtime_credential_change", args=[given.pk]): "mail box",
        reverse(REQUESTS): "calendar of ada",
        reverse("admin:runtime_credentialrequest_change", args=[asked.pk]): "calendar of ada",
    }
    for page, shown in pages.items():
        content = admin_client.get(page).content.decode()
        assert shown in content
        assert "canary" not in content
        assert asked.digest not in content
    assert "calendar of ada" in admin_client.get(reverse(REQUESTS), {"q": str(asked.task_id)}).content.decode()
    assert "mail box" in admin_client.get(reverse(CREDENTIALS), {"q": "mail"}).content.decode()
    assert "mail box" not in admin_client.get(reverse(CREDENTIALS), {"q": "nothing"}).content.decode()


def test_an_operator_revokes_and_the_secret_is_erased(admin_client, given):
    assert "1 revoked" in revoke(admin_client, given).content.decode()
    given.refresh_from_db()
    assert (given.secret, given.username) == ("", "")
    assert given.revoked_at is not None
    assert "0 revoked" in revoke(admin_client, given).content.decode()


def test_who_may_only_look_revokes_nothing(client, given):
    viewer = User.objects.create_user("viewer@example.org", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_credential"))
    client.force_login(viewer)
    assert "mail box" in client.get(reverse(CREDENTIALS)).content.decode()
    revoke(client, given)
    given.refresh_from_db()
    assert given.revoked_at is None


def test_nobody_adds_or_changes_one(admin_client, given):
    assert admin_client.get(reverse("admin:runtime_credential_add")).status_code == 403
    admin_client.post(reverse("admin:runtime_credential_change", args=[given.pk]), {"service": "other"})
    given.refresh_from_db()
    assert given.service == "mail box"
