"""An agent without code is unavailable where what its version speaks of is missing, and well once it is mended."""

import pytest
from django.test import override_settings

from apps.agents.models import Agent, AgentVersion
from apps.runtime import observing
from tests.agents.definitions import clerk
from tests.agents.test_admin_without_code import change

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _with_model(settings):
    settings.LLM_MODEL, settings.LLM_BASE_URL, settings.LLM_API_KEY = "test-model", "http://127.0.0.1:1/v1", ""


def health_of(agent) -> tuple[str, str]:
    observing.examine()
    agent.refresh_from_db()
    return agent.health, agent.ailment


def test_one_that_lacks_something_is_unavailable_and_says_what(settings):
    lacking = [
        ({"LLM_MODEL": ""}, "No language model is configured. Set LLM_MODEL"),
        ({"LLM_BASE_URL": ""}, "The language model test-model cannot be reached. Set LLM_API_KEY"),
        ({"AGENT_TOOLS": ["tests.agents.another_clock"]}, "There is no tool calculate here"),
        ({"AGENT_TOOLS": ["nowhere.tools"]}, "The module 'nowhere.tools' of AGENT_TOOLS cannot be imported"),
    ]
    agent = clerk(tools=["calculate"])
    assert health_of(agent) == ("ok", "")
    for missing, sentence in lacking:
        with override_settings(**missing):
            health, ailment = health_of(agent)
        assert (health, ailment.startswith(sentence)) == ("unavailable", True), ailment
    settings.LLM_MODEL = ""
    assert health_of(clerk(model="its-own")) == ("ok", "")


def test_one_without_a_version_says_what_to_do():
    agent = clerk()
    Agent.objects.filter(pk=agent.pk).update(current_version=None)
    assert health_of(agent) == ("unavailable", "The agent clerk has no version: save it once more in admin.")


def test_a_version_that_cannot_be_read_is_told_and_holds_up_no_other_agent(echo):
    agent = clerk()
    AgentVersion.objects.filter(agent=agent).update(content={"kind": "model", "name": "Clerk"})
    Agent.objects.filter(pk=echo.pk).update(handler="gone_agents:Gone")
    health, ailment = health_of(agent)
    assert health == "unavailable"
    assert ailment.startswith("Its version 1 cannot be read: save it once more in admin.")
    echo.refresh_from_db()
    assert echo.health == "unavailable"


def test_looking_after_agents_takes_as_many_queries_for_many(django_assert_num_queries):
    for number in range(5):
        clerk(f"clerk-{number}")
    with django_assert_num_queries(2):
        observing.examine()


def test_it_is_well_as_soon_as_an_operator_has_mended_it(admin_client, settings):
    agent = clerk(tools=["calculate"])
    settings.AGENT_TOOLS = ["tests.agents.another_clock"]
    assert health_of(agent)[0] == "unavailable"
    answer = change(admin_client, agent, tools=[])
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    agent.refresh_from_db()
    assert (agent.health, agent.ailment) == ("ok", "")


def test_what_was_changed_meanwhile_is_not_called_ill_for_what_it_was(settings):
    agent = clerk(tools=["calculate"])
    settings.AGENT_TOOLS = ["tests.agents.another_clock"]
    clerk(tools=[])
    observing.note(agent, None)
    agent.refresh_from_db()
    assert agent.health == "ok"
