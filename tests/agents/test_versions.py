"""Each change of an agent makes an immutable version, and can be reverted."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import rfc8785
from django.core.exceptions import ValidationError
from django.db import connection

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.agents import cards, versions
from apps.agents.definitions import MAX_FILE_BYTES, Definition, as_yaml
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import OneVersionOnly, register_hosted, register_model, revert
from parley import outbound
from parley.outbound.targets import Allowed
from tests.agents.definitions import PLAIN, clerk, definition

pytestmark = pytest.mark.django_db

ECHO = "examples.agents.echo:Echo"
HELLO = "examples.agents.hello:Hello"


def numbers(agent):
    return list(agent.versions.order_by("number").values_list("number", flat=True))


def test_only_a_change_makes_a_version():
    agent = clerk()
    assert clerk().pk == agent.pk
    assert numbers(agent) == [1]
    agent = clerk(instructions="Answer in two sentences.")
    assert numbers(agent) == [1, 2]
    assert agent.current_version.number == 2
    assert agent.versions.get(number=1).content["instructions"] == "Answer in one sentence."
    register_model("clerk", definition(instructions="Answer in two sentences."), access="public")
    assert Agent.objects.get().access == "public"
    assert numbers(agent) == [1, 2], "a policy is no part of a version"
    shown = cards.agent_card(clerk(name="Chief clerk", streaming=False, input_modes=["image/*"]))
    assert (shown["version"], shown["name"], shown["defaultInputModes"]) == ("1.2.0", "Chief clerk", ["image/*"])
    assert (shown["capabilities"]["streaming"], shown["capabilities"]["pushNotifications"]) == (False, True)


def test_a_version_has_a_hash_and_never_changes():
    version = AgentVersion.objects.get(pk=clerk(temperature=0.5).current_version_id)
    assert version.sha256 == hashlib.sha256(rfc8785.dumps(version.content)).hexdigest()
    assert version.content["temperature"] == 0.5
    version = clerk().current_version
    version.note = "other"
    with pytest.raises(TypeError, match="never changed"):
        version.save()


def test_a_hosted_agent_has_versions():
    agent = register_hosted("greeter", ECHO)
    register_hosted("greeter", ECHO, access="public")
    assert numbers(agent) == [1]
    agent = register_hosted("greeter", HELLO)
    assert numbers(agent) == [1, 2]
    assert [agent.current_version.content[field] for field in ("kind", "handler", "name")] == ["hosted", HELLO, "Hello"]
    assert agent.version == "1.0.0"
    with pytest.raises(OneVersionOnly):
        revert(agent.current_version, None)


def test_going_back_makes_a_new_version(ada):
    agent = clerk(name="First", skills=[{"name": "Sort", "description": "Sorts."}])
    first = agent.current_version
    clerk(name="Second")
    back = revert(first, ada)
    agent.refresh_from_db()
    assert (back.number, back.sha256, back.author, back.note) == (3, first.sha256, ada, "Back to version 1.")
    assert (agent.name, agent.current_version, agent.skills[0]["id"]) == ("First", back, "sort")
    entries = AuditEntry.objects.filter(object_key=str(agent.pk)).order_by("number")
    assert [(one.action, one.actor_name) for one in entries] == [
        (AuditAction.AGENT_REGISTERED, "Parley"),
        (AuditAction.VERSION_PUBLISHED, "Parley"),
        (AuditAction.VERSION_PUBLISHED, ada.email),
        (AuditAction.VERSION_RESTORED, ada.email),
    ]


def test_going_back_to_same_content_withdraws_nothing(ada):
    first = clerk(name="First").current_version
    clerk(name="Second")
    clerk(name="First")
    assert revert(AgentVersion.objects.get(pk=first.pk), ada).number == 3
    assert Agent.objects.get().withdrawn_versions == []


def test_withdrawn_version_made_current_again_is_not_withdrawn(ada):
    agent = clerk(name="First")
    proposed = versions.propose_version(agent, definition(name="Second").content)
    versions.withdraw(agent, proposed.number)
    assert clerk(name="Second").current_version == proposed
    assert Agent.objects.get().withdrawn_versions == []


@pytest.mark.services("two transactions wait for each other")
@pytest.mark.django_db(transaction=True)
def test_two_changes_at_once_make_two_versions():
    agent = clerk()

    def change(text):
        try:
            return clerk(instructions=text).current_version.number
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(change, ["left", "right"])) == [2, 3]
    agent.refresh_from_db()
    assert agent.current_version.number == 3


# What an agent without code may contain; errors are at their field.


def problems(**fields):
    with pytest.raises(ValidationError) as caught:
        register_model("clerk", definition(**fields))
    return {field: " ".join(messages) for field, messages in caught.value.message_dict.items()}


FULL = {
    **PLAIN,
    "instructions": "Answer in one sentence.\n\nBe kind: no shouting.",
    "model": "small-model",
    "temperature": 0.0,
    "max_tokens": 500,
    "max_steps": 3,
    "tools": ["current_time", "calculate"],
    "mcp_servers": [{"url": "https://tools.example.org/mcp", "header": "X-Key"}],
    "agents": ["echo"],
    "skills": [{"name": "Sort mail", "description": "Sorts.", "tags": ["mail"], "examples": ["Sort this: …"]}],
    "streaming": False,
}


def test_a_definition_is_read_as_it_was_written(echo):
    register_model("clerk", Definition.read(FULL))
    read = Definition.from_yaml(as_yaml(Definition.read(FULL).content))
    assert read == Definition.read(FULL)
    assert "instructions: |-\n  Answer in one sentence.\n\n  Be kind: no shouting.\n" in as_yaml(read.content)


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"instructions": "  "}, "instructions", "cannot be empty"),
        ({"instructions": "a\0b"}, "instructions", "without control characters"),
        ({"temperature": 2.5}, "temperature", "less than or equal to 2"),
        ({"tools": ["nothing"]}, "tools", "Available tools: "),
        ({"tools": ["calculate", "calculate"]}, "tools", "Listed twice: calculate."),
        ({"agents": ["clerk"]}, "agents", "An agent cannot call itself."),
        ({"agents": ["nobody"]}, "agents", "There is no agent nobody."),
        ({"mcp_servers": [{"url": "http://127.0.0.1/mcp"}]}, "mcp_servers", "private network"),
        ({"mcp_servers": [{"url": "file:///etc/passwd"}]}, "mcp_servers", "http"),
        ({"mcp_servers": [{"url": "https://a.example.org", "header": "A: b"}]}, "mcp_servers", "0.header: "),
        ({"mcp_servers": [{"url": "https://a.example.org", "secret": "s"}]}, "mcp_servers", "0.secret: "),
        ({"skills": [{"name": "A", "description": "a"}] * 2}, "skills", "Two skills have the id a."),
        ({"unknown": 1}, "unknown", "not permitted"),
    ],
)
def test_a_wrong_value_is_refused_at_its_field(fields, field, sentence):
    found = problems(**fields)
    assert list(found) == [field]
    assert sentence in found[field]


def test_operators_may_open_a_private_tool_server(monkeypatch):
    monkeypatch.setattr(outbound, "_guard", outbound.Guard(Allowed.read(["127.0.0.1"])))
    clerk(mcp_servers=[{"url": "http://127.0.0.1:9/mcp"}])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1, 2]", "Write a mapping"),
        ("a: [", "This is not valid YAML (line 1)"),
        ("!!python/object/apply:os.system ['true']", "This is not valid YAML"),
        ("name: x" + " " * MAX_FILE_BYTES, "larger than 200,000 bytes"),
    ],
    ids=["list", "open", "tag", "large"],
)
def test_a_file_that_is_no_definition_is_refused(text, sentence):
    with pytest.raises(ValidationError) as caught:
        Definition.from_yaml(text)
    assert sentence in " ".join(caught.value.messages)
