"""Lists of sessions and agents, an agent's page, and error pages."""

from django.contrib.auth.models import Group
from django.db import OperationalError

from apps.agents.models import Agent


def test_sessions_are_listed_for_their_owner_whatever_the_time_zone_and_though_the_agent_is_switched_off(
    bob_browser, finished, ada_browser, echo
):
    assert str(finished.context) not in bob_browser.get("/").text
    for zone in ["Europe/Vienna", "Nowhere/Else", "../../etc/passwd", ""]:
        ada_browser.cookies["zone"] = zone
        assert "Today" in ada_browser.get("/").text, zone
    Agent.objects.update(is_enabled=False)
    assert ada_browser.get(f"/sessions/{finished.context}").status_code == 200


def test_an_agent_of_another_group_is_neither_listed_nor_found(ada_browser, ada, echo):
    echo.access = Agent.Access.GROUPS
    echo.save()
    echo.groups.add(group := Group.objects.create(name="researchers"))
    assert "/agents/echo" not in ada_browser.get("/agents").text
    assert ada_browser.get("/agents/echo").status_code == 404
    ada.groups.add(group)
    assert ada_browser.get("/agents/echo").status_code == 200


def test_what_cannot_be_a_short_name_is_no_agent(ada_browser, db):
    for path in ("/agents/%00", "/agents/%00/try", "/agents/%00/credentials"):
        assert ada_browser.get(path).status_code == 404, path
    assert ada_browser.post("/agents/%00/try/token").status_code == 404


def test_what_is_not_there_and_what_broke_is_said_without_internals(ada_browser, echo, monkeypatch):
    answer = ada_browser.get("/nowhere")
    assert answer.status_code == 404
    assert 'href="/"' in answer.text
    ada_browser.raise_request_exception = False
    monkeypatch.setattr("apps.web.agents.search", None)
    answer = ada_browser.get("/agents")
    assert answer.status_code == 500
    assert "Something went wrong" in answer.text
    assert "NoneType" not in answer.text


def test_a_page_whose_database_is_away_can_be_tried_again(ada_browser, monkeypatch):
    def away(*args, **kwargs):
        raise OperationalError("the server at db.internal closed the connection")

    ada_browser.raise_request_exception = False
    monkeypatch.setattr("apps.web.agents.search", away)
    answer = ada_browser.get("/agents")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "reload" in answer.text
    assert "db.internal" not in answer.text


def test_a_conversation_costs_few_queries(ada_browser, finished, django_assert_max_num_queries):
    with django_assert_max_num_queries(20):
        ada_browser.get(f"/sessions/{finished.context}")


def test_an_agent_that_is_not_well_says_so_to_all_and_why_to_operators(ada_browser, ada, echo):
    assert "Does not work now" not in ada_browser.get("/agents/echo").text
    Agent.objects.update(health="unavailable", ailment="The module 'gone' cannot be imported.")
    for path in ("/agents", "/agents/echo", "/find"):
        page = ada_browser.get(path).text
        assert "Does not work now" in page
        assert "cannot be imported" not in page
    ada.is_staff = True
    ada.save()
    for path in ("/agents", "/agents/echo"):
        assert "The module &#x27;gone&#x27; cannot be imported." in ada_browser.get(path).text
    Agent.objects.update(health="degraded")
    assert "Often fails" in ada_browser.get("/agents").text
