"""Operators register remote agents, read their cards, and approve changes."""

import json

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.agents.models import Agent
from apps.remote import registration
from apps.remote.models import RemoteAgent
from tests.remote.card_server import WELL_KNOWN, card

pytestmark = pytest.mark.django_db

ADD = reverse("admin:remote_remoteagent_add")
LIST = reverse("admin:remote_remoteagent_changelist")
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def translator(cards_at):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    return registration.register_remote("translator", url=cards_at.url)


@pytest.fixture
def waiting(cards_at, translator):
    schemes = {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}}
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="Wants a key.", securitySchemes=schemes)
    registration.refresh_card(translator)
    return RemoteAgent.objects.get()


def page_of(remote):
    return reverse("admin:remote_remoteagent_change", args=[remote.pk])


def decide(client, remote, **values):
    return client.post(reverse("admin:remote_remoteagent_decide", args=[remote.pk]), values, follow=True)


def preview(client, **source):
    """The first step's page, and what the form of the second step begins with."""
    page = client.post(ADD, source)
    return page, begun(page)


def begun(page):
    return {name: value for name, value in page.context["form"].initial.items() if value is not None}


def test_an_address_and_two_steps_register_an_agent(cards_at, admin_client, admin_user):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    page, values = preview(admin_client, url=cards_at.url)
    for told in ("Translates texts.", "JSONRPC", f"{cards_at.url}/a2a", values["digest"], "The card is unsigned."):
        assert told in page.text
    assert not Agent.objects.exists()
    saved = admin_client.post(ADD, {**values, "access": "workspace"}, follow=True)
    agent = Agent.objects.get()
    assert (agent.slug, agent.kind, agent.access) == ("translator", "remote", "workspace")
    assert agent.is_open_to(admin_user.principal)
    assert not agent.has_open_card
    assert agent.remote.registered_by == admin_user
    assert agent.current_version.sha256 == values["digest"]
    assert saved.redirect_chain == [(page_of(agent.remote), 302)]


def test_all_of_a_card_is_text(cards_at, admin_client):
    skill = {"id": MARKUP, "name": MARKUP, "description": MARKUP, "tags": [MARKUP]}
    told = cards_at.card(name=MARKUP, description=MARKUP, skills=[skill], defaultInputModes=[MARKUP])
    told["provider"] = {"organization": MARKUP, "url": "javascript:alert(1)"}
    cards_at.pages[WELL_KNOWN] = told
    page, values = preview(admin_client, url=cards_at.url)
    assert MARKUP not in page.text
    admin_client.post(ADD, {**values, "access": "public"})
    remote = RemoteAgent.objects.get()
    cards_at.pages[WELL_KNOWN] = {**told, "version": MARKUP, "securitySchemes": {MARKUP: {"mtlsSecurityScheme": {}}}}
    assert registration.refresh_card(remote.agent).outcome == "waiting"
    urls = [page_of(remote), LIST, reverse("admin:agents_agent_change", args=[remote.agent_id])]
    for url in [*urls, reverse("admin:agents_agent_changelist"), reverse("admin:agents_agentversion_changelist")]:
        text = admin_client.get(url).text
        assert MARKUP not in text, url
        assert "alert(1)" in text, url
        assert 'href="javascript' not in text, url


def test_operators_approve_or_decline_what_waits(waiting, admin_client):
    text = admin_client.get(page_of(waiting)).text
    assert "Needs approval: another security scheme." in text
    for values in ({"version": 1}, {"version": "x"}, {}):
        assert "was not changed" in decide(admin_client, waiting, **{"do": "approve", **values}).text
        assert Agent.objects.get().description == "Translates texts."
    assert "Declined version 2 of Translator." in decide(admin_client, waiting, do="decline", version=2).text
    remote = RemoteAgent.objects.get()
    assert (remote.agent.description, remote.declined.number) == ("Translates texts.", 2)
    RemoteAgent.objects.update(proposed=remote.declined, declined=None)
    decide(admin_client, waiting, do="approve", version=2)
    assert Agent.objects.get().description == "Wants a key."
    assert any("Approved version 2" in one.get_change_message() for one in LogEntry.objects.all())


def test_viewers_decide_nothing(client, ada, waiting):
    ada.is_staff = True
    ada.save()
    ada.user_permissions.add(Permission.objects.get(codename="view_remoteagent"))
    client.force_login(ada)
    page = client.get(page_of(waiting)).text
    assert ("for approval: version 2" in page, "Approve version" in page) == (True, False)
    assert decide(client, waiting, do="approve", version=2).status_code == 403
    assert client.get(ADD).status_code == 403
    assert Agent.objects.get().description == "Translates texts."


def test_an_agent_is_given_another_card(translator, admin_client):
    url = reverse("admin:remote_remoteagent_card", args=[translator.remote.pk])
    assert url in admin_client.get(page_of(translator.remote)).text
    Agent.objects.update(access="public")
    pasted = json.dumps(card("https://agents.example/a2a", name="Moved"))
    page = admin_client.post(url, {"card": pasted})
    assert "What changes from version 1" in page.text
    assert "https://agents.example/a2a" in page.text
    admin_client.post(url, begun(page))
    agent = Agent.objects.get()
    assert (agent.name, agent.access, agent.remote.origin) == ("Moved", "public", "https://agents.example:443")
    assert (agent.slug, agent.current_version.number, agent.remote.card_url) == ("translator", 2, "")


def refresh(client, remote):
    button = reverse("admin:remote_remoteagent_refresh", args=[remote.pk])
    return client.get(client.post(button, {"_form_submitted": "True"})["HX-Redirect"])


def test_operators_refresh_a_card(cards_at, translator, admin_client):
    remote = translator.remote
    assert "card is unchanged" in refresh(admin_client, remote).text
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="Other.")
    assert "was updated from its card" in refresh(admin_client, remote).text
    cards_at.pages[WELL_KNOWN] = (500, {}, b"")
    page = refresh(admin_client, remote)
    assert page.text.count("status 500") == 2
    told = AuditEntry.objects.filter(action=AuditAction.ADMIN_CHANGED, object_key=str(remote.pk))
    assert told.count() == 3
