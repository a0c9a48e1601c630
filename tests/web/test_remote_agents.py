"""People add remote agents and find agents on pages."""

import json

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

import outbound
from apps.agents.models import Agent
from apps.engine.handlers import Impairment
from apps.installation.models import NetworkAllowance
from apps.remote.health_checks import health_problem
from apps.remote.models import RemoteAgent, RemoteCredential
from apps.web import allowances
from tests.remote.card_server import WELL_KNOWN
from tests.remote.conftest import cards_at, outward  # noqa: F401 fixtures

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def page(client, ada):
    client.force_login(ada)
    return client


def add(page, **form):
    return page.post(reverse("web:add-agent"), form)


def looked(page, **form):
    response = add(page, **form)
    assert response.status_code == 200
    adding = response.context["form"]
    assert adding.problems == {}, adding.problems
    return {**form, "digest": adding.preview.sha256, "slug": response.context["slug"]}


@pytest.fixture
def served(cards_at):  # noqa: F811
    cards_at.pages[WELL_KNOWN] = cards_at.card(name="Weather <b>station</b>")
    return cards_at


def test_by_its_address_it_is_looked_at_then_registered_for_the_person_alone(page, served, ada, bob, client):
    shown = add(page, url=served.url).content.decode()
    assert "Weather &lt;b&gt;station&lt;/b&gt;" in shown
    assert served.url in shown
    assert "unsigned" in shown.lower()
    assert not Agent.objects.exists()
    registered = add(page, **looked(page, url=served.url))
    agent = Agent.objects.get()
    assert registered.headers["Location"] == reverse("web:agent", args=[agent.slug])
    assert (agent.access, agent.workspace) == ("workspace", ada.personal_workspace)
    assert RemoteAgent.objects.get().registered_by == ada
    about = page.get(registered.headers["Location"]).content.decode()
    assert "Remote server" in about
    client.force_login(bob)
    assert client.get(reverse("web:agent", args=[agent.slug])).status_code == 404
    card = json.dumps(served.card(name="Pasted"))
    client.logout()
    assert add(client, card=card).status_code == 302
    client.force_login(ada)
    refused = add(page, **looked(page, card=card), minutes="soon")
    assert "minutes" in refused.context["form"].problems
    add(page, **looked(page, card=card), minutes="1.5")
    pasted = RemoteAgent.objects.get(agent__name="Pasted")
    assert (pasted.card_url, pasted.agent.time_limit, agent.time_limit) == ("", 90, None)


def test_a_card_near_by_is_offered(page, served):
    offered = add(page, url=f"{served.url}/a/b")
    [offer] = offered.context["form"].offers
    assert f'value="{offer}"' in offered.text
    assert add(page, url=offer).context["form"].preview.found.url == offer


def test_a_private_address_is_allowed_together_with_the_agent(page, served, settings, ada, bob, client):
    settings.OUTBOUND_ALLOW = []
    outbound.configure([])
    entry = served.url.removeprefix("http://")
    refused = add(page, url=served.url, allow=entry).context["form"]  # ada is no operator
    assert (refused.problems["url"], served.requests) == (allowances.ASK_AN_OPERATOR, [])
    bob.is_staff = bob.is_superuser = True
    bob.save()
    client.force_login(bob)
    asked = add(client, url=served.url).context["form"]
    assert (asked.url, asked.private, served.requests) == (served.url, entry, [])
    form = looked(client, url=served.url, allow=[entry, "10.9.8.7:1"])
    assert not NetworkAllowance.objects.exists()
    assert add(client, **form).status_code == 302
    assert list(NetworkAllowance.objects.values_list("entry", "added_by")) == [(entry, bob.pk)]


def test_what_cannot_be_used_is_said_by_its_field(page, outward):  # noqa: F811
    for form, field, words in [
        ({}, "url", "paste the card"),
        ({"url": "nonsense"}, "url", ""),
        ({"url": "https://agents.invalid/"}, "url", ""),
        ({"url": "https://a.example/" + "x" * 3000}, "url", "at most"),
        ({"card": "{"}, "card", "no agent card"),
        ({"card": '{"skills": []}'}, "card", "names no address"),
    ]:
        response = add(page, **form)
        assert response.status_code == 200, form
        problems = response.context["form"].problems
        assert list(problems) == [field], form
        assert words in problems[field], form
        assert "Traceback" not in response.content.decode(), form
        assert f'id="{field}-problem"' in response.content.decode(), form


def test_a_card_that_changed_since_it_was_looked_at_is_shown_anew(page, served):
    form = looked(page, url=served.url)
    served.pages[WELL_KNOWN] = served.card(name="Somebody else")
    response = add(page, **form)
    assert "has changed in the meantime" in response.content.decode()
    assert not Agent.objects.exists()
    add(page, **form | {"digest": response.context["form"].preview.sha256})
    assert Agent.objects.get().name == "Somebody else"


def test_a_name_that_is_taken_is_refused_and_only_operators_choose_who_may_use_it(page, served, ada, echo):
    form = looked(page, url=served.url)
    Agent.objects.filter(pk=echo.pk).update(slug=form["slug"])
    assert list(add(page, **form).context["form"].problems) == ["slug"]
    echo.delete()
    refused = add(page, **form | {"access": "public"})
    assert list(refused.context["form"].problems) == ["access"]
    ada.user_permissions.add(Permission.objects.get(codename="add_agent"))
    add(page, **form | {"access": "authenticated"})
    assert Agent.objects.get().access == "authenticated"


def test_who_registers_an_agent_that_wants_a_credential_is_asked_for_theirs(page, served, ada):
    schemes = {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}}
    wants = {"securitySchemes": schemes, "securityRequirements": [{"schemes": {"key": {"list": []}}}]}
    served.pages[WELL_KNOWN] = served.card(name="Closed", **wants)
    assert "API key" in add(page, url=served.url).content.decode()
    registered = add(page, **looked(page, url=served.url))
    assert registered.headers["Location"] == reverse("web:agent-credentials", args=["closed"])
    assert RemoteCredential.objects.get().is_personal
    assert 'type="password"' in page.get(registered.headers["Location"]).content.decode()
    about = page.get(reverse("web:agent", args=["closed"])).content.decode()
    assert '<a href="/agents/closed/credentials">Needs a credential</a>' in about
    assert health_problem(Agent.objects.get()) == "", "each person brings their own"
    RemoteCredential.objects.update(is_personal=False)
    assert isinstance(health_problem(Agent.objects.get()), Impairment)
