"""The lists of sessions and agents, an agent's page, and the pages that say what went wrong."""

import pytest
from django.contrib.auth.models import Group

from apps.agents.models import Agent
from apps.web.home import A_PAGE
from tests.web import telling


def test_a_new_person_is_told_how_to_begin(ada_browser, echo):
    page = ada_browser.get("/").text
    assert "Write to an agent, and see what it does" in page
    assert 'data-try="/agents/echo/messages"' in page
    assert "/agents/echo" in page


def test_each_agent_is_listed_with_something_to_try(ada_browser, echo):
    assert '<q dir="auto">Anything at all</q>' in ada_browser.get("/").text
    Agent.objects.filter(pk=echo.pk).update(skills=[{**echo.skills[0], "examples": ["<b>bold</b>"]}])
    assert '<q dir="auto">&lt;b&gt;bold&lt;/b&gt;</q>' in ada_browser.get("/agents").text
    Agent.objects.filter(pk=echo.pk).update(skills=[])
    assert "Try" not in ada_browser.get("/agents").text


def test_sessions_are_listed_with_their_state(ada_browser, ada, echo, asked):
    telling.finished(ada, echo)
    page = ada_browser.get("/").text
    assert page.count("Waiting for you") >= 1
    assert page.count("Done") >= 1


def test_somebody_elses_sessions_are_not_listed(bob_browser, finished):
    assert str(finished.context) not in bob_browser.get("/").text


def test_long_lists_come_in_pages(ada_browser, ada, echo):
    for number in range(A_PAGE + 1):
        telling.begun(ada, echo, f"session number {number}")
    first, second = ada_browser.get("/").text, ada_browser.get("/?page=2").text
    assert f"session number {A_PAGE}" in first
    assert 'href="?page=2"' in first
    assert "session number 0" in second
    assert "Begin with an agent" not in second


def test_an_agents_page_shows_what_it_can_do_and_how_to_begin(ada_browser, report):
    page = ada_browser.get("/agents/report").text
    assert "Report on a table" in page
    assert "Make it shorter" in page
    assert 'action="/agents/report/messages"' in page


def test_an_unknown_agent_is_not_found(ada_browser):
    assert ada_browser.get("/agents/nobody").status_code == 404


def test_an_agent_of_another_group_is_neither_listed_nor_found(ada_browser, ada, echo):
    echo.access = Agent.Access.GROUPS
    echo.save()
    echo.groups.add(group := Group.objects.create(name="researchers"))
    assert "/agents/echo" not in ada_browser.get("/agents").text
    assert ada_browser.get("/agents/echo").status_code == 404
    ada.groups.add(group)
    assert ada_browser.get("/agents/echo").status_code == 200


def test_an_agent_that_is_switched_off_still_has_its_sessions(ada_browser, echo, finished):
    Agent.objects.update(is_enabled=False)
    assert ada_browser.get(f"/sessions/{finished.context}").status_code == 200


def test_only_operators_are_shown_the_way_to_the_admin(ada_browser, ada):
    assert "/admin/" not in ada_browser.get("/").text
    ada.is_staff = True
    ada.save()
    assert "/admin/" in ada_browser.get("/").text


def test_what_is_not_there_is_said_with_a_way_on(ada_browser):
    answer = ada_browser.get("/nowhere")
    assert answer.status_code == 404
    assert "There is nothing here" in answer.text
    assert "Go to your sessions" in answer.text


def test_an_error_of_ours_shows_no_internals(ada_browser, echo, monkeypatch):
    ada_browser.raise_request_exception = False
    monkeypatch.setattr("apps.web.catalogue.search", None)
    answer = ada_browser.get("/agents")
    assert answer.status_code == 500
    assert "Something broke on our side" in answer.text
    assert "NoneType" not in answer.text


@pytest.mark.parametrize("zone", ["Europe/Vienna", "Nowhere/Else", "../../etc/passwd", ""])
def test_any_time_zone_a_browser_names_is_taken_or_left(ada_browser, finished, zone):
    ada_browser.cookies["zone"] = zone
    assert "Today" in ada_browser.get("/").text


def test_a_conversation_costs_few_queries(ada_browser, finished, django_assert_max_num_queries):
    with django_assert_max_num_queries(18):
        ada_browser.get(f"/sessions/{finished.context}")


def test_an_agent_that_is_not_well_says_so_to_all_and_why_to_operators(ada_browser, ada, echo):
    assert "Not available now" not in ada_browser.get("/agents").text
    Agent.objects.update(health="unavailable", ailment="The module 'gone' cannot be imported.")
    for path in ("/agents", "/agents/echo", "/"):
        page = ada_browser.get(path).text
        assert "Not available now" in page
        assert "cannot be imported" not in page
    ada.is_staff = True
    ada.save()
    for path in ("/agents", "/agents/echo"):
        assert "The module &#x27;gone&#x27; cannot be imported." in ada_browser.get(path).text
    Agent.objects.update(health="degraded")
    assert "Has trouble at the moment" in ada_browser.get("/agents").text
