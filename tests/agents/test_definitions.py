"""What an agent without code may contain; errors are at their field."""

import pytest
from django.core.exceptions import ValidationError

from apps.agents import definitions
from apps.agents.definitions import MAX_FILE_BYTES, Definition, as_yaml
from apps.agents.registration import register_model
from parley import outbound
from parley.outbound.targets import Allowed
from tests.agents.definitions import PLAIN, clerk, definition

pytestmark = pytest.mark.django_db


def problems(**fields) -> dict[str, str]:
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


def test_a_skills_id_is_made_of_its_name():
    assert definition(skills=FULL["skills"]).stated["skills"][0]["id"] == "sort-mail"
    assert definition(skills=[{"name": "整理", "description": "d"}]).skills[0].id == "skill"
    told = {"id": "clerk", "name": "Clerk", "description": "Answers letters.", "tags": ["general"]}
    assert clerk().skills == [told]
    assert definition(instructions="one\r\ntwo\r\n") == definition(instructions="one\ntwo")


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"instructions": "  "}, "instructions", "cannot be empty"),
        ({"instructions": "a\0b"}, "instructions", "without control characters"),
        ({"temperature": 2.5}, "temperature", "less than or equal to 2"),
        ({"tools": ["nothing"]}, "tools", "Available tools: calculate, current_time, read_file."),
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


def test_a_module_without_offerable_tools_is_named(settings):
    for module, sentence in [
        ("tests.agents.another_clock", "Two functions of AGENT_TOOLS are named current_time."),
        ("nowhere.tools", "'nowhere.tools' of AGENT_TOOLS cannot be imported"),
        ("tests.agents.definitions", "has no tools: mark its functions with @tool()."),
    ]:
        settings.AGENT_TOOLS = ["apps.model_agents.tools", module]
        assert sentence in problems(tools=["current_time"])["tools"], module
    settings.AGENT_TOOLS = ["tests.agents.another_clock"]
    [offered] = definitions.registered_tools().values()
    assert (offered.name, offered.summary) == ("current_time", "Tells another time.")
    assert offered.function() == "never"
