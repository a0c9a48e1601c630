"""Operators see webhooks without secrets, and send failed deliveries again."""

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.urls import reverse

from apps.a2a.models import Delivery, PushConfig
from apps.accounts.models import User
from apps.engine import accept

pytestmark = pytest.mark.django_db

DELIVERIES = "admin:a2a_delivery_changelist"


@pytest.fixture
def hook(ada, echo, said):
    secrets = {"token": "canary-token", "scheme": "Bearer", "credentials": "canary-credentials"}
    task = accept.accept(ada.principal, echo, said()).task
    return PushConfig.objects.create(task_id=task, config_id="mine", url="https://hooks.example.com/in", **secrets)


@pytest.fixture
def dead(hook):
    ended = {"state": Delivery.State.DEAD, "attempts": 30, "last_error": "nobody answered"}
    return Delivery.objects.create(config=hook, event_index=1, **ended)


@pytest.fixture
def waiting(hook):
    return Delivery.objects.create(config=hook, event_index=2)


def send_again(client, *deliveries):
    chosen = {"action": "send_selected_again", "_selected_action": [one.pk for one in deliveries]}
    return client.post(reverse(DELIVERIES), chosen, follow=True)


def test_pages_show_everything_but_the_secrets_also_where_those_cannot_be_read(admin_client, hook, dead):
    pages = {
        reverse("admin:a2a_pushconfig_changelist"): "hooks.example.com",
        reverse("admin:a2a_pushconfig_change", args=[hook.pk]): "Bearer",
        reverse(DELIVERIES): "hooks.example.com",
        reverse("admin:a2a_delivery_change", args=[dead.pk]): "nobody answered",
    }
    for page, words in pages.items():
        content = admin_client.get(page).content.decode()
        assert words in content
        assert "canary" not in content
        assert "enc:" not in content
    with connection.cursor() as cursor:
        cursor.execute("UPDATE a2a_pushconfig SET token = 'garbage', credentials = 'garbage'")
    assert {admin_client.get(page).status_code for page in pages} == {200}


def test_deliveries_are_filtered_and_found(admin_client, hook, dead, waiting):
    def listed(**query):
        return set(admin_client.get(reverse(DELIVERIES), query).context["cl"].result_list)

    assert listed(state__exact="dead") == {dead}
    assert listed(q=str(hook.task_id)) == {dead, waiting}
    assert listed(q="nobody answered") == {dead}
    assert listed(config__id__exact=str(hook.pk)) == {dead, waiting}


def test_what_was_given_up_is_sent_again_and_nothing_else(
    admin_client, hook, dead, waiting, monkeypatch, django_capture_on_commit_callbacks
):
    published = []
    monkeypatch.setattr("apps.a2a.webhooks.publish_webhooks", published.extend)
    with django_capture_on_commit_callbacks(execute=True):
        answer = send_again(admin_client, dead, waiting)
    told = " ".join(str(message) for message in answer.context["messages"])
    assert "1 done, 1 skipped" in told
    dead.refresh_from_db()
    hook.refresh_from_db()
    assert (dead.state, dead.attempts) == ("waiting", 0)
    assert hook.due_at is not None
    assert published == [hook.pk]


def test_who_may_only_look_sends_nothing(client, dead):
    looking = User.objects.create_user("eve@example.org", "a long password", is_staff=True)
    looking.user_permissions.add(*Permission.objects.filter(codename__in=["view_delivery", "view_pushconfig"]))
    client.force_login(looking)
    assert client.get(reverse(DELIVERIES)).status_code == 200
    send_again(client, dead)
    dead.refresh_from_db()
    assert dead.state == "dead"
