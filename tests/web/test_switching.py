"""Switching a session's agent: the page names the agent of each message."""

import uuid

import pytest
from django.urls import reverse

from agentkit import Completed
from apps.agents.models import Agent
from apps.agents.options import offered_models
from apps.engine import accept
from apps.installation import current
from apps.installation.models import ModelConnection
from apps.record.execution import Run
from apps.record.models import Context, Event, Task
from apps.web.sessions.entries import agent_label, entries_of
from apps.web.sessions.views import page_state
from tests.agents.definitions import clerk
from tests.emptying import rewrite
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def talk(ada, echo, said):
    return accept.accept(ada.principal, echo, said("first"))


@pytest.fixture
def page(client, ada):
    client.force_login(ada)
    return client


def switch(page, talk, agent):
    return page.post(reverse("web:switch", args=[talk.context]), {"agent": agent})


def say(page, talk, words, **fields):
    form = {"message": str(uuid.uuid4()), "text": words, **fields}
    return page.post(reverse("web:say", args=[talk.context]), form)


def test_an_agent_that_there_is_not_for_them_is_refused_with_a_sentence(page, talk, countdown, client, bob):
    for slug in ["nobody", "", "closed", "off", "\0"]:
        Agent.objects.filter(pk=countdown.pk).update(slug="closed", access="groups")
        refused = switch(page, talk, slug)
        assert refused.status_code in (404, 422), slug
        assert refused.json()["error"].startswith("There is no such agent, or you may not use it."), slug
        assert not Event.objects.filter(type="agent_switched").exists(), slug
    client.force_login(bob)
    assert switch(client, talk, "countdown").status_code == 404


def test_a_person_switches_to_listed_agents_and_keeps_the_sessions_own(page, talk, echo, countdown):
    Agent.objects.update(listed=False)
    shown = page.get(reverse("web:session", args=[talk.context]))
    assert shown.context["agents"] == [echo]


def test_agents_of_one_name_show_their_slugs(page, talk, echo, countdown):
    address = reverse("web:session", args=[talk.context])
    assert "@countdown" not in page.get(address).content.decode().split('id="switch-to"')[1].split("</header>")[0]
    Agent.objects.update(name="Twin")
    shown = page.get(address).content.decode().split('id="switch-to"')[1].split("</header>")[0]
    assert "@echo" in shown
    assert "@countdown" in shown


def test_a_session_whose_agent_is_gone_goes_on_with_another(page, talk, echo, countdown):
    end(begin(talk.run), Completed("mine"))
    Agent.objects.filter(pk=echo.pk).update(is_enabled=False)
    assert "no longer there" in say(page, talk, "more").json()["error"]
    shown = page.get(reverse("web:session", args=[talk.context])).content.decode()
    assert 'data-switch="countdown"' in shown
    assert 'data-switch="echo"' not in shown
    switch(page, talk, "countdown")
    assert say(page, talk, "more").status_code == 201


def test_every_entry_names_its_agent_live_and_later(page, talk, echo, countdown):
    held = begin(talk.run)
    switch(page, talk, "countdown")
    end(held, Completed("mine"))
    say(page, talk, "next")
    end(begin(Run.objects.get(state="queued").pk), Completed("theirs"))
    context = Context.objects.select_related("agent").get()
    live = entries_of(context, list(Event.objects.filter(context=context)))
    for entries in (live, page_state(context.owner.principal, context)["entries"]):
        opened = [one["agent"]["slug"] for one in entries if one["type"] == "user_message"]
        spoke = [one["agent"]["slug"] for one in entries if one.get("message") and one["type"] == "agent_status"]
        assert (opened, spoke) == (["echo", "countdown"], ["echo", "countdown"])
        (switched,) = [one for one in entries if one["type"] == "agent_switched"]
        assert switched["agent"] == agent_label(countdown)
    assert page_state(context.owner.principal, context)["agent"]["slug"] == "countdown"


def test_a_log_that_does_not_say_who_wrote_is_read_by_its_rows(talk, echo, countdown):
    end(begin(talk.run), Completed("mine"))
    spoken = Event.objects.filter(type="agent_status").last()
    spoken.payload.pop("agent")
    rewrite(Event.objects.filter(pk=spoken.pk), payload=spoken.payload)
    assert entries_of(Context.objects.get(), [spoken])[0]["agent"] == agent_label(echo)


def test_a_name_at_the_beginning_of_a_message_says_whom_it_is_for(page, talk, echo, countdown):
    Agent.objects.filter(pk=countdown.pk).update(access="groups")
    say(page, talk, "@countdown from 3")
    assert Context.objects.get().agent == echo, "a name of an agent that is not for them is text"
    Agent.objects.filter(pk=countdown.pk).update(access="authenticated")
    for words in ("mail me@countdown", "say @countdown", "@countdowns", "@echo again"):
        say(page, talk, words)
        assert Context.objects.get().agent == echo, words
    assert say(page, talk, "@countdown from 3", task=str(talk.task)).status_code == 201
    assert Context.objects.get().agent == countdown
    assert Task.objects.order_by("-created_at").first().agent == countdown
    form = {"message": str(uuid.uuid4()), "text": "@echo hello"}
    page.post(reverse("web:begin", args=["countdown"]), form)
    assert Context.objects.get(title="@echo hello").agent == echo


def test_a_chosen_model_is_kept_for_the_session(page, settings):
    settings.LLM_MODEL, settings.LLM_MODELS = "usual", ["better", "quick"]
    clerk()
    form = {"message": str(uuid.uuid4()), "text": "hello", "model": "better"}
    for _ in range(2):
        assert page.post(reverse("web:begin", args=["clerk"]), form).status_code == 201
    context = Context.objects.get()
    assert (context.options, context.title) == ({"model": "better"}, "hello")
    address = reverse("web:switch", args=[context.pk])
    assert page.post(address, {"agent": "clerk", "model": "dear"}).status_code == 422
    assert page.post(address, {"agent": "clerk", "model": "quick"}).status_code == 200
    context.refresh_from_db()
    assert [one.name for one in offered_models(context.agent, context.options) if one.is_chosen] == ["quick"]
    [changed] = [one for one in entries_of(context, list(Event.objects.all())) if one["type"] == "agent_switched"]
    assert changed["isKept"], "the conversation goes on with the same agent"


def test_connected_models_are_offered_by_name():
    home = {"base_url": "https://a.example/v1", "model": "small"}
    ModelConnection.objects.create(name="Home", slug="home", **home)
    offers = [{"name": "large", "is_choice": True}, {"name": "hidden", "is_choice": False}]
    ModelConnection.objects.create(name="Cloud", slug="cloud", offers=offers, **home)
    current.forget()
    offered = offered_models(clerk())
    assert [(one.name, one.label) for one in offered] == [("small", "small"), ("large@cloud", "large (Cloud)")]
