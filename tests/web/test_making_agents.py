"""People make agents in the app: who may, what they may give them, trying, and deleting."""

import io

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from PIL import Image

from apps.accounts import workspaces
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import Membership, User
from apps.agents.definitions import Definition, tool_server_headers
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.agents.tool_policies import policies_of
from apps.installation.models import SharedToolServer
from tests.web import telling

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


def drawing(kind="PNG"):
    written = io.BytesIO()
    Image.new("RGB", (400, 300), "red").save(written, kind)
    return written.getvalue()


def test_a_person_makes_an_agent_for_themselves(ada_browser, ada, bob_browser):
    assert (
        make(ada_browser, starters="Write to my bank\nWrite to a friend").headers["Location"] == "/agents/letter-writer"
    )
    agent = Agent.objects.get(slug="letter-writer")
    assert (agent.owner, agent.workspace, agent.access) == (ada, ada.personal_workspace, "owner")
    assert agent.skills[0]["examples"] == ["Write to my bank", "Write to a friend"]
    assert "Write to a friend" in ada_browser.get("/?agent=letter-writer&part=tries").content.decode()
    for path in ("/agents/letter-writer", "/agents/letter-writer/edit", "/agents/letter-writer/picture"):
        assert bob_browser.get(path).status_code == 404


def test_each_change_of_the_definition_makes_a_version(ada_browser, ada):
    make(ada_browser)
    change(ada_browser, instructions="Write short letters.")
    change(ada_browser, instructions="Write short letters.", keep_thoughts="on")
    agent = Agent.objects.get(slug="letter-writer")
    assert (agent.current_version.number, agent.keep_thoughts) == (2, True)
    stale = ada_browser.post("/agents/letter-writer/edit", FORM | {"opened": 1})
    assert stale.status_code == 422
    acts = list(AuditEntry.objects.filter(group="agent").order_by("number").values_list("action", flat=True))
    assert acts == ["agent.registered", "agent.published", "agent.changed"]


def test_members_make_agents_where_their_workspace_lets_them(ada_browser, bob_browser, team):
    assert make(bob_browser).status_code == 422
    ada_browser.post(f"/settings/workspaces/{team.pk}/agents", {"members_make_agents": "on"})
    assert make(bob_browser).status_code == 302
    assert bob_browser.post(f"/settings/workspaces/{team.pk}/agents", {}).status_code == 302
    team.refresh_from_db()
    assert team.members_make_agents


def test_managers_edit_what_members_made(ada_browser, bob_browser, bob, team):
    workspaces.let_members_make_agents(team.memberships.get(role="owner").user.principal_in(team.pk), team.pk, True)
    make(bob_browser)
    assert ada_browser.get("/agents/letter-writer").status_code == 404
    assert change(ada_browser, description="Better.").status_code == 302
    make(ada_browser, name="Ada's", access="workspace")
    assert bob_browser.get("/agents/adas").status_code == 200
    assert bob_browser.get("/agents/adas/edit").status_code == 404


def test_a_workspace_has_a_limited_number_of_agents(ada_browser, settings):
    settings.WORKSPACE_AGENTS = 1
    assert make(ada_browser).status_code == 302
    assert make(ada_browser, name="Another").status_code == 422


def test_nobody_gives_an_agent_what_they_may_not_use(ada_browser, echo):
    closed = register_hosted("closed", "examples.agents.echo:Echo", access="groups")
    foreign = {"tools": ["rm_rf"]}, {"agents": [closed.slug]}, {"servers": ["https://tools.example/mcp"]}
    for fields in (*foreign, {"access": "public"}, {"access": "authenticated"}, {"model": "expensive"}):
        assert make(ada_browser, **fields).status_code == 422, fields
    assert make(ada_browser, agents=[echo.slug], tools=["current_time"]).status_code == 302


def test_a_shared_tool_server_brings_its_secret_and_asks(ada_browser):
    url = "https://tools.example/mcp"
    SharedToolServer.objects.create(name="Tickets", url=url, header="X-Key", secret="s3cret")
    make(ada_browser, servers=[url])
    agent = Agent.objects.get(slug="letter-writer")
    assert policies_of(agent) == {"mcp:*": "ask"}
    assert tool_server_headers(agent, Definition.read(agent.current_version.content)) == {url: {"X-Key": "s3cret"}}
    assert "s3cret" not in ada_browser.get("/agents/letter-writer/edit").content.decode()


def test_a_draft_is_tried_without_saving_it(ada_browser, ada, bob):
    make(ada_browser)
    tried = ada_browser.post("/agents/draft", FORM | {"of": "letter-writer", "opened": 1, "instructions": "Other."})
    draft = Agent.objects.get(slug=tried.json()["path"].rpartition("/")[2])
    assert draft.current_version.content["instructions"] == "Other."
    assert draft.is_open_to(ada.principal)
    assert not draft.is_open_to(bob.principal)
    assert Agent.objects.get(slug="letter-writer").current_version.content["instructions"] == "Write letters."
    again = ada_browser.post("/agents/draft", FORM | {"name": ""})
    assert again.json()["path"] == tried.json()["path"]
    assert ada_browser.post("/agents/draft", {"name": "Empty"}).json()["problems"].keys() >= {"instructions"}


def test_a_picture_is_drawn_anew(ada_browser):
    for kind in ("PNG", "JPEG", "WEBP"):
        Agent.objects.all().delete()
        make(ada_browser, drawing=SimpleUploadedFile("a", drawing(kind) + b"<script>", "text/html"))
        shown = ada_browser.get("/agents/letter-writer/picture")
        assert (shown["Content-Type"], shown["X-Content-Type-Options"]) == ("image/png", "nosniff")
        assert Image.open(io.BytesIO(shown.content)).size == (192, 192)
        assert b"<script>" not in shown.content


@pytest.mark.parametrize("content", [b"", b"<svg/>", b"GIF89a", drawing()[:60]])
def test_what_is_no_picture_is_refused(ada_browser, content):
    assert make(ada_browser, drawing=SimpleUploadedFile("a.png", content, "image/png")).status_code == 422


def test_deleting_keeps_an_agent_that_has_sessions(ada_browser, ada):
    make(ada_browser)
    make(ada_browser, name="Used")
    used = Agent.objects.get(slug="used")
    telling.finished(ada, used, {"a.md": telling.text("a", "text/markdown")})
    for slug in ("letter-writer", "used"):
        assert ada_browser.post(f"/agents/{slug}/delete").status_code == 302
    used.refresh_from_db()
    assert not used.is_enabled
    assert not Agent.objects.filter(slug="letter-writer").exists()
    ada_browser.post("/agents/used/delete", {"restore": ""})
    assert ada_browser.get("/agents/used").status_code == 200


def test_an_operator_adds_a_tool_server(admin_client):
    url = "https://tools.example.org/mcp"
    given = {"name": "Mail", "description": "Sends letters.", "url": url, "header": "X-Key", "header_value": "s3cret"}
    assert admin_client.post("/admin/installation/sharedtoolserver/add/", given).status_code == 302
    kept = {**given, "header_value": "", "name": "Post"}
    row = SharedToolServer.objects.get()
    assert admin_client.post(f"/admin/installation/sharedtoolserver/{row.pk}/change/", kept).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.secret) == ("Post", "s3cret")
