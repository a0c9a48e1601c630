"""The SDK's types accept every card, with all required fields."""

import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from apps.agents import cards
from apps.agents.models import Agent
from apps.agents.registration import register_hosted

pytestmark = pytest.mark.django_db

BARE = Agent(slug="bare", name="Bare", description="Nothing but a name.", handler="x:Y")


def parsed(agent: Agent) -> AgentCard:
    """The card as the SDK reads it; unknown fields are errors."""
    return ParseDict(cards.agent_card(agent), AgentCard(), ignore_unknown_fields=False)


@pytest.fixture(params=["hello", "bare"])
def agent(request):
    if request.param == "bare":
        return BARE
    return register_hosted(request.param, f"examples.agents.{request.param}:{request.param.capitalize()}")


def test_a_card_has_all_that_the_protocol_requires_and_absolute_urls(agent, settings):
    card = parsed(agent)
    assert all((card.name, card.description, card.version, card.default_input_modes, card.default_output_modes))
    assert card.HasField("capabilities")
    assert card.skills
    for skill in card.skills:
        assert all((skill.id, skill.name, skill.description, skill.tags))
    settings.PUBLIC_BASE_URL = "https://agents.example.org"
    interfaces = parsed(agent).supported_interfaces
    assert {interface.url for interface in interfaces} == {f"https://agents.example.org/a2a/{agent.slug}"}
    assert [(one.protocol_version, one.protocol_binding, one.tenant) for one in interfaces] == [
        ("1.0", "JSONRPC", agent.slug),
        ("1.0", "HTTP+JSON", agent.slug),
        ("0.3", "JSONRPC", ""),
        ("0.3", "HTTP+JSON", ""),
    ]


def test_card_says_usual_duration(echo):
    echo.capabilities = {"usualSeconds": 90}
    [declared] = [one for one in parsed(echo).capabilities.extensions if one.uri.endswith("/ext/duration/v1")]
    assert declared.params["usualSeconds"] == 90


def test_a_card_asks_for_a_key_unless_everybody_may_come_in(echo):
    card = parsed(echo)
    assert card.security_schemes["apiKey"].http_auth_security_scheme.scheme == "Bearer"
    assert "apiKey" in card.security_requirements[0].schemes
    echo.access = Agent.Access.PUBLIC
    assert not parsed(echo).security_schemes
    assert not parsed(echo).security_requirements
    capabilities = parsed(echo).capabilities
    assert capabilities.streaming
    assert capabilities.push_notifications
    assert not capabilities.extended_agent_card
    echo.capabilities = {"streaming": False}
    assert not parsed(echo).capabilities.streaming
