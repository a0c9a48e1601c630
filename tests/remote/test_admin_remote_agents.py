"""Operators register remote agents, read their cards, and approve changes."""

import json

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

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


def act(client, remote, **values):
    return client.post(reverse("admin:remote_remoteagent_act", args=[remote.pk]), values, follow=True)


def preview(client, source):
    page = client.post(ADD, {"source": source})
    assert page.status_code == 200
    return page, dict(page.context["form"].initial)


def test_a_card_near_by_is_offered(cards_at, admin_client):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    page = admin_client.post(ADD, {"source": f"{cards_at.url}/a/b"})
    [offer] = page.context["offers"]
    assert f'value="{offer}"' in page.text
    assert "sha256" in preview(admin_client, ["wrong", offer])[1]


def test_notes_on_the_card_are_shown(cards_at, admin_client, translator):
    cards_at.pages[WELL_KNOWN] = {"name": "A", "url": f"{cards_at.url}/a2a", "skills": ["Tell jokes"]}
    note = "The card does not say its version; 1.0 is assumed."
    assert note in preview(admin_client, cards_at.url)[0].text
    registration.register_remote("translator", url=cards_at.url, update=True)
    assert note in admin_client.get(page_of(translator.remote)).text


def test_a_url_a_look_and_a_click_register_an_agent(cards_at, admin_client, admin_user):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    page, values = preview(admin_client, cards_at.url)
    for told in ("Translates texts.", "JSONRPC", f"{cards_at.url}/a2a", values["sha256"], "The card is unsigned."):
        assert told in page.text
    assert not Agent.objects.exists()
    saved = admin_client.post(ADD, {**values, "access": "workspace"}, follow=True)
    agent = Agent.objects.get()
    assert (agent.slug, agent.kind, agent.access) == ("translator", "remote", "workspace")
    assert agent.is_open_to(admin_user.principal)
    assert not agent.has_open_card
    assert agent.remote.registered_by == admin_user
    assert agent.current_version.sha256 == values["sha256"]
    assert saved.redirect_chain == [(page_of(agent.remote), 302)]
    assert LogEntry.objects.get().get_change_message() == "Registered, version 1."
    _, values = preview(admin_client, json.dumps(card("https://agents.example/a2a")))
    admin_client.post(ADD, {**values, "slug": "pasted", "access": "authenticated"})
    assert RemoteAgent.objects.get(agent__slug="pasted").card_url == ""


def test_what_cannot_be_registered_is_said_at_the_field(admin_client, cards_at, translator, echo):
    for source, sentence in (
        ("", "This field is required."),
        ("http://10.0.0.1/", "private network"),
        ('{"skills": []}', "names no address"),
        ("{", "This is no agent card."),
    ):
        page = admin_client.post(ADD, {"source": source})
        assert sentence in page.context["form"].errors["source"][0]
        assert sentence in page.text
    _, values = preview(admin_client, cards_at.url)
    for slug in ("translator", "echo", "No Slug"):
        page = admin_client.post(ADD, {**values, "slug": slug, "access": "public"})
        assert page.context["form"].errors["slug"]
    assert Agent.objects.count() == 2


def test_a_card_that_changed_after_the_look_is_shown_again(cards_at, admin_client):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    _, values = preview(admin_client, cards_at.url)
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="Something else.")
    page = admin_client.post(ADD, {**values, "access": "public"})
    assert page.context["notes"][0].startswith("The card changed")
    assert "Something else." in page.text
    assert not Agent.objects.exists()
    admin_client.post(ADD, {**page.context["form"].initial, "access": "public"})
    assert Agent.objects.get().description == "Something else."


def test_all_of_a_card_is_text(cards_at, admin_client):
    skill = {"id": MARKUP, "name": MARKUP, "description": MARKUP, "tags": [MARKUP]}
    told = cards_at.card(name=MARKUP, description=MARKUP, skills=[skill], defaultInputModes=[MARKUP])
    told["provider"] = {"organization": MARKUP, "url": "javascript:alert(1)"}
    cards_at.pages[WELL_KNOWN] = told
    page, values = preview(admin_client, cards_at.url)
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


def test_an_operator_sees_what_waits_and_approves_just_that(waiting, admin_client):
    text = admin_client.get(page_of(waiting)).text
    for told in ("for approval: version 2", "Needs approval: another security scheme.", "apiKeySecurityScheme"):
        assert told in text
    assert "needs approval" in admin_client.get(LIST).text
    for values in ({"version": 1}, {"version": 7}, {"version": "x"}, {}):
        assert "was not changed" in act(admin_client, waiting, do="approve", **values).text
        assert Agent.objects.get().description == "Translates texts."
    page = act(admin_client, waiting, do="approve", version=2)
    assert "Approved version 2 of Translator." in page.text
    assert "for approval: version" not in page.text
    assert Agent.objects.get().description == "Wants a key."
    assert LogEntry.objects.get().get_change_message() == "Approved version 2."


def test_an_operator_declines(waiting, admin_client):
    assert "Declined version 2 of Translator." in act(admin_client, waiting, do="decline", version=2).text
    agent = Agent.objects.get()
    assert (agent.description, agent.remote.declined.number) == ("Translates texts.", 2)


def test_an_operator_looks_at_a_card_again(cards_at, translator, admin_client):
    remote = translator.remote
    assert "card is unchanged" in act(admin_client, remote, do="refresh").text
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="Other.")
    assert "was updated from its card" in act(admin_client, remote, do="refresh").text
    cards_at.pages[WELL_KNOWN] = (500, {}, b"")
    page = act(admin_client, remote, do="refresh")
    assert page.text.count("status 500") == 2
    chosen = {"action": "refresh_selected", "_selected_action": [remote.pk]}
    assert "was not changed" in admin_client.post(LIST, chosen, follow=True).text


def test_who_may_only_look_decides_nothing(client, ada, waiting):
    ada.is_staff = True
    ada.save()
    ada.user_permissions.add(Permission.objects.get(codename="view_remoteagent"))
    client.force_login(ada)
    page = client.get(page_of(waiting))
    assert page.status_code == 200
    assert "for approval: version 2" in page.text
    assert "Approve version" not in page.text
    assert "Refresh the card" not in page.text
    assert act(client, waiting, do="approve", version=2).status_code == 403
    assert client.get(ADD).status_code == 403
    assert client.get(reverse("admin:remote_remoteagent_act", args=[waiting.pk])).status_code == 405
    assert Agent.objects.get().description == "Translates texts."


def test_policies_are_set_on_the_agents_own_page_and_the_cards_words_are_not(translator, admin_client):
    admin_client.post(page_of(translator.remote), {"history_messages": 3, "card_url": "https://evil.example/"})
    remote = RemoteAgent.objects.get()
    assert (remote.history_messages, remote.card_url == "https://evil.example/") == (3, False)
    url = reverse("admin:agents_agent_change", args=[translator.pk])
    values = {
        "slug": "translator", "is_enabled": "on", "access": "public", "mcp_tools": "agent", "on_busy": "reject",
        "time_limit": 30, "attempts": 1, "cost": "", "tools": "", "name": "Mine now", "skills": "[]",
        "workspace": translator.workspace_id,
    }  # fmt: skip
    saved = admin_client.post(url, values)
    assert saved.status_code == 302, saved.context["adminform"].form.errors
    agent = Agent.objects.get()
    assert (agent.access, agent.on_busy, agent.time_limit, agent.name) == ("public", "reject", 30, "Translator")
    assert agent.skills != []
    assert agent.versions.count() == 1


def test_there_is_no_page_of_an_agent_that_there_is_not(admin_client):
    for number in (0, 10**40):
        assert admin_client.get(f"/admin/remote/remoteagent/of/{number}/").status_code == 404
        assert admin_client.get(f"/admin/remote/remotecredential/of/{number}/").status_code == 404


def test_the_list_of_agents_is_narrowed_by_what_cards_say(translator, echo, admin_client):
    url = reverse("admin:agents_agent_changelist")
    for asked in ({"tag": "language"}, {"skill": "Translate"}, {"kind__exact": "remote"}):
        assert [agent.slug for agent in admin_client.get(url, asked).context["cl"].result_list] == ["translator"]
    both = admin_client.get(url, {"mode": "text/plain"}).context["cl"].result_list
    assert {agent.slug for agent in both} == {"translator", "echo"}
    assert not admin_client.get(url, {"tag": "nothing"}).context["cl"].result_list


def test_the_list_of_remote_agents_costs_no_more_for_many(cards_at, admin_client, django_assert_max_num_queries):
    for number in range(10):
        cards_at.pages["/card.json"] = cards_at.card(name=f"Agent {number}")
        registration.register_remote(f"agent-{number}", url=f"{cards_at.url}/card.json")
    with django_assert_max_num_queries(10):
        page = admin_client.get(LIST)
    assert len(page.context["cl"].result_list) == 10
    assert page.text.count("state-stopped") >= 10


def test_an_agent_is_given_another_card_by_who_looked_at_it(translator, admin_client):
    url = reverse("admin:remote_remoteagent_card", args=[translator.remote.pk])
    assert url in admin_client.get(page_of(translator.remote)).text
    Agent.objects.update(access="public")
    pasted = json.dumps(card("https://agents.example/a2a", name="Moved"))
    page = admin_client.post(url, {"source": pasted})
    assert "What changes from version 1" in page.text
    assert "https://agents.example/a2a" in page.text
    admin_client.post(url, page.context["form"].initial)
    agent = Agent.objects.get()
    assert (agent.name, agent.access, agent.remote.origin) == ("Moved", "public", "https://agents.example:443")
    assert (agent.slug, agent.current_version.number, agent.remote.card_url) == ("translator", 2, "")
