"""Operators register agents and set policies; errors say what to do."""

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from apps.agents.models import Agent
from apps.agents.registration import house_workspace, register_hosted

pytestmark = pytest.mark.django_db

ADD = "admin:agents_agent_add"
LIST = "admin:agents_agent_changelist"
ECHO = "examples.agents.echo:Echo"
HELLO = "examples.agents.hello:Hello"


def form(**values) -> dict[str, object]:
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


def errors(answer) -> dict[str, list[str]]:
    assert answer.status_code == 200
    return answer.context["adminform"].form.errors


def test_what_is_left_empty_is_what_the_handler_says(admin_client):
    assert add(admin_client).status_code == 302
    agent, described = Agent.objects.get(), register_hosted("described", HELLO)
    fields = "name", "description", "version", "skills", "input_modes", "output_modes", "retry_safe", "time_limit"
    for field in fields:
        assert getattr(agent, field) == getattr(described, field)
    assert agent.workspace == house_workspace()


def test_a_value_that_cannot_be_is_refused_at_its_field(admin_client):
    for field, value, sentence in [
        ("slug", "tasks", "Choose another"),
        ("handler", "", "write it as package.module:Name."),
        ("handler", "apps.nowhere:Echo", "cannot be imported"),
        ("slug", "Not a slug", "Use lower-case letters, digits and hyphens."),
        ("skills", '[{"id": "s"}]', "Write a list of skills"),
        ("skills", '[{"id": "s", "name": "S", "description": "S.", "tags": ["s"], "examples": [1]}]', "lists of texts"),
        ("skills", '[{"id": "s", "name": "S", "description": "S.", "tags": ["s"], "inputModes": 5}]', "lists of texts"),
        ("skills", "nonsense", "valid JSON"),
        ("capabilities", "[1]", "Write an object"),
        ("capabilities", '{"extensions": "x"}', "as a list of objects"),
        ("capabilities", '{"extensions": [{"description": "no uri"}]}', "as a list of objects"),
        ("capabilities", '{"extensions": [{"uri": "u", "params": {"n": 9007199254740993}}]}', "could not be signed"),
        ("extended_card", '{"name": "another"}', "Write an object"),
        ("extended_card", '{"description": ""}', "Write an object"),
        ("extended_card", '{"skills": [{"id": "s"}]}', "Write an object"),
        ("attempts", "0", "greater than or equal to 1"),
        ("time_limit", "0", "greater than or equal to 0.1"),
    ]:
        assert sentence in " ".join(errors(add(admin_client, **{field: value}))[field]), field
        assert not Agent.objects.exists(), field


def test_policies_can_be_changed(admin_client, echo):
    lab = Group.objects.create(name="Lab")
    policies = {"access": "groups", "groups": [lab.pk], "on_busy": "reject", "time_limit": "5"}
    assert change(admin_client, echo, **policies).status_code == 302
    echo.refresh_from_db()
    assert (echo.access, echo.on_busy, echo.time_limit) == ("groups", "reject", 5.0)
    assert list(echo.groups.all()) == [lab]


def test_operators_say_how_lists_show_an_agent_and_see_known_categories(admin_client, echo, countdown):
    Agent.objects.filter(pk=countdown.pk).update(category="Numbers & sums")
    page = admin_client.get(reverse("admin:agents_agent_change", args=[echo.pk])).content.decode()
    assert '<option value="Numbers &amp; sums">' in page
    assert change(admin_client, echo, listed="", category="Tests", pinned="2").status_code == 302
    echo.refresh_from_db()
    assert (echo.listed, echo.category, echo.pinned) == (False, "Tests", 2)
    shown = admin_client.get(reverse(LIST), {"listed__exact": "0"}).context["cl"].result_list
    assert [agent.slug for agent in shown] == ["echo"]
    shown = admin_client.get(reverse(LIST), {"category": "Numbers & sums"}).context["cl"].result_list
    assert [agent.slug for agent in shown] == ["countdown"]


def test_an_agent_can_be_brought_up_to_date_with_its_handler(admin_client, echo):
    Agent.objects.filter(pk=echo.pk).update(name="Stale", description="Stale.", access="public")
    again = {"action": "read_handler_again", "_selected_action": [echo.pk]}
    answer = admin_client.post(reverse(LIST), again, follow=True)
    echo.refresh_from_db()
    assert (echo.name, echo.access) == ("Echo", "public")
    assert "Echo was reloaded from its handler." in answer.content.decode()
    Agent.objects.filter(pk=echo.pk).update(handler="apps.nowhere:Echo")
    answer = admin_client.post(reverse(LIST), again, follow=True)
    assert "Echo is unchanged." in answer.content.decode()


def test_agents_are_switched_off_and_on(admin_client, echo, ada):
    for action, seen in (("switch_off", False), ("switch_on", True)):
        admin_client.post(reverse(LIST), {"action": action, "_selected_action": [echo.pk]})
        assert Agent.objects.visible_to(ada.principal).exists() is seen


def test_a_list_costs_the_same_however_long_it_is(admin_client, django_assert_max_num_queries):
    for number in range(12):
        register_hosted(f"echo-{number}", ECHO)
    with django_assert_max_num_queries(8):
        assert len(admin_client.get(reverse(LIST)).context["cl"].result_list) == 12
