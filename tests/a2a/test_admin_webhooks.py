"""Operators see webhooks without their secrets, and send again what was given up."""

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.urls import reverse

from apps.a2a.models import Delivery, PushConfig
from apps.accounts.models import User
from apps.conversations import intake

pytestmark = pytest.mark.django_db

DELIVERIES = "admin:a2a_delivery_changelist"


@pytest.fixture
def hook(ada, echo, said):
    task = intake.accept(ada.principal, echo, said()).task
    return PushConfig.objects.create(
        task_id=task,
        config_id="mine",
        url="https://hooks.example.com/in",
        token="canary-token",
        scheme="Bearer",
        credentials="canary-credentials",
    )


@pytest.fixture
def dead(hook):
    return Delivery.objects.create(
        config=hook, event_index=1, state=Delivery.State.DEAD, attempts=30, last_error="nobody answered"
    )


@pytest.fixture
def waiting(hook):
    return Delivery.objects.create(config=hook, event_index=2)


def send_again(client, *deliveries):
    chosen = {"action": "send_selected_again", "_selected_action": [one.pk for one in deliveries]}
    return client.post(reverse(DELIVERIES), chosen, follow=True)


def told(answer):
    return " ".join(str(message) for message in answer.context["messages"])


def test_pages_show_everything_but_the_secrets(admin_client, hook, dead, waiting):
    pages = [
        reverse("admin:a2a_pushconfig_changelist"),
        reverse("admin:a2a_pushconfig_change", args=[hook.pk]),
        reverse(DELIVERIES),
        reverse("admin:a2a_delivery_change", args=[dead.pk]),
    ]
    for page in pages:
        content = admin_client.get(page).content.decode()
        assert "hooks.example.com" in content
        assert "canary" not in content
        assert "enc:" not in content
    assert "Bearer" in admin_client.get(pages[1]).content.decode()
    assert "nobody answered" in admin_client.get(pages[3]).content.decode()


def test_a_secret_that_cannot_be_read_breaks_no_page(admin_client, hook, dead):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE a2a_pushconfig SET token = 'garbage', credentials = 'garbage'")
    for name, key in (("pushconfig", hook.pk), ("delivery", dead.pk)):
        assert admin_client.get(reverse(f"admin:a2a_{name}_changelist")).status_code == 200
        assert admin_client.get(reverse(f"admin:a2a_{name}_change", args=[key])).status_code == 200


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
    monkeypatch.setattr("apps.a2a.webhooks.queues.publish", published.extend)
    with django_capture_on_commit_callbacks(execute=True):
        answer = told(send_again(admin_client, dead, waiting))
    assert "1 queued to be sent again" in answer
    assert "1 left alone" in answer
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
