"""Which policy holds for a tool, and who may set it."""

import pytest
from django.urls import reverse

from agentkit.tools import ToolKind
from apps.accounts.audit_models import AuditEntry
from apps.agents.tool_policies import policies_of, policy_for, set_policies
from tests.agents.definitions import clerk
from tests.agents.test_admin_without_code import form

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
