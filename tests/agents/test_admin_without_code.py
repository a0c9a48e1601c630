"""Operators make agents without code in a form; each change is a version."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

from agentkit.tools import ToolKind
from apps.accounts.audit_models import AuditEntry
from apps.agents.models import Agent, AgentVersion, ToolSecret
from apps.agents.tool_policies import policies_of, policy_for, set_policies
from tests.agents.definitions import clerk

pytestmark = pytest.mark.django_db

ADD = reverse("admin:agents_agent_add") + "?kind=model"
MCP = "https://tools.example.org/mcp"


def rows(prefix, *filled):
    """Form rows, with a blank one at the end."""
    blank = dict.fromkeys(filled[0] if filled else {}, "")
    sent = {f"{prefix}-TOTAL_FORMS": len(filled) + 1, f"{prefix}-INITIAL_FORMS": 0}
    for number, row in enumerate((*filled, blank)):
        sent |= {f"{prefix}-{number}-{name}": value for name, value in row.items()}
    return sent


def skill(**fields):
    return {"name": "Sort mail", "description": "Sorts it.", "tags": "", "examples": "", "id": "", **fields}


def server(**fields):
    return {"url": MCP, "header": "", "secret": "", **fields}


def form(skills=(), servers=(), **values):
    """The form's data; `None` omits a field."""
    standing = {
        "name": "Clerk", "slug": "clerk", "description": "Answers letters.", "is_enabled": "on", "opened": "",
        "instructions": "Answer in one sentence.", "model": "", "temperature": "", "max_tokens": "", "max_steps": "10",
        "streaming": "on", "input_modes": "text/*", "access": "authenticated", "mcp_tools": "off", "on_busy": "enqueue",
        "time_limit": "600", "attempts": "3", "workspace": "", "note": "",
    }  # fmt: skip
    sent = {**standing, **rows("skills", *skills), **rows("mcp_servers", *servers), **values}
    return {name: value for name, value in sent.items() if value is not None}


def add(client, **values):
    return client.post(ADD, form(**values))


def change(client, agent, **values):
    agent.refresh_from_db()
    return client.post(page_of(agent), form(opened=agent.current_version.number, **values))


def page_of(agent):
    return reverse("admin:agents_agent_change", args=[agent.pk])


def action_of(row, name):
    return reverse(f"admin:agents_{row._meta.model_name}_{name}", args=[row.pk])


def errors(answer):
    assert answer.status_code == 200
    return answer.context["adminform"].form.errors


def saved(answer):
    assert answer.status_code == 302, errors(answer)
    return Agent.objects.get(slug="clerk")


def test_an_agent_is_made_in_the_form(admin_client, admin_user, echo):
    answer = add(
        admin_client,
        skills=[skill(tags="mail, letters", examples="Sort this.\n\nAnd that.")],
        servers=[server(header="X-Key", secret="s3cret value")],
        tools=["calculate", "read_file"],
        agents=["echo"],
        temperature="0.5",
        note="A first try.",
    )
    agent = saved(answer)
    version = agent.current_version
    assert (agent.kind, agent.version, version.number) == ("model", "1.0.0", 1)
    assert (version.author, version.note) == (admin_user, "A first try.")
    content = version.content
    assert (content["tools"], content["agents"], content["temperature"]) == (["calculate", "read_file"], ["echo"], 0.5)
    assert content["mcp_servers"] == [{"url": MCP, "header": "X-Key"}]
    [made] = agent.skills
    assert (made["id"], made["tags"]) == ("sort-mail", ["mail", "letters"])
    assert made["examples"] == ["Sort this.", "And that."]
    assert agent.tool_secrets.get().secret == "s3cret value"
    assert LogEntry.objects.get().user == admin_user


def test_an_unchanged_form_makes_no_version(admin_client):
    agent = saved(add(admin_client, skills=[skill(examples="One.")], servers=[server()], tools=["calculate"]))
    shown = admin_client.get(page_of(agent)).context["adminform"].form
    assert shown["instructions"].value() == "Answer in one sentence."
    assert shown["skills"].value()[0]["examples"] == "One."
    sent = change(admin_client, agent, skills=[skill(examples="One.")], servers=[server()], tools=["calculate"])
    assert saved(sent).versions.count() == 1
    saved(change(admin_client, agent))
    assert agent.versions.count() == 2


def test_versions_are_compared_and_downloaded(admin_client):
    agent = saved(add(admin_client, servers=[server(secret="s3cret")]))
    saved(change(admin_client, agent, instructions="Answer in <three> sentences."))
    version = Agent.objects.get().current_version
    page = reverse("admin:agents_agentversion_change", args=[version.pk])
    beside = admin_client.get(page).content.decode()
    assert "<del>instructions: Answer in one sentence.</del>" in beside
    assert "<ins>instructions: Answer in &lt;three&gt; sentences.</ins>" in beside
    assert admin_client.get(page, {"against": "9" * 50}).status_code == 200
    file = admin_client.get(action_of(version, "download"))
    assert file["Content-Disposition"] == 'attachment; filename="clerk-2.yaml"'
    assert "instructions: Answer in <three> sentences.\n" in file.content.decode()
    assert "s3cret" not in file.content.decode()


def test_unseen_versions_are_not_overwritten(admin_client, admin_user):
    agent = saved(add(admin_client))
    first = agent.current_version
    saved(change(admin_client, agent, instructions="Hers."))
    late = admin_client.post(page_of(agent), form(opened=1, instructions="His."))
    assert "Version 2 was saved by" in errors(late)["__all__"][0]
    assert Agent.objects.get().current_version.content["instructions"] == "Hers."
    admin_client.post(action_of(first, "revert"), {"_form_submitted": "True"})
    agent.refresh_from_db()
    assert (agent.current_version.number, agent.current_version.author) == (3, admin_user)


def test_a_secret_stays_until_replaced_forgotten_or_deleted(admin_client):
    agent = saved(add(admin_client, servers=[server(secret="opensesame")]))
    page = admin_client.get(page_of(agent)).content.decode()
    assert "opensesame" not in page
    assert "saved, not shown" in page
    for sent, kept in (
        (server(), ["opensesame"]),
        (server(url="https://other.example.org/mcp"), []),
        (server(secret="second"), ["second"]),
        (server(forget="on"), []),
        (server(secret="third"), ["third"]),
    ):
        saved(change(admin_client, agent, servers=[sent]))
        assert [one.secret for one in ToolSecret.objects.all()] == kept
    delete = reverse("admin:agents_agent_delete", args=[agent.pk])
    assert admin_client.post(delete, {"post": "yes"}).status_code == 302
    assert [kind.objects.count() for kind in (Agent, AgentVersion, ToolSecret)] == [0, 0, 0]


def test_each_right_is_needed_for_its_act(client, django_user_model, admin_client):
    def sign_in(*permissions):
        user = django_user_model.objects.create_user(f"{permissions}@example.org", "p", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client.force_login(user)

    agent, first = clerk(), clerk(name="Other").versions.last()
    version = reverse("admin:agents_agentversion_change", args=[first.pk])
    deletions = [reverse("admin:agents_agent_delete", args=[agent.pk]), version.replace("change", "delete")]
    sign_in("view_agent", "view_agentversion")
    assert client.get(page_of(agent)).status_code == client.get(version).status_code == 200
    assert "Go back to it" not in client.get(version).content.decode()
    for refused in (
        add(client, slug="another"),
        change(client, agent, instructions="Mine."),
        client.post(action_of(first, "revert")),
    ):
        assert refused.status_code == 403
    sign_in("view_agent", "change_agent", "view_agentversion")
    assert {client.post(page, {"post": "yes"}).status_code for page in deletions} == {403}
    sign_in("view_user")
    assert client.get(version).status_code == client.get(action_of(first, "download")).status_code == 403
    assert admin_client.post(version, {"note": "x"}).status_code == 403, "nobody changes a version"
    assert admin_client.get(reverse("admin:agents_agentversion_add")).status_code == 403
    assert Agent.objects.get().current_version.number == AgentVersion.objects.count() == 2


# Which policy holds for a tool, and who may set it.


SERVERS = [{"url": "https://tools.example.org/mcp"}]


@pytest.mark.parametrize(
    ("policies", "kind", "name", "declared", "expected"),
    [
        ({}, "mcp", "send", False, "run"),
        ({}, "function", "send", True, "ask"),
        ({"mcp:*": "ask"}, "mcp", "send", False, "ask"),
        ({"mcp:*": "ask"}, "function", "send", False, "run"),
        ({"mcp:*": "ask", "send": "never"}, "mcp", "send", False, "never"),
        ({"*": "run", "send_*": "ask_two"}, "mcp", "send_all", False, "ask_two"),
        ({"send": "run"}, "function", "send", True, "run"),
        ({"*": "run"}, "function", "send", True, "ask"),
        ({"*": "never"}, "function", "send", True, "never"),
        ({"sen?": "run", "?end": "never"}, "mcp", "send", False, "never"),
    ],
)
def test_the_most_exact_policy_counts(policies, kind, name, declared, expected):
    assert policy_for(policies, ToolKind(kind), name, declared) == expected


@pytest.mark.django_db
def test_a_first_mcp_servers_tools_ask():
    agent = clerk()
    assert policies_of(agent) == {}
    clerk(mcp_servers=SERVERS)
    assert policies_of(agent) == {"mcp:*": "ask"}
    set_policies(agent, {"mcp:*": "run"}, None)
    clerk(mcp_servers=[*SERVERS, {"url": "https://more.example.org/mcp"}])
    assert policies_of(agent) == {"mcp:*": "run"}


@pytest.mark.django_db
def test_the_audit_has_each_policy_that_operators_set(admin_client):
    agent = clerk()
    address = reverse("admin:agents_agent_change", args=[agent.pk])
    assert admin_client.post(address, form(opened=1, tool_policies="mcp:*=ask\nread_file=never")).status_code == 302
    assert policies_of(agent) == {"mcp:*": "ask", "read_file": "never"}
    assert "read_file=never" in admin_client.get(address).text
    assert admin_client.post(address, form(opened=2, tool_policies="read_file=ask")).status_code == 302
    set_by = AuditEntry.objects.filter(group="tool_policy").order_by("number").values_list("action", "details")
    assert [(action.partition(".")[2], said["tool"]) for action, said in set_by] == [
        ("set", "mcp:*"),
        ("set", "read_file"),
        ("removed", "mcp:*"),
        ("set", "read_file"),
    ]
    refused = admin_client.post(address, form(opened=2, tool_policies="read_file=perhaps"))
    assert refused.status_code == 200
    assert policies_of(agent) == {"read_file": "ask"}
