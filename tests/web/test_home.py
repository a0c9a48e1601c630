"""Home: the composer of a new session, its agent, examples, and the newest sessions."""

from __future__ import annotations

import uuid

import pytest
from django.conf import settings
from django.test import Client

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.features.routing.router import register_house_agents
from apps.features.sessions import commands
from apps.installation import current
from apps.installation.models import ModelConnection
from apps.web import agents
from apps.web.home import RECENT
from tests.web import telling

pytestmark = pytest.mark.django_db

QUERIES = 12


def chosen(browser: Client, query: str = "") -> str | None:
    agent = browser.get(f"/{query}").context["agent"]
    return agent.slug if agent else None


@pytest.fixture
def house(db: None) -> None:
    register_house_agents()


@pytest.mark.usefixtures("house")
def test_the_assistant_answers_until_an_agent_was_used_and_then_the_last_used(
    ada: User, ada_browser: Client, bob_browser: Client, echo: Agent, hello: Agent
) -> None:
    assert chosen(ada_browser) == settings.DEFAULT_AGENT
    telling.begun(ada, hello)
    telling.begun(ada, echo)
    assert chosen(ada_browser) == "echo"
    assert chosen(bob_browser) == settings.DEFAULT_AGENT
    Agent.objects.filter(slug="echo").update(health=Agent.Health.UNAVAILABLE)
    assert chosen(ada_browser) == "hello"
    Agent.objects.filter(slug="hello").update(is_enabled=False)
    assert chosen(ada_browser) == settings.DEFAULT_AGENT
    Agent.objects.filter(slug=settings.DEFAULT_AGENT).update(is_enabled=False)
    assert chosen(ada_browser) == settings.ROUTER_AGENT


@pytest.mark.usefixtures("house")
def test_what_was_used_without_a_model_is_no_choice(ada: User, ada_browser: Client, echo: Agent) -> None:
    telling.begun(ada, echo)
    ModelConnection.objects.create(name="Lab", slug="lab", base_url="http://127.0.0.1:9/v1", model="small")
    current.forget()
    assert chosen(ada_browser) == settings.DEFAULT_AGENT
    telling.begun(ada, echo)
    assert chosen(ada_browser) == "echo"
    telling.begun(ada, Agent.objects.get(slug=settings.ROUTER_AGENT))
    assert chosen(ada_browser) == settings.DEFAULT_AGENT


def test_the_last_used_agents_are_looked_for_in_the_newest_sessions(
    ada: User, echo: Agent, hello: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "REMEMBERED", 2)
    for agent in (hello, echo, echo):
        telling.begun(ada, agent)
    assert list(agents.last_used(ada.principal)) == [echo.pk]


def test_the_address_chooses_an_agent_that_the_person_may_use(ada_browser: Client, echo: Agent, hello: Agent) -> None:
    assert chosen(ada_browser, "?agent=hello") == "hello"
    hello.access = Agent.Access.GROUPS
    hello.save()
    for slug in ("hello", "nobody", "%00", '"><script>'):
        answer = ada_browser.get("/", query_params={"agent": slug})
        assert answer.context["agent"] == echo
        assert answer.context["problem"]
        assert "<script>" not in answer.text
    Agent.objects.update(is_enabled=False)
    answer = ada_browser.get("/")
    assert answer.context["agent"] is None
    assert "/agents/remote/add" in answer.text


def test_examples_are_sentences_for_agents_that_are_available(
    ada_browser: Client, echo: Agent, hello: Agent, report: Agent
) -> None:
    def offered() -> list[str]:
        return [one.agent.slug for one in ada_browser.get("/").context["suggestions"]]

    assert sorted(offered()) == ["echo", "hello", "report"]
    Agent.objects.filter(slug="echo").update(skills=[{"id": "a", "name": "A", "examples": ['{"city": "Oslo"}', "[1]"]}])
    Agent.objects.filter(slug="hello").update(health=Agent.Health.UNAVAILABLE)
    assert offered() == ["report"]


@pytest.mark.django_db(transaction=True)
def test_the_composer_sends_to_the_agent_that_it_shows(ada_browser: Client, echo: Agent, hello: Agent) -> None:
    page = ada_browser.get("/?agent=hello").text
    assert 'action="/agents/hello/messages"' in page
    sent = ada_browser.post("/agents/hello/messages", {"message": str(uuid.uuid4()), "text": "first words"})
    assert "first words" in ada_browser.get(sent.json()["session"]).text


def test_the_newest_sessions_are_listed_and_all_others_are_reachable(
    ada: User, ada_browser: Client, echo: Agent
) -> None:
    begun = [telling.begun(ada, echo, f"number {number}").context for number in range(RECENT + 1)]
    commands.archive_session(ada.principal, begun[-1])
    commands.archive_session(ada.principal, begun[-2])
    home, everything = ada_browser.get("/").text, ada_browser.get("/?show=all").text
    assert 'href="/?show=all"' in home
    assert 'href="/?show=archived"' in everything
    assert f"session-{begun[0]}" in home
    assert "older-sessions" not in home
    assert f"session-{begun[-1]}" in ada_browser.get("/?show=archived").text
    for context in begun[-2:]:
        commands.unarchive_session(ada.principal, context)
    assert "older-sessions" in ada_browser.get("/").text
    listed = [context for context in begun if f"session-{context}" in ada_browser.get("/?show=all").text]
    assert listed == begun
    assert ada_browser.get("/?show=all&page=99").status_code == 200


def test_home_costs_the_same_whatever_is_in_it(
    ada: User, ada_browser: Client, echo: Agent, django_assert_num_queries
) -> None:
    ada_browser.get("/")
    with django_assert_num_queries(QUERIES):
        ada_browser.get("/")
    for number in range(12):
        telling.finished(ada, echo)
        register_hosted(f"echo-{number}", "examples.agents.echo:Echo")
    with django_assert_num_queries(QUERIES):
        ada_browser.get("/")
