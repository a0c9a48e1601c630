"""The catalogue of agents, the page of each, and how people add remote agents and make their own."""

import io
import json

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from PIL import Image

from apps.accounts import workspaces
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import Membership, User
from apps.agents.definitions import Definition, tool_server_headers
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.agents.tool_policies import policies_of
from apps.engine.turns.handlers import Impairment
from apps.installation.models import NetworkAllowance, SharedToolServer
from apps.remote.health_checks import health_problem
from apps.remote.models import RemoteAgent, RemoteCredential
from apps.web import allowances
from parley import outbound
from tests.clients import telling
from tests.remote.card_server import WELL_KNOWN
from tests.remote.conftest import cards_at, outward  # noqa: F401 fixtures

pytestmark = pytest.mark.django_db(transaction=True)


def test_agents_are_listed_by_category_and_use(ada_browser, ada, echo, countdown):
    def listed():
        groups = ada_browser.get("/agents").context["found"].groups
        return [(name, [agent.slug for agent in agents]) for name, agents in groups]

    [(_, slugs)] = listed()
    assert slugs == ["countdown", "echo"]
    own = telling.finished(ada, echo)
    [(_, slugs)] = listed()
    assert slugs == ["echo", "countdown"], "those of late come first"
    Agent.objects.filter(pk=countdown.pk).update(category="Numbers")
    assert listed() == [("Numbers", ["countdown"]), ("Other", ["echo"])]
    Agent.objects.filter(pk=countdown.pk).update(listed=False)
    for address in ("/agents", "/agents?q=countdown", "/find", "/find?q=countdown"):
        assert "/agents/countdown" not in ada_browser.get(address).text, address
    assert ada_browser.get("/agents/countdown").context["recent_sessions"] == []
    page = ada_browser.get("/agents/echo")
    assert ([one.pk for one in page.context["recent_sessions"]], "Version 1" in page.text) == ([own.context], False)
    ada.user_permissions.add(Permission.objects.get(codename="view_agentversion"))
    assert "Version 1</a> (current)" in ada_browser.get("/agents/echo").text


def test_unwell_agents_say_so_and_why_to_operators(ada_browser, ada, echo):
    Agent.objects.update(health="unavailable", ailment="The module gone cannot be imported.")
    for is_staff in (False, True):
        User.objects.filter(pk=ada.pk).update(is_staff=is_staff)
        for path in ("/agents", "/agents/echo"):
            page = ada_browser.get(path).text
            assert ("Does not work now" in page, "cannot be imported" in page) == (True, is_staff), path
    for changed, told in (({"health": "degraded"}, "Often fails"), ({"activity": "paused"}, "Paused")):
        Agent.objects.update(**changed)
        assert told in ada_browser.get("/agents").text


def add(page, **form):
    return page.post(reverse("web:add-agent"), form)


def looked(page, **form):
    response = add(page, **form)
    assert response.status_code == 200
    adding = response.context["form"]
    assert not adding.errors, adding.errors
    return {**form, **{name: adding.initial[name] for name in ("digest", "slug")}}


@pytest.fixture
def served(cards_at):  # noqa: F811
    cards_at.pages[WELL_KNOWN] = cards_at.card(name="Weather <b>station</b>")
    return cards_at


def test_agent_is_previewed_then_registered_for_the_person(ada_browser, served, ada):
    [offer] = add(ada_browser, url=f"{served.url}/a/b").context["offers"]  # it is near by
    shown = add(ada_browser, url=offer).text
    assert [words in shown for words in ("Weather &lt;b&gt;station&lt;/b&gt;", offer)] == [True, True]
    assert not Agent.objects.exists()
    registered = add(ada_browser, **looked(ada_browser, url=offer))
    agent = Agent.objects.get()
    assert registered["Location"] == reverse("web:agent", args=[agent.slug])
    assert (agent.access, agent.workspace) == ("workspace", ada.personal_workspace)
    assert RemoteAgent.objects.get().registered_by == ada
    assert "Remote server" in ada_browser.get(registered["Location"]).text
    pasted = looked(ada_browser, card=json.dumps(served.card(name="Pasted")))
    assert "minutes" in add(ada_browser, **pasted, minutes="soon").context["form"].errors
    add(ada_browser, **pasted, minutes="1.5")
    assert RemoteAgent.objects.get(agent__name="Pasted").agent.time_limit == 90


def test_operator_allows_a_private_address_with_the_agent(ada_browser, served, settings, admin_client, admin_user):
    settings.OUTBOUND_ALLOW = []
    outbound.configure([])
    entry = served.url.removeprefix("http://")
    refused = add(ada_browser, url=served.url, allow=entry).context["form"]  # ada is no operator
    assert refused.errors["url"] == [allowances.ASK_AN_OPERATOR]
    asked = add(admin_client, url=served.url).context["form"]
    assert (asked["url"].value(), asked.fields["allow"].choices) == (served.url, [(entry, entry)])
    assert served.requests == []
    form = looked(admin_client, url=served.url, allow=[entry, "10.9.8.7:1"])
    assert not NetworkAllowance.objects.exists()
    assert add(admin_client, **form).status_code == 302
    assert list(NetworkAllowance.objects.values_list("entry", "added_by")) == [(entry, admin_user.pk)]


def test_changed_cards_and_taken_slugs_are_shown_again(ada_browser, served, ada, echo):
    form = looked(ada_browser, url=served.url)
    served.pages[WELL_KNOWN] = served.card(name="Somebody else")
    form["digest"] = add(ada_browser, **form).context["form"].initial["digest"]
    assert Agent.objects.get() == echo
    Agent.objects.filter(pk=echo.pk).update(slug=form["slug"])
    assert list(add(ada_browser, **form).context["form"].errors) == ["slug"]
    echo.delete()
    assert list(add(ada_browser, **form | {"access": "public"}).context["form"].errors) == ["access"]
    ada.user_permissions.add(Permission.objects.get(codename="add_agent"))
    add(ada_browser, **form | {"access": "authenticated"})
    assert (Agent.objects.get().name, Agent.objects.get().access) == ("Somebody else", "authenticated")


def test_who_registers_is_asked_for_a_wanted_credential(ada_browser, bob_browser, served):
    schemes = {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}}
    wants = {"securitySchemes": schemes, "securityRequirements": [{"schemes": {"key": {"list": []}}}]}
    served.pages[WELL_KNOWN] = served.card(name="Closed", **wants)
    credentials = reverse("web:agent-credentials", args=["closed"])
    assert add(ada_browser, **looked(ada_browser, url=served.url))["Location"] == credentials
    assert RemoteCredential.objects.get().is_personal
    assert 'type="password"' in ada_browser.get(credentials).text
    assert bob_browser.get(credentials).status_code == 404
    assert f'href="{credentials}"' in ada_browser.get("/agents/closed").text
    assert health_problem(Agent.objects.get()) == "", "each person brings their own"
    RemoteCredential.objects.update(is_personal=False)
    assert isinstance(health_problem(Agent.objects.get()), Impairment)


FORM = {"name": "Letter writer", "instructions": "Write letters.", "access": "owner", "max_steps": 10, "minutes": 10}


def make(browser, **fields):
    return browser.post("/agents/new", FORM | fields)


def change(browser, slug="letter-writer", **fields):
    version = Agent.objects.get(slug=slug).current_version
    return browser.post(f"/agents/{slug}/edit", FORM | {"opened": version.number} | fields)


@pytest.fixture
def team(ada, bob):
    """Ada owns it, and Bob is a member; both work in it."""
    made = workspaces.create_workspace(ada.principal, "Team")
    Membership.objects.create(workspace=made, user=bob)
    User.objects.filter(pk__in=(ada.pk, bob.pk)).update(current_workspace=made)
    return made


def test_person_makes_an_agent_in_versions(ada_browser, ada):
    made = make(ada_browser, starters="Write to my bank\nWrite to a friend")
    assert made["Location"] == "/agents/letter-writer"
    agent = Agent.objects.get(slug="letter-writer")
    assert (agent.owner, agent.workspace, agent.access) == (ada, ada.personal_workspace, "owner")
    assert agent.skills[0]["examples"] == ["Write to my bank", "Write to a friend"]
    assert "Write to a friend" in ada_browser.get("/?agent=letter-writer&part=tries").text
    for more in ({}, {"keep_thoughts": "on"}):
        change(ada_browser, instructions="Write short letters.", **more)
    agent.refresh_from_db()
    assert (agent.current_version.number, agent.keep_thoughts) == (2, True)
    assert ada_browser.post("/agents/letter-writer/edit", FORM | {"opened": 1}).status_code == 422, "it is stale"
    acts = list(AuditEntry.objects.filter(group="agent").order_by("number").values_list("action", flat=True))
    assert acts == ["agent.registered", "agent.published", "agent.changed"]


def test_members_make_agents_where_allowed(ada_browser, bob_browser, team):
    assert make(bob_browser).status_code == 422
    ada_browser.post(f"/settings/workspaces/{team.pk}/name", {"name": "Team", "members_make_agents": "on"})
    assert bob_browser.post(f"/settings/workspaces/{team.pk}/name", {"name": "Team"}).status_code == 422
    assert make(bob_browser).status_code == 302
    assert ada_browser.get("/agents/letter-writer").status_code == 404
    assert change(ada_browser, description="Better.").status_code == 302, "managers edit what members made"
    make(ada_browser, name="Ada's", access="workspace")
    assert bob_browser.get("/agents/adas").status_code == 200
    assert bob_browser.get("/agents/adas/edit").status_code == 404


def test_agents_get_only_what_their_maker_may_use(ada_browser, echo, settings):
    closed = register_hosted("closed", "examples.agents.echo:Echo", access="groups")
    foreign = {"tools": ["rm_rf"]}, {"agents": [closed.slug]}, {"servers": ["https://tools.example/mcp"]}
    for fields in (*foreign, {"access": "public"}, {"access": "authenticated"}, {"model": "expensive"}):
        assert make(ada_browser, **fields).status_code == 422, fields
    settings.WORKSPACE_AGENTS = 1
    assert make(ada_browser, agents=[echo.slug], tools=["current_time"]).status_code == 302
    assert make(ada_browser, name="Another").status_code == 422, "a workspace has so many agents"


def test_shared_tool_server_brings_its_secret_and_asks(ada_browser, admin_client):
    url, admin = "https://tools.example/mcp", "/admin/installation/sharedtoolserver"
    given = {"name": "Mail", "description": "Sends letters.", "url": url, "header": "X-Key", "header_value": "s3cret"}
    assert admin_client.post(f"{admin}/add/", given).status_code == 302
    row = SharedToolServer.objects.get()
    assert admin_client.post(f"{admin}/{row.pk}/change/", {**given, "header_value": ""}).status_code == 302
    make(ada_browser, servers=[url])
    agent = Agent.objects.get(slug="letter-writer")
    assert policies_of(agent) == {"mcp:*": "ask"}
    assert tool_server_headers(agent, Definition.read(agent.current_version.content)) == {url: {"X-Key": "s3cret"}}
    assert "s3cret" not in ada_browser.get("/agents/letter-writer/edit").text


def test_draft_is_tried_without_saving_it(ada_browser, ada, bob):
    make(ada_browser)
    tried = ada_browser.post("/agents/draft", FORM | {"of": "letter-writer", "opened": 1, "instructions": "Other."})
    draft = Agent.objects.get(slug=tried.json()["path"].rpartition("/")[2])
    assert draft.current_version.content["instructions"] == "Other."
    assert (draft.is_open_to(ada.principal), draft.is_open_to(bob.principal)) == (True, False)
    assert Agent.objects.get(slug="letter-writer").current_version.content["instructions"] == FORM["instructions"]
    assert ada_browser.post("/agents/draft", FORM | {"name": ""}).json()["path"] == tried.json()["path"]
    assert "instructions" in ada_browser.post("/agents/draft", {"name": "Empty"}).json()["problems"]


def test_picture_is_drawn_anew(ada_browser):
    written = io.BytesIO()
    Image.new("RGB", (400, 300), "red").save(written, "JPEG")
    drawing = written.getvalue()
    make(ada_browser, name="Red", drawing=SimpleUploadedFile("a", drawing + b"<script>", "text/html"))
    shown = ada_browser.get("/agents/red/picture")
    assert (shown["Content-Type"], shown["X-Content-Type-Options"]) == ("image/png", "nosniff")
    assert Image.open(io.BytesIO(shown.content)).size == (192, 192)
    assert b"<script>" not in shown.content
    for content in (b"<svg/>", drawing[:60]):
        assert make(ada_browser, drawing=SimpleUploadedFile("a.png", content, "image/png")).status_code == 422, content


def test_deleting_keeps_an_agent_that_has_sessions(ada_browser, ada):
    for name in ("Unused", "Used"):
        make(ada_browser, name=name)
    telling.finished(ada, Agent.objects.get(slug="used"))
    for slug in ("unused", "used"):
        assert ada_browser.post(f"/agents/{slug}/delete").status_code == 302
    assert list(Agent.objects.values_list("slug", "is_enabled")) == [("used", False)]
    ada_browser.post("/agents/used/delete", {"restore": ""})
    assert ada_browser.get("/agents/used").status_code == 200
