"""Operators register agents and set policies; errors say what to do."""

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from apps.agents.models import Agent
from tests.chosen_rows import act

pytestmark = pytest.mark.django_db

ADD = "admin:agents_agent_add"
LIST = "admin:agents_agent_changelist"
HELLO = "examples.agents.hello:Hello"


def form(**values):
    empty = dict.fromkeys(("name", "description", "version", "input_modes", "output_modes", "workspace"), "")
    standing = {
        "slug": "greeter", "kind": "hosted", "handler": HELLO, "is_enabled": "on", "skills": "[]", "capabilities": "{}",
        "extended_card": "{}", "access": "authenticated", "mcp_tools": "off", "on_busy": "enqueue",
        "time_limit": "600.0", "attempts": "3",
    }  # fmt: skip
    return {**empty, **standing, **values}


def add(client, **values):
    return client.post(reverse(ADD), form(**values))


def change(client, agent, **values):
    page = client.get(reverse("admin:agents_agent_change", args=[agent.pk]))
    fields = page.context["adminform"].form
    shown = {name: fields[name].value() for name in fields.fields}
    sent = {name: "" if value is None else value for name, value in shown.items() if value is not False}
    return client.post(page.request["PATH_INFO"], {**sent, **values})


def errors(answer):
    assert answer.status_code == 200
    return answer.context["adminform"].form.errors


def test_wrong_values_are_refused_at_their_fields(admin_client):
    wrong = {
        "handler": "apps.nowhere:Echo",
        "skills": '[{"id": "s"}]',
        "capabilities": '{"extensions": [{"uri": "u", "params": {"n": 9007199254740993}}]}',
        "extended_card": '{"name": "another"}',
        "time_limit": "0",
    }
    assert errors(add(admin_client, **wrong)).keys() >= wrong.keys()
    assert not Agent.objects.exists()


def test_operators_change_policies_and_places_in_lists(admin_client, echo, countdown):
    Agent.objects.filter(pk=countdown.pk).update(category="Numbers & sums")
    page = admin_client.get(reverse("admin:agents_agent_change", args=[echo.pk])).content.decode()
    assert '<option value="Numbers &amp; sums">' in page
    lab = Group.objects.create(name="Lab")
    policies = {"access": "groups", "groups": [lab.pk], "on_busy": "reject", "time_limit": "5"}
    sent = change(admin_client, echo, **policies, listed="", category="Tests", pinned="2")
    assert sent.status_code == 302
    echo.refresh_from_db()
    assert (echo.access, echo.on_busy, echo.time_limit, list(echo.groups.all())) == ("groups", "reject", 5.0, [lab])
    assert (echo.listed, echo.category, echo.pinned) == (False, "Tests", 2)
    for asked, slug in (({"listed__exact": "0"}, "echo"), ({"category": "Numbers & sums"}, "countdown")):
        assert [agent.slug for agent in admin_client.get(reverse(LIST), asked).context["cl"].result_list] == [slug]


def test_agents_are_reloaded_and_switched_off_and_on(admin_client, echo, ada):
    def press(action):
        answer = act(admin_client, Agent, action, echo)
        echo.refresh_from_db()
        return answer.content.decode()

    Agent.objects.filter(pk=echo.pk).update(name="Stale", description="Stale.", access="public")
    assert "Echo was reloaded from its handler." in press("reload_selected")
    assert (echo.name, echo.access) == ("Echo", "public")
    Agent.objects.filter(pk=echo.pk).update(handler="apps.nowhere:Echo")
    assert "Echo is unchanged." in press("reload_selected")
    for action, is_seen in (("disable_selected", False), ("enable_selected", True)):
        press(action)
        assert Agent.objects.visible_to(ada.principal).exists() is is_seen
